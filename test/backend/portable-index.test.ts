/** The index file of docs/formats.md: round trips, appends, and what damage at any byte does. */
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Hasher } from '../../src/backend/portable/hash.ts';
import { EntryFlag, IndexTree, type Node, nodesBelow } from '../../src/backend/portable/index.ts';
import { decodeBase, decodeDelta, encodeBase, encodeDelta } from '../../src/backend/portable/index-codec.ts';
import { IndexFile } from '../../src/backend/portable/index-file.ts';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { ABSENT, type Version } from '../../src/types.ts';
import { NO_SOURCES, TreeKit, told } from './tree-kit.ts';

let kit: TreeKit;
beforeEach(async () => {
  kit = await TreeKit.make(new PortableBackend());
});
afterEach(() => kit.close());

const file = () => join(kit.data, 'index');
const all = () => kit.tree.list(asRelPath(''));

const VERSIONS: Record<string, Version> = {
  file: { kind: 'file', mode: 0o640, size: 5, content: 'ab'.repeat(16) },
  'link-\udcff': { kind: 'symlink', target: '../\udcfe' },
  pipe: { kind: 'special', type: 'fifo', ino: 77n },
  '.env': {
    kind: 'uncovered',
    reason: 'secret',
    stat: { kind: 'file', mode: 0o600, size: 9, mtimeNs: -5n, ctimeNs: 6n, ino: 2n ** 63n, dev: 3n },
  },
  'd/sub': { kind: 'dir', mode: 0o755 },
  'd/sub/é': { kind: 'file', mode: 0o755, size: 2 ** 40, content: '01'.repeat(16) },
};

function sample(): IndexTree {
  const tree = new IndexTree();
  const stat = { kind: 'dir', mode: 0o755, size: 1, mtimeNs: 1n, ctimeNs: 2n, ino: 3n, dev: 4n } as const;
  tree.put(asRelPath(''), { version: { kind: 'dir', mode: 0o755 }, stat, flags: 0 });
  for (const [path, version] of Object.entries(VERSIONS)) {
    tree.put(asRelPath(path), { version, stat: null, flags: EntryFlag.untrusted });
  }
  tree.put(asRelPath('d'), { version: { kind: 'dir', mode: 0o755 }, stat, flags: EntryFlag.exception });
  tree.put(asRelPath('x.o'), { version: ABSENT, stat: { ...stat, kind: 'file' }, flags: EntryFlag.ignored });
  return tree;
}

const versionsOf = (root: Node) =>
  Object.fromEntries(
    [...nodesBelow(root, asRelPath(''))]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, { version, flags }]) => [path, [version, flags]]),
  );

const AT = { seq: 3, observationId: '3'.repeat(32) };
const NEXT = { seq: 4, observationId: '4'.repeat(32) };

test('a base frame gives back every kind of entry', () => {
  const tree = sample();
  const bytes = encodeBase({ at: AT, scannedAtNs: 12n, rules: Buffer.from('rules'), root: tree.root });
  const base = decodeBase(bytes);
  expect(base.at).toEqual(AT);
  expect([base.scannedAtNs, base.rules.toString()]).toEqual([12n, 'rules']);
  expect(versionsOf(base.root)).toEqual(versionsOf(tree.root));
  const names = '.env d sub é file link-x ../x pipe x.o'.replaceAll(' ', '');
  expect(bytes.length).toBe(40 + 4 + 5 + 9 * 88 + Buffer.byteLength(names));
});

test('a delta entry has 74 bytes behind its path, and its link target', () => {
  const entry = { version: VERSIONS['link-\udcff'] as Version, stat: null, flags: 1 };
  const delta = { from: AT, at: NEXT, scannedAtNs: 9n, ops: [{ path: asRelPath('l'), op: 'put', entry }] } as const;
  const bytes = encodeDelta(delta);
  expect(bytes.length).toBe(24 + 24 + 8 + 4 + (4 + 1) + 1 + 74 + (4 + 4));
  expect(decodeDelta(bytes).ops.map((op) => (op.op === 'put' ? op.entry.version : op))).toEqual([
    VERSIONS['link-\udcff'],
  ]);
});

