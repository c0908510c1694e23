import { describe, expect, test } from 'vitest';
import { loadAddon } from '../../src/backend/load-addon.ts';
import { openBackend } from '../../src/backend/open.ts';

const manifest = { version: '1.2.3' };

/** A `require` that answers the manifest, and for the addon does as told. */
function loader(addon: () => unknown): (id: string) => unknown {
  return (id) => (id.endsWith('package.json') ? manifest : addon());
}

function throwing(error: Error): (id: string) => unknown {
  return loader(() => {
    throw error;
  });
}

function failing(message: string, detail: { code?: string; cause?: unknown } = {}): Error {
  return Object.assign(new Error(message), detail);
}

describe('the loader of the addon', () => {
  test('excuses an addon that is not there, built or installed', () => {
    const absent = failing('Cannot find module', { code: 'MODULE_NOT_FOUND' });
    expect(loadAddon(throwing(absent))).toEqual({ missing: absent });
    const tried = failing('Cannot find module a', {
      code: 'MODULE_NOT_FOUND',
      cause: failing('Unsupported architecture on Linux: mips'),
    });
    const none = failing('Cannot find native binding', { cause: tried });
    expect(loadAddon(throwing(none))).toEqual({ missing: none });
  });

  test('does not excuse an addon that is there and fails', () => {
    const broken = failing('version `GLIBC_2.99` not found', { code: 'ERR_DLOPEN_FAILED' });
    const tried = failing('Cannot find module b', { code: 'MODULE_NOT_FOUND', cause: broken });
    const none = failing('Cannot find native binding', { cause: tried });
    const loading = (): unknown => loadAddon(throwing(none));
    expect(loading).toThrow(expect.objectContaining({ code: 'ERR_BACKEND_UNAVAILABLE', cause: none }));
    expect(loading).toThrow(/GLIBC_2\.99/);
  });

  test('tells an addon of another version, or of another contract, from ours', () => {
    const addon = (version: string, contract: number) => ({ version: () => version, contract: () => contract });
    const ours = addon('1.2.3', 5);
    expect(loadAddon(loader(() => ours))).toEqual({ addon: ours });
    for (const other of [addon('1.2.2', 5), addon('1.2.3', 4), {}]) {
      expect(() => loadAddon(loader(() => other))).toThrow(expect.objectContaining({ code: 'ERR_BINDING_MISMATCH' }));
    }
  });
});

describe('openBackend', () => {
  test('refuses a name that it does not know', async () => {
    await expect(openBackend('wasm' as 'auto')).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  test('gives the native backend where it is asked for and installed, and never another', async () => {
    if ('missing' in loadAddon()) {
      await expect(openBackend('native')).rejects.toMatchObject({ code: 'ERR_BACKEND_UNAVAILABLE' });
    } else {
      const { backend, why } = await openBackend('native');
      expect([backend.kind, why]).toEqual(['native', 'the native backend was asked for']);
      await backend.close();
    }
  });
});
