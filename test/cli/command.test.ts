import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { TakebackError } from '../../src/errors.ts';
import { boundary, change, entry, HUNKS, history, planOfHunks, sessionInfo, takeback } from './fake.ts';

const names = (calls: readonly (readonly [string, ...unknown[]])[]): string[] => calls.map(([name]) => name);

/** Calls that wrote to the tree. */
const done = (calls: readonly (readonly [string, ...unknown[]])[]): (readonly [string, ...unknown[]])[] =>
  calls.filter(
    ([name, ...given]) =>
      /^(undo|redo|restore|revert|revertTurn|revertCall|unrevert|drop)$/.test(name) &&
      (given.at(-1) as { dryRun?: boolean } | undefined)?.dryRun !== true,
  );

const ones: [string, string][] = [
  ['revert-turn', 'b1'],
  ['revert-call', 'c1'],
];

describe('the command line', () => {
  test.each([
    [['undo', '--bogus'], 'unknown option'],
    [['bogus'], 'unknown command'],
    [['undo', '0'], 'whole number'],
    [['log', '--limit', 'x'], 'whole number'],
    [['restore'], 'boundary'],
    [['run'], 'command'],
    [['undo', '--on-conflict', 'maybe'], 'refuse, overwrite'],
    [['end'], 'takeback end --all'],
    [['undo', '2', '--turn', 'b1'], '--turn'],
    [['plan', 'b1', ''], 'path is empty'],
    [['restore', 'b1', '--hunks'], '--hunks 1,3-4'],
    [['restore', 'b1', '--hunks', 'f'], 'or a hunk\'s id; "f" is neither'],
    [['restore', 'b1', '--hunks', '3-1'], '"3-1" is neither'],
    [['restore', 'b1', '--hunks', '1,7'], 'There is no hunk 7: the plan has 2 hunks.'],
  ])('%j is a usage error that says %s', async (argv, text) => {
    const run = await takeback(argv, { answers: { plan: planOfHunks } });
    expect(done(run.calls)).toEqual([]);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(text);
    expect(run.stdout).toBe('');
  });

  test('a usage error with --json is one object on standard output', async () => {
    const run = await takeback(['undo', '--json', '--bogus']);
    expect(run.code).toBe(2);
    expect(JSON.parse(run.stdout)).toEqual({ error: { code: 'ERR_USAGE', message: "unknown option '--bogus'" } });
  });

  test('--help and --version end with 0', async () => {
    expect((await takeback(['--help'])).code).toBe(0);
    expect(await takeback(['--version'])).toMatchObject({ code: 0, stdout: '0.0.0\n' });
  });

  test('common options are taken before and after the command', async () => {
    const seen: unknown[] = [];
    const opened = (options: unknown): void => void seen.push(options);
    await takeback(['--backend', 'portable', 'log'], { opened });
    await takeback(['log', '--backend', 'portable'], { opened });
    expect(seen).toMatchObject([{ backend: 'portable' }, { backend: 'portable' }]);
  });

  test('the workspace is closed also when the command fails', async () => {
    const run = await takeback(['log'], {
      answers: { timeline: async () => ({ available: false, reason: 'busy', detail: 'The store is held.' }) },
    });
    expect(names(run.calls).at(-1)).toBe('close');
    expect(run).toMatchObject({ code: 1, stderr: 'takeback: The store is held. (busy)\n' });
  });

  test('an unavailable answer is the object of --json', async () => {
    const run = await takeback(['log', '--json'], {
      answers: { timeline: async () => ({ available: false, reason: 'busy', detail: 'The store is held.' }) },
    });
    expect(JSON.parse(run.stdout)).toEqual({ available: false, reason: 'busy', detail: 'The store is held.' });
  });

  test('misuse that the engine finds is a usage error that names its code', async () => {
    const run = await takeback(['capture', 'b1'], {
      answers: {
        capture: async () => {
          throw new TakebackError('ERR_DUPLICATE_BOUNDARY', 'The session already has a boundary b1.');
        },
      },
    });
    expect(run.code).toBe(2);
    expect(run.stderr).toBe('takeback: The session already has a boundary b1. (ERR_DUPLICATE_BOUNDARY)\n');
  });
});

