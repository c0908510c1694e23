/**
 * What becomes of a borrowed baseline: whatever happens to the repository, the store gives back the bytes that were
 * captured. Git makes the repositories; it is the oracle of what an object holds.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, copyFileSync, mkdirSync, openSync, readdirSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { describeBackends } from '../kit/backends.ts';
import { commitPacked, FILES, pins, ripen, tree } from '../kit/borrowed.ts';
import { digest } from '../kit/digest.ts';
import { Space } from '../kit/space.ts';
import { got, Story } from '../kit/story.ts';

/** Sizes that deltas are made for. */
const MORE = 'seq 3000 >src/deep/long; echo x >run; chmod 755 run; : >src/empty';

let exports = 0;

async function exported(story: Story, position: string): Promise<Record<string, string>> {
  const target = join(story.space.base, `exported-${++exports}`);
  got(await story.workspace.export(position, target));
  return tree(target);
}

function segmentsDir(space: Space): string {
  const [name] = readdirSync(join(space.dataDir, 'workspaces'));
  return join(space.dataDir, 'workspaces', name as string, 'segments');
}

const borrowedDir = (space: Space): string => join(segmentsDir(space), '..', 'borrowed');

async function verified(story: Story): Promise<void> {
  expect(got(await story.workspace.verify())).toMatchObject({ ok: true, problems: [] });
}

/** Gc by another process. */
function collectElsewhere({ root, dataDir }: Space, backend: BackendKind): void {
  const index = new URL('../../dist/index.js', import.meta.url).href;
  const script = `const { openWorkspace } = await import(${JSON.stringify(index)});
    const workspace = await openWorkspace(${JSON.stringify({ root, dataDir, backend })});
    const gc = await workspace.gc();
    await workspace.close();
    if (!gc.available) throw new Error(gc.detail);`;
  execFileSync(process.execPath, ['--input-type=module', '-e', script], { stdio: 'pipe' });
}

/** Takes what the pinned packs hold away, byte by byte, from a place on. */
function damage(space: Space): void {
  for (const pack of pins(space)) {
    const fd = openSync(join(pack), 'r+');
    for (let at = 12; at < statSync(pack).size - 20; at++) writeSync(fd, Buffer.from([0x55]), 0, 1, at);
    closeSync(fd);
  }
}

