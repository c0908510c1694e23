/** The middleware in the real `chat()` of `@tanstack/ai`, with a scripted model. */

import { rmSync } from 'node:fs';
import type { ChatMiddleware } from '@tanstack/ai';
import { describe, expect, test } from 'vitest';
import {
  type SnapshotFailure,
  type SnapshotStep,
  type SnapshotsOptions,
  snapshots,
} from '../../src/adapters/tanstack.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { openWorkspace, type Session, type Workspace } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { differing, snapshot } from '../kit/tree.ts';
import {
  type ChatRun,
  type Chunk,
  custom,
  edit,
  fail,
  look,
  runChat,
  type ScriptedStep,
  shell,
  toolsIn,
} from './tanstack-kit.ts';

const STEP = 'tanstack/snapshots:step';
const FILE = 'tanstack/snapshots:file-changed';
const FAILED = 'tanstack/snapshots:failed';

function historyOf(space: Space, backend: BackendKind, more: Partial<SnapshotsOptions> = {}) {
  return snapshots({ root: space.root, dataDir: space.dataDir, backend, durability: 'fast', ...more });
}

type History = ReturnType<typeof historyOf>;

const user = (id: string) => ({ role: 'user', content: 'Fix it.', id });

function turn(space: Space, history: History, steps: readonly ScriptedStep[], more: Partial<ChatRun> = {}) {
  return runChat({
    messages: [user('u1')],
    steps,
    tools: toolsIn(space),
    middleware: [history.middleware],
    threadId: 'fix-login',
    ...more,
  });
}

async function undo(history: History, threadId = 'fix-login') {
  return got(await (await history.session({ threadId })).undo());
}

async function redo(history: History, threadId = 'fix-login') {
  return got(await (await history.session({ threadId })).redo());
}

const TURN: readonly ScriptedStep[] = [
  [edit('c1', 'src/app.ts', 'export const a = 2;\n')],
  [shell('c2', 'mkdir -p out && echo built > out/app.js && rm old.txt && chmod +x run.sh')],
  [edit('c3', 'README', 'new\n'), shell('c4', 'printf more >> README; ln -s README link')],
  [fail('c5', 'half.txt')],
  'Done.',
];

