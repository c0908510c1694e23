/** `todo_write`: the store, the plan file beside it, and what is no list. */
import { expect, test } from 'vitest';
import { type PlanWriter, type TodoItem, type TodoStore, todoWriteTool } from '../../src/index.ts';
import { Heard, warningsDuring } from '../hooks/kit.ts';

function memory(): TodoStore & { todos: readonly TodoItem[] } {
  return {
    todos: [],
    read() {
      return this.todos;
    },
    write(todos) {
      this.todos = todos;
    },
  };
}

const FOUR: TodoItem[] = [
  { content: 'Create directory structure', status: 'completed' },
  { content: 'Initialize go.mod', status: 'in_progress' },
  { content: 'Implement main.go', status: 'pending' },
  { content: 'Delete old file', status: 'cancelled' },
];

test('each call replaces the list in the store, and answers how far it is', async () => {
  const store = memory();
  const tool = todoWriteTool({ store });
  expect(await tool.execute({ todos: FOUR })).toBe(
    'Saved 4 tasks: 1 pending, 1 in progress, 1 completed, 1 cancelled.',
  );
  expect(store.todos).toEqual(FOUR);
  expect(await tool.execute({ todos: FOUR.slice(0, 1) })).toMatch(/^Saved 1 task: 0 pending/);
  expect(store.todos).toEqual(FOUR.slice(0, 1));
  expect(await tool.execute({ todos: [] })).toMatch(/^Saved 0 tasks/);
});

test('the plan writer gets what the store holds, after each call', async () => {
  const written: unknown[] = [];
  const store: TodoStore = { read: () => [{ content: 'from the store', status: 'pending' }], write: () => undefined };
  const tool = todoWriteTool({ store, planWriter: { write: (todos) => void written.push(todos) } });
  await tool.execute({ todos: FOUR });
  expect(written).toEqual([[{ content: 'from the store', status: 'pending' }]]);
});

test('a plan file that can’t be written is logged, and the tool goes on', async () => {
  const logger = new Heard();
  const store = memory();
  const planWriter: PlanWriter = { write: () => Promise.reject(new Error('disk full')) };
  const tool = todoWriteTool({ store, planWriter, logger });
  expect(await tool.execute({ todos: FOUR })).toMatch(/^Saved 4 tasks/);
  expect(store.todos).toEqual(FOUR);
  expect(logger.lines).toEqual(['todo_write: failed to write plan file: disk full']);
  const throwing: PlanWriter = {
    write: () => {
      throw new Error('at once');
    },
  };
  expect(await warningsDuring(() => todoWriteTool({ store, planWriter: throwing }).execute({ todos: FOUR }))).toEqual([
    'todo_write: failed to write plan file: at once',
  ]);
});

test('a store that fails fails the tool, and no plan is written', async () => {
  const written: unknown[] = [];
  const store: TodoStore = { read: () => [], write: () => Promise.reject(new Error('no database')) };
  const tool = todoWriteTool({ store, planWriter: { write: (todos) => void written.push(todos) } });
  await expect(tool.execute({ todos: FOUR })).rejects.toThrow('no database');
  expect(written).toEqual([]);
});

test('calls that overlap are done one after the other, also after one that failed', async () => {
  const log: string[] = [];
  const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  let todos: readonly TodoItem[] = [];
  const store: TodoStore = {
    read: () => todos,
    write: async (next) => {
      log.push(`begin ${next.length}`);
      await pause();
      if (next.length === 0) throw new Error('none');
      todos = next;
      log.push(`end ${next.length}`);
    },
  };
  const tool = todoWriteTool({ store, planWriter: { write: (list) => void log.push(`plan ${list.length}`) } });
  const results = await Promise.allSettled([0, 1, 2].map((n) => tool.execute({ todos: FOUR.slice(0, n) })));
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  expect(log).toEqual(['begin 0', 'begin 1', 'end 1', 'plan 1', 'begin 2', 'end 2', 'plan 2']);
});

test.each([
  ['nothing', undefined, 'input'],
  ['no list', {}, 'input.todos'],
  ['an unknown status', { todos: [{ content: 'a', status: 'done' }] }, 'input.todos.0.status'],
  ['an item without a content', { todos: [{ content: '', status: 'pending' }] }, 'input.todos.0.content'],
  ['a key that is unknown', { todos: [{ content: 'a', status: 'pending', priority: 1 }] }, 'priority'],
])('%s is refused, and the store stays', async (_name, input, message) => {
  const store = memory();
  await todoWriteTool({ store }).execute({ todos: FOUR });
  await expect(todoWriteTool({ store }).execute(input)).rejects.toMatchObject({
    code: 'ERR_INVALID_ARGUMENT',
    message: expect.stringContaining(message),
  });
  expect(store.todos).toEqual(FOUR);
});

test('a store or a plan writer that is none is refused when it is given', () => {
  const store = memory();
  for (const wrong of [
    undefined,
    { store: {} },
    { store: undefined },
    { store, planWriter: {} },
    { store, planwriter: store },
  ]) {
    expect(() => todoWriteTool(wrong as never)).toThrowError(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  }
});

test('the tool tells a model its name and its input', () => {
  const { name, jsonSchema } = todoWriteTool({ store: memory() });
  expect(name).toBe('todo_write');
  expect(jsonSchema).toMatchObject({ type: 'object', required: ['todos'] });
});
