/** The adapter kit: what a host tells, in order and out of order, and what is recorded of it. */
import { rmSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  type Adapter,
  type AdapterOptions,
  type Conversation,
  defineAdapter,
  lastUserMessage,
  type Problem,
  type Recorder,
} from '../../src/adapters/kit.ts';
import { adapterSuite } from '../../src/adapters/testkit.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { openWorkspace, type Session, type Workspace } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';

const recording = defineAdapter<Recorder>({
  name: 'test-host',
  tools: {
    edit: { paths: ({ path }: { path: string }) => [path], sideEffect: 'workspace_write' },
    look: { paths: [] },
    odd: { paths: () => 'not a list' as never },
    bad: {
      paths: () => {
        throw new Error('no idea');
      },
    },
  },
  mount: (recorder) => recorder,
});

class Kit {
  readonly space = new Space();
  readonly problems: Problem[] = [];
  readonly adapter: Adapter<Recorder>;

  constructor(backend: BackendKind, more: Partial<AdapterOptions> = {}) {
    const { root, dataDir } = this.space;
    const onProblem = (problem: Problem): void => void this.problems.push(problem);
    this.adapter = recording({ root, dataDir, backend, durability: 'fast', onProblem, ...more });
  }

  get thread(): Conversation {
    return this.adapter.conversation('t1');
  }

  write(path: string, content = '1\n'): void {
    this.space.write(path, content);
  }

  async items(conversation = this.thread) {
    return got(await (await conversation.session()).timeline()).items;
  }

  async boundaries(): Promise<string[]> {
    return (await this.items()).flatMap((item) => (item.type === 'boundary' ? [item.boundaryId] : []));
  }

  async calls() {
    return (await this.items()).filter((item) => item.type === 'call');
  }

  async undo(conversation = this.thread): Promise<string> {
    return (await conversation.undo()).message;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.adapter.close();
    await this.space[Symbol.asyncDispose]();
  }
}

/** A workspace that tells when a method of a session is used; what `hear` throws is thrown there. */
function watching(workspace: Workspace, method: string, hear: () => void): Workspace {
  const bound = (target: object, name: string | symbol): unknown => {
    const value = Reflect.get(target, name, target) as unknown;
    if (typeof value !== 'function') return value;
    if (name !== method) return value.bind(target);
    return async (...given: unknown[]) => {
      hear();
      return value.apply(target, given);
    };
  };
  const watched = (session: Session): Session => new Proxy(session, { get: (target, name) => bound(target, name) });
  return new Proxy(workspace, {
    get: (target, key) =>
      key === 'session' ? (options: { threadId: string }) => watched(target.session(options)) : bound(target, key),
  });
}

/** A workspace in which one method of every session rejects, so many times. */
function failing(workspace: Workspace, method: string, times = Number.POSITIVE_INFINITY): Workspace {
  let left = times;
  return watching(workspace, method, () => {
    left -= 1;
    if (left >= 0) throw new Error('boom');
  });
}

