/** DESIGN §6: the table line by line, windows, named paths, folders, redo, tokens; then properties over random stories. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Peek } from '../../src/backend/backend.ts';
import {
  applyEntries,
  peekPaths,
  planRedo,
  planRestore,
  planUncovered,
  publicPlan,
  redoPeekPaths,
  tokenBytes,
} from '../../src/model/plan.ts';
import type { ModelPlan, RestoreInput } from '../../src/model/types.ts';
import { comparePaths, isWithin } from '../../src/rel-path.ts';
import { type ConflictPolicy, RowFlag, type Version } from '../../src/types.ts';
import { absent, dir, fifo, file, link, peeks, rel, Story, type Tree, uncovered } from './story.ts';

interface Ask {
  session?: number;
  onConflict?: ConflictPolicy;
  paths?: string[];
  window?: [number, number | null];
  disk?: Tree;
  extra?: Record<string, Partial<Peek>>;
  uncoveredInodes?: bigint[];
  afterSeq?: number;
}

/** Plans to go back to the story's start, with the story's tree (and `disk` over it) on disk. */
function plan(story: Story, ask: Ask = {}): ModelPlan {
  const rows = story.attributed(ask.session ?? 1, ask.window?.[0] ?? ask.afterSeq ?? 1);
  const scope: Pick<RestoreInput, 'rows' | 'window' | 'paths'> = {
    rows,
    ...(ask.window === undefined ? {} : { window: { afterSeq: ask.window[0], toSeq: ask.window[1] } }),
    ...(ask.paths === undefined ? {} : { paths: ask.paths.map(rel) }),
  };
  return planRestore({
    ...scope,
    disk: peeks({ ...story.now, ...ask.disk }, peekPaths(scope), ask.extra),
    onConflict: ask.onConflict ?? 'refuse',
    uncoveredInodes: new Set(ask.uncoveredInodes ?? []),
  });
}

/** `path action[: reason][ over reason]`, hidden folders in brackets. */
function said(model: ModelPlan): string[] {
  const shown = new Set(publicPlan(model).map((entry) => entry.path));
  return model.entries.map((entry) => {
    const text = `${entry.path} ${entry.action}${entry.reason ? `: ${entry.reason}` : ''}${entry.overrides ? ` over ${entry.overrides}` : ''}`;
    return shown.has(entry.path) ? text : `(${text})`;
  });
}

function changed(before: Version, after: Version): Story {
  const story = new Story({ f: before });
  story.call(1, { f: after });
  return story;
}

