import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defaultDataDir, makeFolders, workspaceDir, workspaceKey } from '../src/data-dir.ts';

test.each([
  ['linux', {}, '/home/u/.local/state/takeback'],
  ['linux', { XDG_STATE_HOME: '/state' }, '/state/takeback'],
  ['linux', { XDG_STATE_HOME: 'relative/is/ignored' }, '/home/u/.local/state/takeback'],
  ['linux', { XDG_STATE_HOME: '' }, '/home/u/.local/state/takeback'],
  ['darwin', {}, '/home/u/Library/Application Support/takeback'],
  ['darwin', { XDG_STATE_HOME: '/state' }, '/state/takeback'],
] as const)('on %s with %j the data directory is %s', (platform, env, expected) => {
  expect(defaultDataDir({ env, platform, home: '/home/u' })).toBe(expected);
});

test('on Windows it is in the local application data', () => {
  const env = { LOCALAPPDATA: 'C:\\Users\\u\\AppData\\Local' };
  expect(defaultDataDir({ env, platform: 'win32', home: 'C:\\Users\\u' })).toContain(
    join(env.LOCALAPPDATA, 'takeback'),
  );
});

test('the folder of a workspace is keyed by the bytes of its real path', () => {
  const bytes = Buffer.from([0x2f, 0x63, 0x61, 0x66, 0xe9]);
  const key = createHash('sha256').update(bytes).digest('hex').slice(0, 32);
  expect(workspaceKey('/caf\udce9')).toBe(key);
  expect(workspaceDir('/data', '/caf\udce9')).toBe(join('/data', 'workspaces', key));
});

test('folders are made for their owner alone, and those that are there stay', () => {
  const folder = mkdtempSync(join(tmpdir(), 'takeback-folders-'));
  try {
    makeFolders(join(folder, 'a/b'));
    makeFolders(join(folder, 'a/b'));
    expect(['a', 'a/b'].map((name) => statSync(join(folder, name)).mode & 0o777)).toEqual([0o700, 0o700]);
    writeFileSync(join(folder, 'file'), '');
    expect(() => makeFolders(join(folder, 'file/c'))).toThrow(/ENOTDIR/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

// Other systems have no file system at hand that answers so.
test.skipIf(!existsSync('/proc/self'))('where a file system takes no folders, making one ends', () => {
  expect(() => makeFolders('/proc/takeback-test/data')).toThrow(/ENOENT/);
});
