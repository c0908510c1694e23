/**
 * What the guard costs without the barrier, against a temp file that is renamed over (`native/src/apply/cost.rs`): on one file system
 * after another. Wants a quiet machine, so it is no part of the other runs: `npm run bench:guard`.
 */
import { describe, expect, test } from 'vitest';
import { runTests, testProgram } from './kit/crate.ts';
import { FileSystem, type FileSystemKind, missing } from './kit/filesystems.ts';

/** At most that many times as long; btrfs is reported only. */
const BARS: readonly (readonly [FileSystemKind, number])[] = [
  ['ext4', 1],
  ['xfs', 1.25],
  ['tmpfs', 2],
  ['btrfs', Number.POSITIVE_INFINITY],
];
const asked = process.env.TAKEBACK_STRESS_COST === '1';
const { program, missing: noProgram } = asked
  ? testProgram('--release')
  : { program: null, missing: 'npm run bench:guard asks for it' };

describe('cost of the guard', () => {
  for (const [kind, bar] of BARS) {
    const lack = noProgram || missing(kind);
    test.skipIf(lack)(`at most ${bar} times temp + rename on ${kind}${lack ? `: ${lack}` : ''}`, async () => {
      using disk = new FileSystem(kind, { megabytes: 512 });
      const tests = ['apply::cost', '--ignored'];
      const [told = ''] = await runTests(program as string, tests, { folder: disk.folder, env: {} });
      console.info(`${kind}: ${told} (at most ${bar})`);
      expect(Number(/ratio ([\d.]+)/.exec(told)?.[1])).toBeLessThanOrEqual(bar);
    });
  }
});