describeBackends('snapshots in chat()', (backend) => {
  test('undo takes back exactly what the turn’s tools did, failed ones and shell commands included; redo brings it back', async () => {
    await using space = new Space();
    space.sh(
      'mkdir src; echo "export const a = 1;" > src/app.ts; echo old > old.txt; echo x > run.sh; echo mine > mine.txt',
    );
    const history = historyOf(space, backend);
    const before = snapshot(space.root);
    await turn(space, history, TURN);
    const after = snapshot(space.root);
    space.write('added.txt', 'by the user\n');
    space.write('mine.txt', 'edited by the user\n');

    expect((await undo(history)).message).toBe('Undid the last turn. Files restored: 7.');
    expect(differing(before, snapshot(space.root)), 'only the user’s files differ').toEqual(['added.txt', 'mine.txt']);
    expect((await redo(history)).message).toBe('Redid the last turn.');
    expect(differing(after, snapshot(space.root))).toEqual(['added.txt', 'mine.txt']);
    await history.close();
  });

  test('each step that changed files is told, with all its calls; one that changed none is not', async () => {
    await using space = new Space();
    space.write('a.txt', '1\n');
    const history = historyOf(space, backend);
    const chunks = await turn(space, history, [
      [look('c1')],
      [edit('c2', 'a.txt', '2\n'), look('c3'), shell('c4', 'echo b > b.txt')],
      'Done.',
    ]);
    const steps = custom(chunks, STEP) as unknown as SnapshotStep[];
    expect(steps).toEqual([
      { from: expect.any(String), to: expect.any(String), files: ['a.txt', 'b.txt'], toolCallIds: ['c2', 'c3', 'c4'] },
    ]);
    const [{ from, to }] = steps as [SnapshotStep];
    const { files, patch } = await history.diff(from, to);
    expect(files).toEqual(['a.txt', 'b.txt']);
    expect(patch).toContain('-1\n+2\n');
    space.write('c.txt', 'later\n');
    expect((await history.diff(to)).files, 'without `to`: against the files now').toEqual(['c.txt']);
    await history.close();
  });

  test('each changed file is told with its patch and the call that changed it; those of undo without a call', async () => {
    await using space = new Space();
    const history = historyOf(space, backend);
    space.write('a.txt', '1\n');
    const chunks = await turn(space, history, [[shell('c1', 'echo 2 > a.txt')], 'Done.']);
    expect(custom(chunks, FILE)).toMatchObject([
      {
        change: 'updated',
        path: `${space.root}/a.txt`,
        toolCallId: 'c1',
        threadId: 'fix-login',
        patch: expect.stringContaining('+2'),
      },
    ]);
    const told: unknown[] = [];
    const unlisten = history.on('fileChanged', (file) => told.push([file.change, file.path, file.toolCallId]));
    await undo(history);
    unlisten();
    await redo(history);
    expect(told).toEqual([['updated', `${space.root}/a.txt`, undefined]]);
    await history.close();
  });

  test('a workspace that can’t be opened is told, and the chat runs as usual', async () => {
    await using space = new Space();
    const tools = toolsIn(space);
    rmSync(space.root, { recursive: true });
    const history = historyOf(space, backend);
    const heard: SnapshotFailure[] = [];
    history.on('snapshotFailed', (failure) => heard.push(failure));
    const chunks = await turn(space, history, [[look('c1')], 'Done.'], { tools });
    expect(custom(chunks, FAILED)).toMatchObject([{ reason: 'root-missing', threadId: 'fix-login' }]);
    expect(heard).toHaveLength(1);
    expect(heard[0]?.message).toMatch(/^snapshots: .*\. Snapshots are off\.$/);
    expect(chunks.at(-1)?.type).toBe('RUN_FINISHED');
    await expect(history.diff('tb1-00-0')).rejects.toThrow('root-missing');
    space.sh('true', { cwd: space.base });
    await history.close();
  });

  test('a root that comes later is used from the next turn on', async () => {
    await using space = new Space();
    rmSync(space.root, { recursive: true });
    const history = historyOf(space, backend);
    await turn(space, history, ['Hello.']);
    space.sh('mkdir w', { cwd: space.base });
    await turn(space, history, [[edit('c1', 'a.txt', '1\n')], 'Done.'], { messages: [user('u2')] });
    expect((await undo(history)).message).toBe('Undid the last turn. Files restored: 1.');
    expect(space.exists('a.txt')).toBe(false);
    await history.close();
  });

  test('a call that an abort cut off is ended, and the turn can be undone', async () => {
    await using space = new Space();
    const history = historyOf(space, backend);
    const stop: ChatMiddleware = {
      name: 'stop',
      onBeforeToolCall: (_ctx, { toolCallId }) => (toolCallId === 'c2' ? { type: 'abort', reason: 'no' } : undefined),
    };
    await turn(space, history, [[edit('c1', 'a.txt', '1\n'), edit('c2', 'b.txt', '2\n')], 'Done.'], {
      middleware: [history.middleware, stop],
    });
    expect(space.exists('b.txt')).toBe(false);
    expect((await undo(history)).message).toBe('Undid the last turn. Files restored: 1.');
    expect(space.exists('a.txt')).toBe(false);
    await history.close();
  });

  test('a run that goes on with the same message goes on with its turn', async () => {
    await using space = new Space();
    const history = historyOf(space, backend);
    await turn(space, history, [[edit('c1', 'a.txt', '1\n')], 'Done.']);
    const assistant = { role: 'assistant', content: '', id: 'a1', toolCalls: [] };
    await turn(space, history, [[edit('c2', 'b.txt', '2\n')], 'Done.'], { messages: [user('u1'), assistant] });
    const { items } = got(await (await history.session({ threadId: 'fix-login' })).timeline());
    expect(items.flatMap((item) => (item.type === 'boundary' ? [item.boundaryId] : []))).toEqual(['u1']);
    expect((await undo(history)).message).toBe('Undid the last turn. Files restored: 2.');
    await history.close();
  });

  test('the boundary is the user message, the run where it has no id; the step is the assistant message', async () => {
    await using space = new Space();
    const history = historyOf(space, backend);
    const ids: string[] = [];
    const watch: ChatMiddleware = {
      name: 'watch',
      onStart: (ctx) => void ids.push(ctx.runId),
      onBeforeToolCall: (ctx) => void ids.push(ctx.currentMessageId ?? ''),
    };
    await turn(space, history, [[edit('c1', 'a.txt', '1\n')], 'Done.'], {
      messages: [{ role: 'user', content: 'No id.' }],
      middleware: [watch, history.middleware],
    });
    const session = await history.session({ threadId: 'fix-login' });
    const { items } = got(await session.timeline());
    expect(items).toMatchObject([
      { type: 'boundary', boundaryId: ids[0] },
      { type: 'call', callId: 'c1', stepId: ids[1], tool: 'edit' },
    ]);
    await history.close();
  });

  test('a call whose paths are known owns nothing else', async () => {
    await using space = new Space();
    const history = historyOf(space, backend, {
      describeCall: ({ toolName, args }) =>
        toolName === 'edit' ? { paths: [(args as { path: string }).path] } : undefined,
    });
    const tools = toolsIn(space, () => space.write('theirs.txt', 'somebody else, meanwhile\n'));
    await turn(space, history, [[edit('c1', 'a.txt', '1\n')], 'Done.'], { tools });
    expect((await undo(history)).message).toBe('Undid the last turn. Files restored: 1.');
    expect(space.exists('a.txt')).toBe(false);
    expect(space.read('theirs.txt')).toBe('somebody else, meanwhile\n');
    await history.close();
  });

  test('a path outside the root that a tool names stops neither the call nor its record', async () => {
    await using space = new Space();
    const history = historyOf(space, backend, { describeCall: () => ({ paths: ['../elsewhere.txt'] }) });
    const chunks = await turn(space, history, [[shell('c1', 'echo 1 > a.txt')], 'Done.']);
    expect(custom(chunks, STEP)).toMatchObject([{ files: ['a.txt'], toolCallIds: ['c1'] }]);
    expect(custom(chunks, FAILED)).toEqual([]);
    await history.close();
  });

  test('threads and tenants are apart: undo in one leaves the other’s files', async () => {
    await using space = new Space();
    const history = historyOf(space, backend, { tenantId: ({ context }) => context as string | undefined });
    await turn(space, history, [[edit('c1', 'a.txt', '1\n')], 'Done.'], { threadId: 't1' });
    await turn(space, history, [[edit('c1', 'b.txt', '1\n')], 'Done.'], { threadId: 't2' });
    expect((await undo(history, 't1')).message).toBe('Undid the last turn. Files restored: 1.');
    expect([space.exists('a.txt'), space.exists('b.txt')]).toEqual([false, true]);
    const other = await history.session({ threadId: 't2', tenantId: 'acme' });
    expect(got(await other.undo()).message).toBe('Nothing to undo.');
    await history.close();
  });
});

