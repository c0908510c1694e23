/** What could not be recorded, told without ever reaching the host's own work. */
import { TakebackError } from '../../errors.ts';
import type { SessionKeyOptions } from '../../schemas.ts';
import type { Logger } from '../../types.ts';

export interface Problem {
  /** Name of the adapter. */
  readonly adapter: string;
  readonly threadId: string;
  readonly tenantId?: string;
  /** What was being done: `open`, `capture`, `beginCall`, `endCall`, `endTurn`, `tools`, or the adapter's own word. */
  readonly during: string;
  readonly callId?: string;
  /** A reason of an unavailable answer, the code of an error, or `end-without-begin`. */
  readonly reason: string;
  /** For people. */
  readonly detail: string;
}

export class Reporter {
  readonly #adapter: string;
  readonly #onProblem: ((problem: Problem) => void) | undefined;
  readonly #logger: Logger | undefined;
  readonly #warned = new Set<string>();

  constructor(
    adapter: string,
    options: { onProblem?: ((problem: Problem) => void) | undefined; logger?: Logger | undefined },
  ) {
    this.#adapter = adapter;
    this.#onProblem = options.onProblem;
    this.#logger = options.logger;
  }

  report(
    key: SessionKeyOptions,
    during: string,
    { cause, callId }: { cause: unknown; callId?: string | undefined },
  ): void {
    const problem: Problem = {
      adapter: this.#adapter,
      ...{ threadId: key.threadId, ...(key.tenantId === undefined ? {} : { tenantId: key.tenantId }) },
      during,
      ...(callId === undefined ? {} : { callId }),
      ...causeOf(cause),
    };
    try {
      if (this.#onProblem === undefined) this.#warn(problem);
      else this.#onProblem(problem);
    } catch (error) {
      this.#warn(problem);
      this.#warn({ ...problem, during: 'onProblem', ...causeOf(error) });
    }
  }

  #warn(problem: Problem): void {
    const text = `takeback (${problem.adapter}), ${problem.during}: ${problem.detail}`;
    if (this.#logger !== undefined) {
      this.#logger.warn(text, problem);
      return;
    }
    const kind = `${problem.during} ${problem.reason}`;
    if (this.#warned.has(kind)) return;
    this.#warned.add(kind);
    process.emitWarning(text, 'TakebackWarning');
  }
}

function causeOf(cause: unknown): { reason: string; detail: string } {
  if (cause instanceof TakebackError) return { reason: cause.code, detail: cause.message };
  if (cause instanceof Error) return { reason: 'ERR_INTERNAL', detail: cause.message };
  const { reason, detail } = Object(cause) as { reason?: unknown; detail?: unknown };
  return typeof reason === 'string'
    ? { reason, detail: String(detail) }
    : { reason: 'ERR_INTERNAL', detail: String(cause) };
}
