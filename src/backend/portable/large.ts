/** Reads contents that may be stored in chunks, from any store that finds their records: whole, or a chunk at a time. */
import { TakebackError } from '../../errors.ts';
import type { Hash } from '../../types.ts';
import { type Chunk, OVER } from './chunks.ts';
import type { Hasher } from './hash.ts';
import type { Decoded } from './records.ts';

export type Found = Exclude<Decoded, { damage: string }>;

export interface ChunkedStore {
  readonly hasher: Hasher;
  /** @throws {TakebackError} `ERR_BLOB_MISSING`, `ERR_BLOB_CORRUPT` */
  find(hash: Hash): Found;
  /** Undefined where there is no record of that name. */
  rawLength(hash: Hash): number | undefined;
}

function corrupt(hash: Hash, what: string): TakebackError {
  return new TakebackError('ERR_BLOB_CORRUPT', `blob ${hash} is damaged: ${what}`);
}

/** The bytes, checked against the name behind the last piece. What came before an error is not to be used. */
export function* piecesOf(store: ChunkedStore, hash: Hash): Generator<Buffer> {
  const found = store.find(hash);
  if ('bytes' in found) {
    yield found.bytes;
    return;
  }
  const name = store.hasher.running();
  for (const chunk of found.chunks) {
    const piece = store.find(chunk.hash);
    if (!('bytes' in piece) || piece.bytes.length !== chunk.length) throw corrupt(hash, 'a chunk has another length');
    name.update(piece.bytes);
    yield piece.bytes;
  }
  // What was borrowed has another name than its bytes.
  if (name.digest() !== found.name) throw corrupt(hash, 'its chunks are not its bytes');
}

export function wholeOf(store: ChunkedStore, hash: Hash): Buffer {
  const pieces = [...piecesOf(store, hash)];
  return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
}

/** The chunks of a large content; null where it is stored whole, or not at all. @throws as `find` where it is damaged */
export function chunksOf(store: ChunkedStore, hash: Hash): readonly Chunk[] | null {
  if ((store.rawLength(hash) ?? 0) <= OVER) return null;
  const found = store.find(hash);
  return 'chunks' in found ? found.chunks : null;
}

/** Whether the store has a record of that name, and those of its chunks. */
export function holdsAll(store: ChunkedStore, hash: Hash): boolean {
  if (store.rawLength(hash) === undefined) return false;
  try {
    return chunksOf(store, hash)?.every((chunk) => holdsAll(store, chunk.hash)) ?? true;
  } catch (error) {
    // A list that can't be read is there; reading it tells of the damage.
    if (error instanceof TakebackError && error.code === 'ERR_BLOB_CORRUPT') return true;
    throw error;
  }
}
