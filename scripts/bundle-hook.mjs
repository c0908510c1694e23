/**
 * Builds the hook command, CommonJS files in `dist/cli`: `hook-early.cjs`, which begins, `hook-body.cjs`, which holds the rest with
 * the engine for the addon, and `hook.cjs`, which starts both from V8's cache. What `src/cli/hook/` says of its parts is made
 * true here: light stand-ins for modules of Node, and the ordinary modules of `dist` where the portable backend serves.
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const top = fileURLToPath(new URL('..', import.meta.url));
const source = (path) => join(top, 'src', path);
const OUT = join(top, 'dist/cli');

const STAND_INS = {
  'node:crypto': source('cli/hook/light-crypto.ts'),
  'node:fs/promises': source('cli/hook/light-fs.ts'),
  'node:module': source('cli/hook/light-module.ts'),
  'node:os': source('cli/hook/light-os.ts'),
  'node:timers/promises': source('cli/hook/light-timers.ts'),
};
const GLOBALS = { performance: [source('cli/hook/light-clock.ts'), 'performance'] };
/** Dynamic imports that stay one, as seen from dist/cli. */
const OUTSIDE = {
  [source('cli/hook/main.ts')]: './hook/main.js',
  [source('backend/portable/portable.ts')]: '../backend/portable/portable.js',
};

const parts = {
  name: 'takeback-hook',
  async resolveId(id, importer, { kind }) {
    if (id in STAND_INS && kind === 'import-statement') return STAND_INS[id];
    if (kind !== 'dynamic-import') return null;
    const found = await this.resolve(id, importer);
    const outside = found === null ? undefined : OUTSIDE[found.id];
    return outside === undefined ? null : { id: outside, external: true };
  },
};

/** `hook.cjs` takes a byte for a character. What is escaped stands in strings, templates and patterns alone. */
const ascii = (code) => code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Answers the code of the files that it wrote. */
async function bundle({ input, define, output }) {
  const built = await rolldown({
    input,
    platform: 'node',
    tsconfig: false,
    preserveEntrySignatures: 'allow-extension',
    treeshake: { moduleSideEffects: false },
    transform: { define: { ...define, 'import.meta.url': '__filename' }, inject: GLOBALS },
    plugins: [parts],
    onLog: (level, log) => {
      if (level === 'warn') throw new Error(`${Object.keys(input)}: ${log.message}`);
    },
  });
  try {
    const made = await built.generate({ format: 'cjs', minify: true, entryFileNames: 'hook-[name].cjs', ...output });
    return made.output.map(({ fileName, code }) => {
      const written = ascii(code);
      writeFileSync(join(OUT, fileName), written);
      return { fileName, code: written };
    });
  } finally {
    await built.close();
  }
}

export async function bundleHook() {
  const { version } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8'));
  const files = await bundle({
    input: { early: source('cli/hook/early.ts'), body: source('cli/hook/start.ts') },
    define: { PACKAGE_VERSION: JSON.stringify(version) },
    output: {},
  });
  const names = files.map(({ fileName }) => fileName).sort();
  if (names.join() !== 'hook-body.cjs,hook-early.cjs') throw new Error(`not two files: ${names}`);
  const hash = createHash('sha256');
  for (const { code } of files) hash.update(code);
  await bundle({
    input: { hook: source('cli/hook/cached.ts') },
    define: { CODE_HASH: JSON.stringify(hash.digest('hex').slice(0, 16)) },
    output: { entryFileNames: '[name].cjs', codeSplitting: false },
  });
}
