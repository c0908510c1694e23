/** What `drop` leaves of a session to the others: nothing that passes for theirs, and nothing that keeps them from work. */
import { renameSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('drop', (backend) => {
  test('what it had declared beside another session’s open call is not the other’s', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [one, two] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: one });
    await story.cp('b', { session: two });
    got(await one.beginCall('c1', { paths: ['f', 'made'] }));
    got(await two.beginCall('c2'));
    story.space.sh('echo 2 >f; echo 2 >made; echo 2 >other');
    got(await one.endCall('c1'));
    got(await two.endCall('c2'));
    got(await one.drop());
    expect(got(await two.undo())).toMatchObject({ outcome: 'done', receipt: { restored: [{ path: 'other' }] } });
    expect(story.space.sh('cat f made; ls | tr "\\n" " "')).toBe('2\n2\nf made ');
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('who still holds a session that somebody else dropped and began anew goes on in the new one', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [held, other] = [story.session('s1'), story.session('s1')];
    await story.cp('a', { session: held });
    got(await other.drop());
    await expect(held.endCall('c0')).rejects.toMatchObject({ code: 'ERR_UNKNOWN_CALL' });
    expect(await held.beginCall('c1')).toMatchObject({ available: false, reason: 'no-checkpoint' });
    await story.cp('a', { session: other });
    got(await held.beginCall('c2'));
    story.space.sh('echo 2 >f');
    got(await held.endCall('c2'));
    got(await other.drop());
    await story.cp('b', { session: held });
    expect(got(await held.timeline()).items).toHaveLength(1);
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('who still holds it, where it keeps its number for calls of others, records under its own name', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [held, other, two] = [story.session('s1'), story.session('s1'), story.session('s2')];
    await story.cp('a', { session: held });
    await story.cp('b', { session: two });
    got(await held.beginCall('c1'));
    got(await two.beginCall('c2'));
    story.space.sh('echo 2 >f');
    got(await held.endCall('c1'));
    got(await two.endCall('c2'));
    got(await other.drop());
    await story.cp('c', { session: held });
    await story.turnOf(held, 'echo 3 >g');
    expect(got(await held.timeline()).items.filter(({ type }) => type === 'boundary')).toHaveLength(1);
    expect(got(await held.undo()).outcome).toBe('done');
    expect(story.space.sh('ls')).toBe('f\n');
    got(await held.drop());
    await story.cp('d', { session: held });
    expect(got(await held.timeline()).items).toHaveLength(1);
    got(await two.drop());
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('what it and another session could both have made stays contested', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [one, two] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: one });
    await story.cp('b', { session: two });
    got(await one.beginCall('c1'));
    got(await two.beginCall('c2'));
    story.space.sh('echo 2 >f');
    got(await one.endCall('c1'));
    got(await two.endCall('c2'));
    got(await one.drop());
    expect(got(await two.undo()).receipt?.refused).toMatchObject([{ path: 'f', reason: 'contested' }]);
    got(await two.drop());
    expect(got(await story.workspace.stats()).counts, 'the last one takes all').toMatchObject({
      calls: 0,
      sessions: 0,
    });
  });

  test('what it undid while another session’s call was open is not the other’s', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [one, two] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: one });
    await story.turnOf(one, 'echo 2 >f; echo 2 >g');
    await story.cp('b', { session: two });
    got(await two.beginCall('c'));
    expect(got(await one.undo()).outcome).toBe('done');
    story.space.sh('echo 3 >h');
    got(await two.endCall('c'));
    got(await one.drop());
    expect(got(await two.undo())).toMatchObject({ outcome: 'done', receipt: { restored: [{ path: 'h' }] } });
    expect(story.space.sh('cat f; ls | tr "\\n" " "')).toBe('1\nf ');
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('a call of it that is open ends there: what comes later is the other’s alone', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [one, two] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: one });
    await story.cp('b', { session: two });
    got(await one.beginCall('c1'));
    got(await two.beginCall('c2'));
    got(await one.drop());
    story.space.sh('echo 2 >f');
    got(await two.endCall('c2'));
    expect(got(await two.undo())).toMatchObject({ outcome: 'done', receipt: { restored: [{ path: 'f' }] } });
    expect(story.space.read('f')).toBe('1\n');
  });

  test('an end of it that could not be recorded is forgotten with it', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    const [one, two] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: one });
    await story.cp('b', { session: two });
    got(await one.beginCall('c1'));
    renameSync(story.space.root, `${story.space.root}-away`);
    expect(await one.endCall('c1')).toMatchObject({ available: false, reason: 'root-missing' });
    renameSync(`${story.space.root}-away`, story.space.root);
    got(await one.drop());
    expect(got(await two.capture('c')).complete).toBe(true);
  });
});
