/**
 * Packs and unpacks what crosses to the addon's tree and hands (docs/addon.md). Pure.
 */
import { TakebackError } from '../errors.ts';
import { asRelPath } from '../rel-path.ts';
import type { Problem, RandomId, RelPath, UncoveredPath } from '../types.ts';
import { encodePaths, Reader, readVersion, UNCOVERED_REASONS, Writer, writeVersion } from '../wire.ts';
import type {
  Abilities,
  ApplyOutcome,
  ApplyRequest,
  ApplyStatus,
  IngestOptions,
  IngestResult,
  MovedPath,
  Peek,
  Position,
  RecoverOutcome,
  RecoverRequest,
  RuleSources,
  ScanOptions,
  ScanResult,
  TreeOptions,
} from './backend.ts';

const PROBLEMS: readonly Problem['kind'][] = [
  'unreadable-dir',
  'unreadable-file',
  'vanished',
  'unreadable-rules',
  'root-ignored',
  'collision',
];
const STATUSES: readonly ApplyStatus[] = ['done', 'refused', 'skipped', 'failed'];
const STATES = ['old', 'new', 'neither'] as const;
const WALKS: readonly Abilities['walk'][] = ['openat2', 'component', 'by-name'];
const GUARDS: readonly Abilities['guard'][] = ['exchange+lease', 'exchange', 'take-out+link', 'refuse'];
const WRITERS = [false, true, null] as const;
const SPECIAL = 8;

function pick<T>(list: readonly T[], index: number, what: string): T {
  const value = list[index];
  if (value === undefined) throw new TakebackError('ERR_INTERNAL', `the addon answered an unknown ${what}: ${index}`);
  return value;
}

/** A list of items, each read by `read`. */
export function readList<T>(reader: Reader, read: (reader: Reader) => T): T[] {
  const count = reader.u32();
  const out: T[] = [];
  for (let i = 0; i < count; i++) out.push(read(reader));
  return out;
}

/** 32 hex digits as the addon takes them. */
function writeId(writer: Writer, id: RandomId): Writer {
  if (!/^[0-9a-f]{32}$/.test(id)) throw new TakebackError('ERR_INVALID_ARGUMENT', `not an id: ${JSON.stringify(id)}`);
  return writer.hash(id);
}

export function encodePosition(at: Position): Buffer {
  return writeId(new Writer().u64(at.seq), at.observationId).done();
}

export function decodePosition(bytes: Uint8Array): Position {
  const reader = new Reader(bytes);
  return { seq: Number(reader.u64()), observationId: reader.hash() };
}

export function encodeTreeOptions(options: Omit<TreeOptions, 'segments'>): Buffer {
  const writer = new Writer().name(options.root).name(options.indexFile);
  writeId(writer, options.storeId).raw(encodePaths(options.skip));
  writer.u64(options.maxFileBytes).u64(options.maxEntries).name(options.scratchDir);
  return writer.u8(options.resolver === 'component' ? 1 : 0).done();
}

/** The JSON that the rules snapshot holds under `sources`: both backends write these very bytes. */
export function encodeSources(sources: RuleSources): Buffer {
  const { repo, globalExcludes, ignoreCase, include, exclude } = sources;
  const ordered = {
    repo: repo && { top: repo.top, gitDir: repo.gitDir, commonDir: repo.commonDir },
    globalExcludes,
    ignoreCase,
    include,
    exclude,
  };
  return Buffer.from(JSON.stringify(ordered));
}

export function encodeScanOptions({ renewRules, hold, only, rehash }: ScanOptions): Buffer {
  const flags = (renewRules ? 1 : 0) | (hold ? 2 : 0) | (only ? 4 : 0) | (rehash ? 8 : 0);
  const writer = new Writer().u8(flags);
  if (renewRules) writer.bytes(encodeSources(renewRules));
  if (hold) writer.raw(encodePaths(hold));
  if (only) writer.raw(encodePaths(only));
  return writer.done();
}

function readProblems(reader: Reader): Problem[] {
  return readList(reader, () => ({
    path: asRelPath(reader.name()),
    kind: pick(PROBLEMS, reader.u8(), 'kind of problem'),
    detail: reader.text(),
  }));
}

export function decodeScan(bytes: Uint8Array): ScanResult {
  const reader = new Reader(bytes);
  const number = (): number => Number(reader.u64());
  return {
    set: reader.u32(),
    files: number(),
    suspects: number(),
    counters: { entries: number(), statCalls: number(), dirsRead: number(), rulesEvaluated: number() },
    problems: readProblems(reader),
  };
}

