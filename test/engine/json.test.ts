/** Public answers and events as JSON: what comes back is what was answered, for paths of every kind. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

/** Everything but the bytes of a patch. */
function asJson(answer: object): unknown {
  return JSON.parse(JSON.stringify(answer, (key, value) => (key === 'patchBytes' ? undefined : value)));
}

function withoutBytes(answer: object): object {
  const { patchBytes: _, ...rest } = answer as { patchBytes?: unknown };
  return rest;
}

describeBackends('answers as JSON', (backend) => {
  test('every method of a session and a workspace, and every event, with secret, large and special files', async () => {
    const open = { limits: { maxFileBytes: 1000 } };
    await using story = await Story.begin(backend, 'echo 0 >f; echo key >.env; mkfifo gone; seq 999 >big', { open });
    const session = story.session();
    const answers: [string, object][] = [];
    const note = <T extends object>(name: string, answer: T): T => {
      answers.push([name, answer]);
      return answer;
    };
    for (const event of ['fileChanged', 'fileChangedMore', 'snapshotFailed'] as const)
      story.workspace.on(event as 'fileChanged', (told) => void note(event, told));
    note('capture', await session.capture('a'));
    note('beginCall', await session.beginCall('c1', { stepId: 's1' }));
    story.space.sh('echo other >.env; rm gone; mkfifo pipe; seq 1000 >big; mv f g; mkdir -p sub; chmod 700 sub');
    const ended = got(note('endCall', await session.endCall('c1')));
    expect(ended.changes.map(({ path }) => path)).toEqual(['.env', 'big', 'g', 'gone', 'pipe', 'sub']);
    note('endTurn', await session.endTurn());
    const { position } = got(note('capture', await session.capture('b')));
    note('plan', await session.plan('a', { hunks: true }));
    note('timeline', await session.timeline());
    note('steps', await session.steps());
    note('turnChanges', await session.turnChanges('a'));
    note('diff', await session.diff(position));
    const [first] = got(await session.timeline()).items;
    note('diff', await session.diff((first as { position: string }).position, position));
    note('undo', await session.undo({ dryRun: true }));
    note('undo', await session.undo());
    note('redo', await session.redo());
    note('revert', await session.revert({ messageId: 's1' }));
    note('unrevert', await session.unrevert());
    note('revertCall', await session.revertCall('c1'));
    note('revertTurn', await session.revertTurn('a'));
    note('restore', await session.restore('a', { onConflict: 'overwrite' }));
    note('fork', await session.fork({ threadId: 'fork' }, { at: 'b' }));
    const { workspace } = story;
    note('sessions', await workspace.sessions());
    note('stats', await workspace.stats());
    note('verify', await workspace.verify());
    note('gc', await workspace.gc());
    note('recover', await workspace.recover());
    note('capabilities', await workspace.capabilities());
    note('export', await workspace.export(position, join(story.space.base, 'out')));
    note('drop', await session.drop());
    const unavailable = answers.filter(([, answer]) => (answer as { available?: boolean }).available === false);
    expect(unavailable).toEqual([]);
    for (const [name, answer] of answers) expect(asJson(answer), name).toEqual(withoutBytes(answer));
  });

  test('times and numbers of 64 bits are decimal strings', async () => {
    await using story = await Story.begin(backend, 'echo key >.env');
    await story.cp('a');
    const [secret, pipe] = await story.t('echo other >.env; mkfifo pipe');
    const ino = story.space.sh('stat -c %i .env pipe').trim().split('\n');
    expect(secret?.after).toMatchObject({ kind: 'uncovered', reason: 'secret', stat: { size: 6, ino: ino[0] } });
    expect(secret?.after).toMatchObject({ stat: { mtimeNs: expect.stringMatching(/^\d{19}$/) } });
    expect(pipe?.after).toEqual({ kind: 'special', type: 'fifo', ino: ino[1] });
    const { capabilities } = got(await story.workspace.capabilities());
    expect(capabilities.tickNs).toBeGreaterThan(0);
  });
});