describe('which root', () => {
  test('the nearest recorded folder above the current one', async () => {
    let opened: { root?: string } = {};
    let root = '';
    await takeback(['log'], {
      below: 'deep/er',
      opened: (options) => {
        opened = options;
      },
      root: (path) => {
        root = path;
      },
    });
    expect(opened.root).toBe(root);
  });

  test('a command that reads opens nothing where nothing was recorded', async () => {
    let opened = 0;
    const run = await takeback(['status'], {
      fresh: true,
      opened: () => {
        opened += 1;
      },
    });
    expect(opened).toBe(0);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('no-checkpoint');
    expect(run.stderr).toContain('takeback capture');
  });

  test('paths of the command line are relative to the current folder', async () => {
    let root = '';
    const run = await takeback(['restore', 'b1', 'a.txt', '../b.txt'], {
      below: 'deep',
      root: (path) => {
        root = path;
      },
    });
    const [, , options] = run.calls.find(([name]) => name === 'restore') ?? [];
    expect(options).toMatchObject({ paths: [join(root, 'deep/a.txt'), join(root, 'b.txt')] });
  });
});

describe('run', () => {
  test('brackets the command and ends with its exit code', async () => {
    const run = await takeback(['run', '--', 'sh', '-c', 'exit 7']);
    expect(run.code).toBe(7);
    expect(names(run.calls)).toEqual(['session', 'capture', 'beginCall', 'endCall', 'close']);
    const [, , ending] = run.calls[3] ?? [];
    expect(ending).toEqual({ sideEffect: 'process_exec', isError: true });
    expect(run.stdout).toBe('');
    expect(run.stderr).toContain('1 path changed: 1 modified.\n  M a.txt\n');
  });

  test('a command that a signal ends gives 128 + n, and the call is ended', async () => {
    const run = await takeback(['run', 'sh', '-c', 'kill -TERM $$']);
    expect(run.code).toBe(143);
    expect(names(run.calls)).toContain('endCall');
  });

  test('options after the command are the command’s', async () => {
    const run = await takeback(['run', 'sh', '-c', '[ "$1" = --json ] && exit 5', 'x', '--json']);
    expect(run.code).toBe(5);
  });

  test('a command that does not exist gives 127', async () => {
    const run = await takeback(['run', '--', 'no-such-command-of-takeback']);
    expect(run.code).toBe(127);
    expect(run.stderr).toContain('the command did not start: there is no command no-such-command-of-takeback\n');
  });

  test('nothing runs where nothing can be recorded', async () => {
    const run = await takeback(['run', '--', 'sh', '-c', 'exit 9'], {
      answers: { capture: async () => ({ available: false, reason: 'no-space', detail: 'The disk is full.' }) },
    });
    expect(run.code).toBe(1);
    expect(names(run.calls)).toEqual(['session', 'capture', 'close']);
  });

  test('an end that could not be recorded is no success', async () => {
    const run = await takeback(['run', '--', 'true'], {
      answers: { endCall: async () => ({ available: false, reason: 'no-space', detail: 'The disk is full.' }) },
    });
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('could not be recorded: The disk is full.');
  });
});

describe('begin and end', () => {
  test('begin opens a detached call', async () => {
    const run = await takeback(['begin', 'c1', '--tool', 'sh']);
    expect(run.calls[1]).toEqual(['beginCall', 'c1', { detached: true, tool: 'sh' }]);
  });

  test('end --all ends each open call once', async () => {
    const call = {
      type: 'call',
      invocation: 1,
      at: 5,
      isError: false,
      files: { created: 0, modified: 0, deleted: 0 },
    } as const;
    const run = await takeback(['end', '--all'], {
      answers: {
        timeline: async () => ({
          available: true,
          items: [
            { ...call, callId: 'c2', state: 'open' },
            { ...call, callId: 'c1', state: 'ended' },
          ],
        }),
      },
    });
    expect(run.calls.filter(([name]) => name === 'endCall')).toEqual([['endCall', 'c2', {}]]);
    expect(run.stdout).toContain('Call c2 ended. 1 path changed');
  });
});

