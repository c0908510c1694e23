/**
 * Moves: which deleted and which created path of one interval are one file that went elsewhere. Pure.
 *
 * Equal content first (the mode may differ; links by equal target), then similar text, counted as git counts it: bytes of
 * lines that both hold, of the larger one, at least half. Each path is in one pair at most, best pairs first, ties by
 * the same base name, then by path. The caller reads the bytes that `readForMoves` names.
 *
 * Not covered: what inodes prove (`move-links.ts`; it comes first, and finds empty files, binary files that changed and
 * texts that became others too), copies (the source stays), and a move onto a path that held something else. Similar text is sought only within the bounds below; past them, moves
 * with equal content are still found.
 */
import { comparePaths } from '../rel-path.ts';
import type { Hash, RelPath, Version } from '../types.ts';
import type { PathChange } from './types.ts';

/** What is (or was) at one end of a possible move. */
export interface MoveEnd {
  readonly path: RelPath;
  readonly version: Version;
}

export interface Move {
  readonly from: RelPath;
  readonly to: RelPath;
}

export interface MoveEnds {
  /** Paths with what they lost. */
  readonly gone: readonly MoveEnd[];
  /** Paths with what came there. */
  readonly made: readonly MoveEnd[];
}

/** Guessed: more candidates than that are no moves of single files; git has a limit of this kind too. */
const MAX_CANDIDATES = 200;
const MAX_FILE_BYTES = 1024 * 1024;
/** Guessed: all candidates together, and lines that two of them share; a fraction of a second. */
const MAX_TOTAL_BYTES = 8 * 1024 * 1024;
const MAX_COMPARISONS = 40_000_000;
/** Percent; git's default. */
const MIN_SIMILARITY = 50;

/** Those of the moves that lead from what is gone to what was made, of one kind. */
export function movesBetween({ gone, made }: MoveEnds, moves: readonly Move[]): Move[] {
  const kinds = new Map(gone.map(({ path, version }) => [path, version.kind]));
  const targets = new Map(made.map(({ path, version }) => [path, version.kind]));
  return moves.filter(({ from, to }) => kinds.has(from) && kinds.get(from) === targets.get(to));
}

/** The ends that are in none of these moves. */
export function withoutMoves({ gone, made }: MoveEnds, moves: readonly Move[]): MoveEnds {
  const from = new Set(moves.map((move) => move.from));
  const to = new Set(moves.map((move) => move.to));
  return { gone: gone.filter(({ path }) => !from.has(path)), made: made.filter(({ path }) => !to.has(path)) };
}

/** Moves with equal content. */
export function exactMoves({ gone, made }: MoveEnds): Move[] {
  const sameName = (end: MoveEnd): string | null => {
    const key = contentKey(end.version);
    return key === null ? null : `${baseName(end.path)}/${key}`;
  };
  const named = pairBy(byPath(gone), byPath(made), sameName);
  const others = pairBy(named.gone, named.made, ({ version }) => contentKey(version));
  return [...named.moves, ...others.moves];
}

/** Pairs ends of one key in their order; the others are left. Those without a key are paired with nothing. */
function pairBy(
  gone: readonly MoveEnd[],
  made: readonly MoveEnd[],
  keyOf: (end: MoveEnd) => string | null,
): MoveEnds & { readonly moves: Move[] } {
  const waiting = new Map<string, MoveEnd[]>();
  for (const end of [...gone].reverse()) {
    const key = keyOf(end);
    if (key === null) continue;
    const list = waiting.get(key);
    if (list === undefined) waiting.set(key, [end]);
    else list.push(end);
  }
  const moves: Move[] = [];
  const left: MoveEnd[] = [];
  for (const end of made) {
    const source = waiting.get(keyOf(end) ?? '')?.pop();
    if (source === undefined) left.push(end);
    else moves.push({ from: source.path, to: end.path });
  }
  const paired = new Set(moves.map(({ from }) => from));
  return { moves, gone: gone.filter(({ path }) => !paired.has(path)), made: left };
}

function byPath(ends: readonly MoveEnd[]): MoveEnd[] {
  return [...ends].sort((a, b) => comparePaths(a.path, b.path));
}

function contentKey(version: Version): string | null {
  if (version.kind === 'symlink') return `link ${version.target}`;
  return version.kind === 'file' && version.size > 0 ? `file ${version.content}` : null;
}

