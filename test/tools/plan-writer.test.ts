/** The plan file: where, what, and that it is whole. */
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { filePlanWriter, type PlanWriterOptions, type TodoItem } from '../../src/index.ts';
import { localStamp, planText } from '../../src/tools/plan-text.ts';
import { Space } from '../kit/space.ts';

let space: Space;
beforeEach(() => {
  space = new Space();
});
afterEach(() => space[Symbol.asyncDispose]());

const SESSION = 'abc12345-6789-4abc-8def-0123456789ab';
const AT = new Date(2026, 4, 22, 15, 30, 0);
const ONE: TodoItem[] = [{ content: 'One', status: 'pending' }];

const writer = (options: Partial<PlanWriterOptions> = {}): ReturnType<typeof filePlanWriter> =>
  filePlanWriter({
    workDir: space.root,
    sessionId: SESSION,
    home: join(space.base, 'home'),
    now: () => AT,
    ...options,
  });

describe('where', () => {
  test('a git project: below the working directory', async () => {
    space.git('init', '-q');
    const { path } = await writer();
    expect(path).toBe(join(space.root, '.takeback/plans/20260522153000-abc12345.md'));
  });

  test('a worktree, whose .git is a file, is a git project too', async () => {
    space.write('.git', 'gitdir: /elsewhere');
    expect(dirname((await writer()).path)).toBe(join(space.root, '.takeback/plans'));
  });

  test('no git project: below the home folder, and nothing in the working directory', async () => {
    const { path } = await writer();
    expect(path).toBe(join(space.base, 'home/.takeback/plans/20260522153000-abc12345.md'));
    expect(readdirSync(space.root)).toEqual([]);
  });

  test('dirName changes the folder', async () => {
    expect(dirname((await writer({ dirName: '.agent' })).path)).toBe(join(space.base, 'home/.agent/plans'));
  });

  test('the path is set when the writer is made, and stays while time goes on', async () => {
    let now = AT;
    const plan = await writer({ now: () => now });
    const { path } = plan;
    now = new Date(2026, 4, 23);
    await plan.write(ONE);
    await plan.write(ONE);
    expect(plan.path).toBe(path);
    expect(readdirSync(dirname(path))).toEqual([basename(path)]);
  });

  test('two sessions at one moment with one beginning of their ids never share a file', async () => {
    const plans = await Promise.all([1, 2, 3].map((n) => writer({ sessionId: `abc12345-${n}` })));
    await Promise.all(plans.map((plan) => plan.write(ONE)));
    await Promise.all(plans.map((plan) => plan.write(ONE)));
    const folder = dirname(plans[0]?.path as string);
    expect(readdirSync(folder).sort()).toEqual([
      '20260522153000-abc12345-2.md',
      '20260522153000-abc12345-3.md',
      '20260522153000-abc12345.md',
    ]);
    const sessions = plans.map(({ path }) => /^session: (.*)$/m.exec(readFileSync(path, 'utf8'))?.[1]);
    expect(sessions).toEqual(['abc12345-1', 'abc12345-2', 'abc12345-3']);
  });

  test.each([
    ['../../x', '______x'],
    ['a/b\\c:d*e', 'a_b_c_d_'],
    ['ÄÖ\n\0', '____'],
    ['s1', 's1'],
  ])('the session id %j is safe in the name', async (sessionId, slug) => {
    expect(basename((await writer({ sessionId })).path)).toBe(`20260522153000-${slug}.md`);
  });
});

