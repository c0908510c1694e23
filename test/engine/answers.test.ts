/** What callers are answered (API §1): unavailable states are values, misuse is thrown with a code. */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Walker } from '../../src/backend/portable/resolve.ts';
import { unavailableOf } from '../../src/engine/answers.ts';
import { TakebackError } from '../../src/errors.ts';
import { openWorkspace } from '../../src/index.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { Space } from '../kit/space.ts';
import { got, Story } from '../kit/story.ts';

test('a fault that knows its path tells it, once', () => {
  const fault = (message: string) => new TakebackError('ERR_IO', message, { path: asRelPath('src/a.ts') });
  const told = 'reading or writing failed: open a file: Too many open files';
  expect(unavailableOf(fault('open a file: Too many open files'))?.detail).toBe(`${told} (at ./src/a.ts)`);
  expect(unavailableOf(fault('open src/a.ts: no'))?.detail).toBe('reading or writing failed: open src/a.ts: no');
});

test('a root that can’t be opened is named by the portable backend', async () => {
  await using space = new Space();
  const walker = new Walker(space.root);
  renameSync(space.root, `${space.root}-away`);
  expect(() => walker.openRoot()).toThrow(`the root ${space.root} can't be opened: `);
});

describeBackends('opening', (backend) => {
  test.each([
    ['a relative root', 'w', 'ERR_INVALID_ARGUMENT'],
    ['an empty root', '', 'ERR_INVALID_ARGUMENT'],
    ['a root with a NUL', '/tmp/\0x', 'ERR_INVALID_ARGUMENT'],
  ])('%s is thrown', async (_, root, code) => {
    await expect(openWorkspace({ root, backend })).rejects.toMatchObject({ name: 'TakebackError', code });
  });

  test('options of the wrong form are thrown, and the message names the key', async () => {
    await using space = new Space();
    const bad: [object, string][] = [
      [{ bakend: 'auto' }, 'bakend'],
      [{ backend: 'rust' }, 'backend'],
      [{ limits: { maxFileBytes: -1 } }, 'limits.maxFileBytes'],
      [{ retention: { maxAgeDays: Number.NaN } }, 'retention.maxAgeDays'],
      [{ exclude: 'x' }, 'exclude'],
      [{ dataDir: 'relative' }, 'dataDir'],
    ];
    for (const [options, key] of bad) {
      await expect(openWorkspace({ root: space.root, ...options } as never), key).rejects.toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringContaining(key),
      });
    }
  });

  test('a root that is missing, a file, protected or whose path goes through a file is an answer, and so is each method', async () => {
    await using space = new Space();
    space.write('file', 'x');
    const { HOME } = process.env;
    const cases: [string, string][] = [
      [join(space.base, 'nope'), 'root-missing'],
      [join(space.root, 'file'), 'not-a-directory'],
      [join(space.root, 'file', 'x'), 'not-a-directory'],
      ['/', 'protected-root'],
      [HOME as string, 'protected-root'],
    ];
    for (const [root, reason] of cases) {
      const workspace = await openWorkspace({ root, dataDir: space.dataDir, backend });
      expect(workspace, root).toMatchObject({ available: false, reason, detail: expect.stringContaining(root) });
      const session = workspace.session({ threadId: 's' });
      const answers = [
        session.capture('a'),
        session.beginCall('c'),
        session.plan('a'),
        session.restore('a'),
        session.undo(),
        session.redo(),
        session.timeline(),
        session.drop(),
        workspace.stats(),
        workspace.verify(),
        workspace.gc(),
        workspace.sessions(),
        workspace.capabilities(),
      ];
      for (const answer of answers) expect(await answer).toMatchObject({ available: false, reason });
      await workspace.close();
    }
  });

  test('a protected root opens when it is allowed', async () => {
    await using space = new Space();
    const kept = process.env.HOME;
    process.env.HOME = space.root;
    try {
      const open = { root: space.root, dataDir: space.dataDir, backend };
      expect(await openWorkspace(open)).toMatchObject({ available: false, reason: 'protected-root' });
      mkdirSync(join(space.root, 'Documents'));
      expect(await openWorkspace({ ...open, root: join(space.root, 'Documents') })).toMatchObject({
        reason: 'protected-root',
      });
      await using workspace = await openWorkspace({ ...open, allowProtectedRoot: true });
      expect(workspace.available).toBe(true);
    } finally {
      process.env.HOME = kept;
    }
  });

  test('every spelling of a root is one workspace: links, dots, a trailing slash', async () => {
    await using space = new Space();
    symlinkSync(space.root, join(space.base, 'link'));
    space.write('f', '1\n');
    const spellings = [space.root, `${space.root}/`, `${space.root}/../w/.`, join(space.base, 'link')];
    const open = [];
    for (const root of spellings)
      open.push(await openWorkspace({ root, dataDir: space.dataDir, backend, durability: 'fast' }));
    expect(new Set(open.map((workspace) => workspace.root))).toEqual(new Set([space.root]));
    got(await (open[0] as (typeof open)[0]).session({ threadId: 's' }).capture('a'));
    const infos = got(await (open[3] as (typeof open)[0]).sessions()).sessions;
    expect(infos.map((info) => info.threadId)).toEqual(['s']);
    await open[0]?.close();
    expect(await open[0]?.session({ threadId: 's' }).capture('b')).toMatchObject({
      available: false,
      reason: 'closed',
    });
    expect(
      got(await (open[1] as (typeof open)[0]).session({ threadId: 's' }).capture('b')).complete,
      'the others stay open',
    ).toBe(true);
    for (const workspace of open) await workspace.close();
  });

  test('opening writes nothing into the root', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; touch -d 2020-01-01 f .');
    got(await story.workspace.capabilities());
    await story.cp('a');
    expect(story.space.sh('ls -A; stat -c %Y .')).toBe('f\n1577836800\n');
  });
});

