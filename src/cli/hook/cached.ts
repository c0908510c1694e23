/**
 * `dist/cli/hook.cjs`: runs `hook-early.cjs` and then `hook-body.cjs`, which lie beside it, with V8's own cache of their compiled
 * code, which takes a sixth of Node's start off every hook. Node 20 has no such cache of its own.
 *
 * V8 runs what the cache holds, so it lies in the user's state folder, never in a data directory that a command line names
 * (that may come with a project), and counts only where it is the user's own file that nobody else may write. It is named by
 * the hash of both files and by Node's version; V8 refuses one of other flags or another processor. Without it, or where it
 * can't be written, all works the same.
 */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import * as vm from 'node:vm';
import { defaultDataDir } from '../../data-dir.ts';
import type { beginEarly } from './early.ts';
import type { start } from './start.ts';

/** Put in by scripts/bundle-hook.mjs. */
declare const CODE_HASH: string;

const { O_RDONLY, O_NOFOLLOW = 0 } = constants;
const EARLY = 'hook-early.cjs';

/** What Node gives to a CommonJS module. */
type Body = (given: {
  exports: object;
  require: (id: string) => unknown;
  module: object;
  __filename: string;
  __dirname: string;
}) => void;

interface Loaded<T> {
  readonly exports: T;
  /** Writes the cache, where it did not run from one. */
  readonly keep: () => void;
}

const folder = join(defaultDataDir(), 'hook-cache');

function cacheOf(name: string): string {
  return join(folder, `${name}-${CODE_HASH}-${process.version}-${process.arch}.bin`);
}

function readCache(file: string): Buffer | undefined {
  try {
    const fd = openSync(file, O_RDONLY | O_NOFOLLOW);
    try {
      const { uid, mode, size } = fstatSync(fd);
      if (process.getuid !== undefined && (uid !== process.getuid() || (mode & 0o022) !== 0)) return undefined;
      const bytes = Buffer.allocUnsafeSlow(size);
      return readSync(fd, bytes, 0, size, 0) === size ? bytes : undefined;
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

function writeCache(file: string, bytes: Buffer): void {
  const temporary = `${file}.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(temporary, bytes, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, file);
  } catch {
    // A hook without a cache is slower, nothing else.
    rmSync(temporary, { force: true });
  }
}

/** Both files hold ASCII alone, so that a byte is a character. */
function load<T>(name: string, ask: (id: string) => unknown): Loaded<T> {
  const filename = join(__dirname, name);
  const code = `(function ({ exports, require, module, __filename, __dirname }) {${readFileSync(filename, 'latin1')}\n})`;
  const cachedData = readCache(cacheOf(name));
  const script = new vm.Script(code, { filename, ...(cachedData === undefined ? {} : { cachedData }) });
  const module = { exports: {} as T };
  const run = script.runInThisContext() as Body;
  run({ exports: module.exports as object, require: ask, module, __filename: filename, __dirname });
  const cached = cachedData !== undefined && script.cachedDataRejected !== true;
  return { exports: module.exports, keep: () => cached || writeCache(cacheOf(name), script.createCachedData()) };
}

const nodes = (id: string): unknown => require(id);

async function main(args: readonly string[]): Promise<void> {
  const early = load<{ beginEarly: typeof beginEarly }>(EARLY, nodes);
  const begun = await early.exports.beginEarly(args);
  const ask = (id: string): unknown => (id === `./${EARLY}` ? early.exports : nodes(id));
  const body = load<{ start: typeof start }>('hook-body.cjs', ask);
  const started = body.exports.start(args, begun, () => import('./main.ts'));
  process.on('exit', () => {
    // V8 compiles a function when it is first called: the begin of a call has most of what hooks run.
    if (started.kind === 'begin') for (const { keep } of [early, body]) keep();
  });
}

const given = process.argv.slice(2);
void main(given[0] === 'hook' ? given.slice(1) : given);
