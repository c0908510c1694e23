/** Dry runs of the history: each operation's plan, nothing written, and a token that holds the operation to it. */
import { expect, test } from 'vitest';
import type { HistoryResult, RedoOptions, Result, Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

type Step = (session: Session, options: RedoOptions) => Promise<Result<HistoryResult>>;

/** Each operation where there is one to do, with what its plan holds. */
const STEPS: readonly (readonly [string, Step, readonly string[]])[] = [
  ['undo', (session, options) => session.undo(options), ['f restore', 'new delete']],
  ['redo', (session, options) => session.redo(options), ['f restore', 'new recreate']],
  ['revert', (session, options) => session.revert({ ...options, messageId: 'a' }), ['f restore', 'new delete']],
  ['unrevert', (session, options) => session.unrevert(options), ['f restore', 'new recreate']],
  ['revertTurn', (session, options) => session.revertTurn('a', options), ['f restore']],
  ['revertCall', (session, options) => session.revertCall('call-2', options), ['new delete']],
];

async function before(name: string, story: Story): Promise<void> {
  await story.cp('a');
  await story.t('echo 1 >f');
  if (name.startsWith('revertTurn')) await story.cp('b');
  await story.t('echo new >new');
  if (name === 'redo') got(await story.session().undo());
  if (name === 'unrevert') got(await story.session().revert({ messageId: 'a' }));
}

describeBackends('dry runs', (backend) => {
  test.each(STEPS)(
    '%s answers its plan and writes nothing; its token holds it to that',
    async (name, step, entries) => {
      await using story = await Story.begin(backend, 'echo 0 >f');
      await before(name, story);
      const session = story.session();
      const look = (): string => story.space.sh('ls; cat f; ls --full-time | md5sum');
      const was = look();
      const items = got(await session.timeline()).items;
      const planned = got(await step(session, { dryRun: true }));
      expect(planned).toMatchObject({ message: 'Nothing was written.', outcome: 'nothing' });
      expect(planned).not.toHaveProperty('receipt');
      expect(planned.plan?.entries.map(({ path, action }) => `${path} ${action}`)).toEqual(entries);
      expect(look()).toBe(was);
      expect(got(await session.timeline()).items).toEqual(items);
      const planToken = planned.plan?.token as string;
      const path = entries[0]?.split(' ')[0] as string;
      story.u(`cp -p ${path} keep 2>/dev/null || true; echo mine >${path}`);
      expect(await step(session, { planToken })).toMatchObject({ available: false, reason: 'stale-plan' });
      expect(story.space.sh(`cat ${path}`)).toBe('mine\n');
      story.u(`rm ${path}; mv keep ${path} 2>/dev/null || true`);
      expect(got(await step(session, { planToken })).outcome).toBe('done');
    },
  );

  test('with nothing to do there is no plan, and a refusal is the same as without', async () => {
    await using story = await Story.begin(backend, 'echo 0 >f');
    const session = story.session();
    await story.cp('a');
    for (const [name, text] of [
      ['undo', 'Nothing to undo.'],
      ['redo', 'Nothing to redo.'],
      ['unrevert', 'Nothing to unrevert.'],
    ] as const) {
      const step = STEPS.find(([other]) => other === name)?.[1] as Step;
      expect(got(await step(session, { dryRun: true }))).toEqual({
        available: true,
        message: text,
        outcome: 'nothing',
      });
    }
    got(await session.beginCall('open'));
    expect(await session.undo({ dryRun: true })).toMatchObject({ available: false, reason: 'calls-in-flight' });
    got(await session.endCall('open'));
    expect(await session.revertTurn('none', { dryRun: true })).toMatchObject({ reason: 'unknown-boundary' });
  });
});
