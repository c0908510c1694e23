/**
 * Which backends a suite runs on here. In CI, TAKEBACK_REQUIRE_NATIVE=1 makes a missing addon a failure. With TAKEBACK_WATCH=1 the
 * kit opens everything in watch mode, which the native backend alone has: a test file sets it and imports a suite's file.
 */
import { describe, test } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { openBackend } from '../../src/backend/open.ts';

async function probe(): Promise<{ kinds: BackendKind[]; missing: string }> {
  try {
    const { backend } = await openBackend('native');
    await backend.close();
    return { kinds: process.env.TAKEBACK_WATCH === '1' ? ['native'] : ['native', 'portable'], missing: '' };
  } catch (error) {
    if (process.env.TAKEBACK_REQUIRE_NATIVE === '1') throw error;
    return { kinds: ['portable'], missing: (error as Error).message };
  }
}

const { kinds, missing } = await probe();

/** Backends that can run here. */
export const availableBackends: readonly BackendKind[] = kinds;

/** One suite, every backend; or those that are named, of the ones that can run here. */
export function describeBackends(
  name: string,
  suite: (backend: BackendKind) => void,
  named: readonly BackendKind[] = ['native', 'portable'],
): void {
  for (const kind of kinds) if (named.includes(kind)) describe(`${name} [${kind}]`, () => suite(kind));
  if (missing !== '' && named.includes('native')) test.skip(`${name} [native]: skipped, ${missing}`, () => undefined);
}
