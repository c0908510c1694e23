/** Whether a folder at the root's path is the one that boundaries were made on. */
import { expect, test } from 'vitest';
import { sameRoot } from '../../src/engine/root.ts';

const root = { dev: 66_305n, ino: 2n, birthNs: 1_700_000_000_123_456_789n };

test.each([
  ['the same folder', root, true],
  ['the same folder on a device that was numbered anew', { ...root, dev: 40n }, true],
  ['another folder that was given its inode number', { ...root, birthNs: root.birthNs + 1n }, false],
  ['another inode', { ...root, ino: 3n }, false],
  ['an unknown birth time, the same device', { ...root, birthNs: 0n }, true],
  ['an unknown birth time, another device', { ...root, birthNs: 0n, dev: 40n }, false],
])('%s', (_, other, same) => {
  expect(sameRoot(root, other)).toBe(same);
  expect(sameRoot(other, root)).toBe(same);
});
