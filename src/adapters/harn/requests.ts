/**
 * What Harn's methods take, as zod schemas in snake_case: the fields of Harn's document, and beside them optional ones of
 * ours that the engine knows. Unknown keys are refused. Lengths of ids are the engine's, so that what passes here passes there.
 */
import { z } from 'zod';
import { conflictPolicySchema, sideEffectSchema } from '../../schemas.ts';

const id = z
  .string({ error: 'must be a string' })
  .min(1, 'must not be empty')
  .max(1024, 'must have at most 1,024 characters')
  .refine((value) => !value.includes('\0'), 'must not hold a NUL character');

const paths = z.array(z.string({ error: 'each path must be a string' }), { error: 'must be a list of paths' });
const text = z.string({ error: 'must be a string' }).max(1024, 'must have at most 1,024 characters');
const milliseconds = z.number({ error: 'must be a number of milliseconds' }).positive();

/** Every request names its session; `root` where the methods have no root of their own. */
const session = { session_id: id, root: id.optional() };

/** `label` is for lists. `deadline_ms`: what it leaves is read behind the turn. */
export const captureRequestSchema = z.strictObject({
  ...session,
  boundary_id: id,
  label: text.optional(),
  deadline_ms: milliseconds.optional(),
});

/** `paths`: what the call may change; it then owns nothing else. `[]` for a tool that only reads. */
export const callBeginRequestSchema = z.strictObject({
  ...session,
  call_id: id,
  tool: text.optional(),
  step_id: id.optional(),
  parent_call_id: id.optional(),
  paths: paths.optional(),
});

export const callEndRequestSchema = z.strictObject({
  ...session,
  call_id: id,
  side_effect: sideEffectSchema.optional(),
  paths: paths.optional(),
  is_error: z.boolean({ error: 'must be true or false' }).optional(),
});

/** `paths`, where it is there, names at least one path: an empty list is `ERR_EMPTY_PATHS`. */
export const planRequestSchema = z.strictObject({
  ...session,
  boundary_id: id,
  paths: paths.optional(),
  on_conflict: conflictPolicySchema.optional(),
});

/** `plan_token`: of a plan; where the restore would differ from it, the answer is `stale_plan`. */
export const restoreRequestSchema = planRequestSchema.extend({ plan_token: text.optional() });

export const dropRequestSchema = z.strictObject(session);

/** Of ours. `boundary_id`: up to which the fork inherits; the newest where it is left out. */
export const forkRequestSchema = z.strictObject({ ...session, fork_session_id: id, boundary_id: id.optional() });

/** The requests that Harn's document has, by action. */
export const requestSchemas = {
  capture: captureRequestSchema,
  call_begin: callBeginRequestSchema,
  call_end: callEndRequestSchema,
  plan: planRequestSchema,
  restore: restoreRequestSchema,
  drop: dropRequestSchema,
} as const;

export type CheckpointAction = keyof typeof requestSchemas;

export type CaptureRequest = z.input<typeof captureRequestSchema>;
export type CallBeginRequest = z.input<typeof callBeginRequestSchema>;
export type CallEndRequest = z.input<typeof callEndRequestSchema>;
export type PlanRequest = z.input<typeof planRequestSchema>;
export type RestoreRequest = z.input<typeof restoreRequestSchema>;
export type DropRequest = z.input<typeof dropRequestSchema>;
export type ForkRequest = z.input<typeof forkRequestSchema>;