function baseName(path: RelPath): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** A file of which the bytes are to be compared. */
export interface Candidate {
  readonly path: RelPath;
  readonly content: Hash;
  readonly size: number;
}

export interface Candidates {
  readonly gone: readonly Candidate[];
  readonly made: readonly Candidate[];
}

const NO_CANDIDATES: Candidates = { gone: [], made: [] };

/** Files without a partner in `found` that may have a similar one: what is worth reading. Empty past the bounds. */
export function readForMoves({ gone, made }: MoveEnds, found: readonly Move[]): Candidates {
  const paired = { gone: new Set(found.map(({ from }) => from)), made: new Set(found.map(({ to }) => to)) };
  const left = candidatesOf(gone, paired.gone);
  const right = candidatesOf(made, paired.made);
  const candidates = { gone: withPartner(left, right), made: withPartner(right, left) };
  const total = [...candidates.gone, ...candidates.made].reduce((sum, { size }) => sum + size, 0);
  const most = Math.max(candidates.gone.length, candidates.made.length);
  return most > MAX_CANDIDATES || total > MAX_TOTAL_BYTES ? NO_CANDIDATES : candidates;
}

function candidatesOf(ends: readonly MoveEnd[], paired: ReadonlySet<RelPath>): Candidate[] {
  return byPath(ends).flatMap(({ path, version }) =>
    version.kind === 'file' && version.size > 0 && version.size <= MAX_FILE_BYTES && !paired.has(path)
      ? [{ path, content: version.content, size: version.size }]
      : [],
  );
}

/** Those for which the other side has one of a size that allows enough in common. */
function withPartner(candidates: readonly Candidate[], others: readonly Candidate[]): Candidate[] {
  const sizes = others.map(({ size }) => size).sort((a, b) => a - b);
  let at = 0;
  const bySize = [...candidates].sort((a, b) => a.size - b.size);
  return bySize.filter(({ size }) => {
    while (at < sizes.length && (sizes[at] as number) * 100 < size * MIN_SIMILARITY) at++;
    const other = sizes[at];
    return other !== undefined && other * MIN_SIMILARITY <= size * 100;
  });
}

interface Pair extends Move {
  readonly score: number;
  readonly sameName: boolean;
}

/**
 * Moves with similar content.
 *
 * @param bytes of every candidate, by its content
 */
export function similarMoves(candidates: Candidates, bytes: ReadonlyMap<Hash, Uint8Array>): Move[] {
  const isTold = ({ content }: Candidate): boolean => isText(bytes.get(content));
  const gone = candidates.gone.filter(isTold);
  const made = candidates.made.filter(isTold);
  const ids = new Map<string, number>();
  const cut = ({ content }: Candidate): Chunks => numbered(chunksOf(bytes.get(content) as Uint8Array), ids);
  const targets = made.map(cut);
  const holders = holdersOf(gone.map(cut), ids.size);
  const work = targets.reduce(
    (sum, { chunks }) => chunks.reduce((inner, id) => inner + (holders.ends[id] as number) - startOf(holders, id), sum),
    0,
  );
  if (work > MAX_COMPARISONS) return [];
  return bestPairs(made.flatMap((to, i) => pairsOf(to, gone, commonBytes(targets[i] as Chunks, holders, gone.length))));
}

function pairsOf(to: Candidate, gone: readonly Candidate[], common: Float64Array): Pair[] {
  return gone.flatMap((from, at): Pair[] => {
    const score = (common[at] as number) / Math.max(from.size, to.size);
    const sameName = baseName(from.path) === baseName(to.path);
    return score * 100 >= MIN_SIMILARITY ? [{ from: from.path, to: to.path, score, sameName }] : [];
  });
}

/** A file's chunks by number, each once, with the bytes that they make up. */
interface Chunks {
  readonly chunks: Uint32Array;
  readonly counts: Uint32Array;
}

function numbered(counts: ReadonlyMap<string, number>, ids: Map<string, number>): Chunks {
  const chunks = new Uint32Array(counts.size);
  let at = 0;
  for (const chunk of counts.keys()) {
    const id = ids.get(chunk) ?? ids.size;
    ids.set(chunk, id);
    chunks[at++] = id;
  }
  return { chunks, counts: Uint32Array.from(counts.values()) };
}

/** For each chunk, in one array after the other: the files that hold it, and their bytes of it. */
interface Holders {
  readonly ends: Uint32Array;
  readonly files: Uint32Array;
  readonly counts: Uint32Array;
}

