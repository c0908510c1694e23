/** The package as npm would pack it, and what a reader of its README follows. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const TOP = fileURLToPath(new URL('..', import.meta.url));
/** Without the addon, which is 5 MB. */
const MAX_UNPACKED_BYTES = 3_000_000;

interface Packed {
  readonly path: string;
  readonly size: number;
}

function packed(): readonly Packed[] {
  const told = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: TOP, encoding: 'utf8' });
  const [{ files }] = JSON.parse(told) as [{ files: Packed[] }];
  return files;
}

/** Targets of the links of a file that lead to other files of the checkout. */
function linksOf(file: string): string[] {
  const text = readFileSync(join(TOP, file), 'utf8').replaceAll(/^```[\s\S]*?^```$/gm, '');
  return [...text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, target]) => target as string);
}

/** A heading as the end of a link, as GitHub and npm make it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

test('the package holds the command, its hook files, the adapters and the docs that the README leads to, and no test', () => {
  const files = packed();
  const paths = files.map(({ path }) => path);
  expect(paths).toEqual(
    expect.arrayContaining([
      ...['dist/index.js', 'dist/index.d.ts', 'dist/cli/main.js', 'dist/cli/hook.cjs'],
      ...['dist/cli/hook-early.cjs', 'dist/cli/hook-body.cjs'],
      ...['acp', 'ai-sdk', 'claude-code', 'harn', 'kit', 'mcp', 'opencode', 'tanstack', 'testkit'].flatMap((name) => [
        `dist/adapters/${name}.js`,
        `dist/adapters/${name}.d.ts`,
      ]),
      ...['README.md', 'LIMITS.md', 'SECURITY.md', 'CHANGELOG.md', 'LICENSE'],
      ...linksOf('README.md')
        .map((target) => target.replace(/#.*$/, ''))
        .filter((target) => target.endsWith('.md')),
    ]),
  );
  expect(paths.filter((path) => /(^|\/)test\/|\.test\.|\.map$|^(src|native\/src|bench)\//.test(path))).toEqual([]);
  const bytes = files.filter(({ path }) => !path.endsWith('.node')).reduce((sum, { size }) => sum + size, 0);
  expect(bytes).toBeLessThan(MAX_UNPACKED_BYTES);
});

test.each(['README.md', 'CONTRIBUTING.md', 'docs/hosts.md', 'docs/tanstack.md'])(
  'the links of %s lead somewhere',
  (file) => {
    const folder = file.includes('/') ? 'docs' : '';
    const broken = linksOf(file).filter((link) => {
      const [target = '', anchor] = link.split('#');
      const path = join(TOP, folder, target === '' ? file : target);
      if (!existsSync(path)) return true;
      if (anchor === undefined) return false;
      const headings = [...readFileSync(path, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
        anchorOf(heading as string),
      );
      return !headings.includes(anchor);
    });
    expect(broken).toEqual([]);
  },
);
