/** Harn's methods: the oracle, and what a file of requests can't say: restarts, roots, open workspaces, any input at all. */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Answer,
  type CheckpointMethods,
  type CheckpointMethodsOptions,
  checkpointMethods,
} from '../../src/adapters/harn.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { openWorkspace, TakebackError, type Workspace } from '../../src/index.ts';
import { availableBackends, describeBackends } from '../kit/backends.ts';
import { recipe, runRecipe } from '../kit/recipe.ts';
import { Space } from '../kit/space.ts';
import { differing, snapshot } from '../kit/tree.ts';
import { harnDriver, openOptions } from './harn/drivers.ts';
import { anyRequest, soundAnswer } from './harn/fuzz.ts';
import { type Method, play, scenes } from './harn/oracle.ts';

const backend = availableBackends[0] as BackendKind;

/** The value, or a failed test that says why there is none. */
function ok<T>(answer: Answer<T>): { readonly available: true } & T {
  if (!answer.available) throw new Error(`unavailable: ${answer.reason}: ${answer.detail}`);
  return answer;
}

class Bench {
  readonly space = new Space();
  readonly opened: Workspace[] = [];
  readonly #all: CheckpointMethods[] = [];

  methods(options: CheckpointMethodsOptions = {}): CheckpointMethods {
    const methods = checkpointMethods({
      ...openOptions(this.space, backend),
      open: async (open) => {
        const workspace = await openWorkspace(open);
        this.opened.push(workspace);
        return workspace;
      },
      ...options,
    });
    this.#all.push(methods);
    return methods;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const methods of this.#all) await methods.close();
    await this.space[Symbol.asyncDispose]();
  }
}

describeBackends('the oracle, through Harn’s methods', (kind) => {
  test.each(scenes().filter(({ ordinaryUser }) => !ordinaryUser))('$claim', async (scene) => {
    await using space = new Space();
    const driver = harnDriver(scene, space, kind);
    await play(scene, space, driver).finally(() => driver.close());
  });
});

describeBackends('a turn through Harn’s methods', (kind) => {
  test('a restore takes back exactly what its edit, shell, parallel and failed calls changed', async () => {
    await using bench = new Bench();
    const { space } = bench;
    space.sh('echo 0 > edited.txt; mkdir src; echo 0 > src/gone.txt; echo 0 > user.txt; echo log > .gitignore');
    const methods = bench.methods({ backend: kind, root: space.root });
    ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm1' }));
    const start = snapshot(space.root);
    const call = async (call_id: string, run: () => void | Promise<void>, is_error = false): Promise<void> => {
      ok(await methods.checkpoint_call_begin({ session_id: 's1', call_id }));
      await run();
      ok(await methods.checkpoint_call_end({ session_id: 's1', call_id, is_error }));
    };
    await call('edit', () => space.write('edited.txt', '1'));
    await call(
      'shell',
      () => void space.sh('rm -r src; mkdir out; echo 1 > out/a; chmod 755 edited.txt; ln -s a link'),
    );
    await Promise.all([call('p1', () => space.write('one.txt', '1')), call('p2', () => space.write('two.txt', '1'))]);
    await call('failed', () => space.write('half-written.txt', '1'), true);
    space.write('user.txt', 'the user’s');
    space.write('later.txt', 'the user’s');
    const receipt = ok(await methods.checkpoint_restore({ session_id: 's1', boundary_id: 'm1' }));
    expect(receipt.restored.map(({ path, action }) => [path, action])).toEqual([
      ['edited.txt', 'restore'],
      ['half-written.txt', 'delete'],
      ['link', 'delete'],
      ['one.txt', 'delete'],
      ['out/a', 'delete'],
      ['src/gone.txt', 'recreate'],
      ['two.txt', 'delete'],
    ]);
    expect(differing(start, snapshot(space.root))).toEqual(['later.txt', 'user.txt']);
  });
});