export function encodeIngestOptions({ deadlineMs, first, hashOnly, borrow, stored }: IngestOptions): Buffer {
  const whole = (deadlineMs === undefined ? 0 : 1) | (first ? 2 : 0) | (hashOnly ? 4 : 0);
  const writer = new Writer().u8(whole | (borrow ? 8 : 0) | (stored ? 16 : 0));
  if (deadlineMs !== undefined) writer.i64(BigInt(Math.floor(deadlineMs)));
  if (first) writer.raw(encodePaths(first));
  if (borrow) {
    writer.name(borrow.top).name(borrow.gitDir).name(borrow.commonDir);
    writer.u32(borrow.attributes.length);
    for (const file of borrow.attributes) writer.name(file);
  }
  if (stored) {
    writer.u32(stored.size);
    for (const hash of stored) writer.hash(hash);
  }
  return writer.done();
}

export function decodeIngest(bytes: Uint8Array): IngestResult {
  const reader = new Reader(bytes);
  const number = (): number => Number(reader.u64());
  return {
    filesHashed: number(),
    storedFiles: number(),
    storedBytes: number(),
    borrowedFiles: number(),
    left: number(),
    problems: readProblems(reader),
  };
}

export function decodeUncovered(bytes: Uint8Array): UncoveredPath[] {
  return readList(new Reader(bytes), (reader) => {
    const path = asRelPath(reader.name());
    const reason = reader.u8();
    return { path, reason: reason === SPECIAL ? 'special' : pick(UNCOVERED_REASONS, reason, 'reason') };
  });
}

export function decodeMoves(bytes: Uint8Array): MovedPath[] {
  return readList(new Reader(bytes), (reader) => ({ from: asRelPath(reader.name()), to: asRelPath(reader.name()) }));
}

export function decodePeeks(bytes: Uint8Array): Peek[] {
  return readList(new Reader(bytes), (reader) => {
    const peek = {
      path: asRelPath(reader.name()),
      version: readVersion(reader),
      ino: reader.u64(),
      nlink: reader.u32(),
      openForWrite: pick(WRITERS, reader.u8(), 'answer'),
    };
    return reader.u8() === 0 ? peek : { ...peek, names: readList(reader, () => reader.name()) };
  });
}

export function encodeApply(request: ApplyRequest): Buffer {
  const writer = writeId(new Writer(), request.operationId).name(request.journal).name(request.trash);
  writer.u8(request.durability === 'full' ? 0 : 1).u32(request.entries.length);
  for (const { path, expect, target, force } of request.entries) {
    writer.name(path);
    writeVersion(writer, expect);
    writeVersion(writer, target);
    writer.u8(force === true ? 1 : 0);
  }
  return writer.done();
}

/** A field that is absent where its text is empty. */
function optional<K extends string>(key: K, text: string): { [P in K]?: string } {
  return (text === '' ? {} : { [key]: text }) as { [P in K]?: string };
}

export function decodeOutcomes(bytes: Uint8Array): ApplyOutcome[] {
  return readList(new Reader(bytes), (reader) => {
    const path = asRelPath(reader.name());
    const status = pick(STATUSES, reader.u8(), 'status');
    const reason = optional('reason', reader.text());
    const detail = optional('detail', reader.text());
    const found = reader.u8() === 0 ? {} : { found: readVersion(reader) };
    const note = optional('note', reader.text());
    return { path, status, ...reason, ...detail, ...found, ...note };
  });
}

export function encodeRecover(request: RecoverRequest): Buffer {
  const writer = new Writer().name(request.journal).name(request.trash);
  return writer.u8(request.mode === 'rollback' ? 0 : 1).done();
}

export function decodeRecover(bytes: Uint8Array): RecoverOutcome {
  const reader = new Reader(bytes);
  const operationId = reader.hash();
  const paths = readList(reader, () => ({
    path: asRelPath(reader.name()),
    state: pick(STATES, reader.u8(), 'state'),
    ...optional('detail', reader.text()),
  }));
  return { operationId, paths };
}

export function decodeAbilities(bytes: Uint8Array): Abilities {
  const reader = new Reader(bytes);
  const flag = (): boolean => reader.u8() === 1;
  return {
    walk: pick(WALKS, reader.u8(), 'walk'),
    exchange: flag(),
    noReplace: flag(),
    lease: flag(),
    reflink: flag(),
    caseFolding: flag(),
    execBit: flag(),
    symlinks: flag(),
    ctime: flag(),
    tickNs: reader.u64(),
    guard: pick(GUARDS, reader.u8(), 'guard'),
  };
}

export function decodeTrash(bytes: Uint8Array): {
  freedBytes: number;
  kept: number;
  lateWrites: { name: string; hash: string }[];
} {
  const reader = new Reader(bytes);
  return {
    freedBytes: Number(reader.u64()),
    kept: Number(reader.u64()),
    lateWrites: readList(reader, () => ({ name: reader.name(), hash: reader.hash() })),
  };
}

/** True for every name that the engine may take for a secret, and some more. */
export function looksSecret(path: RelPath): boolean {
  return path
    .slice(path.lastIndexOf('/') + 1)
    .toLowerCase()
    .startsWith('.env');
}
