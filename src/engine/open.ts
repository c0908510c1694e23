/**
 * Opens a workspace's engine: root, data directory, backend, timeline, segments, tree, in that order, and undoes what it
 * opened where a later step fails. Ends what a dead process left, and brings the index up to the timeline.
 */
import type { Backend, Segments, Tree } from '../backend/backend.ts';
import { openBackend } from '../backend/open.ts';
import { SegmentBlobs } from '../blobs/segments.ts';
import { openOpenCalls } from '../timeline/open-calls.ts';
import { openTimeline } from '../timeline/sqlite.ts';
import type { Timeline } from '../timeline/timeline.ts';
import {
  type BegunAhead,
  beginAhead,
  DEFAULT_MAX_FILE_BYTES,
  type LoadedIndex,
  loadIndex,
  treeOptions,
} from './ahead.ts';
import { UnavailableError } from './answers.ts';
import { Engine, type EngineOptions, type EngineSettings } from './engine.ts';
import { Events } from './events.ts';
import { identityOf, type Layout, layOut, makeStore } from './root.ts';

export interface OpenEngine {
  readonly root: string;
  readonly dataDir: string;
  readonly backend: 'auto' | 'native' | 'portable';
  /** Undefined: what the workspace has stored, else the default. */
  readonly include: readonly string[] | undefined;
  readonly exclude: readonly string[] | undefined;
  readonly maxFileBytes: number | undefined;
  readonly maxEntries: number;
  readonly maxFileEvents: number;
  /** The first thing that will be asked is a look at the tree as it stands: it begins while the rest is opened. */
  readonly lookAhead?: boolean;
  /** What the caller has begun already, of this root and data directory; closed with the engine, or here on a fault. */
  readonly begun?: BegunAhead | undefined;
  /** Default: false. */
  readonly watch?: boolean | undefined;
  readonly options: EngineOptions;
}

export async function openEngine(request: OpenEngine): Promise<Engine> {
  const undo = closersOf(request.begun ?? null);
  const opened: Opened = async (part) => {
    const value = await part;
    undo.unshift(() => value.close());
    return value;
  };
  let settled: Promise<unknown> = Promise.resolve();
  try {
    const layout = await layoutFor(request);
    const { networkFileSystem } = layout;
    const identity = identityOf(layout.root);
    if (identity === null) throw new UnavailableError('root-missing', `the root does not exist: ${layout.root}`);
    const { backend, why } = await openBackend(request.backend);
    undo.unshift(() => backend.close());
    const ahead = request.begun ?? (request.lookAhead === true ? await beginAhead(backend, layout, request) : null);
    undo.unshift(...closersOf(ahead));
    // Nothing of it is needed to open the rest: one start of a thread and a few queries less to wait for.
    const openingCalls = opened(openOpenCalls(backend, layout.dataDir, { networkFileSystem }));
    // Its fault is told below, where it is waited for; here nobody would handle it while another part is opened.
    settled = openingCalls.catch(() => undefined);
    const timeline = await opened(openTimeline(backend, { dir: layout.home, root: layout.root, networkFileSystem }));
    const settings = await settle(timeline, request);
    const stores = { backend, opened, timeline, settings, ahead, layout };
    const { segments, tree, loading } = await openStores(request, stores);
    const openCalls = await openingCalls;
    const engine = new Engine({
      layout,
      identity,
      backend,
      why,
      blobs: new SegmentBlobs(segments),
      tree,
      timeline,
      openCalls,
      settings,
      options: request.options,
      events: new Events(request.maxFileEvents, request.options.logger),
    });
    if (request.watch === true) await engine.watch();
    await start(engine, loading ?? loadIndex(tree, request.lookAhead ?? false));
    return engine;
  } catch (error) {
    await settled;
    for (const close of undo) await close().catch(() => undefined);
    throw error;
  }
}

/** What was begun on only named what lies in the store. */
async function layoutFor({ root, dataDir, begun }: OpenEngine): Promise<Layout> {
  if (begun === undefined) return layOut(root, dataDir);
  await makeStore(begun.layout);
  return begun.layout;
}

function closersOf(ahead: BegunAhead | null): (() => Promise<void>)[] {
  return ahead === null ? [] : [ahead.tree, ahead.segments].map((part) => () => part.close());
}

/** Opens a part, and closes it where a later one fails. */
type Opened = <T extends { close(): Promise<void> }>(part: Promise<T>) => Promise<T>;

interface Stores {
  readonly segments: Segments;
  readonly tree: Tree;
  /** Null: the index is not being read yet. */
  readonly loading: Promise<LoadedIndex> | null;
}

/** Segments and tree as the timeline wants them: those that were begun ahead, or others. */
async function openStores(
  request: OpenEngine,
  parts: {
    readonly backend: Backend;
    readonly layout: Layout;
    readonly timeline: Timeline;
    readonly settings: EngineSettings;
    readonly opened: Opened;
    readonly ahead: BegunAhead | null;
  },
): Promise<Stores> {
  const { backend, layout, timeline, settings, opened, ahead } = parts;
  const { storeId, seed } = timeline;
  if (ahead?.storeId === storeId && ahead.seed === seed && settings.maxFileBytes === DEFAULT_MAX_FILE_BYTES)
    return ahead;
  for (const part of ahead === null ? [] : [ahead.tree, ahead.segments]) await part.close();
  const segments = await opened(backend.openSegments({ dir: layout.segments, seed }));
  const { maxFileBytes } = settings;
  const options = treeOptions(layout, { storeId, maxFileBytes, maxEntries: request.maxEntries });
  const tree = await opened(backend.openTree({ ...options, segments }));
  return { segments, tree, loading: null };
}

/** Options that are stored with the workspace: given ones replace what is stored; the next capture acts on them. */
async function settle(timeline: Timeline, request: OpenEngine): Promise<EngineSettings> {
  const stored = await timeline.settings();
  const before = stored === null ? {} : (JSON.parse(stored) as Partial<EngineSettings>);
  const settings: EngineSettings = {
    include: request.include ?? before.include ?? [],
    exclude: request.exclude ?? before.exclude ?? [],
    maxFileBytes: request.maxFileBytes ?? before.maxFileBytes ?? DEFAULT_MAX_FILE_BYTES,
  };
  const json = JSON.stringify(settings);
  if (json !== stored) await timeline.setSettings(json);
  return settings;
}

/** Recovers what dead processes left, and takes the index's place in the timeline. */
async function start(engine: Engine, loading: Promise<LoadedIndex>): Promise<void> {
  const { timeline } = engine;
  // A recovery changes files of the root; the index is a file of the store.
  const [{ at, ahead }, head] = await Promise.all([loading, recoverLeftovers(engine).then(() => timeline.head())]);
  engine.ahead = ahead;
  if (engine.recovered.length > 0) await engine.dropAhead();
  const [newest, known] = await Promise.all([
    head.seq === 0 ? null : timeline.observation(head.seq),
    at === null ? null : timeline.observation(at.seq),
  ]);
  if (newest !== null) engine.lastLookAt = newest.createdAt;
  if (at !== null && known?.id === at.observationId) {
    engine.position = at;
    await engine.catchUp();
  } else if (head.seq > 0) await engine.rebuild(head);
  else {
    await engine.dropAhead();
    await engine.tree.reset(null, null);
  }
  engine.indexed = true;
  if (engine.unrecorded) await engine.locked(async () => undefined);
}

/** Without any, the lock is left alone: it would be taken and given back for nothing. */
async function recoverLeftovers(engine: Engine): Promise<void> {
  if (engine.hasLeftovers()) await engine.locked(async () => undefined);
}
