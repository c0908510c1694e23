/**
 * Stands for `node:module` in the built hook file, for what `load-addon.ts` asks of it: Node's own finds a file by searching,
 * and reads `package.json` for its version, which takes longer than loading the addon. What is asked for stands beside
 * `dist`, and the version is the one that this file was built with.
 */
import { join } from 'node:path';

/** Put in by scripts/bundle-hook.mjs. */
declare const PACKAGE_VERSION: string;

/** Answers as `require` does, with `id` seen from `dist/cli`, which lies as deep as the module that it is asked in. */
export function createRequire(): (id: string) => unknown {
  const loaded = new Map<string, unknown>();
  return (id) => {
    if (id.endsWith('/package.json')) return { version: PACKAGE_VERSION };
    if (!id.endsWith('.node')) return require(id);
    const known = loaded.get(id);
    if (known !== undefined) return known;
    const found = { exports: {} };
    process.dlopen(found, join(__dirname, id));
    loaded.set(id, found.exports);
    return found.exports;
  };
}
