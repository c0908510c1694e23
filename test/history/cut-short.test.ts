/** A redo or an unrevert that a fault of the system cut short: what it left is offered again, what it did is the session's. */
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ApplyOutcome } from '../../src/backend/backend.ts';
import type { HistoryResult, Result, Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { onEngine } from '../kit/engine.ts';
import { got, Story } from '../kit/story.ts';

/** How the fault meets paths: before they are written, or after it. */
interface Fault {
  readonly paths: readonly string[];
  readonly reason?: string;
  /** The path is written all the same, and then this happens. */
  readonly late?: () => void;
}

/** Does it on a file system that fails at some paths, and opens the story again, as the next process would. */
async function failing(
  story: Story,
  { paths, reason = 'no-space', late }: Fault,
  work: (session: Session) => Promise<Result<HistoryResult>>,
): Promise<HistoryResult> {
  let result: HistoryResult | undefined;
  await onEngine(story, async (engine, session) => {
    const apply = engine.tree.apply.bind(engine.tree);
    engine.tree.apply = async (request, options) => {
      const meets = ({ path }: { path: string }): boolean => paths.includes(path);
      const entries = late === undefined ? request.entries.filter((entry) => !meets(entry)) : request.entries;
      const outcomes = await apply({ ...request, entries }, options);
      late?.();
      const failed = request.entries.filter(meets).map(({ path }): ApplyOutcome => {
        return { path, status: 'failed', reason, detail: 'a fault of the test' };
      });
      return [...outcomes.filter((outcome) => !meets(outcome)), ...failed];
    };
    result = got(await work(session));
  });
  await story.reopen();
  return result as HistoryResult;
}

const SETUP = 'printf 0 >a; printf 0 >b; printf 0 >gone';
const TURN = 'printf 1 >a; printf 1 >b; rm gone; mkdir d; printf new >d/n';
const OLD = '0 0 0 -\n';
const NEW = '1 1 - new\n';

describeBackends('cut short', (backend) => {
  const begin = async (): Promise<Story> => {
    const story = await Story.begin(backend, SETUP);
    await story.cp('m1');
    await story.t(TURN);
    return story;
  };
  const tree = (story: Story): string =>
    story.space
      .sh('for f in a b gone d/n; do cat $f 2>/dev/null || printf -- -; printf " "; done')
      .trimEnd()
      .concat('\n');

  test('a redo that failed at a path is finished by the next one, in another process', async () => {
    await using story = await begin();
    got(await story.session().undo());
    const first = await failing(story, { paths: ['b', 'd/n'] }, (session) => session.redo());
    expect(first).toMatchObject({ outcome: 'partial', message: expect.stringContaining('Kept 2') });
    expect(first.receipt?.failed).toMatchObject([{ path: 'b', reason: 'no-space' }, { path: 'd/n' }]);
    expect(tree(story)).toBe('1 0 - -\n');
    const second = got(await story.session().redo());
    expect(second).toMatchObject({ outcome: 'done', message: 'Redid the last turn.' });
    expect(second.receipt?.restored.map(({ path }) => path)).toEqual(['b', 'd/n']);
    expect(tree(story)).toBe(NEW);
    expect(got(await story.session().redo()).message).toBe('Nothing to redo.');
    expect(got(await story.session().undo()).message).toBe('Undid the last turn. Files restored: 4.');
    expect(tree(story)).toBe(OLD);
    expect(got(await story.workspace.verify()).problems).toEqual([]);
  });

  test('what such a redo brought back is the session’s: undo takes it, redo gives it again, and then the rest', async () => {
    await using story = await begin();
    got(await story.session().undo());
    await failing(story, { paths: ['b'] }, (session) => session.redo());
    const undone = got(await story.session().undo());
    expect(undone.message).toBe('Undid the last turn. Files restored: 3.');
    expect(tree(story)).toBe(OLD);
    expect(got(await story.session().redo()).outcome).toBe('done');
    expect(tree(story)).toBe('1 0 - new\n');
    expect(got(await story.session().redo()).outcome).toBe('done');
    expect(tree(story)).toBe(NEW);
    expect(got(await story.session().redo()).message).toBe('Nothing to redo.');
  });

  test('a restore takes back what such a redo brought', async () => {
    await using story = await begin();
    got(await story.session().restore('m1'));
    await failing(story, { paths: ['a', 'gone'] }, (session) => session.redo());
    expect(tree(story)).toBe('0 1 0 new\n');
    expect(got(await story.session().restore('m1')).outcome).toBe('done');
    expect(tree(story)).toBe(OLD);
  });

  test('an unrevert that failed at a path leaves the revert standing for it; the next one ends it', async () => {
    await using story = await begin();
    got(await story.session().revert({ messageId: 'm1' }));
    const first = await failing(story, { paths: ['b'] }, (session) => session.unrevert());
    expect(first.outcome).toBe('partial');
    expect(tree(story)).toBe('1 0 - new\n');
    expect(await story.session().undo()).toMatchObject({ available: false, reason: 'revert-stands' });
    expect(got(await story.session().unrevert()).outcome).toBe('done');
    expect(tree(story)).toBe(NEW);
    expect(got(await story.session().unrevert()).message).toBe('Nothing to unrevert.');
    expect(got(await story.session().undo()).outcome).toBe('done');
    expect(tree(story)).toBe(OLD);
  });

  test('a prompt after such an unrevert ends the revert and keeps the boundaries of the turns that it brought back', async () => {
    await using story = await begin();
    await story.cp('m2');
    await story.t('printf 2 >a');
    got(await story.session().undo());
    got(await story.session().revert({ messageId: 'm1' }));
    await failing(story, { paths: ['b'] }, (session) => session.unrevert());
    await story.cp('m3');
    expect(got(await story.session().unrevert()).message).toBe('Nothing to unrevert.');
    const { items } = got(await story.session().timeline());
    expect(items.flatMap((item) => (item.type === 'boundary' ? [item.boundaryId] : []))).toEqual(['m1', 'm2', 'm3']);
    expect(got(await story.session().restore('m1')).outcome).toBe('done');
    expect(tree(story)).toBe(OLD);
  });

  test('a path that somebody changed, or whose bytes are damaged, is not offered again: the redo is over', async () => {
    await using story = await begin();
    got(await story.session().undo());
    story.u('printf mine >a');
    const kept = await failing(story, { paths: ['b'], reason: 'blob-corrupt' }, (session) => session.redo());
    expect(kept.receipt).toMatchObject({ refused: [{ path: 'a' }], failed: [{ path: 'b', reason: 'blob-corrupt' }] });
    expect(got(await story.session().redo()).message).toBe('Nothing to redo.');
    expect(tree(story)).toBe('mine 0 - new\n');
  });

  test('a path that was written before the fault met it counts as done, and its line says what happened', async () => {
    await using story = await begin();
    got(await story.session().undo());
    const redone = await failing(story, { paths: ['b', 'gone'], late: () => undefined }, (session) => session.redo());
    expect(redone.outcome).toBe('done');
    expect(redone.receipt?.restored).toContainEqual(
      expect.objectContaining({ path: 'b', note: 'no-space: a fault of the test' }),
    );
    expect(got(await story.session().undo()).message).toBe('Undid the last turn. Files restored: 4.');
    expect(tree(story)).toBe(OLD);
  });

  test.each(['undo', 'redo'] as const)(
    'a folder that %s made and could not give its mode gets it by the next',
    async (kind) => {
      await using story = await Story.begin(backend, kind === 'undo' ? 'mkdir -m 755 d; printf 0 >d/x' : '');
      await story.cp('m1');
      await story.t(kind === 'undo' ? 'rm -r d' : 'mkdir -m 755 d; printf 0 >d/x');
      if (kind === 'redo') got(await story.session().undo());
      const late = (): void => chmodSync(join(story.space.root, 'd'), 0o700);
      const first = await failing(story, { paths: ['d'], late }, (session) => session[kind]());
      expect(first.receipt?.failed).toMatchObject([{ path: 'd', reason: 'no-space' }]);
      const again = kind === 'undo' ? story.session().undo({ boundaryId: 'm1' }) : story.session().redo();
      expect(got(await again).outcome).toBe('done');
      expect(story.space.sh('stat -c %a d; cat d/x')).toBe('755\n0');
    },
  );

  test('a file that a failed redo could not put back after it took it out comes with the next', async () => {
    await using story = await begin();
    got(await story.session().undo());
    const late = (): void => rmSync(join(story.space.root, 'b'));
    await failing(story, { paths: ['b'], late }, (session) => session.redo());
    expect(tree(story)).toBe('1 - - new\n');
    expect(got(await story.session().redo()).outcome).toBe('done');
    expect(tree(story)).toBe(NEW);
  });

  test('a folder of somebody else that stands where one is to be made is left', async () => {
    await using story = await Story.begin(backend, '');
    await story.cp('m1');
    await story.t('mkdir -m 755 d; printf 0 >d/x');
    got(await story.session().undo());
    story.u('mkdir -m 700 d');
    expect(got(await story.session().redo()).receipt?.refused).toMatchObject([{ path: 'd' }]);
    expect(story.space.sh('stat -c %a d')).toBe('700\n');
  });
});