describe('the table, first line that fits', () => {
  test('named in paths, nothing owed: skip not-attributed', () => {
    const story = changed(file('1'), file('2'));
    story.call(2, { g: file('2') });
    expect(said(plan(story, { paths: ['g', 'nowhere'] }))).toEqual([
      'g skip: not-attributed',
      'nowhere skip: not-attributed',
    ]);
  });

  test('disk = target: skip already-matches', () => {
    expect(said(plan(changed(file('1'), file('2')), { disk: { f: file('1') } }))).toEqual(['f skip: already-matches']);
    expect(said(plan(changed(absent, file('2')), { disk: { f: absent } }))).toEqual(['f skip: already-matches']);
  });

  test('disk = target goes before uncovered and contested', () => {
    const story = new Story({ f: uncovered('secret') });
    story.call(1, { f: uncovered('secret', 2) });
    expect(said(plan(story, { disk: { f: uncovered('secret') } }))).toEqual(['f skip: already-matches']);
  });

  test.each<[string, Version, Version]>([
    ['target', uncovered('too-large'), file('2')],
    ['disk', absent, uncovered('secret')],
    ['both, with different stat keys', uncovered('too-large'), uncovered('too-large', 2)],
  ])('%s uncovered: refuse uncovered, also on overwrite', (_, before, after) => {
    for (const onConflict of ['refuse', 'overwrite'] as const) {
      expect(said(plan(changed(before, after), { onConflict }))).toEqual(['f refuse: uncovered']);
    }
  });

  test('uncovered on disk is never equal to a file', () => {
    expect(said(plan(changed(file('1'), file('2')), { disk: { f: uncovered('unreadable') } }))).toEqual([
      'f refuse: uncovered',
    ]);
  });

  test('delete of an inode that stood at an uncovered path: refuse moved-uncovered, also on overwrite', () => {
    const story = changed(absent, file('2'));
    const ask: Ask = { extra: { f: { ino: 42n } }, uncoveredInodes: [42n] };
    expect(said(plan(story, ask))).toEqual(['f refuse: moved-uncovered']);
    expect(said(plan(story, { ...ask, onConflict: 'overwrite' }))).toEqual(['f refuse: moved-uncovered']);
  });

  test('row contested', () => {
    const story = new Story({ f: file('1') });
    story.begin(2);
    story.end(story.begin(1), { f: file('2') });
    expect(said(plan(story))).toEqual(['f refuse: contested']);
    expect(said(plan(story, { onConflict: 'overwrite' }))).toEqual(['f restore over contested']);
  });

  test('row incomplete', () => {
    const story = new Story({ f: file('1') });
    story.end(story.begin(1), { f: file('2') }, 'interrupted');
    expect(said(plan(story))).toEqual(['f refuse: incomplete']);
    expect(said(plan(story, { onConflict: 'overwrite' }))).toEqual(['f restore over incomplete']);
  });

  test('somebody’s change between two rows of the session: changed-between', () => {
    const story = changed(file('1'), file('2'));
    story.look({ f: file('user') });
    story.call(1, { f: file('3') });
    expect(said(plan(story))).toEqual(['f refuse: changed-between']);
    expect(said(plan(story, { onConflict: 'overwrite' }))).toEqual(['f restore over changed-between']);
  });

  test('somebody’s change that was taken back by hand in between counts for nothing', () => {
    const story = changed(file('1'), file('2'));
    story.look({ f: file('user') });
    story.look({ f: file('2') });
    story.call(1, { f: file('3') });
    expect(said(plan(story))).toEqual(['f restore']);
  });

  test('disk is not the last result: changed-outside-session', () => {
    const story = changed(file('1'), file('2'));
    expect(said(plan(story, { disk: { f: file('user') } }))).toEqual(['f refuse: changed-outside-session']);
    expect(said(plan(story, { disk: { f: file('user') }, onConflict: 'overwrite' }))).toEqual([
      'f restore over changed-outside-session',
    ]);
    expect(said(plan(story, { disk: { f: file('2', 0o600) } }))).toEqual(['f refuse: changed-outside-session']);
  });

  test('open for writing: open-for-write; where that can’t be told, the plan goes on', () => {
    const story = changed(file('1'), file('2'));
    const open = { extra: { f: { openForWrite: true } } };
    expect(said(plan(story, open))).toEqual(['f refuse: open-for-write']);
    expect(said(plan(story, { ...open, onConflict: 'overwrite' }))).toEqual(['f restore over open-for-write']);
    expect(said(plan(story, { extra: { f: { openForWrite: null } } }))).toEqual(['f restore']);
  });

  test('overrides names the first reason', () => {
    const story = changed(file('1'), file('2'));
    story.look({ f: file('user') });
    story.call(1, { f: file('3') });
    expect(said(plan(story, { disk: { f: file('4') }, onConflict: 'overwrite' }))).toEqual([
      'f restore over changed-between',
    ]);
  });

  test('target absent: delete', () => expect(said(plan(changed(absent, file('2'))))).toEqual(['f delete']));
  test('disk absent: recreate', () => expect(said(plan(changed(file('1'), absent)))).toEqual(['f recreate']));
  test('else: restore', () => expect(said(plan(changed(file('1'), file('2'))))).toEqual(['f restore']));
  test('a path that only others changed is in no plan', () => {
    const story = new Story({ f: file('1'), g: file('1') });
    story.call(2, { f: file('2') });
    story.look({ g: file('user') });
    expect(plan(story)).toEqual({ entries: [] });
  });
});

