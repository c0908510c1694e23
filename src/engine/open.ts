/**
 * Opens a workspace's engine: root, data directory, backend, timeline, segments, tree, in that order, and undoes what it
 * opened where a later step fails. Ends what a dead process left, and brings the index up to the timeline.
 */
import type { Backend, Position, Segments, Tree } from '../backend/backend.ts';
import { openBackend } from '../backend/open.ts';
import { SegmentBlobs } from '../blobs/segments.ts';
import { openOpenCalls } from '../timeline/open-calls.ts';
import { openTimeline } from '../timeline/sqlite.ts';
import type { Timeline } from '../timeline/timeline.ts';
import type { RelPath } from '../types.ts';
import { UnavailableError } from './answers.ts';
import { Engine, type EngineOptions, type EngineSettings } from './engine.ts';
import { Events } from './events.ts';
import { identityOf, type Layout, layOut } from './root.ts';

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
  /** Default: false. */
  readonly watch?: boolean | undefined;
  readonly options: EngineOptions;
}

const DEFAULT_MAX_FILE_BYTES = 64 * 1024 * 1024;

export async function openEngine(request: OpenEngine): Promise<Engine> {
  const layout = await layOut(request.root, request.dataDir);
  const identity = identityOf(layout.root);
  if (identity === null) throw new UnavailableError('root-missing', `the root does not exist: ${layout.root}`);
  const undo: (() => Promise<void>)[] = [];
  const opened = async <T extends { close(): Promise<void> }>(part: Promise<T>): Promise<T> => {
    const value = await part;
    undo.unshift(() => value.close());
    return value;
  };
  let settled: Promise<unknown> = Promise.resolve();
  try {
    const { backend, why } = await openBackend(request.backend);
    undo.unshift(() => backend.close());
    // Nothing of it is needed to open the rest: one start of a thread and a few queries less to wait for.
    const openingCalls = opened(
      openOpenCalls(backend, layout.dataDir, { networkFileSystem: layout.networkFileSystem }),
    );
    // Its fault is told below, where it is waited for; here nobody would handle it while another part is opened.
    settled = openingCalls.catch(() => undefined);
    const timeline = await opened(
      openTimeline(backend, { dir: layout.home, root: layout.root, networkFileSystem: layout.networkFileSystem }),
    );
    const openingSegments = opened(backend.openSegments({ dir: layout.segments, seed: timeline.seed }));
    settled = Promise.allSettled([openingCalls, openingSegments]);
    const settings = await settle(timeline, request);
    const segments = await openingSegments;
    const blobs = new SegmentBlobs(segments);
    const tree = await opened(openTree(request, { backend, layout, timeline, segments, settings }));
    const openCalls = await openingCalls;
    const events = new Events(request.maxFileEvents, request.options.logger);
    const parts = {
      layout,
      identity,
      backend,
      why,
      blobs,
      tree,
      timeline,
      openCalls,
      settings,
      options: request.options,
      events,
    };
    const engine = new Engine(parts);
    if (request.watch === true) await engine.watch();
    await start(engine, request.lookAhead ?? false);
    return engine;
  } catch (error) {
    await settled;
    for (const close of undo) await close().catch(() => undefined);
    throw error;
  }
}

interface TreeParts {
  readonly backend: Backend;
  readonly layout: Layout;
  readonly timeline: Timeline;
  readonly segments: Segments;
  readonly settings: EngineSettings;
}

function openTree({ maxEntries }: OpenEngine, parts: TreeParts): Promise<Tree> {
  const { backend, layout, timeline, segments, settings } = parts;
  return backend.openTree({
    root: layout.root,
    indexFile: layout.indexFile,
    storeId: timeline.storeId,
    segments,
    skip: skipped(layout),
    maxFileBytes: settings.maxFileBytes,
    maxEntries,
    scratchDir: layout.scratch,
  });
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

function skipped(layout: Layout): RelPath[] {
  const skip = ['.takeback' as RelPath];
  if (layout.inside !== null) skip.push(layout.inside);
  return skip;
}

/** Recovers what dead processes left, and takes the index's place in the timeline. */
async function start(engine: Engine, lookAhead: boolean): Promise<void> {
  const { timeline } = engine;
  // A recovery changes files of the root; the index is a file of the store.
  const [at, head] = await Promise.all([
    loadIndex(engine, lookAhead),
    recoverLeftovers(engine).then(() => timeline.head()),
  ]);
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

async function loadIndex(engine: Engine, lookAhead: boolean): Promise<Position | null> {
  const { tree } = engine;
  const at = await tree.load();
  if (lookAhead && at !== null) {
    engine.ahead = { rules: tree.rules(), scan: tree.scan() };
    // Whoever needs them hears of their faults.
    for (const part of [engine.ahead.rules, engine.ahead.scan]) part.catch(() => undefined);
  }
  return at;
}
