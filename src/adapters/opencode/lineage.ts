/** Which message asked for a call, and which call a subagent's session runs inside. Told by hooks and events. */

interface Call {
  readonly sessionID: string;
  readonly callID: string;
}

const TASK = 'task';

export class Lineage {
  /** Messages that asked for calls which have not begun. */
  readonly #asked = new Map<string, string>();
  readonly #tasks = new Map<string, Call>();
  readonly #parents = new Map<string, string>();
  /** The call of a subagent's session, where it was told. */
  readonly #within = new Map<string, Call>();

  child(session: string, parent: string): void {
    this.#parents.set(session, parent);
  }

  asked(call: Call, messageID: string): void {
    if (!this.#tasks.has(name(call))) this.#asked.set(name(call), messageID);
  }

  subagent(session: string, call: Call): void {
    this.#within.set(session, call);
  }

  /** A call begins: answers the message that asked for it, where that was told. */
  began({ tool, ...call }: Call & { readonly tool: string }): string | undefined {
    if (tool === TASK) this.#tasks.set(name(call), call);
    return this.#asked.get(name(call));
  }

  ended(call: Call): void {
    this.#tasks.delete(name(call));
    this.#asked.delete(name(call));
  }

  /** The call that a session runs inside: the one that was told, else the parent's only open task. */
  parentCall(session: string): string | undefined {
    const told = this.#within.get(session);
    if (told !== undefined) return this.#tasks.has(name(told)) ? told.callID : undefined;
    const parent = this.#parents.get(session);
    const open = [...this.#tasks.values()].filter(({ sessionID }) => sessionID === parent);
    return open.length === 1 ? open[0]?.callID : undefined;
  }

  forget(session: string): void {
    this.#parents.delete(session);
    this.#within.delete(session);
  }
}

const name = ({ sessionID, callID }: Call): string => JSON.stringify([sessionID, callID]);
