/** Retention by age, bytes and count: what goes, and what is never touched because it is in use. */
import { readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import type { OpenOptions, Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

describeBackends('retention', (backend) => {
  afterEach(() => {
    vi.useRealTimers();
  });

  /** m0 … m(n-1), each with a turn that writes `f`. */
  async function turns(n: number, retention: OpenOptions['retention']): Promise<Story> {
    const story = await Story.begin(backend, 'printf start >f', { open: { retention: {} } });
    for (let i = 0; i < n; i++) {
      await story.cp(`m${i}`);
      await story.t(`printf ${i} >f`);
    }
    await story.reopen({ retention });
    return story;
  }

  const kept = async (session: Session): Promise<string[]> =>
    got(await session.timeline({ limit: 1000 })).items.flatMap((i) => (i.type === 'boundary' ? [i.boundaryId] : []));

  /** As if the last time that captures applied the limits were two minutes ago. */
  function later(story: Story): void {
    const stores = join(story.space.dataDir, 'workspaces');
    const past = new Date(Date.now() - 120_000);
    for (const store of readdirSync(stores)) utimesSync(join(stores, store, 'retention'), past, past);
  }

  test('maxBoundaries holds for each session; an expired boundary is unknown, with the detail that says why', async () => {
    await using story = await turns(4, { maxBoundaries: 2 });
    const other = story.session('s2');
    await story.cp('o1', { session: other });
    expect(got(await story.workspace.gc()).droppedBoundaries).toBe(2);
    expect(await kept(story.session())).toEqual(['m2', 'm3']);
    expect(await kept(other)).toEqual(['o1']);
    for (const result of [
      await story.session().restore('m0'),
      await story.session().plan('m1'),
      await story.session().revert({ messageId: 'm0' }),
      await story.session().undo({ boundaryId: 'm1' }),
      await story.session().fork({ threadId: 'f' }, { at: 'm0' }),
    ])
      expect(result).toMatchObject({
        available: false,
        reason: 'unknown-boundary',
        detail: expect.stringMatching(/^expired: "m[01]"$/),
      });
    expect(story.space.read('f')).toBe('3');
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('boundaries older than maxAgeDays go; the newest of each session stays, however old', async () => {
    await using story = await turns(2, { maxAgeDays: 30 });
    await story.cp('o1', { session: story.session('s2') });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 29 * DAY_MS });
    expect(got(await story.workspace.gc()).droppedBoundaries).toBe(0);
    vi.setSystemTime(Date.now() + 2 * DAY_MS);
    expect(got(await story.workspace.gc()).droppedBoundaries).toBe(1);
    expect(await kept(story.session())).toEqual(['m1']);
    expect(await kept(story.session('s2'))).toEqual(['o1']);
    expect(digest(await story.undo('m1')).restored).toEqual({ f: 'restore' });
    expect(story.space.read('f')).toBe('0');
  });

  test('history over maxBytes loses its oldest boundaries and their bytes; the files of now do not count', async () => {
    await using story = await Story.begin(backend, 'head -c 300000 /dev/urandom >f; head -c 300000 /dev/urandom >big');
    for (let i = 0; i < 6; i++) {
      await story.cp(`m${i}`);
      await story.t('head -c 300000 /dev/urandom >f');
    }
    await story.reopen({ retention: { maxBytes: 1_000_000 } });
    const result = got(await story.workspace.gc());
    expect(result.droppedBoundaries).toBeGreaterThan(0);
    expect(result.freedBytes).toBeGreaterThan(600_000);
    const left = await kept(story.session());
    expect(left.at(-1)).toBe('m5');
    expect(left.length).toBeGreaterThan(1);
    expect(digest(await story.undo(left[0] as string)).restored).toEqual({ f: 'restore' });
    await story.reopen({ retention: { maxBytes: 1 } });
    got(await story.workspace.gc());
    expect((await kept(story.session())).length).toBeGreaterThan(0);
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('the safety record of a restore does not prune its target', async () => {
    await using story = await turns(4, { maxBoundaries: 1 });
    story.u('printf user >f');
    const receipt = await story.undo('m1', { onConflict: 'overwrite' });
    expect(digest(receipt).restored).toEqual({ f: 'restore!changed-outside-session' });
    expect(got(await story.workspace.gc()).droppedBoundaries).toBe(1);
    expect(await kept(story.session())).toEqual(['m1', 'm2', 'm3']);
    expect(got(await story.session().redo()).outcome).toBe('done');
    expect(story.space.read('f')).toBe('user');
    expect(got(await story.session().restore('m1', { onConflict: 'overwrite' })).outcome).toBe('done');
    expect(story.space.read('f')).toBe('0');
  });

  test('what the redo stack goes back to stays until the next capture clears it', async () => {
    await using story = await turns(4, { maxBoundaries: 1 });
    got(await story.session().undo());
    got(await story.session().undo());
    got(await story.workspace.gc());
    expect(await kept(story.session())).toEqual(['m2', 'm3']);
    got(await story.session().redo());
    got(await story.session().redo());
    expect(story.space.read('f')).toBe('3');
  });

  test('what a standing revert names stays: a boundary, or the turn of a step', async () => {
    await using story = await turns(2, { maxBoundaries: 1 });
    const session = story.session();
    for (const n of [1, 2]) {
      got(await session.beginCall(`c${n}`, { stepId: `s${n}` }));
      story.space.sh(`printf s${n} >f`);
      got(await session.endCall(`c${n}`));
    }
    await story.workspace.gc();
    expect(await kept(session)).toEqual(['m1']);
    got(await session.capture('m2'));
    await story.t('printf m2 >f');
    got(await session.revert({ messageId: 's1' }));
    expect(story.space.read('f')).toBe('s1');
    got(await story.workspace.gc());
    expect(await kept(session)).toEqual(['m1', 'm2']);
    got(await session.unrevert());
    expect(story.space.read('f')).toBe('m2');
    got(await story.workspace.gc());
    expect(await kept(session)).toEqual(['m2']);
  });

  test('a capture applies the limits, at most once a minute', async () => {
    await using story = await turns(2, { maxBoundaries: 2 });
    later(story);
    await story.cp('m2');
    expect(await kept(story.session())).toEqual(['m1', 'm2']);
    await story.cp('m3');
    expect(await kept(story.session())).toEqual(['m1', 'm2', 'm3']);
    later(story);
    await story.reopen();
    await story.cp('m4');
    expect(await kept(story.session())).toEqual(['m3', 'm4']);
    expect(got(await story.session().undo()).message).toBe('Nothing to undo.');
  });

  test('limits that a capture applies have their end before the workspace is closed', async () => {
    await using story = await turns(3, { maxBoundaries: 1 });
    later(story);
    got(await story.session().capture('m3'));
    await story.reopen();
    expect(await kept(story.session())).toEqual(['m3']);
  });

  test('any kept boundary can be exported, an expired one can’t', async () => {
    await using story = await turns(4, { maxBoundaries: 3 });
    const { items } = got(await story.session().timeline());
    const positions = items.flatMap((i) => (i.type === 'boundary' ? [i.position] : []));
    got(await story.workspace.gc());
    const texts: string[] = [];
    for (const [n, position] of positions.entries()) {
      const target = join(story.space.base, `export-${n}`);
      if (n === 0) {
        await expect(story.workspace.export(position, target)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
        continue;
      }
      expect(got(await story.workspace.export(position, target)).files).toBe(1);
      texts.push(story.space.sh(`cat ${target}/f`));
    }
    expect(texts).toEqual(['0', '1', '2']);
  });

  test('a position of another workspace is refused by diff and export, and nothing is written', async () => {
    await using story = await turns(1, {});
    await using stranger = await turns(1, {});
    const { items } = got(await stranger.session().timeline());
    const [position] = items.flatMap((i) => (i.type === 'boundary' ? [i.position] : []));
    const target = join(story.space.base, 'export');
    const mismatch = { code: 'ERR_ROOT_MISMATCH' };
    await expect(story.session().diff(position as string)).rejects.toMatchObject(mismatch);
    await expect(story.workspace.export(position as string, target)).rejects.toMatchObject(mismatch);
    expect(() => readdirSync(target)).toThrow();
    expect(await story.session().revert({ messageId: position as string })).toMatchObject({
      available: false,
      reason: 'unknown-boundary',
    });
  });
});
