/**
 * What the tools take and give, as zod schemas; the SDK makes JSON Schema of them. Inputs refuse unknown keys, and bound ids,
 * paths and numbers.
 */
import { z } from 'zod';
import { boundaryIdSchema, callIdSchema, conflictPolicySchema } from '../../schemas.ts';

const count = z.number().int().nonnegative();
const offset = count.max(2 ** 31).optional();

const session = {
  session: z
    .string()
    .min(1)
    .max(1024)
    .optional()
    .describe('Id of the session (takeback_sessions). Default: the one with the newest turn.'),
  tenant: z.string().min(1).max(1024).optional().describe('Tenant of the session, where it has one.'),
};

const onConflict = conflictPolicySchema
  .exclude(['overwrite'])
  .optional()
  .describe(
    'Where a file changed since: refuse keeps it (default), merge takes only the session’s changes out of its text.',
  );

const paths = z
  .array(z.string().min(1).max(4096))
  .min(1)
  .max(1000)
  .optional()
  .describe('Only these, relative to the root; a folder means all below it. Literal, never patterns.');

const boundary = boundaryIdSchema.describe('Id of a boundary: the turn that starts there (takeback_turns).');

export const sessionsInput = z.strictObject({ offset });

export const turnsInput = z.strictObject({
  ...session,
  limit: z.number().int().min(1).max(100).optional().describe('Turns, the newest. Default 20.'),
  before: z
    .string()
    .min(1)
    .max(1024)
    .optional()
    .describe('Only turns before this position: `before` of the last answer.'),
  calls: z.boolean().optional().describe('List the tool calls too.'),
});

export const showInput = z.strictObject({
  ...session,
  boundaryId: boundary.optional(),
  callId: callIdSchema.optional().describe('Id of a call: what this one changed, instead of a turn.'),
  offset,
});

const point = z.string().min(1).max(1024);

export const diffInput = z.strictObject({
  ...session,
  from: point.optional().describe('Boundary or position. Default: the newest boundary.'),
  to: point.optional().describe('Boundary or position. Default: the files now.'),
  offset: offset.describe('Character of the patch to start at: `nextOffset` of the last answer.'),
});

export const planInput = z.strictObject({ ...session, boundaryId: boundary, paths, onConflict, offset });

export const restoreInput = z.strictObject({
  ...session,
  boundaryId: boundary,
  planToken: z
    .string()
    .min(1)
    .max(1024)
    .describe('`planToken` of takeback_plan for the same boundary, paths and onConflict.'),
  paths,
  onConflict,
});

export const undoInput = z.strictObject({ ...session, boundaryId: boundary, onConflict });

export const redoInput = z.strictObject({
  ...session,
  operationId: z
    .string()
    .min(1)
    .max(1024)
    .describe('Id of the undo or restore to bring back (its receipt, or takeback_turns).'),
  onConflict,
});

const named = { session: z.string(), tenant: z.string().optional() };
const paged = { total: count, nextOffset: count.optional() };

const version = z.object({
  kind: z.enum(['absent', 'file', 'symlink', 'dir', 'special', 'uncovered']),
  size: count.optional(),
  mode: z.string().optional(),
  target: z.string().optional(),
  reason: z.string().optional(),
});

const change = z.object({
  path: z.string(),
  kind: z.enum(['created', 'modified', 'deleted', 'moved']),
  from: z.string().optional(),
  before: version,
  after: version,
  incomplete: z.boolean().optional(),
});

const files = z.object({
  created: count,
  modified: count,
  deleted: count,
  linesAdded: count.optional(),
  linesDeleted: count.optional(),
});

export const sessionsOutput = z.object({
  sessions: z.array(
    z.object({
      ...named,
      boundaries: count,
      openCalls: count,
      newestBoundaryId: z.string().optional(),
      newestBoundaryAt: z.string().optional(),
    }),
  ),
  ...paged,
});

export const turnsOutput = z.object({
  ...named,
  turns: z.array(
    z.object({
      boundaryId: z.string(),
      position: z.string(),
      label: z.string().optional(),
      at: z.string(),
      files,
      undone: z.boolean(),
      reverted: z.boolean(),
      calls: z.array(
        z.object({
          callId: z.string(),
          tool: z.string().optional(),
          stepId: z.string().optional(),
          at: z.string(),
          state: z.enum(['open', 'ended', 'interrupted']),
          isError: z.boolean(),
          files,
        }),
      ),
      operations: z.array(
        z.object({
          operationId: z.string(),
          kind: z.enum(['restore', 'undo', 'redo', 'revert', 'unrevert']),
          boundaryId: z.string(),
          at: z.string(),
          outcome: z.enum(['done', 'partial', 'nothing']),
          restored: count,
          standing: z.boolean(),
        }),
      ),
    }),
  ),
  before: z.string().optional(),
});

export const showOutput = z.object({
  ...named,
  boundaryId: z.string().optional(),
  callId: z.string().optional(),
  changes: z.array(change),
  ...paged,
});

export const diffOutput = z.object({
  ...named,
  stats: z.object({ files: count, linesAdded: count, linesDeleted: count }),
  files: z.array(z.object({ path: z.string(), kind: z.string(), from: z.string().optional() })),
  filesOmitted: count,
  patch: z.string(),
  patchChars: count,
  nextOffset: count.optional(),
});

const entry = z.object({
  path: z.string(),
  action: z.enum(['restore', 'recreate', 'delete', 'merge', 'skip', 'refuse']),
  reason: z.string().optional(),
  movedFrom: z.string().optional(),
  movedTo: z.string().optional(),
  detail: z.string().optional(),
  note: z.string().optional(),
});

const aside = {
  irreversible: z.array(z.object({ callId: z.string(), sideEffect: z.string() })),
  uncovered: z.array(z.object({ path: z.string(), reason: z.string() })),
  notes: z.array(z.string()),
};

export const planOutput = z.object({
  ...named,
  boundaryId: z.string(),
  planToken: z.string(),
  writes: count,
  keeps: count,
  entries: z.array(entry),
  ...paged,
  ...aside,
});

const receipt = z.object({
  operationId: z.string(),
  boundaryId: z.string(),
  outcome: z.enum(['done', 'partial', 'nothing']),
  restored: z.array(entry),
  refused: z.array(entry),
  skipped: z.array(entry),
  failed: z.array(entry),
  /** Entries that the lists leave out, by list. */
  omitted: z.object({ restored: count, refused: count, skipped: count, failed: count }),
  ...aside,
});

export const operationOutput = z.object({
  ...named,
  message: z.string(),
  outcome: z.enum(['done', 'partial', 'nothing']),
  receipt: receipt.optional(),
});
