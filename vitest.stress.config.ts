/** The attacks of test/stress: bounded by default (what CI runs), long with TAKEBACK_STRESS=long (`npm run stress`). */
import { defineConfig } from 'vitest/config';

const HOUR = 3_600_000;
const timeout = process.env.TAKEBACK_STRESS === 'long' ? 24 * HOUR : HOUR / 6;

export default defineConfig({
  test: {
    include: ['test/stress/**/*.stress.ts'],
    testTimeout: timeout,
    hookTimeout: timeout,
    pool: 'forks',
    // Each file keeps all cores busy by itself.
    fileParallelism: false,
  },
});
