/**
 * The two hashes of the store: XXH3-128, seeded per store, names blobs; XXH3-64 with seed 0 checks records and frames.
 *
 * hash-wasm answers digests in the canonical (big-endian) order, which is also the order of docs/formats.md for names;
 * a check64 is an integer and stands little-endian like every other one. Loading the module is asynchronous, hence
 * `create`; all after it is synchronous. One `Hasher` serves one thread.
 */
import { createXXHash3, createXXHash128, type IHasher } from 'hash-wasm';
import type { Hash } from '../../types.ts';

/** The name of bytes that come in pieces, while other names are made in between. */
export interface RunningHash {
  update(bytes: Uint8Array): void;
  digest(): Hash;
}

/** Hashes whole byte strings; several parts count as one. */
export class Hasher {
  readonly #name: IHasher;
  readonly #check: IHasher;

  protected constructor(name: IHasher, check: IHasher) {
    this.#name = name;
    this.#check = check;
  }

  /** @param seed the store's seed, an unsigned 64-bit number */
  static async create(seed: bigint): Promise<Hasher> {
    const low = Number(seed & 0xffff_ffffn);
    const high = Number(seed >> 32n);
    return new Hasher(await createXXHash128(low, high), await createXXHash3(0, 0));
  }

  /** The name of a blob with these bytes. */
  hash(...parts: readonly Uint8Array[]): Hash {
    return this.hashAll(parts);
  }

  /** The name of a blob whose bytes come in chunks. A chunk's memory may be used again for the next. */
  hashAll(chunks: Iterable<Uint8Array>): Hash {
    this.#name.init();
    for (const chunk of chunks) this.#name.update(chunk);
    return this.#name.digest('hex');
  }

  running(): RunningHash {
    const hasher = this.#name;
    let state = hasher.init().save();
    return {
      update: (bytes) => {
        state = hasher.load(state).update(bytes).save();
      },
      digest: () => hasher.load(state).digest('hex'),
    };
  }

  /** check64 of the bytes, as it stands in a file. */
  check64(...parts: readonly Uint8Array[]): Buffer {
    this.#check.init();
    for (const part of parts) this.#check.update(part);
    return Buffer.from(this.#check.digest('binary')).reverse();
  }
}
