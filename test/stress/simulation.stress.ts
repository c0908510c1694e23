/**
 * Drives `native/src/simulation`: the Rust engine on a kernel that loses power, fails and has somebody else at work, from one seed.
 * By hand: `TAKEBACK_SIM_STEPS=1000000 cargo test --release -p takeback-native --lib simulation:: -- --nocapture`.
 */
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { runTests, testProgram } from './kit/crate.ts';
import { sized } from './kit/tools.ts';

const STEPS = sized(5_000, 1_000_000);
const { program, missing } = testProgram('--release');

describe('simulated kernel', () => {
  test.skipIf(missing)(
    `${STEPS} steps, every call failing with every errno${missing ? `: ${missing}` : ''}`,
    async () => {
      const env = { TAKEBACK_SIM_STEPS: String(STEPS) };
      const told = await runTests(program as string, ['simulation::'], { folder: tmpdir(), env });
      console.info(told.join('\n'));
      // Each of the tests that roll dice prints its share and the seed.
      expect(told.filter((line) => line.includes('TAKEBACK_SIM_SEED='))).toHaveLength(4);
    },
  );
});
