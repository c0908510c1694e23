/** The table of tools: name, words for the model, schemas, and the function that answers. */
import type { z } from 'zod';
import type { Found } from './answers.ts';
import { diff, plan, sessions, show, turns } from './look.ts';
import type { Chosen } from './session.ts';
import * as shapes from './shapes.ts';
import { redo, restore, undo } from './write.ts';

export interface Tool<I extends z.ZodObject = z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: I;
  readonly output: z.ZodObject;
  /** It writes to the files of the folder. */
  readonly writes: boolean;
  answer(chosen: Chosen, input: z.output<I>, signal?: AbortSignal): Promise<Found>;
}

/** Ties a tool's function to its own input. */
function tool<I extends z.ZodObject>(of: Tool<I>): Tool {
  return of as unknown as Tool;
}

const LOOKING: readonly Tool[] = [
  tool({
    name: 'takeback_sessions',
    title: 'List sessions',
    description: 'Lists the recorded conversations of this folder, the one with the newest turn first.',
    input: shapes.sessionsInput,
    output: shapes.sessionsOutput,
    writes: false,
    answer: sessions,
  }),
  tool({
    name: 'takeback_turns',
    title: 'List turns',
    description:
      'Lists the newest turns of a session, oldest first: the id of the boundary where each starts, how many files it changed, ' +
      'whether it is undone, and the undo, redo and restore operations since. `calls: true` lists tool calls too.',
    input: shapes.turnsInput,
    output: shapes.turnsOutput,
    writes: false,
    answer: turns,
  }),
  tool({
    name: 'takeback_show',
    title: 'Show what a turn or a call changed',
    description:
      'Lists the paths that the session’s own calls changed in one turn (default: the newest), or in one call.',
    input: shapes.showInput,
    output: shapes.showOutput,
    writes: false,
    answer: show,
  }),
  tool({
    name: 'takeback_diff',
    title: 'Diff',
    description:
      'A git patch from a boundary (default: the newest) to another, or to the files now, whoever changed them. A long patch ' +
      'comes in parts: ask again with offset = nextOffset.',
    input: shapes.diffInput,
    output: shapes.diffOutput,
    writes: false,
    answer: diff,
  }),
  tool({
    name: 'takeback_plan',
    title: 'Plan a restore',
    description:
      'Lists what takeback_restore would do to get back to a boundary: all that the session changed since is taken back. ' +
      'Writes nothing. Gives the planToken that takeback_restore needs.',
    input: shapes.planInput,
    output: shapes.planOutput,
    writes: false,
    answer: plan,
  }),
];

const WRITING: readonly Tool[] = [
  tool({
    name: 'takeback_restore',
    title: 'Restore files to a boundary',
    description:
      'Does what takeback_plan listed: give the same boundaryId, paths and onConflict, and its planToken. Where anything ' +
      'changed since the plan, nothing is written and the reason is stale-plan. takeback_redo brings it back.',
    input: shapes.restoreInput,
    output: shapes.operationOutput,
    writes: true,
    answer: restore,
  }),
  tool({
    name: 'takeback_undo',
    title: 'Undo one turn',
    description:
      'Takes back what the session changed in one turn, named by its boundary id. For the last turn name the newest one in ' +
      'takeback_turns that changed files and isn’t undone. What was changed since is kept. takeback_redo brings it back.',
    input: shapes.undoInput,
    output: shapes.operationOutput,
    writes: true,
    answer: undo,
  }),
  tool({
    name: 'takeback_redo',
    title: 'Redo',
    description:
      'Brings back what the newest undo or restore took away, named by its operation id. Possible until the session’s next ' +
      'turn or change.',
    input: shapes.redoInput,
    output: shapes.operationOutput,
    writes: true,
    answer: redo,
  }),
];

export const TOOLS: readonly Tool[] = [...LOOKING, ...WRITING];