describeBackends('sessions', (backend) => {
  test('before the first capture a call, a plan and a restore say no-checkpoint; lists are empty', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const session = story.session();
    const none = { available: false, reason: 'no-checkpoint' };
    expect(await session.beginCall('c')).toMatchObject(none);
    expect(await session.endCall('c'), 'its end answers the same').toMatchObject(none);
    expect(await session.plan('a')).toMatchObject(none);
    expect(await session.restore('a')).toMatchObject(none);
    expect(await session.turnChanges('a')).toMatchObject(none);
    expect(got(await session.undo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to undo.' });
    expect(got(await session.redo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to redo.' });
    expect(got(await session.timeline()).items).toEqual([]);
    await story.cp('a', { session: story.session('other') });
    expect(await session.beginCall('c'), 'another session’s checkpoint is not its own').toMatchObject(none);
  });

  test('a call() whose checkpoint is missing runs all the same', async () => {
    await using story = await Story.begin(backend, '');
    const result = await story.session().call('c', {}, () => 42);
    expect([result.value, result.begin.available, result.end.available]).toEqual([42, false, false]);
  });

  test('call() ends when its work throws, and throws that again', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    const boom = story.session().call('c', { tool: 'x' }, () => {
      story.space.write('f', '2\n');
      throw new Error('boom');
    });
    await expect(boom).rejects.toThrow('boom');
    const [, call] = got(await story.session().timeline()).items;
    expect(call).toMatchObject({
      type: 'call',
      callId: 'c',
      tool: 'x',
      state: 'ended',
      isError: true,
      files: { modified: 1 },
    });
  });

  test('unknown and duplicate ids, ended calls, and reuse of an ended id', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const session = story.session();
    await story.cp('a');
    for (const ask of [
      session.plan('nope'),
      session.restore('nope'),
      session.undo({ boundaryId: 'nope' }),
      session.turnChanges('nope'),
      session.callChanges('nope'),
    ])
      expect(await ask).toMatchObject({ available: false, reason: 'unknown-boundary' });
    await expect(session.capture('a')).rejects.toMatchObject({ code: 'ERR_DUPLICATE_BOUNDARY' });
    const first = got(await session.beginCall('c'));
    await expect(session.beginCall('c')).rejects.toMatchObject({ code: 'ERR_DUPLICATE_CALL' });
    got(await session.endCall('c'));
    await expect(session.endCall('c')).rejects.toMatchObject({ code: 'ERR_UNKNOWN_CALL' });
    await expect(session.endCall('never')).rejects.toMatchObject({ code: 'ERR_UNKNOWN_CALL' });
    await expect(session.beginCall('d', { parentCallId: 'never' })).rejects.toMatchObject({ code: 'ERR_UNKNOWN_CALL' });
    const second = got(await session.beginCall('c'));
    expect(second.invocation).toBeGreaterThan(first.invocation);
    got(await session.endCall('c'));
    await story.cp('a', { session: story.session('other') });
  });

  test('ids are any text: spaces, slashes, quotes, emoji, lone surrogates, 1,024 characters; not empty, not longer, no NUL', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    for (const id of ["a b/../c'; DROP TABLE rows; --", '🚀', '\ud800', 'x'.repeat(1024), '__proto__', '%s']) {
      await story.cp(id);
      await story.t('echo $RANDOM >f');
      expect((await story.undo(id)).boundaryId).toBe(id);
    }
    for (const id of ['', 'x'.repeat(1025), 'a\0b', 7, null])
      await expect(story.session().capture(id as string)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  test('paths are literal and normal: folders mean all below, what isn’t owed is said, empty lists are thrown', async () => {
    await using story = await Story.begin(
      backend,
      "mkdir -p d/e '*'; for f in a d/x d/e/y '*/s' u; do echo 1 >$f; done",
    );
    await story.cp('a');
    await story.t('for f in a d/x d/e/y \'*/s\'; do echo 2 >"$f"; done');
    story.u('echo 2 >u');
    const session = story.session();
    await expect(session.plan('a', { paths: [] })).rejects.toMatchObject({ code: 'ERR_EMPTY_PATHS' });
    await expect(session.restore('a', { paths: [] })).rejects.toMatchObject({ code: 'ERR_EMPTY_PATHS' });
    await expect(session.plan('a', { paths: [''] })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await expect(session.plan('a', { paths: ['a\0'] })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    const asked = await story.undo('a', { paths: ['*', './d//e/', 'u', 'never'] });
    expect(digest(asked)).toMatchObject({
      restored: { '*/s': 'restore', 'd/e/y': 'restore' },
      skipped: { never: 'not-attributed', u: 'not-attributed' },
    });
    expect(story.space.sh('cat a d/x')).toBe('2\n2\n');
    expect(digest(await story.undo('a', { paths: [story.space.root] })).restored, 'the root means all').toEqual({
      a: 'restore',
      'd/x': 'restore',
    });
  });

  test('a plan’s token binds it: a change of the disk makes it stale, and nothing is written', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; echo 1 >g');
    await story.cp('a');
    await story.t('echo 2 >f; echo 2 >g');
    const { token } = await story.plan('a');
    expect((await story.plan('a')).token).toBe(token);
    story.u('echo 3 >g');
    expect(await story.session().restore('a', { planToken: token })).toMatchObject({
      available: false,
      reason: 'stale-plan',
    });
    expect(story.space.sh('cat f g')).toBe('2\n3\n');
    const again = await story.plan('a');
    expect(digest(await story.undo('a', { planToken: again.token }))).toMatchObject({ outcome: 'partial' });
  });

  test('irreversible calls after the boundary are listed, by invocation', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const session = story.session();
    await story.cp('a');
    got(await session.beginCall('n'));
    got(await session.endCall('n', { sideEffect: 'network' }));
    got(await session.beginCall('r'));
    got(await session.endCall('r', { sideEffect: 'network_read' }));
    await story.cp('b');
    const second = got(await session.beginCall('n'));
    got(await session.endCall('n', { sideEffect: 'desktop_control' }));
    expect((await story.plan('b')).irreversible).toEqual([
      { callId: 'n', invocation: second.invocation, sideEffect: 'desktop_control' },
    ]);
    expect((await story.plan('a')).irreversible.map((i) => i.sideEffect)).toEqual(['network', 'desktop_control']);
    got(await session.beginCall('bad'));
    await expect(session.endCall('bad', { sideEffect: 'magic' as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
    });
  });

  test('a signal that was aborted before is thrown as cancelled by every method that takes one, and nothing moves', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('echo 2 >f');
    const signal = AbortSignal.abort();
    const session = story.session();
    const asks = [
      () => session.capture('b', { signal }),
      () => session.beginCall('c', { signal }),
      () => session.plan('a', { signal }),
      () => session.restore('a', { signal }),
      () => session.undo({ signal }),
      () => session.redo({ signal }),
    ];
    for (const ask of asks) await expect(ask()).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    expect(story.space.read('f')).toBe('2\n');
    expect((await story.undo('a')).outcome).toBe('done');
  });

  test('a capture that is cancelled in the middle leaves no lock, and the next one is whole', async () => {
    await using story = await Story.begin(backend, 'for i in $(seq 3000); do echo $i >f$i; done');
    for (const delay of [0, 1, 3, 8]) {
      const abort = new AbortController();
      const capture = story.session().capture(`b${delay}`, { signal: abort.signal });
      setTimeout(() => abort.abort(), delay);
      await capture.then(
        (result) => expect(result.available).toBe(true),
        (error) => expect(error).toMatchObject({ code: 'ERR_CANCELLED' }),
      );
    }
    expect((await story.cp('whole')).complete).toBe(true);
    expect(got(await story.workspace.verify()).ok).toBe(true);
  });

  test('a restore that is cancelled in the middle says which paths it wrote, and each file is whole', async () => {
    await using story = await Story.begin(backend, 'for i in $(seq 400); do echo old >f$i; done');
    await story.cp('a');
    await story.t('for i in $(seq 400); do echo new >f$i; done');
    const abort = new AbortController();
    const restoring = story.session().restore('a', {
      signal: abort.signal,
      onProgress: ({ phase }) => {
        if (phase === 'apply') abort.abort();
      },
    });
    const result = await restoring.catch((error: { code: string }) => error.code);
    expect(
      story.space
        .sh('cat f* | sort -u | tr "\\n" " "')
        .trim()
        .split(' ')
        .every((word) => word === 'old' || word === 'new'),
    ).toBe(true);
    if (typeof result === 'string') expect(result).toBe('ERR_CANCELLED');
    else for (const { path } of got(result).restored) expect(story.space.read(path)).toBe('old\n');
    expect((await story.undo('a')).outcome).not.toBe('partial');
    expect(story.space.sh('cat f* | sort -u')).toBe('old\n');
  });

  test('progress is told, in files that never fall', async () => {
    await using story = await Story.begin(backend, 'for i in $(seq 2000); do echo $i >f$i; done');
    const seen: { phase: string; done: number }[] = [];
    await story.cp('a', { onProgress: (progress) => seen.push(progress) });
    const ingest = seen.filter(({ phase }) => phase === 'ingest').map(({ done }) => done);
    expect(ingest).toEqual([...ingest].sort((a, b) => a - b));
  });

  test('a closed workspace answers closed, twice', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    const session = story.session();
    await story.workspace.close();
    await story.workspace.close();
    for (const ask of [session.capture('b'), session.plan('a'), story.workspace.stats(), story.workspace.gc()])
      expect(await ask).toMatchObject({ available: false, reason: 'closed' });
    expect(story.workspace).toMatchObject({ available: false, reason: 'closed' });
  });

  test('work that close finds waiting answers closed, and work that runs ends whole', async () => {
    await using story = await Story.begin(backend, 'for i in $(seq 500); do echo $i >f$i; done');
    const session = story.session();
    let running = () => {};
    const started = new Promise<void>((resolve) => {
      running = resolve;
    });
    const first = session.capture('a', { onProgress: running });
    const second = session.capture('b');
    await Promise.race([started, first]);
    await story.workspace.close();
    expect(await first).toMatchObject({ available: true, complete: true });
    expect(await second).toMatchObject({ available: false, reason: 'closed' });
  });

  test('a root that came back with another inode is adopted where that is asked for', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('echo 2 >f');
    await story.workspace.close();
    const { root } = story.space;
    renameSync(root, `${root}-old`);
    mkdirSync(root);
    writeFileSync(join(root, 'f'), '2\n');
    rmSync(`${root}-old`, { recursive: true });
    await story.reopen();
    const answer = await story.session().restore('a');
    await story.reopen({ adoptRoot: true });
    if (!answer.available) expect(answer.reason).toBe('root-changed');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore' } });
  });

  test('events tell of every change, of operations too, and one total beyond the bound', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f; echo 1 >gone');
    const events: unknown[] = [];
    const off = story.workspace.on('fileChanged', ({ change, path, threadId, toolCallId }) =>
      events.push([change, path, threadId, toolCallId !== undefined]),
    );
    story.workspace.on('fileChangedMore', ({ total }) => events.push(['more', total]));
    story.workspace.on('fileChanged', () => {
      throw new Error('a listener’s fault is its own');
    });
    await story.cp('a');
    await story.t('echo 2 >f; rm gone; echo n >new');
    await story.undo('a');
    expect(events).toEqual([
      ['updated', 'f', 's1', true],
      ['deleted', 'gone', 's1', true],
      ['created', 'new', 's1', true],
      ['updated', 'f', 's1', false],
      ['created', 'gone', 's1', false],
      ['deleted', 'new', 's1', false],
    ]);
    events.length = 0;
    await story.t('for i in $(seq 130); do echo 1 >m$i; done');
    expect(events.length).toBe(101);
    expect(events.at(-1)).toEqual(['more', 130]);
    off();
    await story.t('echo 5 >f');
    expect(events.length).toBe(101);
  });

  test('snapshotFailed is told when a turn goes on unrecorded', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const failed: string[] = [];
    story.workspace.on('snapshotFailed', ({ reason }) => failed.push(reason));
    await story.session().beginCall('c');
    expect(failed).toEqual(['no-checkpoint']);
  });
});
