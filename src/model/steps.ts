/**
 * Steps: the calls that the host groups under one `stepId`. Pure.
 *
 * A step lies in one turn, so that a host which numbers its steps anew in each turn gets a step for each; one with a call
 * that was open when the next turn began goes on in it. A call without a `stepId` is a step of its own.
 */
import type { CallRecord } from '../timeline/timeline.ts';

export interface StepCalls {
  /** The `stepId`, or the id of the one call. */
  readonly id: string;
  /** In the order of their begins. */
  readonly calls: readonly CallRecord[];
}

/** Groups a session's calls, in the order in which the steps began. */
export function stepsOf(calls: readonly CallRecord[]): StepCalls[] {
  const steps: { id: string; calls: CallRecord[] }[] = [];
  const newest = new Map<string, { id: string; calls: CallRecord[] }>();
  for (const call of [...calls].sort((a, b) => a.invocation - b.invocation)) {
    const step = call.stepId === null ? undefined : newest.get(call.stepId);
    if (step !== undefined && goesOn(step.calls, call)) {
      step.calls.push(call);
      continue;
    }
    const started = { id: call.stepId ?? call.callId, calls: [call] };
    steps.push(started);
    if (call.stepId !== null) newest.set(call.stepId, started);
  }
  return steps;
}

function goesOn(calls: readonly CallRecord[], next: CallRecord): boolean {
  return calls.some(({ turnSeq, endSeq }) => turnSeq === next.turnSeq || endSeq === null || endSeq > next.turnSeq);
}
