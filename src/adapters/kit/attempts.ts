/**
 * What a conversation asks of its session, tried again where only a part of what the host told can't be. All throw what is
 * to be reported: an error, or the answer that was not available.
 */
import type { Session } from '../../api.ts';
import { TakebackError } from '../../errors.ts';
import type { BeginCallOptions, EndCallOptions } from '../../schemas.ts';
import type { Result } from '../../types.ts';
import { numbered } from './ids.ts';

/** Throws where it could not be looked up. */
export async function newestTurn(session: Session): Promise<{ boundaryId: string; undone: boolean } | undefined> {
  const timeline = await session.timeline({ limit: 1, lines: false });
  if (!timeline.available) throw timeline;
  return timeline.items.find((item) => item.type === 'boundary');
}

/** False where the session has a boundary of that id already. */
export async function captured(session: Session, id: string, options: { label?: string }): Promise<boolean> {
  try {
    const result = await session.capture(id, options);
    if (!result.available) throw result;
    return true;
  } catch (error) {
    if (error instanceof TakebackError && error.code === 'ERR_DUPLICATE_BOUNDARY') return false;
    throw error;
  }
}

/** What is told of a call at its end may be wrong (a path outside the root): the call ends all the same. */
export async function endedCall(
  session: Session,
  callId: string,
  { isError, known }: { isError: boolean; known: EndCallOptions },
): Promise<void> {
  let result: Result<unknown>;
  try {
    result = await session.endCall(callId, { ...known, isError });
  } catch (error) {
    const code = error instanceof TakebackError ? error.code : undefined;
    if (code !== 'ERR_OUTSIDE_ROOT' && code !== 'ERR_INVALID_ARGUMENT') throw error;
    result = await session.endCall(callId, { isError });
    if (result.available) throw error;
  }
  if (!result.available) throw result;
}

/** Begins a call: under another id where its own is open, without what can't be declared. Answers its id in the timeline. */
export async function begunCall(session: Session, id: string, options: BeginCallOptions): Promise<string> {
  let rest = options;
  for (let n = 1; ; ) {
    const callId = numbered(id, n);
    try {
      const result = await session.beginCall(callId, rest);
      if (!result.available) throw result;
      return callId;
    } catch (error) {
      const code = error instanceof TakebackError ? error.code : undefined;
      if (code === 'ERR_DUPLICATE_CALL') n += 1;
      // A tool may name a path outside the root: the call then owns what it changes, as one that names none.
      else if (code === 'ERR_OUTSIDE_ROOT' && rest.paths !== undefined) rest = { ...rest, paths: undefined };
      else if (code === 'ERR_UNKNOWN_CALL' && rest.parentCallId !== undefined) {
        rest = { ...rest, parentCallId: undefined };
      } else throw error;
    }
  }
}