/** A promise and what settles it. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

describeBackends('the adapter suite on the kit', (backend) => {
  let messages = 0;
  const start = async ({ root, dataDir, runTool }: Parameters<Parameters<typeof adapterSuite>[0]['start']>[0]) => {
    const adapter = recording({ root, dataDir, backend, durability: 'fast', onProblem: () => undefined });
    const thread = adapter.conversation('t1');
    return {
      turn: async (steps: readonly (readonly Parameters<typeof runTool>[0][])[]) => {
        messages += 1;
        await thread.message({ id: `m${messages}` });
        for (const step of steps) {
          const runs = step.map((call) => thread.around({ tool: call.tool, input: call }, () => runTool(call)));
          await Promise.allSettled(runs);
        }
        await thread.turnEnded();
      },
      undo: () => thread.undo(),
      redo: () => thread.redo(),
      close: () => adapter.close(),
    };
  };
  for (const { name, run } of adapterSuite({ name: 'around', start })) test(name, run);
});

describeBackends('turns', (backend) => {
  test('a message that is told again goes on with its turn, also in another process', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({}, () => kit.write('a.txt'));
    await kit.thread.message({ id: 'm1' });
    await using later = recording({ root: kit.space.root, dataDir: kit.space.dataDir, backend });
    await later.conversation('t1').message({ id: 'm1' });
    expect(await kit.boundaries()).toEqual(['m1']);
    expect(kit.problems).toEqual([]);
  });

  test('a message that is told again after its turn was undone is a new turn', async () => {
    await using kit = new Kit(backend);
    for (const content of ['1\n', '2\n', '3\n']) {
      await kit.thread.message({ id: 'm1' });
      await kit.thread.around({}, () => kit.write('a.txt', content));
      await kit.undo();
    }
    expect(await kit.boundaries()).toEqual(['m1', 'm1#2', 'm1#3']);
    expect(kit.space.exists('a.txt')).toBe(false);
  });

  test('an old message that is told again, after others, is a new turn', async () => {
    await using kit = new Kit(backend);
    for (const id of ['m1', 'm2', 'm1']) {
      await kit.thread.message({ id });
      await kit.thread.around({}, () => kit.write(`${id}.txt`, `${Math.random()}`));
    }
    expect(await kit.boundaries()).toEqual(['m1', 'm2', 'm1#2']);
  });

  test('messages without ids are known by text and place; a trimmed history changes nothing', async () => {
    await using kit = new Kit(backend);
    const chat = (...texts: string[]) => lastUserMessage(texts.map((content) => ({ role: 'user', content })));
    await kit.thread.message(chat('go', 'go'));
    await kit.thread.message(chat('go', 'go'));
    await kit.thread.message(chat('go'));
    expect(await kit.boundaries()).toHaveLength(1);
    await kit.thread.message(chat('go', 'go', 'go'));
    await kit.thread.message(chat('go', 'go', 'go', 'stop'));
    expect(await kit.boundaries()).toHaveLength(3);
  });

  test('a message of which nothing is known is a turn each time', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message();
    await kit.thread.message();
    expect(await kit.boundaries()).toHaveLength(2);
  });

  test('calls before any message are in a turn of their own, and later ones of a known thread in its newest', async () => {
    await using kit = new Kit(backend);
    await kit.thread.around({}, () => kit.write('a.txt'));
    expect(await kit.boundaries()).toEqual(['start']);
    await kit.thread.message({ id: 'm1' });
    await using later = recording({ root: kit.space.root, dataDir: kit.space.dataDir, backend });
    await later.conversation('t1').around({}, () => kit.write('b.txt'));
    expect(await kit.boundaries()).toEqual(['start', 'm1']);
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
    expect(kit.space.exists('b.txt')).toBe(false);
  });

  test('a turn that is known to be new is begun without a look at the turns before it', async () => {
    let looks = 0;
    await using kit = new Kit(backend, {
      open: async (options) =>
        watching(await openWorkspace(options), 'timeline', () => {
          looks += 1;
        }),
    });
    for (const id of ['m1', 'm2', 'm2', 'm3']) {
      await kit.thread.message({ id });
      await kit.thread.around({}, () => kit.write('a.txt', id));
    }
    expect(looks).toBe(0);
    await kit.thread.turnEnded();
    await kit.thread.message({ id: 'm3' });
    expect(looks).toBe(1);
    expect(await kit.boundaries()).toEqual(['m1', 'm2', 'm3']);
  });

  test('what a host tells without waiting happens in order', async () => {
    await using kit = new Kit(backend);
    void kit.thread.message({ id: 'm1' });
    const first = kit.thread.around({ id: 'c1' }, () => kit.write('a.txt'));
    await first;
    void kit.thread.message({ id: 'm2' });
    void kit.thread.message({ id: 'm3' });
    await kit.thread.around({ id: 'c2' }, () => kit.write('b.txt'));
    const names = (await kit.items()).map((item) => (item.type === 'boundary' ? item.boundaryId : item.type));
    expect(names).toEqual(['m1', 'call', 'm2', 'm3', 'call']);
  });

  test('ids that the engine doesn’t take are made safe, and stay apart', async () => {
    await using kit = new Kit(backend);
    for (const id of ['', 'a\0b', 'x'.repeat(5000), `${'x'.repeat(5000)}y`, '../../etc/passwd']) {
      await kit.thread.message({ id });
      await kit.thread.around({ id, stepId: id, tool: 't'.repeat(5000) }, () => kit.write('a.txt', `${id.length}`));
    }
    expect(await kit.boundaries()).toHaveLength(5);
    expect((await kit.calls()).map(({ state }) => state)).toEqual(Array(5).fill('ended'));
    expect(kit.problems).toEqual([]);
  });

  test('a fork inherits up to the message, and a thread that is dropped is gone', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({}, () => kit.write('a.txt'));
    await kit.thread.message({ id: 'm2' });
    got(await kit.thread.fork({ threadId: 't2' }, { id: 'm2' }));
    const fork = kit.adapter.conversation('t2');
    expect(await kit.undo(fork)).toBe('Undid the last turn. Files restored: 1.');
    got(await fork.drop());
    expect((await fork.undo()).message).toBe('Nothing to undo.');
    expect((await fork.diff()).available).toBe(false);
    await fork.message({ id: 'm9' });
    expect((await kit.items(fork)).map(({ type }) => type)).toEqual(['boundary']);
  });

  test('diff is what changed since the newest turn began', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({}, () => kit.write('a.txt'));
    await kit.thread.message({ id: 'm2' });
    await kit.thread.around({}, () => kit.write('b.txt'));
    expect(got(await kit.thread.diff()).files.map(({ path }) => path)).toEqual(['b.txt']);
  });
});

describeBackends('calls', (backend) => {
  test('what is known of a tool is declared: its paths are its own, and a tool that only reads owns nothing', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({ tool: 'edit', input: { path: 'a.txt' } }, () => {
      kit.write('a.txt');
      kit.write('user.txt');
    });
    await kit.thread.around({ tool: 'look' }, () => kit.write('user.txt', '2\n'));
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
    expect([kit.space.exists('a.txt'), kit.space.read('user.txt')]).toEqual([false, '2\n']);
  });

  test.each(['odd', 'bad'])('a table that fails (%s) is told, and the call owns what changes', async (tool) => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({ id: 'c1', tool }, () => kit.write('a.txt'));
    expect(kit.problems).toMatchObject([{ adapter: 'test-host', threadId: 't1', during: 'tools' }]);
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
  });

  test('a path outside the root that a tool names stops neither the call nor its record', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({ tool: 'edit', input: { path: '../../x' } }, () => kit.write('a.txt'));
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
    expect(kit.problems).toEqual([]);
  });

  test('what is told wrongly at the end of a call is told as a problem, and the call ends', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1', label: 'x'.repeat(5000) });
    const one = await kit.thread.begin({ id: 'c1' });
    kit.write('a.txt');
    await one.end({ paths: ['../../x'] });
    await kit.thread.begin({ id: 'c2' });
    await kit.thread.end('c2', { sideEffect: 'everything' as never });
    expect(kit.problems.map(({ callId, reason }) => [callId, reason])).toEqual([
      ['c1', 'ERR_OUTSIDE_ROOT'],
      ['c2', 'ERR_INVALID_ARGUMENT'],
    ]);
    expect((await kit.calls()).map(({ state }) => state)).toEqual(['ended', 'ended']);
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
  });

  test('an id that comes twice at once is two calls, and each is ended', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.begin({ id: 'c' });
    await kit.thread.begin({ id: 'c' });
    kit.write('a.txt');
    await kit.thread.end('c');
    await kit.thread.end('c', { isError: true });
    await kit.thread.around({ id: 'c' }, () => kit.write('b.txt'));
    expect((await kit.calls()).map(({ callId, state, isError }) => [callId, state, isError])).toEqual([
      ['c', 'ended', false],
      ['c#2', 'ended', true],
      ['c', 'ended', false],
    ]);
    expect(kit.problems).toEqual([]);
  });

  test('a call without an id is ended by what its begin gave', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    const one = await kit.thread.begin({ tool: 'shell' });
    const two = await kit.thread.begin({ tool: 'shell' });
    expect(one.callId).toMatch(/^shell-/);
    expect(two.callId).not.toBe(one.callId);
    await two.end();
    await one.end({ sideEffect: 'network' });
    await one.end();
    expect((await kit.calls()).map(({ state, sideEffect }) => [state, sideEffect])).toEqual([
      ['ended', 'network'],
      ['ended', undefined],
    ]);
  });

  test('an end without a begin is told, and stops nothing', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.end('c9');
    expect(kit.problems).toMatchObject([{ during: 'endCall', callId: 'c9', reason: 'end-without-begin' }]);
  });

  test.each([
    ['the next message', (thread: Conversation) => thread.message({ id: 'm2' })],
    ['an abort', (thread: Conversation) => thread.aborted()],
    ['the end of the turn', (thread: Conversation) => thread.turnEnded()],
  ])('a begin without an end is ended by %s', async (_, after) => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.begin({ id: 'c1' });
    kit.write('a.txt');
    expect(await kit.undo()).toBe('Wait until the turn ends, then try again.');
    await after(kit.thread);
    expect(await kit.calls()).toMatchObject([{ callId: 'c1', state: 'ended', isError: true }]);
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
  });

  test('a call that still waits when its run is aborted is not begun, and nothing hangs', async () => {
    await using kit = new Kit(backend, { serialize: true });
    void kit.thread.message({ id: 'm1' });
    const first = kit.thread.begin({ id: 'c1' });
    const second = kit.thread.begin({ id: 'c2' });
    await first;
    await kit.thread.aborted();
    await second;
    expect((await kit.calls()).map(({ callId, state }) => [callId, state])).toEqual([['c1', 'ended']]);
    void kit.thread.begin({ id: 'c3' });
    await kit.thread.aborted();
    await kit.thread.around({ id: 'c4' }, () => kit.write('a.txt'));
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
  });

  test('around gives what the run gives, throws what it throws, and judges values', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    const boom = new Error('boom');
    expect(await kit.thread.around({ id: 'c1' }, () => 7)).toBe(7);
    await expect(kit.thread.around({ id: 'c2' }, () => Promise.reject(boom))).rejects.toBe(boom);
    await kit.thread.around(
      { id: 'c3' },
      () => ({ ok: false }),
      ({ ok }) => !ok,
    );
    expect((await kit.calls()).map(({ isError }) => isError)).toEqual([false, true, true]);
  });

  test('aroundEach lasts from before the first bit until nobody wants more', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    let cleaned = false;
    async function* bits() {
      try {
        kit.write('a.txt');
        yield 1;
        kit.write('b.txt');
        yield 2;
        kit.write('c.txt');
      } finally {
        cleaned = true;
      }
    }
    for await (const bit of kit.thread.aroundEach({ id: 'c1' }, bits)) if (bit === 2) break;
    expect(cleaned).toBe(true);
    const all: number[] = [];
    for await (const bit of kit.thread.aroundEach({ id: 'c2' }, bits)) all.push(bit);
    expect(all).toEqual([1, 2]);
    expect(await kit.calls()).toMatchObject([
      { callId: 'c1', state: 'ended', isError: true, files: { created: 2 } },
      { callId: 'c2', state: 'ended', isError: false, files: { created: 1 } },
    ]);
  });

  test('serialize: calls of a thread run one after another, those of another thread beside them', async () => {
    await using kit = new Kit(backend, { serialize: true });
    const order: string[] = [];
    const slow = gate();
    const run = (id: string, wait: Promise<void>) => async () => {
      order.push(`${id} in`);
      await wait;
      order.push(`${id} out`);
    };
    await kit.thread.message({ id: 'm1' });
    const first = kit.thread.around({ id: 'c1' }, run('c1', slow.opened));
    const second = kit.thread.around({ id: 'c2' }, run('c2', Promise.resolve()));
    await kit.adapter.conversation('t2').around({ id: 'o1' }, run('o1', Promise.resolve()));
    slow.open();
    await Promise.all([first, second]);
    expect(order.filter((line) => line.startsWith('c'))).toEqual(['c1 in', 'c1 out', 'c2 in', 'c2 out']);
    expect(order.indexOf('o1 out')).toBeLessThan(order.indexOf('c1 out'));
  });

  test('serialize: a call in a call of the same thread does not wait for it; one that is aborted waits no more', async () => {
    await using kit = new Kit(backend, { serialize: true });
    await kit.thread.message({ id: 'm1' });
    const stop = new AbortController();
    await kit.thread.around({ id: 'c1' }, async () => {
      await kit.thread.around({ id: 'c2' }, () => kit.write('a.txt'));
      const other = kit.adapter.conversation('t2');
      await other.around({ id: 'o1' }, () => kit.thread.around({ id: 'c3' }, () => kit.write('b.txt')));
    });
    const open = await kit.thread.begin({ id: 'c4' });
    const waiting = kit.thread.begin({ id: 'c5', signal: stop.signal });
    stop.abort();
    await (await waiting).end();
    await open.end();
    expect((await kit.calls()).map(({ callId }) => callId)).toEqual(['c1', 'c2', 'c3', 'c4', 'c5']);
    expect(kit.problems).toEqual([]);
  });

  test('a call in a call is nested: undo of either thread takes back what it did', async () => {
    await using kit = new Kit(backend);
    const sub = kit.adapter.conversation('sub');
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({ id: 'c1' }, async () => {
      await sub.message({ id: 's1' });
      await sub.around({ id: 'c1' }, () => kit.write('sub.txt'));
      await kit.thread.message({ id: 'inner' });
    });
    const open = await kit.thread.begin({ id: 'c2' });
    await sub.around({ id: 'c9', parentCallId: 'c2' }, () => kit.write('sub2.txt'));
    await sub.around({ id: 'c10', parentCallId: 'unknown' }, () => kit.space.exists('sub2.txt'));
    await open.end();
    expect(await kit.boundaries(), 'a message inside a call is no turn').toEqual(['m1']);
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 2.');
    await kit.thread.redo();
    expect(await kit.undo(sub)).toBe('Undid the last turn. Files restored: 2.');
    expect(kit.problems).toEqual([]);
  });

  test('what outlives its call is not nested in it', async () => {
    await using kit = new Kit(backend);
    const later = gate();
    let rest: Promise<void> = Promise.resolve();
    await kit.thread.message({ id: 'm1' });
    await kit.thread.around({ id: 'c1' }, () => {
      rest = later.opened.then(() => kit.thread.message({ id: 'm2' }));
    });
    later.open();
    await rest;
    expect(await kit.boundaries()).toEqual(['m1', 'm2']);
  });
});

describeBackends('workspaces', (backend) => {
  test('threads and tenants are apart, and share one workspace a root', async () => {
    let opened = 0;
    await using kit = new Kit(backend, {
      tenantId: ({ context }) => context as string | undefined,
      open: (options) => {
        opened += 1;
        return openWorkspace(options);
      },
    });
    const acme = kit.adapter.conversation({ threadId: 't1', context: 'acme' });
    expect(acme).not.toBe(kit.thread);
    expect(kit.adapter.conversation({ threadId: 't1', tenantId: 'acme' })).toBe(acme);
    await Promise.all([kit.thread.message({ id: 'm1' }), acme.message({ id: 'm1' })]);
    await acme.around({}, () => kit.write('a.txt'));
    expect(await kit.undo()).toBe('Nothing to undo.');
    expect(await kit.undo(acme)).toBe('Undid the last turn. Files restored: 1.');
    expect(opened).toBe(1);
  });

  test('root may be a function of the thread', async () => {
    await using other = new Space();
    await using kit = new Kit(backend, {
      root: async ({ threadId }) => (threadId === 't1' ? other.root : Promise.reject(new Error('no root'))),
    });
    await kit.thread.around({}, () => other.write('a.txt', '1\n'));
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
    await kit.adapter.conversation('t2').message({ id: 'm1' });
    expect(kit.problems).toMatchObject([{ threadId: 't2', during: 'capture', detail: 'no root' }]);
    await expect(kit.adapter.conversation('t2').session()).rejects.toThrow('no root');
  });

  test('a root that can’t be opened is told and stops nothing; once it is there, the next message is recorded', async () => {
    await using kit = new Kit(backend);
    rmSync(kit.space.root, { recursive: true });
    await kit.thread.message({ id: 'm1' });
    expect(await kit.thread.around({}, () => 7)).toBe(7);
    expect(kit.problems[0]).toMatchObject({ during: 'capture', reason: 'root-missing', threadId: 't1' });
    kit.space.sh('mkdir w', { cwd: kit.space.base });
    await kit.thread.message({ id: 'm2' });
    await kit.thread.around({}, () => kit.write('a.txt'));
    expect(await kit.undo()).toBe('Undid the last turn. Files restored: 1.');
  });

  test('after close what a host tells is a problem, and tools run', async () => {
    await using kit = new Kit(backend);
    await kit.thread.message({ id: 'm1' });
    await kit.thread.begin({ id: 'c1' });
    await kit.adapter.close();
    expect(await kit.thread.around({ id: 'c2' }, () => 7)).toBe(7);
    await kit.adapter.conversation('t2').message({ id: 'm1' });
    expect(kit.problems.map(({ reason }) => reason)).toEqual(['closed', 'ERR_CLOSED']);
    const workspace = await kit.space.open(backend);
    const timeline = got(await workspace.session({ threadId: 't1' }).timeline());
    expect(timeline.items[1]).toMatchObject({ callId: 'c1', state: 'ended' });
  });
});

describe('the test kit', () => {
  /** Runs the suite on a host that does something wrong; answers the claims that fail. */
  async function failed(options: {
    brackets?: boolean;
    onConflict?: 'overwrite';
    redo?: boolean;
    breaks?: boolean;
  }): Promise<string[]> {
    const { brackets = true, onConflict, redo = true, breaks = false } = options;
    const start: Parameters<typeof adapterSuite>[0]['start'] = async ({ root, dataDir, runTool }) => {
      const own = onConflict === undefined ? {} : { onConflict };
      const adapter = recording({ root, dataDir, durability: 'fast', onProblem: () => undefined, ...own });
      const thread = adapter.conversation('t1');
      return {
        turn: async (steps) => {
          await thread.message();
          if (breaks && !(await thread.session().then((session) => session.endTurn())).available) throw new Error('no');
          for (const call of steps.flat()) {
            const run = () => runTool(call);
            await (brackets ? thread.around({}, run) : run()).catch(() => undefined);
          }
        },
        undo: () => thread.undo(),
        redo: async () => (redo ? thread.redo() : undefined),
        close: () => adapter.close(),
      };
    };
    const claims: string[] = [];
    for (const { name, run } of adapterSuite({ name: 'x', start })) {
      await run().catch(() => claims.push(name.slice(3, 30)));
    }
    return claims;
  }

  test.each([
    ['none that is right', {}, []],
    [
      'one that records no call',
      { brackets: false },
      [
        'undo takes back an edit, a ',
        'undo keeps what somebody el',
        'each undo takes back one tu',
        'a turn that changed nothing',
      ],
    ],
    ['one whose undo overwrites edits', { onConflict: 'overwrite' as const }, ['undo keeps what somebody el']],
    ['one without redo', { redo: false }, ['undo takes back an edit, a ']],
    ['one that fails where nothing can be recorded', { breaks: true }, ['a workspace that can’t be r']],
  ])('fails %s', async (_, host, claims) => {
    expect(await failed(host)).toEqual(claims);
  });
});

