/**
 * Containment, part 2: every operation that writes, with something in its way; and kinds of things that must be neither
 * opened, followed nor written through: mounts, devices, sockets, hard links, files that can't be changed.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { HistoryResult, Receipt, Result, Session } from '../../src/index.ts';
import { describeResolvers, type Row, restore, Scene, testRows } from '../kit/containment.ts';
import { got } from '../kit/story.ts';

async function receiptOf(result: Promise<Result<HistoryResult>>): Promise<Receipt> {
  const { receipt, message } = got(await result);
  if (receipt === undefined) throw new Error(`no receipt: ${message}`);
  return receipt;
}

interface Operation {
  readonly name: string;
  readonly first?: (session: Session) => Promise<unknown>;
  readonly edit?: string;
  readonly run: (session: Session) => Promise<Receipt>;
}

const EDIT = 'sed -i s/8/eight/ d/e/f';
const OPERATIONS: readonly Operation[] = [
  { name: 'restore', run: restore() },
  { name: 'undo', run: (session) => receiptOf(session.undo()) },
  { name: 'redo', first: (session) => session.undo(), run: (session) => receiptOf(session.redo()) },
  { name: 'revert', run: (session) => receiptOf(session.revert({ messageId: 'm1' })) },
  {
    name: 'unrevert',
    first: (session) => session.revert({ messageId: 'm1' }),
    run: (session) => receiptOf(session.unrevert()),
  },
  { name: 'revertTurn', run: (session) => receiptOf(session.revertTurn('m1')) },
  { name: 'revertCall', run: (session) => receiptOf(session.revertCall('c1')) },
  { name: 'merge', edit: EDIT, run: restore({ onConflict: 'merge' }) },
  { name: 'overwrite', edit: EDIT, run: restore({ onConflict: 'overwrite' }) },
];

const WAYS: readonly (readonly [name: string, late: string, says: string])[] = [
  ['a symlink at the target', 'rm d/e/f; ln -s ../../../out/f d/e/f', 'refused: changed-outside-session'],
  ['a symlink at the parent', 'rm -r d/e; ln -s ../../out/d/e d/e', 'failed: walk-failed'],
  ['a symlink at the grandparent', 'rm -r d; ln -s ../out/d d', 'failed: walk-failed'],
  ['the parent moved out, a symlink to it left', 'mv d/e ../out/e2; ln -s ../../out/e2 d/e', 'failed: walk-failed'],
  ['a FIFO at the target', 'rm d/e/f; mkfifo d/e/f', 'refused: changed-outside-session'],
  ['a folder at the target', 'rm d/e/f; mkdir d/e/f; echo x >d/e/f/x', 'refused: changed-outside-session'],
];

const operations: Row[] = OPERATIONS.flatMap(({ name, first, edit, run }) =>
  WAYS.map(
    ([way, late, says]): Row => ({
      label: `${name}: ${way}, late`,
      setup: 'mkdir -p d/e; seq 9 >d/e/f',
      turn: 'sed -i s/2/two/ d/e/f',
      ...(first === undefined ? {} : { first }),
      ...(edit === undefined ? {} : { planned: edit }),
      late,
      run,
      says: { 'd/e/f': says },
    }),
  ),
);

const SET = 'mkdir -p d; echo base >d/f; echo base >d/gone';
const TURN = 'echo turn >d/f; rm d/gone; echo turn >d/new';
const ALL = (says: string) => ({ 'd/f': says, 'd/gone': says, 'd/new': says });
const CHANGED = 'refused: changed-outside-session';

/** At all three targets: what a replace, a recreate and a delete meet. */
const at = (make: (path: string) => string) =>
  ['d/f', 'd/gone', 'd/new'].map((p) => `rm -f ${p}; ${make(p)}`).join('; ');
const bind = (path: string) => `python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('${path}')"`;

const kinds: Row[] = (
  [
    ['a FIFO', at((path) => `mkfifo ${path}`)],
    ['a socket', at(bind)],
    ['a character device', at((path) => `mknod ${path} c 1 3`)],
    ['a block device', at((path) => `mknod ${path} b 7 199`)],
    ['a symlink to a device', at((path) => `ln -s /dev/zero ${path}`)],
    ['a symlink into /proc', at((path) => `ln -s /proc/self/cwd/../out/f ${path}`)],
    ['a symlink to itself', at((path) => `ln -sT ${path.slice(2)} ${path}`)],
    ['a dangling symlink', at((path) => `ln -s ../../out/nothing ${path}`)],
    ['a hard link to a file outside', at((path) => `ln ../out/f ${path}`)],
  ] as const
).flatMap(([name, does]): Row[] => [
  { label: `${name}, planned`, setup: SET, turn: TURN, planned: does, says: ALL(CHANGED) },
  { label: `${name}, late`, setup: SET, turn: TURN, late: does, says: ALL(CHANGED) },
]);

