/**
 * The store's upkeep: retention and gc, drop, verify, stats, capabilities. What is live is said by boundaries; bytes go
 * only under the lock, and only where no row, manifest or current version names them.
 */
import { stat } from 'node:fs/promises';
import type { Capabilities, GcResult, SessionInfo, StatsResult, VerifyResult } from '../api.ts';
import { comparePaths } from '../rel-path.ts';
import type { SessionRecord } from '../timeline/timeline.ts';
import type { Hash, RelPath, Version, WorkOptions } from '../types.ts';
import { decodeVersions, encodeVersions, sameVersion } from '../wire.ts';
import type { Engine } from './engine.ts';
import { foldNobodys } from './fold.ts';
import { bytesInFolders, folderBytes } from './folder-bytes.ts';
import { observe } from './observe.ts';
import { byAgeAndCount, overBytes } from './retention.ts';

/** Applies retention, cuts the old end, empties the trash and drops dead blobs. */
export async function collectGarbage(engine: Engine, work: WorkOptions): Promise<GcResult> {
  return engine.locked(async () => {
    await engine.catchUp();
    const old = await byAgeAndCount(engine);
    if (old.length > 0) await engine.timeline.expire(old);
    let swept = await sweep(engine, work);
    let freedBytes = swept.freedBytes;
    let droppedBoundaries = old.length;
    for (;;) {
      const oldest = await overBytes(engine);
      if (oldest.length === 0) break;
      await engine.timeline.expire(oldest);
      droppedBoundaries += oldest.length;
      swept = await sweep(engine, work);
      freedBytes += swept.freedBytes;
    }
    return { freedBytes, keptBytes: swept.keptBytes, droppedBoundaries, lateWrites: swept.lateWrites };
  }, work.signal);
}

type Swept = Pick<GcResult, 'freedBytes' | 'keptBytes' | 'lateWrites'>;

/** Under the lock. */
async function sweep(engine: Engine, work: WorkOptions): Promise<Swept> {
  const { timeline, tree, blobs, layout } = engine;
  const trash = await tree.emptyTrash(layout.trash);
  // Nothing is on its way into the timeline: what was put and not synced since is as dead as its rows say.
  await blobs.sync();
  const oldest = (await timeline.liveBoundaries())[0];
  const open = await timeline.openCalls();
  if (oldest === undefined && open.length === 0) {
    await timeline.clear();
    await tree.reset(null, null);
    engine.position = null;
    engine.rulesId = null;
    await timeline.bumpGcGeneration();
    const { freedBytes, keptBytes } = await blobs.collect(
      trash.lateWrites.map((late) => late.hash),
      work,
    );
    return { freedBytes: freedBytes + trash.freedBytes, keptBytes, lateWrites: trash.lateWrites };
  }
  const cutAt = Math.min(oldest?.seq ?? Number.POSITIVE_INFINITY, ...open.map((call) => call.beginSeq));
  await cutBefore(engine, cutAt);
  const live = new Set<Hash>(await timeline.liveHashes());
  for (const { version } of await manifestEntries(engine)) addHash(live, version);
  for (const late of trash.lateWrites) live.add(late.hash);
  for (const version of await tree.versions(await tree.list('' as RelPath))) addHash(live, version);
  await timeline.bumpGcGeneration();
  const { freedBytes, keptBytes } = await blobs.collect([...live], work);
  return { freedBytes: freedBytes + trash.freedBytes, keptBytes, lateWrites: trash.lateWrites };
}

function addHash(live: Set<Hash>, version: Version): void {
  if (version.kind === 'file') live.add(version.content);
}

/** Rows before the oldest position that anybody may go back to become a new manifest. */
async function cutBefore(engine: Engine, seq: number): Promise<void> {
  const manifest = await engine.timeline.newestManifest();
  if (manifest === null || manifest.seq >= seq) return;
  const entries = new Map<RelPath, Version>();
  for (const { path, version } of await manifestEntries(engine)) entries.set(path, version);
  for (const row of await engine.timeline.rows(manifest.seq, seq)) entries.set(row.path, row.after);
  const sorted = [...entries]
    .filter(([, version]) => version.kind !== 'absent')
    .map(([path, version]) => ({ path, version }))
    .sort((a, b) => comparePaths(a.path, b.path));
  const hash = await engine.blobs.put(encodeVersions(sorted));
  await engine.blobs.sync();
  await engine.timeline.cut(seq, { hash, entries: sorted.length });
}

