/**
 * SIGKILL before every call that writes, of every command: the next open recovers, no byte is lost, each path is old or new, and
 * the command works on a second try. CI takes a sample of the calls of each command; the long run takes all.
 */
import { expect, test } from 'vitest';
import { availableBackends, describeBackends } from '../kit/backends.ts';
import { COMMANDS, retry, run, scene, settle, treeOf } from './kit/scenario.ts';
import { inLanes, numbers, sized, tool } from './kit/tools.ts';

const { program, missing } = tool('at-call', ['count', 'true']);
/** Kills a command and backend in CI. */
const SAMPLE = sized(4, Number.POSITIVE_INFINITY);

describeBackends('SIGKILL at a call', (backend) => {
  for (const command of COMMANDS) {
    test.skipIf(program === null)(`${command.name}: every call that writes${missing && `: ${missing}`}`, async () => {
      if (program === null) return;
      await using whole = await scene(backend, command);
      const reference = await run(whole, { program, action: 'count', writes: true });
      const after = treeOf(whole.space);
      expect(reference.code, reference.errors).toBe(0);
      const faults: string[] = [];
      let kills = 0;
      const ends: Record<string, number> = { before: 0, after: 0, neither: 0 };
      await inLanes(numbers(reference.calls.length, SAMPLE), async (n) => {
        await using at = await scene(backend, command);
        const { code, calls } = await run(at, { program, action: `kill:${n}`, writes: true });
        // Threads share the work anew each time: the last numbers may not come up.
        if (code === 77) kills += 1;
        const next = availableBackends[n % availableBackends.length] ?? backend;
        const { faults: found, end } = await settle(at, after, {
          backend: next,
          recover: n % 3 === 0 ? 'complete' : 'rollback',
        });
        ends[end] = (ends[end] ?? 0) + 1;
        if (end === 'neither') found.push('the tree is neither the old nor the new one');
        const done = command.changesTree === true && end === 'after';
        found.push(...(await retry(at, after, { backend: next, done, program })));
        faults.push(...found.map((fault) => `${n} (${calls.at(-1) ?? code}): ${fault}`));
      });
      console.info(
        `${backend} ${command.name}: ${reference.calls.length} calls, ${kills} kills, ${JSON.stringify(ends)}`,
      );
      expect(faults).toEqual([]);
      expect(kills, 'it was killed').toBeGreaterThan(0);
    });
  }
});
