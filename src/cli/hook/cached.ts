/**
 * `dist/cli/hook.cjs`: runs `hook-early.cjs` and then `hook-body.cjs`, which lie beside it, with V8's own cache of their compiled
 * code, which takes a sixth of Node's start off every hook. Node 20 has no such cache of its own.
 *
 * V8 runs what the cache holds, so it lies in the user's state folder, never in a data directory that a command line names
 * (that may come with a project), and counts only where it is the user's own file that nobody else may write. It is named by
 * the hash of both files and by Node's version; V8 refuses one of other flags or another processor. Without it, or where it
 * can't be written, all works the same. V8 compiles a function when it is first called, so what is written behind an event is
 * what ran until then: the first begin of a call and the first end write it, and its last byte says which of them did.
 */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Script } from 'node:vm';
import { defaultDataDir } from '../../data-dir.ts';
import type { beginEarly } from './early.ts';
import type { start } from './start.ts';

/** Put in by scripts/bundle-hook.mjs. */
declare const CODE_HASH: string;

const { O_RDONLY, O_NOFOLLOW = 0 } = constants;
const EARLY = 'hook-early.cjs';
/** Events that come often; others run much that these don't, which each would read for nothing. */
const KINDS: Readonly<Record<string, number>> = { begin: 1, end: 2 };

/** What Node gives to a CommonJS module; the files are written as functions of it. */
type Body = (given: {
  exports: object;
  require: (id: string) => unknown;
  module: object;
  __filename: string;
  __dirname: string;
}) => void;

interface Loaded<T> {
  readonly exports: T;
  /** Writes the cache, where it lacks what an event of that kind runs. */
  readonly keep: (kind: string | null) => void;
}

const folder = join(defaultDataDir(), 'hook-cache');

function cacheOf(name: string): string {
  return join(folder, `${name}-${CODE_HASH}-${process.version}-${process.arch}.bin`);
}

/** @param trusted what the file must be; undefined: it is read as it is, by any name */
function readWhole(file: string, trusted?: (found: Stats) => boolean): Buffer | undefined {
  const fd = openSync(file, trusted === undefined ? O_RDONLY : O_RDONLY | O_NOFOLLOW);
  try {
    const found = fstatSync(fd);
    if (trusted?.(found) === false) return undefined;
    const bytes = Buffer.allocUnsafeSlow(found.size);
    return readSync(fd, bytes, 0, found.size, 0) === found.size ? bytes : undefined;
  } finally {
    closeSync(fd);
  }
}

function readCache(file: string): Buffer | undefined {
  try {
    const user = process.getuid?.();
    return readWhole(file, ({ uid, mode }) => user === undefined || (uid === user && (mode & 0o022) === 0));
  } catch {
    return undefined;
  }
}

function writeCache(file: string, bytes: Buffer): void {
  const temporary = `${file}.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    // V8 checks the cache's head and length, not its bytes: a power cut must not leave a file of that length with others.
    writeFileSync(temporary, bytes, { mode: 0o600, flag: 'wx', flush: true });
    renameSync(temporary, file);
  } catch {
    // A hook without a cache is slower, nothing else.
    try {
      rmSync(temporary, { force: true });
    } catch {
      // No folder that can be reached: nothing is there.
    }
  }
}

/** Each file is one function, and ASCII alone, so that a byte is a character. */
function load<T>(name: string, ask: (id: string) => unknown): Loaded<T> {
  const filename = join(__dirname, name);
  const code = readWhole(filename)?.toString('latin1') ?? '';
  const known = readCache(cacheOf(name));
  const cachedData = known?.subarray(0, -1);
  const script = new Script(code, {
    filename,
    ...(cachedData === undefined ? {} : { cachedData }),
  });
  const module = { exports: {} as T };
  const run = script.runInThisContext() as Body;
  run({ exports: module.exports as object, require: ask, module, __filename: filename, __dirname });
  const covered = script.cachedDataRejected === false ? (known?.at(-1) ?? 0) : 0;
  const keep = (kind: string | null): void => {
    const covers = covered | ((kind !== null && KINDS[kind]) || 0);
    if (covers !== covered) writeCache(cacheOf(name), Buffer.concat([script.createCachedData(), Buffer.of(covers)]));
  };
  return { exports: module.exports, keep };
}

const nodes = (id: string): unknown => require(id);

async function main(args: readonly string[]): Promise<void> {
  const early = load<{ beginEarly: typeof beginEarly }>(EARLY, nodes);
  const begun = await early.exports.beginEarly(args);
  const ask = (id: string): unknown => (id === `./${EARLY}` ? early.exports : nodes(id));
  const body = load<{ start: typeof start }>('hook-body.cjs', ask);
  const started = body.exports.start(args, begun, () => import('./main.ts'));
  process.on('exit', () => {
    for (const { keep } of [early, body]) keep(started.kind);
  });
}

const given = process.argv.slice(2);
void main(given[0] === 'hook' ? given.slice(1) : given);
