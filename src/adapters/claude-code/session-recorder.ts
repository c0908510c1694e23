/** A session of this process as what hook events are carried out on. Remembers the calls that it began, nothing else. */
import type { Session } from '../../api.ts';
import type { BeginCallOptions, EndCallOptions } from '../../schemas.ts';
import type { Result } from '../../types.ts';
import type { OpenCallInfo, Recorder } from './perform.ts';

export class SessionRecorder implements Recorder {
  readonly root: string;
  readonly #session: Session;
  readonly #open = new Map<string, OpenCallInfo>();
  /** Of the turn: events that come twice come soon. */
  readonly #ended = new Set<string>();

  constructor(root: string, session: Session) {
    this.root = root;
    this.#session = session;
  }

  async capture(boundaryId: string, options: { label?: string }): Promise<Result<object>> {
    this.#ended.clear();
    return this.#session.capture(boundaryId, options);
  }

  async beginCall(callId: string, options: BeginCallOptions): Promise<Result<object>> {
    const result = await this.#session.beginCall(callId, options);
    if (result.available) this.#open.set(callId, { callId, tool: options.tool ?? null });
    return result;
  }

  async endCall(callId: string, options: EndCallOptions): Promise<Result<object>> {
    this.#open.delete(callId);
    const result = await this.#session.endCall(callId, options);
    this.#ended.add(callId);
    return result;
  }

  endTurn(): Promise<Result<object>> {
    return this.#session.endTurn();
  }

  async openCalls(): Promise<readonly OpenCallInfo[]> {
    return [...this.#open.values()];
  }

  async knowsCall(callId: string): Promise<boolean> {
    return this.#ended.has(callId);
  }
}
