/**
 * The checkpoint hook: each execution is a call of a session, so that undo finds what it did.
 *
 * Owns the bracket. The boundaries are the host's: `session.capture(messageId)` at each user message. An engine that is not
 * available never keeps a tool from running, and never goes unsaid.
 *
 * Does not cover: what a tool goes on doing after its result is there.
 */
import { z } from 'zod';
import type { Session } from '../api.ts';
import { TakebackError } from '../errors.ts';
import { type BeginCallOptions, beginCallOptionsSchema, check, sideEffectSchema } from '../schemas.ts';
import type { ChangeSummary, Result } from '../types.ts';
import { reporter, warnLoggerSchema } from './report.ts';
import type { HookContext, ToolCall, ToolHook } from './tool.ts';

/**
 * What is known of a call before it runs. `paths`: what it may change, relative to the root or absolute inside it; it then
 * owns nothing else, and `[]` says that it only reads. Calls of one `stepId` are one step. `parentCallId`: the call that it
 * runs inside of, a subagent's.
 */
export const hookCallFactsSchema = beginCallOptionsSchema
  .pick({ paths: true, stepId: true, parentCallId: true })
  .extend({ sideEffect: sideEffectSchema.optional() });
export type HookCallFacts = z.input<typeof hookCallFactsSchema>;

const callback = <F>() => z.custom<F>((v) => typeof v === 'function', 'must be a function').optional();

/** Options of {@link checkpointHook}. */
export const checkpointHookOptionsSchema = z.strictObject({
  /** Default: nothing is known, and the call owns whatever changes while it runs. */
  describeCall: callback<(call: ToolCall, ctx: HookContext) => HookCallFacts | undefined>(),
  /** Told of each call's changes. */
  onChanges: callback<(call: ToolCall, changes: readonly ChangeSummary[]) => void>(),
  /** Told of calls that are not recorded. Default: a warning of the process. */
  logger: warnLoggerSchema.optional(),
});
export type CheckpointHookOptions = z.input<typeof checkpointHookOptionsSchema>;

/**
 * Begins a call of `session` before each execution, with the tool's name, and ends it after, also where the tool failed. The
 * result is left as it is.
 *
 * A call that can't be recorded (no checkpoint yet, a store that can't be written, an id that is open already …) runs all the
 * same, and is told to the logger; `snapshotFailed` of the workspace tells of what is unavailable, too. Where a path lies
 * outside the root the call is recorded without paths. Only an aborted `signal` of the context stops a call: it isn't run.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a session or options of the wrong form
 */
export function checkpointHook(session: Session, options: CheckpointHookOptions = {}): ToolHook {
  const { describeCall, onChanges, logger } = check(checkpointHookOptionsSchema, options, 'options');
  if (typeof session?.beginCall !== 'function' || typeof session.endCall !== 'function') {
    throw new TakebackError(
      'ERR_INVALID_ARGUMENT',
      'session must be one of a workspace: workspace.session({ threadId })',
    );
  }
  const report = reporter('checkpoint', logger);
  /** Calls whose begin is recorded. By the object: two executions of one id are two objects, of which one was begun. */
  const begun = new WeakMap<ToolCall, HookCallFacts>();
  return {
    async beforeExecute(call, ctx) {
      const facts = guarded(report, `describeCall failed for ${call.name}`, () => {
        return check(hookCallFactsSchema, describeCall?.(call, ctx) ?? {}, 'facts');
      });
      const what = `call ${JSON.stringify(call.id)} of ${call.name} runs without a checkpoint`;
      const began = await attempt(report, what, () => begin(session, call, { facts: facts ?? {}, signal: ctx.signal }));
      if (began !== undefined) begun.set(call, facts ?? {});
    },
    async afterExecute(call, { isError }) {
      const facts = begun.get(call);
      if (facts === undefined) return;
      begun.delete(call);
      const what = `what call ${JSON.stringify(call.id)} of ${call.name} changed is not recorded`;
      const { sideEffect } = facts;
      const ended = await attempt(report, what, () =>
        session.endCall(call.id, { isError, ...(sideEffect === undefined ? {} : { sideEffect }) }),
      );
      if (ended !== undefined) guarded(report, 'onChanges failed', () => onChanges?.(call, ended.changes));
    },
  };
}

type Report = ReturnType<typeof reporter>;

function guarded<T>(report: Report, what: string, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    report(what, error);
    return undefined;
  }
}

/** The answer, or nothing where there is none and that was told. @throws where the caller's signal was aborted */
async function attempt<T extends object>(
  report: Report,
  what: string,
  work: () => Promise<Result<T>>,
): Promise<T | undefined> {
  try {
    const result = await work();
    if (result.available) return result;
    report(what, `${result.reason}: ${result.detail}`);
  } catch (error) {
    if (error instanceof TakebackError && error.code === 'ERR_CANCELLED') throw error;
    report(what, error);
  }
  return undefined;
}

async function begin(
  session: Session,
  { id, name }: ToolCall,
  { facts, signal }: { facts: HookCallFacts; signal: AbortSignal | undefined },
): ReturnType<Session['beginCall']> {
  const { paths, sideEffect: _, ...ids } = facts;
  const undeclared: BeginCallOptions = { ...ids, tool: name, ...(signal === undefined ? {} : { signal }) };
  if (paths === undefined) return session.beginCall(id, undeclared);
  try {
    return await session.beginCall(id, { ...undeclared, paths });
  } catch (error) {
    // A path outside the root, or one that is none: the tool will say so itself, and what it changes is its own.
    if (!(error instanceof TakebackError) || !['ERR_OUTSIDE_ROOT', 'ERR_INVALID_ARGUMENT'].includes(error.code))
      throw error;
    return session.beginCall(id, undeclared);
  }
}
