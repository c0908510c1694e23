import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { currentOwner, ownerGone } from '../../src/process-owner.ts';

const here = currentOwner();
const onLinux = existsSync('/proc/self/stat');

/** A child that ended and was waited for. */
async function endedPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'close');
  return child.pid as number;
}

async function until(holds: () => boolean): Promise<void> {
  const started = performance.now();
  while (!holds() && performance.now() - started < 5000) await new Promise(setImmediate);
}

test('this process is not gone', () => {
  expect(here.pid).toBe(process.pid);
  expect(here.hostId).toMatch(/^[0-9a-f]{16}$/);
  expect(ownerGone(here)).toBe(false);
});

test.skipIf(!onLinux)('on Linux the start time and the boot are known', () => {
  expect(here.startTime).toBeGreaterThan(0);
  expect(here.bootId).toMatch(/^[0-9a-f-]{36}$/);
});

test('a process that ended is gone', async () => {
  expect(ownerGone({ ...here, pid: await endedPid() })).toBe(true);
});

test.skipIf(!onLinux)('a process id that came again is not its first owner', () => {
  expect(ownerGone({ ...here, startTime: here.startTime - 1 })).toBe(true);
  expect(ownerGone({ ...here, startTime: 0 }), 'an unknown start time proves nothing').toBe(false);
});

test.skipIf(!onLinux)('a process that ended and was not waited for is gone', async () => {
  // The child waits for descriptor 3 to close; by then its parent is a sleep, which never waits for anyone.
  const parent = spawn('sh', ['-c', 'sh -c "read x <&3" & echo $!; exec sleep 30'], {
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
  });
  const [data] = await once(parent.stdout as NodeJS.ReadableStream, 'data');
  const pid = Number(String(data));
  await until(() => readFileSync(`/proc/${parent.pid}/comm`, 'utf8') === 'sleep\n');
  expect(ownerGone({ ...here, pid, startTime: 0 })).toBe(false);
  (parent.stdio[3] as Writable).end();
  const owner = { ...here, pid, startTime: 0 };
  await until(() => ownerGone(owner));
  expect(existsSync(`/proc/${pid}`), 'it is still there, as a zombie').toBe(true);
  expect(ownerGone(owner)).toBe(true);
  parent.kill('SIGKILL');
  await once(parent, 'close');
});

test('what another boot of this host ran is gone; an unknown boot proves nothing', () => {
  expect(ownerGone({ ...here, bootId: 'before' }, { ...here, bootId: 'now' })).toBe(true);
  expect(ownerGone({ ...here, bootId: '' }, { ...here, bootId: 'now' })).toBe(false);
});

test('of another host’s process nothing is known, so it is not gone', async () => {
  expect(ownerGone({ ...here, hostId: 'elsewhere', bootId: 'x', pid: await endedPid() })).toBe(false);
});
