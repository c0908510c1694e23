/**
 * Bytes of the index file's frames (docs/formats.md): base, delta, rules. No I/O.
 *
 * Reading throws on anything that doesn't fit; `index-file.ts` takes that for damage.
 */
import { asRelPath, decodeName, encodeName } from '../../rel-path.ts';
import { ABSENT, type RelPath, type StatKey, type Version } from '../../types.ts';
import { FILE_KINDS, Reader, SPECIAL_TYPES, UNCOVERED_REASONS, Writer } from '../../wire.ts';
import type { Position } from '../backend.ts';
import { type Entry, EntryFlag, Node, sortedChildren } from './index.ts';

const KINDS: readonly Version['kind'][] = ['absent', 'file', 'symlink', 'dir', 'special', 'uncovered'];
const NO_HASH = '0'.repeat(32);
const ENTRY_BYTES = 88;

export interface BaseFrame {
  readonly at: Position;
  readonly scannedAtNs: bigint;
  readonly rules: Buffer;
  readonly root: Node;
}

export type DeltaOp = { readonly path: RelPath } & (
  | { readonly op: 'remove' }
  | { readonly op: 'put'; readonly entry: Entry }
);

export interface DeltaFrame {
  readonly from: Position;
  readonly at: Position;
  readonly scannedAtNs: bigint;
  readonly ops: readonly DeltaOp[];
}

function fail(what: string): never {
  throw new Error(`the index holds ${what}`);
}

function writePosition(writer: Writer, at: Position): Writer {
  return writer.u64(at.seq).hash(at.observationId);
}

function readPosition(reader: Reader): Position {
  return { seq: Number(reader.u64()), observationId: reader.hash() };
}

function kindWithoutStat(version: Version): StatKey['kind'] {
  switch (version.kind) {
    case 'symlink':
    case 'dir':
      return version.kind;
    case 'special':
      return version.type;
    case 'uncovered':
      return version.stat.kind;
    default:
      return 'file';
  }
}

/** A stat key for an entry whose own is not known; it is flagged untrusted. */
function unknownStat(version: Version): StatKey {
  const mode = version.kind === 'file' || version.kind === 'dir' ? version.mode : 0;
  const size = version.kind === 'file' ? version.size : 0;
  return { kind: kindWithoutStat(version), mode, size, mtimeNs: 0n, ctimeNs: 0n, ino: 0n, dev: 0n };
}

function statOf(entry: Entry): StatKey {
  if (entry.version.kind === 'uncovered') return entry.version.stat;
  if (entry.stat !== null) return entry.stat;
  const stat = unknownStat(entry.version);
  return entry.version.kind === 'special' ? { ...stat, ino: entry.version.ino } : stat;
}

function reasonOf(version: Version): number {
  if (version.kind === 'uncovered') return UNCOVERED_REASONS.indexOf(version.reason);
  return version.kind === 'special' ? SPECIAL_TYPES.indexOf(version.type) : 0;
}

function extraOf(version: Version): Buffer {
  return version.kind === 'symlink' ? encodeName(version.target) : Buffer.alloc(0);
}

interface Links {
  readonly firstChild: number;
  readonly childCount: number;
  readonly extraOff: number;
  readonly extraLen: number;
}

/** An entry from `versionKind` on; `children` is left out of a delta. */
function writeEntry(writer: Writer, entry: Entry, links: Links, inBase: boolean): void {
  const stat = statOf(entry);
  writer.u8(KINDS.indexOf(entry.version.kind)).u8(reasonOf(entry.version));
  if (inBase) writer.u32(links.firstChild).u32(links.childCount);
  writer.u32(stat.mode).u32(entry.stat === null ? entry.flags | EntryFlag.untrusted : entry.flags);
  writer.u64(stat.size).i64(stat.mtimeNs).i64(stat.ctimeNs).u64(stat.ino).u64(stat.dev);
  writer.hash(entry.version.kind === 'file' ? entry.version.content : NO_HASH);
  writer
    .u32(links.extraOff)
    .u8(links.extraLen & 0xff)
    .u8(links.extraLen >> 8)
    .u8(FILE_KINDS.indexOf(stat.kind))
    .u8(0);
}