describe('fail fast', () => {
  test('a file in the way rejects when the writer is made, and names the folder', async () => {
    writeFileSync(join(space.base, 'home/.takeback'), '');
    await expect(writer()).rejects.toMatchObject({
      code: 'ERR_IO',
      message: expect.stringMatching(/^plan files can't be written to .*\/home\/\.takeback\/plans: .* is not a folder/),
    });
  });

  test('so does a home that is missing', async () => {
    await expect(writer({ home: join(space.base, 'none') })).rejects.toMatchObject({ code: 'ERR_IO' });
  });

  test('a link in the way is not followed', async () => {
    mkdirSync(join(space.base, 'elsewhere'));
    symlinkSync('../elsewhere', join(space.base, 'home/.takeback'));
    await expect(writer()).rejects.toThrow('a link there is not followed');
    expect(readdirSync(join(space.base, 'elsewhere'))).toEqual([]);
  });

  test.each([
    ['a relative workDir', { workDir: 'w' }, 'options.workDir'],
    ['an empty session', { sessionId: '' }, 'options.sessionId'],
    ['an unknown option', { hom: '/h' }, 'hom'],
  ])('%s is refused', async (_name, wrong, message) => {
    await expect(writer(wrong as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    });
  });
});

describe('what', () => {
  test('letter for letter, with a marker for each status', async () => {
    const plan = await writer();
    await plan.write([
      { content: 'Create directory structure', status: 'pending' },
      { content: 'Initialize go.mod', status: 'in_progress' },
      { content: 'Implement main.go', status: 'completed' },
      { content: 'Delete old file (cancelled)', status: 'cancelled' },
    ]);
    expect(readFileSync(plan.path, 'utf8')).toBe(`# Execution Plan

session: ${SESSION}
updated: ${localStamp(AT)}

## Task List

- [ ] Create directory structure
- [>] Initialize go.mod
- [x] Implement main.go
- [-] Delete old file (cancelled)
`);
  });

  test.each([
    ['Asia/Shanghai', '2026-05-22T15:30:00+08:00'],
    ['America/St_Johns', '2026-05-22T05:00:00-02:30'],
    ['UTC', '2026-05-22T07:30:00+00:00'],
  ])('updated is the local time with its distance from UTC: %s', (zone, stamp) => {
    const before = process.env.TZ;
    process.env.TZ = zone;
    try {
      expect(localStamp(new Date('2026-05-22T07:30:00Z'))).toBe(stamp);
    } finally {
      if (before === undefined) delete process.env.TZ;
      else process.env.TZ = before;
    }
  });

  test('property: whatever a task or a session says, it is one line', () => {
    const odd = fc.string({
      unit: fc.constantFrom('a', '\n', '\r', '\u2028', '\u0085', '\0', '- [x] ', '# ', ' '),
      minLength: 1,
    });
    fc.assert(
      fc.property(fc.array(odd), odd, (contents, sessionId) => {
        const todos = contents.map((content): TodoItem => ({ content, status: 'pending' }));
        const lines = planText(todos, { sessionId, at: AT }).split(/[\n\r\u2028\u2029\u0085]/);
        expect(lines).toHaveLength(8 + todos.length);
        expect(lines.slice(7, -1).every((line) => line.startsWith('- [ ] '))).toBe(true);
        expect(lines.filter((line) => line.startsWith('#'))).toEqual(['# Execution Plan', '## Task List']);
      }),
    );
  });

  test('a list of several lines keeps its words', () => {
    expect(planText([{ content: ' First:\n  - a\r\n\tb ', status: 'pending' }], { sessionId: 's', at: AT })).toContain(
      '\n- [ ] First: - a b\n',
    );
  });
});

describe('writing', () => {
  test('each write takes the place of the file, 0600 in a folder of 0700, and leaves nothing else', async () => {
    const plan = await writer();
    expect(readdirSync(dirname(plan.path)), 'no file before the first list').toEqual([]);
    await plan.write(ONE);
    await plan.write([{ content: 'Two', status: 'completed' }]);
    expect(readFileSync(plan.path, 'utf8')).toMatch(/## Task List\n\n- \[x\] Two\n$/);
    expect(readdirSync(dirname(plan.path))).toEqual([basename(plan.path)]);
    expect((lstatSync(plan.path).mode & 0o777).toString(8)).toBe('600');
    expect((lstatSync(dirname(plan.path)).mode & 0o777).toString(8)).toBe('700');
  });

  test('writes that overlap are done in their order', async () => {
    const plan = await writer();
    await Promise.all(Array.from({ length: 20 }, (_, i) => plan.write([{ content: `v${i}`, status: 'pending' }])));
    expect(readFileSync(plan.path, 'utf8')).toMatch(/- \[ \] v19\n$/);
  });

  test('a reader finds a whole plan at any time', async () => {
    const plan = await writer();
    const list = Array.from({ length: 500 }, (_, i): TodoItem => ({ content: `task ${i}`, status: 'pending' }));
    await plan.write(list);
    let writing = true;
    const writes = (async () => {
      for (let i = 0; i < 20; i++) await plan.write(list);
      writing = false;
    })();
    const sizes = new Set<number>();
    while (writing) {
      sizes.add(readFileSync(plan.path).length);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writes;
    expect([...sizes]).toEqual([readFileSync(plan.path).length]);
  });

  test('a link that takes the place of the file is replaced, not followed', async () => {
    const plan = await writer();
    await plan.write(ONE);
    const victim = join(space.base, 'victim');
    writeFileSync(victim, 'mine');
    space.sh(`ln -sf ${victim} ${plan.path}`);
    await plan.write(ONE);
    expect(lstatSync(plan.path).isFile()).toBe(true);
    expect(readFileSync(victim, 'utf8')).toBe('mine');
  });

  test('a folder that went is made again; one that can’t be is an error, and the next write tries again', async () => {
    const plan = await writer();
    space.sh('rm -r ../home/.takeback');
    await plan.write(ONE);
    space.sh('rm -r ../home/.takeback && touch ../home/.takeback');
    await expect(plan.write(ONE)).rejects.toMatchObject({ code: 'ERR_IO' });
    space.sh('rm ../home/.takeback');
    await plan.write(ONE);
    expect(readFileSync(plan.path, 'utf8')).toContain('- [ ] One\n');
  });

  test('a list of the wrong form is refused', async () => {
    const plan = await writer();
    await expect(plan.write([{ content: 'x', status: 'done' as never }])).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
    });
  });
});