/** A workspace whose sessions fail where the test says. */
function failing(workspace: Workspace, override: (session: Session) => object): Workspace {
  return new Proxy(workspace, {
    get: (target, key) => {
      if (key === 'session') {
        return (options: { threadId: string }) => {
          const session = target.session(options);
          const own = override(session);
          return new Proxy(session, {
            get: (inner, name) => {
              const value = Reflect.get(name in own ? own : inner, name) as unknown;
              return typeof value === 'function' ? value.bind(inner) : value;
            },
          });
        };
      }
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

describe('failures of ours', () => {
  async function chatWith(override: (session: Session) => object, more: Partial<SnapshotsOptions> = {}) {
    const space = new Space();
    const history = historyOf(space, 'portable', {
      open: async (options) => failing(await openWorkspace(options), override),
      ...more,
    });
    const chunks: Chunk[] = await turn(space, history, [
      [edit('c1', 'a.txt', '1\n')],
      [edit('c2', 'b.txt', '1\n')],
      'Done.',
    ]);
    return {
      space,
      history,
      chunks,
      [Symbol.asyncDispose]: async () => {
        await history.close();
        await space[Symbol.asyncDispose]();
      },
    };
  }
  const boom = () => Promise.reject(new Error('boom'));

  test.each(['capture', 'beginCall', 'endCall', 'steps'])(
    '%s that throws is told as failed, and the turn goes on',
    async (method) => {
      await using run = await chatWith(() => ({ [method]: boom }));
      expect(run.chunks.at(-1)?.type).toBe('RUN_FINISHED');
      expect(run.space.read('b.txt'), 'the tools ran').toBe('1\n');
      const failures = custom(run.chunks, FAILED);
      expect(failures.length).toBeGreaterThan(0);
      expect(failures[0]).toMatchObject({ detail: 'boom', message: 'snapshots: boom' });
    },
  );

  test('a capture that failed is tried again at the next step', async () => {
    let tries = 0;
    await using run = await chatWith((session) => ({
      capture: (id: string) => (++tries === 1 ? boom() : session.capture(id)),
    }));
    expect(tries).toBe(2);
    expect(custom(run.chunks, STEP)).toMatchObject([{ files: ['a.txt'] }, { files: ['b.txt'] }]);
  });

  test('a describeCall that throws is told, and the call is recorded without it', async () => {
    await using run = await chatWith(() => ({}), {
      describeCall: () => {
        throw new Error('no idea');
      },
    });
    expect(custom(run.chunks, FAILED)).toMatchObject([{ detail: 'no idea' }, { detail: 'no idea' }]);
    expect(custom(run.chunks, STEP)).toMatchObject([{ files: ['a.txt'] }, { files: ['b.txt'] }]);
  });

  test('options of the wrong form are an error at once', () => {
    expect(() => snapshots({ root: '/x', dataDirectory: '/y' } as never)).toThrow('dataDirectory');
  });
});
