/** What the timeline's tests share: the drivers to run over, temp folders, small records. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, test } from 'vitest';
import type { SqlDriver, SqlStatement, SqlValue } from '../../src/backend/backend.ts';
import { openPortableDatabase } from '../../src/backend/portable/sqlite.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { openTimeline } from '../../src/timeline/sqlite.ts';
import type { DatabaseOpener } from '../../src/timeline/store.ts';
import type { Append, OpenTimelineOptions, Timeline } from '../../src/timeline/timeline.ts';
import type { Change, RelPath, Version } from '../../src/types.ts';

export interface Driver {
  readonly name: string;
  readonly opener: DatabaseOpener | null;
  /** Why it can't be used here. */
  readonly reason: string;
}

async function nativeDriver(): Promise<Driver> {
  const file = fileURLToPath(new URL('../../src/backend/open.ts', import.meta.url));
  if (!existsSync(file)) return { name: 'native', opener: null, reason: 'there is no native backend' };
  try {
    const { openBackend } = await import(/* @vite-ignore */ file);
    const { backend } = await openBackend('native');
    return { name: 'native', opener: backend, reason: '' };
  } catch (error) {
    return { name: 'native', opener: null, reason: (error as Error).message };
  }
}

export const portable: DatabaseOpener = { openDatabase: openPortableDatabase };

/** Runs the suite once for each driver; one that can't be used here is skipped and says why. */
export async function overDrivers(name: string, suite: (world: World) => void): Promise<void> {
  for (const driver of [{ name: 'portable', opener: portable, reason: '' }, await nativeDriver()]) {
    const { opener } = driver;
    if (opener === null) test.skip(`${name} over ${driver.name}: ${driver.reason}`, () => {});
    else describe(`${name} over ${driver.name}`, () => suite(new World(opener)));
  }
}

/** A temp folder for each test, and what was opened in it. */
export class World {
  readonly opener: DatabaseOpener;
  dir = '';
  readonly #open: { close(): Promise<void> }[] = [];

  constructor(opener: DatabaseOpener) {
    this.opener = opener;
    beforeEach(async () => {
      this.dir = await mkdtemp(join(tmpdir(), 'takeback-timeline-'));
    });
    afterEach(async () => {
      await Promise.all(this.#open.splice(0).map((opened) => opened.close()));
      await rm(this.dir, { recursive: true });
    });
  }

  keep<T extends { close(): Promise<void> }>(opened: T): T {
    this.#open.push(opened);
    return opened;
  }

  async open(options: Partial<OpenTimelineOptions> = {}, opener: DatabaseOpener = this.opener): Promise<Timeline> {
    const dir = options.dir ?? this.dir;
    await mkdir(dir, { recursive: true });
    return this.keep(await openTimeline(opener, { dir, root: '/project', networkFileSystem: false, ...options }));
  }

  async driver(name = 'timeline.db'): Promise<SqlDriver> {
    return this.keep(await this.opener.openDatabase({ file: join(this.dir, name) }));
  }
}

/** Passes on, and keeps every statement that was run. */
export function recording(
  opener: DatabaseOpener,
): DatabaseOpener & { readonly seen: SqlStatement[]; readonly execs: string[] } {
  const seen: SqlStatement[] = [];
  const execs: string[] = [];
  return {
    seen,
    execs,
    openDatabase: async (options) => {
      const driver = await opener.openDatabase(options);
      return {
        exec: (sql) => {
          execs.push(sql);
          return driver.exec(sql);
        },
        query: (sql: string, params: readonly SqlValue[] = []) => {
          seen.push({ sql, params });
          return driver.query(sql, params);
        },
        transaction: (statements) => {
          seen.push(...statements);
          return driver.transaction(statements);
        },
        close: () => driver.close(),
      };
    },
  };
}

export const rel = asRelPath;

/** 32 hex digits that end in the given number. */
export function id(number: number): string {
  return number.toString(16).padStart(32, '0');
}

export const absent: Version = { kind: 'absent' };

export function file(content: number): Version {
  return { kind: 'file', mode: 0o644, size: content, content: id(content) };
}

export function change(path: string, before: Version, after: Version, flags = 0): Change {
  return { path: rel(path), before, after, flags };
}

export const owner = { pid: 4711, startTime: 12, bootId: 'boot', hostId: 'host' };

/** An observation of kind `capture` on top of `expectSeq`, with more in it. */
export function look(expectSeq: number, more: Partial<Append> = {}): Append {
  const seq = expectSeq + 1;
  return {
    expectSeq,
    observation: { id: id(seq), kind: seq === 1 ? 'first' : 'capture', createdAt: 1000 + seq },
    ...(seq === 1 ? { manifest: { hash: id(900), entries: 3 } } : {}),
    durable: false,
    ...more,
  };
}

export function boundary(session: number, boundaryId: string): NonNullable<Append['boundary']> {
  return {
    session,
    boundaryId,
    label: `label of ${boundaryId}`,
    createdAt: 5,
    root: { dev: 2n ** 64n - 1n, ino: 2n ** 63n, birthNs: 0n },
    head: 'ref: refs/heads/main 01ab',
  };
}

export function call(session: number, callId: string, invocation: number): NonNullable<Append['beginCall']> {
  return {
    invocation,
    session,
    callId,
    tool: 'shell',
    stepId: 'step',
    parent: null,
    detached: false,
    owner,
    paths: null,
    turnSeq: 1,
    beganAt: 7,
  };
}

export function end(invocation: number, paths?: readonly RelPath[]): NonNullable<Append['endCalls']>[number] {
  return {
    invocation,
    state: 'ended',
    endedAt: 8,
    sideEffect: 'workspace_write',
    isError: false,
    ...(paths === undefined ? {} : { paths }),
  };
}

export function operation(
  session: number,
  operationId: string,
  more: Partial<NonNullable<Append['operation']>> = {},
): NonNullable<Append['operation']> {
  const empty = { restored: [], refused: [], skipped: [], failed: [], irreversible: [], uncovered: [] };
  return {
    id: operationId,
    session,
    kind: 'undo',
    boundaryId: 'b1',
    boundarySeq: 1,
    createdAt: 9,
    onConflict: 'refuse',
    receipt: { operationId, boundaryId: 'b1', outcome: 'done', ...empty, notes: ['a note \udc80'] },
    takesBack: null,
    ...more,
  };
}
