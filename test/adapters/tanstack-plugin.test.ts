/** The plugin in a host that mounts it as the harness does. Tests are named by the sentences of `docs/seed-001.md`. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  type FileChange,
  FileChanged,
  FileChangedMore,
  purgeSnapshots,
  SnapshotFailed,
  type Snapshots,
  type SnapshotsOptions,
  snapshots,
} from '../../src/adapters/tanstack.ts';
import type { BackendKind } from '../../src/backend/backend.ts';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { differing, inGit, snapshot } from '../kit/tree.ts';
import { edit, FakeHost, LogRecordsCapability, look, type ScriptedStep, shell, toolsIn } from './tanstack-kit.ts';

const BUSY = 'Wait until the turn ends, then try again.';

/** A host with the plugin, in a space of its own. */
class Desk {
  readonly space: Space;
  readonly history: Snapshots;
  readonly host: FakeHost;

  private constructor(space: Space, history: Snapshots, host: FakeHost) {
    this.space = space;
    this.history = history;
    this.host = host;
  }

  static async open(
    backend: BackendKind,
    options: { setup?: string; more?: Partial<SnapshotsOptions>; space?: Space; saved?: FakeHost['saved'] } = {},
  ): Promise<Desk> {
    const space = options.space ?? new Space();
    if (options.setup !== undefined) space.sh(options.setup);
    const history = snapshots({
      root: space.root,
      dataDir: space.dataDir,
      backend,
      durability: 'fast',
      logRecords: LogRecordsCapability,
      ...options.more,
    });
    const host = await FakeHost.open(space, history, options.saved === undefined ? {} : { saved: options.saved });
    return new Desk(space, history, host);
  }

  undo(): Promise<unknown> {
    return this.host.runCommand('undo');
  }

  redo(): Promise<unknown> {
    return this.host.runCommand('redo');
  }

  roles(): string {
    return this.host.transcript.map(({ role }) => role[0]).join('');
  }

  /** Ends the process, as far as the plugin knows, and starts another that has what was saved. */
  async restart(backend: BackendKind, more: Partial<SnapshotsOptions> = {}): Promise<Desk> {
    const saved = structuredClone(this.host.saved);
    await this.host.close();
    await this.history.close();
    return Desk.open(backend, { space: this.space, saved, more });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host.close();
    await this.history.close();
    await this.space[Symbol.asyncDispose]();
  }
}

const THREE: readonly ScriptedStep[] = [
  [edit('c1', 'login.ts', 'broken\n')],
  [shell('c2', 'rm old.ts; echo new > new.ts')],
  'Fixed.',
];
const THREE_SETUP = 'echo login > login.ts; echo old > old.ts; echo mine > mine.ts';

