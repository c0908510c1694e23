/**
 * Timelines for tests of the model, told as a story: who had a call open, what the next look found, what was taken back.
 *
 * `story.now` is the tree as the story has it; `peeks` makes of it what a backend would answer.
 */
import type { Peek } from '../../src/backend/backend.ts';
import { attribute } from '../../src/model/attribution.ts';
import type { AttributedRow } from '../../src/model/types.ts';
import { asRelPath, comparePaths, parentOf } from '../../src/rel-path.ts';
import type {
  BoundaryRecord,
  CallRecord,
  ObservationRecord,
  OperationKind,
  OperationRecord,
  TakenRecord,
} from '../../src/timeline/timeline.ts';
import type { Receipt, RelPath, Row, StatKey, UncoveredReason, Version } from '../../src/types.ts';
import { sameVersion } from '../../src/wire.ts';

export const rel = asRelPath;
export const absent: Version = { kind: 'absent' };
export const dir = (mode = 0o755): Version => ({ kind: 'dir', mode });
export const link = (target: string): Version => ({ kind: 'symlink', target });
/** A file whose hash is made of `text`, which is short. */
export const file = (text: string, mode = 0o644): Version => ({
  kind: 'file',
  mode,
  size: text.length,
  content: Buffer.from(text).toString('hex').padEnd(32, '0').slice(0, 32),
});
export const fifo = (ino = 7n): Version => ({ kind: 'special', type: 'fifo', ino });
export const uncovered = (reason: UncoveredReason, size = 1): Version => {
  const stat: StatKey = { kind: 'file', mode: 0o644, size, mtimeNs: 1n, ctimeNs: 1n, ino: 99n, dev: 1n };
  return { kind: 'uncovered', reason, stat };
};

export type Tree = Record<string, Version>;

/** What peek would answer for every path of the tree, and `absent` for the others that are asked for. */
export function peeks(
  tree: Tree,
  ask: readonly string[] = [],
  extra: Record<string, Partial<Peek>> = {},
): Map<RelPath, Peek> {
  const out = new Map<RelPath, Peek>();
  const present = Object.keys(tree).filter((path) => tree[path]?.kind !== 'absent');
  for (const path of new Set([...present, ...ask])) {
    const version = tree[path] ?? absent;
    const names = present
      .filter((other) => other !== path && parentOf(rel(other)) === path)
      .map((other) => other.slice(path.length + 1))
      .sort(comparePaths);
    out.set(rel(path), {
      path: rel(path),
      version,
      ino: version.kind === 'absent' ? 0n : 1n,
      nlink: version.kind === 'absent' ? 0 : 1,
      openForWrite: false,
      ...(version.kind === 'dir' ? { names } : {}),
      ...extra[path],
    });
  }
  return out;
}

const OWNER = { pid: 1, startTime: 1, bootId: 'b', hostId: 'h' };

export class Story {
  readonly rows: Row[] = [];
  readonly calls: CallRecord[] = [];
  readonly observations: ObservationRecord[] = [];
  readonly operations: OperationRecord[] = [];
  readonly taken: (TakenRecord & { session: number })[] = [];
  readonly now: Tree;
  seq = 0;

  constructor(tree: Tree = {}) {
    this.now = { ...tree };
    this.look();
  }

  /** One look, which finds `found` changed since the one before. Answers its seq. */
  look(found: Tree = {}, options: { flags?: number; overlap?: string[]; operation?: string } = {}): number {
    const seq = ++this.seq;
    for (const path of Object.keys(found).sort(comparePaths)) {
      const before = this.now[path] ?? absent;
      const after = found[path] as Version;
      if (!sameVersion(before, after))
        this.rows.push({ seq, path: rel(path), before, after, flags: options.flags ?? 0 });
      this.now[path] = after;
    }
    this.observations.push({
      seq,
      id: `o${seq}`,
      kind: options.operation === undefined ? 'look' : 'operation',
      createdAt: 0,
      operation: options.operation ?? null,
      overlap: (options.overlap ?? []).map(rel),
    });
    return seq;
  }

  /** Opens a call and answers its invocation; `found` is what the look at its begin finds. */
  begin(session: number, options: { paths?: string[]; parent?: number; found?: Tree } = {}): number {
    const beginSeq = this.look(options.found);
    const invocation = this.calls.length + 1;
    this.calls.push({
      invocation,
      session,
      callId: `c${invocation}`,
      tool: null,
      stepId: null,
      parent: options.parent ?? null,
      beginSeq,
      endSeq: null,
      state: 'open',
      detached: false,
      owner: OWNER,
      sideEffect: null,
      isError: false,
      paths: options.paths?.map(rel) ?? null,
      turnSeq: 0,
      beganAt: 0,
      endedAt: null,
    });
    return invocation;
  }

  end(invocation: number, found: Tree = {}, state: 'ended' | 'interrupted' = 'ended'): number {
    const endSeq = this.look(found);
    const at = this.calls.findIndex((call) => call.invocation === invocation);
    this.calls[at] = { ...(this.calls[at] as CallRecord), endSeq, state };
    return endSeq;
  }

  /** A call of the session that makes `found` of the tree. Answers the seq of its end. */
  call(session: number, found: Tree): number {
    return this.end(this.begin(session), found);
  }

  /** An operation that made `found` of the tree and took back these rows. */
  operate(session: number, kind: OperationKind, found: Tree, taken: Record<string, [number, number]>): string {
    const id = `op${this.operations.length + 1}`;
    const seq = this.look(found, { operation: id });
    this.operations.push(operation({ id, session, kind, seq }));
    for (const [path, [fromSeq, toSeq]] of Object.entries(taken)) {
      this.taken.push({ session, operation: id, path: rel(path), fromSeq, toSeq, returnedBy: null });
    }
    return id;
  }

  /** A redo that made `found` of the tree and gave back these paths of the operation. */
  redo(session: number, operationId: string, found: Tree, returned: string[]): string {
    const id = this.operate(session, 'redo', found, {});
    for (const [i, record] of this.taken.entries()) {
      if (record.operation === operationId && returned.includes(record.path))
        this.taken[i] = { ...record, returnedBy: id };
    }
    return id;
  }

  attributed(session: number, afterSeq = 1): AttributedRow[] {
    return attribute({
      session,
      rows: this.rows.filter((row) => row.seq > afterSeq),
      calls: this.calls,
      observations: this.observations,
      operations: this.operations,
      taken: this.taken.filter((record) => record.session === session),
    });
  }
}

export const emptyReceipt: Receipt = {
  operationId: 'op',
  boundaryId: 'a',
  outcome: 'nothing',
  restored: [],
  refused: [],
  skipped: [],
  failed: [],
  irreversible: [],
  uncovered: [],
  notes: [],
};

export function operation(fields: Partial<OperationRecord>): OperationRecord {
  return {
    id: 'op',
    session: 1,
    kind: 'undo',
    boundaryId: 'a',
    boundarySeq: 1,
    seq: 1,
    createdAt: 0,
    onConflict: 'refuse',
    receipt: emptyReceipt,
    takesBack: null,
    redoneBy: null,
    ...fields,
  };
}

export function boundary(boundaryId: string, seq: number, undoneBy: string | null = null): BoundaryRecord {
  const root = { dev: 1n, ino: 1n, birthNs: 0n };
  return { session: 1, boundaryId, seq, label: null, createdAt: 0, root, head: null, undoneBy, state: 'live' };
}