interface RawEntry extends Links {
  readonly entry: (extra: Buffer) => Entry;
}

function readEntry(reader: Reader, inBase: boolean): RawEntry {
  const kind = KINDS[reader.u8()] ?? fail('an unknown kind of version');
  const reason = reader.u8();
  const firstChild = inBase ? reader.u32() : 0;
  const childCount = inBase ? reader.u32() : 0;
  const mode = reader.u32();
  const flags = reader.u32();
  const size = Number(reader.u64());
  const [mtimeNs, ctimeNs, ino, dev] = [reader.i64(), reader.i64(), reader.u64(), reader.u64()];
  const content = reader.hash();
  const extraOff = reader.u32();
  const extraLen = reader.u8() | (reader.u8() << 8);
  const statKind = FILE_KINDS[reader.u8()] ?? fail('an unknown file kind');
  reader.u8();
  const stat: StatKey = { kind: statKind, mode, size, mtimeNs, ctimeNs, ino, dev };
  const version = (extra: Buffer): Version => {
    switch (kind) {
      case 'absent':
        return ABSENT;
      case 'file':
        return { kind, mode, size, content };
      case 'symlink':
        return { kind, target: decodeName(extra) };
      case 'dir':
        return { kind, mode };
      case 'special':
        return { kind, type: SPECIAL_TYPES[reason] ?? fail('an unknown special type'), ino };
      default:
        return { kind: 'uncovered', reason: UNCOVERED_REASONS[reason] ?? fail('an unknown reason'), stat };
    }
  };
  return { firstChild, childCount, extraOff, extraLen, entry: (extra) => ({ version: version(extra), stat, flags }) };
}

export function encodeBase(base: BaseFrame): Buffer {
  const nodes: Node[] = [base.root];
  const first: number[] = [];
  for (let i = 0; i < nodes.length; i++) {
    first.push(nodes.length);
    nodes.push(...sortedChildren(nodes[i] as Node));
  }
  const names: Buffer[] = [];
  let nameBytes = 0;
  const keep = (bytes: Buffer): number => {
    if (bytes.length === 0) return 0;
    names.push(bytes);
    nameBytes += bytes.length;
    return nameBytes - bytes.length;
  };
  const entries = new Writer();
  nodes.forEach((node, i) => {
    const name = encodeName(node.name);
    const extra = extraOf(node.version);
    const childCount = node.children?.size ?? 0;
    entries
      .u32(keep(name))
      .u8(name.length & 0xff)
      .u8(name.length >> 8);
    const links = {
      firstChild: childCount === 0 ? 0 : (first[i] as number),
      childCount,
      extraOff: keep(extra),
      extraLen: extra.length,
    };
    writeEntry(entries, node, links, true);
  });
  const writer = writePosition(new Writer(), base.at)
    .i64(base.scannedAtNs)
    .u32(nodes.length)
    .u32(nameBytes)
    .bytes(base.rules);
  return Buffer.concat([writer.done(), entries.done(), ...names]);
}

export function decodeBase(payload: Buffer): BaseFrame {
  const reader = new Reader(payload);
  const at = readPosition(reader);
  const scannedAtNs = reader.i64();
  const count = reader.u32();
  const nameBytes = reader.u32();
  const rules = Buffer.from(reader.bytes());
  if (count === 0 || reader.left !== count * ENTRY_BYTES + nameBytes) fail('a count that does not fit');
  const names = payload.subarray(payload.length - nameBytes);
  const text = (offset: number, length: number): Buffer =>
    offset + length <= names.length ? names.subarray(offset, offset + length) : fail('a name that runs past the end');
  const nodes: Node[] = [];
  const links: Links[] = [];
  for (let i = 0; i < count; i++) {
    const nameOff = reader.u32();
    const node = new Node(decodeName(text(nameOff, reader.u8() | (reader.u8() << 8))));
    const raw = readEntry(reader, true);
    Object.assign(node, raw.entry(text(raw.extraOff, raw.extraLen)));
    if (node.version.kind === 'dir') node.children = new Map();
    nodes.push(node);
    links.push(raw);
  }
  linkChildren(nodes, links);
  return { at, scannedAtNs, rules, root: nodes[0] as Node };
}

