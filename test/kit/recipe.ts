/**
 * The recipes of docs/hosts.md as test input: finds the code blocks of a section, and runs a JavaScript one as a program of a
 * user who has installed takeback. Needs `dist`, which `npm test` builds first.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const TOP = fileURLToPath(new URL('../..', import.meta.url));

export interface Block {
  readonly language: string;
  readonly code: string;
}

/** The code blocks below `## heading`, in order. Throws where the section is missing or has none: a recipe is never empty. */
export function recipe(heading: string): Block[] {
  const text = readFileSync(join(TOP, 'docs/hosts.md'), 'utf8');
  const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  const blocks = [...(section ?? '').matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => ({
    language: language as string,
    code: code as string,
  }));
  if (blocks.length === 0) throw new Error(`docs/hosts.md has no code block under "## ${heading}"`);
  return blocks;
}

/**
 * Runs `code` as an ES module in a project that has takeback and `packages` (of this repository's node_modules) installed.
 * Answers what it printed; rejects, with its stderr, where it exits with another code than 0.
 */
export async function runRecipe(
  code: string,
  options: {
    packages?: readonly string[];
    /** Files beside the recipe, by name. */
    files?: Readonly<Record<string, string>>;
    /** Packages that are installed elsewhere, by name: their folders. */
    linked?: Readonly<Record<string, string>>;
    /** Packages that can't be installed here, by name: the code of a module that stands for each. */
    stubs?: Readonly<Record<string, string>>;
    env?: Record<string, string>;
    args?: readonly string[];
    cwd?: string;
  } = {},
): Promise<{ stdout: string; stderr: string }> {
  const project = mkdtempSync(join(tmpdir(), 'takeback-recipe-'));
  try {
    mkdirSync(join(project, 'node_modules'));
    symlinkSync(TOP, join(project, 'node_modules', 'takeback'));
    const packages = (options.packages ?? []).map((name) => [name, join(TOP, 'node_modules', name)] as const);
    for (const [name, folder] of [...packages, ...Object.entries(options.linked ?? {})]) {
      const link = join(project, 'node_modules', name);
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(folder, link);
    }
    for (const [name, text] of Object.entries(options.files ?? {})) writeFileSync(join(project, name), text);
    for (const [name, stub] of Object.entries(options.stubs ?? {})) {
      mkdirSync(join(project, 'node_modules', name), { recursive: true });
      writeFileSync(join(project, 'node_modules', name, 'package.json'), '{"type":"module","main":"index.js"}');
      writeFileSync(join(project, 'node_modules', name, 'index.js'), stub);
    }
    const file = join(project, 'recipe.mjs');
    writeFileSync(file, code);
    return await promisify(execFile)(process.execPath, [file, ...(options.args ?? [])], {
      cwd: options.cwd ?? project,
      env: { ...process.env, ...options.env },
      encoding: 'utf8',
    });
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}
