/**
 * What a forked session inherits: calls and operations of the session that it was forked from, up to the fork, count as
 * its own, so that attribution needs to know nothing of forks. Pure.
 *
 * Each ancestor keeps its calls as it sees them: with respect to it, nothing changes. So a fork and its parent never
 * contest what was inherited, and each has its own record of what was taken back.
 */
import type { Ancestor, CallRecord } from '../timeline/timeline.ts';
import type { AttributionInput } from './types.ts';

/**
 * Calls of ancestors that began before the fork, as the session's own. One that was open at the fork is cut there: what
 * it did afterwards is its own session's alone.
 */
export function adoptCalls(
  calls: readonly CallRecord[],
  session: number,
  lineage: readonly Ancestor[],
): readonly CallRecord[] {
  if (lineage.length === 0) return calls;
  const forks = forksOf(lineage);
  return calls.flatMap((call): CallRecord[] => {
    const forkSeq = forks.get(call.session) ?? 0;
    if (call.beginSeq >= forkSeq) return [call];
    if (call.endSeq !== null && call.endSeq <= forkSeq) return [{ ...call, session }];
    return [
      { ...call, beginSeq: forkSeq },
      { ...call, session, endSeq: forkSeq, state: 'ended' },
    ];
  });
}

/** The input as the session that asks sees it; `taken` already holds what its ancestors had taken back at the fork. */
export function adopt(input: AttributionInput, lineage: readonly Ancestor[]): AttributionInput {
  if (lineage.length === 0) return input;
  const forks = forksOf(lineage);
  return {
    ...input,
    calls: adoptCalls(input.calls, input.session, lineage),
    operations: input.operations.map((operation) =>
      operation.seq <= (forks.get(operation.session) ?? 0) ? { ...operation, session: input.session } : operation,
    ),
  };
}

function forksOf(lineage: readonly Ancestor[]): ReadonlyMap<number, number> {
  return new Map(lineage.map(({ session, forkSeq }) => [session, forkSeq]));
}