test('a delta leaves out of a plain file what all of them share; of one with a flag that is no byte it leaves nothing out', () => {
  const stat = { kind: 'file', mode: 0o640, size: 5, mtimeNs: -5n, ctimeNs: 6n, ino: 2n, dev: 3n } as const;
  const entry = { version: VERSIONS.file as Version, stat, flags: 1 };
  const ops = [{ path: asRelPath('f'), op: 'put', entry }] as const;
  const bytes = encodeDelta({ from: AT, at: NEXT, scannedAtNs: 9n, ops });
  // The same bytes stand in native/src/index/file_tests.rs.
  const fields = ['a00101', '0500000000000000', 'fbffffffffffffff', '0600000000000000', '0200000000000000'];
  expect(bytes.subarray(24 + 24 + 8 + 4).toString('hex')).toBe(
    `010000006602${fields.join('')}0300000000000000${'ab'.repeat(16)}`,
  );
  expect(decodeDelta(bytes).ops).toEqual(ops);
  const wide = [{ path: asRelPath('f'), op: 'put', entry: { ...entry, flags: 256 } }] as const;
  const whole = encodeDelta({ from: AT, at: NEXT, scannedAtNs: 9n, ops: wide });
  expect(whole.length).toBe(24 + 24 + 8 + 4 + (4 + 1) + 1 + 74 + 4);
  expect(decodeDelta(whole).ops).toEqual(wide);
});

test('a tree that was loaded goes on where it stood, warm', async () => {
  kit.write('.gitignore', '*.o\n');
  kit.write('d/f');
  kit.write('d/x.o');
  symlinkSync('d', join(kit.root, 'l'));
  await kit.boundary();
  kit.settle();
  await kit.observe();
  kit.write('d/g');
  await kit.observe();
  const before = await all();
  expect(statSync(file()).mode & 0o777).toBe(0o600);
  await kit.reopen();
  expect(await kit.tree.load()).toEqual({ seq: 3, observationId: '3'.padStart(32, '0') });
  expect(await all()).toEqual(before);
  kit.settle();
  await kit.observe();
  const { scan, changes } = await kit.observe();
  expect(changes).toEqual([]);
  expect([scan.suspects, scan.counters.dirsRead, scan.counters.rulesEvaluated]).toEqual([0, 0, 0]);
});

test('an observation appends; whatever another process left there makes it a rewrite', async () => {
  for (let i = 0; i < 50; i++) kit.write(`f${i}`);
  await kit.boundary();
  kit.settle();
  await kit.observe();
  const inode = () => statSync(file()).ino;
  const first = [inode(), statSync(file()).size] as const;
  kit.write('f0', 'changed');
  await kit.observe();
  expect(inode()).toBe(first[0]);
  expect(statSync(file()).size - first[1]).toBeLessThan(400);
  appendFileSync(file(), 'x');
  kit.write('f1', 'changed');
  await kit.observe();
  expect(inode()).not.toBe(first[0]);
  await kit.reopen();
  expect(await kit.tree.load()).toMatchObject({ seq: 4 });
  rmSync(file());
  kit.write('f2', 'changed');
  await kit.observe();
  await kit.reopen();
  expect(await kit.tree.load()).toMatchObject({ seq: 5 });
  expect((await all()).length).toBe(50);
});

test('caught-up rows are in the file with the next commit', async () => {
  kit.write('a');
  await kit.boundary();
  await kit.tree.catchUp([{ path: asRelPath('b'), after: { kind: 'dir', mode: 0o755 } }], {
    seq: 2,
    observationId: '2'.repeat(32),
  });
  mkdirSync(join(kit.root, 'b'), { mode: 0o755 });
  chmodSync(join(kit.root, 'b'), 0o755);
  kit.seq = 2;
  expect((await kit.observe()).changes).toEqual([]);
  await kit.reopen();
  expect(await kit.tree.load()).toMatchObject({ seq: 3 });
  expect(await all()).toEqual(['a', 'b']);
});

