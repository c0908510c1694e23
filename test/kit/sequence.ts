/**
 * Random sequences of what agents, users and sessions do, for the differential and the model suite: the steps as data,
 * made by fast-check, and the edits as plain node:fs that answers the same on equal trees.
 */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';

export type Edit =
  | { readonly kind: 'write'; readonly path: string; readonly content: string }
  /** Puts the text on one of the twelve lines of a file; makes such a file where there is none. */
  | { readonly kind: 'line'; readonly path: string; readonly line: number; readonly text: string }
  | { readonly kind: 'rm'; readonly path: string }
  | { readonly kind: 'mkdir'; readonly path: string }
  | { readonly kind: 'mv'; readonly from: string; readonly to: string }
  | { readonly kind: 'chmod'; readonly path: string; readonly mode: number }
  | { readonly kind: 'link'; readonly path: string; readonly target: string };

/** Two sessions that each sequence starts with, and one that is there once it was forked from another. */
export const SESSIONS = ['s1', 's2', 'f'] as const;
export type SessionName = (typeof SESSIONS)[number];

export type Policy = 'refuse' | 'overwrite' | 'merge';

/** `back`: which boundary or call, so many before the newest. */
export type Step =
  | { readonly op: 'capture'; readonly session: SessionName }
  | { readonly op: 'call'; readonly session: SessionName; readonly edits: readonly Edit[] }
  /** Calls of both sessions are open while the edits are made. */
  | {
      readonly op: 'overlap';
      readonly sessions: readonly [SessionName, SessionName];
      readonly edits: readonly Edit[];
      /** By the first one; none: it declares nothing. */
      readonly declared: readonly string[];
    }
  | { readonly op: 'user'; readonly edits: readonly Edit[] }
  | { readonly op: 'undo'; readonly session: SessionName; readonly policy: Policy; readonly back?: number }
  | { readonly op: 'redo' | 'unrevert'; readonly session: SessionName; readonly policy: Policy }
  | {
      readonly op: 'restore';
      readonly session: SessionName;
      readonly back: number;
      readonly policy: Policy;
      readonly paths?: readonly string[];
    }
  /** To a boundary, or to the end of a call. */
  | {
      readonly op: 'revert';
      readonly session: SessionName;
      readonly back: number;
      readonly to: 'boundary' | 'call';
      readonly policy: Policy;
    }
  | {
      readonly op: 'revertTurn' | 'revertCall';
      readonly session: SessionName;
      readonly back: number;
      readonly policy: Policy;
    }
  | { readonly op: 'fork'; readonly session: SessionName; readonly to: SessionName; readonly back: number }
  | { readonly op: 'drop'; readonly session: SessionName }
  /** Asks for the timeline, and for a plan and the files of a boundary. */
  | { readonly op: 'ask'; readonly session: SessionName; readonly back: number; readonly policy: Policy }
  | { readonly op: 'reopen' }
  | { readonly op: 'gc' };

/** Twelve lines, of which two far apart can change without touching. */
const LINES = Array.from({ length: 12 }, (_, i) => `line ${i}`).join('\n');

const PATHS = ['a', 'b', 'c', 'd', 'd/a', 'd/b', 'd/e', 'd/e/a', 'x', 'x/y', 'x/y/z', 'Ünï'];

const path = fc.constantFrom(...PATHS);
const session = fc.constantFrom<SessionName>('s1', 's1', 's1', 's2', 's2', 'f');

export const edit: fc.Arbitrary<Edit> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('write' as const),
      path,
      content: fc.constantFrom('1\n', '2\n', '3\n', 'long\n'.repeat(50), ''),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('line' as const),
      path,
      line: fc.nat(11),
      text: fc.constantFrom('one', 'two', 'three'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('rm' as const), path }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('mkdir' as const), path }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('mv' as const), from: path, to: path }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('chmod' as const), path, mode: fc.constantFrom(0o755, 0o644, 0o700) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('link' as const),
      path,
      target: fc.constantFrom('a', 'd', '../out', 'gone'),
    }),
  },
);

export const edits: fc.Arbitrary<Edit[]> = fc.array(edit, { minLength: 1, maxLength: 5 });

const back = fc.nat(3);
const policy = fc.constantFrom<Policy>('refuse', 'refuse', 'overwrite', 'merge');
const op = <T extends Step['op']>(name: T): fc.Arbitrary<T> => fc.constant(name);

