/**
 * The params of `session/workspace_checkpoint`: Harn's requests in camelCase, with the session and the action beside. Their
 * schemas are made from Harn's, so that the two can't part. The root is no param: it is the session's cwd.
 */
import { z } from 'zod';
import { boundaryIdSchema, check } from '../../schemas.ts';
import type { ConflictPolicy, SideEffect } from '../../types.ts';
import { type CheckpointAction, requestSchemas } from '../harn/requests.ts';

/** All params; each action takes those of its request. */
export interface AcpParams {
  readonly sessionId: string;
  readonly action: CheckpointAction;
  readonly boundaryId?: string | undefined;
  readonly callId?: string | undefined;
  readonly sideEffect?: SideEffect | undefined;
  readonly paths?: readonly string[] | undefined;
  readonly label?: string | undefined;
  /** Milliseconds. */
  readonly deadlineMs?: number | undefined;
  readonly tool?: string | undefined;
  readonly stepId?: string | undefined;
  readonly parentCallId?: string | undefined;
  readonly isError?: boolean | undefined;
  readonly onConflict?: ConflictPolicy | undefined;
  readonly planToken?: string | undefined;
}

const camel = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Params of each action. `_meta` is the protocol's, and not looked at. */
export const acpParamsSchemas: Readonly<Record<CheckpointAction, z.ZodType<Record<string, unknown>>>> = {
  capture: paramsOf('capture'),
  call_begin: paramsOf('call_begin'),
  call_end: paramsOf('call_end'),
  plan: paramsOf('plan'),
  restore: paramsOf('restore'),
  drop: paramsOf('drop'),
};

function paramsOf(action: CheckpointAction): z.ZodType<Record<string, unknown>> {
  const { root: _, ...shape } = requestSchemas[action].shape;
  const renamed = Object.entries(shape).map(([key, schema]): [string, z.ZodType] => [camel(key), schema]);
  return z.strictObject({ ...Object.fromEntries(renamed), action: z.literal(action), _meta: z.unknown().optional() });
}

const ACTIONS = Object.keys(requestSchemas) as CheckpointAction[];

const actionSchema = z.looseObject({
  action: z.enum(ACTIONS, { error: `must be one of ${ACTIONS.join(', ')}` }),
});

/**
 * Harn's request that params stand for.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for params of the wrong form, or an unknown action
 */
export function acpParams(params: unknown): {
  action: CheckpointAction;
  request: { readonly session_id: string } & Readonly<Record<string, unknown>>;
} {
  const { action } = check(actionSchema, params, 'params');
  const values = check(acpParamsSchemas[action], params, 'params');
  const keys = Object.keys(requestSchemas[action].shape);
  const named = keys.flatMap((key) => (values[camel(key)] === undefined ? [] : [[key, values[camel(key)]]]));
  return { action, request: Object.fromEntries(named) };
}

/** The boundary that a client names in the `_meta` of `session/fork`; undefined where it names none. */
export function forkAt(params: unknown, key: string): string | undefined {
  const ours = z.looseObject({ boundaryId: boundaryIdSchema.optional() });
  const schema = z.looseObject({ _meta: z.looseObject({ [key]: ours.optional() }).nullish() });
  const found = check(schema, params, 'params')._meta?.[key] as z.output<typeof ours> | undefined;
  return found?.boundaryId;
}