function startOf({ ends }: Holders, id: number): number {
  return id === 0 ? 0 : (ends[id - 1] as number);
}

function holdersOf(files: readonly Chunks[], distinct: number): Holders {
  const ends = new Uint32Array(distinct);
  for (const { chunks } of files) for (const id of chunks) ends[id] = (ends[id] as number) + 1;
  for (let id = 1; id < distinct; id++) ends[id] = (ends[id] as number) + (ends[id - 1] as number);
  const total = ends.at(-1) ?? 0;
  const holders = { ends, files: new Uint32Array(total), counts: new Uint32Array(total) };
  const next = Uint32Array.from({ length: distinct }, (_, id) => startOf(holders, id));
  for (const [file, { chunks, counts }] of files.entries()) {
    for (const [i, id] of chunks.entries()) {
      const at = next[id] as number;
      holders.files[at] = file;
      holders.counts[at] = counts[i] as number;
      next[id] = at + 1;
    }
  }
  return holders;
}

/** Bytes that a file has in common with each of the others. */
function commonBytes({ chunks, counts }: Chunks, holders: Holders, files: number): Float64Array {
  const common = new Float64Array(files);
  for (let i = 0; i < chunks.length; i++) {
    const id = chunks[i] as number;
    const count = counts[i] as number;
    const end = holders.ends[id] as number;
    for (let at = startOf(holders, id); at < end; at++) {
      const file = holders.files[at] as number;
      common[file] = (common[file] as number) + Math.min(count, holders.counts[at] as number);
    }
  }
  return common;
}

function bestPairs(pairs: readonly Pair[]): Move[] {
  const ordered = [...pairs].sort(
    (a, b) =>
      b.score - a.score ||
      Number(b.sameName) - Number(a.sameName) ||
      comparePaths(a.from, b.from) ||
      comparePaths(a.to, b.to),
  );
  const from = new Set<RelPath>();
  const to = new Set<RelPath>();
  return ordered.flatMap((pair): Move[] => {
    if (from.has(pair.from) || to.has(pair.to)) return [];
    from.add(pair.from);
    to.add(pair.to);
    return [{ from: pair.from, to: pair.to }];
  });
}

/** Git's own rule: no NUL among the first 8,000 bytes. */
export function isText(bytes: Uint8Array | undefined): boolean {
  return bytes !== undefined && !bytes.subarray(0, 8000).includes(0);
}

/** Bytes by chunk, as git cuts them: lines, or 64 bytes of a longer one; the CR of a CRLF counts for nothing. */
function chunksOf(bytes: Uint8Array): Map<string, number> {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    .toString('latin1')
    .replaceAll('\r\n', '\n');
  const counts = new Map<string, number>();
  for (let at = 0; at < text.length; ) {
    const line = text.indexOf('\n', at);
    const end = Math.min(line < 0 ? text.length : line + 1, at + 64);
    const chunk = text.slice(at, end);
    counts.set(chunk, (counts.get(chunk) ?? 0) + chunk.length);
    at = end;
  }
  return counts;
}

/** Percent of the larger text that both hold, rounded down: git's similarity index. 100 for equal bytes only. */
export function similarity(a: Uint8Array, b: Uint8Array): number {
  if (Buffer.compare(a, b) === 0) return 100;
  if (!isText(a) || !isText(b)) return 0;
  const other = chunksOf(b);
  let common = 0;
  for (const [chunk, count] of chunksOf(a)) common += Math.min(count, other.get(chunk) ?? 0);
  return Math.min(99, Math.floor((common * 100) / Math.max(a.length, b.length)));
}

/** Folds both ends of each move into one summary, at the new path. */
export function foldMoves(changes: readonly PathChange[], moves: readonly Move[]): PathChange[] {
  const sources = new Map(moves.map(({ from, to }) => [to, from]));
  const moved = new Set(moves.map(({ from }) => from));
  const byName = new Map(changes.map((change) => [change.path, change]));
  return changes.flatMap((change): PathChange[] => {
    if (moved.has(change.path)) return [];
    const from = sources.get(change.path);
    const source = from === undefined ? undefined : byName.get(from);
    if (from === undefined || source === undefined) return [change];
    const incomplete = change.incomplete === true || source.incomplete === true;
    const { path, after } = change;
    return [{ path, kind: 'moved', from, before: source.before, after, ...(incomplete ? { incomplete } : {}) }];
  });
}
