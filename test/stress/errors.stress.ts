/**
 * One call of the file system fails, or it and all later ones: at every place of every command, with every error that a system
 * gives. No byte is lost, each path is old or new, what went wrong is said with a path, and a second try works.
 * CI takes four errors a command and backend and a place each, the same each time (TAKEBACK_STRESS_SEED chooses others); the long run
 * takes all.
 */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import {
  COMMANDS,
  type Command,
  difference,
  type Ran,
  retry,
  run,
  type Scene,
  scene,
  settle,
  treeOf,
} from './kit/scenario.ts';
import { inLanes, LONG, tool } from './kit/tools.ts';

const { program, missing } = tool('at-call', ['count', 'true']);
const ERRORS = ['EIO', 'ENOSPC', 'EDQUOT', 'EACCES', 'EMFILE', 'EINTR', 'EXDEV', 'EROFS', 'ENAMETOOLONG'] as const;
/** These may last: every later call fails too. */
const LASTING: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EROFS']);
/** In CI, of a command and backend. */
const ERRORS_A_RUN = 4;
const SEED = Number(process.env.TAKEBACK_STRESS_SEED ?? (LONG ? Date.now() % 1_000_000 : 1));

interface Place {
  readonly errno: string;
  readonly n: number;
  readonly lasting: boolean;
}

/** Which calls of a command to let fail. */
function places(calls: readonly string[], salt: number): Place[] {
  return ERRORS.flatMap((errno, i) => {
    if (!LONG && (i + SEED + salt * 5) % ERRORS.length >= ERRORS_A_RUN) return [];
    const able = calls.filter((call) => call.split(' ')[2]?.split(',').includes(errno)).length;
    if (able === 0) return [];
    const lasts = LASTING.has(errno);
    if (LONG) {
      const all = Array.from({ length: able }, (_, k) => ({ errno, n: k + 1, lasting: false }));
      return lasts ? [...all, ...all.map((place) => ({ ...place, lasting: true }))] : all;
    }
    const drawn = (SEED * 7919 + salt * 104_729 + i * 1_299_709) % 4_294_967_291;
    return [{ errno, n: 1 + (drawn % able), lasting: lasts && drawn % 2 === 0 }];
  });
}

/** What is wrong with how a command told of its failure. */
function badlyTold(ran: Ran, command: Command): string[] {
  if (command.event !== undefined) return ran.code === 0 ? [] : [`the hook ended with ${ran.code}: ${ran.errors}`];
  const last = ran.lines.at(-1);
  if (last === undefined) return [`no answer, exit ${ran.code}: ${ran.errors.slice(0, 500)}`];
  if (last.available === true) {
    const receipt = last.receipt ?? last;
    const failed = receipt.failed ?? [];
    return failed
      .filter((entry: { path?: string; detail?: string }) => !entry.path || !entry.detail)
      .map((entry: unknown) => `a failed path says no more than ${JSON.stringify(entry)}`);
  }
  const text: string = last.detail ?? `${last.message} ${last.path ?? ''}`;
  // A path, or which part of the store it was; an ability that a probe did not find is the whole file system's.
  const names = /\/|journal|trash|this file system/.test(text);
  return names ? [] : [`the answer names no path: ${JSON.stringify(last)}`];
}

async function fails(
  backend: Scene['backend'],
  command: Command,
  place: Place,
  after: Scene['before'],
): Promise<string[]> {
  await using at = await scene(backend, command);
  const action = `${place.lasting ? 'from' : 'fail'}:${place.n}:${place.errno}`;
  const ran = await run(at, { program: program as string, action });
  const call = ran.calls[0];
  const faults = badlyTold(ran, command);
  const last = ran.lines.at(-1);
  const outcome = last?.available === true ? ((last.receipt ?? last).outcome ?? 'done') : 'unavailable';
  if (command.changesTree === true && outcome === 'done') {
    const differs = difference(treeOf(at.space), after);
    if (differs.length > 0) faults.push(`it says done, and ${differs} differ`);
  }
  const { faults: found, end } = await settle(at, after, { backend, recover: 'rollback' });
  const unseen = (last?.problems ?? []).map(({ path }: { path: string }) => path);
  const part = end === 'neither' || outcome === 'partial';
  const done = command.changesTree === true && end === 'after' && outcome !== 'partial';
  faults.push(...found, ...(await retry(at, after, { backend, done, part, unseen, program: program as string })));
  return faults.map((fault) => `${action} (${call ?? 'not met'}) → ${outcome}: ${fault}`);
}

describeBackends('a call fails', (backend) => {
  console.info(`TAKEBACK_STRESS_SEED=${SEED}`);
  for (const [salt, command] of COMMANDS.entries()) {
    test.skipIf(program === null)(`${command.name}: with each error${missing && `: ${missing}`}`, async () => {
      await using whole = await scene(backend, command);
      const reference = await run(whole, { program: program as string, action: 'count' });
      expect(reference.code, reference.errors).toBe(0);
      const after = treeOf(whole.space);
      const faults: string[] = [];
      const chosen = places(reference.calls, salt);
      await inLanes(chosen, async (place) => void faults.push(...(await fails(backend, command, place, after))));
      console.info(`${backend} ${command.name}: ${reference.calls.length} calls, ${chosen.length} failures`);
      expect(faults).toEqual([]);
    });
  }
});
