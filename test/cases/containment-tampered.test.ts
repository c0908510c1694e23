/**
 * Containment, part 4: a store whose rows name what no tree of ours holds. Each such path is refused by name, costs no other
 * path, and leads nowhere; `verify` and `export` tell it.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, test } from 'vitest';
import { workspaceDir } from '../../src/data-dir.ts';
import { encodeName } from '../../src/rel-path.ts';
import { describeResolvers, restore, Scene, told } from '../kit/containment.ts';
import { got } from '../kit/story.ts';

/** Label and path; `OUT` stands for the absolute path of the folder outside. */
const BAD: readonly (readonly [label: string, path: string, says: string])[] = [
  ['a name in the parent', '../out/f', 'refused: uncovered'],
  ['a folder outside', '../out/d/e/f', 'refused: uncovered'],
  ['an absolute path', 'OUT/f', 'refused: uncovered'],
  ['the password file', '/etc/passwd', 'refused: uncovered'],
  ['out through a folder', 'd/../../out/f', 'refused: uncovered'],
  ['out through a folder that is not there', 'no/../../out/f', 'refused: uncovered'],
  ['a parent as the last name', 'd/..', 'refused: uncovered'],
  ['the parent', '..', 'refused: uncovered'],
  ['the folder itself', '.', 'refused: uncovered'],
  ['an empty part', 'd//f', 'refused: uncovered'],
  ['a slash at the end', 'd/', 'refused: uncovered'],
  ['a NUL', 'f\udc00x', 'refused: uncovered'],
  ['a name of 256 bytes', 'x'.repeat(256), 'refused: uncovered'],
  ['through a link out', 'l/f', 'refused: changed-outside-session'],
  ['below a link out', 'l/d/e/f', 'refused: changed-outside-session'],
  ['the repository', '.git/config', 'refused: uncovered'],
  ['a nested repository', 'd/.git/config', 'refused: uncovered'],
  ['a stream of the repository', '.git::$INDEX_ALLOCATION/config', 'refused: uncovered'],
  ['an 8.3 repository', 'GIT~1/config', 'refused: uncovered'],
];

/** The turn’s acts: the outside’s own bytes are the last result, so that nothing but the path stands in the way. */
const ACTS = {
  replace: { setup: 'echo base', turn: 'echo outside' },
  delete: { setup: 'true', turn: 'echo outside' },
  /** Nothing is there now: it would be made. */
  recreate: { setup: 'echo base', turn: 'rm' },
} as const;

const SETUP =
  'ln -s ../out l; mkdir -p d/.git .git ".git::\\$INDEX_ALLOCATION" GIT~1; for f in .git d/.git ".git::\\$INDEX_ALLOCATION" GIT~1; do echo outside >"$f/config"; done';

function pathOf(scene: Scene, path: string): string {
  return path.replace('OUT', join(scene.space.base, 'out'));
}

/** Renames rows of the newest observation; closes the store for it, and opens it again. */
async function tampered(
  how: Parameters<typeof Scene.open>[1],
  scene: Scene,
  names: readonly (readonly [string, string])[],
) {
  const { space } = scene;
  await scene.workspace.close();
  const home = workspaceDir(space.dataDir, space.root);
  const database = new DatabaseSync(join(home, 'timeline.db'));
  for (const [from, to] of names) database.exec(`UPDATE rows SET path = x'${hex(to)}' WHERE path = x'${hex(from)}'`);
  database.close();
  // The index is made anew from the rows.
  rmSync(join(home, 'index'), { force: true });
  return Scene.open(space, how);
}

const hex = (path: string): string => encodeName(path).toString('hex');

