/** Whether config and refs allow that git's objects stand for files. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { BorrowSources } from '../../src/backend/backend.ts';
import { borrowSources } from '../../src/git/borrow.ts';
import { ruleSources } from '../../src/git/context.ts';
import { Space } from '../kit/space.ts';

async function sources(setup: string): Promise<{ space: Space; borrow: BorrowSources | null }> {
  const space = new Space();
  space.sh(`git init -q -b main; echo 1 >f; git add f; git commit -qm c; ${setup}`);
  const places = {
    home: join(space.base, 'home'),
    xdg: join(space.base, 'home/.config'),
    system: join(space.base, 'etc/gitconfig'),
  };
  return { space, borrow: borrowSources(await ruleSources(space.root, places), places) };
}

test('a plain repository is one to borrow from; attributes of system and user count', async () => {
  const { space, borrow } = await sources('true');
  await using _space = space;
  expect(borrow).toEqual({
    top: space.root,
    gitDir: join(space.root, '.git'),
    commonDir: join(space.root, '.git'),
    attributes: [join(space.base, 'etc/gitattributes'), join(space.base, 'home/.config/git/attributes')],
  });
});

test('the file of attributes that the config names takes the place of the user’s', async () => {
  const { space, borrow } = await sources('git config core.attributesFile "~/mine"');
  await using _space = space;
  expect(borrow?.attributes[1]).toBe(join(space.base, 'home/mine'));
});

test('the filter of Git LFS and conversions of line ends are no obstacle', async () => {
  const { space, borrow } = await sources(
    'git config filter.lfs.clean "git-lfs clean -- %f"; git config filter.lfs.process x; git config core.autocrlf true',
  );
  await using _space = space;
  expect(borrow).not.toBeNull();
});

test.each([
  ['a filter', 'git config filter.rot.smudge x'],
  ['a filter whose name has that of LFS in it', 'git config filter.lfs.more.clean x'],
  ['a replaced object', 'git replace $(git rev-parse :f) $(echo 2 | git hash-object -w --stdin)'],
  [
    'a replaced object, its ref packed',
    'git replace $(git rev-parse :f) $(echo 2 | git hash-object -w --stdin); git pack-refs --all',
  ],
  ['a worktree elsewhere', 'git config core.worktree /tmp'],
  ['refs in another form', 'git config extensions.refStorage reftable'],
  ['ids of two kinds', 'git config extensions.compatObjectFormat sha256'],
])('nothing is borrowed: %s', async (_name, setup) => {
  const { space, borrow } = await sources(setup);
  await using _space = space;
  expect(borrow).toBeNull();
});

test('nothing is borrowed where a config of the user has a filter', async () => {
  const space = new Space();
  await using _space = space;
  space.sh('git init -q');
  const home = join(space.base, 'home');
  mkdirSync(join(space.base, 'inc'));
  writeFileSync(join(space.base, 'inc/more'), '[filter "rot"]\n\tclean = x\n');
  writeFileSync(join(home, '.gitconfig'), `[include]\n\tpath = ${join(space.base, 'inc/more')}\n`);
  const places = { home, xdg: join(home, '.config'), system: join(home, 'none') };
  expect(borrowSources(await ruleSources(space.root, places), places)).toBeNull();
});

test('nothing is borrowed without a repository', () => {
  expect(borrowSources({ repo: null, globalExcludes: null, ignoreCase: false, include: [], exclude: [] })).toBeNull();
});
