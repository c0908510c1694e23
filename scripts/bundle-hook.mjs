/**
 * Builds the hook command: `dist/cli/hook-body.cjs`, which holds it with the engine for the addon in one CommonJS file, and
 * `dist/cli/hook.cjs`, which starts that from V8's cache. What `src/cli/hook/` says of its parts is made true here: light stand-ins for two modules of Node, and the ordinary modules of `dist` where the
 * portable backend serves.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const top = fileURLToPath(new URL('..', import.meta.url));
const source = (path) => join(top, 'src', path);

const STAND_INS = {
  'node:crypto': source('cli/hook/light-crypto.ts'),
  'node:fs/promises': source('cli/hook/light-fs.ts'),
};
/** Dynamic imports that stay one, as seen from dist/cli. */
const OUTSIDE = {
  [source('cli/hook/main.ts')]: './hook/main.js',
  [source('backend/portable/portable.ts')]: '../backend/portable/portable.js',
};

const parts = {
  name: 'takeback-hook',
  async resolveId(id, importer, { kind }) {
    if (id in STAND_INS) return STAND_INS[id];
    if (kind !== 'dynamic-import') return null;
    const found = await this.resolve(id, importer);
    const outside = found === null ? undefined : OUTSIDE[found.id];
    return outside === undefined ? null : { id: outside, external: true };
  },
};

async function bundle({ input, file, define, plugins }) {
  const built = await rolldown({
    input: source(input),
    platform: 'node',
    tsconfig: false,
    treeshake: { moduleSideEffects: false },
    transform: { define },
    plugins,
    onLog: (level, log) => {
      if (level === 'warn') throw new Error(`${file}: ${log.message}`);
    },
  });
  try {
    const to = join(top, 'dist/cli', file);
    const { output } = await built.write({ file: to, format: 'cjs', codeSplitting: false, minify: true });
    return createHash('sha256').update(output[0].code).digest('hex').slice(0, 16);
  } finally {
    await built.close();
  }
}

export async function bundleHook() {
  const hash = await bundle({ input: 'cli/hook/start.ts', file: 'hook-body.cjs', define: {}, plugins: [parts] });
  const define = { BODY_HASH: JSON.stringify(hash) };
  await bundle({ input: 'cli/hook/cached.ts', file: 'hook.cjs', define, plugins: [parts] });
}