describe('undo, redo, restore', () => {
  test('without a terminal undo runs and does not ask', async () => {
    const run = await takeback(['undo']);
    expect(run).toMatchObject({ code: 0, questions: [], stdout: 'Files restored: 1.\n  restore  a.txt\n' });
  });

  test('on a terminal undo lists what it touches and asks', async () => {
    const run = await takeback(['undo'], { interactive: true });
    expect(run.questions).toEqual(['Undo this turn?']);
    expect(run.stdout).toContain('1 path would be written:\n  restore  a.txt\n');
    expect(names(run.calls)).toEqual(['session', 'undo', 'undo', 'close']);
    expect(done(run.calls)).toMatchObject([['undo', { planToken: 'token-1' }]]);
  });

  test('a no changes nothing and is no success', async () => {
    for (const argv of [['undo'], ['undo', '2'], ['redo'], ['redo', '2'], ['unrevert'], ['revert', 'b1'], ...ones]) {
      const run = await takeback(argv, { interactive: true, confirm: false });
      expect([argv, run.code, run.questions.length]).toEqual([argv, 1, 1]);
      expect(run.stdout).toMatch(/Nothing was changed\.\n$/);
      expect(done(run.calls)).toEqual([]);
    }
  });

  test('--yes does not ask', async () => {
    expect((await takeback(['undo', '--yes'], { interactive: true })).questions).toEqual([]);
  });

  test.each([
    ['undo'],
    ['undo', '3'],
    ['undo', '--turn', 'b1'],
    ['redo'],
    ['redo', '3'],
    ['restore', 'b1'],
    ['revert', 'b1'],
    ['unrevert'],
    ['drop'],
    ...ones,
  ])('%s --dry-run changes nothing', async (...argv) => {
    const run = await takeback([...argv, '--dry-run', '--json']);
    expect(run.code).toBe(0);
    expect(done(run.calls)).toEqual([]);
    expect(JSON.parse(run.stdout)).toMatchObject({ available: true });
    const said = await takeback([...argv, '--dry-run'], { interactive: true });
    expect([said.code, said.questions]).toEqual([0, []]);
    expect(done(said.calls)).toEqual([]);
  });

  test.each([
    [['undo', '--turn', 'b1'], { undo: { boundaryId: 'b1', plan: { token: 'token-1' } } }],
    [['redo'], { redo: { boundaryId: 'b1', plan: { token: 'token-1' } } }],
    [['revert', 'step-1'], { messageId: 'step-1', revert: { plan: { token: 'token-1' } } }],
    [['unrevert'], { unrevert: { plan: { token: 'token-1' } } }],
    [['revert-turn', 'b1'], { revertTurn: { boundaryId: 'b1', plan: { token: 'token-1' } } }],
    [['revert-call', 'c1'], { callId: 'c1', revertCall: { plan: { token: 'token-1' } } }],
  ])('%j --dry-run --json gives the plan', async (argv, object) => {
    const run = await takeback([...argv, '--dry-run', '--json']);
    expect(JSON.parse(run.stdout)).toMatchObject({ available: true, dryRun: true, ...object });
  });

  test('revert-turn and revert-call name what is taken back, with the policy of the command line only', async () => {
    const turn = await takeback(['revert-turn', 'b1', '--yes'], { interactive: true });
    expect([turn.code, turn.questions]).toEqual([0, []]);
    expect(turn.calls[1]).toMatchObject(['revertTurn', 'b1', {}]);
    expect(turn.calls[1]?.[2]).not.toHaveProperty('onConflict');
    const call = await takeback(['revert-call', 'c1', '--on-conflict', 'overwrite'], { interactive: true });
    expect(call.questions).toEqual(['Take call c1 back?']);
    expect(done(call.calls)).toMatchObject([['revertCall', 'c1', { planToken: 'token-1', onConflict: 'overwrite' }]]);
  });

  test('undo 3 stops where there is nothing more', async () => {
    let turns = 2;
    const run = await takeback(['undo', '3', '--json'], {
      answers: {
        undo: async () => {
          turns -= 1;
          if (turns >= 0) return history({ restored: [entry('a.txt', 'restore')] });
          return { available: true, message: 'Nothing to undo.', outcome: 'nothing' };
        },
      },
    });
    expect(run.code).toBe(0);
    expect(JSON.parse(run.stdout).operations).toHaveLength(2);
  });

  test('undo 3 that is stopped by a fault tells what was done before it, and ends with 3', async () => {
    let turns = 1;
    const run = await takeback(['undo', '3', '--json'], {
      answers: {
        undo: async () => {
          turns -= 1;
          if (turns >= 0) return history({ restored: [entry('a.txt', 'restore')] });
          return { available: false, reason: 'no-space', detail: 'the disk is full' };
        },
      },
    });
    expect(run.code).toBe(3);
    expect(JSON.parse(run.stdout)).toMatchObject({
      available: true,
      operations: [{ restored: [{ path: 'a.txt' }] }],
      stopped: { available: false, reason: 'no-space', detail: 'the disk is full' },
    });
    expect(run.stderr).toBe('takeback: 1 of 3 done, then: the disk is full (no-space)\n');
  });

  test('nothing to undo ends with 1', async () => {
    const run = await takeback(['undo'], {
      answers: { undo: async () => ({ available: true, message: 'Nothing to undo.', outcome: 'nothing' }) },
    });
    expect(run).toMatchObject({ code: 1, stdout: 'Nothing to undo.\n' });
  });

  test('a refused path ends with 3 and names its reason', async () => {
    const refused = [entry('b.txt', 'refuse', 'changed-outside-session')];
    const run = await takeback(['undo', '2'], {
      answers: { undo: async () => history({ outcome: 'partial', restored: [entry('a.txt', 'restore')], refused }) },
    });
    expect(run.code).toBe(3);
    expect(run.stdout).toContain('Kept as they are:\n  refuse   b.txt (changed-outside-session)\n');
    expect(names(run.calls).filter((name) => name === 'undo')).toHaveLength(1);
  });

  test('restore carries out the plan that was confirmed and no other', async () => {
    const run = await takeback(['restore', 'b1'], { interactive: true });
    const [, id, options] = run.calls.find(([name]) => name === 'restore') ?? [];
    expect([id, options]).toMatchObject(['b1', { planToken: 'token-1' }]);
  });

  test('the policy is the session’s', async () => {
    const run = await takeback(['undo', '--on-conflict', 'overwrite', '--session', 's'], {
      answers: { workspace: { sessions: async () => ({ available: true, sessions: [sessionInfo('s')] }) } },
    });
    expect(run.calls[0]).toEqual(['session', { threadId: 's', onConflict: 'overwrite' }]);
  });
});

