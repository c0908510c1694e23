/** Who plays the oracle: Harn's methods as they are, and the ACP method over a connection of the official SDK. */
import { agent, type ClientContext, client, RequestError } from '@agentclientprotocol/sdk/unstable';
import {
  CHECKPOINT_METHOD,
  type WorkspaceCheckpoints,
  type WorkspaceCheckpointsOptions,
  workspaceCheckpoints,
} from '../../../src/adapters/acp.ts';
import { type CheckpointMethodsOptions, checkpointMethods } from '../../../src/adapters/harn.ts';
import type { BackendKind } from '../../../src/backend/backend.ts';
import type { Space } from '../../kit/space.ts';
import type { Driver, Scene } from './oracle.ts';

export const INITIALIZE = { protocolVersion: 1, clientCapabilities: {} };

/** What a request was refused with. */
export async function refusal(request: Promise<unknown>): Promise<{ code: unknown; message: string; data: unknown }> {
  try {
    await request;
  } catch (error) {
    const { code, message, data } = error as { code: unknown; message: string; data: unknown };
    return { code, message, data };
  }
  throw new Error('the request was answered');
}

export function openOptions(space: Space, backend: BackendKind): Omit<CheckpointMethodsOptions, 'root'> {
  return { dataDir: space.dataDir, backend, durability: 'fast' };
}

export function harnDriver(scene: Scene, space: Space, backend: BackendKind): Driver {
  const methods = checkpointMethods({
    ...openOptions(space, backend),
    ...(scene.rootsByRequest ? {} : { root: space.root }),
  });
  return { call: (method, request) => methods[method](request as never), close: () => methods.close() };
}

/** An agent whose sessions have the ids that a client asks for, and a client that is connected to it. */
export class Connected {
  readonly checkpoints: WorkspaceCheckpoints;
  readonly context: ClientContext;
  readonly #end: () => void;

  private constructor(checkpoints: WorkspaceCheckpoints, context: ClientContext, end: () => void) {
    this.checkpoints = checkpoints;
    this.context = context;
    this.#end = end;
  }

  static async open(options: Omit<CheckpointMethodsOptions, 'root'>): Promise<Connected> {
    const app = agent({ name: 'oracle' });
    const checkpoints = workspaceCheckpoints(app, { ...options, RequestError });
    app
      .onRequest('initialize', () => ({ protocolVersion: 1, agentCapabilities: {} }))
      .onRequest('session/new', ({ params }) => ({ sessionId: String(params._meta?.id) }));
    const connection = client({ name: 'oracle' }).connect(app);
    await connection.agent.request('initialize', INITIALIZE);
    return new Connected(checkpoints, connection.agent, () => connection.close());
  }

  async start(id: string, cwd: string): Promise<void> {
    await this.context.request('session/new', { cwd, mcpServers: [], _meta: { id } });
  }

  async close(): Promise<void> {
    this.#end();
    await this.checkpoints.close();
  }
}

/** Harn's names as ACP's. */
export function camelKeys(request: Record<string, unknown>): Record<string, unknown> {
  const camel = (key: string) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(request).map(([key, value]) => [camel(key), value]));
}

/** The same requests with ACP's names; a session is started when it is first named, in the root of that request. */
export async function acpDriver(space: Space, backend: BackendKind): Promise<Driver> {
  const connected = await Connected.open(openOptions(space, backend));
  const started = new Set<string>();
  return {
    close: () => connected.close(),
    call: async (method, { root, ...request }) => {
      const id = request.session_id as string;
      if (!started.has(id)) await connected.start(id, (root as string | undefined) ?? space.root);
      started.add(id);
      try {
        return await connected.context.request(CHECKPOINT_METHOD, {
          ...camelKeys(request),
          action: method.replace('checkpoint_', ''),
        });
      } catch (error) {
        const { code, data } = error as { code: unknown; data?: { code?: string } };
        if (code !== -32602) throw error;
        throw Object.assign(new Error('misuse'), { code: data?.code });
      }
    },
  };
}

export type PairOptions = Partial<Omit<WorkspaceCheckpointsOptions, 'RequestError'>>;

/** A host's agent with every handler that matters here, and a client of it. `seen`: what its own handlers were asked. */
export class Pair {
  readonly context: ClientContext;
  readonly checkpoints: WorkspaceCheckpoints;
  readonly seen: string[] = [];
  readonly #end: () => void;
  #sessions = 0;

  private constructor(options: PairOptions) {
    const app = agent({ name: 'host' });
    this.checkpoints = workspaceCheckpoints(app, { ...options, RequestError });
    app
      .onRequest('initialize', () => ({
        protocolVersion: 1,
        agentCapabilities: { loadSession: true, _meta: { host: 1, takeback: { host: 2 } } },
      }))
      .onRequest('session/new', () => ({ sessionId: `s${++this.#sessions}`, _meta: { host: true } }))
      .onRequest('session/load', () => undefined)
      .onRequest('session/resume', () => ({}))
      .onRequest('session/close', () => ({ _meta: { host: true } }))
      .onRequest('session/delete', () => {
        this.seen.push('delete');
      })
      .onRequest('session/fork', ({ params }) => {
        this.seen.push('fork');
        if (params._meta?.fail === true) throw RequestError.internalError();
        return { sessionId: `f${++this.#sessions}` };
      });
    const connection = client({ name: 'client' }).connect(app);
    this.context = connection.agent;
    this.#end = () => connection.close();
  }

  static async open(options: PairOptions): Promise<Pair> {
    const pair = new Pair(options);
    await pair.context.request('initialize', INITIALIZE);
    return pair;
  }

  async close(): Promise<void> {
    this.#end();
    await this.checkpoints.close();
  }
}
