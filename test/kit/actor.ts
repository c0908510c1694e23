/** Does the steps of a sequence on one root through the public API. What they mean is the suites' business. */
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { BackendKind } from '../../src/backend/backend.ts';
import { workspaceDir } from '../../src/data-dir.ts';
import type {
  HistoryResult,
  Plan,
  Receipt,
  ReceiptEntry,
  Result,
  Session,
  TimelineItem,
  Workspace,
} from '../../src/index.ts';
import { type Answer, stepOf, type Told } from './naive.ts';
import { type Edit, makeEdit, type Policy, type SessionName, type Step } from './sequence.ts';
import { Space } from './space.ts';
import { got } from './story.ts';
import { type Copied, fullCopy } from './tree.ts';

export type Copy = ReadonlyMap<string, Copied>;

/** How a step ended. */
export interface Done {
  readonly step: Step;
  readonly before: Copy;
  readonly after: Copy;
  /** Ids of the boundary or of the call that the step made, or named; '' where the session has none. */
  readonly id: string;
  /** Of undo, redo, restore and the like. */
  readonly answer?: Answer;
  readonly asked?: Asked;
  /** Everything that it answered but ids, positions and times, for comparison. */
  readonly said: unknown;
}

/** What `ask` found. */
export interface Asked {
  readonly log: readonly (readonly unknown[])[];
  readonly plan: { readonly unavailable: string } | readonly (readonly (string | undefined)[])[];
  /** The files of the boundary; null where it is unknown. */
  readonly files: Copy | null;
}

type Act = Omit<Done, 'step' | 'before' | 'after'>;

export interface ActorOptions {
  /** Backends by turns: the next one at each `reopen`. */
  readonly kinds: readonly BackendKind[];
  /** Removes the index file at each `reopen`. */
  readonly dropIndex?: boolean;
}

/** Sequences after which the sessions of older ones are dropped, and the store is verified. */
const BATCH = 4;

export class Actor {
  readonly space = new Space();
  readonly #options: ActorOptions;
  workspace!: Workspace;
  #opened = 0;
  #run = 0;
  #ids = 0;
  readonly #boundaries = new Map<SessionName, string[]>();
  readonly #calls = new Map<SessionName, string[]>();

  private constructor(options: ActorOptions) {
    this.#options = options;
  }

  static async open(options: ActorOptions): Promise<Actor> {
    const actor = new Actor(options);
    await actor.#open();
    return actor;
  }

  async #open(): Promise<void> {
    const { kinds } = this.#options;
    this.workspace = await this.space.open(kinds[this.#opened++ % kinds.length] as BackendKind);
  }

  get root(): string {
    return this.space.root;
  }

  session(name: SessionName): Session {
    return this.workspace.session({ threadId: `${name}-${this.#run}` });
  }

  /** Ids of its boundaries, unknown ones too. */
  boundaries(name: SessionName): readonly string[] {
    return this.#boundaries.get(name) ?? [];
  }

  /** An empty root and new sessions; at the start of a batch an empty store too. */
  async begin(): Promise<void> {
    if (this.#run % BATCH === 0) await this.#clean();
    empty(this.root);
    this.#run += 1;
    this.#boundaries.clear();
    this.#calls.clear();
    for (const name of ['s1', 's2'] as const) await this.#capture(name);
  }

  /** Verifies the store, and drops what the batch left in it. */
  async #clean(): Promise<void> {
    await this.verify();
    const { sessions } = got(await this.workspace.sessions());
    for (const { threadId } of sessions) got(await this.workspace.session({ threadId }).drop());
  }

  async verify(): Promise<void> {
    const { problems } = got(await this.workspace.verify());
    if (problems.length > 0) throw new Error(`the store does not verify: ${JSON.stringify(problems)}`);
  }

  look(): Copy {
    return fullCopy(this.root);
  }

  async do(step: Step): Promise<Done> {
    const before = this.look();
    const result = await this.#act(step);
    return { step, before, after: this.look(), ...result };
  }

  async #act(step: Step): Promise<Act> {
    switch (step.op) {
      case 'capture':
        return this.#capture(step.session);
      case 'call':
        return this.#call(step.session, step.edits);
      case 'overlap':
        return this.#overlap(step);
      case 'user':
        for (const edit of step.edits) makeEdit(this.root, edit);
        return { id: '', said: null };
      case 'reopen':
        await this.#reopen();
        return { id: '', said: null };
      case 'gc':
        return { id: '', said: got(await this.workspace.gc()).droppedBoundaries };
      case 'drop':
        got(await this.session(step.session).drop());
        this.#boundaries.delete(step.session);
        this.#calls.delete(step.session);
        return { id: '', said: null };
      case 'fork':
        return this.#fork(step);
      case 'ask':
        return this.#ask(step);
      default:
        return this.#operate(step);
    }
  }

