/**
 * Faults that an ordinary user meets: unreadable files, read-only folders. Runs as uid 65534; a file of its own, so that
 * the process that drops its rights is this file's only.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { availableBackends, describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

const NOBODY = 65534;
// The backends were probed by the import above, as root still.
const canRun = availableBackends.length > 0 && process.getuid !== undefined;
if (canRun && process.getuid?.() === 0) {
  process.setgroups?.([]);
  process.setgid?.(NOBODY);
  process.setuid?.(NOBODY);
}

/** Damages the stored copy of some bytes in every segment; answers how many copies there were. */
function damage(dataDir: string, content: string): number {
  const stores = join(dataDir, 'workspaces');
  let copies = 0;
  for (const store of readdirSync(stores)) {
    const segments = join(stores, store, 'segments');
    for (const name of readdirSync(segments).filter((n) => n.endsWith('.seg'))) {
      const bytes = readFileSync(join(segments, name));
      for (let at = 32; at + 48 <= bytes.length; ) {
        const stored = Number(bytes.readBigUInt64LE(at + 16));
        if (bytes.subarray(at + 48, at + 48 + stored).toString() === content) {
          bytes.fill(0x21, at + 48, at + 48 + stored);
          copies += 1;
        }
        at += 48 + stored + 8;
      }
      writeFileSync(join(segments, name), bytes);
    }
  }
  return copies;
}

describeBackends('an ordinary user', (backend) => {
  // B10 · NousResearch/hermes-agent #78888
  test('unreadable paths are named uncovered; the rest is captured, and nothing of them counts as new', async () => {
    await using story = await Story.begin(
      backend,
      'echo 1 >ok.txt; mkdir priv; echo s>priv/s; echo s>locked; chmod 000 priv locked',
    );
    const capture = await story.cp('a');
    expect(capture.uncovered).toEqual([
      { path: 'locked', reason: 'unreadable' },
      { path: 'priv', reason: 'unreadable' },
    ]);
    await story.t('echo 2 >ok.txt');
    story.u('chmod 755 priv; chmod 644 locked');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'ok.txt': 'restore' } });
    expect(story.space.sh('cat ok.txt priv/s locked')).toBe('1\ns\ns\n');
  });

  test('paths that become readable inside a call are not the call’s to delete', async () => {
    await using story = await Story.begin(backend, 'mkdir priv; echo s>priv/s; echo s>locked; chmod 000 priv locked');
    await story.cp('a');
    await story.t('chmod 755 priv; chmod 644 locked');
    const receipt = await story.undo('a');
    expect(receipt.restored).toEqual([]);
    expect(story.space.sh('cat priv/s locked')).toBe('s\ns\n');
  });

  test('a folder that becomes unreadable in the middle of a turn keeps its last versions, and nothing is called deleted', async () => {
    await using story = await Story.begin(backend, 'mkdir d; echo 1 >d/x; echo 1 >f');
    await story.cp('a');
    await story.t('chmod 000 d; echo 2 >f');
    const receipt = await story.undo('a');
    expect(digest(receipt).restored).toMatchObject({ f: 'restore' });
    story.u('chmod 755 d');
    expect(story.space.sh('cat d/x f')).toBe('1\n1\n');
    await story.cp('b');
    await story.t('echo 3 >d/x');
    expect(digest(await story.undo('b'))).toEqual({ outcome: 'done', restored: { 'd/x': 'restore' } });
  });

  // B20 · opena2a-org/hackmyagent #267
  test('what could not be written is failed with its reason, stored data stays, and the next undo finishes it', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a; mkdir ro; echo 1 >ro/b; echo 9 >c');
    await story.cp('a');
    await story.t('echo 2 >a; echo 2 >ro/b; echo 8 >c');
    story.u('chmod 555 ro');
    expect(damage(story.space.dataDir, '9\n')).toBeGreaterThan(0);
    await story.reopen();
    const receipt = await story.undo('a');
    const found = digest(receipt);
    expect(found).toMatchObject({
      outcome: 'partial',
      restored: { a: 'restore' },
      failed: { 'ro/b': 'permission-denied' },
    });
    expect(['blob-missing', 'blob-corrupt']).toContain(found.failed?.c);
    expect(story.space.sh('cat a ro/b c')).toBe('1\n2\n8\n');
    story.u('chmod 755 ro');
    const again = digest(await story.undo('a'));
    expect(again.restored).toEqual({ 'ro/b': 'restore' });
    expect(Object.keys(again.failed ?? {})).toEqual(['c']);
    expect(story.space.sh('cat a ro/b c')).toBe('1\n1\n8\n');
    expect(got(await story.workspace.verify()).ok, 'a damaged copy is told').toBe(false);
  });

  test('a read-only folder fails deletions and new files too, each with its reason', async () => {
    await using story = await Story.begin(backend, 'mkdir ro; echo 1 >ro/gone; echo 1 >ro/edit; echo 1 >f');
    await story.cp('a');
    await story.t('rm ro/gone; echo 2 >ro/edit; echo n>ro/new; echo 2 >f');
    story.u('chmod 555 ro');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'partial',
      restored: { f: 'restore' },
      failed: { 'ro/edit': 'permission-denied', 'ro/gone': 'permission-denied', 'ro/new': 'permission-denied' },
    });
    story.u('chmod 755 ro');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { 'ro/edit': 'restore', 'ro/gone': 'recreate', 'ro/new': 'delete' },
    });
  });

  test('a root that can’t be read, and a data directory that can’t be written, are answers', async () => {
    const story = await Story.begin(backend, 'mkdir ../ro ../shut; chmod 555 ../ro; chmod 000 ../shut');
    await using _ = story;
    const { openWorkspace } = await import('../../src/index.ts');
    const at = (name: string) => join(story.space.base, name);
    const readOnly = await openWorkspace({ root: story.space.root, dataDir: join(at('ro'), 'data'), backend });
    expect(readOnly).toMatchObject({ available: false, reason: 'data-dir-unwritable' });
    expect(await readOnly.session({ threadId: 's' }).capture('a')).toMatchObject({
      available: false,
      reason: 'data-dir-unwritable',
    });
    const shut = await openWorkspace({ root: join(at('shut'), 'x'), dataDir: at('data2'), backend });
    expect(shut).toMatchObject({ available: false, reason: 'permission-denied' });
  });
});
