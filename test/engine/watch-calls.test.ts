/** The tests of calls in watch mode: same answers. They are those of `calls.test.ts`. */
import { vi } from 'vitest';

vi.stubEnv('TAKEBACK_WATCH', '1');
await import('./calls.test.ts');
