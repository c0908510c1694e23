/**
 * Blobs over the addon: hex hashes here, raw ones there. The work is `native/src/segment/`.
 */
import { TakebackError } from '../errors.ts';
import { encodeName } from '../rel-path.ts';
import type { Hash, WorkOptions } from '../types.ts';
import { Reader } from '../wire.ts';
import { type Addon, type AddonSegments, settle, settleClose, settleWork } from './addon.ts';
import type { Segments, SegmentsOptions } from './backend.ts';

const HASH = /^[0-9a-f]{32}$/;

/**
 * A hash as the addon takes it.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT`
 */
export function hashBytes(hash: Hash): Buffer {
  if (!HASH.test(hash)) throw new TakebackError('ERR_INVALID_ARGUMENT', `not a hash: ${JSON.stringify(hash)}`);
  return Buffer.from(hash, 'hex');
}

function hashesBytes(hashes: readonly Hash[]): Buffer {
  return Buffer.concat(hashes.map(hashBytes));
}

export class NativeSegments implements Segments {
  readonly #addon: Addon;
  /** The addon's handle, for the trees that store in it. */
  readonly handle: AddonSegments;

  constructor(addon: Addon, handle: AddonSegments) {
    this.#addon = addon;
    this.handle = handle;
  }

  static async open(addon: Addon, { dir, seed }: SegmentsOptions): Promise<NativeSegments> {
    return new NativeSegments(addon, await settle(addon.openSegments(encodeName(dir), seed)));
  }

  async put(bytes: Uint8Array): Promise<Hash> {
    return (await settle(this.handle.put(bytes))).toString('hex');
  }

  async read(hash: Hash): Promise<Uint8Array> {
    return settle(this.handle.read(hashBytes(hash)));
  }

  async has(hashes: readonly Hash[]): Promise<boolean[]> {
    const answers = await settle(this.handle.has(hashesBytes(hashes)));
    return Array.from(answers, (byte) => byte === 1);
  }

  async sync(): Promise<void> {
    await settle(this.handle.sync());
  }

  async stats(): Promise<{ segments: number; blobs: number; bytes: number }> {
    return settle(this.handle.stats());
  }

  async verify(
    options?: WorkOptions,
  ): Promise<{ checked: number; problems: { hash?: Hash; segment: string; detail: string }[] }> {
    const reader = new Reader(
      await settleWork(this.#addon, options, (token, progress) => this.handle.verify(token, progress)),
    );
    const checked = Number(reader.u64());
    const problems = Array.from({ length: reader.u32() }, () => ({
      ...(reader.u8() === 1 ? { hash: reader.hash() } : {}),
      segment: reader.bytes().toString(),
      detail: reader.bytes().toString(),
    }));
    return { checked, problems };
  }

  async collect(live: readonly Hash[], options?: WorkOptions): Promise<{ freedBytes: number; keptBytes: number }> {
    const hashes = hashesBytes(live);
    return settleWork(this.#addon, options, (token, progress) => this.handle.collect(hashes, token, progress));
  }

  async close(): Promise<void> {
    await settleClose(this.handle);
  }
}