describeBackends(
  'a borrowed baseline',
  (backend: BackendKind) => {
    const begin = async (after = 'true', more = MORE): Promise<Story> => {
      const story = await Story.begin(backend, `${commitPacked(more)}; ${after}`);
      ripen(story.space);
      return story;
    };

    test('edits, a deletion, a mode, a move and a folder that went come back; nothing was read before', async () => {
      await using story = await begin();
      const before = tree(story.space.root);
      const { storedFiles, position } = await story.cp('a');
      expect(storedFiles).toBe(0);
      const changes = await story.t(
        'echo new >src/f1; rm src/f2; chmod 755 src/f3; mv src/f4 moved; touch src/f5; rm -r src/deep; printf x >>run',
      );
      expect(changes.map(({ path, kind }) => `${kind} ${path}`)).toEqual([
        'moved moved',
        'modified run',
        'deleted src/deep/long',
        'modified src/f1',
        'deleted src/f2',
        'modified src/f3',
      ]);
      await verified(story);
      expect(await exported(story, position)).toEqual(before);
      expect((await story.undo('a')).outcome).toBe('done');
      expect(tree(story.space.root)).toEqual(before);
      await verified(story);
      expect((await story.redo()).outcome).toBe('done');
      expect(story.space.read('src/f1')).toBe('new\n');
    });

    test.each([
      ['git gc --prune=now', 'git gc -q --prune=now'],
      ['repack -ad', 'echo more >more; git add more; git commit -qm two; git repack -adq'],
      ['rm -rf .git', 'rm -rf .git'],
    ])('after %s and two collections the captured bytes are there', async (_name, command) => {
      await using story = await begin();
      const before = tree(story.space.root);
      const { position } = await story.cp('a');
      await story.t('echo new >src/f1; rm src/f2');
      story.u(`${command}; rm -f more`);
      got(await story.workspace.gc());
      await story.t('rm src/f7; echo other >src/deep/long');
      got(await story.workspace.gc());
      await verified(story);
      expect(await exported(story, position)).toEqual(before);
      expect((await story.undo('a')).outcome).toBe('done');
      expect(tree(story.space.root)).toEqual(before);
    });

    test('a pack of which the pin is the last name is let go of, and what is needed of it is kept', async () => {
      await using story = await begin();
      const { position } = await story.cp('a');
      const before = tree(story.space.root);
      got(await story.workspace.gc());
      expect(pins(story.space)).toHaveLength(1);
      story.u('rm -rf .git');
      got(await story.workspace.gc());
      expect(pins(story.space)).toEqual([]);
      await verified(story);
      await story.reopen();
      expect(await exported(story, position)).toEqual(before);
    });

    test('the checkout of another branch is a change like any other', async () => {
      await using story = await begin(
        'git checkout -qb other; echo o >src/f1; rm src/f2; git commit -qam o; git checkout -q main; git gc -q',
      );
      const before = tree(story.space.root);
      const { storedFiles, position } = await story.cp('a');
      // Checked out a moment ago, and packed since.
      expect(storedFiles).toBe(0);
      await story.t('git checkout -q other');
      expect(story.space.read('src/f1')).toBe('o\n');
      expect(await exported(story, position)).toEqual(before);
      expect((await story.undo('a')).outcome).toBe('done');
      expect(tree(story.space.root)).toEqual(before);
    });

    test('an index that was lost is made anew without a change: files are compared with their objects', async () => {
      await using story = await begin();
      await story.cp('a');
      await story.workspace.close();
      rmSync(join(segmentsDir(story.space), '..', 'index'));
      await story.reopen();
      const again = await story.cp('b');
      expect(again.storedFiles).toBe(0);
      expect(await story.t('echo new >src/f1')).toHaveLength(1);
      expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'src/f1': 'restore' } });
      expect(got(await story.workspace.stats()).counts.rows).toBe(2);
    });

    test('verify with rehash finds no change in what was borrowed, and an edit that no stat key shows', async () => {
      await using story = await begin();
      await story.cp('a');
      expect(got(await story.workspace.verify({ rehash: true }))).toMatchObject({ ok: true, problems: [] });
      story.u('touch src/f1');
      expect(got(await story.workspace.verify({ rehash: true }))).toMatchObject({ ok: true, problems: [] });
    });

    test('what rules hide later leaves coverage with bytes of our own', async () => {
      await using story = await begin('true', `${MORE}; mkdir late; echo 1 >late/x`);
      const { position } = await story.cp('a');
      const before = tree(story.space.root);
      story.u('git rm -rq --cached late; echo late >.gitignore');
      await story.cp('b');
      await verified(story);
      expect((await exported(story, position))['late/x']).toBe(before['late/x']);
    });

    test('a damaged pack costs what only it had, and no other path; verify tells', async () => {
      await using story = await begin();
      await story.cp('a');
      await story.t('echo new >src/f1');
      // A collection would not find the bytes good any more; what was taken into the store before is.
      damage(story.space);
      await story.reopen();
      const result = got(await story.workspace.verify());
      expect(result.ok).toBe(false);
      // What was taken out of the pack before can't be compared with it any more.
      expect(new Set(result.problems.map(({ kind }) => kind))).toEqual(new Set(['blob', 'chain']));
      const changes = await story.t('rm src/f2; echo added >added');
      expect(changes.map(({ path }) => path)).toEqual(['added', 'src/f2']);
      expect(digest(await story.undo('a'))).toMatchObject({
        outcome: 'partial',
        refused: { 'src/f2': 'uncovered' },
        restored: { added: 'delete', 'src/f1': 'restore' },
      });
    });

    test('a dropped session lets go of the packs', async () => {
      await using story = await begin();
      await story.cp('a');
      expect(got(await story.workspace.stats()).bytes.borrowed).toBeGreaterThan(0);
      got(await story.session().drop());
      expect(pins(story.space)).toEqual([]);
      expect(got(await story.workspace.stats()).bytes.borrowed).toBe(0);
      expect((await story.cp('b')).storedFiles).toBe(0);
      expect(pins(story.space)).toHaveLength(1);
    });

    test('a process that died between pin and commit leaves what gc takes away', async () => {
      await using story = await begin();
      await story.cp('a');
      const [pack] = pins(story.space);
      // No process has this number.
      const left = join(borrowedDir(story.space), '4194999-1-0123abcd');
      mkdirSync(left);
      copyFileSync(pack as string, join(left, 'pack-left.pack'));
      got(await story.workspace.gc());
      expect(pins(story.space)).toEqual([pack]);
    });

    test('nothing is written to .git: only the packs have one name more', async () => {
      await using story = await begin();
      const look = (): string => story.space.sh("find .git -printf '%p %s %m %i %T@ %n\\n' | sort");
      const before = look();
      await story.cp('a');
      const names = (text: string): string[] => text.split('\n').filter((line) => /\.(pack|idx) /.test(line));
      const rest = (text: string): string[] => text.split('\n').filter((line) => !/\.(pack|idx) /.test(line));
      expect(rest(look())).toEqual(rest(before));
      expect(names(look())).toEqual(names(before).map((line) => line.replace(/1$/, '2')));
    });

    test.each([
      ['an index of version 4', 'git init -q -b main', 'git update-index --index-version 4'],
      ['a repository of SHA-256', 'git init -q -b main --object-format=sha256', 'true'],
    ])('%s', async (_name, init, after) => {
      await using story = await Story.begin(backend, `${commitPacked(MORE, init)}; ${after}`);
      ripen(story.space);
      const before = tree(story.space.root);
      const { storedFiles, position } = await story.cp('a');
      expect(storedFiles).toBe(0);
      await story.t('rm -r src');
      await verified(story);
      expect(await exported(story, position)).toEqual(before);
      expect((await story.undo('a')).outcome).toBe('done');
      expect(tree(story.space.root)).toEqual(before);
    });

    test('a linked worktree borrows from the common repository, and a root inside one from it', async () => {
      const space = new Space();
      space.sh(`${commitPacked(MORE)}; git worktree add -q ../linked; touch -d now ../linked`);
      const index = space.sh('git -C ../linked rev-parse --absolute-git-dir').trim();
      space.sh(`touch ${index}/index; touch .git/index`);
      await using _space = space;
      for (const root of ['linked', 'w/src']) {
        const workspace = await space.open(backend, { root: join(space.base, root) });
        const { storedFiles, scannedFiles } = got(await workspace.session({ threadId: 't' }).capture('a'));
        expect([root, storedFiles]).toEqual([root, 0]);
        expect(scannedFiles).toBeGreaterThan(FILES);
        await workspace.close();
      }
    });

    test('the portable backend takes in what is borrowed, and both go on with the store', async () => {
      await using story = await begin();
      const before = tree(story.space.root);
      const { position } = await story.cp('a');
      await story.t('echo new >src/f1; rm src/f2');
      story.u('rm -rf .git');
      await story.reopen({ backend: 'portable' });
      expect(await exported(story, position)).toEqual(before);
      await verified(story);
      expect(await story.t('rm src/f7; touch src/f8')).toHaveLength(1);
      got(await story.workspace.gc());
      expect(pins(story.space)).toEqual([]);
      await verified(story);
      expect(await exported(story, position)).toEqual(before);
      await story.reopen({ backend: 'native' });
      await verified(story);
      expect(await story.t('echo more >src/f9; touch src/f10')).toHaveLength(1);
      expect((await story.undo('a')).outcome).toBe('done');
      expect(tree(story.space.root)).toEqual(before);
      got(await story.workspace.gc());
      expect(await exported(story, position)).toEqual(before);
    });

    test('a portable process beside a native one takes in, and the native one goes on', async () => {
      await using story = await begin();
      const before = tree(story.space.root);
      const { position } = await story.cp('a');
      collectElsewhere(story.space, 'portable');
      expect(pins(story.space)).toEqual([]);
      await story.t('rm -r src');
      await verified(story);
      expect(await exported(story, position)).toEqual(before);
      expect((await story.undo('a')).outcome).toBe('done');
      expect(tree(story.space.root)).toEqual(before);
    });
  },
  ['native'],
);