describe('target and last result', () => {
  test('what the user did between the boundary and the first touch stays', () => {
    const story = new Story({ f: file('1') });
    story.look({ f: file('user') });
    story.call(1, { f: file('2') });
    expect(plan(story).entries[0]).toMatchObject({
      target: file('user'),
      last: file('2'),
      expect: file('2'),
      fromSeq: 4,
      toSeq: 4,
    });
  });

  test('rows that an undo took back are not owed; its own row is the last result', () => {
    const story = new Story({ f: file('1') });
    const first = story.call(1, { f: file('2') });
    const second = story.call(1, { f: file('3') });
    story.operate(1, 'undo', { f: file('2') }, { f: [second, second] });
    expect(plan(story).entries[0]).toMatchObject({
      action: 'restore',
      target: file('1'),
      last: file('2'),
      fromSeq: first,
      toSeq: first,
    });
  });

  test('after a redo the call’s own row is the last result again', () => {
    const story = new Story({ f: file('1') });
    const seq = story.call(1, { f: file('2') });
    const undo = story.operate(1, 'undo', { f: file('1') }, { f: [seq, seq] });
    expect(plan(story)).toEqual({ entries: [] });
    story.redo(1, undo, { f: file('2') }, ['f']);
    expect(plan(story).entries[0]).toMatchObject({
      action: 'restore',
      target: file('1'),
      last: file('2'),
      fromSeq: seq,
      toSeq: seq,
    });
  });

  test('a forced undo that saved the user’s bytes leaves them after redo, as changed outside', () => {
    const story = new Story({ f: file('1') });
    const seq = story.call(1, { f: file('2') });
    story.look({ f: file('user') });
    const undo = story.operate(1, 'undo', { f: file('1') }, { f: [seq, seq] });
    story.redo(1, undo, { f: file('user') }, ['f']);
    expect(said(plan(story))).toEqual(['f refuse: changed-outside-session']);
  });

  test('a late row gives bytes a name and is nobody’s change', () => {
    const story = new Story({ f: file('1') });
    story.call(1, { f: uncovered('out-of-time') });
    story.look({ f: file('2') }, { flags: RowFlag.late });
    story.call(1, { f: file('3') });
    expect(said(plan(story))).toEqual(['f restore']);
    const newest = new Story({ f: file('1') });
    newest.call(1, { f: uncovered('out-of-time') });
    newest.look({ f: file('2') }, { flags: RowFlag.late });
    expect(plan(newest).entries[0]).toMatchObject({ action: 'restore', last: file('2') });
  });

  test('another session’s undo that came back to the last result is no conflict', () => {
    const story = new Story({ f: file('1') });
    story.call(1, { f: file('2') });
    const seq = story.call(2, { f: file('3') });
    expect(said(plan(story))).toEqual(['f refuse: changed-outside-session']);
    story.operate(2, 'undo', { f: file('2') }, { f: [seq, seq] });
    expect(said(plan(story))).toEqual(['f restore']);
  });
});

describe('the window of a turn', () => {
  const twoTurns = (second: Tree): { story: Story; window: [number, number] } => {
    const story = new Story({ f: file('1'), g: file('1') });
    const from = story.look();
    story.call(1, { f: file('2'), g: file('2') });
    const to = story.look();
    story.call(1, second);
    return { story, window: [from, to] };
  };

  test('takes the turn’s rows only', () => {
    const { story, window } = twoTurns({ h: file('new') });
    expect(said(plan(story, { window }))).toEqual(['f restore', 'g restore']);
  });

  test('a path with later owed rows: changed-between; overwrite takes those as well', () => {
    const { story, window } = twoTurns({ g: file('3') });
    expect(said(plan(story, { window }))).toEqual(['f restore', 'g refuse: changed-between']);
    const forced = plan(story, { window, onConflict: 'overwrite' });
    expect(said(forced)).toEqual(['f restore', 'g restore over changed-between']);
    expect(forced.entries[1]).toMatchObject({ target: file('1'), fromSeq: 4, toSeq: 7 });
  });

  test('later rows that were taken back don’t count', () => {
    const { story, window } = twoTurns({ g: file('3') });
    story.operate(1, 'undo', { g: file('2') }, { g: [7, 7] });
    expect(said(plan(story, { window }))).toEqual(['f restore', 'g restore']);
  });

  test('the newest turn has no end', () => {
    const { story, window } = twoTurns({ g: file('3') });
    expect(said(plan(story, { window: [window[1], null] }))).toEqual(['g restore']);
  });
});

