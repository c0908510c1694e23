/**
 * What callers may pass, as zod schemas; the TypeScript types are inferred from them. Unknown keys are refused, so that
 * a misspelt option is an error and not a default. Imports `errors` and `types` only.
 */
import { z } from 'zod';
import { TakebackError } from './errors.ts';
import type { Logger, Progress } from './types.ts';

const id = (what: string): z.ZodString =>
  z
    .string({ error: `${what} must be a string` })
    .min(1, `${what} must not be empty`)
    .max(1024, `${what} must have at most 1,024 characters`)
    .refine((value) => !value.includes('\0'), `${what} must not hold a NUL character`);

const pattern = z.string().max(4096, 'a pattern must have at most 4,096 characters');

export const conflictPolicySchema = z.enum(['refuse', 'overwrite', 'merge']);

export const sideEffectSchema = z.enum([
  'none',
  'read_only',
  'workspace_write',
  'process_exec',
  'network_read',
  'network',
  'desktop_control',
]);

export const workOptionsSchema = z.strictObject({
  signal: z.instanceof(AbortSignal).optional(),
  onProgress: z
    .custom<(progress: Progress) => void>((v) => typeof v === 'function', 'onProgress must be a function')
    .optional(),
});

/** Options of {@link openWorkspace}. Sizes in bytes, ages in days, times in milliseconds. */
export const openOptionsSchema = z.strictObject({
  root: id('root'),
  dataDir: id('dataDir').optional(),
  backend: z.enum(['auto', 'native', 'portable']).optional(),
  include: z.array(pattern).max(10_000).optional(),
  exclude: z.array(pattern).max(10_000).optional(),
  limits: z
    .strictObject({
      maxFileBytes: z.number().int().positive().max(Number.MAX_SAFE_INTEGER).optional(),
      maxEntries: z.number().int().positive().max(4_000_000_000).optional(),
      captureDeadlineMs: z.number().positive().optional(),
    })
    .optional(),
  retention: z
    .strictObject({
      maxAgeDays: z.number().positive().optional(),
      maxBytes: z.number().int().positive().optional(),
      maxBoundaries: z.number().int().positive().optional(),
    })
    .optional(),
  durability: z.enum(['full', 'fast']).optional(),
  recover: z.enum(['rollback', 'complete']).optional(),
  allowProtectedRoot: z.boolean().optional(),
  adoptRoot: z.boolean().optional(),
  /**
   * Events of the kernel tell begins and ends of calls where to look, so that they cost what changed, not what is there. Captures,
   * plans and restores look everywhere all the same. Default false. Where it can't be had (`capabilities().watch` says so)
   * each look is a whole one.
   */
  watch: z.boolean().optional(),
  /** `fileChanged` events at each end of a call and each operation. Default 100. */
  maxFileEvents: z.number().int().min(0).max(1_000_000).optional(),
  logger: z.custom<Logger>((v) => typeof v === 'object' && v !== null, 'logger must be an object').optional(),
});

export const sessionOptionsSchema = z.strictObject({
  threadId: id('threadId'),
  tenantId: id('tenantId').optional(),
  onConflict: conflictPolicySchema.optional(),
});

export const captureOptionsSchema = workOptionsSchema.extend({
  label: z.string().max(1024).optional(),
  deadlineMs: z.number().positive().optional(),
});

const paths = z.array(z.string({ error: 'each path must be a string' }));

