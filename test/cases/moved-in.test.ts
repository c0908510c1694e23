/** Files that the session moved out of a path that isn't covered: their bytes exist nowhere else (as B26's kind, and more). */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { Story } from '../kit/story.ts';

const OLD = 'touch -d 2020-01-01 u.log out/r 2>/dev/null; sleep 0.3';

describeBackends('what was moved in is not deleted', (backend) => {
  test('an ignored file and an ignored folder that the agent moved stay where they are', async () => {
    await using story = await Story.begin(
      backend,
      `printf '*.log\\nout/\\n'>.gitignore; mkdir out; echo R>out/r; echo U>u.log; ${OLD}`,
    );
    await story.cp('a');
    await story.t('mv u.log u.txt; mv out out2; echo new>made.txt');
    const receipt = await story.undo('a');
    expect(story.space.read('u.txt')).toBe('U\n');
    expect(story.space.read('out2/r')).toBe('R\n');
    expect(story.space.exists('made.txt')).toBe(false);
    expect(receipt.refused.map(({ path, reason }) => `${path} ${reason}`)).toEqual([
      'out2/r moved-uncovered',
      'u.txt moved-uncovered',
    ]);
    expect(receipt.outcome).toBe('partial');
  });

  test('a file from outside the root stays, one that the agent copied in goes', async () => {
    await using story = await Story.begin(backend, 'mkdir ../out; echo O>../out/o; echo C>../out/c; sleep 0.3');
    await story.cp('a');
    await story.t('mv ../out/o o; cp ../out/c c');
    story.u('true');
    const session = story.session();
    const receipt = await session.restore('a');
    expect(receipt).toMatchObject({
      available: true,
      outcome: 'partial',
      refused: [{ path: 'o', reason: 'moved-uncovered' }],
    });
    expect(story.space.read('o')).toBe('O\n');
    expect(story.space.exists('c')).toBe(false);
  });

  test('covered files that moved go back, edited in place or not, hard links too', async () => {
    await using story = await Story.begin(
      backend,
      'mkdir A; for i in 1 2 3; do seq $i 40 >A/f$i; done; echo l>l; sleep 0.3',
    );
    await story.cp('a');
    await story.t('mkdir B; mv A/f1 A/f2 B/; mv A/f3 A/g3; echo extra>>B/f2; ln l l2');
    expect(await story.undo('a')).toMatchObject({ outcome: 'done', refused: [], failed: [] });
    expect(story.space.sh('ls -R | tr "\\n" " "')).toBe('.: A l  ./A: f1 f2 f3 ');
  });

  test('a file that was moved aside and written anew in one call goes back whole', async () => {
    await using story = await Story.begin(backend, 'echo old>f; echo k>k; sleep 0.3');
    await story.cp('a');
    await story.t('mv f f.bak; echo new>f; mv k l; mkdir k');
    expect(await story.undo('a')).toMatchObject({ outcome: 'done', refused: [], failed: [] });
    expect(story.space.sh('cat f k; ls | tr "\\n" " "')).toBe('old\nk\nf k ');
  });

  test('a secret that was moved, and written to by a later call, stays', async () => {
    await using story = await Story.begin(backend, 'echo KEY=x>.env; echo 1 >f; sleep 0.3');
    await story.cp('a');
    await story.t('mv .env e1', 'sed -i s/x/y/ e1; echo 2 >f');
    const receipt = await story.undo('a');
    expect(story.space.read('e1')).toBe('KEY=y\n');
    expect(story.space.read('f')).toBe('1\n');
    expect(receipt.refused.find(({ path }) => path === 'e1')).toMatchObject({ reason: 'moved-uncovered' });
  });

  test('redo does not bring back what the user had deleted in a folder that undo removes', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('mkdir d; echo b>d/b; echo d>d/d');
    story.u('rm d/d');
    const before = story.space.sh('find . | sort');
    await story.undo('a');
    expect(story.space.exists('d')).toBe(false);
    await story.redo();
    expect(story.space.sh('find . | sort')).toBe(before);
  });

  test('a data directory that the agent removed is an answer, and the tool’s result comes through', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f', { space: { dataDir: 'w/.data' } });
    await story.cp('a');
    const session = story.session();
    const ran = await session.call('c1', { tool: 'bash' }, () => {
      story.space.sh('rm -rf .data; echo 2 >f');
      return 'the result';
    });
    expect(ran.value).toBe('the result');
    expect(await session.undo()).toMatchObject({ available: false });
    await story.workspace.close();
    expect(story.space.read('f')).toBe('2\n');
  });
});