describe('restore --hunks', () => {
  const answers = { plan: planOfHunks };
  const chosen = (run: Awaited<ReturnType<typeof takeback>>): unknown =>
    done(run.calls).map(([, , options]) => options);

  test('numbers and ranges name hunks of the plan of now, which is what the restore gets', async () => {
    const run = await takeback(['restore', 'b1', '--hunks', '1-2', '--hunks', '2'], { answers });
    expect(run.code).toBe(0);
    expect(chosen(run)).toMatchObject([{ hunks: [HUNKS[0]?.id, HUNKS[1]?.id], planToken: 'token-1' }]);
  });

  test('an id is handed on as it is', async () => {
    const id = `9,1-9,1@${'a'.repeat(16)}-${'b'.repeat(16)}:x, 1`;
    expect(chosen(await takeback(['restore', 'b1', '--hunks', id], { answers }))).toMatchObject([{ hunks: [id] }]);
  });

  test('without numbers a terminal lists them and lets a person pick', async () => {
    const run = await takeback(['restore', 'b1', '--hunks'], { answers, interactive: true, choose: [1] });
    expect(run.questions).toEqual([
      'Which hunks go back?',
      '[1] a.txt: line 2 would be replaced by 1 line',
      '[2] a.txt: after line 4, 2 lines would come back',
    ]);
    expect(run.stdout).toContain(
      'a.txt\n  [1] line 2 would be replaced by 1 line\n    -agent\\x1b[2J\n    +2\n  [2] after line 4,',
    );
    expect(chosen(run)).toMatchObject([{ hunks: [HUNKS[1]?.id], planToken: 'token-1' }]);
  });

  test('picking none, an interrupt, or a no changes nothing', async () => {
    for (const setup of [{ choose: [] }, {}]) {
      const run = await takeback(['restore', 'b1', '--hunks'], { answers, interactive: true, ...setup });
      expect([run.code, done(run.calls)]).toEqual([1, []]);
      expect(run.stdout).toContain('Nothing was changed.\n');
    }
    const no = await takeback(['restore', 'b1', '--hunks', '2'], { answers, interactive: true, confirm: false });
    expect([no.code, no.questions, done(no.calls)]).toEqual([1, ['Restore 1 hunk?'], []]);
    expect(no.stdout).toContain('[2]');
    expect(no.stdout).not.toContain('[1]');
  });

  test('plan --hunks and --dry-run list all, with the ids for --json', async () => {
    for (const argv of [
      ['plan', 'b1', '--hunks'],
      ['restore', 'b1', '--hunks', '--dry-run'],
    ]) {
      const run = await takeback([...argv, '--json'], { answers });
      expect(JSON.parse(run.stdout)).toMatchObject({ entries: [{ hunks: HUNKS }, { path: 'bin' }] });
      expect((await takeback(argv, { answers })).stdout).toMatch(
        /\[2\][\s\S]*\n1 other path would be written, as a whole only\.\n$/,
      );
      expect(done(run.calls)).toEqual([]);
    }
    const two = await takeback(['restore', 'b1', '--hunks', '2', '--dry-run', '--json'], { answers });
    expect(JSON.parse(two.stdout)).toMatchObject({ token: 'token-1', hunks: [HUNKS[1]?.id] });
  });

  test('where no text file would change it says so and ends with 1', async () => {
    const run = await takeback(['restore', 'b1', '--hunks', '1', '--json']);
    expect([run.code, JSON.parse(run.stdout).reason, done(run.calls)]).toEqual([1, 'unsupported', []]);
  });
});