describe('folders', () => {
  test('one that the session made goes with what it holds, and isn’t shown', () => {
    const story = new Story();
    story.call(1, { B: dir(), 'B/f1': file('1'), 'B/s': dir(), 'B/s/f2': file('2') });
    expect(said(plan(story))).toEqual(['(B delete)', 'B/f1 delete', '(B/s delete)', 'B/s/f2 delete']);
  });

  test('one that was made empty is shown', () => {
    const story = new Story();
    story.call(1, { B: dir() });
    expect(said(plan(story))).toEqual(['B delete']);
  });

  test('one that holds another’s file stays, and what the session put in it goes', () => {
    const story = new Story();
    story.call(1, { B: dir(), 'B/f1': file('1'), 'B/s': dir(), 'B/s/f2': file('2') });
    const disk = { 'B/s/mine': file('user') };
    expect(said(plan(story, { disk }))).toEqual([
      'B skip: not-empty',
      'B/f1 delete',
      'B/s skip: not-empty',
      'B/s/f2 delete',
    ]);
    expect(said(plan(story, { disk, onConflict: 'overwrite' }))[0]).toBe('B skip: not-empty');
  });

  test('one that keeps a refused path stays', () => {
    const story = new Story();
    story.call(1, { B: dir(), 'B/f1': file('1') });
    expect(said(plan(story, { disk: { 'B/f1': file('user') } }))).toEqual([
      'B skip: not-empty',
      'B/f1 refuse: changed-outside-session',
    ]);
  });

  test('one whose names can’t be read stays', () => {
    const story = new Story();
    story.call(1, { B: dir() });
    const disk = peeks(story.now, ['B']);
    const { names: _, ...unread } = disk.get(rel('B')) as Peek;
    disk.set(rel('B'), unread);
    const model = planRestore({ rows: story.attributed(1), disk, onConflict: 'refuse', uncoveredInodes: new Set() });
    expect(said(model)).toEqual(['B skip: not-empty']);
  });

  test('a removed one comes back with what it held; removed while empty, it is shown', () => {
    const story = new Story({ d: dir(0o700), 'd/f': file('1'), e: dir() });
    story.call(1, { d: absent, 'd/f': absent, e: absent });
    expect(said(plan(story))).toEqual(['(d recreate)', 'd/f recreate', 'e recreate']);
  });

  test('a changed mode is shown', () => {
    const story = new Story({ d: dir(0o755), 'd/f': file('1') });
    story.call(1, { d: dir(0o700), 'd/f': file('2') });
    expect(said(plan(story))).toEqual(['d restore', 'd/f restore']);
    expect(publicPlan(plan(story))[0]).toEqual({
      path: 'd',
      action: 'restore',
      expectedHash: 'dir',
      foundHash: 'dir',
      detail: 'mode 700 → 755',
    });
  });

  test('a link in a folder’s place gives way to the folder and what it held', () => {
    const story = new Story({ d: dir(), 'd/f': file('in'), 't.txt': file('in') });
    story.call(1, { d: link('../out'), 'd/f': absent, 't.txt': link('../out/t.txt') });
    expect(said(plan(story))).toEqual(['d restore', 'd/f recreate', 't.txt restore']);
    expect(publicPlan(plan(story))[0]).toMatchObject({ path: 'd', foundHash: 'symlink', detail: 'type symlink → dir' });
  });

  test('a folder in a file’s place gives way where the plan takes all that is in it', () => {
    const story = new Story({ d: file('1') });
    story.call(1, { d: dir(), 'd/f': file('2') });
    expect(said(plan(story))).toEqual(['d restore', 'd/f delete']);
  });

  test('else it is refused as not-empty, and the deletions below it still run', () => {
    const story = new Story({ d: file('1') });
    story.call(1, { d: dir(), 'd/f': file('2') });
    for (const onConflict of ['refuse', 'overwrite'] as const) {
      expect(said(plan(story, { disk: { 'd/mine': file('user') }, onConflict }))).toEqual([
        'd refuse: not-empty',
        'd/f delete',
      ]);
    }
  });

  test.each<[string, Tree]>([
    ['is gone', { d: absent }],
    ['is a file now', { d: file('user') }],
    ['is a link now', { d: link('elsewhere') }],
  ])('a path whose folder %s by another’s hand is refused, also on overwrite', (_, disk) => {
    const story = new Story({ d: dir(), 'd/f': file('1') });
    story.call(1, { 'd/f': absent });
    for (const onConflict of ['refuse', 'overwrite'] as const) {
      expect(said(plan(story, { disk, onConflict }))).toEqual(['d/f refuse: changed-outside-session']);
    }
  });

  test('what lies in a refused folder is refused for the same reason', () => {
    const story = new Story({ d: dir(), 'd/f': file('1') });
    story.begin(2, { paths: ['d'] });
    story.end(story.begin(1, { paths: ['d'] }), { d: absent, 'd/f': absent });
    expect(said(plan(story))).toEqual(['d refuse: contested', 'd/f refuse: contested']);
  });

  test('a folder isn’t removed under a path that the plan brings back', () => {
    const story = new Story();
    story.call(1, { B: dir() });
    story.look({ 'B/mine': file('user') });
    story.call(1, { 'B/mine': absent });
    expect(said(plan(story))).toEqual(['B skip: not-empty', 'B/mine recreate']);
  });

  test('made and removed again, it isn’t shown beside what it held', () => {
    const story = new Story();
    story.call(1, { B: dir(), 'B/f': file('1') });
    story.call(1, { B: absent, 'B/f': absent });
    expect(said(plan(story))).toEqual(['(B skip: already-matches)', 'B/f skip: already-matches']);
  });
});

