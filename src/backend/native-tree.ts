/**
 * The tree over the addon: one `Tree` made of two handles, `NativeTree` (index, scan, ingest) and `NativeHands` (peek,
 * apply, recover, trash), each with a thread of its own. Packing is `native-wire.ts`; all work is in `native/src/`.
 */
import { TakebackError } from '../errors.ts';
import { encodeName } from '../rel-path.ts';
import type { Change, Hash, RelPath, UncoveredPath, Version, WorkOptions } from '../types.ts';
import { decodeChanges, decodePaths, decodeVersions, encodePaths, encodeVersions, Reader } from '../wire.ts';
import {
  type Addon,
  type AddonHands,
  type AddonTree,
  type CancelToken,
  type ReportProgress,
  settle,
  settleClose,
  settleWork,
  type Tagged,
} from './addon.ts';
import type {
  Abilities,
  ApplyOutcome,
  ApplyRequest,
  IngestOptions,
  IngestResult,
  MovedPath,
  Peek,
  Position,
  RecoverOutcome,
  RecoverRequest,
  ScanOptions,
  ScanResult,
  Tree,
  TreeOptions,
} from './backend.ts';
import { hashBytes, NativeSegments } from './native-segments.ts';
import * as wire from './native-wire.ts';

export class NativeTree implements Tree {
  readonly #addon: Addon;
  readonly #tree: AddonTree;
  readonly #openHands: () => Promise<AddonHands>;
  #opened: Promise<AddonHands> | null = null;

  private constructor(addon: Addon, tree: AddonTree, openHands: () => Promise<AddonHands>) {
    this.#addon = addon;
    this.#tree = tree;
    this.#openHands = openHands;
  }

  static async open(addon: Addon, options: TreeOptions): Promise<NativeTree> {
    if (!(options.segments instanceof NativeSegments)) {
      throw new TakebackError('ERR_INVALID_ARGUMENT', 'the segments of a native tree must be native, too');
    }
    const packed = wire.encodeTreeOptions(options);
    const [tree, hands] = await Promise.allSettled([
      settle(addon.openTree(options.segments.handle, packed)),
      settle(addon.openHands(options.segments.handle, packed)),
    ]);
    if (tree.status === 'fulfilled' && hands.status === 'fulfilled') {
      const opened = new NativeTree(addon, tree.value, async () => hands.value);
      await opened.#hands();
      return opened;
    }
    for (const opened of [tree, hands]) if (opened.status === 'fulfilled') await opened.value.close();
    throw [tree, hands].find((opened) => opened.status === 'rejected')?.reason;
  }

  /** Of a tree handle that is there: the hands, which few looks need, are opened by the first who does. */
  static ahead(
    addon: Addon,
    { segments, packed, tree }: { segments: NativeSegments; packed: Buffer; tree: AddonTree },
  ): NativeTree {
    return new NativeTree(addon, tree, () => settle(addon.openHands(segments.handle, packed)));
  }

