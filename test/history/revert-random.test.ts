/**
 * Random stories on one file against a naive model: every call and every edit of the user's has a line of its own, so
 * what must be in the file is known line by line, whatever was undone, reverted, redone and restored in between.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Session } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

interface Call {
  readonly id: string;
  readonly line: number;
  done: boolean;
}

interface Turn {
  readonly id: string;
  readonly calls: readonly Call[];
  undoneBy: object | null;
}

/** What an operation took, until a redo gives it back. */
interface Taken {
  readonly calls: readonly Call[];
}

const LINES = 60;

class Model {
  readonly turns: Turn[] = [];
  readonly users: number[] = [];
  redo: Taken[] = [];
  #lines = 0;

  /** Every third line, so that no two changes touch. */
  line(): number {
    return ++this.#lines * 3;
  }

  full(): boolean {
    return (this.#lines + 3) * 3 > LINES;
  }

  take(turns: readonly Turn[], calls: readonly Call[], marks: boolean): boolean {
    const taken: Taken = { calls: calls.filter((call) => call.done) };
    if (taken.calls.length === 0) return false;
    for (const call of taken.calls) call.done = false;
    if (marks) for (const turn of turns) turn.undoneBy ??= taken;
    this.redo.push(taken);
    return true;
  }

  give(): boolean {
    const taken = this.redo.pop();
    if (taken === undefined) return false;
    for (const call of taken.calls) call.done = true;
    for (const turn of this.turns) if (turn.undoneBy === taken) turn.undoneBy = null;
    return true;
  }

  text(): string {
    const lines = Array.from({ length: LINES }, (_, i) => `${i + 1}`);
    for (const call of this.turns.flatMap((turn) => turn.calls)) if (call.done) lines[call.line - 1] = call.id;
    for (const line of this.users) lines[line - 1] = 'mine';
    return lines.join('\n');
  }
}

type Step = readonly [kind: number, pick: number];

class Teller {
  readonly model = new Model();
  readonly said: string[] = [];
  readonly story: Story;
  #calls = 0;

  constructor(story: Story) {
    this.story = story;
  }

  get session(): Session {
    return this.story.session();
  }

  async step([kind, pick]: Step): Promise<void> {
    const { model } = this;
    const turn = model.turns[pick % Math.max(1, model.turns.length)];
    if (kind < 4 && !model.full()) return this.newTurn(1 + (pick % 2));
    if (kind < 6 && !model.full()) return this.userEdit();
    if (kind < 9) return this.undo();
    if (kind < 12) return this.redo();
    if (turn === undefined) return;
    if (kind < 15) return this.revertTurn(turn);
    if (kind < 18) return this.revertCall(turn, turn.calls[pick % turn.calls.length] as Call);
    return this.restore(turn);
  }

  async newTurn(calls: number): Promise<void> {
    const { model } = this;
    const turn: Turn = { id: `m${model.turns.length}`, calls: [], undoneBy: null };
    this.said.push(`turn ${turn.id}`);
    await this.story.cp(turn.id);
    model.redo = [];
    model.turns.push(turn);
    for (let i = 0; i < calls; i++) {
      const call = { id: `call-${++this.#calls}`, line: model.line(), done: true };
      await this.story.t(`sed -i '${call.line}s/.*/${call.id}/' f`);
      (turn.calls as Call[]).push(call);
    }
  }

  async userEdit(): Promise<void> {
    const line = this.model.line();
    this.said.push(`user ${line}`);
    this.story.u(`sed -i '${line}s/.*/mine/' f`);
    this.model.users.push(line);
  }

  async undo(): Promise<void> {
    const turn = this.model.turns.findLast((t) => t.undoneBy === null && t.calls.some((call) => call.done));
    this.said.push(`undo ${turn?.id}`);
    const expected = turn !== undefined && this.model.take([turn], turn.calls, true) ? 'done' : 'nothing';
    expect(got(await this.session.undo({ onConflict: 'merge' })).outcome).toBe(expected);
  }

  async redo(): Promise<void> {
    this.said.push('redo');
    const expected = this.model.give() ? 'done' : 'nothing';
    expect(got(await this.session.redo({ onConflict: 'merge' })).outcome).toBe(expected);
  }

  async revertTurn(turn: Turn): Promise<void> {
    this.said.push(`revertTurn ${turn.id}`);
    const expected = this.model.take([turn], turn.calls, true) ? 'done' : 'nothing';
    expect(got(await this.session.revertTurn(turn.id)).outcome).toBe(expected);
  }

  async revertCall(turn: Turn, call: Call): Promise<void> {
    this.said.push(`revertCall ${call.id} of ${turn.id}`);
    const expected = this.model.take([], [call], false) ? 'done' : 'nothing';
    expect(got(await this.session.revertCall(call.id)).outcome).toBe(expected);
  }

  async restore(turn: Turn): Promise<void> {
    const { turns } = this.model;
    const later = turns.slice(turns.indexOf(turn));
    this.said.push(`restore ${turn.id}`);
    const calls = later.flatMap((t) => t.calls);
    const expected = this.model.take([], calls, false) ? 'done' : 'nothing';
    expect(got(await this.session.restore(turn.id, { onConflict: 'merge', paths: ['f'] })).outcome).toBe(expected);
  }

  check(): void {
    expect(this.story.space.sh('awk \'{printf sep $0; sep = "\\n"}\' f'), this.said.join('; ')).toBe(this.model.text());
  }
}

describeBackends('random stories', (backend) => {
  const RUNS = backend === 'native' ? 12 : 4;
  const step = fc.tuple(fc.nat(19), fc.nat(99));
  const stories = fc.sample(fc.array(step, { minLength: 14, maxLength: 18 }), { numRuns: RUNS, seed: 11 });

  test.each(stories.map((steps, i) => [i, steps] as const))(
    'story %i ends with every line as it must be',
    async (_, steps) => {
      await using story = await Story.begin(backend, `seq 1 ${LINES} >f`);
      const teller = new Teller(story);
      await teller.newTurn(2);
      for (const next of steps) {
        await teller.step(next as Step);
        teller.check();
      }
      expect(got(await story.workspace.verify()).problems).toEqual([]);
    },
  );
});