/** Children stand behind their folder, so that no folder can come to lie in itself. */
function linkChildren(nodes: readonly Node[], links: readonly Links[]): void {
  const owned = new Set<number>();
  links.forEach(({ firstChild, childCount }, i) => {
    if (childCount === 0) return;
    if (firstChild <= i || firstChild + childCount > nodes.length) fail('children out of place');
    const children = new Map<string, Node>();
    for (let c = firstChild; c < firstChild + childCount; c++) {
      const child = nodes[c] as Node;
      if (owned.has(c) || child.name === '' || child.name.includes('/')) fail('a child that is not one');
      owned.add(c);
      children.set(child.name, child);
    }
    if (children.size !== childCount) fail('two children of one name');
    (nodes[i] as Node).children = children;
  });
  if (owned.size !== nodes.length - 1) fail('an entry that is in no folder');
}

const OP = { remove: 0, put: 1, putFile: 2 } as const;

/** What all entries of plain files share is left out of a delta. */
function isPlainFile({ version, stat, flags }: Entry): boolean {
  return version.kind === 'file' && stat?.kind === 'file' && stat.mode <= 0xffff && flags <= 0xff;
}

function writeFileEntry(writer: Writer, { version, flags }: Entry, stat: StatKey): void {
  writer
    .u8(stat.mode & 0xff)
    .u8(stat.mode >> 8)
    .u8(flags);
  writer.u64(stat.size).i64(stat.mtimeNs).i64(stat.ctimeNs).u64(stat.ino).u64(stat.dev);
  writer.hash(version.kind === 'file' ? version.content : NO_HASH);
}

function readFileEntry(reader: Reader): Entry {
  const mode = reader.u8() | (reader.u8() << 8);
  const flags = reader.u8();
  const size = Number(reader.u64());
  const [mtimeNs, ctimeNs, ino, dev] = [reader.i64(), reader.i64(), reader.u64(), reader.u64()];
  const stat: StatKey = { kind: 'file', mode, size, mtimeNs, ctimeNs, ino, dev };
  return { version: { kind: 'file', mode, size, content: reader.hash() }, stat, flags };
}

export function encodeDelta(delta: DeltaFrame): Buffer {
  const writer = writePosition(writePosition(new Writer(), delta.from), delta.at)
    .i64(delta.scannedAtNs)
    .u32(delta.ops.length);
  for (const op of delta.ops) {
    writer.name(op.path);
    if (op.op === 'remove') {
      writer.u8(OP.remove);
      continue;
    }
    if (isPlainFile(op.entry)) {
      writeFileEntry(writer.u8(OP.putFile), op.entry, statOf(op.entry));
      continue;
    }
    writer.u8(OP.put);
    const extra = extraOf(op.entry.version);
    writeEntry(writer, op.entry, { firstChild: 0, childCount: 0, extraOff: 0, extraLen: extra.length }, false);
    writer.bytes(extra);
  }
  return writer.done();
}

export function decodeDelta(payload: Buffer): DeltaFrame {
  const reader = new Reader(payload);
  const from = readPosition(reader);
  const at = readPosition(reader);
  const scannedAtNs = reader.i64();
  const count = reader.u32();
  const ops: DeltaOp[] = [];
  for (let i = 0; i < count; i++) {
    const path = asRelPath(reader.name());
    const op = reader.u8();
    if (op === OP.remove) ops.push({ path, op: 'remove' });
    else if (op === OP.putFile) ops.push({ path, op: 'put', entry: readFileEntry(reader) });
    else if (op === OP.put) {
      const raw = readEntry(reader, false);
      ops.push({ path, op: 'put', entry: raw.entry(reader.bytes()) });
    } else fail('an unknown operation');
  }
  if (reader.left !== 0) fail('bytes behind a frame');
  return { from, at, scannedAtNs, ops };
}