async function manifestEntries(engine: Engine): Promise<{ path: RelPath; version: Version }[]> {
  const manifest = await engine.timeline.newestManifest();
  return manifest === null ? [] : decodeVersions(await engine.blobs.read(manifest.hash));
}

/** Forgets a session, and every byte that nobody else refers to. */
export async function dropSession(engine: Engine, session: SessionRecord | null): Promise<{ freedBytes: number }> {
  if (session === null) return { freedBytes: 0 };
  return engine.locked(async () => {
    await engine.catchUp();
    for (const call of await engine.timeline.openCalls(session.id)) {
      await engine.openCalls.end(call.invocation, engine.layout.root);
      // Its end was to be recorded by the next look; there will be nothing to end.
      engine.pendingEnds.delete(call.invocation);
    }
    await engine.timeline.dropSession(session.id);
    await foldNobodys(engine);
    const { freedBytes } = await sweep(engine, {});
    return { freedBytes };
  });
}

export async function verifyStore(engine: Engine, options: WorkOptions & { rehash?: boolean }): Promise<VerifyResult> {
  const work = { signal: options.signal, onProgress: options.onProgress };
  const unseen = options.rehash === true ? await unseenEdits(engine, work) : [];
  await engine.catchUp();
  const timeline = await engine.timeline.verify();
  const blobs = await engine.blobs.verify(work);
  const problems = [...timeline.problems, ...unseen];
  for (const { hash, where, detail } of blobs.problems) {
    problems.push({ kind: 'blob', detail: `${hash === undefined ? '' : `xxh3:${hash} in `}${where}: ${detail}` });
  }
  const references = await missingBlobs(engine);
  return {
    ok: problems.length + references.length === 0,
    checked: timeline.checked + blobs.checked,
    problems: [...problems, ...references],
  };
}

/** Edits that no stat key showed. They are recorded like any other. */
async function unseenEdits(
  engine: Engine,
  work: WorkOptions,
): Promise<{ kind: string; path: RelPath; detail: string }[]> {
  await observe(engine, { kind: 'look', durable: false, ...work });
  const { changes } = await observe(engine, { kind: 'look', rehash: true, durable: true, ...work });
  return changes.map(({ path }) => ({
    kind: 'unseen-edit',
    path,
    detail: 'its bytes changed though its stat key did not; now recorded',
  }));
}

async function missingBlobs(engine: Engine): Promise<{ kind: string; path?: RelPath; detail: string }[]> {
  const manifest = await engine.timeline.newestManifest();
  if (manifest === null) return [];
  let entries: { path: RelPath; version: Version }[];
  try {
    entries = await manifestEntries(engine);
  } catch (error) {
    return [{ kind: 'manifest', detail: `the manifest at ${manifest.seq} can't be read: ${(error as Error).message}` }];
  }
  const rows = await engine.timeline.rows(manifest.seq);
  const versions = [
    ...entries.map((e) => [e.path, e.version] as const),
    ...rows.flatMap((r) => [[r.path, r.before] as const, [r.path, r.after] as const]),
  ];
  const named = new Map<Hash, RelPath>();
  for (const [path, version] of versions)
    if (version.kind === 'file' && !named.has(version.content)) named.set(version.content, path);
  const hashes = [...named.keys()];
  const stored = await engine.blobs.has(hashes);
  const missing = hashes
    .filter((_, i) => stored[i] === false)
    .map((hash) => ({
      kind: 'blob-missing',
      path: named.get(hash) as RelPath,
      detail: `xxh3:${hash} is not in the store`,
    }));
  const faults = await trueFaults(engine, firstRowFaults(entries, rows));
  return [...missing, ...faults.map(({ kind, path, detail }) => ({ kind, path, detail }))];
}

interface ChainFault {
  readonly kind: string;
  readonly path: RelPath;
  readonly detail: string;
  /** What the manifest says, and what the row. */
  readonly versions: readonly [Version, Version];
}

