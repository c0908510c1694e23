/** The conformance suite in watch mode: same answers. The tests are those of `conformance.test.ts`. */
import { vi } from 'vitest';

vi.stubEnv('TAKEBACK_WATCH', '1');
await import('./conformance.test.ts');
