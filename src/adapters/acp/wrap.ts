/**
 * The agent app of the SDK as a structural type, and how its handlers are wrapped: each that the host registers from now on
 * runs inside what stands around its method. A fallback for `*` is wrapped by the method that it is called for.
 *
 * The app has no hook for requests that pass, and answers with the first handler of a method; so its `onRequest` is covered by
 * one of ours on the object itself.
 */

export interface AcpHandlerContext {
  /** Absent in older releases of the SDK. */
  readonly method?: string;
  readonly params: unknown;
  readonly signal: AbortSignal;
}

export type AcpHandler = (context: AcpHandlerContext) => unknown;

/** What is used of the SDK's `AgentApp`. */
export interface AcpAgentApp {
  // biome-ignore lint/suspicious/noExplicitAny: the SDK's contexts differ by entry and method; only the above is looked at
  onRequest(method: string, params: (value: unknown) => unknown, handler: (context: any) => unknown): unknown;
}

type Register = (method: string, ...parserAndHandler: unknown[]) => unknown;

/** What stands around the host's handler of a method. */
export type AroundHandler = (context: AcpHandlerContext, handler: AcpHandler) => Promise<unknown>;

export type Around = ReadonlyMap<string, AroundHandler>;

/** Answers the app's own `onRequest`, for handlers that are not to be wrapped. */
export function wrapHandlers(app: AcpAgentApp, around: Around): { register: Register } {
  const register = app.onRequest.bind(app) as Register;
  const wrapping: Register = (method, ...rest) => {
    const handler = rest.at(-1);
    if (typeof handler !== 'function') return register(method, ...rest);
    register(method, ...rest.slice(0, -1), wrapped(method, handler as AcpHandler, around));
    return app;
  };
  Object.defineProperty(app, 'onRequest', { value: wrapping, configurable: true, writable: true });
  return { register };
}

function wrapped(registered: string, handler: AcpHandler, around: Around): AcpHandler {
  return (context) => {
    const outer = around.get(context.method ?? registered);
    return outer === undefined ? handler(context) : outer(context, handler);
  };
}
