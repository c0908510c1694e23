/** The ACP method on the official SDK: what an agent app answers, over an in-process pair of both ends. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RequestError as StableError, agent as stableAgent, client as stableClient } from '@agentclientprotocol/sdk';
import {
  RequestError as DraftError,
  agent as draftAgent,
  client as draftClient,
} from '@agentclientprotocol/sdk/experimental/v2';
import { agent, client, RequestError } from '@agentclientprotocol/sdk/unstable';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import {
  acpParamsSchemas,
  CHECKPOINT_METHOD,
  CHECKPOINT_METHOD_TWIN,
  checkpointClient,
  workspaceCheckpoints,
} from '../../src/adapters/acp.ts';
import { requestSchemas } from '../../src/adapters/harn.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { type OpenOptions, openWorkspace } from '../../src/index.ts';
import { availableBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { differing, snapshot } from '../kit/tree.ts';
import { Connected, camelKeys, INITIALIZE, openOptions, Pair, type PairOptions, refusal } from './harn/drivers.ts';
import { anyRequest, soundAnswer } from './harn/fuzz.ts';

const backend = availableBackends[0] as BackendKind;

describe('the agent’s end', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  async function pair(space: Space, more: PairOptions = {}): Promise<Pair> {
    const made = await Pair.open({ ...openOptions(space, backend), ...more });
    closing.push(() => made.close());
    return made;
  }

  async function started(space: Space, more: PairOptions = {}): Promise<Pair> {
    const made = await pair(space, more);
    await made.context.request('session/new', { cwd: space.root, mcpServers: [] });
    return made;
  }

  test('initialize tells what there is, beside what the host says of itself', async () => {
    await using space = new Space();
    const { context } = await pair(space);
    const { agentCapabilities } = await context.request<{ agentCapabilities: unknown }>('initialize', INITIALIZE);
    expect(agentCapabilities).toEqual({
      loadSession: true,
      _meta: {
        host: 1,
        takeback: {
          host: 2,
          workspaceCheckpoint: {
            methods: ['session/workspace_checkpoint', '_takeback/workspace_checkpoint'],
            actions: ['capture', 'call_begin', 'call_end', 'plan', 'restore', 'drop'],
          },
        },
      },
    });
  });

  test('both names of the method are one method', async () => {
    await using space = new Space();
    const { context } = await started(space);
    const capture = { sessionId: 's1', action: 'capture', boundaryId: 'm1', _meta: { any: 'thing' } };
    expect(await context.request(CHECKPOINT_METHOD_TWIN, capture)).toMatchObject({
      available: true,
      boundary_id: 'm1',
    });
    expect(
      await context.request(CHECKPOINT_METHOD, { sessionId: 's1', action: 'plan', boundaryId: 'm1' }),
    ).toMatchObject({
      available: true,
      entries: [],
    });
  });

  test('the root is the session’s cwd, of session/new, session/load and session/resume alike', async () => {
    await using space = new Space();
    const { context } = await started(space);
    for (const name of ['loaded', 'resumed']) {
      mkdirSync(join(space.base, name));
      writeFileSync(join(space.base, name, 'file'), '');
      const method = name === 'loaded' ? 'session/load' : 'session/resume';
      await context.request(method, { sessionId: name, cwd: join(space.base, name), mcpServers: [] });
      expect(await checkpointClient(context, name).capture('m1')).toMatchObject({ scanned_files: 1 });
    }
    expect(await checkpointClient(context, 's1').capture('m1')).toMatchObject({ scanned_files: 0 });
    await context.request('session/load', { sessionId: 's1', cwd: join(space.base, 'loaded'), mcpServers: [] });
    expect(await checkpointClient(context, 's1').capture('m1')).toMatchObject({ scanned_files: 1 });
  });

  test('wrong params are -32602 with what is wrong and its code, an unknown action and an empty list too', async () => {
    await using space = new Space();
    const { context } = await started(space);
    const send = (params: unknown) => refusal(context.request(CHECKPOINT_METHOD, params));
    const invalid = (message: string, code = 'ERR_INVALID_ARGUMENT') => ({
      code: -32602,
      message: `Invalid params: ${message}`,
      data: { code },
    });
    const actions = 'must be one of capture, call_begin, call_end, plan, restore, drop';
    expect(await send({ sessionId: 's1', action: 'explode' })).toEqual(invalid(`params.action: ${actions}`));
    expect(await send({ sessionId: 's1', action: 'toString' })).toEqual(invalid(`params.action: ${actions}`));
    expect(await send([])).toEqual(invalid('params: Invalid input: expected object, received array'));
    expect(await send({ action: 'drop' })).toEqual(invalid('params.sessionId: must be a string'));
    expect(await send({ sessionId: 's1', action: 'capture' })).toEqual(invalid('params.boundaryId: must be a string'));
    expect(await send({ sessionId: 's1', action: 'capture', boundaryId: 'm', root: '/' })).toEqual(
      invalid('params: Unrecognized key: "root"'),
    );
    expect(await send({ sessionId: 's1', action: 'call_end', callId: 'c1' })).toEqual(
      invalid('the session has no open call "c1". Begin it first.', 'ERR_UNKNOWN_CALL'),
    );
    expect(await send({ sessionId: 's1', action: 'restore', boundaryId: 'm', paths: [] })).toMatchObject({
      code: -32602,
      data: { code: 'ERR_EMPTY_PATHS' },
    });
  });

  test('an unknown session is -32002 with its id, an unknown method -32601, and before initialize all is -32600', async () => {
    await using space = new Space();
    const { context } = await started(space);
    const drop = { sessionId: 's9', action: 'drop' };
    expect(await refusal(context.request(CHECKPOINT_METHOD, drop))).toMatchObject({
      code: -32002,
      data: { sessionId: 's9' },
    });
    expect(await refusal(context.request('session/workspace_checkpoints', drop))).toMatchObject({ code: -32601 });
    const app = agent().onRequest('initialize', () => ({ protocolVersion: 1 }));
    const checkpoints = workspaceCheckpoints(app, { ...openOptions(space, backend), RequestError });
    const connection = client().connect(app);
    expect(await refusal(connection.agent.request(CHECKPOINT_METHOD, drop))).toMatchObject({ code: -32600 });
    connection.close();
    await checkpoints.close();
  });

  test('an agent whose handlers came first is told so', async () => {
    await using space = new Space();
    const app = agent().onRequest('initialize', () => ({ protocolVersion: 1 }));
    app.onRequest('session/new', () => ({ sessionId: 's1' }));
    const checkpoints = workspaceCheckpoints(app, { ...openOptions(space, backend), RequestError });
    const connection = client().connect(app);
    await connection.agent.request('initialize', INITIALIZE);
    await connection.agent.request('session/new', { cwd: space.root, mcpServers: [] });
    expect((await refusal(checkpointClient(connection.agent, 's1').capture('m1'))).message).toContain(
      'calls workspaceCheckpoints before it registers its handlers',
    );
    connection.close();
    await checkpoints.close();
  });

  test('a request that the client cancels is -32800, and records nothing', async () => {
    await using space = new Space();
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (open = resolve));
    const late = (options: OpenOptions) => gate.then(() => openWorkspace(options));
    const { checkpoints, context } = await started(space, { open: late });
    const capture = { sessionId: 's1', action: 'capture', boundaryId: 'm1' };
    const cancel = new AbortController();
    const cancelled = refusal(context.request(CHECKPOINT_METHOD, capture, { cancellationSignal: cancel.signal }));
    cancel.abort();
    await context.request('initialize', INITIALIZE);
    open();
    expect(await cancelled).toMatchObject({ code: -32800 });
    expect(await checkpointClient(context, 's1').plan('m1')).toMatchObject({ reason: 'no_checkpoint' });
    const aborted = checkpoints.handle(capture, { signal: AbortSignal.abort() });
    expect(await refusal(aborted)).toMatchObject({ code: -32800, data: { code: 'ERR_CANCELLED' } });
  });

  test('session/close and session/delete drop, and say so beside the host’s answer', async () => {
    await using space = new Space();
    const { context, seen } = await started(space);
    await context.request('session/new', { cwd: space.root, mcpServers: [] });
    for (const id of ['s1', 's2']) await checkpointClient(context, id).capture('m1');
    const dropped = { drop: { available: true, dropped: true, freed_bytes: expect.any(Number) } };
    expect(await context.request('session/close', { sessionId: 's1' })).toEqual({
      _meta: { host: true, takeback: dropped },
    });
    expect(await context.request('session/delete', { sessionId: 's2' })).toEqual({ _meta: { takeback: dropped } });
    expect(seen).toEqual(['delete']);
    for (const id of ['s1', 's2']) {
      expect(await refusal(checkpointClient(context, id).plan('m1'))).toMatchObject({ code: -32002 });
      await context.request('session/load', { sessionId: id, cwd: space.root, mcpServers: [] });
      expect(await checkpointClient(context, id).plan('m1')).toMatchObject({ reason: 'no_checkpoint' });
    }
  });

  test('with onClose: keep, a session that is closed and loaded again has its checkpoints', async () => {
    await using space = new Space();
    const { context } = await started(space, { onClose: 'keep' });
    await checkpointClient(context, 's1').capture('m1');
    expect(await context.request('session/close', { sessionId: 's1' })).toEqual({ _meta: { host: true } });
    await context.request('session/load', { sessionId: 's1', cwd: space.root, mcpServers: [] });
    expect(await checkpointClient(context, 's1').plan('m1')).toMatchObject({ available: true });
  });

  test('a drop that fails is said in the answer of session/close, which closes all the same', async () => {
    await using space = new Space();
    const { context } = await pair(space);
    await context.request('session/new', { cwd: join(space.base, 'missing'), mcpServers: [] });
    expect(await context.request('session/close', { sessionId: 's1' })).toMatchObject({
      _meta: { takeback: { drop: { available: false, dropped: false, reason: 'root_missing' } } },
    });
  });

  test('an agent brackets its own calls through the same session, and opens the workspace for undo and the rest', async () => {
    await using space = new Space();
    space.write('a.txt', '0');
    const { checkpoints } = await started(space);
    const session = checkpoints.session('s1');
    await session.capture('m1', { label: 'first' });
    await session.callBegin('c1');
    space.write('a.txt', '1');
    await session.callEnd('c1', { isError: true });
    const workspace = await space.open(backend);
    expect(await workspace.session({ threadId: 's1' }).undo()).toMatchObject({
      message: 'Undid the last turn. Files restored: 1.',
    });
    expect(space.read('a.txt')).toBe('0');
    expect(await session.drop()).toMatchObject({ dropped: true });
    expect(await refusal(checkpoints.session('s9').drop())).toMatchObject({ code: -32002 });
  });

  test('a fallback for all methods, and the SDK’s stable entry, are wrapped too', async () => {
    await using space = new Space();
    const app = stableAgent();
    const checkpoints = workspaceCheckpoints(app, { ...openOptions(space, backend), RequestError: StableError });
    const chained = app.onRequest('initialize', () => ({ protocolVersion: 1 }));
    expect(chained).toBe(app);
    app.onRequest('*', ({ method }) => {
      if (method !== 'session/new') throw StableError.methodNotFound(method);
      return { sessionId: 's1' };
    });
    const connection = stableClient().connect(app);
    await connection.agent.request('initialize', INITIALIZE);
    await connection.agent.request('session/new', { cwd: space.root, mcpServers: [] });
    expect(await checkpointClient(connection.agent, 's1').capture('m1')).toMatchObject({ available: true });
    for (const method of ['constructor', '__proto__', 'session/close']) {
      expect(await refusal(connection.agent.request(method, { sessionId: 's1' }))).toMatchObject({ code: -32601 });
    }
    connection.close();
    await checkpoints.close();
  });

  test('the draft of the protocol’s second version works the same', async () => {
    await using space = new Space();
    const app = draftAgent({ name: 'host' });
    const checkpoints = workspaceCheckpoints(app, { ...openOptions(space, backend), RequestError: DraftError });
    const info = { name: 'host', version: '1' };
    app
      .onRequest('initialize', () => ({ protocolVersion: 2, info, capabilities: {} }))
      .onRequest('session/new', () => ({ sessionId: 's1' }));
    const connection = draftClient({ name: 'client' }).connect(app);
    expect(await connection.agent.request('initialize', { protocolVersion: 2, info, capabilities: {} })).toMatchObject({
      capabilities: { _meta: { takeback: { workspaceCheckpoint: { actions: Object.keys(requestSchemas) } } } },
    });
    await connection.agent.request('session/new', { cwd: space.root, mcpServers: [] });
    expect(await checkpointClient(connection.agent, 's1').capture('m1')).toMatchObject({ available: true });
    connection.close();
    await checkpoints.close();
  });

  test('wrong options are refused at once', () => {
    expect(() => workspaceCheckpoints(agent(), {} as never)).toThrow('options.RequestError');
    expect(() => workspaceCheckpoints(agent(), { RequestError, onClose: 'forget' as never })).toThrow(
      'options.onClose',
    );
    expect(() => workspaceCheckpoints(agent(), { RequestError, maxEntries: 3 } as never)).toThrow('maxEntries');
  });

  test('any params at all: an answer that says something or an error with a code, and nothing outside the data directory', async () => {
    await using space = new Space();
    space.sh('echo 0 > a.txt; mkdir d; echo 0 > d/b.txt');
    const connected = await Connected.open(openOptions(space, backend));
    closing.push(() => connected.close());
    await connected.start('s1', space.root);
    await checkpointClient(connected.context, 's1').capture('m1');
    const before = snapshot(space.base, (path) => path === 'data');
    let answers = 0;
    await fc.assert(
      fc.asyncProperty(anyRequest(), async ({ action, request }) => {
        const fields = typeof request === 'object' && !Array.isArray(request) && request !== null;
        const params = fields ? { action, ...camelKeys(request as Record<string, unknown>) } : request;
        try {
          const sent = JSON.parse(JSON.stringify(params) ?? 'null');
          if (soundAnswer(action, await connected.context.request(CHECKPOINT_METHOD, sent))) answers += 1;
        } catch (error) {
          if (![-32602, -32002].includes((error as { code?: number }).code ?? 0)) throw error;
        }
      }),
      { numRuns: 300, seed: 20261130 },
    );
    expect(answers, 'answers that are available').toBeGreaterThan(40);
    expect(
      differing(
        before,
        snapshot(space.base, (path) => path === 'data'),
      ),
    ).toEqual([]);
  });
});

test('the params of each action are those of Harn’s request, in camelCase, without the root', () => {
  expect(Object.keys(acpParamsSchemas)).toEqual(Object.keys(requestSchemas));
  const endings = { sessionId: 's', callId: 'c', sideEffect: 'network', paths: ['a'], isError: true };
  expect(acpParamsSchemas.call_end.parse({ ...endings, action: 'call_end' })).toEqual({
    ...endings,
    action: 'call_end',
  });
  expect(acpParamsSchemas.call_end.safeParse({ ...endings, action: 'plan' }).success).toBe(false);
});