/** What one session does, and what the store goes through. */
function ownSteps(who: fc.Arbitrary<SessionName>): fc.WeightedArbitrary<Step>[] {
  return [
    { weight: 8, arbitrary: fc.record({ op: op('capture'), session: who }) },
    { weight: 14, arbitrary: fc.record({ op: op('call'), session: who, edits }) },
    { weight: 7, arbitrary: fc.record({ op: op('undo'), session: who, policy }) },
    { weight: 7, arbitrary: fc.record({ op: op('redo'), session: who, policy }) },
    { weight: 6, arbitrary: fc.record({ op: op('restore'), session: who, back, policy }) },
    { weight: 1, arbitrary: fc.constant({ op: 'gc' as const }) },
    { weight: 1, arbitrary: fc.constant({ op: 'reopen' as const }) },
  ];
}

/** What needs others, or is told of many turns. */
function manySteps(who: fc.Arbitrary<SessionName>): fc.WeightedArbitrary<Step>[] {
  const pair = fc.constantFrom<[SessionName, SessionName]>(['s1', 's2'], ['s2', 's1'], ['s1', 'f'], ['f', 's2']);
  const to = fc.constantFrom('boundary' as const, 'boundary' as const, 'call' as const);
  const paths = fc.uniqueArray(path, { minLength: 1, maxLength: 3 });
  const declared = fc.oneof(fc.constant<string[]>([]), fc.uniqueArray(path, { minLength: 1, maxLength: 5 }));
  const fork = fc.constantFrom<[SessionName, SessionName]>(['s1', 'f'], ['s2', 'f'], ['s1', 'f'], ['f', 's1']);
  return [
    { weight: 8, arbitrary: fc.record({ op: op('user'), edits }) },
    { weight: 3, arbitrary: fc.record({ op: op('overlap'), sessions: pair, edits, declared }) },
    { weight: 4, arbitrary: fc.record({ op: op('restore'), session: who, back, policy, paths }) },
    { weight: 2, arbitrary: fc.record({ op: op('undo'), session: who, policy, back }) },
    { weight: 4, arbitrary: fc.record({ op: op('revert'), session: who, back, to, policy }) },
    { weight: 4, arbitrary: fc.record({ op: op('unrevert'), session: who, policy }) },
    { weight: 8, arbitrary: fc.record({ op: op('revertTurn'), session: who, back, policy }) },
    { weight: 7, arbitrary: fc.record({ op: op('revertCall'), session: who, back, policy }) },
    {
      weight: 3,
      arbitrary: fc.tuple(fork, back).map(([[from, into], n]) => ({ op: 'fork', session: from, to: into, back: n })),
    },
    { weight: 1, arbitrary: fc.record({ op: op('drop'), session: who }) },
    { weight: 3, arbitrary: fc.record({ op: op('ask'), session: who, back, policy }) },
  ];
}

/** Steps that are worth more together: a whole turn, and what is taken back and given back at once or after an edit. */
function stories(who: fc.Arbitrary<SessionName>, foreign: boolean): fc.WeightedArbitrary<Step[]>[] {
  const parts = { session: who, edits, more: edits, policy, again: policy, back };
  const tell = (weight: number, story: (of: StoryOf) => Step[]): fc.WeightedArbitrary<Step[]> => ({
    weight,
    arbitrary: fc.record(parts).map(story),
  });
  const own = [
    tell(14, ({ session, edits: first, more }) => [
      { op: 'capture', session },
      { op: 'call', session, edits: first },
      { op: 'call', session, edits: more },
    ]),
    tell(4, ({ session, policy: one, again }) => [
      { op: 'undo', session, policy: one },
      { op: 'undo', session, policy: one },
      { op: 'redo', session, policy: again },
      { op: 'redo', session, policy: again },
    ]),
  ];
  if (!foreign) return own;
  return [
    ...own,
    ...togethers(who),
    tell(6, ({ session, edits: first, more, policy: one, again, back: n }) => [
      { op: 'capture', session },
      { op: 'call', session, edits: first },
      { op: 'capture', session },
      { op: 'call', session, edits: more },
      { op: n < 2 ? 'revertTurn' : 'revertCall', session, back: 1, policy: one },
      { op: 'redo', session, policy: again },
    ]),
    tell(5, ({ session, policy: one, back: n, again }) => [
      { op: 'revert', session, back: n, to: 'boundary', policy: one },
      { op: 'unrevert', session, policy: again },
    ]),
    tell(5, ({ session, policy: one, back: n, again, edits: theirs }) => [
      { op: 'revert', session, back: n, to: 'call', policy: one },
      { op: 'user', edits: theirs },
      { op: 'unrevert', session, policy: again },
    ]),
    tell(4, ({ session, policy: one, again, edits: theirs }) => [
      { op: 'undo', session, policy: one },
      { op: 'user', edits: theirs },
      { op: 'redo', session, policy: again },
    ]),
  ];
}

