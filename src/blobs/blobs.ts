/**
 * The blob store, as an interface: bytes named by their seeded XXH3-128. Content of files, and manifests. `segments.ts`
 * keeps them in local segment files; an S3-compatible store can follow. Imports types only.
 */
import type { Hash, WorkOptions } from '../types.ts';

export interface BlobProblem {
  readonly hash?: Hash;
  /** Where it lies: a segment file's name. */
  readonly where: string;
  readonly detail: string;
}

export interface BlobStats {
  readonly segments: number;
  readonly blobs: number;
  readonly bytes: number;
}

export interface BlobStore {
  /** Stores bytes, or finds them stored, and answers their name. */
  put(bytes: Uint8Array): Promise<Hash>;
  /** @throws {TakebackError} `ERR_BLOB_MISSING`, `ERR_BLOB_CORRUPT`: the bytes are checked against the name */
  read(hash: Hash): Promise<Uint8Array>;
  has(hashes: readonly Hash[]): Promise<boolean[]>;
  /** Makes all that was stored so far durable. */
  sync(): Promise<void>;
  stats(): Promise<BlobStats>;
  /** Reads and checks every blob. */
  verify(options?: WorkOptions): Promise<{ readonly checked: number; readonly problems: readonly BlobProblem[] }>;
  /** Drops what isn't live. Under the workspace's lock. */
  collect(
    live: readonly Hash[],
    options?: WorkOptions,
  ): Promise<{ readonly freedBytes: number; readonly keptBytes: number }>;
  close(): Promise<void>;
}