describe('named paths', () => {
  const story = (): Story => {
    const out = new Story({ d: dir(), 'd/f': file('1'), 'd/g': file('1'), e: file('1') });
    out.call(1, {
      d: absent,
      'd/f': absent,
      'd/g': absent,
      e: file('2'),
      B: dir(),
      'B/x': file('1'),
      'B/y': file('1'),
    });
    return out;
  };

  test('a folder means all below it', () => {
    expect(said(plan(story(), { paths: ['d'] }))).toEqual(['(d recreate)', 'd/f recreate', 'd/g recreate']);
  });

  test('a path brings its owed folder along', () => {
    expect(said(plan(story(), { paths: ['d/f'] }))).toEqual(['(d recreate)', 'd/f recreate']);
  });

  test('a folder that the session made and that ends empty goes along, another stays out of the plan', () => {
    expect(said(plan(story(), { paths: ['B/x', 'B/y'] }))).toEqual(['(B delete)', 'B/x delete', 'B/y delete']);
    expect(said(plan(story(), { paths: ['B/x'] }))).toEqual(['B/x delete']);
  });

  test('a folder isn’t brought along as another type, nor against anybody’s change', () => {
    const linked = new Story({ d: dir(), 'd/f': file('in') });
    linked.call(1, { d: link('../out'), 'd/f': absent });
    const model = plan(linked, { paths: ['d/f'], onConflict: 'overwrite' });
    expect(said(model)).toEqual(['d/f refuse: changed-outside-session']);
    expect(model.entries[0]?.detail).toBe('its folder d is a symlink');
  });

  test('overwrite is for named paths: a folder that somebody changed isn’t brought along', () => {
    const made = new Story();
    made.call(1, { B: dir(), 'B/x': file('1') });
    const disk = { B: dir(0o700) };
    expect(said(plan(made, { paths: ['B/x'], disk, onConflict: 'overwrite' }))).toEqual(['B/x delete']);
    expect(said(plan(made, { disk, onConflict: 'overwrite' }))).toEqual([
      'B delete over changed-outside-session',
      'B/x delete',
    ]);
  });

  test('the root means all, and each path is named once', () => {
    expect(said(plan(story(), { paths: ['', 'e', 'e'] }))).toHaveLength(7);
    expect(said(plan(story(), { paths: ['q', 'q'] }))).toEqual(['q skip: not-attributed']);
  });
});