describe('looking', () => {
  const two = async () =>
    ({ available: true, items: [boundary('b1', 1000), boundary('b2', 2000, { undone: true })] }) as const;

  test('log lists the newest turn last', async () => {
    const { stdout } = await takeback(['log'], { answers: { timeline: two } });
    expect(stdout.split('\n').map((line) => line.split(' ')[0])).toEqual(['BOUNDARY', 'b1', 'b2', '']);
    expect(stdout).toContain('undone');
  });

  test('diff takes boundaries and gives the patch alone to a pipe', async () => {
    const run = await takeback(['diff', 'b1', 'b2'], { answers: { timeline: two } });
    expect(run.calls.find(([name]) => name === 'diff')).toEqual(['diff', 'position-of-b1', 'position-of-b2']);
    expect(run.stdout).toBe('diff --git a/a.txt b/a.txt\n');
  });

  test('a patch on a terminal has no control characters of the files', async () => {
    const patch = 'diff --git a/a b/a\n+\x1b[2Jgone\n';
    const run = await takeback(['diff'], {
      terminal: true,
      env: { NO_COLOR: '1' },
      answers: {
        diff: async () => ({
          available: true,
          files: [],
          patch,
          patchBytes: Buffer.from(patch),
          stats: { files: 1, linesAdded: 1, linesDeleted: 0 },
        }),
      },
    });
    expect(run.stdout).not.toContain('\x1b');
    expect(run.stdout).toContain('+\\x1b[2Jgone\n');
  });

  test('a patch that is not UTF-8 comes in base64 too with --json', async () => {
    const patchBytes = Buffer.from([0x2b, 0xe9, 0x0a]);
    const run = await takeback(['diff', '--json'], {
      answers: {
        diff: async () => ({
          available: true,
          files: [],
          patch: '+\ufffd\n',
          patchBytes,
          stats: { files: 1, linesAdded: 1, linesDeleted: 0 },
        }),
      },
    });
    expect(JSON.parse(run.stdout)).toMatchObject({ patchBase64: 'K+kK' });
  });

  test('status tells what undo would do, passing undone turns over', async () => {
    const run = await takeback(['status', '--json'], { answers: { timeline: two } });
    expect(JSON.parse(run.stdout)).toMatchObject({
      newest: { boundaryId: 'b2', undone: true },
      undo: { boundaryId: 'b1' },
    });
  });

  test('names with control characters are escaped', async () => {
    const run = await takeback(['status'], {
      answers: { turnChanges: async () => ({ available: true, changes: [change('a\x1b[31m\n.txt', 'created')] }) },
    });
    expect(run.stdout).toContain('  A "a\\x1b[31m\\n.txt"\n');
  });

  test('show names an unknown boundary', async () => {
    const run = await takeback(['show', 'b9', '--json'], { answers: { timeline: two } });
    expect(run.code).toBe(1);
    expect(JSON.parse(run.stdout)).toMatchObject({ available: false, reason: 'unknown-boundary' });
  });

  test('colour is for terminals without NO_COLOR', async () => {
    const answers = { timeline: two };
    expect((await takeback(['status'], { answers, terminal: true, env: { TERM: 'dumb' } })).stdout).not.toContain(
      '\x1b[',
    );
    expect((await takeback(['status'], { answers, env: {} })).stdout).not.toContain('\x1b[');
  });
});

