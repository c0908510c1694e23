/**
 * What reads bytes or input that somebody else may have made takes anything: it answers, or throws what it says that it
 * throws. Files are damaged at random, and then with checksums made right again, so that the damage gets past them.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { takebackTools } from '../../src/adapters/mcp.ts';
import { encodeFrame, readFrames } from '../../src/backend/portable/frames.ts';
import { Hasher } from '../../src/backend/portable/hash.ts';
import { decodeBase, decodeDelta } from '../../src/backend/portable/index-codec.ts';
import { readJournal } from '../../src/backend/portable/journal.ts';
import { decodeIdx, decodeRecord, encodeRecord } from '../../src/backend/portable/records.ts';
import { workspaceDir } from '../../src/data-dir.ts';
import { TakebackError } from '../../src/errors.ts';
import { openWorkspace } from '../../src/index.ts';
import { asRelPath } from '../../src/rel-path.ts';
import type { Version } from '../../src/types.ts';
import { decodeChanges, decodePaths, decodeVersions, encodeChanges, encodeVersions } from '../../src/wire.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

const hasher = await Hasher.create(7n);
const folder = mkdtempSync(join(tmpdir(), 'takeback-fuzz-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Bytes cut, overwritten, or with a length field of our choice. */
interface Damage {
  readonly at: number;
  readonly how: 'flip' | 'cut' | 'huge' | 'zero';
  readonly value: number;
}

const damage: fc.Arbitrary<Damage[]> = fc.array(
  fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    how: fc.constantFrom('flip', 'cut', 'huge', 'zero'),
    value: fc.integer({ min: 1, max: 255 }),
  }),
  { minLength: 1, maxLength: 4 },
);

function damaged(bytes: Uint8Array, list: readonly Damage[]): Buffer {
  let out = Buffer.from(bytes);
  for (const { at, how, value } of list) {
    if (out.length === 0) return out;
    const i = Math.floor(at * out.length);
    if (how === 'flip') out[i] = (out[i] as number) ^ value;
    else if (how === 'cut') out = out.subarray(0, i);
    else out.fill(how === 'huge' ? 0xff : 0, i, Math.min(i + 4, out.length));
  }
  return out;
}

const VERSIONS: readonly Version[] = [
  { kind: 'absent' },
  { kind: 'file', mode: 0o644, size: 3, content: 'ab'.repeat(16) },
  { kind: 'symlink', target: '../x' },
  { kind: 'dir', mode: 0o755 },
  { kind: 'special', type: 'fifo', ino: 7n },
];
const entries = VERSIONS.map((version, i) => ({ path: asRelPath(`d/${i}`), version }));
const WIRE = [
  encodeVersions(entries),
  encodeChanges(
    entries.map(({ path, version }) => ({ path, before: version, after: VERSIONS[0] as Version, flags: 0 })),
  ),
];
const RUNS = { numRuns: 2000 };

/** Runs a reader: its value, or the error that it may throw. */
function reads<T>(read: () => T, may: (error: unknown) => boolean): T | null {
  try {
    return read();
  } catch (error) {
    if (may(error)) return null;
    throw error;
  }
}
const isCorrupt = (error: unknown): boolean => error instanceof TakebackError && error.code === 'ERR_STORE_CORRUPT';

describe('readers of the portable backend', () => {
  test('lists of versions, changes and paths: a value, or ERR_STORE_CORRUPT', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.tuple(fc.constantFrom(...WIRE), damage).map(([whole, list]) => damaged(whole, list)),
    );
    fc.assert(
      fc.property(bytes, (given) => {
        for (const decode of [decodeVersions, decodeChanges, decodePaths]) {
          const found = reads(() => decode(given), isCorrupt);
          // An entry takes four bytes at least: nothing is made of a count alone.
          expect((found ?? []).length * 4).toBeLessThanOrEqual(given.length);
        }
      }),
      RUNS,
    );
  });

  test('frames: what stands before the damage, and nothing that no checksum vouches for', () => {
    const frames = [1, 2, 3].map((kind) => encodeFrame(hasher, kind, Buffer.alloc(kind * 10, kind)));
    const whole = Buffer.concat(frames);
    fc.assert(
      fc.property(damage, (list) => {
        const read = [...readFrames(hasher, damaged(whole, list))];
        for (const [i, { kind, payload }] of read.entries()) {
          expect(kind).toBe(i + 1);
          expect(payload.equals(Buffer.alloc((i + 1) * 10, i + 1))).toBe(true);
        }
      }),
      RUNS,
    );
  });

  test('payloads of the index: a value or an error, and no entry that the bytes have no room for', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (given) => {
        for (const decode of [decodeBase, decodeDelta])
          reads<unknown>(
            () => decode(Buffer.from(given)),
            (e) => e instanceof Error,
          );
      }),
      RUNS,
    );
  });

  test('a journal: null, ERR_STORE_CORRUPT, or names that are no paths', () => {
    const file = join(folder, 'journal');
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.integer({ min: 0, max: 4 }), (payload, kind) => {
        writeFileSync(file, Buffer.concat([encodeFrame(hasher, 1, payload), encodeFrame(hasher, kind, payload)]));
        const journal = reads(() => readJournal(file, hasher), isCorrupt);
        for (const { tempName, trashName } of journal?.entries ?? []) expect(tempName + trashName).not.toContain('/');
      }),
      { numRuns: 500 },
    );
  });

  test('a segment’s record: the very bytes, or what is wrong with it', () => {
    const bytes = Buffer.from('some text that compresses, '.repeat(40));
    const hash = hasher.hash(bytes);
    const whole = encodeRecord(hasher, hash, bytes);
    fc.assert(
      fc.property(damage, (list) => {
        const given = damaged(whole, list);
        const found = decodeRecord(hasher, given, hash);
        if ('bytes' in found) expect(found.bytes.equals(bytes)).toBe(true);
        else expect('damage' in found && found.damage).toBeTruthy();
        decodeIdx(hasher, given, 1000);
      }),
      RUNS,
    );
  });
});

