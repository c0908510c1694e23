/**
 * The local blob store: the backend's segments, with a small cache of what was read last (a list of turns reads the same
 * two versions of a file for its counts, its patch and its preview).
 */
import type { Segments } from '../backend/backend.ts';
import type { Hash, WorkOptions } from '../types.ts';
import type { BlobProblem, BlobStats, BlobStore } from './blobs.ts';

/** Guessed: a few turns' worth of source files. */
const CACHE_BYTES = 16 * 1024 * 1024;
const CACHED_BLOB_BYTES = 1024 * 1024;

export class SegmentBlobs implements BlobStore {
  readonly #segments: Segments;
  /** In order of use, oldest first. */
  readonly #cache = new Map<Hash, Uint8Array>();
  #cached = 0;

  constructor(segments: Segments) {
    this.#segments = segments;
  }

  put(bytes: Uint8Array): Promise<Hash> {
    return this.#segments.put(bytes);
  }

  async read(hash: Hash): Promise<Uint8Array> {
    const known = this.#cache.get(hash);
    if (known !== undefined) {
      this.#cache.delete(hash);
      this.#cache.set(hash, known);
      return known;
    }
    const bytes = await this.#segments.read(hash);
    if (bytes.length <= CACHED_BLOB_BYTES) this.#remember(hash, bytes);
    return bytes;
  }

  #remember(hash: Hash, bytes: Uint8Array): void {
    this.#cache.set(hash, bytes);
    this.#cached += bytes.length;
    for (const [oldest, old] of this.#cache) {
      if (this.#cached <= CACHE_BYTES) return;
      this.#cache.delete(oldest);
      this.#cached -= old.length;
    }
  }

  has(hashes: readonly Hash[]): Promise<boolean[]> {
    return this.#segments.has(hashes);
  }

  sync(): Promise<void> {
    return this.#segments.sync();
  }

  stats(): Promise<BlobStats> {
    return this.#segments.stats();
  }

  async verify(options: WorkOptions = {}): Promise<{ checked: number; problems: BlobProblem[] }> {
    const { checked, problems } = await this.#segments.verify(options);
    return { checked, problems: problems.map(({ segment, ...rest }) => ({ ...rest, where: segment })) };
  }

  /** What was dropped must not be read from the cache: it would hide a loss. */
  collect(live: readonly Hash[], options: WorkOptions = {}): Promise<{ freedBytes: number; keptBytes: number }> {
    this.#cache.clear();
    this.#cached = 0;
    return this.#segments.collect(live, options);
  }

  async close(): Promise<void> {
    this.#cache.clear();
    await this.#segments.close();
  }
}
