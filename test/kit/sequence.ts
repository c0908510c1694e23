/**
 * Random sequences of what agents, users and sessions do, for the differential and the model suite: the steps as data,
 * made by fast-check, and the edits as plain node:fs that answers the same on equal trees.
 */
import { chmodSync, lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';

export type Edit =
  | { readonly kind: 'write'; readonly path: string; readonly content: string }
  | { readonly kind: 'rm'; readonly path: string }
  | { readonly kind: 'mkdir'; readonly path: string }
  | { readonly kind: 'mv'; readonly from: string; readonly to: string }
  | { readonly kind: 'chmod'; readonly path: string; readonly mode: number }
  | { readonly kind: 'link'; readonly path: string; readonly target: string };

export type SessionName = 's1' | 's2';

export type Step =
  | { readonly op: 'capture'; readonly session: SessionName }
  | { readonly op: 'call'; readonly session: SessionName; readonly edits: readonly Edit[] }
  /** Calls of both sessions are open while the edits are made. */
  | { readonly op: 'overlap'; readonly edits: readonly Edit[]; readonly declared: readonly string[] }
  | { readonly op: 'user'; readonly edits: readonly Edit[] }
  | { readonly op: 'undo' | 'redo'; readonly session: SessionName; readonly force: boolean }
  | {
      readonly op: 'restore';
      readonly session: SessionName;
      /** Which boundary: so many before the newest. */
      readonly back: number;
      readonly force: boolean;
      readonly paths?: readonly string[];
    }
  | { readonly op: 'reopen' }
  | { readonly op: 'gc' };

const PATHS = ['a', 'b', 'c', 'd', 'd/a', 'd/b', 'd/e', 'd/e/a', 'x', 'x/y', 'x/y/z', 'Ünï'];

const path = fc.constantFrom(...PATHS);
const session = fc.constantFrom<SessionName>('s1', 's2');

export const edit: fc.Arbitrary<Edit> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('write' as const),
      path,
      content: fc.constantFrom('1\n', '2\n', '3\n', 'long\n'.repeat(50), ''),
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
const force = fc.boolean();

/** `foreign`: with edits of the user and a second session. */
export function steps(options: { foreign: boolean; max: number }): fc.Arbitrary<Step[]> {
  const who = options.foreign ? session : fc.constant<SessionName>('s1');
  const own: fc.WeightedArbitrary<Step>[] = [
    { weight: 4, arbitrary: fc.record({ op: fc.constant('capture' as const), session: who }) },
    { weight: 6, arbitrary: fc.record({ op: fc.constant('call' as const), session: who, edits }) },
    { weight: 3, arbitrary: fc.record({ op: fc.constant('undo' as const), session: who, force }) },
    { weight: 3, arbitrary: fc.record({ op: fc.constant('redo' as const), session: who, force }) },
    { weight: 3, arbitrary: fc.record({ op: fc.constant('restore' as const), session: who, back, force }) },
    { weight: 1, arbitrary: fc.constant({ op: 'gc' as const }) },
    { weight: 1, arbitrary: fc.constant({ op: 'reopen' as const }) },
  ];
  const foreign: fc.WeightedArbitrary<Step>[] = [
    { weight: 4, arbitrary: fc.record({ op: fc.constant('user' as const), edits }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant('overlap' as const), edits, declared: fc.subarray(PATHS) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        op: fc.constant('restore' as const),
        session: who,
        back,
        force,
        paths: fc.uniqueArray(path, { minLength: 1, maxLength: 3 }),
      }),
    },
  ];
  return fc.array(fc.oneof(...own, ...(options.foreign ? foreign : [])), { minLength: 4, maxLength: options.max });
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