describeResolvers('containment: a tampered store', (how) => {
  for (const act of Object.keys(ACTS) as (keyof typeof ACTS)[]) {
    const shell = (which: 'setup' | 'turn'): string =>
      BAD.map((_, i) => {
        const does = ACTS[act][which];
        if (does === 'true') return 'true';
        return does === 'rm' ? `rm t/${i}` : `${does} >t/${i}`;
      }).join('; ');

    async function begun(): Promise<Scene> {
      const scene = await Scene.begin(how, `${SETUP}; mkdir t; echo base >fine; ${shell('setup')}`);
      got(await scene.session.capture('m1'));
      got(await scene.session.beginCall('c1'));
      scene.space.sh(`${shell('turn')}; echo turn >fine`);
      got(await scene.session.endCall('c1'));
      scene.space.sh('rm -r t');
      return tampered(
        how,
        scene,
        BAD.map(([, path], i) => [`t/${i}`, pathOf(scene, path)] as const),
      );
    }

    test(`${act}: each path is refused by name, the fine one is restored, and nothing is touched outside`, async () => {
      await using scene = await begun();
      const plan = got(await scene.session.plan('m1'));
      const planned = plan.entries.filter(
        (entry) => entry.path !== 'fine' && entry.action !== 'refuse' && entry.action !== 'skip',
      );
      // Below a repository that is not one to this file system there may be nothing: the backend refuses what a plan lets through.
      expect(planned.filter((entry) => !/git/i.test(entry.path))).toEqual([]);
      const receipt = await scene.watched(() => restore()(scene.session));
      const said = told(receipt);
      expect(said.fine).toBe('restored: restore');
      expect(scene.space.read('fine')).toBe('base\n');
      for (const [label, path, says] of BAD) {
        const found = said[pathOf(scene, path)];
        if (act === 'delete' && says.endsWith('session')) expect(found, label).toBe('skipped: already-matches');
        else expect(found, `${label}: ${path}`).toBe(says);
      }
    });

    test(`${act}: undo, redo, revert and overwrite touch nothing outside either`, async () => {
      await using scene = await begun();
      const { session } = scene;
      const before = scene.looks();
      for (const run of [
        () => session.undo(),
        () => session.redo(),
        () => session.revert({ messageId: 'm1' }),
        () => session.unrevert(),
        () => session.revertTurn('m1'),
        () => session.restore('m1', { onConflict: 'overwrite' }),
        () => session.redo(),
        () => session.restore('m1', { onConflict: 'merge' }),
      ])
        await run();
      expect([...scene.looks().outside]).toEqual([...before.outside]);
      expect(scene.space.sh('cat .git/config d/.git/config')).toBe('outside\noutside\n');
    });
  }

  test('verify names each path, export tells it, and both go on', async () => {
    await using first = await Scene.begin(
      how,
      `${SETUP}; mkdir t; echo base >fine; for i in $(seq 0 ${BAD.length - 1}); do echo base >t/$i; done`,
    );
    const { position } = got(await first.session.capture('m1'));
    got(await first.session.beginCall('c1'));
    first.space.sh('for f in t/*; do echo turn >$f; done; echo turn >fine');
    got(await first.session.endCall('c1'));
    const scene = await tampered(
      how,
      first,
      BAD.map(([, path], i) => [`t/${i}`, pathOf(first, path)] as const),
    );
    const { ok, problems } = got(await scene.workspace.verify());
    expect(ok).toBe(false);
    const named = problems.filter(({ kind }) => kind === 'row').map(({ path }) => path as string);
    const bad = BAD.slice(0, 13).map(([, path]) => pathOf(scene, path));
    expect([...named].sort()).toEqual([...bad].sort());

    const before = scene.looks();
    const target = mkdtempSync(join(scene.space.base, 'export-'));
    const result = got(await scene.workspace.export(position, target));
    expect(scene.space.sh('cat fine', { cwd: target })).toBe('base\n');
    expect(
      lstatSync(join(target, 'l')).isDirectory(),
      'a name below a link is written into a folder, not through it',
    ).toBe(true);
    expect(result.failed.find(({ path }) => path === 'l')).toMatchObject({ reason: 'exists' });
    const failed = result.failed.map(({ path }) => path as string);
    for (const [label, path] of BAD)
      expect(failed.includes(pathOf(scene, path)) || path.startsWith('l'), label).toBe(true);
    expect(
      readdirSync(target).filter((name) => /git/i.test(name)),
      'no repository is made',
    ).toEqual([]);
    rmSync(target, { recursive: true });
    expect([...scene.looks().outside].filter(([path]) => path !== 'export-')).toEqual([...before.outside]);
  });
});
