/**
 * The naive model of all sessions of a workspace: takes what each step of a sequence did, foretells what it had to do, and
 * compares. Beside the model stand rules that need none: nobody else's bytes go while conflicts are refused, a redo or
 * unrevert right after gives back every byte, what was not written keeps inode and mtime.
 */
import { expect } from 'vitest';
import type { Copy, Done } from './actor.ts';
import { type Answer, type Ask, type Foretold, NaiveSession } from './naive.ts';
import { at, type Entry, isFolderOrAbsent, isWithin, type Tree } from './naive-plan.ts';
import type { SessionName, Step } from './sequence.ts';

type Operation = Step & {
  readonly op: 'undo' | 'redo' | 'restore' | 'revert' | 'unrevert' | 'revertTurn' | 'revertCall';
};

/** The newest operation, while nothing happened since. */
interface Fresh {
  readonly session: SessionName;
  readonly by: 'redo' | 'unrevert';
  readonly tree: Tree;
}

export class NaiveWorld {
  readonly #clock = { now: 0 };
  readonly #sessions = new Map<SessionName, NaiveSession>();
  readonly #copies = new Map<string, Tree>();
  /** What a session left somewhere: path and version. */
  readonly #left = new Map<NaiveSession, Set<string>>();
  /** Paths at which each inode was seen. */
  readonly #places = new Map<bigint, Set<string>>();
  #fresh: Fresh | null = null;
  /** Operations that wrote, by their kind. */
  readonly wrote = new Map<Step['op'], number>();

  constructor(boundaries: ReadonlyMap<SessionName, string>, start: Copy) {
    for (const [name, id] of boundaries) {
      this.#session(name).capture(id);
      this.#copies.set(id, treeOf(start));
    }
  }

