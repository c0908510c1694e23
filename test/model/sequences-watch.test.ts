/** Random sequences against the naive model on the native backend in watch mode. The suite is `sequences.ts`. */
import { vi } from 'vitest';

vi.stubEnv('TAKEBACK_WATCH', '1');
const { sequences } = await import('./sequences.ts');
sequences('native');