describe('sessions and their roots', () => {
  test('what is recorded outlives the process: other methods on the same data directory go on with it', async () => {
    await using bench = new Bench();
    const { space } = bench;
    space.write('a.txt', '0');
    const root = space.root;
    const first = bench.methods();
    ok(await first.checkpoint_capture({ session_id: 's1', boundary_id: 'm1', root }));
    ok(await first.checkpoint_call_begin({ session_id: 's1', call_id: 'c1' }));
    space.write('a.txt', '1');
    ok(await first.checkpoint_call_end({ session_id: 's1', call_id: 'c1', side_effect: 'network' }));
    await first.close();
    const second = bench.methods();
    expect(await second.checkpoint_plan({ session_id: 's1', boundary_id: 'm1' })).toMatchObject({
      available: false,
      reason: 'no_checkpoint',
    });
    const receipt = ok(await second.checkpoint_restore({ session_id: 's1', boundary_id: 'm1', root }));
    expect(receipt.irreversible).toEqual([{ call_id: 'c1', side_effect: 'network', invocation: 1 }]);
    expect(space.read('a.txt')).toBe('0');
  });

  test('sessions of one root share an open workspace, by any spelling, and it closes with the last of them', async () => {
    await using bench = new Bench();
    const { space } = bench;
    space.sh('ln -s w ../alias');
    const methods = bench.methods();
    ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm1', root: space.root }));
    ok(await methods.checkpoint_capture({ session_id: 's2', boundary_id: 'm1', root: join(space.base, 'alias') }));
    expect(bench.opened.map(({ available }) => available)).toEqual([true]);
    await methods.checkpoint_drop({ session_id: 's1' });
    expect(bench.opened.map(({ available }) => available)).toEqual([true]);
    await methods.release('s2');
    expect(bench.opened.map(({ reason }) => reason)).toEqual(['closed']);
    ok(await methods.checkpoint_plan({ session_id: 's2', boundary_id: 'm1', root: space.root }));
    expect(bench.opened.map(({ available }) => available)).toEqual([false, true]);
  });

  test('a root that could not be opened is tried again, and holds nothing open', async () => {
    await using bench = new Bench();
    const methods = bench.methods();
    const root = join(bench.space.base, 'later');
    const capture = () => methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm1', root });
    expect(await Promise.all([capture(), capture()])).toMatchObject([
      { available: false, reason_code: 'root-missing' },
      { available: false, reason_code: 'root-missing' },
    ]);
    mkdirSync(root);
    expect(await capture()).toMatchObject({ available: true, boundary_id: 'm1' });
  });

  test('a call whose begin was not available ends with the same answer, also when its root came meanwhile', async () => {
    await using bench = new Bench();
    const methods = bench.methods();
    const root = join(bench.space.base, 'later');
    const call = { session_id: 's1', call_id: 'c1', root };
    expect(await methods.checkpoint_call_begin(call)).toMatchObject({ available: false, reason: 'root_missing' });
    mkdirSync(root);
    expect(await methods.checkpoint_call_end(call)).toMatchObject({ available: false, reason: 'root_missing' });
    await expect(methods.checkpoint_call_end(call)).rejects.toMatchObject({ code: 'ERR_UNKNOWN_CALL' });
  });

  test('a session has one root, a fixed root is the only one, and a first capture needs one', async () => {
    await using bench = new Bench();
    const { space } = bench;
    mkdirSync(join(space.base, 'other'));
    const other = join(space.base, 'other');
    const methods = bench.methods();
    const capture = { session_id: 's1', boundary_id: 'm1' };
    await expect(methods.checkpoint_capture(capture)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    ok(await methods.checkpoint_capture({ ...capture, root: space.root }));
    await expect(methods.checkpoint_plan({ ...capture, root: other })).rejects.toThrow(
      `the session works in ${space.root}, not in ${other}`,
    );
    await expect(methods.checkpoint_plan({ ...capture, root: 'w' })).rejects.toThrow('must be an absolute path');
    const fixed = bench.methods({ root: space.root });
    await expect(fixed.checkpoint_plan({ ...capture, root: other })).rejects.toThrow('root is fixed here');
    ok(await fixed.checkpoint_plan(capture));
    const chosen = bench.methods({ root: ({ session_id }) => (session_id === 's1' ? space.root : other) });
    ok(await chosen.checkpoint_plan(capture));
    expect(await chosen.checkpoint_plan({ ...capture, session_id: 's2' })).toMatchObject({ reason: 'no_checkpoint' });
  });

  test('tenants are apart', async () => {
    await using bench = new Bench();
    const { root } = bench.space;
    const one = bench.methods({ root, tenantId: 'one' });
    const two = bench.methods({ root, tenantId: 'two' });
    ok(await one.checkpoint_capture({ session_id: 's1', boundary_id: 'm1' }));
    expect(await two.checkpoint_plan({ session_id: 's1', boundary_id: 'm1' })).toMatchObject({
      reason: 'no_checkpoint',
    });
    expect(await two.checkpoint_drop({ session_id: 's1' })).toMatchObject({ dropped: false });
    expect(await one.checkpoint_drop({ session_id: 's1' })).toMatchObject({ dropped: true });
  });

  test('once closed, every method says so', async () => {
    await using bench = new Bench();
    const methods = bench.methods({ root: bench.space.root });
    ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm1' }));
    await methods.close();
    const closed = { available: false, reason: 'closed', reason_code: 'closed' };
    const id = { session_id: 's1' };
    expect(await methods.checkpoint_capture({ ...id, boundary_id: 'm2' })).toMatchObject(closed);
    expect(await methods.checkpoint_call_begin({ ...id, call_id: 'c1' })).toMatchObject(closed);
    expect(await methods.checkpoint_call_end({ ...id, call_id: 'c1' })).toMatchObject(closed);
    expect(await methods.checkpoint_plan({ ...id, boundary_id: 'm1' })).toMatchObject(closed);
    expect(await methods.checkpoint_restore({ ...id, boundary_id: 'm1' })).toMatchObject(closed);
    expect(await methods.checkpoint_drop(id)).toMatchObject({ ...closed, dropped: false });
    expect(await methods.checkpoint_fork({ ...id, fork_session_id: 's2' })).toMatchObject(closed);
  });

  test('options of openWorkspace and the default policy hold, and a request may say otherwise', async () => {
    await using bench = new Bench();
    const { space } = bench;
    space.write('large.txt', '0123456789');
    space.write('a.txt', '0');
    const methods = bench.methods({ root: space.root, limits: { maxFileBytes: 5 }, onConflict: 'overwrite' });
    const at = { session_id: 's1', boundary_id: 'm1' };
    expect(await methods.checkpoint_capture(at)).toMatchObject({
      unrestorable_files: 1,
      uncovered: [{ path: 'large.txt', reason: 'too-large' }],
    });
    ok(await methods.checkpoint_call_begin({ session_id: 's1', call_id: 'c1' }));
    space.write('a.txt', '1');
    ok(await methods.checkpoint_call_end({ session_id: 's1', call_id: 'c1' }));
    space.write('a.txt', '2');
    const refused = ok(await methods.checkpoint_plan({ ...at, on_conflict: 'refuse' }));
    expect(refused.entries).toMatchObject([{ path: 'a.txt', action: 'refuse' }]);
    expect(ok(await methods.checkpoint_restore(at)).restored).toMatchObject([
      { path: 'a.txt', action: 'restore', overrides: 'changed-outside-session' },
    ]);
    expect(space.read('a.txt')).toBe('0');
  });

  test('wrong options are refused when the methods are made', () => {
    expect(() => checkpointMethods({ tenantId: '' })).toThrow('tenantId must not be empty');
    expect(() => checkpointMethods({ onConflict: 'force' as never })).toThrow(TakebackError);
    expect(() => checkpointMethods({ datadir: 'x' } as never)).toThrow('Unrecognized key: "datadir"');
  });
});

describe('forks', () => {
  test('conversation and files are independent: a fork touches no file, and a restore in it takes back the abandoned turns', async () => {
    await using bench = new Bench();
    const { space } = bench;
    space.write('a.txt', '0');
    const methods = bench.methods({ root: space.root });
    for (const turn of ['1', '2']) {
      ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: `m${turn}` }));
      ok(await methods.checkpoint_call_begin({ session_id: 's1', call_id: `c${turn}` }));
      space.write('a.txt', turn);
      ok(await methods.checkpoint_call_end({ session_id: 's1', call_id: `c${turn}` }));
    }
    expect(await methods.checkpoint_fork({ session_id: 's1', fork_session_id: 'f1', boundary_id: 'm1' })).toEqual({
      available: true,
      session_id: 'f1',
      boundary_id: 'm1',
    });
    expect(space.read('a.txt')).toBe('2');
    expect(await methods.checkpoint_plan({ session_id: 'f1', boundary_id: 'm2' })).toMatchObject({
      reason: 'unknown_boundary',
    });
    ok(await methods.checkpoint_restore({ session_id: 'f1', boundary_id: 'm1' }));
    expect(space.read('a.txt')).toBe('0');
  });

  test('without a boundary a fork stands at the newest; with an unknown one, or none at all, it says so', async () => {
    await using bench = new Bench();
    const methods = bench.methods({ root: bench.space.root });
    const fork = (boundary_id?: string) =>
      methods.checkpoint_fork({ session_id: 's1', fork_session_id: 'f1', ...(boundary_id && { boundary_id }) });
    expect(await fork()).toMatchObject({ available: false, reason: 'no_checkpoint' });
    ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm1' }));
    ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm2' }));
    expect(await fork('m9')).toMatchObject({ available: false, reason: 'unknown_boundary' });
    expect(await fork()).toEqual({ available: true, session_id: 'f1', boundary_id: 'm2' });
  });
});