const hardLinks: Row[] = [
  {
    label: 'a file with a hard link outside is replaced, not written through',
    setup: 'echo base >f; ln f ../out/twin',
    turn: 'echo turn >f',
    says: { f: 'restored: restore' },
    left: { f: 'base', '../out/twin': 'turn' },
  },
  {
    label: 'a new file that was linked outside is taken away here only',
    turn: 'echo turn >f; ln f ../out/twin',
    says: { f: 'restored: delete' },
    left: { f: null, '../out/twin': 'turn' },
  },
  {
    label: 'a mode is set on this name’s inode only where it is the one that the turn left',
    setup: 'echo base >f; chmod 644 f',
    turn: 'chmod 600 f',
    late: 'rm f; cp ../out/f f; ln -f f ../out/twin; chmod 600 f',
    says: { f: CHANGED },
  },
  {
    label: 'overwrite replaces a planted symlink, and keeps what it leads to',
    setup: 'echo base >f',
    turn: 'echo turn >f',
    planned: 'rm f; ln -s ../out/f f',
    run: restore({ onConflict: 'overwrite' }),
    says: { f: 'restored: restore!changed-outside-session' },
    left: { f: 'base', '../out/f': 'outside' },
  },
  {
    label: 'overwrite breaks a planted hard link, and keeps the other name',
    setup: 'echo base >f',
    turn: 'echo turn >f',
    planned: 'rm f; ln ../out/f f',
    run: restore({ onConflict: 'overwrite' }),
    says: { f: 'restored: restore!changed-outside-session' },
    left: { f: 'base', '../out/f': 'outside' },
  },
];

/** Runs a script in a fresh folder, and says why it can't be done here, if so. */
function why(script: string, undo: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'takeback-can-'));
  const run = spawnSync('bash', ['-ec', script], { cwd: folder, encoding: 'utf8' });
  spawnSync('bash', ['-c', undo], { cwd: folder });
  rmSync(folder, { recursive: true, force: true });
  return run.status === 0 ? undefined : run.stderr.trim().split('\n').at(-1) || 'not possible here';
}

const noMount = why('mkdir m; mount -t tmpfs none m', 'umount m');
const UNMOUNT = 'umount -l d 2>/dev/null || umount -l d/e 2>/dev/null || true';

const mounts: Row[] = (
  [
    ['a tmpfs over the parent', 'mount -t tmpfs none d/e; echo foreign >d/e/f'],
    ['a tmpfs over the grandparent', 'mount -t tmpfs none d; mkdir d/e; echo turn >d/e/f'],
    ['a folder of the same file system bound over the parent', 'mount --bind ../out/d/e d/e'],
    ['the root itself bound over the grandparent', 'mount --bind . d'],
  ] as const
).flatMap(([name, does]): Row[] => [
  {
    label: `${name}, planned`,
    setup: 'mkdir -p d/e; echo base >d/e/f',
    turn: 'echo turn >d/e/f',
    planned: does,
    says: { 'd/e/f': 'refused: uncovered' },
    last: UNMOUNT,
    skip: noMount,
  },
  {
    label: `${name}, late`,
    setup: 'mkdir -p d/e; echo base >d/e/f',
    turn: 'echo turn >d/e/f',
    late: does,
    says: { 'd/e/f': 'failed: walk-failed' },
    last: UNMOUNT,
    skip: noMount,
  },
]);

const noAttributes = why('touch f; chattr +i f; chattr -i f; chattr +a f', 'chattr -ai f');
const LOOSE = 'chattr -R -ai . 2>/dev/null || true';
const DENIED = 'failed: permission-denied';

const fixed: Row[] = (
  [
    ['an immutable file', 'chattr +i d/f d/new', { 'd/f': DENIED, 'd/gone': 'restored: recreate', 'd/new': DENIED }],
    ['an append-only file', 'chattr +a d/f d/new', { 'd/f': DENIED, 'd/gone': 'restored: recreate', 'd/new': DENIED }],
    ['an immutable parent', 'chattr +i d', ALL(DENIED)],
    [
      'an append-only parent',
      'chattr +a d',
      // A name can be made in it, and none taken away: a link works where a rename does not.
      { native: ALL(DENIED), portable: { 'd/f': DENIED, 'd/gone': 'restored: recreate', 'd/new': DENIED } },
    ],
  ] as const
).flatMap(([name, does, says]): Row[] => [
  { label: `${name}, planned`, setup: SET, turn: TURN, planned: does, says, last: LOOSE, skip: noAttributes },
  { label: `${name}, late`, setup: SET, turn: TURN, late: does, says, last: LOOSE, skip: noAttributes },
]);

describeResolvers('containment: operations', (how) => testRows(how, operations));
describeResolvers('containment: kinds', (how) => testRows(how, [...kinds, ...hardLinks, ...mounts, ...fixed]));

describeResolvers('containment: export', (how) => {
  test('links of the tree are written as links, last, and nothing is written through one', async () => {
    await using scene = await Scene.begin(
      how,
      'ln -s ../out out; ln -s / top; mkdir d; ln -s ../../out/d d/l; echo x >d/f',
    );
    const { position } = got(await scene.session.capture('m1'));
    const before = scene.looks();
    const target = join(scene.space.base, 'exported');
    expect(got(await scene.workspace.export(position, target))).toMatchObject({ files: 4, uncovered: [], failed: [] });
    expect(scene.space.sh('readlink out top d/l; cat d/f', { cwd: target })).toBe('../out\n/\n../../out/d\nx\n');
    rmSync(target, { recursive: true });
    expect([...scene.looks().outside]).toEqual([...before.outside]);
  });

  test('a target that is a link into the root, the root, or holds something is refused', async () => {
    await using scene = await Scene.begin(
      how,
      'mkdir d; ln -s w/d ../link; ln -s w/no ../dangling; mkdir ../full; echo x >../full/x',
    );
    const { position } = got(await scene.session.capture('m1'));
    const { base, root } = scene.space;
    for (const target of [
      root,
      join(root, 'd'),
      join(base, 'link'),
      join(base, 'dangling'),
      join(root, '..', 'w', 'new'),
      join(base, 'full'),
    ])
      await expect(scene.workspace.export(position, target), target).rejects.toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
      });
    expect(scene.space.sh('find . | sort; ls ../full')).toBe('.\n./d\nx\n');
  });
});
