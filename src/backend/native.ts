/**
 * The native backend: the contract of `backend.ts` over the Rust addon. Packs, calls, unpacks; the work is in
 * `native/src/`, on threads of its own. docs/addon.md is what both sides hold to.
 */
import type { Addon } from './addon.ts';
import type { Backend, DatabaseOptions, Segments, SegmentsOptions, SqlDriver, Tree, TreeOptions } from './backend.ts';
import { NativeSegments } from './native-segments.ts';
import { NativeDatabase } from './native-sql.ts';
import { NativeTree } from './native-tree.ts';

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

  openDatabase(options: DatabaseOptions): Promise<SqlDriver> {
    return NativeDatabase.open(this.#addon, options);
  }

  /** Nothing to end: each handle's thread ends with the handle. */
  async close(): Promise<void> {}
}