  #hands(): Promise<AddonHands> {
    this.#opened ??= this.#openHands();
    return this.#opened;
  }

  #work<T>(
    options: WorkOptions | undefined,
    call: (token: CancelToken | null, progress: ReportProgress | null) => Promise<Tagged<T>>,
  ): Promise<T> {
    return settleWork(this.#addon, options, call);
  }

  async load(): Promise<Position | null> {
    const at = await settle(this.#tree.load());
    return at === null ? null : wire.decodePosition(at);
  }

  async reset(manifest: Hash | null, at: Position | null): Promise<void> {
    const hash = manifest === null ? null : hashBytes(manifest);
    await settle(this.#tree.reset(hash, at === null ? null : wire.encodePosition(at)));
  }

  async catchUp(rows: readonly Pick<Change, 'path' | 'after'>[], at: Position): Promise<void> {
    const versions = encodeVersions(rows.map(({ path, after }) => ({ path, version: after })));
    await settle(this.#tree.catchUp(versions, wire.encodePosition(at)));
  }

  async rules(): Promise<Uint8Array | null> {
    return settle(this.#tree.rules());
  }

  async setRules(snapshot: Uint8Array): Promise<void> {
    await settle(this.#tree.setRules(snapshot));
  }

  async watch(): Promise<string | null> {
    const why = await settle(this.#tree.watch());
    return why === '' ? null : why;
  }

  async scan(options: ScanOptions = {}): Promise<ScanResult> {
    const packed = wire.encodeScanOptions(options);
    return wire.decodeScan(await this.#work(options, (token, progress) => this.#tree.scan(packed, token, progress)));
  }

  async ingest(set: number, options: IngestOptions = {}): Promise<IngestResult> {
    const packed = wire.encodeIngestOptions(options);
    return wire.decodeIngest(
      await this.#work(options, (token, progress) => this.#tree.ingest(set, packed, token, progress)),
    );
  }

  async look(set: number, paths: readonly RelPath[]): Promise<void> {
    await settle(this.#tree.look(set, encodePaths(paths)));
  }

  async changes(set: number): Promise<Change[]> {
    return decodeChanges(await settle(this.#tree.changes(set)));
  }

  async moves(set: number): Promise<MovedPath[]> {
    return wire.decodeMoves(await settle(this.#tree.moves(set)));
  }

  async uncovered(set: number): Promise<UncoveredPath[]> {
    return wire.decodeUncovered(await settle(this.#tree.uncovered(set)));
  }

  async manifest(set: number): Promise<{ hash: Hash; entries: number }> {
    const reader = new Reader(await settle(this.#tree.manifest(set)));
    return { hash: reader.hash(), entries: Number(reader.u64()) };
  }

  async commit(set: number, at: Position): Promise<void> {
    await settle(this.#tree.commit(set, wire.encodePosition(at)));
  }

  async discard(set: number): Promise<void> {
    await settle(this.#tree.discard(set));
  }

  async versions(paths: readonly RelPath[]): Promise<Version[]> {
    const answers = decodeVersions(await settle(this.#tree.versions(encodePaths(paths))));
    return answers.map(({ version }) => version);
  }

  async list(folder: RelPath): Promise<RelPath[]> {
    return decodePaths(await settle(this.#tree.list(encodeName(folder))));
  }

  async peek(paths: readonly RelPath[], options?: WorkOptions): Promise<Peek[]> {
    const packed = encodePaths(paths);
    // An include pattern lifts the ban on reading secrets; only the tree's rules can tell.
    const included = paths.some(wire.looksSecret) ? await settle(this.#tree.included(packed)) : Buffer.alloc(0);
    const hands = await this.#hands();
    return wire.decodePeeks(
      await this.#work(options, (token, progress) => hands.peek(packed, included, token, progress)),
    );
  }

  async apply(request: ApplyRequest, options?: WorkOptions): Promise<ApplyOutcome[]> {
    const packed = wire.encodeApply(request);
    const hands = await this.#hands();
    return wire.decodeOutcomes(await this.#work(options, (token, progress) => hands.apply(packed, token, progress)));
  }

  async recover(request: RecoverRequest): Promise<RecoverOutcome> {
    return wire.decodeRecover(await settle((await this.#hands()).recover(wire.encodeRecover(request))));
  }

  async finish(journal: string): Promise<void> {
    await settle((await this.#hands()).finish(encodeName(journal)));
  }

  async abilities(): Promise<Abilities> {
    return wire.decodeAbilities(await settle((await this.#hands()).abilities()));
  }

  async emptyTrash(trashDir: string): Promise<Awaited<ReturnType<Tree['emptyTrash']>>> {
    return wire.decodeTrash(await settle((await this.#hands()).emptyTrash(encodeName(trashDir))));
  }

  async close(): Promise<void> {
    const hands = this.#opened?.then(settleClose, () => undefined);
    await Promise.all([settleClose(this.#tree), hands]);
  }
}
