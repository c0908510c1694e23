/**
 * The C programs of the stress tests, compiled once a run into the temp folder, and how long a run is: the bounded one of CI, or the
 * long one (`npm run stress`, TAKEBACK_STRESS=long). Where a compiler or the kernel's part is missing the reason is told.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const LONG = process.env.TAKEBACK_STRESS === 'long';

/** Of a figure: what CI can pay, and what the long run does. */
export function sized(ci: number, long: number): number {
  return LONG ? long : ci;
}

/** Every number from 1 to `total` in the long run; else at most `most` of them, spread evenly, the first and the last among them. */
export function numbers(total: number, most: number): number[] {
  if (LONG || total <= most) return Array.from({ length: total }, (_, i) => i + 1);
  const step = (total - 1) / Math.max(1, most - 1);
  return [...new Set(Array.from({ length: most }, (_, i) => 1 + Math.round(i * step)))];
}

/** Runs one after another on as many lanes as the machine has cores, one more where they wait for processes. */
export async function inLanes<T>(items: readonly T[], run: (item: T, lane: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lanes = Math.min(items.length, availableParallelism() + 1);
  const lane = async (_: unknown, number: number): Promise<void> => {
    while (next < items.length) await run(items[next++] as T, number);
  };
  const ends = await Promise.allSettled(Array.from({ length: lanes }, lane));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

export interface Tool {
  /** Path of the program; null where it can't run here. */
  readonly program: string | null;
  readonly missing: string;
}

/** Compiles `<name>.c` of this folder. `probe`: arguments with which it ends with 0 where this system has what it needs. */
export function tool(name: string, probe: readonly string[]): Tool {
  const folder = mkdtempSync(join(tmpdir(), 'takeback-tool-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const program = join(folder, name);
  const source = fileURLToPath(new URL(`${name}.c`, import.meta.url));
  const made = spawnSync('cc', ['-O2', '-Wall', '-Wextra', '-pthread', '-o', program, source], { encoding: 'utf8' });
  if (made.status !== 0) return { program: null, missing: `cc ${name}.c: ${made.error?.message ?? made.stderr}` };
  const tried = spawnSync(program, probe, { encoding: 'utf8' });
  if (tried.status === 0) return { program, missing: '' };
  return { program: null, missing: `${name}: exit ${tried.status}: ${tried.stderr}` };
}