describeBackends('undo and redo', (backend) => {
  test('/undo puts the files back and removes the turn from the conversation; the text says how many files', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    const before = snapshot(desk.space.root);
    await desk.host.send(THREE);
    expect(desk.roles()).toBe('uatata');
    expect(await desk.undo()).toBe('Undid the last turn. Files restored: 3.');
    expect(differing(before, snapshot(desk.space.root)), 'they are as they were before the turn').toEqual([]);
    expect(desk.roles(), 'the turn is gone from the conversation too').toBe('');
  });

  test('/redo brings back the files and the turn', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    await desk.host.send(['Hello.']);
    await desk.host.send(THREE);
    const after = snapshot(desk.space.root);
    const transcript = structuredClone(desk.host.transcript);
    await desk.undo();
    expect(desk.roles()).toBe('ua');
    expect(await desk.redo()).toBe('Redid the last turn.');
    expect(differing(after, snapshot(desk.space.root))).toEqual([]);
    expect(desk.host.transcript).toEqual(transcript);
  });

  test('/undo and /redo do not touch other files, also not one added or edited after the turn', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    await desk.host.send(THREE);
    desk.space.write('mine.ts', 'edited after\n');
    desk.space.write('added.ts', 'added after\n');
    await desk.undo();
    await desk.redo();
    await desk.undo();
    expect(desk.space.read('mine.ts')).toBe('edited after\n');
    expect(desk.space.read('added.ts')).toBe('added after\n');
  });

  test('the snapshots skip the files that .gitignore names and .env files; /undo does not touch them', async () => {
    await using desk = await Desk.open(backend, {
      setup: 'echo node_modules > .gitignore; mkdir node_modules; echo 1 > node_modules/m.js; echo KEY=1 > .env',
    });
    await desk.host.send([[shell('c1', 'echo 2 > node_modules/m.js; echo KEY=2 > .env; echo a > a.ts')], 'Done.']);
    expect(desk.host.records, 'the step names neither').toMatchObject([{ files: ['a.ts'] }]);
    expect(desk.host.eventsOf(FileChanged).map(({ path }) => path)).toEqual([join(desk.space.root, 'a.ts')]);
    await desk.undo();
    expect([desk.space.exists('a.ts'), desk.space.read('node_modules/m.js'), desk.space.read('.env')]).toEqual([
      false,
      '2\n',
      'KEY=2\n',
    ]);
  });

  test('a new turn clears /redo', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    await desk.host.send(THREE);
    await desk.undo();
    await desk.host.send(['Hello.']);
    expect(await desk.redo()).toBe('Nothing to redo.');
    expect(desk.roles()).toBe('ua');
  });

  test('an edit of a file that the turn changed is kept, and named; with overwrite it is written over, and redo brings it back', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    await desk.host.send(THREE);
    desk.space.write('login.ts', 'my fix\n');
    expect(await desk.undo()).toBe('Undid the last turn. Files restored: 2. Kept 1 that changed since: login.ts');
    expect(desk.space.read('login.ts')).toBe('my fix\n');

    await using other = await Desk.open(backend, { setup: THREE_SETUP, more: { onConflict: 'overwrite' } });
    await other.host.send(THREE);
    other.space.write('login.ts', 'my fix\n');
    expect(await other.undo()).toBe('Undid the last turn. Files restored: 3.');
    expect(other.space.read('login.ts')).toBe('login\n');
    expect(await other.redo()).toBe('Redid the last turn.');
    expect(other.space.read('login.ts')).toBe('my fix\n');
  });

  test('when another session edits a file during the turn, /undo keeps that edit', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 1 > ours.ts; echo 1 > theirs.ts' });
    const theirs = await desk.history.session({ threadId: 'another' });
    await theirs.capture('m');
    const between = {
      name: 'another agent',
      onIteration: async (_ctx: unknown, { iteration }: { iteration: number }) => {
        if (iteration !== 1) return;
        await theirs.call('t', {}, () => desk.space.write('theirs.ts', '2\n'));
      },
    };
    await desk.host.send([[edit('c1', 'ours.ts', '2\n')], [look('c2')], 'Done.'], { middleware: [between] });
    expect(await desk.undo()).toBe('Undid the last turn. Files restored: 1.');
    expect([desk.space.read('ours.ts'), desk.space.read('theirs.ts')]).toEqual(['1\n', '2\n']);
  });

  test('as many levels as there are turns; then nothing to undo. After a redo, /undo works again', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 0 > a.ts' });
    for (const [turn, content] of [1, 2, 3].entries()) {
      await desk.host.send([[edit(`c${turn}`, 'a.ts', `${content}\n`)], 'Done.']);
    }
    await desk.host.send(['Only talk.']);
    const seen: [unknown, string, string][] = [];
    for (const command of ['undo', 'undo', 'redo', 'undo', 'undo', 'undo']) {
      const text = await desk.host.runCommand(command);
      seen.push([text, desk.space.read('a.ts').trim(), desk.roles()]);
    }
    const undid = 'Undid the last turn. Files restored: 1.';
    expect(seen).toEqual([
      [undid, '2', 'uatauata'],
      [undid, '1', 'uata'],
      ['Redid the last turn.', '2', 'uatauata'],
      [undid, '1', 'uata'],
      [undid, '0', ''],
      ['Nothing to undo.', '0', ''],
    ]);
    for (const _ of [1, 2, 3]) await desk.redo();
    expect([desk.space.read('a.ts'), desk.roles()]).toEqual(['3\n', 'uatauatauataua']);
  });

  test('messages without ids: the turn is found by counting', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 0 > a.ts' });
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], 'Done.'], { id: null });
    await desk.host.send(['Only talk.'], { id: null });
    await desk.host.send([[edit('c2', 'a.ts', '2\n')], 'Done.'], { id: null });
    await desk.undo();
    expect(desk.roles()).toBe('uataua');
    await desk.undo();
    expect(desk.roles(), 'the turn that changed nothing goes with the one before it').toBe('');
    await desk.redo();
    await desk.redo();
    expect(desk.roles()).toBe('uatauauata');
  });

  test('a message that was sent while the turn ran goes with its turn; one without an id, from that message on', async () => {
    const texts: string[] = [];
    for (const id of ['named', null]) {
      await using desk = await Desk.open(backend, { setup: 'echo 0 > a.ts' });
      await desk.host.send([[edit('c1', 'a.ts', '1\n')], [edit('c2', 'a.ts', '2\n')], 'Done.'], { id });
      desk.host.saved.transcript.splice(3, 0, { role: 'user', content: 'Also b.ts.' });
      await desk.undo();
      texts.push(`${desk.space.read('a.ts').trim()} ${desk.roles()}`);
    }
    expect(texts).toEqual(['0 ', '0 uat']);
  });

  test('/undo and /redo work only when the session is idle', async () => {
    await using desk = await Desk.open(backend);
    const during: unknown[] = [];
    const watch = {
      name: 'watch',
      onAfterToolCall: async () => {
        during.push(await desk.undo(), await desk.redo());
      },
    };
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], 'Done.'], { middleware: [watch] });
    expect(during).toEqual([BUSY, BUSY]);
    expect(desk.space.read('a.ts')).toBe('1\n');
  });

  test('your project does not need to be a git repository, and the plugin never uses its .git', async () => {
    await using desk = await Desk.open(backend, {
      setup: 'git init -q .; echo 1 > a.ts; git add .; git commit -qm one; echo 2 > staged.ts; git add staged.ts',
    });
    const before = snapshot(desk.space.root);
    await desk.host.send([[shell('c1', 'echo 2 > a.ts')], 'Done.']);
    await desk.undo();
    const changed = differing(before, snapshot(desk.space.root));
    expect(changed.filter(inGit), 'every byte of .git is as it was').toEqual([]);
  });
});

