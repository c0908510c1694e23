/** Sessions in SQLite, and a deletion that takes everything that was kept for one. */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openBackend } from '../../src/backend/open.ts';
import {
  filePlanWriter,
  HookRegistry,
  offloadHook,
  SessionManager,
  type SessionManagerOptions,
  safeName,
  todoWriteTool,
  toolResultsDir,
} from '../../src/index.ts';
import { registryOf, toolCall } from '../hooks/kit.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';

describeBackends('session manager', (backend) => {
  let space: Space;
  const managers: SessionManager[] = [];
  beforeEach(() => {
    space = new Space();
  });
  afterEach(async () => {
    for (const manager of managers.splice(0)) await manager.close();
    await space[Symbol.asyncDispose]();
  });

  const database = (): string => join(space.base, 'home/agent/sessions.db');
  const results = (): string => toolResultsDir(space.root);

  function manager(options: Partial<SessionManagerOptions> = {}): SessionManager {
    const made = new SessionManager({ database: database(), toolResultsDir: results(), backend, ...options });
    managers.push(made);
    return made;
  }

  async function offload(sessionId: string, id = 'c1'): Promise<string> {
    const hook = offloadHook({ workDir: space.root, sessionId, threshold: 10 });
    const { output } = await new HookRegistry(registryOf({ bash: () => `a long output of ${id}` }), hook).execute(
      toolCall(id, 'bash'),
    );
    return /saved to (\S+),/.exec(output)?.[1] as string;
  }

  /** Ages what a session offloaded, by days. */
  function age(sessionId: string, days: number): void {
    const folder = join(results(), safeName(sessionId));
    const then = Date.now() / 1000 - days * 86_400;
    for (const name of [...readdirSync(folder), '.']) utimesSync(join(folder, name), then, then);
  }

  /** How many rows there are of sessions, messages, todos. */
  async function rows(): Promise<unknown[]> {
    const opened = await openBackend(backend);
    const driver = await opened.backend.openDatabase({ file: database() });
    try {
      const tables = ['sessions', 'messages', 'todos'];
      return (await driver.query(tables.map((t) => `SELECT count(*) FROM ${t}`).join(' UNION ALL '))).flat();
    } finally {
      await driver.close();
      await opened.backend.close();
    }
  }

  test('sessions, messages and todos are there after a reopen', async () => {
    const first = manager();
    const session = await first.createSession({ id: 's1', title: 'A title' });
    await first.appendMessage('s1', { role: 'user', content: 'Hello “you” \ud83d' });
    await first.appendMessage('s1', { role: 'assistant', content: [{ type: 'text', text: 'Hi' }, null] });
    await first.todos('s1').write([{ content: 'Two\nlines \ud83d', status: 'in_progress' }]);
    await first.close();
    const again = manager();
    expect(await again.session('s1')).toMatchObject({ id: 's1', title: 'A title', createdAt: session.createdAt });
    expect((await again.messages('s1')).map(({ role, content }) => [role, content])).toEqual([
      ['user', 'Hello “you” \ud83d'],
      ['assistant', [{ type: 'text', text: 'Hi' }, null]],
    ]);
    expect(await again.todos('s1').read()).toEqual([{ content: 'Two\nlines \ud83d', status: 'in_progress' }]);
  });

  test('the database and its folder are made for their owner only, and no other file is left', async () => {
    const sessions = manager();
    expect(existsSync(database()), 'nothing before the first method').toBe(false);
    await sessions.createSession();
    await sessions.close();
    expect((lstatSync(database()).mode & 0o777).toString(8)).toBe('600');
    expect((lstatSync(join(database(), '..')).mode & 0o777).toString(8)).toBe('700');
    expect(readdirSync(join(database(), '..')).filter((name) => !/^sessions\.db(-journal)?$/.test(name))).toEqual([]);
  });

  test('a session without an id gets a random one; an id that is there already is refused', async () => {
    const sessions = manager();
    const { id } = await sessions.createSession();
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    await expect(sessions.createSession({ id })).rejects.toMatchObject({ code: 'ERR_DUPLICATE_SESSION' });
  });

  test('sessions lists the one that changed last first', async () => {
    const sessions = manager();
    for (const id of ['s1', 's2', 's3']) await sessions.createSession({ id });
    const before = (await sessions.session('s3'))?.updatedAt as number;
    while (Date.now() === before) await new Promise((resolve) => setImmediate(resolve));
    await sessions.appendMessage('s1', { role: 'user', content: 'x' });
    expect((await sessions.sessions()).map(({ id }) => id)).toEqual(['s1', 's3', 's2']);
    expect((await sessions.sessions({ limit: 1 })).map(({ id }) => id)).toEqual(['s1']);
  });

  test('an unknown session has no row, no messages and no todos, and takes none', async () => {
    const sessions = manager();
    expect([await sessions.session('x'), await sessions.messages('x'), await sessions.todos('x').read()]).toEqual([
      null,
      [],
      [],
    ]);
    const unknown = { code: 'ERR_UNKNOWN_SESSION', message: expect.stringContaining('"x"') };
    await expect(sessions.appendMessage('x', { role: 'user', content: '' })).rejects.toMatchObject(unknown);
    await expect(sessions.todos('x').write([])).rejects.toMatchObject(unknown);
    await expect(sessions.todos('x').write([{ content: 'a', status: 'pending' }])).rejects.toMatchObject(unknown);
    expect(await rows()).toEqual([0, 0, 0]);
  });

  test('todo_write keeps its list in the session, and the plan file follows', async () => {
    const sessions = manager();
    await sessions.createSession({ id: 's1' });
    const planWriter = await filePlanWriter({ workDir: space.root, sessionId: 's1', home: join(space.base, 'home') });
    const tool = todoWriteTool({ store: sessions.todos('s1'), planWriter });
    await tool.execute({
      todos: [
        { content: 'a', status: 'pending' },
        { content: 'b', status: 'pending' },
      ],
    });
    await tool.execute({ todos: [{ content: 'b', status: 'completed' }] });
    expect(await sessions.todos('s1').read()).toEqual([{ content: 'b', status: 'completed' }]);
    expect(readFileSync(planWriter.path, 'utf8')).toMatch(/## Task List\n\n- \[x\] b\n$/);
  });

  test('deleteSession takes its messages, todos and offloaded files, and nothing of another session', async () => {
    const sessions = manager();
    for (const id of ['s1', 's2']) {
      await sessions.createSession({ id });
      await sessions.appendMessage(id, { role: 'user', content: id });
      await sessions.todos(id).write([{ content: id, status: 'pending' }]);
      await offload(id, 'c1');
      await offload(id, 'c2');
    }
    expect(await sessions.deleteSession('s1')).toEqual({
      deleted: true,
      files: { removed: [join(results(), 's1')], problems: [] },
      checkpoints: null,
    });
    expect(readdirSync(results()).sort()).toEqual(['.gitignore', 's2']);
    expect(await sessions.session('s1')).toBeNull();
    expect((await sessions.messages('s2')).map(({ content }) => content)).toEqual(['s2']);
    await sessions.close();
    expect(await rows()).toEqual([1, 1, 1]);
  });

  test('with a workspace, it takes the checkpoints of the session, and no other’s', async () => {
    const workspace = await space.open(backend);
    const sessions = manager({ workspace });
    for (const id of ['s1', 's2']) {
      await sessions.createSession({ id });
      got(await workspace.session({ threadId: id }).capture('m1'));
    }
    const { checkpoints } = await sessions.deleteSession('s1');
    expect(checkpoints).toMatchObject({ available: true });
    expect(got(await workspace.sessions()).sessions.map(({ threadId }) => threadId)).toEqual(['s2']);
  });

  test('checkpoints that can’t be dropped don’t fail the deletion, and are reported', async () => {
    const workspace = await space.open(backend);
    const sessions = manager({ workspace });
    await sessions.createSession({ id: 's1' });
    await workspace.close();
    const answer = await sessions.deleteSession('s1');
    expect(answer).toMatchObject({ deleted: true, checkpoints: { available: false, reason: 'closed' } });
    expect(await sessions.session('s1')).toBeNull();
  });

  test('files that can’t be removed don’t fail the deletion, and are reported; a later deletion tries again', async () => {
    const sessions = manager({ toolResultsDir: join(space.root, 'file/tool_results') });
    await sessions.createSession({ id: 's1' });
    space.write('file', 'in the way');
    const answer = await sessions.deleteSession('s1');
    expect(answer).toMatchObject({
      deleted: true,
      files: { removed: [], problems: [{ path: join(space.root, 'file/tool_results') }] },
    });
    expect(await sessions.session('s1')).toBeNull();
    space.sh('rm file && mkdir -p file/tool_results/s1');
    expect(await sessions.deleteSession('s1')).toMatchObject({
      deleted: false,
      files: { removed: [join(space.root, 'file/tool_results/s1')], problems: [] },
    });
  });

  test.each([
    ['missing', undefined],
    ['empty', ''],
  ])('a toolResultsDir that is %s: no file is removed', async (_name, dir) => {
    const sessions = new SessionManager({
      database: database(),
      backend,
      ...(dir === undefined ? {} : { toolResultsDir: dir }),
    });
    managers.push(sessions);
    await sessions.createSession({ id: 's1' });
    const path = await offload('s1');
    expect(await sessions.deleteSession('s1')).toEqual({
      deleted: true,
      files: { removed: [], problems: [] },
      checkpoints: null,
    });
    expect(await sessions.collect({ olderThanDays: 0 })).toEqual({ removed: [], problems: [] });
    expect(space.exists(path)).toBe(true);
  });

  test.each(['../..', '.', '..', '/', '../../victim', '*'])(
    'the id %j removes nothing but its own folder',
    async (id) => {
      const sessions = manager();
      await offload('other');
      await offload(id);
      mkdirSync(join(space.root, 'victim'));
      expect((await sessions.deleteSession(id)).files.removed).toEqual([join(results(), safeName(id))]);
      expect(readdirSync(results()).sort()).toEqual(['.gitignore', 'other']);
      expect(readdirSync(space.root).sort()).toEqual(['.takeback', 'victim']);
    },
  );

  test('a link in place of the session’s folder is removed, what it leads to is not', async () => {
    const sessions = manager();
    await offload('other');
    mkdirSync(join(space.base, 'elsewhere'));
    writeFileSync(join(space.base, 'elsewhere/f'), 'mine');
    symlinkSync(join(space.base, 'elsewhere'), join(results(), 's1'));
    await sessions.deleteSession('s1');
    expect(readdirSync(results()).sort()).toEqual(['.gitignore', 'other']);
    expect(readFileSync(join(space.base, 'elsewhere/f'), 'utf8')).toBe('mine');
  });

  test('collect removes what no session owns, once it is old enough', async () => {
    const sessions = manager();
    await sessions.createSession({ id: 'Owned' });
    for (const id of ['Owned', 'Gone', 'young']) await offload(id);
    age('Owned', 40);
    age('Gone', 31);
    age('young', 29);
    expect(await sessions.collect()).toEqual({ removed: [join(results(), safeName('Gone'))], problems: [] });
    expect(readdirSync(results()).sort()).toEqual(['.gitignore', safeName('Owned'), 'young'].sort());
    expect((await sessions.collect({ olderThanDays: 1 })).removed).toEqual([join(results(), 'young')]);
  });

  test('collect keeps what offloadHook did not make, and says so', async () => {
    const sessions = manager();
    await offload('notes');
    space.write('.takeback/tool_results/notes/mine.md', 'my notes');
    space.write('.takeback/tool_results/My Folder/c1.txt', 'x');
    age('notes', 99);
    expect(await sessions.collect({ olderThanDays: 0 })).toEqual({
      removed: [],
      problems: [{ path: join(results(), 'notes'), detail: 'it holds mine.md, which is no offloaded output' }],
    });
    const elsewhere = manager({ toolResultsDir: space.root });
    space.write('src/a.txt', 'x');
    expect(await elsewhere.collect({ olderThanDays: 0 })).toEqual({
      removed: [],
      problems: [{ path: space.root, detail: expect.stringContaining('no .gitignore of offloadHook') }],
    });
    expect(space.exists('src/a.txt')).toBe(true);
  });

  test('collect where nothing was ever offloaded removes nothing', async () => {
    expect(await manager().collect({ olderThanDays: 0 })).toEqual({ removed: [], problems: [] });
  });

  test('two managers on one file see each other’s sessions', async () => {
    const [one, two] = [manager(), manager()];
    await Promise.all(Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? one : two).createSession({ id: `s${i}` })));
    expect((await one.sessions()).map(({ id }) => id).sort()).toEqual(
      (await two.sessions()).map(({ id }) => id).sort(),
    );
    expect(await two.sessions()).toHaveLength(10);
  });

  test('a database of something else, or of a newer version, is refused and left as it is', async () => {
    mkdirSync(join(database(), '..'), { recursive: true });
    const make = async (sql: string): Promise<string> => {
      const opened = await openBackend(backend);
      const driver = await opened.backend.openDatabase({ file: database() });
      await driver.exec(sql);
      await driver.close();
      await opened.backend.close();
      return readFileSync(database(), 'hex');
    };
    const other = await make('CREATE TABLE t (a)');
    await expect(manager().sessions()).rejects.toMatchObject({
      code: 'ERR_STORE_CORRUPT',
      message: expect.stringContaining('not one of this session manager'),
    });
    expect(readFileSync(database(), 'hex')).toBe(other);
    const newer = await make('PRAGMA user_version = 99');
    await expect(manager().sessions()).rejects.toMatchObject({ code: 'ERR_STORE_NEWER' });
    expect(readFileSync(database(), 'hex')).toBe(newer);
    writeFileSync(database(), 'no database at all, but some text that is long enough to be looked at'.repeat(20));
    const broken = manager();
    await expect(broken.sessions()).rejects.toMatchObject({ code: 'ERR_STORE_CORRUPT' });
    writeFileSync(database(), '');
    expect(await broken.sessions(), 'the next method tries again').toEqual([]);
  });

  test('a folder that can’t be made is named', async () => {
    space.write('file', '');
    await expect(manager({ database: join(space.root, 'file/s.db') }).sessions()).rejects.toMatchObject({
      code: 'ERR_IO',
      message: expect.stringContaining(join(space.root, 'file/s.db')),
    });
  });

  test('after close every method rejects; close again is nothing', async () => {
    const sessions = manager();
    await sessions.createSession({ id: 's1' });
    const todos = sessions.todos('s1');
    await sessions.close();
    await sessions.close();
    for (const method of [() => sessions.sessions(), () => sessions.deleteSession('s1'), () => todos.read()]) {
      await expect((async () => method())()).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    }
  });

  test.each([
    ['a relative database', { database: 'x.db' }, 'options.database'],
    ['a relative toolResultsDir', { toolResultsDir: 'x' }, 'options.toolResultsDir'],
    ['a workspace that is none', { workspace: {} }, 'options.workspace: must be a workspace'],
    ['an unknown option', { databse: 'x' }, 'databse'],
  ])('%s is refused', (_name, wrong, message) => {
    expect(() => manager(wrong as never)).toThrowError(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining(message) }),
    );
  });

  test.each([
    ['an empty id', ''],
    ['a NUL', 'a\0'],
    ['a lone surrogate', '\ud800'],
    ['no text', 7 as never],
  ])('%s is no session id', async (_name, id) => {
    await expect(manager().deleteSession(id)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await expect(manager().createSession({ id })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });
});
