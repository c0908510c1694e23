/** `recover: 'complete'`: an operation whose process died is recorded like any other, once its files are complete. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { HistoryResult, Result, Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { onEngine } from '../kit/engine.ts';
import { got, Story } from '../kit/story.ts';

type Work = (session: Session) => Promise<Result<object>>;

const journalOf = (story: Story): string => {
  const stores = join(story.space.dataDir, 'workspaces');
  const [store] = readdirSync(stores);
  return join(stores, store as string, 'journal');
};

/** Does it up to the last file, and dies before it is recorded. */
async function dieIn(story: Story, work: Work): Promise<void> {
  await onEngine(story, async (engine, session) => {
    engine.timeline.append = () => Promise.reject(new Error('killed'));
    await expect(work(session)).rejects.toThrow('killed');
  });
}

const SETUP = "seq 9 >f; : >empty; printf '0\\0' >bin; echo gone >gone";
const TURN = 'echo new >f; mkdir d; mv empty d/none; mv bin d/bin; rm gone';

async function begin(backend: Story['backend']): Promise<Story> {
  const story = await Story.begin(backend, SETUP);
  await story.cp('a');
  await story.t(TURN);
  return story;
}

const tree = (story: Story): string => story.space.sh('find . -not -name . | sort; cat f');

describeBackends('completed operations', (backend) => {
  test('an undo is in the timeline, its turn is undone, redo brings it back and the events before it are its own', async () => {
    await using story = await begin(backend);
    const after = tree(story);
    await dieIn(story, (session) => session.undo());
    await story.reopen({ recover: 'complete' });
    expect(story.workspace.recovered).toMatchObject([{ mode: 'complete' }]);
    expect(readdirSync(journalOf(story))).toEqual([]);
    const before = tree(story);
    expect(before).not.toBe(after);
    const { items } = got(await story.session().timeline());
    expect(items[0]).toMatchObject({ type: 'boundary', undone: true });
    expect(items.at(-1)).toMatchObject({ type: 'operation', kind: 'undo', outcome: 'done', standing: true });
    expect(got(await story.session().undo()).message).toBe('Nothing to undo.');
    const redone = await story.redo();
    expect(redone).toMatchObject({ message: 'Redid the last turn.', outcome: 'done' });
    expect(redone.receipt?.restored).toContainEqual(
      expect.objectContaining({ path: 'd/none', action: 'recreate', movedFrom: 'empty' }),
    );
    expect(tree(story)).toBe(after);
    expect(got(await story.workspace.verify())).toMatchObject({ ok: true, problems: [] });
    expect(got(await story.session().undo()).outcome).toBe('done');
    expect(tree(story)).toBe(before);
  });

  test.each<readonly [string, Work | null, Work, object]>([
    ['redo', (s) => s.undo(), (s) => s.redo(), { kind: 'redo' }],
    ['revert', null, (s) => s.revert({ messageId: 'a' }), { kind: 'revert', standing: true }],
    ['unrevert', (s) => s.revert({ messageId: 'a' }), (s) => s.unrevert(), { kind: 'unrevert' }],
    ['restore', null, (s) => s.restore('a', { paths: ['f'] }), { kind: 'restore', restored: 1 }],
    ['revertCall', null, (s) => s.revertCall('call-1'), { kind: 'undo', standing: true }],
  ])('so is a %s', async (name, first, work, operation) => {
    await using story = await begin(backend);
    const start = tree(story);
    if (first !== null) got(await first(story.session()));
    await dieIn(story, work);
    await story.reopen({ recover: 'complete' });
    const { items } = got(await story.session().timeline());
    expect(items.at(-1)).toMatchObject({ type: 'operation', outcome: 'done', ...operation });
    expect(items[0]).toMatchObject({ undone: name === 'revert', reverted: name === 'revert' });
    const session = story.session();
    const back: Result<HistoryResult> = name === 'revert' ? await session.unrevert() : await session.redo();
    expect(got(back).outcome).toBe(name === 'redo' || name === 'unrevert' ? 'nothing' : 'done');
    expect(tree(story)).toBe(start);
  });

  test('a path that somebody changed meanwhile is refused in the receipt and stays owed; the receipt says what happened', async () => {
    await using story = await begin(backend);
    await dieIn(story, (session) => session.undo());
    story.u('echo mine >f');
    await story.reopen({ recover: 'complete' });
    expect(story.space.read('f')).toBe('mine\n');
    expect(got(await story.session().timeline()).items.at(-1)).toMatchObject({ kind: 'undo', outcome: 'partial' });
    const plan = await story.plan('a');
    expect(plan.entries.filter(({ action }) => action === 'refuse').map(({ path }) => path)).toEqual(['f']);
  });

  test('rolled back, or written down but not begun, it is not recorded, and nothing of it is left', async () => {
    await using story = await begin(backend);
    const after = tree(story);
    await dieIn(story, (session) => session.undo());
    const [intent] = readdirSync(journalOf(story)).filter((name) => name.endsWith('.intent'));
    const written = readFileSync(join(journalOf(story), intent as string));
    await story.reopen({ recover: 'rollback' });
    expect(tree(story)).toBe(after);
    await story.workspace.close();
    writeFileSync(join(journalOf(story), intent as string), written);
    await story.reopen({ recover: 'complete' });
    expect(readdirSync(journalOf(story))).toEqual([]);
    expect(got(await story.session().timeline()).items.filter(({ type }) => type === 'operation')).toEqual([]);
    expect(got(await story.session().undo()).outcome).toBe('done');
  });

  test('what was written down and is damaged is none: the files are complete, and somebody’s edit', async () => {
    await using story = await begin(backend);
    await dieIn(story, (session) => session.undo());
    const [intent] = readdirSync(journalOf(story)).filter((name) => name.endsWith('.intent'));
    const file = join(journalOf(story), intent as string);
    writeFileSync(file, readFileSync(file).subarray(0, -1));
    await story.reopen({ recover: 'complete' });
    expect(readdirSync(journalOf(story))).toEqual([]);
    expect(got(await story.session().timeline()).items.filter(({ type }) => type === 'operation')).toEqual([]);
    expect(got(await story.session().undo()).receipt, 'there is nothing left to write').toMatchObject({ restored: [] });
  });
});
