/**
 * Carries out the action of a hook event on a session, through the few things that it asks of one: the hook command gives
 * the engine of its own process, the Agent SDK's hooks give a session.
 *
 * Events may come twice (hooks in two settings files), late (a capture ended the call meanwhile) or without their
 * beginning (hooks installed in the middle of a session); each is taken for what it can still mean. What can't be recorded
 * is thrown, for the caller to note: never passed over.
 */
import { TakebackError } from '../../errors.ts';
import type { BeginCallOptions, EndCallOptions } from '../../schemas.ts';
import type { Result, UnavailableReason } from '../../types.ts';
import { type BeginAction, CONTAINERS, type EndAction, type HookAction } from './events.ts';
import { editedPaths } from './paths.ts';

export interface OpenCallInfo {
  readonly callId: string;
  readonly tool: string | null;
}

/** What a hook event needs of a session. */
export interface Recorder {
  /** Real path. */
  readonly root: string;
  capture(boundaryId: string, options: { label?: string }): Promise<Result<object>>;
  beginCall(callId: string, options: BeginCallOptions): Promise<Result<object>>;
  endCall(callId: string, options: EndCallOptions): Promise<Result<object>>;
  endTurn(): Promise<Result<object>>;
  openCalls(): Promise<readonly OpenCallInfo[]>;
  /** Whether the session ever had a call of that id. */
  knowsCall(callId: string): Promise<boolean>;
}

/** The engine's answer that an event could not be recorded. */
export class NotRecorded extends Error {
  readonly reason: UnavailableReason;

  constructor(reason: UnavailableReason, detail: string) {
    super(detail);
    this.reason = reason;
  }
}

export interface PerformOptions {
  /** Makes an id for a turn of which the host told none. */
  readonly newId: () => string;
  /** Calls outlive the process that began them. */
  readonly detached: boolean;
}

function recorded(result: Result<object>): void {
  if (!result.available) throw new NotRecorded(result.reason, result.detail);
}

/** Runs `work`; answers false where it throws that code, which then says that another event was first. */
async function unless(code: TakebackError['code'], work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof TakebackError && error.code === code) return false;
    throw error;
  }
}

/**
 * @throws {NotRecorded} where the engine was not available for it
 * @throws {TakebackError} `ERR_UNKNOWN_CALL` for the end of a call whose begin was never seen
 */
export async function perform(session: Recorder, action: HookAction, options: PerformOptions): Promise<void> {
  switch (action.kind) {
    case 'boundary': {
      const { promptId = options.newId(), label } = action;
      // A capture ends detached calls; others that the turn before left open (a tool that was denied) are ended here.
      if (!options.detached) await endOpen(session);
      await capture(session, promptId, label);
      return;
    }
    case 'begin':
      return begin(session, action, options);
    case 'end':
      return end(session, action);
    case 'turn-end':
      if (!(action.settled && (await endOpen(session)))) recorded(await session.endTurn());
      return;
    case 'session-end':
      await endOpen(session);
      return;
    case 'ignore':
      return;
  }
}

/** A prompt whose boundary there is goes on with its turn. */
function capture(session: Recorder, id: string, label: string | undefined): Promise<boolean> {
  return unless('ERR_DUPLICATE_BOUNDARY', async () =>
    recorded(await session.capture(id, label === undefined ? {} : { label })),
  );
}

async function begin(session: Recorder, action: BeginAction, options: PerformOptions): Promise<void> {
  const paths = action.container
    ? []
    : action.file === undefined
      ? undefined
      : editedPaths(session.root, action.cwd, action.file);
  if (paths?.length === 0 && !action.container) return;
  const parentCallId = action.inSubagent ? await onlyContainer(session) : undefined;
  const open = (): Promise<Result<object>> =>
    session.beginCall(action.callId, {
      tool: action.tool,
      detached: options.detached,
      ...(paths === undefined ? {} : { paths }),
      ...(parentCallId === undefined ? {} : { parentCallId }),
    });
  await unless('ERR_DUPLICATE_CALL', async () => {
    let result = await open();
    if (!result.available && result.reason === 'no-checkpoint') {
      // The hooks came into a session that was running.
      await capture(session, action.promptId ?? options.newId(), undefined);
      result = await open();
    }
    recorded(result);
  });
}

/** The call that runs this subagent: known where only one subagent call is open. */
async function onlyContainer(session: Recorder): Promise<string | undefined> {
  const open = (await session.openCalls()).filter(({ tool }) => tool !== null && CONTAINERS.has(tool));
  return open.length === 1 ? open[0]?.callId : undefined;
}

async function end(session: Recorder, { callId, isError, sideEffect, file, cwd }: EndAction): Promise<void> {
  if (file !== undefined && editedPaths(session.root, cwd, file).length === 0) return;
  let unknown: unknown;
  try {
    recorded(await session.endCall(callId, { isError, ...(sideEffect === undefined ? {} : { sideEffect }) }));
    return;
  } catch (error) {
    if (!(error instanceof TakebackError) || error.code !== 'ERR_UNKNOWN_CALL') throw error;
    unknown = error;
  }
  // Ended by a capture, or by the same event that came twice.
  if (!(await session.knowsCall(callId))) throw unknown;
}

/** Ends what is open; false where nothing was. */
async function endOpen(session: Recorder): Promise<boolean> {
  const open = await session.openCalls();
  for (const { callId } of open) {
    await unless('ERR_UNKNOWN_CALL', async () => recorded(await session.endCall(callId, { isError: true })));
  }
  return open.length > 0;
}