test('an index that can not be written is no fault: the next commit writes it', async () => {
  kit.write('a');
  await kit.boundary();
  renameSync(file(), `${file()}.was`);
  mkdirSync(file());
  kit.write('b');
  expect((await kit.observe()).changes.map(told)).toEqual(['b: absent -> file 2']);
  rmSync(file(), { recursive: true });
  await kit.observe();
  await kit.reopen();
  expect(await kit.tree.load()).toMatchObject({ seq: 3 });
});

test('missing, foreign and newer files load as null', async () => {
  expect(await kit.tree.load()).toBeNull();
  kit.write('a');
  await kit.boundary();
  await kit.reopen({ storeId: 'f'.repeat(32) });
  expect(await kit.tree.load()).toBeNull();
  writeFileSync(file(), '');
  await kit.reopen();
  expect(await kit.tree.load()).toBeNull();
});

test('damage at any byte loads as null or an earlier position, never as another tree', async () => {
  const hasher = await Hasher.create(0n);
  const path = join(kit.data, 'damaged');
  const storeId = '5'.repeat(32);
  const index = new IndexFile(path, storeId, hasher);
  const tree = sample();
  const rules = Buffer.from('rules');
  index.save({ tree, at: AT, scannedAtNs: 1n, rules, rulesChanged: true, ops: null });
  const atBase = JSON.stringify(versionsOf(tree.root), replacer);
  const op = {
    path: asRelPath('new'),
    op: 'put',
    entry: { version: VERSIONS.file as Version, stat: null, flags: 1 },
  } as const;
  tree.put(op.path, op.entry);
  index.save({ tree, at: NEXT, scannedAtNs: 2n, rules: Buffer.from('other'), rulesChanged: true, ops: [op] });
  const atDelta = JSON.stringify(versionsOf(tree.root), replacer);
  const whole = readFileSync(path);
  const seen = new Set<string>();
  const check = (bytes: Buffer): void => {
    writeFileSync(path, bytes);
    const loaded = new IndexFile(path, storeId, hasher).load();
    const now = loaded === null ? 'null' : `${loaded.at.seq} ${loaded.rules}`;
    seen.add(now);
    if (loaded !== null)
      expect(JSON.stringify(versionsOf(loaded.tree.root), replacer)).toBe(loaded.at.seq === 3 ? atBase : atDelta);
  };
  for (let at = 0; at < whole.length; at++) {
    check(whole.subarray(0, at));
    const flipped = Buffer.from(whole);
    flipped[at] = (flipped[at] as number) ^ 0x41;
    check(flipped);
  }
  expect([...seen].sort()).toEqual(['3 other', '3 rules', 'null']);
  check(whole);
  expect(seen.has('4 other')).toBe(true);
});

test('frames whose check holds and whose content does not are damage too', () => {
  const bytes = encodeBase({ at: AT, scannedAtNs: 12n, rules: Buffer.alloc(0), root: sample().root });
  let refused = 0;
  for (let at = 24 + 8; at < bytes.length; at++) {
    const broken = Buffer.from(bytes);
    broken[at] = 0xff;
    try {
      decodeBase(broken);
    } catch {
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(100);
});

test('a look by a tree whose file was made by a first capture needs no rules again', async () => {
  kit.write('a');
  await kit.boundary();
  await kit.reopen();
  await kit.tree.load();
  kit.write('b');
  expect((await kit.observe()).changes.map(told)).toEqual(['b: absent -> file 2']);
});

test("a look within a first capture judges by that capture's rules", async () => {
  kit.write('.gitignore', '*.o\n');
  kit.write('a');
  const { set } = await kit.tree.scan({ renewRules: NO_SOURCES });
  await kit.tree.ingest(set);
  kit.write('a', 'changed meanwhile');
  kit.write('new.o');
  await kit.tree.look(set, [asRelPath('a'), asRelPath('new.o')]);
  expect((await kit.tree.changes(set)).map(told)).toEqual(['.gitignore: absent -> file 4', 'a: absent -> file 17']);
});

function replacer(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}
