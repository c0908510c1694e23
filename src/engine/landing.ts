/**
 * What an operation is besides its files: its record, what it takes or gives back, the marks that it sets or clears. As data,
 * so that it can be written down before a file is touched (`intent.ts`), and land later where its process dies.
 */
import { marksClearedByRedo, restoreMarks, undoMarks } from '../model/turns.ts';
import type { SettledReceipt } from '../model/types.ts';
import type { Append, BoundaryRecord, OperationKind } from '../timeline/timeline.ts';
import type { ConflictPolicy, Hash, RandomId, RelPath } from '../types.ts';
import type { Engine } from './engine.ts';
import { observeLocked } from './observe.ts';

/** All that is known of an operation before it runs. */
export interface Landing {
  readonly session: number;
  readonly kind: OperationKind;
  readonly boundaryId: string;
  readonly boundarySeq: number;
  readonly onConflict: ConflictPolicy;
  /** Of a restore: not limited to paths or hunks. */
  readonly whole: boolean;
  /** Of an undo: it takes back its turn, and not one call of it. */
  readonly marks: boolean;
  /** Of a redo or unrevert. */
  readonly takesBack: RandomId | null;
}

/** What became of it. */
export interface Landed {
  readonly settled: SettledReceipt;
  /** Paths that were written. */
  readonly touched: readonly RelPath[];
  /** Contents that were read from the store to write them, under this hold of the lock. */
  readonly written?: ReadonlySet<Hash>;
}

/** One observation of the paths that were written, with the operation in the same transaction. Under the lock. Answers its seq. */
export async function land(engine: Engine, landing: Landing, { settled, touched, written }: Landed): Promise<number> {
  const { receipt } = settled;
  const { seq } = await observeLocked(engine, {
    kind: 'operation',
    only: touched,
    ...(written === undefined ? {} : { stored: written }),
    operation: receipt.operationId,
    moved: new Map(
      receipt.restored.flatMap(({ path, movedFrom }) => (movedFrom === undefined ? [] : [[path, movedFrom] as const])),
    ),
    durable: true,
    effects: async ({ seq }) => ({
      ...(await effectsOf(engine, landing, { settled, seq })),
      operation: {
        id: receipt.operationId,
        session: landing.session,
        kind: landing.kind,
        boundaryId: landing.boundaryId,
        boundarySeq: landing.boundarySeq,
        createdAt: Date.now(),
        onConflict: landing.onConflict,
        receipt,
        takesBack: landing.takesBack,
      },
    }),
  });
  return seq;
}

type OperationEffects = Pick<Append, 'taken' | 'returned' | 'takesBackInPart' | 'markUndone' | 'clearUndone'>;

async function effectsOf(
  engine: Engine,
  landing: Landing,
  { settled, seq }: { settled: SettledReceipt; seq: number },
): Promise<OperationEffects> {
  const { session, kind, boundaryId, boundarySeq, takesBack, whole } = landing;
  const later = await boundariesFrom(engine, session, boundarySeq);
  if (takesBack !== null) {
    return {
      returned: settled.settled.map((s) => s.path),
      // What a fault of the system left is offered again; what somebody changed since is not.
      takesBackInPart: settled.unfinished,
      clearUndone: marksClearedByRedo(later, takesBack),
    };
  }
  // Hunks take back no row whole: a span that is turned around holds none, and says from where on they took parts.
  const parts = settled.partial.map(({ path, fromSeq }) => ({ path, fromSeq: seq, toSeq: fromSeq }));
  const taken = [...settled.settled, ...parts];
  if (kind === 'undo') {
    return { taken, markUndone: landing.marks ? undoMarks({ session, boundaryId }, settled.settled.length) : [] };
  }
  // The turns of a revert are hidden whole, whatever was kept of them.
  const settledAll = settled.settledAll || kind === 'revert';
  return { taken, markUndone: restoreMarks(later, { boundarySeq, settledAll, whole }) };
}

/** Boundaries a page when the history is walked back. */
const PAGE = 64;

/** A session's live boundaries from a seq on, newest first. */
export async function boundariesFrom(engine: Engine, session: number, fromSeq: number): Promise<BoundaryRecord[]> {
  const found: BoundaryRecord[] = [];
  for (let beforeSeq: number | undefined; ; beforeSeq = found.at(-1)?.seq) {
    const page = await engine.timeline.boundaries(session, {
      limit: PAGE,
      ...(beforeSeq === undefined ? {} : { beforeSeq }),
    });
    const wanted = page.filter((boundary) => boundary.seq >= fromSeq);
    found.push(...wanted);
    if (wanted.length < PAGE) return found;
  }
}
