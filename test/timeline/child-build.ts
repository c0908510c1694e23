/** Bundles `child.ts`, which imports the sources, into one file that any Node can run. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { afterAll } from 'vitest';

/** Inside the package, so that the bundle finds its dependencies; ignored by git, one per process and test file. */
export async function buildChild(): Promise<string> {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const outDir = join(root, 'node_modules', '.takeback-test', String(process.pid));
  await mkdir(outDir, { recursive: true });
  afterAll(() => rm(outDir, { recursive: true }));
  await build({
    configFile: false,
    root,
    logLevel: 'error',
    build: {
      ssr: join(root, 'test/timeline/child.ts'),
      outDir,
      emptyOutDir: false,
      target: 'node20',
      rolldownOptions: { output: { entryFileNames: 'child.mjs' } },
    },
  });
  return join(outDir, 'child.mjs');
}
