/**
 * SQL values ↔ records of the timeline: the columns of each table in the order of its decoder.
 *
 * Strings of the host (ids, labels) may hold what SQLite's text can't carry both ways: a NUL, a lone surrogate. Such
 * a string is stored as the bytes of its UTF-16 form, every other one as text; so that no two ids ever meet.
 * 64-bit unsigned numbers (device, inode, seed) are stored as the signed number of the same bits.
 */
import type { SqlRow, SqlValue } from '../backend/backend.ts';
import { TakebackError } from '../errors.ts';
import { asRelPath, decodeName, encodeName } from '../rel-path.ts';
import type { ConflictPolicy, Receipt, RelPath, Row, SideEffect } from '../types.ts';
import { decodePaths, decodeVersion, encodePaths } from '../wire.ts';
import type {
  BoundaryRecord,
  CallRecord,
  ObservationKind,
  ObservationRecord,
  OperationKind,
  OperationRecord,
  SessionRecord,
  TakenRecord,
} from './timeline.ts';

type Value = SqlValue | undefined;

function damaged(what: string): TakebackError {
  return new TakebackError('ERR_STORE_CORRUPT', `a stored record holds no ${what} where one must be`);
}

// ---- values ----------------------------------------------------------------------------------------------------

export function fromString(value: string): string | Buffer {
  return value.isWellFormed() && !value.includes('\0') ? value : Buffer.from(value, 'utf16le');
}

export function fromOptional(value: string | null): string | Buffer | null {
  return value === null ? null : fromString(value);
}

export function toText(value: Value): string {
  if (typeof value === 'string') return value;
  return bytes(value).toString('utf16le');
}

function optionalText(value: Value): string | null {
  return value === null ? null : toText(value);
}

export function toInt(value: Value): number {
  if (typeof value !== 'number' && typeof value !== 'bigint') throw damaged('number');
  return Number(value);
}

function optionalInt(value: Value): number | null {
  return value === null ? null : toInt(value);
}

export function fromUnsigned(value: bigint): bigint {
  return BigInt.asIntN(64, value);
}

export function toUnsigned(value: Value): bigint {
  return BigInt.asUintN(64, toSigned(value));
}

function toSigned(value: Value): bigint {
  if (typeof value !== 'number' && typeof value !== 'bigint') throw damaged('number');
  return BigInt(value);
}

