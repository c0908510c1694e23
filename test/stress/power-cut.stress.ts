/**
 * The power is cut before a call that writes: `FS_IOC_SHUTDOWN` on an image of its own, with and without the log written out, then
 * mounted again. In `durability: 'full'` no file is empty, torn or missing, and no boundary that was answered is lost. Store and
 * root lie on the image. CI: at least 100 cuts in all; the long run 2,000.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { availableBackends } from '../kit/backends.ts';
import { got } from '../kit/story.ts';
import { FileSystem, type FileSystemKind, missing } from './kit/filesystems.ts';
import { COMMANDS, type Command, retry, run, type Scene, scene, settle, treeOf } from './kit/scenario.ts';
import { inLanes, LONG, numbers, tool } from './kit/tools.ts';

const { program, missing: noTool } = tool('at-call', ['count', 'true']);
const CUT = ['capture', 'restore', 'undo', 'gc', 'drop'];
/** Cuts a command and file system, by backend: 6 commands, 2 file systems. */
const CUTS = { native: LONG ? 84 : 5, portable: LONG ? 84 : 4 };
const full = { durability: 'full' } as const;
let total = 0;

/** Boundaries one after another, each answered before the next file is written. */
const CAPTURES: Command = {
  name: 'captures',
  steps: Array.from({ length: 6 }, (_, i) => [
    ['write', 'counter', `${i}\n`.repeat(500)],
    ['capture', `n${i}`],
  ]).flat() as Command['steps'] & object,
};

async function acknowledged(at: Scene, ran: Awaited<ReturnType<typeof run>>): Promise<string[]> {
  const workspace = await at.space.open(at.backend, full);
  const faults: string[] = [];
  for (const line of ran.lines.filter(({ step, available }) => step === 'capture' && available)) {
    const target = join(at.space.base, `export-${line.boundaryId}`);
    got(await workspace.export(line.position, target));
    const i = line.boundaryId.slice(1);
    if (readFileSync(join(target, 'counter'), 'utf8') !== `${i}\n`.repeat(500))
      faults.push(`the answered boundary ${line.boundaryId} holds other bytes`);
  }
  await workspace.close();
  return faults;
}

async function cut(options: {
  kind: FileSystemKind;
  backend: Scene['backend'];
  command: Command;
  n: number;
  calls: number;
}) {
  const { kind, backend, command, n } = options;
  using disk = new FileSystem(kind);
  await using at = await scene(backend, command, { parent: disk.folder, ...full });
  disk.sync();
  const log = `${disk.folder}.log`;
  const action = `cut:${n}:${(n % 2) + 1}:${disk.folder}`;
  const ran = await run(at, { program: program as string, action, writes: true, log, ...full });
  if (ran.code === 77) total += 1;
  disk.remount();
  const faults: string[] = [];
  let after = at.before;
  if (command.changesTree === true) after = await afterOf(backend, command);
  if (command === CAPTURES) {
    const counter = join(at.space.root, 'counter');
    // The test's own file was never synced: it may be as the disk likes. Only what the engine promises is looked at.
    if (existsSync(counter)) after = at.before = { ...at.before, counter: treeOf(at.space).counter as string };
    faults.push(...(await acknowledged(at, ran)));
  } else {
    const { faults: found, end } = await settle(at, after, {
      backend,
      recover: n % 3 === 0 ? 'complete' : 'rollback',
      ...full,
    });
    if (end === 'neither') found.push('the tree is neither the old nor the new one');
    const done = command.changesTree === true && end === 'after';
    faults.push(...found, ...(await retry(at, after, { backend, done, program: program as string, ...full })));
  }
  return faults.map((fault) => `${kind} ${n} of ${options.calls} (${ran.calls.at(-1) ?? ran.code}): ${fault}`);
}

const afters = new Map<string, Promise<Scene['before']>>();

/** The tree that an undisturbed run leaves. */
function afterOf(backend: Scene['backend'], command: Command): Promise<Scene['before']> {
  const key = `${backend} ${command.name}`;
  const known = afters.get(key);
  if (known !== undefined) return known;
  const made = (async () => {
    await using at = await scene(backend, command);
    await run(at, { program: program as string, action: 'count' });
    return treeOf(at.space);
  })();
  afters.set(key, made);
  return made;
}

for (const kind of ['ext4', 'xfs'] as const) {
  const lack = missing(kind) ?? (program === null ? noTool : null);
  describe.skipIf(lack !== null)(`power cut on ${kind}${lack === null ? '' : `: ${lack}`}`, () => {
    for (const backend of availableBackends) {
      for (const command of [CAPTURES, ...COMMANDS.filter(({ name }) => CUT.includes(name))]) {
        test(`${command.name} [${backend}]: nothing is empty, torn or missing`, async () => {
          await using whole = await scene(backend, command, full);
          const reference = await run(whole, { program: program as string, action: 'count', writes: true, ...full });
          expect(reference.code, reference.errors).toBe(0);
          const calls = reference.calls.length;
          const faults: string[] = [];
          const rounds = LONG
            ? Array.from({ length: CUTS[backend] }, (_, i) => 1 + ((i * 7919) % calls))
            : numbers(calls, CUTS[backend]);
          await inLanes(rounds, async (n) => void faults.push(...(await cut({ kind, backend, command, n, calls }))));
          expect(faults).toEqual([]);
        });
      }
    }
  });
}

const bites = missing('xfs') ?? (program === null ? noTool : null);
test.skipIf(bites !== null)(
  `the same cut empties files that were renamed over unsynced${bites ? `: ${bites}` : ''}`,
  () => {
    using disk = new FileSystem('xfs');
    const files = Array.from({ length: 20 }, (_, i) => join(disk.folder, `f${i}`));
    for (const file of files) writeFileSync(file, 'old');
    disk.sync();
    const work = 'for i in $(seq 0 19); do printf new >t; mv t f$i; done; echo >end';
    const args = ['--at-once', '--below', join(disk.folder, 'end'), `cut:1:1:${disk.folder}`, 'bash', '-c', work];
    expect(spawnSync(program as string, args, { cwd: disk.folder }).status).toBe(77);
    disk.remount();
    const whole = files.filter((file) => ['old', 'new'].includes(readFileSync(file, 'utf8')));
    expect(whole.length).toBeLessThan(files.length);
  },
);

afterAll(() => console.info(`${total} power cuts`));