export const beginCallOptionsSchema = z.strictObject({
  tool: z.string().max(1024).optional(),
  stepId: id('stepId').optional(),
  paths: paths.optional(),
  parentCallId: id('parentCallId').optional(),
  detached: z.boolean().optional(),
  deadlineMs: z.number().positive().optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

export const endCallOptionsSchema = z.strictObject({
  sideEffect: sideEffectSchema.optional(),
  paths: paths.optional(),
  isError: z.boolean().optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

const plannedSchema = workOptionsSchema.extend({
  paths: paths.optional(),
  onConflict: conflictPolicySchema.optional(),
});

/** `hunks: true`: entries of text files list their hunks. */
export const planOptionsSchema = plannedSchema.extend({ hunks: z.boolean().optional() });

const line = z.number().int().positive();

/** An id of a plan's hunk, or a path with ranges of lines on disk (from 1, ends included): all hunks that touch them. */
export const hunkSchema = z.union([
  id('a hunk’s id').max(8192),
  z.strictObject({
    path: z.string(),
    ranges: z
      .array(z.tuple([line, line]).refine(([start, end]) => start <= end, 'a range must not end before it starts'))
      .min(1, 'ranges must not be empty'),
  }),
]);

export const restoreOptionsSchema = plannedSchema.extend({
  hunks: z.array(hunkSchema).min(1, 'hunks must not be empty').optional(),
  planToken: z.string().optional(),
});

/** `dryRun`: answer the plan, write nothing. `planToken`: of such a plan; another one by now is `stale-plan`. */
export const redoOptionsSchema = workOptionsSchema.extend({
  onConflict: conflictPolicySchema.optional(),
  dryRun: z.boolean().optional(),
  planToken: z.string().optional(),
});

export const undoOptionsSchema = redoOptionsSchema.extend({ boundaryId: id('boundaryId').optional() });

/** `messageId`: a boundary, or the `stepId` of calls. */
export const revertOptionsSchema = redoOptionsSchema.extend({ messageId: id('messageId') });

/** The session that a fork makes. */
export const sessionKeySchema = z.strictObject({ threadId: id('threadId'), tenantId: id('tenantId').optional() });

/** `at`: the boundary up to which a fork inherits. */
export const forkOptionsSchema = z.strictObject({ at: id('at') });

export const purgeOptionsSchema = z.strictObject({ root: id('root'), dataDir: id('dataDir').optional() });

/** Options of `revertTurn` and `revertCall`. Without `onConflict`, what came later is merged and clashes are kept. */
export const revertOneOptionsSchema: typeof redoOptionsSchema = redoOptionsSchema;

export const timelineOptionsSchema = z.strictObject({
  limit: z.number().int().positive().max(100_000).optional(),
  before: z.string().optional(),
  lines: z.boolean().optional(),
});

export const stepsOptionsSchema = z.strictObject({
  limit: z.number().int().positive().max(100_000).optional(),
});

export const boundaryIdSchema: z.ZodString = id('boundaryId');
export const callIdSchema: z.ZodString = id('callId');

export type OpenOptions = z.input<typeof openOptionsSchema>;
export type SessionOptions = z.input<typeof sessionOptionsSchema>;
export type CaptureOptions = z.input<typeof captureOptionsSchema>;
export type BeginCallOptions = z.input<typeof beginCallOptionsSchema>;
export type EndCallOptions = z.input<typeof endCallOptionsSchema>;
export type PlanOptions = z.input<typeof planOptionsSchema>;
export type RestoreOptions = z.input<typeof restoreOptionsSchema>;
export type UndoOptions = z.input<typeof undoOptionsSchema>;
export type RedoOptions = z.input<typeof redoOptionsSchema>;
export type RevertOptions = z.input<typeof revertOptionsSchema>;
export type SessionKeyOptions = z.input<typeof sessionKeySchema>;
export type ForkOptions = z.input<typeof forkOptionsSchema>;
export type PurgeOptions = z.input<typeof purgeOptionsSchema>;
export type StepsOptions = z.input<typeof stepsOptionsSchema>;
export type RevertOneOptions = z.input<typeof revertOneOptionsSchema>;
export type TimelineOptions = z.input<typeof timelineOptionsSchema>;

/**
 * Checks one argument.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT`, naming the argument, the key and what is wrong with it
 */
export function check<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? what : `${what}.${issue.path.join('.')}`;
  throw new TakebackError('ERR_INVALID_ARGUMENT', `${where}: ${issue?.message ?? 'is of the wrong form'}`, {
    cause: result.error,
  });
}