/** A signal that is aborted already. */
const aborted = AbortSignal.abort();

describe('input of any kind', () => {
  test('an aborted signal is an error of its own, and nothing is recorded', async () => {
    await using bench = new Bench();
    const methods = bench.methods({ root: bench.space.root });
    const capture = { session_id: 's1', boundary_id: 'm1' };
    await expect(methods.checkpoint_capture(capture, { signal: aborted })).rejects.toMatchObject({
      code: 'ERR_CANCELLED',
    });
    expect(await methods.checkpoint_plan(capture)).toMatchObject({ reason: 'no_checkpoint' });
  });

  test('ids that are too long, or of another type, are refused by name', async () => {
    await using bench = new Bench();
    const methods = bench.methods({ root: bench.space.root });
    const long = 'x'.repeat(1025);
    await expect(methods.checkpoint_capture({ session_id: long, boundary_id: 'm1' })).rejects.toThrow(
      'request.session_id: must have at most 1,024 characters',
    );
    await expect(methods.checkpoint_call_end({ session_id: 's1', call_id: {} as never })).rejects.toThrow(
      'request.call_id: must be a string',
    );
    await expect(methods.checkpoint_drop({ session_id: 's1\0' })).rejects.toThrow(
      'request.session_id: must not hold a NUL character',
    );
    await expect(methods.checkpoint_plan(null as never)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  test('never a crash, never an empty success, never a write outside the data directory', async () => {
    await using bench = new Bench();
    const { space } = bench;
    space.sh('echo 0 > a.txt; mkdir d; echo 0 > d/b.txt');
    const methods = bench.methods({ root: space.root });
    ok(await methods.checkpoint_capture({ session_id: 's1', boundary_id: 'm1' }));
    const before = snapshot(space.base, (path) => path === 'data');
    let answers = 0;
    await fc.assert(
      fc.asyncProperty(anyRequest(), async ({ action, request }) => {
        try {
          const answer = await methods[`checkpoint_${action}` as Method](request as never);
          if (soundAnswer(action, answer)) answers += 1;
        } catch (error) {
          if (!(error instanceof TakebackError) || !MISUSE.has(error.code)) throw error;
        }
      }),
      { numRuns: 400, seed: 20261130 },
    );
    expect(answers, 'answers that are available').toBeGreaterThan(40);
    expect(
      differing(
        before,
        snapshot(space.base, (path) => path === 'data'),
      ),
    ).toEqual([]);
    expect(readdirSync(join(space.dataDir, 'workspaces')), 'ids make no folders').toHaveLength(1);
  });
});

const MISUSE: ReadonlySet<string> = new Set([
  'ERR_INVALID_ARGUMENT',
  'ERR_DUPLICATE_BOUNDARY',
  'ERR_DUPLICATE_CALL',
  'ERR_UNKNOWN_CALL',
  'ERR_OUTSIDE_ROOT',
  'ERR_EMPTY_PATHS',
]);

test('the recipe runs as it stands', async () => {
  await using space = new Space();
  const [block] = recipe("Harn's methods");
  const ran = await runRecipe(block?.code ?? '', { cwd: space.root, env: { XDG_STATE_HOME: space.dataDir } });
  expect(ran).toEqual({ stdout: 'delete notes.txt\ndone\n', stderr: '' });
  expect(space.exists('notes.txt')).toBe(false);
});
