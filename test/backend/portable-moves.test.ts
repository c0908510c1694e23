/** When an inode number proves a move. `native/src/scan/moves.rs` has the same cases. */
import { expect, test } from 'vitest';
import { EntryFlag } from '../../src/backend/portable/index.ts';
import { isAnother } from '../../src/backend/portable/moves.ts';
import type { StatKey } from '../../src/types.ts';

const seen = (ctimeNs: bigint): StatKey => ({
  ...{ kind: 'file', mode: 0o644, size: 3, mtimeNs: 50n, ino: 7n, dev: 1n },
  ctimeNs,
});
const old = (flags = 0) => ({
  entry: { version: { kind: 'file', mode: 0o644, size: 3, content: '0'.repeat(32) }, stat: seen(100n), flags } as const,
  stat: seen(100n),
});

test('a number that was given again is another inode by its birth', () => {
  const edited = { ...seen(300n), size: 9, mtimeNs: 300n };
  expect(isAnother(old(), edited, 20n)).toBe(false);
  expect(isAnother(old(), edited, 100n)).toBe(false);
  expect(isAnother(old(), edited, 101n)).toBe(true);
});

test('in the tick of the look only an older birth proves it', () => {
  expect(isAnother(old(EntryFlag.untrusted), seen(300n), 99n)).toBe(false);
  expect(isAnother(old(EntryFlag.untrusted), seen(300n), 100n)).toBe(true);
});

test('without birth times size and time of change must be the old ones', () => {
  expect(isAnother(old(), seen(300n), 0n)).toBe(false);
  expect(isAnother(old(), { ...seen(300n), mtimeNs: 51n }, 0n)).toBe(true);
  expect(isAnother(old(), { ...seen(300n), size: 4 }, 0n)).toBe(true);
  expect(isAnother(old(), seen(99n), 0n)).toBe(true);
  expect(isAnother(old(EntryFlag.untrusted), seen(300n), 0n)).toBe(true);
});