describeBackends('a store with a damaged file', (backend) => {
  /** Damages one file of the store, opens it, undoes, verifies: the user's files are whole, old or new. */
  async function survives(pick: (home: string) => string[], harm: (bytes: Buffer, list: readonly Damage[]) => Buffer) {
    await using story = await Story.begin(backend, 'mkdir d; for f in a b c d/x; do echo base >$f; done');
    await story.cp('m1');
    await story.t('for f in a b c d/x; do echo turn >$f; done; echo new >n');
    await story.workspace.close();
    const home = workspaceDir(story.space.dataDir, story.space.root);
    const files = pick(home).map((file) => [file, readFileSync(file)] as const);
    expect(files.length).toBeGreaterThan(0);
    const kept = contents(snapshot(story.space.root));
    await fc.assert(
      fc.asyncProperty(fc.nat(), damage, async (n, list) => {
        const [file, bytes] = files[n % files.length] as (typeof files)[number];
        for (const [other, whole] of files) writeFileSync(other, whole);
        writeFileSync(file, harm(bytes, list));
        await using workspace = await openWorkspace({
          root: story.space.root,
          dataDir: story.space.dataDir,
          backend,
          durability: 'fast',
        });
        const session = workspace.session({ threadId: 's1' });
        const plan = await session.plan('m1');
        if (plan.available) for (const { path } of plan.entries) expect(['a', 'b', 'c', 'd/x', 'n']).toContain(path);
        expect(await workspace.verify()).toHaveProperty('available');
        expect(contents(snapshot(story.space.root))).toEqual(kept);
      }),
      { numRuns: 6 },
    );
    for (const [file, whole] of files) writeFileSync(file, whole);
    await story.reopen();
    expect(got(await story.session().undo()).outcome, 'the undamaged store serves').toBe('done');
  }

  const segmentFiles = (home: string): string[] =>
    readdirSync(join(home, 'segments')).map((name) => join(home, 'segments', name));

  test('the index, damaged at random', () => survives((home) => [join(home, 'index')], damaged));

  test('the index, damaged behind right checksums', () =>
    survives(
      (home) => [join(home, 'index')],
      (bytes, list) => {
        const seeded = [...readFrames(hasher, bytes, 64)];
        if (seeded.length === 0) return damaged(bytes, list);
        return Buffer.concat([
          bytes.subarray(0, 64),
          ...seeded.map(({ kind, payload }) => encodeFrame(hasher, kind, damaged(payload, list))),
        ]);
      },
    ));

  test('segments and their indexes, damaged at random', () => survives(segmentFiles, damaged));
});

test('tools of MCP take any input: an answer or a tool error, never a throw', async () => {
  const tools = takebackTools({ workspace: async () => ({ available: false, reason: 'busy', detail: 'not here' }) });
  const input = fc.oneof(
    fc.anything({ withBigInt: true, withNullPrototype: true }),
    fc.dictionary(
      fc.constantFrom('session', 'boundaryId', 'planToken', 'paths', 'offset', 'limit', '__proto__'),
      fc.anything(),
    ),
  );
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...tools), input, async (tool, given) => {
      const result = await tool.run(given);
      expect(result.isError).toBe(true);
      expect(result.content[0]?.text).toMatch(/^[a-zA-Z_-]+: /);
    }),
    { numRuns: 1000 },
  );
});
