/**
 * Holds the map of ARCHITECTURE.md: imports point down only. Reads the sources; knows nothing of what they do.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const MAX_LINES = 400;

/** Interfaces without an implementation: any room may name them. */
const CONTRACTS = ['api.ts', 'backend/backend.ts', 'blobs/blobs.ts', 'timeline/timeline.ts'];
const WORDS = ['types.ts', 'errors.ts', 'rel-path.ts', 'wire.ts', 'schemas.ts'];
const HOST = ['data-dir.ts', 'process-owner.ts'];

/** Lowest first. A file may import its own room and those before it. */
const ROOMS: readonly (readonly [room: string, holds: (file: string) => boolean])[] = [
  ['words', (file) => WORDS.includes(file)],
  ['contracts', (file) => CONTRACTS.includes(file)],
  ['host', (file) => HOST.includes(file)],
  ['git', (file) => file.startsWith('git/')],
  ['backend', (file) => file.startsWith('backend/')],
  ['blobs', (file) => file.startsWith('blobs/')],
  ['timeline', (file) => file.startsWith('timeline/')],
  ['model', (file) => file.startsWith('model/')],
  ['engine', (file) => file.startsWith('engine/')],
  ['public', (file) => ['workspace.ts', 'session.ts', 'history.ts'].includes(file)],
  ['hooks', (file) => file.startsWith('hooks/') || file.startsWith('tools/')],
  ['index', (file) => file === 'index.ts'],
  ['adapters', (file) => file.startsWith('adapters/')],
  ['cli', (file) => file.startsWith('cli/')],
];

/** The pure room: what it may take from others besides contracts, which it may name as types. */
const MODEL_MAY_IMPORT = ['types.ts', 'errors.ts', 'rel-path.ts', 'wire.ts'];
const MODEL_PACKAGES = ['diff'];

/** Rust files that may speak N-API; all others are plain Rust. */
const NAPI_FILES = /^(lib\.rs|task\.rs|task\/.*|binding\/.*)$/;

interface Import {
  readonly from: string;
  readonly typeOnly: boolean;
}

function filesBelow(folder: string, ending: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true })
    .map((name) => String(name).replaceAll('\\', '/'))
    .filter((name) => name.endsWith(ending))
    .sort();
}

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}

