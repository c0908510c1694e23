/** Makes a session that starts with what another one has: its boundaries up to one of them, and all that it owes. */
import type { SessionInfo } from '../api.ts';
import { TakebackError } from '../errors.ts';
import type { SessionRecord } from '../timeline/timeline.ts';
import type { Engine } from './engine.ts';
import { findBoundary } from './operate.ts';

export interface ForkKey {
  readonly threadId: string;
  readonly tenantId: string | null;
}

/**
 * Nothing is looked at and no file is touched: what the parent owes now is what its timeline says now. A call of the
 * parent that is open goes on as the parent's alone.
 *
 * @throws {UnavailableError} no-checkpoint, unknown-boundary, root-changed
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` where the new session is there already
 */
export async function forkSession(
  engine: Engine,
  parent: SessionRecord | null,
  { key, at }: { key: ForkKey; at: string },
): Promise<SessionInfo> {
  return engine.locked(async () => {
    const { head } = await engine.catchUp();
    const boundary = await findBoundary(engine, parent, at);
    const { timeline } = engine;
    const known = await timeline.findSession(key);
    if (known !== null && (await timeline.boundaries(known.id, { limit: 1, all: true })).length > 0) {
      throw new TakebackError(
        'ERR_INVALID_ARGUMENT',
        `the session ${JSON.stringify(key.threadId)} has boundaries already. Fork into a new session.`,
      );
    }
    const session = known ?? (await timeline.ensureSession(key));
    await timeline.fork({
      session: session.id,
      parent: boundary.session,
      atSeq: boundary.seq,
      forkSeq: head.seq,
    });
    const { threadId, tenantId, createdAt } = session;
    return {
      threadId,
      ...(tenantId === null ? {} : { tenantId }),
      createdAt,
      boundaries: (await timeline.boundaries(session.id)).length,
      openCalls: 0,
      newestBoundaryId: boundary.boundaryId,
      newestBoundaryAt: boundary.createdAt,
    };
  });
}