describe('special files', () => {
  test('one that the session made is moved aside', () => {
    expect(said(plan(changed(absent, fifo())))).toEqual(['f delete']);
  });

  test('one that it removed can’t be made again', () => {
    const model = plan(changed(fifo(), absent), { onConflict: 'overwrite' });
    expect(said(model)).toEqual(['f refuse: unsupported']);
    expect(planUncovered(model)).toEqual([{ path: 'f', reason: 'special' }]);
  });
});

describe('what callers see', () => {
  test('hashes of what the guard expects and of what was found', () => {
    const story = changed(file('1'), file('2'));
    expect(publicPlan(plan(story, { disk: { f: link('x') } }))).toEqual([
      {
        path: 'f',
        action: 'refuse',
        reason: 'changed-outside-session',
        expectedHash: `xxh3:32${'0'.repeat(30)}`,
        foundHash: 'symlink',
        detail: 'type file → symlink',
      },
    ]);
  });

  test('a mode-only change is told', () => {
    expect(publicPlan(plan(changed(file('1', 0o755), file('1', 0o644))))[0]).toMatchObject({
      action: 'restore',
      detail: 'mode 644 → 755',
    });
  });

  test('a shared window is told', () => {
    const story = new Story({ f: file('1') });
    story.begin(2);
    story.end(story.begin(1, { paths: ['f'] }), { f: file('2') });
    expect(publicPlan(plan(story))[0]).toMatchObject({ action: 'restore', detail: 'shared-window' });
  });

  test('refused as uncovered is named once more, with why', () => {
    expect(planUncovered(plan(changed(absent, uncovered('secret'))))).toEqual([{ path: 'f', reason: 'secret' }]);
  });

  test('entries for the backend hold what is on disk and what is to be there', () => {
    const story = new Story({ f: file('1'), g: file('1') });
    story.call(1, { f: file('2'), g: file('2') });
    const model = plan(story, { disk: { f: file('user'), g: file('1') }, onConflict: 'overwrite' });
    expect(applyEntries(model)).toEqual([{ path: 'f', expect: file('user'), target: file('1'), force: true }]);
    const plain = plan(story, { disk: { f: file('2'), g: file('2') }, onConflict: 'overwrite' });
    expect(applyEntries(plain)).toEqual([
      { path: 'f', expect: file('2'), target: file('1') },
      { path: 'g', expect: file('2'), target: file('1') },
    ]);
  });
});

