/** Each backend ends what the other began: one journal format, one trash, one store. */
import { mkdirSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ApplyEntry, Tree } from '../../src/backend/backend.ts';
import { loadAddon } from '../../src/backend/load-addon.ts';
import { NativeBackend } from '../../src/backend/native.ts';
import type { RelPath, Version } from '../../src/types.ts';
import { Bench, type Layout, OPERATION, quiet, stepping } from './hands-kit.ts';

const ABSENT: Version = { kind: 'absent' };
const loaded = loadAddon();

/** No system error: nothing of ours catches it. */
class Killed extends Error {}

const OLD: Layout = {
  'replace.txt': ['old', 0o640],
  'delete.txt': 'old delete',
  'mode.sh': ['#!', 0o755],
  link: { link: 'old' },
  'gone/': 0o711,
  'gone/a.txt': 'old a',
  'dir-to-file/': 0o755,
  'file-to-dir': 'old f',
};

function entriesOf(bench: Bench): ApplyEntry[] {
  return [
    bench.entry('replace.txt', bench.file('new', 0o600)),
    bench.entry('delete.txt', ABSENT),
    bench.entry('mode.sh', bench.file('#!', 0o644)),
    bench.entry('link', { kind: 'symlink', target: 'new' }),
    bench.entry('gone', ABSENT),
    bench.entry('gone/a.txt', ABSENT),
    bench.entry('dir-to-file', bench.file('new d')),
    bench.entry('file-to-dir', { kind: 'dir', mode: 0o750 }),
    bench.entry('file-to-dir/y', bench.file('new y')),
    bench.entry('made.txt', bench.file('new n')),
  ];
}

async function nativeTree(bench: Bench, backend: NativeBackend): Promise<{ tree: Tree; close: () => Promise<void> }> {
  bench.segments.sync();
  const segments = await backend.openSegments({ dir: join(bench.dir, 'data', 'segments'), seed: 7n });
  const tree = await backend.openTree({
    root: bench.root,
    indexFile: join(bench.dir, 'data', 'index'),
    storeId: '00'.repeat(16),
    segments,
    skip: ['.takeback' as RelPath],
    maxFileBytes: 1 << 20,
    maxEntries: 1000,
    scratchDir: join(bench.dir, 'data', 'scratch'),
  });
  return {
    tree,
    close: async () => {
      await tree.close();
      await segments.close();
    },
  };
}

if ('missing' in loaded) test.skip('shared recovery: skipped, the addon is not built here', () => undefined);
else {
  const backend = new NativeBackend(loaded.addon);

  describe('the native backend ends what the portable one began', () => {
    for (const mode of ['rollback', 'complete'] as const) {
      test(mode, async () => {
        using made = await Bench.make(OLD);
        made.apply(entriesOf(made));
        const wanted = made.snapshot();
        for (let step = 3, going = true; going; step += 2) {
          using bench = await Bench.make(OLD);
          const before = bench.snapshot();
          const entries = entriesOf(bench);
          bench.hands = bench.open(
            stepping((at, when) => {
              if (at === step && when === 'after') throw new Killed();
            }),
          );
          try {
            bench.apply(entries);
            going = false;
          } catch (error) {
            if (!(error instanceof Killed)) throw error;
          }
          const { tree, close } = await nativeTree(bench, backend);
          const { paths } = await tree.recover({ journal: bench.journal, trash: bench.trash, mode });
          await close();
          expect(
            bench.snapshot(),
            `step ${step}: ${JSON.stringify(paths.filter(({ state }) => state === 'neither'))}`,
          ).toEqual(mode === 'rollback' ? before : wanted);
        }
      });
    }
  });

  describe('the portable backend ends what the native one began', () => {
    for (const mode of ['rollback', 'complete'] as const) {
      test(mode, async () => {
        using bench = await Bench.make(OLD);
        const before = bench.snapshot();
        const entries = entriesOf(bench);
        const { tree, close } = await nativeTree(bench, backend);
        const { trash, journal } = bench;
        mkdirSync(dirname(journal), { recursive: true });
        const outcomes = await tree.apply({ operationId: OPERATION, journal, trash, durability: 'fast', entries });
        await close();
        expect(outcomes.filter(({ status }) => status !== 'done')).toEqual([]);
        const wanted = bench.snapshot();
        bench.hands.recover({ journal, trash, mode }, quiet);
        expect(bench.snapshot()).toEqual(mode === 'rollback' ? before : wanted);
        const { lateWrites, kept } = bench.hands.emptyTrash(trash);
        expect([lateWrites.map(({ hash }) => bench.segments.read(hash).toString()), kept]).toEqual([[], 0]);
        expect(readdirSync(trash)).toEqual([]);
      });
    }
  });
}
