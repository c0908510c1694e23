/**
 * `todo_write`: the model's task list. Each call replaces the list in the store, and then writes the plan file, where there is
 * a writer for one.
 *
 * The store must take the list, or the tool fails; a plan file that can't be written is told to the logger only.
 */
import { z } from 'zod';
import { reporter, warnLoggerSchema } from '../hooks/report.ts';
import { check } from '../schemas.ts';
import { type PlanWriter, type TodoItem, type TodoStore, todoListSchema } from './todos.ts';
import type { Tool } from './tool.ts';

/** Input of `todo_write`. */
export const todoWriteInputSchema = z.strictObject({
  todos: todoListSchema.describe('The whole list, in order; it takes the place of the one before'),
});

const hasMethods = (value: unknown, ...names: string[]): boolean =>
  typeof value === 'object' && value !== null && names.every((name) => typeof Reflect.get(value, name) === 'function');

/** Options of {@link todoWriteTool}. */
export const todoWriteOptionsSchema = z.strictObject({
  store: z.custom<TodoStore>((v) => hasMethods(v, 'read', 'write'), 'must be an object with read() and write(todos)'),
  /** Without one, no plan file is written. */
  planWriter: z.custom<PlanWriter>((v) => hasMethods(v, 'write'), 'must be an object with write(todos)').optional(),
  /** Told of a plan file that can't be written. Default: a warning of the process. */
  logger: warnLoggerSchema.optional(),
});
export type TodoWriteOptions = z.input<typeof todoWriteOptionsSchema>;

/**
 * The tool `todo_write`. Calls that overlap are done one after the other.
 *
 * @throws {TakebackError} `ERR_INVALID_ARGUMENT` for options of the wrong form
 */
export function todoWriteTool(options: TodoWriteOptions): Tool<typeof todoWriteInputSchema> {
  const { store, planWriter, logger } = check(todoWriteOptionsSchema, options, 'options');
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
