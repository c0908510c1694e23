/** Which workspace and session a call means, and the options of the tools. */
import { z } from 'zod';
import type { Session, SessionInfo, Workspace } from '../../api.ts';
import { check, sessionKeySchema } from '../../schemas.ts';
import type { ConflictPolicy } from '../../types.ts';
import type { McpToolsOptions } from '../mcp.ts';
import { need, quoted, ToolFault, unavailable } from './answers.ts';

const optionsSchema = z.strictObject({
  workspace: z.custom<McpToolsOptions['workspace']>((v) => typeof v === 'function', 'must be a function'),
  session: sessionKeySchema.optional(),
  maxEntries: z.number().int().positive().max(100_000).default(200),
  maxPatchChars: z.number().int().min(2).max(10_000_000).default(50_000),
});

export type Chosen = z.output<typeof optionsSchema>;

/** @throws {TakebackError} `ERR_INVALID_ARGUMENT` */
export function chosenOptions(options: McpToolsOptions): Chosen {
  return check(optionsSchema, options, 'options');
}

export interface SessionInput {
  readonly session?: string | undefined;
  readonly tenant?: string | undefined;
}

/** @throws {ToolFault} with the reason why it isn't available */
export async function openWorkspaceOf(chosen: Chosen): Promise<Workspace> {
  const workspace = await chosen.workspace();
  if (!('session' in workspace)) throw unavailable(workspace);
  if (workspace.available) return workspace;
  const { reason = 'unsupported', detail = reason } = workspace;
  throw unavailable({ reason, detail });
}

/** The session that a call names, the one of the options, or the one with the newest boundary. Never makes one. */
export async function sessionOf(
  chosen: Chosen,
  input: SessionInput,
  onConflict: ConflictPolicy = 'refuse',
): Promise<{ session: Session; named: { session: string; tenant?: string } }> {
  const workspace = await openWorkspaceOf(chosen);
  const { sessions } = need(await workspace.sessions());
  const info = pick(sessions, wanted(chosen, input));
  const { threadId, tenantId } = info;
  const tenant = tenantId === undefined ? {} : { tenantId };
  return {
    session: workspace.session({ threadId, ...tenant, onConflict }),
    named: { session: threadId, ...(tenantId === undefined ? {} : { tenant: tenantId }) },
  };
}

function wanted(
  chosen: Chosen,
  { session, tenant }: SessionInput,
): { threadId: string; tenantId?: string } | undefined {
  if (session !== undefined) return { threadId: session, ...(tenant === undefined ? {} : { tenantId: tenant }) };
  if (tenant !== undefined) throw new ToolFault('ERR_INVALID_ARGUMENT', 'tenant: give it together with session');
  const own = chosen.session;
  return own === undefined
    ? undefined
    : { threadId: own.threadId, ...(own.tenantId === undefined ? {} : { tenantId: own.tenantId }) };
}

function pick(sessions: readonly SessionInfo[], key: { threadId: string; tenantId?: string } | undefined): SessionInfo {
  if (key === undefined) {
    const [newest] = [...sessions].sort(newestFirst);
    if (newest !== undefined) return newest;
    throw new ToolFault('no-checkpoint', 'No session was recorded for this folder yet.');
  }
  const found = sessions.find((info) => info.threadId === key.threadId && info.tenantId === key.tenantId);
  if (found !== undefined) return found;
  const tenant = key.tenantId === undefined ? '' : ` of tenant ${quoted(key.tenantId)}`;
  throw new ToolFault(
    'unknown-session',
    `There is no session ${quoted(key.threadId)}${tenant}. takeback_sessions lists them.`,
  );
}

/** By newest boundary; those without one last. */
export function newestFirst(a: SessionInfo, b: SessionInfo): number {
  return (b.newestBoundaryAt ?? -1) - (a.newestBoundaryAt ?? -1) || b.createdAt - a.createdAt;
}
