/**
 * `dist/cli/hook.cjs`: runs `hook-body.cjs` beside it with V8's own cache of its compiled code, which takes a sixth of Node's
 * start off every hook. Node 20 has no such cache of its own.
 *
 * V8 runs what the cache holds, so it lies in the user's state folder, never in a data directory that a command line names
 * (that may come with a project), and counts only where it is the user's own file that nobody else may write. It is named by
 * the body's hash and by Node's version; V8 refuses one of other flags or another processor. Without it, or where it can't
 * be written, all works the same.
 */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import * as vm from 'node:vm';
import { defaultDataDir } from '../../data-dir.ts';
import type { Shared } from './start.ts';

/** Put in by scripts/bundle-hook.mjs. */
declare const BODY_HASH: string;

const { O_RDONLY, O_NOFOLLOW = 0 } = constants;

/** What Node gives to a CommonJS module. */
type Body = (given: {
  exports: object;
  require: NodeJS.Require;
  module: object;
  __filename: string;
  __dirname: string;
}) => void;

const body = join(__dirname, 'hook-body.cjs');
const cache = join(defaultDataDir(), 'hook-cache', `${BODY_HASH}-${process.version}-${process.arch}.bin`);

function readCache(): Buffer | undefined {
  try {
    const fd = openSync(cache, O_RDONLY | O_NOFOLLOW);
    try {
      const { uid, mode } = fstatSync(fd);
      const mine = process.getuid === undefined || (uid === process.getuid() && (mode & 0o022) === 0);
      return mine ? readFileSync(fd) : undefined;
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

function writeCache(bytes: Buffer): void {
  const temporary = `${cache}.${process.pid}`;
  try {
    mkdirSync(dirname(cache), { recursive: true, mode: 0o700 });
    writeFileSync(temporary, bytes, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, cache);
  } catch {
    // A hook without a cache is slower, nothing else.
    rmSync(temporary, { force: true });
  }
}

const cachedData = readCache();
const script = new vm.Script(
  `(function ({ exports, require, module, __filename, __dirname }) {${readFileSync(body, 'utf8')}\n})`,
  {
    filename: body,
    ...(cachedData === undefined ? {} : { cachedData }),
  },
);
const loaded = { exports: {} as { shared?: Shared } };
if (cachedData === undefined || script.cachedDataRejected === true) {
  process.on('exit', () => {
    // V8 compiles a function when it is first called: the begin of a call has most of what hooks run.
    if (loaded.exports.shared?.kind === 'begin') writeCache(script.createCachedData());
  });
}
(script.runInThisContext() as Body)({
  exports: loaded.exports,
  require: createRequire(body),
  module: loaded,
  __filename: body,
  __dirname,
});
// A wrong command line has ended the process by now.
(loaded.exports.shared as Shared).ordinary = () => import('./main.ts');