function importsOf(source: string): Import[] {
  const text = withoutComments(source);
  const found: Import[] = [];
  for (const [, type, from] of text.matchAll(/^(?:import|export)\s+(type\s)?[^;'"]*?from\s+'([^']+)'/gm)) {
    found.push({ from: from as string, typeOnly: type !== undefined });
  }
  for (const [, from] of text.matchAll(/^import\s+'([^']+)'/gm)) found.push({ from: from as string, typeOnly: false });
  for (const [, from] of text.matchAll(/\bimport\(\s*'([^']+)'\s*\)/g))
    found.push({ from: from as string, typeOnly: false });
  return found;
}

const SRC = join(TOP, 'src');
const sources = filesBelow(SRC, '.ts').map((file) => {
  const text = readFileSync(join(SRC, file), 'utf8');
  const all = importsOf(text);
  const own = all
    .filter(({ from }) => from.startsWith('.'))
    .map((entry) => ({ ...entry, to: posix.normalize(posix.join(dirname(file), entry.from)) }));
  return { file, text, own, packages: all.filter(({ from }) => !from.startsWith('.')) };
});

const rankOf = (file: string): number => ROOMS.findIndex(([, holds]) => holds(file));
const roomOf = (file: string): string => ROOMS[rankOf(file)]?.[0] ?? 'none';

describe('imports', () => {
  test('every source file belongs to a room of the map', () => {
    expect(sources.map(({ file }) => file).filter((file) => rankOf(file) < 0)).toEqual([]);
  });

  test('point down only', () => {
    const upward = sources.flatMap(({ file, own }) =>
      own
        .filter(({ to }) => rankOf(to) > rankOf(file))
        .map(({ to }) => `${file} (${roomOf(file)}) imports ${to} (${roomOf(to)})`),
    );
    expect(upward).toEqual([]);
  });

  test('name files that exist', () => {
    const names = new Set(sources.map(({ file }) => file));
    const missing = sources.flatMap(({ file, own }) =>
      own.filter(({ to }) => !names.has(to)).map(({ to }) => `${file}: ${to}`),
    );
    expect(missing).toEqual([]);
  });

  test('contracts import types only', () => {
    const wrong = sources
      .filter(({ file }) => CONTRACTS.includes(file))
      .flatMap(({ file, own, packages }) =>
        [...own, ...packages].filter(({ typeOnly }) => !typeOnly).map(({ from }) => `${file}: ${from}`),
      );
    expect(wrong).toEqual([]);
  });

  test('both backends stand apart: neither imports the other', () => {
    const crossing = sources.flatMap(({ file, own }) =>
      own
        .filter(({ to }) => file.startsWith('backend/portable/') && /^backend\/(native|load-addon)/.test(to))
        .map(({ to }) => `${file}: ${to}`),
    );
    expect(crossing).toEqual([]);
  });
});

describe('model/', () => {
  const model = sources.filter(({ file }) => file.startsWith('model/'));

  test('has files', () => {
    expect(model.length).toBeGreaterThan(0);
  });

  test('imports no module of Node and no package but diff', () => {
    const wrong = model.flatMap(({ file, packages }) =>
      packages.filter(({ from }) => !MODEL_PACKAGES.includes(from)).map(({ from }) => `${file}: ${from}`),
    );
    expect(wrong).toEqual([]);
  });

  test('imports words, and contracts as types', () => {
    const wrong = model.flatMap(({ file, own }) =>
      own
        .filter(({ to, typeOnly }) => {
          if (to.startsWith('model/') || MODEL_MAY_IMPORT.includes(to)) return false;
          return !(CONTRACTS.includes(to) && typeOnly);
        })
        .map(({ to }) => `${file}: ${to}`),
    );
    expect(wrong).toEqual([]);
  });

  test('reads no clock and no randomness', () => {
    const wrong = model.filter(({ text }) =>
      /\bDate\.now\(|\bnew Date\(\)|\bMath\.random\(|\bperformance\.now\(|\bprocess\./.test(withoutComments(text)),
    );
    expect(wrong.map(({ file }) => file)).toEqual([]);
  });
});

test('adapters import no package of a host: zod and modules of Node only', () => {
  const wrong = sources
    .filter(({ file }) => file.startsWith('adapters/'))
    .flatMap(({ file, packages }) => packages.map(({ from }) => [file, from] as const))
    .filter(([, from]) => from !== 'zod' && !from.startsWith('node:'));
  expect(wrong).toEqual([]);
});

test('index.ts re-exports and does nothing else', () => {
  const index = withoutComments(sources.find(({ file }) => file === 'index.ts')?.text ?? '');
  expect(index.replace(/export\s+(type\s+)?(\*|\{[^}]*\})\s+from\s+'[^']+';/g, '').trim()).toBe('');
});

test('no source file is longer than 400 lines', () => {
  const long = [
    ...filesBelow(SRC, '.ts').map((file) => join('src', file)),
    ...filesBelow(join(TOP, 'native', 'src'), '.rs').map((file) => join('native', 'src', file)),
  ]
    .map((file) => [file, readFileSync(join(TOP, file), 'utf8').trimEnd().split('\n').length] as const)
    .filter(([, lines]) => lines > MAX_LINES)
    .map(([file, lines]) => `${file}: ${lines} lines`);
  expect(long).toEqual([]);
});

test('only lib.rs, task.rs and binding/ speak N-API', () => {
  const folder = join(TOP, 'native', 'src');
  const wrong = filesBelow(folder, '.rs')
    .filter((file) => !NAPI_FILES.test(file))
    .filter((file) => /\bnapi(_derive)?::|#\[napi/.test(withoutComments(readFileSync(join(folder, file), 'utf8'))));
  expect(wrong).toEqual([]);
});
