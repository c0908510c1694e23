/** gc, retention, drop, verify, stats, export, diff through the engine. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

describeBackends('upkeep', (backend) => {
  test('maxBoundaries keeps each session’s newest, an expired one says so, and the kept ones restore', async () => {
    await using story = await Story.begin(backend, 'echo 0 >f', { open: { retention: { maxBoundaries: 2 } } });
    for (let i = 1; i <= 5; i++) {
      await story.cp(`m${i}`);
      await story.t(`echo ${i} >f`);
    }
    expect(got(await story.workspace.gc()).droppedBoundaries).toBe(3);
    expect(await story.session().restore('m1')).toMatchObject({
      available: false,
      reason: 'unknown-boundary',
      detail: expect.stringContaining('expired'),
    });
    expect(digest(await story.undo('m4'))).toEqual({ outcome: 'done', restored: { f: 'restore' } });
    expect(story.space.read('f')).toBe('3\n');
    expect(got(await story.workspace.verify())).toMatchObject({ ok: true, problems: [] });
    expect(got(await story.workspace.gc()).droppedBoundaries).toBe(0);
  });

  test('maxBytes drops the oldest boundaries, never current versions nor a session’s newest', async () => {
    await using story = await Story.begin(backend, '', { open: { retention: { maxBytes: 400_000 } } });
    for (let i = 1; i <= 8; i++) {
      await story.cp(`m${i}`);
      story.space.write('seed', `${i}`);
      await story.t('for i in $(seq 2); do head -c 100000 /dev/urandom >r$i; done');
    }
    const gc = got(await story.workspace.gc());
    expect(gc.droppedBoundaries).toBeGreaterThan(3);
    expect(gc.freedBytes).toBeGreaterThan(400_000);
    expect((await story.undo('m8')).outcome).toBe('done');
    expect(got(await story.workspace.verify())).toMatchObject({ ok: true, problems: [] });
  });

  test('what redo goes back to is never collected', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f', { open: { retention: { maxBoundaries: 1 } } });
    await story.cp('a');
    await story.t('echo 2 >f');
    await story.undo('a');
    got(await story.workspace.gc());
    got(await story.workspace.gc());
    expect((await story.redo()).outcome).toBe('done');
    expect(story.space.read('f')).toBe('2\n');
  });

  test('with no live boundary gc empties the store, and the next capture is a first one', async () => {
    await using story = await Story.begin(backend, 'for i in $(seq 50); do head -c 2000 /dev/urandom >f$i; done');
    await story.cp('a');
    await story.t('echo 2 >f1');
    got(await story.session().drop());
    const stats = got(await story.workspace.stats());
    expect([stats.counts.blobs, stats.counts.boundaries, stats.counts.sessions, stats.counts.rows]).toEqual([
      0, 0, 0, 0,
    ]);
    expect(got(await story.workspace.sessions()).sessions).toEqual([]);
    const again = await story.cp('a');
    expect(again.storedFiles).toBe(50);
    await story.t('rm f2');
    expect((await story.undo('a')).outcome).toBe('done');
  });

  test('drop takes a session’s rows and bytes only: another session’s boundaries restore and export as before', async () => {
    await using story = await Story.begin(backend, 'echo 0 >f; echo 0 >g');
    const [mine, other] = [story.session('mine'), story.session('other')];
    await story.cp('m', { session: mine });
    await story.turnOf(mine, 'echo 1 >f');
    const o = await story.cp('o', { session: other });
    for (let i = 0; i < 10; i++) await story.turnOf(mine, `head -c 50000 /dev/urandom >r; echo ${i} >f`);
    await story.turnOf(other, 'echo 1 >g');
    const between = await story.cp('o2', { session: other });
    await story.turnOf(mine, 'echo last >f; rm r');
    const before = got(await story.workspace.stats()).bytes.segments;
    got(await mine.drop());
    expect(before - got(await story.workspace.stats()).bytes.segments).toBeGreaterThan(9 * 40_000);
    expect(got(await story.workspace.verify())).toMatchObject({ ok: true, problems: [] });
    for (const [position, f, files] of [
      [o.position, '1\n', 2],
      [between.position, '9\n', 3],
    ] as const) {
      const target = join(story.space.dataDir, `export-${files}`);
      expect(got(await story.workspace.export(position, target)).files).toBe(files);
      expect(readFileSync(join(target, 'f'), 'utf8')).toBe(f);
    }
    expect(digest(await story.undo('o', { session: other }))).toEqual({ outcome: 'done', restored: { g: 'restore' } });
    expect(await mine.restore('m')).toMatchObject({ available: false, reason: 'no-checkpoint' });
    expect(story.space.sh('cat f g; ls')).toBe('last\n0\nf\ng\n');
  });

  test('positions that a drop folded away are not answered with something else', async () => {
    await using story = await Story.begin(backend, 'echo 0 >f');
    const [mine, other] = [story.session('mine'), story.session('other')];
    await story.cp('o', { session: other });
    const positions: string[] = [];
    for (let i = 1; i <= 3; i++) {
      positions.push((await story.cp(`m${i}`, { session: mine })).position);
      await story.turnOf(mine, `echo ${i} >f`);
    }
    got(await mine.drop());
    for (const position of positions.slice(1)) {
      await expect(other.diff(position)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
      await expect(story.workspace.export(position, join(story.space.dataDir, 'x'))).rejects.toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
      });
    }
  });

  test('gc keeps a late write to a file that a restore took out, and names it', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('echo 2 >f');
    await story.undo('a');
    const trash = join(
      story.space.dataDir,
      'workspaces',
      readdirSync(join(story.space.dataDir, 'workspaces'))[0] as string,
      'trash',
    );
    const [kept] = readdirSync(trash);
    story.space.sh(`echo late >>${join(trash, kept as string)}`);
    expect(got(await story.workspace.gc()).lateWrites.length).toBe(1);
    expect(readdirSync(trash)).toEqual([]);
    expect(got(await story.workspace.verify())).toMatchObject({ ok: true });
  });

  test('verify with rehash finds what no stat key shows, and says when all is well', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    expect(got(await story.workspace.verify({ rehash: true }))).toMatchObject({ ok: true, problems: [] });
  });

  test('export gives the covered tree of each boundary, modes and links included', async () => {
    await using story = await Story.begin(
      backend,
      "mkdir -p d/empty; echo 1 >d/f; chmod 700 d; chmod 755 d/f; ln -s f d/l; echo x >'日本'; echo KEY=1 >.env",
    );
    const positions = [(await story.cp('a')).position];
    const trees = [contents(snapshot(story.space.root))];
    await story.t('rm d/f; echo 2 >d/g; chmod 755 d; rm 日本');
    positions.push((await story.cp('b')).position);
    trees.push(contents(snapshot(story.space.root)));
    await story.t('rm -r d');
    for (const [i, position] of positions.entries()) {
      const target = join(story.space.dataDir, `e${i}`);
      const exported = got(await story.workspace.export(position, target));
      expect(exported.uncovered).toEqual([{ path: '.env', reason: 'secret' }]);
      const { '.env': _, ...covered } = trees[i] as Record<string, string>;
      expect(contents(snapshot(target))).toEqual(covered);
    }
    await expect(story.workspace.export(positions[0] as string, story.space.root)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
    });
    await expect(story.workspace.export('tb1-nope-1', '/x')).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await expect(story.workspace.export(`tb1-${'f'.repeat(32)}-1`, '/x')).rejects.toMatchObject({
      code: 'ERR_ROOT_MISMATCH',
    });
  });

  test('diff gives a patch that git apply takes, both ways and against the files now', async () => {
    await using story = await Story.begin(
      backend,
      'git init -q; printf "a\\nb\\n" >f; echo 1 >gone; printf "no newline" >n; head -c 300 /dev/urandom >bin; git add -A; git commit -qm i',
    );
    const a = (await story.cp('a')).position;
    await story.t(
      'printf "a\\nB\\n" >f; rm gone; printf "no newline\\n" >n; chmod 755 f; head -c 400 /dev/urandom >bin; mkdir d; ln -s ../f d/l; echo é >"d/sp ace"',
    );
    const after = contents(snapshot(story.space.root, (path) => path === '.git'));
    const diff = got(await story.session().diff(a));
    expect(diff.stats.files).toBe(6);
    story.space.write('../patch', diff.patchBytes);
    story.space.sh('git checkout -q . ; git clean -qfd; git apply --whitespace=nowarn ../patch');
    expect(contents(snapshot(story.space.root, (path) => path === '.git'))).toEqual(after);
  });

  test('stats count what there is', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; echo 2 >g');
    await story.cp('a');
    await story.t('echo 3 >f');
    const { bytes, counts } = got(await story.workspace.stats());
    expect(counts).toMatchObject({ sessions: 1, boundaries: 1, calls: 1, operations: 0, rows: 1, entries: 2 });
    expect(bytes.total).toBe(bytes.segments + bytes.timeline + bytes.index + bytes.trash);
    expect(statSync(join(story.space.dataDir, 'open-calls.db')).size).toBeGreaterThan(0);
  });
});
