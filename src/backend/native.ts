/**
 * The native backend: the contract of `backend.ts` over the Rust addon. Packs, calls, unpacks; the work is in
 * `native/src/`, on threads of its own. docs/addon.md is what both sides hold to.
 */

import { encodeName } from '../rel-path.ts';
import { type Addon, settle } from './addon.ts';
import type {
  AheadOptions,
  Backend,
  DatabaseOptions,
  OpenedAhead,
  Segments,
  SegmentsOptions,
  SqlDriver,
  Tree,
  TreeOptions,
} from './backend.ts';
import { NativeSegments } from './native-segments.ts';
import { NativeDatabase } from './native-sql.ts';
import { NativeTree } from './native-tree.ts';
import { decodePosition, decodeScan, encodeTreeOptions } from './native-wire.ts';

export class NativeBackend implements Backend {
  readonly kind = 'native';
  readonly #addon: Addon;

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  openSegments(options: SegmentsOptions): Promise<Segments> {
    return NativeSegments.open(this.#addon, options);
  }

  openTree(options: TreeOptions): Promise<Tree> {
    return NativeTree.open(this.#addon, options);
  }

  openAhead({ segments: { dir, seed }, ...options }: AheadOptions): OpenedAhead | null {
    const packed = encodeTreeOptions(options);
    const opened = this.#addon.openAhead?.(encodeName(dir), seed, packed);
    if (opened === undefined) return null;
    const segments = new NativeSegments(this.#addon, opened.segments);
    const loaded = settle(opened.loaded).then(({ at, rules }) => ({
      at: at == null ? null : decodePosition(at),
      rules: rules ?? null,
    }));
    const tree = NativeTree.ahead(this.#addon, { segments, packed, tree: opened.tree });
    return { segments, tree, loaded, scan: settle(opened.scan).then(decodeScan) };
  }

  openDatabase(options: DatabaseOptions): Promise<SqlDriver> {
    return NativeDatabase.open(this.#addon, options);
  }

  /** Nothing to end: each handle's thread ends with the handle. */
  async close(): Promise<void> {}
}
