/** What users of an adapter pass, and what is known of tools. Schemas and the types inferred from them. */
import { z } from 'zod';
import type { Workspace } from '../../api.ts';
import { conflictPolicySchema, type OpenOptions, openOptionsSchema, sideEffectSchema } from '../../schemas.ts';
import type { SideEffect } from '../../types.ts';
import type { Problem } from './problems.ts';

/** A thread as a host knows it. `context` is the adapter's own, for options that depend on it. */
export interface HostThread {
  readonly threadId: string;
  readonly tenantId?: string | undefined;
  readonly context?: unknown;
}

const isFunction = (value: unknown): boolean => typeof value === 'function';

/**
 * What is known of a tool. `paths`: what a run may change; it then owns nothing else. `[]` for a tool that only reads; a
 * function gets the tool's input, and answers `undefined` where it can't tell. Relative paths are relative to the root.
 */
export const toolFactsSchema = z.strictObject({
  paths: z
    .union([
      z.array(z.string()).readonly(),
      z.custom<(input: never) => readonly string[] | undefined>(isFunction, 'paths must be a list or a function'),
    ])
    .optional(),
  sideEffect: z
    .union([
      sideEffectSchema,
      z.custom<(input: never) => SideEffect | undefined>(isFunction, 'sideEffect must be a class or a function'),
    ])
    .optional(),
});

export const toolTableSchema = z.record(z.string(), toolFactsSchema);

export const conversationKeySchema = z.strictObject({
  threadId: z.string().min(1, 'threadId must not be empty'),
  tenantId: z.string().min(1, 'tenantId must not be empty').optional(),
  context: z.unknown().optional(),
});

/** Options of every adapter that is made with the kit: those of `openWorkspace`, and what follows. */
export const adapterOptionsSchema = openOptionsSchema.omit({ root: true }).extend({
  /** The workspace folder, absolute; or a function that gives the folder of a thread. */
  root: z.union([
    z.string().min(1, 'root must not be empty'),
    z.custom<(thread: HostThread) => string | Promise<string>>(isFunction, 'root must be a path or a function'),
  ]),
  /** The tenant of threads that name none. */
  tenantId: z
    .union([
      z.string().min(1),
      z.custom<(thread: HostThread) => string | undefined>(isFunction, 'tenantId must be a string or a function'),
    ])
    .optional(),
  /** What undo does with a file that somebody changed since. Default `refuse`: it is kept, and named. */
  onConflict: conflictPolicySchema.optional(),
  /** What is known of tools, by name. */
  tools: toolTableSchema.optional(),
  /** Calls of a session run one after another, so that each change has one call. Default false. */
  serialize: z.boolean().optional(),
  /** Hears what could not be recorded. Default: the logger, else a process warning, once for each kind. */
  onProblem: z.custom<(problem: Problem) => void>(isFunction, 'onProblem must be a function').optional(),
  /** How a workspace is opened. Default: `openWorkspace`, on this machine. */
  open: z.custom<(options: OpenOptions) => Promise<Workspace>>(isFunction, 'open must be a function').optional(),
});

export type ToolFacts = z.input<typeof toolFactsSchema>;
export type ToolTable = Readonly<Record<string, ToolFacts>>;
export type AdapterOptions = z.input<typeof adapterOptionsSchema>;

/** What is known of one run of a tool. */
export interface CallFacts {
  readonly paths?: readonly string[];
  readonly sideEffect?: SideEffect;
}

/**
 * Looks a tool up and asks its functions.
 *
 * @throws whatever a function of the table throws; `TypeError` where it answers neither paths nor `undefined`
 */
export function factsOf(tools: ReadonlyMap<string, ToolFacts>, tool: string | undefined, input: unknown): CallFacts {
  const known = tool === undefined ? undefined : tools.get(tool);
  if (known === undefined) return {};
  const paths = typeof known.paths === 'function' ? known.paths(input as never) : known.paths;
  if (paths !== undefined && !(Array.isArray(paths) && paths.every((path) => typeof path === 'string'))) {
    throw new TypeError(`paths of the tool ${tool} must give a list of strings or undefined`);
  }
  const sideEffect = typeof known.sideEffect === 'function' ? known.sideEffect(input as never) : known.sideEffect;
  return { ...(paths === undefined ? {} : { paths }), ...(sideEffect === undefined ? {} : { sideEffect }) };
}