describe('redo', () => {
  const undone = (): Story => {
    const story = new Story({ f: file('1'), d: dir(), 'd/x': file('1') });
    const seq = story.call(1, { f: file('2'), g: file('new'), d: absent, 'd/x': absent, B: dir(), 'B/y': file('1') });
    const back = { f: file('1'), g: absent, d: dir(), 'd/x': file('1'), B: absent, 'B/y': absent };
    story.operate(1, 'undo', back, Object.fromEntries(Object.keys(back).map((path) => [path, [seq, seq]])));
    return story;
  };
  const redo = (story: Story, disk: Tree = {}, onConflict: ConflictPolicy = 'refuse'): ModelPlan =>
    planRedo({
      taken: story.taken,
      rows: story.rows.filter((row) => row.seq === story.operations[0]?.seq),
      disk: peeks({ ...story.now, ...disk }, redoPeekPaths(story.taken)),
      onConflict,
    });

  test('gives exactly those paths back', () => {
    const model = redo(undone());
    expect(said(model)).toEqual([
      '(B recreate)',
      'B/y recreate',
      '(d delete)',
      'd/x delete',
      'f restore',
      'g recreate',
    ]);
    expect(model.entries.at(-1)).toMatchObject({ expect: absent, target: file('new'), fromSeq: 3, toSeq: 3 });
  });

  test('what changed since the undo is refused, and can be overwritten', () => {
    expect(said(redo(undone(), { f: file('user') }))[4]).toBe('f refuse: changed-outside-session');
    expect(said(redo(undone(), { f: file('user') }, 'overwrite'))[4]).toBe('f restore over changed-outside-session');
  });

  test('what is there already is settled', () => {
    expect(said(redo(undone(), { f: file('2') }))[4]).toBe('f skip: already-matches');
  });

  test('a folder that holds another’s file by now stays', () => {
    expect(said(redo(undone(), { 'd/mine': file('user') })).slice(2, 4)).toEqual(['d skip: not-empty', 'd/x delete']);
  });

  test('a path that the undo found as it should be is given back without a write', () => {
    const story = new Story({ f: file('1') });
    const seq = story.call(1, { f: file('2') });
    story.look({ f: file('1') });
    story.operate(1, 'undo', {}, { f: [seq, seq] });
    expect(said(redo(story, { f: file('user') }))).toEqual(['f skip: already-matches']);
  });

  test('of a special file that the undo moved aside: unsupported', () => {
    const story = new Story();
    const seq = story.call(1, { p: fifo() });
    story.operate(1, 'undo', { p: absent }, { p: [seq, seq] });
    expect(said(redo(story))).toEqual(['p refuse: unsupported']);
  });

  test('paths that were given back are passed over', () => {
    const story = undone();
    story.redo(1, 'op1', { f: file('2') }, ['f', 'g', 'd', 'd/x']);
    expect(said(redo(story))).toEqual(['(B recreate)', 'B/y recreate']);
  });
});

test('a disk that lacks an owed path is a bug of the caller', () => {
  const rows = changed(file('1'), file('2')).attributed(1);
  expect(() => planRestore({ rows, disk: new Map(), onConflict: 'refuse', uncoveredInodes: new Set() })).toThrow(
    'a plan lacks what is on disk at f',
  );
});

test('a plan asks for its paths and the folders above them', () => {
  const story = new Story({ a: dir(), 'a/b': dir() });
  story.call(1, { 'a/b/f': file('1'), g: file('1') });
  expect(peekPaths({ rows: story.attributed(1) })).toEqual(['a', 'a/b', 'a/b/f', 'g']);
  expect(peekPaths({ rows: story.attributed(1), paths: [rel('g'), rel('x/y')] })).toEqual(['g', 'x', 'x/y']);
});

test('the token changes with what is on disk, and not with rows that change nothing', () => {
  const story = changed(file('1'), file('2'));
  const before = Buffer.from(tokenBytes(plan(story))).toString('hex');
  story.look({ g: file('user') });
  expect(Buffer.from(tokenBytes(plan(story))).toString('hex')).toBe(before);
  expect(Buffer.from(tokenBytes(plan(story, { disk: { f: file('2', 0o600) } }))).toString('hex')).not.toBe(before);
});