/** A borrowed name is another one than its bytes have: where the bytes are the same there is no fault. */
async function trueFaults(engine: Engine, faults: readonly ChainFault[]): Promise<ChainFault[]> {
  const out: ChainFault[] = [];
  for (const fault of faults) {
    const [a, b] = fault.versions;
    const alike = a.kind === 'file' && b.kind === 'file' && a.mode === b.mode && a.size === b.size;
    if (!alike || !(await sameBytes(engine, a.content, b.content))) out.push(fault);
  }
  return out;
}

async function sameBytes(engine: Engine, a: Hash, b: Hash): Promise<boolean> {
  try {
    return Buffer.compare(await engine.blobs.read(a), await engine.blobs.read(b)) === 0;
  } catch {
    return false; // it is told of as a blob
  }
}

/** The first row of a path must begin where the manifest left it. */
function firstRowFaults(
  entries: readonly { path: RelPath; version: Version }[],
  rows: readonly { path: RelPath; before: Version; seq: number }[],
): ChainFault[] {
  const known = new Map(entries.map((entry) => [entry.path, entry.version]));
  const seen = new Set<RelPath>();
  const faults: ChainFault[] = [];
  for (const row of rows) {
    if (seen.has(row.path)) continue;
    seen.add(row.path);
    const before: Version = known.get(row.path) ?? { kind: 'absent' };
    // A name whose folder was uncovered before enters as uncovered, though no manifest has it.
    if (!sameVersion(before, row.before) && !(before.kind === 'absent' && row.before.kind === 'uncovered')) {
      faults.push({
        kind: 'chain',
        path: row.path,
        detail: `the row at ${row.seq} does not begin where the manifest ends`,
        versions: [before, row.before],
      });
    }
  }
  return faults;
}

export async function storeStats(engine: Engine): Promise<StatsResult> {
  const { layout } = engine;
  const timeline = await engine.timeline.stats();
  const blobs = await engine.blobs.stats();
  const segments = await folderBytes(layout.segments);
  const borrowed = await bytesInFolders(layout.borrowed);
  const trash = await folderBytes(layout.trash);
  const index = await stat(layout.indexFile).then(
    (s) => s.size,
    () => 0,
  );
  const { bytes, ...counts } = timeline;
  return {
    bytes: { segments, timeline: bytes, index, trash, borrowed, total: segments + bytes + index + trash },
    counts: {
      ...counts,
      blobs: blobs.blobs,
      segments: blobs.segments,
      entries: (await engine.tree.list('' as RelPath)).length,
    },
  };
}

export async function sessionInfos(engine: Engine): Promise<SessionInfo[]> {
  const infos: SessionInfo[] = [];
  for (const session of await engine.timeline.sessions()) {
    const boundaries = await engine.timeline.boundaries(session.id);
    const open = await engine.timeline.openCalls(session.id);
    const newest = boundaries[0];
    infos.push({
      threadId: session.threadId,
      ...(session.tenantId === null ? {} : { tenantId: session.tenantId }),
      createdAt: session.createdAt,
      boundaries: boundaries.length,
      openCalls: open.length,
      ...(newest === undefined ? {} : { newestBoundaryId: newest.boundaryId, newestBoundaryAt: newest.createdAt }),
    });
  }
  return infos;
}

async function watching(engine: Engine): Promise<Capabilities['watch']> {
  // With the portable backend it can't be had, whether or not it is asked for.
  if (!engine.watches && engine.backend.kind === 'native')
    return { on: false, why: 'it was not asked for (watch: true)' };
  const why = await engine.tree.watch();
  return why === null ? { on: true, why: 'it was asked for' } : { on: false, why };
}

export async function capabilities(engine: Engine): Promise<Capabilities> {
  const abilities = await engine.tree.abilities();
  return {
    ...abilities,
    tickNs: Number(abilities.tickNs),
    backend: engine.backend.kind,
    why: engine.why,
    root: engine.layout.root,
    dataDir: engine.layout.dataDir,
    sqlite: await engine.timeline.sqliteVersion(),
    watch: await watching(engine),
  };
}
