import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defaultDataDir, workspaceDir, workspaceKey } from '../src/data-dir.ts';

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