export function bytes(value: Value): Buffer {
  if (Buffer.isBuffer(value)) return value;
  if (!(value instanceof Uint8Array)) throw damaged('bytes');
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

export function fromPath(path: RelPath): Buffer {
  return encodeName(path);
}

/** A NUL, which only damage can have put there, stands as U+DC00: so the path can still be named, and is refused. */
export function toPath(value: Value): RelPath {
  const name = decodeName(bytes(value));
  return asRelPath(name.includes('\0') ? name.replaceAll('\0', '\udc00') : name);
}

export function fromPaths(paths: readonly RelPath[] | null | undefined): Buffer | null {
  return paths === null || paths === undefined ? null : encodePaths(paths);
}

// ---- records ---------------------------------------------------------------------------------------------------

export const ROW_COLUMNS = 'seq, path, before, after, flags, moved_from';

export function toRow([seq, path, before, after, flags, movedFrom]: SqlRow): Row {
  return {
    seq: toInt(seq),
    path: toPath(path),
    before: decodeVersion(bytes(before)),
    after: decodeVersion(bytes(after)),
    flags: toInt(flags),
    movedFrom: movedFrom === null ? undefined : toPath(movedFrom),
  };
}

export const OBSERVATION_COLUMNS = 'seq, id, kind, created_at, operation, overlap';

export function toObservation([seq, id, kind, createdAt, operation, overlap]: SqlRow): ObservationRecord {
  return {
    seq: toInt(seq),
    id: toText(id),
    kind: toText(kind) as ObservationKind,
    createdAt: toInt(createdAt),
    operation: optionalText(operation),
    overlap: overlap === null ? [] : decodePaths(bytes(overlap)),
  };
}

export const SESSION_COLUMNS = 'id, thread, tenant, created_at';

export function toSession([id, thread, tenant, createdAt]: SqlRow): SessionRecord {
  return { id: toInt(id), threadId: toText(thread), tenantId: optionalText(tenant), createdAt: toInt(createdAt) };
}

export const BOUNDARY_COLUMNS = 'session, id, seq, label, created_at, dev, ino, birth_ns, head, undone_by, state';

export function toBoundary(row: SqlRow): BoundaryRecord {
  const [session, id, seq, label, createdAt, dev, ino, birthNs, head, undoneBy, state] = row;
  return {
    session: toInt(session),
    boundaryId: toText(id),
    seq: toInt(seq),
    label: optionalText(label),
    createdAt: toInt(createdAt),
    root: { dev: toUnsigned(dev), ino: toUnsigned(ino), birthNs: toSigned(birthNs) },
    head: optionalText(head),
    undoneBy: optionalText(undoneBy),
    state: toText(state) as BoundaryRecord['state'],
  };
}

export const CALL_COLUMNS = `invocation, session, id, tool, step, parent, begin_seq, end_seq, state, detached,
  pid, start_time, boot_id, host_id, side_effect, is_error, paths, turn_seq, began_at, ended_at`;

export function toCall(row: SqlRow): CallRecord {
  const [invocation, session, id, tool, step, parent, beginSeq, endSeq, state, detached, ...rest] = row;
  const [pid, startTime, bootId, hostId, sideEffect, isError, paths, turnSeq, beganAt, endedAt] = rest;
  return {
    invocation: toInt(invocation),
    session: toInt(session),
    callId: toText(id),
    tool: optionalText(tool),
    stepId: optionalText(step),
    parent: optionalInt(parent),
    beginSeq: toInt(beginSeq),
    endSeq: optionalInt(endSeq),
    state: toText(state) as CallRecord['state'],
    detached: toInt(detached) === 1,
    owner: { pid: toInt(pid), startTime: toInt(startTime), bootId: toText(bootId), hostId: toText(hostId) },
    sideEffect: optionalText(sideEffect) as SideEffect | null,
    isError: toInt(isError) === 1,
    paths: paths === null ? null : decodePaths(bytes(paths)),
    turnSeq: toInt(turnSeq),
    beganAt: toInt(beganAt),
    endedAt: optionalInt(endedAt),
  };
}

export const OPERATION_COLUMNS = `id, session, kind, boundary_id, boundary_seq, seq, created_at, on_conflict,
  receipt, takes_back, redone_by`;

export function toOperation(row: SqlRow): OperationRecord {
  const [id, session, kind, boundaryId, boundarySeq, seq, createdAt, onConflict, receipt, takesBack, redoneBy] = row;
  return {
    id: toText(id),
    session: toInt(session),
    kind: toText(kind) as OperationKind,
    boundaryId: toText(boundaryId),
    boundarySeq: toInt(boundarySeq),
    seq: toInt(seq),
    createdAt: toInt(createdAt),
    onConflict: toText(onConflict) as ConflictPolicy,
    receipt: toReceipt(toText(receipt)),
    takesBack: optionalText(takesBack),
    redoneBy: optionalText(redoneBy),
  };
}

function toReceipt(json: string): Receipt {
  try {
    return JSON.parse(json) as Receipt;
  } catch (cause) {
    throw new TakebackError('ERR_STORE_CORRUPT', 'a stored receipt is not JSON', { cause });
  }
}

export const TAKEN_COLUMNS = 'operation, path, from_seq, to_seq, returned_by';

export function toTaken([operation, path, fromSeq, toSeq, returnedBy]: SqlRow): TakenRecord {
  return {
    operation: toText(operation),
    path: toPath(path),
    fromSeq: toInt(fromSeq),
    toSeq: toInt(toSeq),
    returnedBy: optionalText(returnedBy),
  };
}