  async #capture(name: SessionName): Promise<Act> {
    const id = `m${++this.#ids}`;
    const capture = got(await this.session(name).capture(id));
    this.#boundaries.set(name, [...this.boundaries(name), id]);
    return { id, said: [capture.complete, capture.scannedFiles, capture.uncovered] };
  }

  async #call(name: SessionName, edits: readonly Edit[]): Promise<Act> {
    const session = this.session(name);
    const id = `c${++this.#ids}`;
    await session.beginCall(id, { stepId: stepOf(id) });
    for (const edit of edits) makeEdit(this.root, edit);
    const end = await session.endCall(id);
    if (!end.available) return { id: '', said: end.reason };
    this.#calls.set(name, [...(this.#calls.get(name) ?? []), id]);
    return { id, said: end.changes.map(({ path, kind }) => [path, kind]) };
  }

  async #overlap({ sessions: [first, second], edits, declared }: Step & { op: 'overlap' }): Promise<Act> {
    const [one, two] = [this.session(first), this.session(second)];
    const id = `c${++this.#ids}`;
    await one.beginCall(id, { stepId: stepOf(id), ...(declared.length === 0 ? {} : { paths: [...declared] }) });
    await two.beginCall(id, { stepId: stepOf(id) });
    for (const edit of edits) makeEdit(this.root, edit);
    const ends = [await one.endCall(id), await two.endCall(id)];
    for (const [i, name] of [first, second].entries())
      if (ends[i]?.available) this.#calls.set(name, [...(this.#calls.get(name) ?? []), id]);
    const said = ends.map((end) => (end.available ? end.changes.map(({ path, kind }) => [path, kind]) : end.reason));
    return { id, said };
  }

  async #reopen(): Promise<void> {
    const { dataDir, root } = this.workspace;
    await this.workspace.close();
    if (this.#options.dropIndex === true) rmSync(join(workspaceDir(dataDir, root), 'index'), { force: true });
    await this.#open();
  }

  #back(names: readonly string[], back: number): string {
    return names[Math.max(0, names.length - 1 - back)] ?? '';
  }

  /** The id that a step names; one that nobody has where the session has none. */
  #named(step: Step & { back: number; session: SessionName }): string {
    const calls = step.op === 'revertCall' || (step.op === 'revert' && step.to === 'call');
    const ids = calls ? (this.#calls.get(step.session) ?? []) : this.boundaries(step.session);
    return this.#back(ids, step.back) || 'none';
  }

  async #fork(step: Step & { op: 'fork' }): Promise<Act> {
    const at = this.#named(step);
    // A session of that name: the engine throws, which is told like an answer.
    const result = await this.session(step.session)
      .fork({ threadId: `${step.to}-${this.#run}` }, { at })
      .catch((error: { code: string }) => ({ available: false as const, reason: error.code }));
    if (!result.available) return { id: at, answer: { unavailable: result.reason }, said: result.reason };
    const known = this.boundaries(step.session);
    this.#boundaries.set(step.to, known.slice(0, known.indexOf(at) + 1));
    this.#calls.set(step.to, [...(this.#calls.get(step.session) ?? [])]);
    return { id: at, said: null };
  }

  async #operate(step: Step & { policy: Policy; session: SessionName }): Promise<Act> {
    const id = 'back' in step && step.back !== undefined ? this.#named({ ...step, back: step.back }) : '';
    const result = await this.#send(step, id);
    if (!result.available) return { id, answer: { unavailable: result.reason }, said: [result.reason] };
    const receipt = 'message' in result ? result.receipt : result;
    return {
      id,
      answer: {
        ...('message' in result ? { message: result.message } : {}),
        outcome: result.outcome,
        ...(receipt === undefined ? {} : { receipt: told(receipt) }),
      },
      said: [
        'message' in result ? result.message : null,
        result.outcome,
        receipt === undefined ? null : plain(receipt),
      ],
    };
  }

  #send(step: Step & { policy: Policy; session: SessionName }, id: string): Promise<Result<HistoryResult | Receipt>> {
    const session = this.session(step.session);
    const options = { onConflict: step.policy };
    switch (step.op) {
      case 'undo':
        return session.undo(id === '' ? options : { ...options, boundaryId: id });
      case 'redo':
        return session.redo(options);
      case 'unrevert':
        return session.unrevert(options);
      case 'revert':
        return session.revert({ ...options, messageId: step.to === 'call' ? stepOf(id) : id });
      case 'revertTurn':
        return session.revertTurn(id, options);
      case 'revertCall':
        return session.revertCall(id, options);
      case 'restore':
        return session.restore(id, { ...options, ...(step.paths === undefined ? {} : { paths: [...step.paths] }) });
      default:
        throw new Error(`no operation: ${step.op}`);
    }
  }

  async #ask(step: Step & { op: 'ask' }): Promise<Act> {
    const id = this.#named(step);
    const session = this.session(step.session);
    const { items } = got(await session.timeline({ limit: 500 }));
    const plan = await session.plan(id, { onConflict: step.policy });
    const position = items.find((item) => item.type === 'boundary' && item.boundaryId === id);
    const entries = plan.available ? entriesOf(plan.entries) : { unavailable: plan.reason };
    const asked = {
      log: items.map(logItem),
      plan: entries,
      files: position?.type === 'boundary' ? await this.#exported(position.position) : null,
    };
    return { id, asked, said: [asked.plan, plan.available ? (plan as Plan).notes : []] };
  }

  async #exported(position: string): Promise<Copy> {
    const target = join(this.space.base, 'exported');
    try {
      got(await this.workspace.export(position, target));
      return fullCopy(target);
    } finally {
      rmSync(target, { recursive: true, force: true });
    }
  }

  /** What the store says of itself, with what differs between two stores left out. */
  async timeline(name: SessionName): Promise<unknown> {
    const { items } = got(await this.session(name).timeline());
    return items.map((item) =>
      Object.fromEntries(
        Object.entries(item).filter(([key]) => !['at', 'position', 'operationId', 'invocation'].includes(key)),
      ),
    );
  }

  async close(): Promise<void> {
    await this.space[Symbol.asyncDispose]();
  }
}

