/**
 * Folders that may not be written or entered. Runs as uid 65534; a file of its own, so that the process that drops its rights is
 * this file's only.
 */
import { chmodSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  filePlanWriter,
  HookRegistry,
  offloadHook,
  readFileTool,
  SessionManager,
  toolResultsDir,
} from '../../src/index.ts';
import { Heard, registryOf, toolCall } from '../hooks/kit.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';

const NOBODY = 65534;
// The backends were probed by the import above, as root still.
if (process.getuid?.() === 0) {
  process.setgroups?.([]);
  process.setgid?.(NOBODY);
  process.setuid?.(NOBODY);
}

let space: Space;
beforeEach(() => {
  space = new Space();
});
afterEach(() => space[Symbol.asyncDispose]());

async function offload(logger: Heard): Promise<string> {
  const hook = offloadHook({ workDir: space.root, sessionId: 's1', threshold: 10, logger });
  const registry = new HookRegistry(registryOf({ bash: () => 'a long output' }), hook);
  return (await registry.execute(toolCall('c1', 'bash'))).output;
}

test('a working directory that can’t be written: the output stays as it was, and the logger hears why', async () => {
  chmodSync(space.root, 0o500);
  const logger = new Heard();
  expect(await offload(logger)).toBe('a long output');
  expect(logger.lines).toEqual([expect.stringMatching(/^offload: the output of bash stays in context.*EACCES/)]);
});

test('a folder of plans that can’t be written is found when the writer is made', async () => {
  const home = join(space.base, 'home');
  mkdirSync(join(home, '.takeback/plans'), { recursive: true });
  chmodSync(join(home, '.takeback/plans'), 0o500);
  await expect(filePlanWriter({ workDir: space.root, sessionId: 's1', home })).rejects.toMatchObject({
    code: 'ERR_IO',
    message: expect.stringMatching(/^plan files can't be written to .*EACCES/),
  });
});

test('a file that can’t be read is named, with the reason', async () => {
  space.write('f', 'x');
  chmodSync(join(space.root, 'f'), 0o000);
  await expect(readFileTool({ root: space.root }).execute({ path: 'f' })).rejects.toMatchObject({
    code: 'ERR_IO',
    message: expect.stringMatching(/^f can't be read: EACCES/),
  });
});

test('a folder that may be entered and not listed is read through', async () => {
  space.write('dir/f', 'x');
  chmodSync(join(space.root, 'dir'), 0o100);
  expect(await readFileTool({ root: space.root }).execute({ path: 'dir/f' })).toBe('x');
});

describeBackends('deleteSession', (backend) => {
  test('files that may not be removed are reported, and the rows are gone', async () => {
    await offload(new Heard());
    await using sessions = new SessionManager({
      database: join(space.base, 'sessions.db'),
      toolResultsDir: toolResultsDir(space.root),
      backend,
    });
    await sessions.createSession({ id: 's1' });
    const folder = join(space.root, '.takeback/tool_results/s1');
    chmodSync(folder, 0o500);
    expect(await sessions.deleteSession('s1')).toMatchObject({
      deleted: true,
      files: { removed: [], problems: [{ path: folder, detail: expect.stringContaining('EACCES') }] },
    });
    expect(await sessions.session('s1')).toBeNull();
    expect(existsSync(join(folder, 'c1.txt'))).toBe(true);
    chmodSync(folder, 0o700);
    expect(await sessions.deleteSession('s1')).toMatchObject({
      deleted: false,
      files: { removed: [folder], problems: [] },
    });
  });
});