describeBackends('revert and unrevert', (backend) => {
  const STANDS = 'A revert stands. Run unrevert, or send a prompt, first.';

  /** Two turns of two steps; the user edits between them. */
  async function twoTurns(): Promise<Desk> {
    const desk = await Desk.open(backend, { setup: 'echo 0 > a.ts; echo 0 > mine.ts' });
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], [edit('c2', 'b.ts', '1\n')], 'One.']);
    desk.space.write('mine.ts', 'between\n');
    await desk.host.send([[shell('c3', 'echo 2 > a.ts; echo 2 > c.ts')], 'Two.']);
    return desk;
  }

  const idOf = (desk: Desk, at: number): string => desk.host.transcript[at]?.id ?? '';
  const files = (desk: Desk): string => desk.space.sh('for f in *; do echo "$f $(cat $f)"; done').trim();

  test('a revert to any message takes back only what the calls after it changed, and hides the messages after it; unrevert brings both back', async () => {
    await using desk = await twoTurns();
    const transcript = structuredClone(desk.host.transcript);
    expect(desk.roles()).toBe('uatatauata');
    const seen: [string, number, string][] = [];
    for (const at of [0, 1, 3, 5, 6, 7, 9]) {
      const text = await desk.host.runCommand('revert', { messageId: idOf(desk, at) });
      seen.push([String(text), desk.host.transcript.length, files(desk).replaceAll('\n', ', ')]);
      await desk.host.runCommand('unrevert');
      expect(desk.host.transcript, 'unrevert brings back the messages').toEqual(transcript);
      expect(files(desk), 'and the files').toBe('a.ts 2\nb.ts 1\nc.ts 2\nmine.ts between');
    }
    const back = (count: number): string => `Went back to the message. Files restored: ${count}.`;
    expect(seen).toEqual([
      [back(3), 1, 'a.ts 0, mine.ts between'],
      [back(3), 3, 'a.ts 1, mine.ts between'],
      [back(2), 5, 'a.ts 1, b.ts 1, mine.ts between'],
      [back(2), 6, 'a.ts 1, b.ts 1, mine.ts between'],
      [back(2), 7, 'a.ts 1, b.ts 1, mine.ts between'],
      [back(0), 9, 'a.ts 2, b.ts 1, c.ts 2, mine.ts between'],
      [back(0), 10, 'a.ts 2, b.ts 1, c.ts 2, mine.ts between'],
    ]);
  });

  test('while a revert stands, /undo and /redo answer that; the next prompt drops the hidden messages for good', async () => {
    await using desk = await twoTurns();
    await desk.host.runCommand('revert', { messageId: idOf(desk, 5) });
    expect([await desk.undo(), await desk.redo()]).toEqual([STANDS, STANDS]);
    await desk.host.send([[edit('c4', 'd.ts', '4\n')], 'Three.']);
    const after = files(desk);
    expect(await desk.host.runCommand('unrevert'), 'then unrevert does not change the files').toBe(
      'Nothing to unrevert.',
    );
    expect([desk.roles(), files(desk)]).toEqual(['uatatauata', after]);
    expect(desk.host.transcript.at(-1)?.content).toBe('Three.');
  });

  test('the revert is saved, so unrevert still works after a restart', async () => {
    await using desk = await twoTurns();
    await desk.host.runCommand('revert', { messageId: idOf(desk, 0) });
    await using second = await desk.restart(backend);
    expect(await second.undo()).toBe(STANDS);
    expect(await second.host.runCommand('unrevert')).toBe('Took the revert back. Files restored: 3.');
    expect([second.roles(), files(second)]).toEqual(['uatatauata', 'a.ts 2\nb.ts 1\nc.ts 2\nmine.ts between']);
  });

  test('a revert and unrevert send FileChanged for each file that they change, with no toolCallId', async () => {
    await using desk = await twoTurns();
    const before = desk.host.eventsOf(FileChanged).length;
    await desk.host.runCommand('revert', { messageId: idOf(desk, 5) });
    await desk.host.runCommand('unrevert');
    const sent = desk.host.eventsOf(FileChanged).slice(before);
    expect(sent.map((file) => [file.change, file.path.split('/').at(-1), file.toolCallId])).toEqual([
      ['updated', 'a.ts', undefined],
      ['deleted', 'c.ts', undefined],
      ['updated', 'a.ts', undefined],
      ['created', 'c.ts', undefined],
    ]);
  });

  test('a message that is not known changes nothing', async () => {
    await using desk = await twoTurns();
    const before = [desk.roles(), files(desk)];
    expect(await desk.host.runCommand('revert', { messageId: 'no-such-message' })).toContain('no-such-message');
    expect([desk.roles(), files(desk)]).toEqual(before);
  });
});