/** What two sessions have to do with each other: calls at once, forks, drops. */
function togethers(who: fc.Arbitrary<SessionName>): fc.WeightedArbitrary<Step[]>[] {
  const parts = { session: who, edits, more: edits, policy, again: policy, back, some: fc.uniqueArray(path) };
  const otherOf = (session: SessionName): SessionName => (session === 's1' ? 's2' : 's1');
  const forkOf = (session: SessionName): SessionName => (session === 'f' ? 's2' : 'f');
  const tell = (weight: number, story: (of: StoryOf & { some: string[] }) => Step[]): fc.WeightedArbitrary<Step[]> => ({
    weight,
    arbitrary: fc.record(parts).map(story),
  });
  return [
    tell(4, ({ session, edits: theirs, policy: one }) => [
      { op: 'overlap', sessions: [otherOf(session), session], edits: theirs, declared: [] },
      { op: 'undo', session, policy: one },
    ]),
    tell(4, ({ session, edits: theirs, some, policy: one }) => [
      { op: 'overlap', sessions: [otherOf(session), session], edits: theirs, declared: some },
      { op: 'drop', session: otherOf(session) },
      { op: 'undo', session, policy: one },
    ]),
    tell(4, ({ session, edits: first, more, policy: one, again, back: n }) => [
      { op: 'drop', session: forkOf(session) },
      { op: 'capture', session },
      { op: 'call', session, edits: first },
      { op: 'undo', session, policy: again },
      { op: 'fork', session, to: forkOf(session), back: n % 2 },
      { op: 'redo', session, policy: again },
      { op: 'call', session: forkOf(session), edits: more },
      { op: 'restore', session: forkOf(session), back: n % 2, policy: one },
    ]),
  ];
}

interface StoryOf {
  readonly session: SessionName;
  readonly edits: Edit[];
  readonly more: Edit[];
  readonly policy: Policy;
  readonly again: Policy;
  readonly back: number;
}

/** `foreign`: with edits of the user, other sessions, and all that is done to a history of many. */
export function steps(options: { foreign: boolean; max: number }): fc.Arbitrary<Step[]> {
  const who = options.foreign ? session : fc.constant<SessionName>('s1');
  const single = options.foreign ? [...ownSteps(who), ...manySteps(who)] : ownSteps(who);
  const one: fc.WeightedArbitrary<Step[]> = { weight: 40, arbitrary: fc.oneof(...single).map((step) => [step]) };
  const parts = fc.oneof(one, ...stories(who, options.foreign));
  // Without bias: half of all sequences would be of the smallest kind.
  return fc.noBias(fc.array(parts, { minLength: 3, maxLength: options.max, size: 'max' })).map((all) => all.flat());
}

/** Makes an edit where it can be made; where it can't (a folder in the way …) nothing happens. */
export function makeEdit(root: string, step: Edit): void {
  try {
    tryEdit(root, step);
  } catch {
    // The tree doesn't allow it.
  }
}

function tryEdit(root: string, step: Edit): void {
  if (step.kind === 'mv') {
    refuseLinks(root, dirname(step.from));
    refuseLinks(root, dirname(step.to));
    renameSync(join(root, step.from), join(root, step.to));
    return;
  }
  const file = join(root, step.path);
  refuseLinks(root, step.kind === 'rm' || step.kind === 'link' ? dirname(step.path) : step.path);
  if (step.kind === 'write') {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, step.content);
  } else if (step.kind === 'line') {
    mkdirSync(dirname(file), { recursive: true });
    const text = existsSync(file) ? readFileSync(file, 'latin1') : LINES;
    const lines = text.split('\n');
    lines[step.line % lines.length] = step.text;
    writeFileSync(file, lines.join('\n'), 'latin1');
  } else if (step.kind === 'rm') rmSync(file, { recursive: true });
  else if (step.kind === 'mkdir') mkdirSync(file, { recursive: true });
  else if (step.kind === 'chmod') chmodSync(file, step.mode);
  else symlinkSync(step.target, file);
}

/** Edits stay in the root: none goes through a link. */
function refuseLinks(root: string, path: string): void {
  let at = root;
  for (const part of path.split('/').filter((p) => p !== '.')) {
    at = join(at, part);
    if (lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink() === true) throw new Error('a link');
  }
}