describe('properties', () => {
  const PATHS = ['d', 'd/f', 'd/e', 'd/e/g', 'f', 'g'];
  const version = fc.constantFrom<Version>(
    absent,
    file('1'),
    file('2'),
    file('1', 0o755),
    dir(),
    link('x'),
    fifo(),
    uncovered('secret'),
  );
  const change = fc.dictionary(fc.constantFrom(...PATHS), version, { maxKeys: 3 });
  const step = fc.record({
    kind: fc.constantFrom('call', 'nest', 'open', 'look'),
    session: fc.integer({ min: 1, max: 2 }),
    change,
  });
  const world = fc.record({
    steps: fc.array(step, { maxLength: 8 }),
    disk: change,
    onConflict: fc.constantFrom<ConflictPolicy>('refuse', 'overwrite'),
    paths: fc.option(fc.uniqueArray(fc.constantFrom(...PATHS, ''), { minLength: 1, maxLength: 2 }), { nil: undefined }),
  });

  function told(steps: { kind: string; session: number; change: Tree }[]): Story {
    const story = new Story({ d: dir(), 'd/f': file('1'), f: file('1') });
    for (const { kind, session, change: found } of steps) {
      if (kind === 'call') story.call(session, found);
      if (kind === 'nest') story.end(story.begin(session, { parent: story.calls.length || 1 }), found);
      if (kind === 'open') story.begin(session, { found });
      if (kind === 'look') story.look(found);
    }
    return story;
  }

  test('a plan holds each path once, in order, and none that the session does not owe', () => {
    fc.assert(
      fc.property(world, ({ steps, paths, ...ask }) => {
        const story = told(steps);
        const model = plan(story, { ...ask, ...(paths === undefined ? {} : { paths }) });
        const names = model.entries.map((entry) => entry.path);
        expect(names).toEqual([...new Set(names)].sort(comparePaths));
        const owed = new Set(
          story
            .attributed(1)
            .filter((row) => row.owed)
            .map((row) => row.path),
        );
        for (const { path, reason } of model.entries) {
          if (reason === 'not-attributed') expect([...owed].filter((p) => isWithin(p, path))).toEqual([]);
          else expect(owed).toContain(path);
        }
        if (paths === undefined) expect(names).toEqual([...owed].sort(comparePaths));
      }),
      { numRuns: 300 },
    );
  });

  test('the token is the same whatever order the rows come in', () => {
    fc.assert(
      fc.property(
        world,
        fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })),
        ({ steps, disk, onConflict }, order) => {
          const rows = told(steps).attributed(1);
          const shuffled = rows
            .map((row) => ({ row, at: order.next().value }))
            .sort((a, b) => a.at - b.at)
            .map(({ row }) => row);
          const input = { disk: peeks(disk, peekPaths({ rows })), onConflict, uncoveredInodes: new Set<bigint>() };
          expect(tokenBytes(planRestore({ ...input, rows: shuffled }))).toEqual(
            tokenBytes(planRestore({ ...input, rows })),
          );
        },
      ),
      { numRuns: 200 },
    );
  });

  test('on refuse, a plan writes only where the disk is the session’s last result, and never what nobody keeps', () => {
    fc.assert(
      fc.property(world, ({ steps, disk, onConflict }) => {
        const model = plan(told(steps), { disk, onConflict });
        for (const entry of model.entries) {
          if (entry.action === 'skip' || entry.action === 'refuse') continue;
          if (onConflict === 'refuse') expect(entry.expect).toEqual(entry.last);
          expect(entry.target.kind).not.toBe('uncovered');
          expect(entry.target.kind).not.toBe('special');
          expect(entry.expect.kind).not.toBe('uncovered');
        }
      }),
      { numRuns: 300 },
    );
  });

  test('what a plan leaves on disk is a tree: nothing without a folder, no folder gone with something in it', () => {
    fc.assert(
      fc.property(world, ({ steps, disk, onConflict }) => {
        const story = told(steps);
        const before = tidy({ ...story.now, ...disk });
        const rows = story.attributed(1);
        const input = { disk: peeks(before, peekPaths({ rows })), onConflict, uncoveredInodes: new Set<bigint>() };
        const after: Tree = { ...before };
        for (const { path, target } of applyEntries(planRestore({ ...input, rows }))) after[path] = target;
        expect(tidy(after)).toEqual(Object.fromEntries(Object.entries(after).filter(([, v]) => v.kind !== 'absent')));
      }),
      { numRuns: 500 },
    );
  });

  /** The tree without what lies in no folder. */
  function tidy(tree: Tree): Tree {
    const present = Object.entries(tree).filter(([, v]) => v.kind !== 'absent');
    const holds = (path: string): boolean =>
      path
        .split('/')
        .slice(0, -1)
        .every((_, i, parts) => tree[parts.slice(0, i + 1).join('/')]?.kind === 'dir');
    return Object.fromEntries(present.filter(([path]) => holds(path)));
  }
});