describeBackends('steps and diff', (backend) => {
  test('each model step that changed files leaves a record { from, to, files, toolCallIds } in the session log', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 1 > a.ts' });
    await desk.host.send([
      [look('c1')],
      [edit('c2', 'a.ts', '2\n'), look('c3')],
      [shell('c4', 'echo b > b.ts; rm a.ts')],
      'Done.',
    ]);
    const position = expect.stringMatching(/^tb1-/);
    expect(desk.host.records, 'a step that changed no file is not saved').toEqual([
      { type: 'tanstack/snapshots:step', from: position, to: position, files: ['a.ts'], toolCallIds: ['c2', 'c3'] },
      { type: 'tanstack/snapshots:step', from: position, to: position, files: ['a.ts', 'b.ts'], toolCallIds: ['c4'] },
    ]);
  });

  test('history.diff(from, to) gives the changed files and a unified diff; without to, it compares with the files now', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 1 > a.ts' });
    await desk.host.send([[edit('c1', 'a.ts', '2\n')], [edit('c2', 'b.ts', 'b\n')], 'Done.']);
    const [first] = desk.host.records as unknown as [{ from: string; to: string }];
    const { files, patch } = await desk.history.diff(first.from, first.to);
    expect(files).toEqual(['a.ts']);
    expect(patch).toContain('--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-1\n+2\n');
    expect((await desk.history.diff(first.to)).files).toEqual(['b.ts']);
    expect(await desk.host.runCommand('diff', first)).toMatchObject({ files: ['a.ts'] });
    expect(await desk.host.runCommand('diff')).toMatchObject({ files: ['a.ts', 'b.ts'] });
  });

  test('diff throws for a position that no open workspace has', async () => {
    await using desk = await Desk.open(backend);
    await expect(desk.history.diff(`tb1-${'0'.repeat(32)}-1`)).rejects.toMatchObject({ code: 'ERR_ROOT_MISMATCH' });
  });

  test('a host without a session log keeps the steps in the plugin’s state', async () => {
    await using desk = await Desk.open(backend);
    desk.host.log = false;
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], 'Done.']);
    expect(desk.host.records).toEqual([]);
    expect(desk.host.saved.state).toMatchObject({ steps: [{ files: ['a.ts'], toolCallIds: ['c1'] }] });
  });

  test('a bash command does not tell which files it changed: its step keeps every file that changed while it ran', async () => {
    await using desk = await Desk.open(backend);
    await desk.host.send([[shell('c1', 'echo a > a.ts; mkdir d; echo b > d/b.ts')], 'Done.']);
    expect(desk.host.records).toMatchObject([{ files: ['a.ts', 'd/b.ts'], toolCallIds: ['c1'] }]);
  });
});