/** Removes what is in a folder, whatever its modes. */
function empty(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      chmodSync(path, 0o700);
      empty(path);
    }
    rmSync(path, { recursive: true });
  }
}

function entriesOf(list: readonly ReceiptEntry[]): (string | undefined)[][] {
  return list.map(({ path, action, reason, overrides }) => [path, action, reason, overrides]);
}

function told(receipt: Receipt): Told {
  const odd = [receipt.failed, receipt.uncovered, receipt.irreversible].flat();
  if (odd.length > 0) throw new Error(`nothing should fail, or be uncovered: ${JSON.stringify(odd)}`);
  return {
    boundaryId: receipt.boundaryId,
    outcome: receipt.outcome,
    restored: entriesOf(receipt.restored),
    refused: entriesOf(receipt.refused),
    skipped: entriesOf(receipt.skipped),
  };
}

function logItem(item: TimelineItem): readonly unknown[] {
  if (item.type === 'boundary') return ['boundary', item.boundaryId, item.undone, item.reverted];
  if (item.type === 'call') return ['call', item.callId, item.state];
  return ['operation', item.kind, item.boundaryId, item.outcome, item.restored, item.standing];
}

/** A receipt without ids, and without the notes on how a backend got there. Hashes have a seed of the store's own. */
function plain(receipt: Receipt): unknown {
  const lists = [receipt.restored, receipt.refused, receipt.skipped, receipt.failed];
  return [
    receipt.outcome,
    receipt.notes,
    receipt.uncovered,
    lists.map((list) =>
      list.map(({ path, action, reason, overrides, detail }) => [path, action, reason, overrides, detail]),
    ),
  ];
}
