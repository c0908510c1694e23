/**
 * Entry of the portable backend's worker thread: holds the segment stores and trees of one backend, by number, and does
 * what `portable.ts` asks, one request at a time. Owns no logic of its own.
 */
import { parentPort } from 'node:worker_threads';
import { TakebackError } from '../../errors.ts';
import type { Change, Hash, RelPath } from '../../types.ts';
import type { ApplyOutcome, ApplyRequest, Position, RecoverRequest, TreeOptions } from '../backend.ts';
import { Hands } from './apply.ts';
import type { WorkHooks } from './faults.ts';
import { Hasher } from './hash.ts';
import { isSecretName } from './peek.ts';
import { type Handler, Moved, ownBytes, serve } from './rpc.ts';
import { SegmentStore } from './segments.ts';
import { type IngestRequest, type ScanRequest, TreeHost, type TreeSettings } from './tree.ts';

/** `TreeOptions` as they cross. */
export interface TreeOpenRequest extends TreeSettings {
  readonly segments: number;
  readonly resolver: TreeOptions['resolver'];
}

interface OpenTree {
  readonly host: TreeHost;
  readonly hands: Hands;
}

const stores = new Map<number, SegmentStore>();
const trees = new Map<number, OpenTree>();

function storeOf(id: unknown): SegmentStore {
  const store = stores.get(id as number);
  if (store === undefined) throw new TakebackError('ERR_CLOSED', 'the segments were closed');
  return store;
}

function treeOf(id: unknown): OpenTree {
  const tree = trees.get(id as number);
  if (tree === undefined) throw new TakebackError('ERR_CLOSED', 'the tree was closed');
  return tree;
}

async function openStore(dir: string, seed: bigint): Promise<number> {
  const id = stores.size === 0 ? 1 : Math.max(...stores.keys()) + 1;
  stores.set(id, await SegmentStore.open(dir, seed));
  return id;
}

async function openTree({ segments, resolver, ...settings }: TreeOpenRequest): Promise<number> {
  const store = storeOf(segments);
  const host = new TreeHost(settings, store, await Hasher.create(0n));
  const { root, maxFileBytes, scratchDir } = settings;
  const isSecret = (path: RelPath): boolean => isSecretName(path) && !host.isIncluded(path);
  const hands = new Hands({ root, segments: store, maxFileBytes, scratchDir, resolver, isSecret });
  const id = trees.size === 0 ? 1 : Math.max(...trees.keys()) + 1;
  trees.set(id, { host, hands });
  return id;
}

/** What a restore wrote stays covered until the next boundary. */
function apply({ host, hands }: OpenTree, request: ApplyRequest, hooks: WorkHooks): ApplyOutcome[] {
  const outcomes = hands.apply(request, hooks);
  const there = new Set(request.entries.filter(({ target }) => target.kind !== 'absent').map(({ path }) => path));
  host.keepCovered(outcomes.filter(({ status, path }) => status === 'done' && there.has(path)).map(({ path }) => path));
  return outcomes;
}

function recover({ host, hands }: OpenTree, request: RecoverRequest, hooks: WorkHooks): unknown {
  const outcome = hands.recover(request, hooks);
  host.keepCovered(outcome.paths.filter(({ state }) => state !== 'neither').map(({ path }) => path));
  return outcome;
}

const segmentHandlers: Record<string, Handler> = {
  'segments.open': ([dir, seed]) => openStore(dir as string, seed as bigint),
  'segments.put': ([id, bytes]) => storeOf(id).put(Buffer.from((bytes as Uint8Array).buffer as ArrayBuffer)).hash,
  'segments.read': ([id, hash]) => {
    const bytes = ownBytes(storeOf(id).read(hash as Hash));
    return new Moved(bytes, [bytes.buffer]);
  },
  'segments.has': ([id, hashes]) => {
    const store = storeOf(id);
    store.refresh();
    return (hashes as Hash[]).map((hash) => store.has(hash));
  },
  'segments.sync': ([id]) => storeOf(id).sync(),
  'segments.stats': ([id]) => storeOf(id).stats(),
  'segments.verify': ([id], hooks) => storeOf(id).verify(hooks),
  'segments.collect': ([id, live], hooks) => storeOf(id).collect(live as Hash[], hooks),
  'segments.close': ([id]) => {
    stores.get(id as number)?.close();
    stores.delete(id as number);
  },
};

const treeHandlers: Record<string, Handler> = {
  'tree.open': ([request]) => openTree(request as TreeOpenRequest),
  'tree.load': ([id]) => treeOf(id).host.load(),
  'tree.reset': ([id, manifest, at]) => treeOf(id).host.reset(manifest as Hash | null, at as Position | null),
  'tree.catchUp': ([id, rows, at]) => treeOf(id).host.catchUp(rows as Pick<Change, 'path' | 'after'>[], at as Position),
  'tree.rules': ([id]) => treeOf(id).host.rules(),
  'tree.setRules': ([id, bytes]) => treeOf(id).host.setRules(bytes as Uint8Array),
  'tree.scan': ([id, request], hooks) => treeOf(id).host.scan(request as ScanRequest, hooks),
  'tree.ingest': ([id, set, request], hooks) => treeOf(id).host.ingest(set as number, request as IngestRequest, hooks),
  'tree.look': ([id, set, paths], hooks) => treeOf(id).host.look(set as number, paths as RelPath[], hooks),
  'tree.changes': ([id, set]) => treeOf(id).host.changes(set as number),
  'tree.moves': ([id, set]) => treeOf(id).host.moves(set as number),
  'tree.uncovered': ([id, set]) => treeOf(id).host.uncovered(set as number),
  'tree.manifest': ([id, set]) => treeOf(id).host.manifest(set as number),
  'tree.commit': ([id, set, at]) => treeOf(id).host.commit(set as number, at as Position),
  'tree.discard': ([id, set]) => treeOf(id).host.discard(set as number),
  'tree.versions': ([id, paths]) => treeOf(id).host.versions(paths as RelPath[]),
  'tree.list': ([id, folder]) => treeOf(id).host.list(folder as RelPath),
  'tree.peek': ([id, paths], hooks) => treeOf(id).hands.peek(paths as RelPath[], hooks),
  'tree.apply': ([id, request], hooks) => apply(treeOf(id), request as ApplyRequest, hooks),
  'tree.recover': ([id, request], hooks) => recover(treeOf(id), request as RecoverRequest, hooks),
  'tree.finish': ([id, journal]) => treeOf(id).hands.finish(journal as string),
  'tree.abilities': ([id]) => treeOf(id).hands.abilities(),
  'tree.emptyTrash': ([id, dir]) => treeOf(id).hands.emptyTrash(dir as string),
  'tree.close': ([id]) => {
    trees.get(id as number)?.host.close();
    trees.delete(id as number);
  },
};

if (parentPort !== null) serve(parentPort, { ...segmentHandlers, ...treeHandlers });
