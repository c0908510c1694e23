/**
 * `todo_write`: the model's task list. Each call replaces the list in the store, and then writes the plan file, where there is
 * a writer for one.
 *
 * The store must take the list, or the tool fails; a plan file that can't be written is told to the logger only.
 */
import { z } from 'zod';
import { TakebackError } from '../errors.ts';
import { reporter, type WarnLogger } from '../hooks/report.ts';
import { check } from '../schemas.ts';
import { type PlanWriter, type TodoItem, type TodoStore, todoListSchema } from './todos.ts';
import type { Tool } from './tool.ts';

/** Input of `todo_write`. */
export const todoWriteInputSchema = z.strictObject({
  todos: todoListSchema.describe('The whole list, in order; it takes the place of the one before'),
});

export interface TodoWriteOptions {
  readonly store: TodoStore;
  /** Without one, no plan file is written. */
  readonly planWriter?: PlanWriter | undefined;
  /** Told of a plan file that can't be written. Default: a warning of the process. */
  readonly logger?: WarnLogger | undefined;
}

/**
 * The tool `todo_write`. Calls that overlap are done one after the other.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for a store or a plan writer that is none
 */
export function todoWriteTool({ store, planWriter, logger }: TodoWriteOptions): Tool<typeof todoWriteInputSchema> {
  if (typeof store?.read !== 'function' || typeof store.write !== 'function') {
    throw new TakebackError('ERR_INVALID_ARGUMENT', 'store must be an object with read() and write(todos)');
  }
  if (planWriter !== undefined && typeof planWriter.write !== 'function') {
    throw new TakebackError('ERR_INVALID_ARGUMENT', 'planWriter must be an object with write(todos)');
  }
  const report = reporter('todo_write', logger);
  let last: Promise<unknown> = Promise.resolve();
  const write = async (todos: readonly TodoItem[]): Promise<string> => {
    await store.write(todos);
    const current = await store.read();
    try {
      await planWriter?.write(current);
    } catch (error) {
      report('failed to write plan file', error);
    }
    return told(current);
  };
  return {
    name: 'todo_write',
    description:
      'Replaces the task list. Give every task, in order, with its status: pending, in_progress, completed or cancelled.',
    schema: todoWriteInputSchema,
    jsonSchema: z.toJSONSchema(todoWriteInputSchema),
    async execute(input) {
      const { todos } = check(todoWriteInputSchema, input, 'input');
      const done = last.then(() => write(todos));
      last = done.catch(() => undefined);
      return done;
    },
  };
}

function told(todos: readonly TodoItem[]): string {
  const count = (status: TodoItem['status']): number => todos.filter((todo) => todo.status === status).length;
  const by = `${count('pending')} pending, ${count('in_progress')} in progress, ${count('completed')} completed, ${count('cancelled')} cancelled`;
  return `Saved ${todos.length} ${todos.length === 1 ? 'task' : 'tasks'}: ${by}.`;
}
