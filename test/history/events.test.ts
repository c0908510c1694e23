/** What listeners hear of changed files: each change once, moves as one, with a patch of its own. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { FileChangedEvent, FileChangedMoreEvent } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

interface Heard {
  readonly events: FileChangedEvent[];
  readonly more: FileChangedMoreEvent[];
  /** What came since the last take: `change path`, with `from`, call and thread where they are told. */
  take(): string[];
}

function listen(story: Story): Heard {
  const events: FileChangedEvent[] = [];
  const more: FileChangedMoreEvent[] = [];
  story.workspace.on('fileChanged', (event) => events.push(event));
  story.workspace.on('fileChangedMore', (event) => more.push(event));
  let taken = 0;
  const take = (): string[] => {
    const fresh = events.slice(taken);
    taken = events.length;
    return fresh.map(({ change, path, from, toolCallId }) =>
      [change, path, from && `from ${from}`, toolCallId && `by ${toolCallId}`].filter(Boolean).join(' '),
    );
  };
  return { events, more, take };
}

describeBackends('events', (backend) => {
  test('each file that a call changed has an event with its patch and the id of the call', async () => {
    await using story = await Story.begin(backend, 'echo a >a; echo b >b; seq 20 >c; printf "0\\0" >bin');
    const heard = listen(story);
    await story.cp('1');
    await story.t('echo more >>a; rm b; mv c d; echo new >n; printf "1\\0" >bin');
    expect(heard.take()).toEqual([
      'updated a by call-1',
      'deleted b by call-1',
      'updated bin by call-1',
      'moved d from c by call-1',
      'created n by call-1',
    ]);
    const [a, b, bin, d, n] = heard.events.map(({ patch }) => patch ?? '');
    expect(a).toMatch(/^diff --git a\/a b\/a\nindex [0-9a-f]{40}\.\.[0-9a-f]{40} 100644\n--- a\/a\n/);
    expect(a).toContain('+++ b/a\n@@ -1 +1,2 @@\n a\n+more\n');
    expect(b).toContain('deleted file mode 100644');
    expect(bin).toContain('GIT binary patch');
    expect(d).toBe('diff --git a/c b/d\nsimilarity index 100%\nrename from c\nrename to d\n');
    expect(n).toContain('new file mode 100644');
    expect(heard.events.every(({ threadId, tenantId }) => threadId === 's1' && tenantId === undefined)).toBe(true);
  });

  test('undo, redo and restore tell what they wrote, with no call, and a move as a move', async () => {
    await using story = await Story.begin(backend, 'seq 20 >c; echo a >a');
    const heard = listen(story);
    await story.cp('1');
    await story.t('mkdir d; mv c d/; echo more >>a');
    heard.take();
    const undo = got(await story.session().undo());
    expect(heard.take()).toEqual(['updated a', 'moved c from d/c']);
    expect(heard.events.slice(-2).map(({ operationId }) => operationId)).toEqual(
      new Array(2).fill(undo.receipt?.operationId),
    );
    expect(heard.events.at(-1)?.patch).toContain('rename from d/c\nrename to c\n');
    await story.redo();
    expect(heard.take()).toEqual(['updated a', 'moved d/c from c']);
    await story.undo('1');
    expect(heard.take()).toEqual(['updated a', 'moved c from d/c']);
  });

  test('the patches of the events make a copy of the files follow', async () => {
    await using story = await Story.begin(backend, 'seq 40 >a; mkdir d; seq 50 90 >d/b; echo k >d/k; echo x >c');
    const { space } = story;
    space.sh('cp -a w home/copy', { cwd: space.base });
    story.workspace.on('fileChanged', ({ patch }) => {
      const env = { ...space.env, GIT_CEILING_DIRECTORIES: space.base };
      execFileSync('git', ['apply', '-'], { cwd: join(space.base, 'home', 'copy'), input: patch ?? '', env });
    });
    await story.cp('1');
    await story.t(
      'echo new >>a; mv d/b d/e; printf "0\\0" >bin',
      'sed -i 3d a; sed -i 5d d/e; mv d/e "e e"; rm c; chmod 755 a',
    );
    const same = (): string => space.sh('diff -r w home/copy && echo same', { cwd: space.base });
    expect(same()).toBe('same\n');
    await story.undo('1');
    expect(same()).toBe('same\n');
    await story.redo();
    expect(same()).toBe('same\n');
  });

  test('an undo that writes nothing sends no event', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    await story.t('echo more >>a');
    story.u('echo mine >>a');
    const heard = listen(story);
    expect(got(await story.session().undo()).outcome).toBe('nothing');
    expect(heard.take()).toEqual([]);
  });

  test('of two calls that were open at once none is named, and each change is told once', async () => {
    await using story = await Story.begin(backend, 'echo a >a; echo b >b');
    const heard = listen(story);
    await story.cp('1');
    const session = story.session();
    await session.beginCall('x');
    story.u('echo 1 >>a');
    await session.beginCall('y');
    story.u('echo 2 >>b');
    await session.endCall('y');
    expect(heard.take()).toEqual(['updated a by x', 'updated b']);
    story.u('echo 3 >>b');
    await session.endCall('x');
    expect(heard.take()).toEqual(['updated b by x']);
    expect(heard.events.at(-1)?.patch).toContain('@@ -1,2 +1,3 @@\n b\n 2\n+3\n');
  });

  test('a call that declared its paths is named for them, and the shell call beside it for the rest', async () => {
    await using story = await Story.begin(backend, 'echo a >a; echo b >b');
    const heard = listen(story);
    await story.cp('1');
    const session = story.session();
    await session.beginCall('shell');
    await session.beginCall('edit', { paths: ['a'] });
    story.u('echo 1 >>a; echo 2 >>b');
    await session.endCall('edit');
    await session.endCall('shell');
    expect(heard.take()).toEqual(['updated a by edit', 'updated b by shell']);
  });

  test('what the user changed between calls has no event', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    const heard = listen(story);
    await story.cp('1');
    await story.t('echo 1 >>a');
    heard.take();
    story.u('echo mine >m');
    await story.t('echo 2 >>a');
    expect(heard.take()).toEqual(['updated a by call-2']);
  });

  test('a change that two sessions could have made is told to both, and names no call', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    const heard = listen(story);
    const [one, two] = [story.session('one'), story.workspace.session({ threadId: 'two', tenantId: 't' })];
    await story.cp('1', { session: one });
    await story.cp('1', { session: two });
    await one.beginCall('x');
    await two.beginCall('y');
    story.u('echo 1 >>a');
    await one.endCall('x');
    await two.endCall('y');
    expect(heard.events.map(({ threadId, tenantId, toolCallId }) => [threadId, tenantId, toolCallId])).toEqual([
      ['one', undefined, undefined],
      ['two', 't', undefined],
    ]);
  });

  test('100 events by default, then one that tells the total', async () => {
    await using story = await Story.begin(backend, '');
    const heard = listen(story);
    await story.cp('1');
    await story.t('for i in $(seq 1000 1149); do echo $i >$i; done');
    expect(heard.events).toHaveLength(100);
    expect(heard.events.at(-1)?.path).toBe('1099');
    expect(heard.more).toEqual([{ threadId: 's1', total: 150, toolCallId: 'call-1' }]);
    await story.undo('1');
    expect(heard.events).toHaveLength(200);
    expect(heard.more.map(({ total }) => total)).toEqual([150, 150]);
  });

  test('maxFileEvents limits the events', async () => {
    await using story = await Story.begin(backend, '', { open: { maxFileEvents: 2 } });
    const heard = listen(story);
    await story.cp('1');
    await story.t('touch a b', 'touch c d e');
    expect(heard.take()).toEqual([
      'created a by call-1',
      'created b by call-1',
      'created c by call-2',
      'created d by call-2',
    ]);
    expect(heard.more.map(({ total }) => total)).toEqual([3]);
  });

  test('no event for .env files and for the files that .gitignore names', async () => {
    await using story = await Story.begin(backend, 'echo "out/" >.gitignore; echo S=1 >.env; mkdir out');
    const heard = listen(story);
    await story.cp('1');
    await story.t('echo S=2 >.env; echo x >out/x; echo y >y');
    expect(heard.take()).toEqual(['created y by call-1']);
  });

  test('a file over 1 MiB has an event without a patch', async () => {
    await using story = await Story.begin(backend, '');
    const heard = listen(story);
    await story.cp('1');
    await story.t('head -c 1100000 /dev/zero | tr "\\0" "x" >large');
    expect(heard.take()).toEqual(['created large by call-1']);
    expect(heard.events[0]).not.toHaveProperty('patch');
  });

  test('a listener that throws, or calls the session, disturbs nothing', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    const heard = listen(story);
    const asked: Promise<unknown>[] = [];
    story.workspace.on('fileChanged', () => {
      asked.push(story.session().timeline());
      throw new Error('listener');
    });
    await story.cp('1');
    expect(await story.t('echo 1 >>a')).toHaveLength(1);
    await Promise.all(asked);
    expect(heard.take()).toEqual(['updated a by call-1']);
  });

  test('nobody is told while nobody listens, and what was missed is not told later', async () => {
    await using story = await Story.begin(backend, 'echo a >a');
    await story.cp('1');
    await story.t('echo 1 >>a');
    const heard = listen(story);
    await story.t('echo b >b');
    expect(heard.take()).toEqual(['created b by call-2']);
  });
});