describe('failures of ours', () => {
  test.each(['capture', 'beginCall', 'endCall', 'endTurn'])(
    '%s that throws is told, and the turn goes on',
    async (method) => {
      await using kit = new Kit('portable', { open: async (options) => failing(await openWorkspace(options), method) });
      await kit.thread.message({ id: 'm1' });
      expect(await kit.thread.around({ id: 'c1' }, () => 7)).toBe(7);
      await kit.thread.turnEnded();
      expect(kit.problems.length).toBeGreaterThan(0);
      expect(kit.problems[0]).toMatchObject({
        adapter: 'test-host',
        threadId: 't1',
        reason: 'ERR_INTERNAL',
        detail: 'boom',
      });
    },
  );

  test('a capture that failed is tried again before the next call', async () => {
    await using kit = new Kit('portable', {
      open: async (options) => failing(await openWorkspace(options), 'capture', 1),
    });
    await kit.thread.message({ id: 'm1' });
    expect(kit.problems).toMatchObject([{ during: 'capture', detail: 'boom' }]);
    await kit.thread.around({}, () => kit.write('a.txt'));
    expect(await kit.boundaries()).toEqual(['m1']);
  });

  test('a look at the newest turn that fails is told, and the turn goes on', async () => {
    await using kit = new Kit('portable', {
      open: async (options) => failing(await openWorkspace(options), 'timeline'),
    });
    await kit.thread.message({ text: 'go', ordinal: 1 });
    expect(await kit.thread.around({ id: 'c1' }, () => 7)).toBe(7);
    expect(kit.problems).toMatchObject([
      { during: 'capture', detail: 'boom' },
      { during: 'capture', detail: 'boom' },
    ]);
  });

  test('an onProblem that throws, or none, is a warning to the logger', async () => {
    const lines: string[] = [];
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      error: () => undefined,
      warn: (m: string) => void lines.push(m),
    };
    const onProblem = () => {
      throw new Error('deaf');
    };
    await using kit = new Kit('portable', { logger, onProblem });
    await kit.thread.end('c9');
    expect(lines).toEqual([
      expect.stringContaining('takeback (test-host), endCall: a tool run "c9" ended'),
      'takeback (test-host), onProblem: deaf',
    ]);
    await using quiet = recording({ root: kit.space.root, dataDir: kit.space.dataDir, backend: 'portable', logger });
    await quiet.conversation('t1').end('c8');
    expect(lines).toHaveLength(3);
  });

  test('without a logger it is a process warning, once for each kind', async () => {
    const warnings: string[] = [];
    const hear = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);
    process.on('warning', hear);
    try {
      await using adapter = recording({ root: '/nowhere' });
      await adapter.conversation('t1').end('c1');
      await adapter.conversation('t1').end('c2');
      await new Promise(setImmediate);
    } finally {
      process.off('warning', hear);
    }
    expect(warnings).toEqual([expect.stringContaining('TakebackWarning: takeback (test-host), endCall: ')]);
  });

  test('options, tables and threads of the wrong form are an error that names them', () => {
    expect(() => recording({ root: '' })).toThrow('root');
    expect(() => recording({ root: '/x', serialise: true } as never)).toThrow('serialise');
    expect(() => recording({ root: '/x', tools: { edit: { sideEffect: 'all' } } } as never)).toThrow('sideEffect');
    expect(() => defineAdapter({ name: 'x', tools: { edit: { path: [] } } as never, mount: () => 0 })).toThrow('path');
    const adapter = recording({ root: '/x' });
    expect(() => adapter.conversation('')).toThrow('threadId');
    expect(() => adapter.conversation({ thread: 'x' } as never)).toThrow('thread');
  });
});
