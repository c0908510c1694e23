import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { RuleSources, Segments, Tree, TreeOptions } from '../../src/backend/backend.ts';
import { loadAddon } from '../../src/backend/load-addon.ts';
import { NativeBackend } from '../../src/backend/native.ts';
import { asRelPath, decodeName } from '../../src/rel-path.ts';

const STORE = 'a'.repeat(32);
const first = { seq: 1, observationId: '1'.repeat(32) };
const second = { seq: 2, observationId: '2'.repeat(32) };
const sources: RuleSources = { repo: null, globalExcludes: null, ignoreCase: false, include: [], exclude: [] };
const loaded = loadAddon();

if ('missing' in loaded) test.skip('native tree: skipped, the addon is not built here', () => undefined);
else {
  describe('native tree', () => {
    const backend = new NativeBackend(loaded.addon);
    let top: string;
    let root: string;
    let segments: Segments;
    let options: TreeOptions;
    let tree: Tree;

    beforeEach(async () => {
      top = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-native-tree-')));
      root = join(top, 'root');
      for (const name of ['root', 'root/src', 'data', 'data/scratch', 'data/journal', 'data/trash'])
        mkdirSync(join(top, name));
      writeFileSync(join(root, 'a.txt'), 'one');
      chmodSync(join(root, 'a.txt'), 0o644);
      writeFileSync(join(root, 'src', 'b.txt'), 'two', { mode: 0o600 });
      writeFileSync(join(root, '.env'), 'KEY=secret');
      symlinkSync('a.txt', join(root, 'link'));
      segments = await backend.openSegments({ dir: join(top, 'data', 'segments'), seed: 5n });
      options = {
        root,
        indexFile: join(top, 'data', 'index'),
        storeId: STORE,
        segments,
        skip: [asRelPath('.takeback')],
        maxFileBytes: 1 << 20,
        maxEntries: 1000,
        scratchDir: join(top, 'data', 'scratch'),
      };
      tree = await backend.openTree(options);
    });
    afterEach(async () => {
      await tree.close();
      await segments.close();
      rmSync(top, { recursive: true });
    });

    /** The first capture: all that is there becomes the index. */
    async function capture(): Promise<void> {
      await tree.reset(null, null);
      const { set } = await tree.scan({ renewRules: sources });
      await tree.ingest(set);
      await tree.commit(set, first);
    }

    test('a first capture takes the tree in, and the next process goes on from the index file', async () => {
      expect(await tree.load()).toBe(null);
      await tree.reset(null, null);
      const scanned = await tree.scan({ renewRules: sources });
      expect(scanned).toMatchObject({ files: 3, suspects: 2, problems: [] });
      expect(await tree.ingest(scanned.set)).toMatchObject({
        filesHashed: 2,
        storedFiles: 2,
        storedBytes: 6,
        left: 0,
        problems: [],
      });
      const changes = await tree.changes(scanned.set);
      expect(changes.map(({ path, after }) => [path, after.kind])).toEqual([
        ['.env', 'uncovered'],
        ['a.txt', 'file'],
        ['link', 'symlink'],
        ['src', 'dir'],
        ['src/b.txt', 'file'],
      ]);
      expect(await tree.uncovered(scanned.set)).toEqual([{ path: '.env', reason: 'secret' }]);
      const manifest = await tree.manifest(scanned.set);
      expect(manifest).toEqual({ hash: expect.stringMatching(/^[0-9a-f]{32}$/), entries: 5 });
      await tree.commit(scanned.set, first);
      const rules = await tree.rules();
      expect(rules?.length).toBeGreaterThan(0);

      const next = await backend.openTree(options);
      expect(await next.load()).toEqual(first);
      expect(await next.list(asRelPath('src'))).toEqual(['src/b.txt']);
      const [a, none] = await next.versions([asRelPath('a.txt'), asRelPath('none')]);
      expect([a, none]).toEqual([
        { kind: 'file', mode: 0o644, size: 3, content: expect.any(String) },
        { kind: 'absent' },
      ]);
      await next.reset(manifest.hash, first);
      expect(await next.versions([asRelPath('a.txt')])).toEqual([a]);
      await next.close();
    });

    test('a later scan gives what changed since, and rows of others are taken in', async () => {
      await capture();
      writeFileSync(join(root, 'a.txt'), 'changed');
      rmSync(join(root, 'link'));
      const { set } = await tree.scan();
      await tree.ingest(set);
      const changes = await tree.changes(set);
      expect(changes.map(({ path, before, after }) => [path, before.kind, after.kind])).toEqual([
        ['a.txt', 'file', 'file'],
        ['link', 'symlink', 'absent'],
      ]);
      await tree.discard(set);
      await tree.catchUp(changes, second);
      const again = await tree.scan();
      await tree.ingest(again.set);
      expect(await tree.changes(again.set)).toEqual([]);
    });

    test('peek tells what is there now, and reads a secret only where an include pattern names it', async () => {
      await capture();
      const paths = ['.env', 'a.txt', 'none', 'src'].map(asRelPath);
      const [env, a, none, src] = await tree.peek(paths);
      expect(env?.version).toMatchObject({ kind: 'uncovered', reason: 'secret' });
      expect(a).toMatchObject({ path: 'a.txt', version: { kind: 'file', mode: 0o644, size: 3 }, nlink: 1 });
      expect(none).toMatchObject({ version: { kind: 'absent' }, ino: 0n });
      expect(src).toMatchObject({ version: { kind: 'dir' }, names: ['b.txt'] });
      const { set } = await tree.scan({ renewRules: { ...sources, include: ['.env'] } });
      await tree.discard(set);
      const renewed = await tree.scan({ renewRules: { ...sources, include: ['.env'] } });
      await tree.ingest(renewed.set);
      await tree.commit(renewed.set, second);
      const [included] = await tree.peek([asRelPath('.env')]);
      expect(included?.version).toMatchObject({ kind: 'file', size: 10 });
    });

    test('apply restores, recreates and deletes under guard, and refuses what changed', async () => {
      await capture();
      const [a, b] = await tree.versions(['a.txt', 'src/b.txt'].map(asRelPath));
      if (a === undefined || b === undefined) throw new Error('both are in the index');
      writeFileSync(join(root, 'a.txt'), 'changed');
      rmSync(join(root, 'src', 'b.txt'));
      writeFileSync(join(root, 'new.txt'), 'new');
      writeFileSync(join(root, 'mine.txt'), 'mine');
      const [now, fresh, mine] = await tree.peek(['a.txt', 'new.txt', 'mine.txt'].map(asRelPath));
      if (!now || !fresh || !mine) throw new Error('all are on disk');
      writeFileSync(join(root, 'mine.txt'), 'edited');
      const journal = join(top, 'data', 'journal', 'op.journal');
      const outcomes = await tree.apply({
        operationId: 'c'.repeat(32),
        journal,
        trash: join(top, 'data', 'trash'),
        durability: 'fast',
        entries: [
          { path: asRelPath('a.txt'), expect: now.version, target: a },
          { path: asRelPath('src/b.txt'), expect: { kind: 'absent' }, target: b },
          { path: asRelPath('new.txt'), expect: fresh.version, target: { kind: 'absent' } },
          { path: asRelPath('mine.txt'), expect: mine.version, target: { kind: 'absent' } },
        ],
      });
      const byPath = new Map(outcomes.map((outcome) => [outcome.path as string, outcome]));
      expect(['a.txt', 'src/b.txt', 'new.txt'].map((path) => byPath.get(path)?.status)).toEqual([
        'done',
        'done',
        'done',
      ]);
      expect(byPath.get('mine.txt')).toMatchObject({ status: 'refused', found: { kind: 'file', size: 6 } });
      expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('one');
      expect(readFileSync(join(root, 'src', 'b.txt'), 'utf8')).toBe('two');
      expect(statSync(join(root, 'src', 'b.txt')).mode & 0o777).toBe(0o600);
      expect(existsSync(join(root, 'new.txt'))).toBe(false);
      expect(readFileSync(join(root, 'mine.txt'), 'utf8')).toBe('edited');
      expect(existsSync(journal)).toBe(true);
      await tree.finish(journal);
      expect(existsSync(journal)).toBe(false);
      const emptied = await tree.emptyTrash(join(top, 'data', 'trash'));
      expect(emptied).toMatchObject({ freedBytes: 'changed'.length + 'new'.length, lateWrites: [] });
    });

    test('recover rolls an operation back that did not finish', async () => {
      await capture();
      const [a] = await tree.versions([asRelPath('a.txt')]);
      writeFileSync(join(root, 'a.txt'), 'changed');
      const [now] = await tree.peek([asRelPath('a.txt')]);
      if (!a || !now) throw new Error('it is there');
      const journal = join(top, 'data', 'journal', 'op.journal');
      const trash = join(top, 'data', 'trash');
      const entries = [{ path: asRelPath('a.txt'), expect: now.version, target: a }];
      await tree.apply({ operationId: 'd'.repeat(32), journal, trash, durability: 'full', entries });
      const recovered = await tree.recover({ journal, trash, mode: 'rollback' });
      expect(recovered).toEqual({ operationId: 'd'.repeat(32), paths: [{ path: 'a.txt', state: 'old' }] });
      expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('changed');
      expect(existsSync(journal)).toBe(false);
    });

    test('a name that is not UTF-8 goes through and back', async () => {
      const bytes = Buffer.from([0x62, 0x61, 0x64, 0xff]);
      writeFileSync(Buffer.concat([Buffer.from(`${root}/`), bytes]), 'x');
      await capture();
      const path = asRelPath(decodeName(bytes));
      expect(await tree.list(asRelPath(''))).toContain(path);
      expect((await tree.peek([path]))[0]).toMatchObject({ path, version: { kind: 'file', size: 1 } });
    });

    test('abilities are told, signals cancel, and a closed tree says so', async () => {
      const abilities = await tree.abilities();
      expect(abilities.symlinks).toBe(true);
      expect(abilities.tickNs).toBeGreaterThan(0n);
      const signal = AbortSignal.abort();
      await tree.reset(null, null);
      await expect(tree.scan({ renewRules: sources, signal })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
      await expect(tree.peek([], { signal })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
      await tree.close();
      await tree.close();
      await expect(tree.load()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
      await expect(tree.abilities()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    });

    test('a root that is gone, or no folder, is ERR_ROOT_CHANGED', async () => {
      for (const name of ['none', 'root/a.txt']) {
        const opening = backend.openTree({ ...options, root: join(top, name) });
        await expect(opening, name).rejects.toMatchObject({ code: 'ERR_ROOT_CHANGED' });
      }
    });
  });
}