describe('the store', () => {
  test('verify with problems ends with 1', async () => {
    const run = await takeback(['verify'], {
      answers: {
        workspace: {
          verify: async () => ({
            available: true,
            ok: false,
            checked: 5,
            problems: [{ kind: 'blob-corrupt', detail: 'bytes do not hash to the name' }],
          }),
        },
      },
    });
    expect(run).toMatchObject({
      code: 1,
      stdout: '5 items checked: 1 problem.\n  blob-corrupt: bytes do not hash to the name\n',
    });
  });

  test('drop asks on a terminal', async () => {
    const run = await takeback(['drop'], {
      interactive: true,
      confirm: false,
    });
    expect(run.code).toBe(1);
    expect(run.questions).toEqual(['Forget session default? Its turns can then not be undone any more.']);
    expect(names(run.calls)).not.toContain('drop');
  });

  test.each([['undo'], ['log'], ['drop'], ['begin']])('%s of a session that is none is no success', async (command) => {
    const run = await takeback([command, '--session', 'defualt'], {
      answers: { workspace: { sessions: async () => ({ available: true, sessions: [] }) } },
    });
    expect(run.code).toBe(1);
    expect(run.stderr).toBe(
      'takeback: There is no session defualt here: `takeback sessions` lists those that are. (no-checkpoint)\n' +
        'Start with `takeback run -- COMMAND` or `takeback capture`.\n',
    );
    expect(names(run.calls).filter((name) => name !== 'sessions')).toEqual(['close']);
  });

  test.each([
    ['diff', 'b9'],
    ['diff', 'b1', 'b9'],
    ['export', 'b9', 'files'],
  ])('%s names what is neither a boundary nor a position', async (...argv) => {
    const run = await takeback(argv);
    expect(run.code).toBe(1);
    expect(run.stderr).toBe(
      'takeback: the session has no boundary of that id, and it is no position: "b9" (unknown-boundary)\n' +
        '`takeback log` lists the boundaries, `takeback log --calls` the calls too.\n',
    );
  });
});
