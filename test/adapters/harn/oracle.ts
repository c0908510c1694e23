/**
 * The oracle of Harn's methods: files of JSON lines, played against whatever answers the methods.
 *
 * A file is one claim. Its lines, in order: `{"claim"}`, beside it `"roots": "by-request"` where requests name the root, and
 * `"user": "ordinary"` where root's rights would hide what it is about;
 * `{"sh"}`, a shell command in the root; `{"checkpoint_…": request}`, followed by what it must answer: `{"result"}`, compared whole, or
 * `{"error"}`, the code of the misuse. `$ROOT` stands for the root. Placeholders stand for what differs from run to run: `<ms>`,
 * `<bytes>`, `<text>`, `<any>`, `<position>`, `<token>`, `<operation>`, and `<hash:NAME>`, which must be the same hash wherever the name comes again.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';
import type { Space } from '../../kit/space.ts';

export type Method =
  | 'checkpoint_capture'
  | 'checkpoint_call_begin'
  | 'checkpoint_call_end'
  | 'checkpoint_plan'
  | 'checkpoint_restore'
  | 'checkpoint_drop';

/** What is asked. `call` rejects for misuse with an error that has the `code`. */
export interface Driver {
  call(method: Method, request: Record<string, unknown>): Promise<unknown>;
  close(): Promise<void>;
}

export interface Scene {
  readonly claim: string;
  readonly rootsByRequest: boolean;
  readonly ordinaryUser: boolean;
  readonly lines: readonly string[];
}

interface Header {
  readonly claim: string;
  readonly roots?: 'by-request';
  readonly user?: 'ordinary';
}

type Line = { sh: string } | { result: unknown } | { error: string } | { [K in Method]?: Record<string, unknown> };

/** Every file of the folder, by name. */
export function scenes(): Scene[] {
  const folder = new URL('.', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  return files.sort().map((name) => {
    const lines = readFileSync(new URL(name, folder), 'utf8').trimEnd().split('\n');
    const first = JSON.parse(lines.shift() as string) as Header;
    const { claim, roots, user } = first;
    return { claim, rootsByRequest: roots === 'by-request', ordinaryUser: user === 'ordinary', lines };
  });
}

/** Plays one file. Every request must be followed by what it answers. */
export async function play(scene: Scene, space: Space, driver: Driver): Promise<void> {
  const hashes = new Map<string, string>();
  let answered: { is: unknown; of: string } | null = null;
  for (const text of scene.lines) {
    const line = JSON.parse(text.replaceAll('$ROOT', space.root)) as Line;
    if ('result' in line || 'error' in line) {
      if (answered === null) throw new Error(`no request stands before ${text}`);
      const expected = 'error' in line ? line : { result: filled(line.result, resultOf(answered.is), hashes) };
      expect(answered.is, `what ${answered.of} answers`).toEqual(expected);
      answered = null;
      continue;
    }
    if (answered !== null) throw new Error(`nothing is said of what ${answered.of} answers`);
    if ('sh' in line) space.sh(line.sh);
    else answered = { is: await ask(driver, line), of: text };
  }
  if (answered !== null) throw new Error(`nothing is said of what ${answered.of} answers`);
}

async function ask(driver: Driver, line: { [K in Method]?: Record<string, unknown> }): Promise<unknown> {
  const [method, request] = Object.entries(line)[0] as [Method, Record<string, unknown>];
  try {
    // An answer is JSON, whoever carries it.
    return { result: JSON.parse(JSON.stringify(await driver.call(method, request)), withoutRung) };
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (typeof code !== 'string') throw error;
    return { error: code };
  }
}

/** An entry may tell which rung of its ladder a backend took to write it: that differs from one backend to the other. */
function withoutRung(key: string, value: unknown): unknown {
  return key === 'note' && String(value).startsWith('guard:') ? undefined : value;
}

const resultOf = (answer: unknown): unknown => (answer as { result?: unknown }).result;

const PLACEHOLDERS: Readonly<Record<string, (value: unknown) => boolean>> = {
  '<ms>': (value) => typeof value === 'number' && value >= 0,
  '<bytes>': (value) => typeof value === 'number' && value >= 0,
  '<any>': (value) => value !== undefined,
  '<text>': (value) => typeof value === 'string' && value !== '',
  '<position>': (value) => typeof value === 'string' && value !== '',
  '<token>': (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
  '<operation>': (value) => typeof value === 'string' && /^[0-9a-f]{32}$/.test(value),
};

/** What is expected, with each placeholder that fits replaced by what is there. */
function filled(expected: unknown, actual: unknown, hashes: Map<string, string>): unknown {
  if (Array.isArray(expected)) {
    return expected.map((item, index) => filled(item, (actual as unknown[] | undefined)?.[index], hashes));
  }
  if (typeof expected === 'object' && expected !== null) {
    return Object.fromEntries(
      Object.entries(expected).map(([key, value]) => [
        key,
        filled(value, (actual as Record<string, unknown>)?.[key], hashes),
      ]),
    );
  }
  if (typeof expected !== 'string') return expected;
  const name = /^<hash:(.+)>$/.exec(expected)?.[1];
  if (name !== undefined) {
    if (!hashes.has(name) && typeof actual === 'string' && /^xxh3:[0-9a-f]{32}$/.test(actual)) hashes.set(name, actual);
    return hashes.get(name) ?? expected;
  }
  return PLACEHOLDERS[expected]?.(actual) === true ? actual : expected;
}
