/** Faults of ignore rules that differ from git's. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { Story } from '../kit/story.ts';

const B24 = `git init -q; printf 'build/\\n!/a/b/build/\\n/*/\\n!/a/\\n!/foo/\\n'>.gitignore
  mkdir -p build a/b/build a/c/build foo qux; for f in build/x a/b/build/y a/c/build/z foo/bar.js qux/q.js; do echo 1 >$f; done`;
const B24_FILES = ['build/x', 'a/b/build/y', 'a/c/build/z', 'foo/bar.js', 'qux/q.js'];

/** What git says, from the top of the repository. */
function ignoredByGit(story: Story, cwd: string, files: readonly string[]): string[] {
  const run = spawnSync('git', ['check-ignore', '--no-index', '--', ...files], {
    cwd,
    env: story.space.env,
    encoding: 'utf8',
  });
  return run.stdout.split('\n').filter((line) => line !== '');
}

describeBackends('ignore rules', (backend) => {
  // B24 · BurntSushi/ripgrep #2731 and kaelzhang/node-ignore #56
  test('negated folder rules mean what they mean to git', async () => {
    await using story = await Story.begin(backend, B24);
    const ignored = ignoredByGit(story, story.space.root, B24_FILES);
    expect(ignored).toEqual(['build/x', 'a/c/build/z', 'qux/q.js']);
    await story.cp('a');
    await story.t(`for f in ${B24_FILES.join(' ')}; do echo 2 >$f; done`);
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { 'a/b/build/y': 'restore', 'foo/bar.js': 'restore' },
    });
    expect(story.space.sh(`cat ${B24_FILES.join(' ')}`)).toBe('2\n1\n2\n1\n2\n');
  });

  test('the rules above the root hold when the root is a folder of the repository', async () => {
    await using story = await Story.begin(backend, `cd ..; ${B24}`, { space: { root: 'a' } });
    const ignored = ignoredByGit(story, story.space.base, B24_FILES);
    expect(ignored).toEqual(['build/x', 'a/c/build/z', 'qux/q.js']);
    await story.cp('a');
    await story.t('for f in b/build/y c/build/z; do echo 2 >$f; done');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'b/build/y': 'restore' } });
    expect(story.space.sh('cat b/build/y c/build/z')).toBe('1\n2\n');
  });

  test.each([
    [
      'nested files, the deeper one wins',
      "printf '*.o\\n'>.gitignore; mkdir -p s/t; printf '!keep.o\\n'>s/.gitignore; touch_all 'a.o s/keep.o s/b.o s/t/keep.o c'",
    ],
    [
      'info/exclude and escapes',
      "printf '\\\\!bang\\n\\\\#hash\\ntrail\\\\ \\n'>.git/info/exclude; touch_all '!bang #hash x'; echo 1 >'trail '",
    ],
    [
      'double stars',
      "printf 'a/**/z\\n**/q\\nm/**\\n!m/keep\\n'>.gitignore; mkdir -p a/b/c m d/e; touch_all 'a/z a/b/z a/b/c/z d/e/q q m/keep m/x d/y'",
    ],
    [
      'classes and question marks',
      "printf '[a-c].x\\n?y.x\\n[!d].z\\n'>.gitignore; touch_all 'a.x d.x xy.x y.x d.z e.z'",
    ],
    ['a folder pattern does not match a file', "printf 'd/\\n'>.gitignore; mkdir s; touch_all 'd s/d'"],
    ['anchored by a slash in the middle', "printf 'a/b\\n'>.gitignore; mkdir -p a x/a; touch_all 'a/b x/a/b'"],
    [
      'files of an ignored folder cannot be taken back in',
      "printf 'i/\\n!i/keep\\n'>.gitignore; mkdir i; touch_all 'i/keep i/x j'",
    ],
  ])('%s', async (_, setup) => {
    await using story = await Story.begin(
      backend,
      `touch_all() { for f in $1; do echo 1 >"$f"; done; }; git init -q; ${setup}`,
    );
    const files = story.space
      .sh("find . -name .git -prune -o -type f -printf '%P\\n'")
      .split('\n')
      .filter((f) => f !== '' && !f.endsWith('.gitignore'));
    const ignored = new Set(ignoredByGit(story, story.space.root, files));
    await story.cp('a');
    await story.t(
      'find . -name .git -prune -o -type f ! -name .gitignore -print0 | while IFS= read -r -d \'\' f; do echo 2 >"$f"; done',
    );
    const receipt = await story.undo('a');
    expect(receipt.restored.map((entry) => entry.path).sort()).toEqual(
      files.filter((file) => !ignored.has(file)).sort(),
    );
  });

  test('a tracked file that a rule matches is covered, and an untracked one beside it is not', async () => {
    await using story = await Story.begin(
      backend,
      "git init -q; mkdir -p gen/sub; echo 1 >gen/t; echo 1 >gen/sub/t; echo 1 >x.log; git add -A; git commit -qm i; printf 'gen/\\n*.log\\n'>.gitignore; echo 1 >gen/u; echo 1 >y.log",
    );
    await story.cp('a');
    await story.t('for f in gen/t gen/sub/t x.log gen/u y.log; do echo 2 >$f; done');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { 'gen/sub/t': 'restore', 'gen/t': 'restore', 'x.log': 'restore' },
    });
    expect(story.space.sh('cat gen/u y.log')).toBe('2\n2\n');
  });

  test('include and exclude of the caller go before git’s rules', async () => {
    await using story = await Story.begin(
      backend,
      "git init -q; printf 'dist/\\n'>.gitignore; mkdir dist; echo 1 >dist/keep; echo 1 >dist/x; echo 1 >a.tmp; echo 1 >b",
      {
        open: { include: ['dist/keep'], exclude: ['*.tmp'] },
      },
    );
    await story.cp('a');
    await story.t('for f in dist/keep dist/x a.tmp b; do echo 2 >$f; done');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { b: 'restore', 'dist/keep': 'restore' },
    });
  });
});