describeBackends('events', (backend) => {
  test('FileChanged is sent for each file of a step that no tool reported, with the call’s id and its diff', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 1 > app.ts; echo 1 > lib.ts' });
    const path = (name: string): string => join(desk.space.root, name);
    const report = (file: string) =>
      desk.host.emit(FileChanged, { change: 'updated', path: path(file), threadId: 'fix-login' } satisfies FileChange);
    await desk.host.send([[edit('c1', 'lib.ts', '2\n')], [shell('c2', 'echo 2 > app.ts; echo 3 > lib.ts')], 'Done.'], {
      tools: toolsIn(desk.space, report),
    });
    expect(desk.host.eventsOf(FileChanged).map((file) => [file.change, file.path, file.toolCallId])).toEqual([
      ['updated', path('lib.ts'), undefined],
      ['updated', path('app.ts'), 'c2'],
      ['updated', path('lib.ts'), 'c2'],
    ]);
    expect(desk.host.eventsOf(FileChanged)[1]?.patch).toContain('@@ -1 +1 @@\n-1\n+2\n');
  });

  test('/undo and /redo send FileChanged for each file that they change, with no toolCallId', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    await desk.host.send(THREE);
    const sent = (): unknown[] =>
      desk.host.eventsOf(FileChanged).map((file) => [file.change, file.path.split('/').at(-1), file.toolCallId]);
    const before = sent().length;
    await desk.undo();
    expect(sent().slice(before)).toEqual([
      ['updated', 'login.ts', undefined],
      ['deleted', 'new.ts', undefined],
      ['created', 'old.ts', undefined],
    ]);
    await desk.redo();
    expect(sent().slice(before + 3)).toEqual([
      ['updated', 'login.ts', undefined],
      ['created', 'new.ts', undefined],
      ['deleted', 'old.ts', undefined],
    ]);
  });

  test('at most 100 events for each call and for each undo, then one with the total', async () => {
    await using desk = await Desk.open(backend);
    await desk.host.send([[shell('c1', 'for i in $(seq 103); do echo $i > f$i; done')], 'Done.']);
    expect(desk.host.eventsOf(FileChanged)).toHaveLength(100);
    expect(desk.host.eventsOf(FileChangedMore)).toMatchObject([{ total: 103 }]);
    await desk.undo();
    expect(desk.host.eventsOf(FileChanged)).toHaveLength(200);
  });

  test('a file that bash moves gives one moved event, and both paths in the step', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo content > old.ts' });
    await desk.host.send([[shell('c1', 'mv old.ts new.ts')], 'Done.']);
    const path = (name: string): string => join(desk.space.root, name);
    expect(desk.host.eventsOf(FileChanged)).toMatchObject([
      { change: 'moved', from: path('old.ts'), path: path('new.ts'), toolCallId: 'c1' },
    ]);
    expect(desk.host.records).toMatchObject([{ files: ['new.ts', 'old.ts'] }]);
  });

  test('where the workspace can’t be opened: SnapshotFailed is sent, no command is added, diff throws, the turns run as usual', async () => {
    const space = new Space();
    const tools = toolsIn(space);
    rmSync(space.root, { recursive: true });
    await using desk = await Desk.open(backend, { space });
    expect(desk.host.eventsOf(SnapshotFailed)).toMatchObject([
      {
        reason: 'root-missing',
        threadId: 'fix-login',
        message: expect.stringMatching(/^snapshots: .* Snapshots are off\.$/),
      },
    ]);
    expect(desk.host.commands).toEqual([]);
    await expect(desk.history.diff('tb1-0-0')).rejects.toThrow('root-missing');
    await desk.host.send([[look('c1')], 'Done.'], { tools });
    expect(desk.roles()).toBe('uata');
  });

  test('a record that can’t be written is told as SnapshotFailed, and the turn goes on', async () => {
    await using desk = await Desk.open(backend, {
      more: { logRecords: [() => ({ append: () => Promise.reject(new Error('the log is full')) })] },
    });
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], 'Done.']);
    expect(desk.host.eventsOf(SnapshotFailed)).toMatchObject([{ message: 'snapshots: the log is full' }]);
    expect(desk.roles()).toBe('uata');
  });
});

