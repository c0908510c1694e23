/** Faults that took away more than the agent had made. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest, NOTHING } from '../kit/digest.ts';
import { Story } from '../kit/story.ts';

describeBackends('over-broad delete', (backend) => {
  // B01 · github/copilot-cli #1675
  test('undo leaves untracked files that the session only read or never saw', async () => {
    await using story = await Story.begin(
      backend,
      'git init -q; echo a>src.txt; git add -A; git commit -qm i; mkdir out; echo keep>out/r1.jsonl',
    );
    await story.cp('a');
    await story.t('echo b>src.txt; cat out/r1.jsonl; echo n>new.txt');
    story.u('echo more>out/r2.jsonl; mkdir notes; echo x>notes/n.md');
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({ outcome: 'done', restored: { 'src.txt': 'restore', 'new.txt': 'delete' } });
    expect(story.space.read('src.txt')).toBe('a\n');
    expect(story.space.exists('new.txt')).toBe(false);
    expect(story.space.sh('cat out/r1.jsonl out/r2.jsonl notes/n.md')).toBe('keep\nmore\nx\n');
  });

  test('a folder that the session made stays when the user put a file into it', async () => {
    await using story = await Story.begin(backend, 'echo a>a');
    await story.cp('a');
    await story.t('mkdir -p gen/deep; echo n>gen/deep/n; echo m>gen/m');
    story.u('echo mine>gen/deep/mine');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'partial',
      restored: { 'gen/deep/n': 'delete', 'gen/m': 'delete' },
      skipped: { gen: 'not-empty', 'gen/deep': 'not-empty' },
    });
    expect(story.space.sh('find . -type f | sort')).toBe('./a\n./gen/deep/mine\n');
  });

  test('ignored files that the session wrote into are left alone, in any folder', async () => {
    await using story = await Story.begin(
      backend,
      "git init -q; printf 'out/\\n*.log\\n'>.gitignore; mkdir -p out sub/out; echo 1 >out/a; echo 1 >sub/out/b; echo 1 >x.log; echo 1 >c",
    );
    await story.cp('a');
    await story.t('echo 2 >out/a; echo 2 >sub/out/b; echo 2 >x.log; echo 2 >out/new; echo 2 >c');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { c: 'restore' } });
    expect(story.space.sh('cat out/a sub/out/b x.log out/new c')).toBe('2\n2\n2\n2\n1\n');
  });

  test('a whole new tree of the session goes, the empty folders with it, and nothing beside it', async () => {
    await using story = await Story.begin(backend, 'mkdir -p keep/empty; echo k>keep/k');
    await story.cp('a');
    await story.t('mkdir -p x/y/z x/empty; echo 1 >x/1; echo 2 >x/y/2; echo 3 >x/y/z/3', 'ln -s ../keep x/link');
    story.u('echo mine>keep/mine');
    const receipt = await story.undo('a');
    expect(receipt.outcome).toBe('done');
    expect(story.space.sh('find . | sort')).toBe('.\n./keep\n./keep/empty\n./keep/k\n./keep/mine\n');
    await story.redo();
    expect(story.space.sh('find x | sort')).toBe('x\nx/1\nx/empty\nx/link\nx/y\nx/y/2\nx/y/z\nx/y/z/3\n');
  });

  // B02 · cline/cline #14367
  const ignoreDrift = async (to: 'a0' | 'a'): Promise<Story> => {
    const story = await Story.begin(
      backend,
      'git init -q; echo dist/>.gitignore; git add -A; git commit -qm i; echo a>a.txt',
    );
    await story.cp('a0');
    story.u('echo secret.db>>.gitignore; echo DATA>secret.db');
    await story.cp('a');
    await story.t('echo b>a.txt; echo dist/>.gitignore');
    expect(digest(await story.undo(to))).toEqual({
      outcome: 'done',
      restored: { '.gitignore': 'restore', 'a.txt': 'restore' },
    });
    return story;
  };

  test.each(['a', 'a0'] as const)('a file that only a dropped ignore rule hid survives undo to %s', async (to) => {
    await using story = await ignoreDrift(to);
    expect(story.space.read('secret.db')).toBe('DATA\n');
    expect(story.space.read('.gitignore'), 'the rule was the user’s, and stays').toBe('dist/\nsecret.db\n');
    expect(story.space.read('a.txt')).toBe('a\n');
  });

  test('a file that becomes visible at a later boundary belongs to nobody and survives every undo', async () => {
    await using story = await Story.begin(backend, 'git init -q; echo "*.db">.gitignore; echo DATA>my.db; echo 1 >f');
    await story.cp('a');
    await story.t('echo >.gitignore; echo 2 >f');
    await story.cp('b');
    await story.t('echo 3 >f');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { '.gitignore': 'restore', f: 'restore' },
    });
    expect(story.space.read('my.db')).toBe('DATA\n');
  });

  test('a file that the agent makes and ignores in one turn is listed uncovered and left', async () => {
    await using story = await Story.begin(backend, 'git init -q; echo 1 >f');
    await story.cp('a');
    await story.t('echo cache/>.gitignore; mkdir cache; echo c>cache/c; echo 2 >f');
    const receipt = await story.undo('a');
    expect(receipt.restored.map((entry) => entry.path)).toEqual(['.gitignore', 'f']);
    expect(story.space.read('cache/c')).toBe('c\n');
    expect(receipt.uncovered).toEqual([{ path: 'cache', reason: 'ignored' }]);
  });

  // B03 · anomalyco/opencode #12201
  test('undo takes back nothing of the user’s when the session changed nothing, and redo has nothing to do', async () => {
    await using story = await Story.begin(backend, 'echo one>q.md');
    await story.cp('a');
    await story.t('cat q.md');
    story.u('echo two>q.md');
    expect(digest(await story.undo('a'))).toEqual(NOTHING);
    expect(await story.redo()).toMatchObject({ outcome: 'nothing', message: 'Nothing to redo.' });
    expect(story.space.read('q.md')).toBe('two\n');
  });

  test('the user’s edits before, between and after calls are nobody’s to take back', async () => {
    await using story = await Story.begin(backend, 'echo 1 >before; echo 1 >between; echo 1 >after; echo 1 >agent');
    await story.cp('a');
    story.u('echo user>before');
    await story.t('echo 2 >agent');
    story.u('echo user>between; rm after; mkdir d; echo user>d/new; chmod 600 before');
    await story.t('echo 3 >agent');
    story.u('echo user>after; ln -s agent link');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { agent: 'restore' } });
    expect(story.space.sh('cat before between after d/new agent; readlink link; stat -c %a before')).toBe(
      'user\nuser\nuser\nuser\n1\nagent\n600\n',
    );
  });

  test('what the user did between the boundary and the agent’s first touch is what undo goes back to', async () => {
    await using story = await Story.begin(backend, 'echo boundary>f; echo boundary>g');
    await story.cp('a');
    story.u('echo user>f; rm g');
    await story.t('echo agent>f; echo agent>g');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore', g: 'delete' } });
    expect(story.space.read('f')).toBe('user\n');
    expect(story.space.exists('g')).toBe(false);
  });
});
