/** session/fork on the SDK's `unstable` entry: the host forks the conversation, the adapter its checkpoints. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ClientContext } from '@agentclientprotocol/sdk/unstable';
import { afterEach, describe, expect, test } from 'vitest';
import { checkpointClient } from '../../src/adapters/acp.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { availableBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { openOptions, Pair, type PairOptions, refusal } from './harn/drivers.ts';

const backend = availableBackends[0] as BackendKind;

describe('session/fork', () => {
  const pairs: Pair[] = [];
  afterEach(async () => {
    for (const pair of pairs.splice(0)) await pair.close();
  });

  async function started(space: Space, more: PairOptions = {}): Promise<Pair> {
    const pair = await Pair.open({ ...openOptions(space, backend), ...more });
    pairs.push(pair);
    await pair.context.request('session/new', { cwd: space.root, mcpServers: [] });
    return pair;
  }

  async function twoTurns(space: Space, context: ClientContext): Promise<void> {
    const session = checkpointClient(context, 's1');
    for (const turn of ['1', '2']) {
      await session.capture(`m${turn}`);
      await session.callBegin(`c${turn}`);
      space.write('a.txt', turn);
      await session.callEnd(`c${turn}`);
    }
  }
  const fork = (context: ClientContext, cwd: string, meta?: Record<string, unknown>): Promise<unknown> =>
    context.request('session/fork', { sessionId: 's1', cwd, mcpServers: [], ...(meta && { _meta: meta }) });

  test('forks at the boundary that the client names: a restore in the fork takes back the abandoned turns', async () => {
    await using space = new Space();
    space.write('a.txt', '0');
    const { context } = await started(space);
    await twoTurns(space, context);
    expect(await fork(context, space.root, { takeback: { boundaryId: 'm1' } })).toEqual({
      sessionId: 'f2',
      _meta: { takeback: { fork: { available: true, session_id: 'f2', boundary_id: 'm1' } } },
    });
    expect(space.read('a.txt')).toBe('2');
    expect(await checkpointClient(context, 'f2').restore('m1')).toMatchObject({ outcome: 'done' });
    expect(space.read('a.txt')).toBe('0');
  });

  test('without one it forks at the newest, also from a session that is not active here', async () => {
    await using space = new Space();
    const { context } = await started(space, { onClose: 'keep' });
    await twoTurns(space, context);
    await context.request('session/close', { sessionId: 's1' });
    expect(await fork(context, space.root)).toMatchObject({
      _meta: { takeback: { fork: { available: true, boundary_id: 'm2' } } },
    });
  });

  test('a boundary of the wrong form is refused before the host forks; an unknown one is said beside its answer', async () => {
    await using space = new Space();
    const { context, seen } = await started(space);
    await twoTurns(space, context);
    expect(await refusal(fork(context, space.root, { takeback: { boundaryId: 7 } }))).toMatchObject({ code: -32602 });
    expect(await refusal(fork(context, space.root, { takeback: 'm1' }))).toMatchObject({ code: -32602 });
    expect(seen).toEqual([]);
    expect(await fork(context, space.root, { takeback: { boundaryId: 'm9' } })).toMatchObject({
      sessionId: 'f2',
      _meta: { takeback: { fork: { available: false, reason: 'unknown_boundary' } } },
    });
    expect(await refusal(fork(context, space.root, { fail: true }))).toMatchObject({ code: -32603 });
  });

  test('a fork in another folder starts without checkpoints, and says so', async () => {
    await using space = new Space();
    mkdirSync(join(space.base, 'other'));
    const { context } = await started(space);
    await twoTurns(space, context);
    expect(await fork(context, join(space.base, 'other'))).toMatchObject({
      _meta: { takeback: { fork: { available: false, reason: 'unsupported' } } },
    });
    expect(await checkpointClient(context, 'f2').plan('m2')).toMatchObject({ reason: 'no_checkpoint' });
    expect(await checkpointClient(context, 'f2').capture('m1')).toMatchObject({ available: true });
  });
});