describeBackends('threads, tenants and restarts', (backend) => {
  test('each thread keeps its snapshots in its own workspace where root is a function', async () => {
    const space = new Space();
    space.sh('mkdir t1 t2', { cwd: space.base });
    await using desk = await Desk.open(backend, {
      space,
      more: { root: ({ threadId }) => join(space.base, threadId === 'fix-login' ? 't1' : 't2') },
    });
    await desk.host.send([[shell('c1', 'echo 1 > ../t1/a.ts; echo 1 > ../t2/b.ts')], 'Done.']);
    expect(desk.host.records).toMatchObject([{ files: ['a.ts'] }]);
    await desk.undo();
    expect(space.sh('ls t1 t2', { cwd: space.base })).toBe('t1:\n\nt2:\nb.ts\n');
  });

  test('another process takes the thread: /undo and /redo work there too', async () => {
    await using desk = await Desk.open(backend, { setup: THREE_SETUP });
    await desk.host.send(THREE);
    await using second = await desk.restart(backend);
    expect(await second.undo()).toBe('Undid the last turn. Files restored: 3.');
    expect(second.roles()).toBe('');
    await using third = await second.restart(backend);
    expect(await third.redo()).toBe('Redid the last turn.');
    expect([third.space.read('login.ts'), third.roles()]).toEqual(['broken\n', 'uatata']);
  });
});

describeBackends('purgeSnapshots', (backend) => {
  test('removes the snapshots of a thread after its session closed, and leaves the files and other threads', async () => {
    await using desk = await Desk.open(backend, { setup: 'echo 0 > a.ts', more: { tenantId: 'acme' } });
    const options = { root: desk.space.root, dataDir: desk.space.dataDir };
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], 'Done.']);
    const other = await desk.history.session({ threadId: 'other' });
    await other.capture('m');
    await other.call('c', {}, () => desk.space.write('b.ts', '1\n'));
    await desk.host.close();

    await purgeSnapshots(options, { tenantId: 'acme', threadId: 'fix-login' });
    expect(desk.space.read('a.ts')).toBe('1\n');
    await using again = await desk.restart(backend, { tenantId: 'acme' });
    expect(await again.undo()).toBe('Nothing to undo.');
    expect(await (await again.history.session({ threadId: 'other' })).undo()).toMatchObject({ outcome: 'done' });
  });

  test('leave out tenantId for a thread in the default tenant; it resolves also when there is nothing', async () => {
    await using desk = await Desk.open(backend);
    const options = { root: desk.space.root, dataDir: desk.space.dataDir };
    await desk.host.send([[edit('c1', 'a.ts', '1\n')], 'Done.']);
    await desk.host.close();
    await purgeSnapshots(options, { threadId: 'fix-login' });
    await purgeSnapshots(options, { threadId: 'fix-login' });
    await purgeSnapshots({ ...options, dataDir: join(desk.space.base, 'nothing') }, { threadId: 'fix-login' });
    expect(desk.space.sh('ls', { cwd: desk.space.base }), 'no store was made').toBe('data\nhome\nw\n');
    await using again = await desk.restart(backend);
    expect(await again.undo()).toBe('Nothing to undo.');
  });
});
