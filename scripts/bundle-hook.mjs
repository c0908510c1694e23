/**
 * Builds `dist/cli/hook.cjs`: the hook command with the engine for the addon, in one CommonJS file. What `src/cli/hook/` says
 * of its parts is made true here: light stand-ins for two modules of Node, and the ordinary modules of `dist` where the
 * portable backend serves.
 */
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

export async function bundleHook() {
  const bundle = await rolldown({
    input: source('cli/hook/start.ts'),
    platform: 'node',
    tsconfig: false,
    treeshake: { moduleSideEffects: false },
    plugins: [parts],
    onLog: (level, log) => {
      if (level === 'warn') throw new Error(`the hook file: ${log.message}`);
    },
  });
  try {
    await bundle.write({ file: join(top, 'dist/cli/hook.cjs'), format: 'cjs', codeSplitting: false, minify: true });
  } finally {
    await bundle.close();
  }
}
