/**
 * Drives `native/src/apply/stress.rs` (six writers against replace, delete and recreate, and the same on "check, then rename",
 * which must lose bytes; `late.rs`: without the second look bytes must be displaced) on five file systems, and the attacks on folders and path resolution (`attack.rs`, `path/tests.rs`).
 */
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { runTests, testProgram } from './kit/crate.ts';
import { FileSystem, type FileSystemKind, missing } from './kit/filesystems.ts';
import { sized } from './kit/tools.ts';

const KINDS: readonly FileSystemKind[] = ['ext4', 'xfs', 'btrfs', 'tmpfs', 'overlayfs'];
const ROUNDS = sized(1_000, 20_000);
/** A resolver and attack; the one on resolution alone is cheap. */
const ATTACKS = sized(5_000, 400_000);
const { program, missing: noProgram } = testProgram();

describe('guard', () => {
  for (const kind of KINDS) {
    const lack = noProgram || missing(kind);
    test.skipIf(lack)(
      `six writers, three acts, ${ROUNDS} rounds each on ${kind}${lack ? `: ${lack}` : ''}`,
      async () => {
        using disk = new FileSystem(kind, { megabytes: 512 });
        const env = { TAKEBACK_STRESS_ROUNDS: String(ROUNDS) };
        const told = await runTests(program as string, ['apply::stress', 'apply::late'], { folder: disk.folder, env });
        console.info(`${kind}\n${told.join('\n')}`);
        const cells = told.filter((line) => line.includes('Tally'));
        expect(cells).toHaveLength(24);
        expect(cells.filter((line) => !line.includes('lost: 0'))).toEqual([]);
        // A lease does not see a map on an overlay: the bytes are in the trash then (LIMITS).
        const seen = kind === 'overlayfs' ? cells.filter((line) => !line.includes('Mapped')) : cells;
        expect(seen.filter((line) => !line.includes('silent: 0'))).toEqual([]);
        expect(told.filter((line) => line.startsWith('check, then act'))).toHaveLength(1);
        const late = told.filter((line) => line.includes('second look left out'));
        expect(late.filter((line) => /displaced [1-9]\d*; with it 0$/.test(line))).toHaveLength(2);
      },
    );
  }

  test.skipIf(noProgram)(`folders swapped and moved, ${ATTACKS} rounds an attack, both resolvers`, async () => {
    const env = { TAKEBACK_STRESS_ATTACKS: String(ATTACKS) };
    const tests = ['apply::attack', 'path::tests::a_folder_swapped_with_a_link'];
    const told = await runTests(program as string, tests, { folder: tmpdir(), env });
    console.info(told.join('\n'));
    expect(told.length).toBeGreaterThanOrEqual(6);
  });
});