  #session(name: SessionName): NaiveSession {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      session = new NaiveSession(this.#clock);
      this.#sessions.set(name, session);
      this.#left.set(session, new Set());
    }
    return session;
  }

  /** Fails where the step did, or said, anything but what the model foretells. */
  check(done: Done): void {
    const { step } = done;
    const [before, after] = [treeOf(done.before), treeOf(done.after)];
    for (const copy of [done.before, done.after]) this.#note(copy);
    switch (step.op) {
      case 'call':
        this.#call(done, before, after);
        break;
      case 'overlap':
        this.#overlap(done as Done & { step: typeof step }, before, after);
        break;
      case 'user':
        break;
      case 'undo':
      case 'redo':
      case 'restore':
      case 'revert':
      case 'unrevert':
      case 'revertTurn':
      case 'revertCall':
        this.#operation(step, done, before);
        return;
      default:
        same(after, before, `${step.op} writes nothing into the root`);
        if (step.op === 'ask') this.#asked(done as Done & { step: typeof step }, before);
        else this.#recorded(done, before);
        return;
    }
    this.#fresh = null;
  }

  #note(copy: Copy): void {
    for (const [path, { ino }] of copy) this.#places.set(ino, (this.#places.get(ino) ?? new Set()).add(path));
  }

  // ---- what is recorded ------------------------------------------------------------------------------------------

  #recorded({ step, id, answer }: Done, before: Tree): void {
    if (step.op === 'capture') {
      this.#session(step.session).capture(id);
      this.#copies.set(id, before);
      this.#fresh = null;
    } else if (step.op === 'drop') {
      this.#session(step.session).dropped = true;
      this.#sessions.delete(step.session);
      if (this.#fresh?.session === step.session) this.#fresh = null;
    } else if (step.op === 'fork') this.#fork(step, id, answer);
  }

  #fork(step: Step & { op: 'fork' }, at: string, answer: Answer | undefined): void {
    const [parent, known] = [this.#session(step.session), this.#session(step.to)];
    const knows = parent.turns.some((turn) => turn.live && turn.id === at);
    const why = known.exists ? 'ERR_INVALID_ARGUMENT' : undefined;
    const unavailable = !parent.exists ? 'no-checkpoint' : knows ? why : 'unknown-boundary';
    expect(answer, 'fork').toEqual(unavailable === undefined ? undefined : { unavailable });
    const fork = unavailable === undefined ? parent.fork(at) : null;
    if (fork === null) return;
    this.#sessions.set(step.to, fork);
    this.#left.set(fork, new Set(this.#left.get(parent)));
  }

  #call({ step, id }: Done, before: Tree, after: Tree): void {
    const session = this.#session((step as Step & { op: 'call' }).session);
    expect(id !== '', 'a call needs a boundary before it, and nothing else').toBe(session.exists);
    if (!session.exists) return;
    session.call({ id, began: session.began() }, { before, after, owns: () => true, contested: false });
    this.#leave(session, before, after);
  }

  #overlap({ step, id }: Done & { step: { op: 'overlap' } & Step }, before: Tree, after: Tree): void {
    const [one, two] = step.sessions.map((name) => this.#session(name)) as [NaiveSession, NaiveSession];
    // A folder that comes or goes on the way to what is declared goes with it.
    const isFolderAlone = (path: string): boolean =>
      [at(before, path), at(after, path)].every(isFolderOrAbsent) && before.has(path) !== after.has(path);
    const declared = (path: string): boolean =>
      step.declared.some((named) => isWithin(path, named) || (isFolderAlone(path) && isWithin(named, path)));
    const declares = step.declared.length > 0 && one.exists;
    const moments = [one.exists ? one.began() : 0, two.exists ? two.began() : 0] as const;
    const contested = !declares && one.exists && two.exists;
    const changes = { before, after, contested };
    if (one.exists) one.call({ id, began: moments[0] }, { ...changes, owns: declares ? declared : () => true });
    if (two.exists) {
      const owns = declares ? (path: string) => !declared(path) : () => true;
      two.call({ id, began: moments[1] }, { ...changes, owns });
    }
    for (const session of [one, two]) if (session.exists) this.#leave(session, before, after);
  }

  #leave(session: NaiveSession, before: Tree, after: Tree): void {
    for (const path of changed(before, after)) this.#left.get(session)?.add(`${path}\0${at(after, path)}`);
  }

  // ---- operations ------------------------------------------------------------------------------------------------

  #operation(step: Operation, done: Done, before: Tree): void {
    const session = this.#session(step.session);
    const after = treeOf(done.after);
    const receipt = done.answer !== undefined && 'receipt' in done.answer ? done.answer.receipt : undefined;
    const ask = {
      tree: before,
      policy: step.policy,
      paths: step.op === 'restore' && step.paths !== undefined ? outermost(step.paths) : undefined,
      movedIn: this.#movedIn(receipt?.refused ?? [], done.before),
    };
    this.#rules(step, done, session);
    const foretold = foretell(session, step, { ask, id: done.id });
    expect(done.answer, step.op).toEqual(foretold.answer);
    same(after, foretold.tree, step.op);
    const wrote = changed(before, after).length > 0;
    if (wrote) this.wrote.set(step.op, (this.wrote.get(step.op) ?? 0) + 1);
    const again = step.op === 'redo' || step.op === 'unrevert';
    if (!again && wrote && (receipt?.restored.length ?? 0) > 0)
      this.#fresh = { session: step.session, by: step.op === 'revert' ? 'unrevert' : 'redo', tree: before };
    else if (wrote || step.op === 'revert') this.#fresh = null;
    this.#leave(session, before, after);
  }

  /** What holds whatever the model says. */
  #rules(step: Operation, done: Done, session: NaiveSession): void {
    const [before, after] = [treeOf(done.before), treeOf(done.after)];
    if (this.#fresh?.session === step.session && this.#fresh.by === step.op)
      same(after, this.#fresh.tree, `${step.op} right after gives back every byte`);
    if (step.policy === 'refuse' && step.op !== 'revertTurn' && step.op !== 'revertCall') {
      const taken = changed(before, after).filter((path) => !isFolderOrAbsent(at(before, path)));
      const left = this.#left.get(session);
      const foreign = taken.filter((path) => left?.has(`${path}\0${at(before, path)}`) !== true);
      expect(foreign, `${step.op} writes over nothing but what the session left`).toEqual([]);
    }
    for (const [path, was] of done.before) {
      const is = done.after.get(path);
      if (is?.version !== was.version || was.version.startsWith('dir ')) continue;
      expect([is.ino, is.mtimeNs], `${path} wasn't touched`).toEqual([was.ino, was.mtimeNs]);
    }
  }

  /** Paths that the engine did not want to delete, where the file was elsewhere before: its age decides, not the model. */
  #movedIn(refused: readonly (readonly (string | undefined)[])[], tree: Copy): Set<string> {
    const paths = refused.flatMap(([path, , reason]) => (reason === 'moved-uncovered' ? [path as string] : []));
    const places = (path: string): number => this.#places.get(tree.get(path)?.ino ?? 0n)?.size ?? 0;
    expect(
      paths.filter((path) => places(path) < 2),
      'only what was moved passes for moved in',
    ).toEqual([]);
    return new Set(paths);
  }

  #asked({ step, id, asked, before }: Done & { step: { op: 'ask' } & Step }, tree: Tree): void {
    if (asked === undefined) throw new Error('nothing was asked');
    const session = this.#session(step.session);
    expect(asked.log, 'the timeline').toEqual(session.exists ? session.log() : []);
    const copy = session.exists && session.turns.some((t) => t.live && t.id === id) ? this.#copies.get(id) : undefined;
    expect(asked.files === null, 'a boundary that is known can be exported').toBe(copy === undefined);
    if (copy !== undefined && asked.files !== null) same(treeOf(asked.files), copy, `the files of ${id}`);
    const refused = 'unavailable' in asked.plan ? [] : asked.plan;
    const plan = session.plan(id, { tree, policy: step.policy, movedIn: this.#movedIn(refused, before) });
    expect(asked.plan, 'the plan').toEqual('unavailable' in plan ? plan : visible(plan as readonly Entry[]));
  }
}

function foretell(session: NaiveSession, step: Operation, { ask, id }: { ask: Ask; id: string }): Foretold {
  switch (step.op) {
    case 'undo':
      return session.undo(ask, step.back === undefined ? undefined : id);
    case 'redo':
      return session.redo(ask);
    case 'restore':
      return session.restore(id, ask);
    case 'revert':
      return session.revert(step.to === 'call' ? { callId: id } : { boundaryId: id }, ask);
    case 'unrevert':
      return session.unrevert(ask);
    case 'revertTurn':
      return session.revertTurn(id, ask);
    case 'revertCall':
      return session.revertCall(id, ask);
  }
}

function visible(entries: readonly Entry[]): unknown[] {
  return entries
    .filter((e) => !e.hidden)
    .map(({ path, action, reason, overrides }) => [path, action, reason, overrides]);
}

export function treeOf(copy: Copy): Tree {
  return new Map([...copy].map(([path, { version }]) => [path, version]));
}

function changed(before: Tree, after: Tree): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((path) => at(before, path) !== at(after, path));
}

function outermost(paths: readonly string[]): string[] {
  return paths.filter((path) => !paths.some((other) => other !== path && isWithin(path, other)));
}

function same(tree: Tree, expected: Tree, what: string): void {
  expect(Object.fromEntries(tree), what).toEqual(Object.fromEntries(expected));
}
