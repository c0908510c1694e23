/** Todo lists: the words that the tool, its store and the plan file share. Interfaces and the schema of an item. */
import { z } from 'zod';

/** One item: what is to be done, and how far it is. */
export const todoItemSchema = z.strictObject({
  content: z.string().min(1, 'must not be empty').max(10_000),
  status: z.enum(['pending', 'in_progress', 'completed', 'cancelled']),
});
/** A whole list, in order. */
export const todoListSchema = z.array(todoItemSchema).max(1000);
export type TodoItem = z.infer<typeof todoItemSchema>;

/** Where the list of one session is kept. `SessionManager.todos(id)` is one. */
export interface TodoStore {
  read(): readonly TodoItem[] | Promise<readonly TodoItem[]>;
  /** Takes the place of the whole list. */
  write(todos: readonly TodoItem[]): void | Promise<void>;
}

/** Writes the list to where people read it. `filePlanWriter` makes one. */
export interface PlanWriter {
  write(todos: readonly TodoItem[]): void | Promise<void>;
}
