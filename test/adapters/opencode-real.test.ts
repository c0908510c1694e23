/**
 * The plugin in the real OpenCode program. Runs where TAKEBACK_OPENCODE is the path of the program (of the npm package
 * `opencode-linux-x64`), as in `.ci/run`; else it is skipped. Needs `dist`, which `npm test` builds first.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { adapterSuite, type ScriptedCall, type Setting } from '../../src/adapters/testkit.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { type ModelCall, OpenCodeProgram, type Project } from './opencode-program.ts';

const BINARY = process.env.TAKEBACK_OPENCODE;
const PLUGIN = fileURLToPath(new URL('../../dist/adapters/opencode.js', import.meta.url));

if (BINARY === undefined || BINARY === '') {
  test.skip('the OpenCode program: skipped, TAKEBACK_OPENCODE is not set to its path', () => undefined);
} else {
  describe('the real OpenCode program', { timeout: 240_000 }, () => inProgram(BINARY));
}

function pluginIn({ dataDir }: { dataDir: string }, more: object = {}): string {
  const options = JSON.stringify({ dataDir, durability: 'fast', ...more });
  return `import { takeback } from ${JSON.stringify(PLUGIN)};\nexport const Takeback = takeback(${options});\n`;
}

/** A tool of the project that writes a file and then fails. */
function failingTool(root: string): string {
  const file = JSON.stringify(join(root, 'half.txt'));
  return `import { writeFileSync } from 'node:fs';
export default {
  description: 'fails',
  args: {},
  async execute() {
    writeFileSync(${file}, 'half\\n');
    throw new Error('the tool failed');
  },
};
`;
}

function inProgram(binary: string): void {
  const program = new OpenCodeProgram(binary);
  beforeAll(() => program.start(), 240_000);
  afterAll(() => program.close());
  let ids = 0;

  const asked = (root: string, call: ScriptedCall): ModelCall => {
    ids += 1;
    const id = `call_${ids}`;
    if (call.tool === 'fail') return { id, name: 'fail', args: {} };
    if (call.tool === 'shell') return { id, name: 'bash', args: { command: call.command, description: 'run' } };
    return { id, name: 'write', args: { filePath: join(root, call.path), content: call.content } };
  };

  const start = async (setting: Setting) => {
    const { root } = setting;
    const project = program.project(root, pluginIn(setting), { 'tool/fail.js': failingTool(root) });
    return {
      turn: (steps: readonly (readonly ScriptedCall[])[]) =>
        project.turn([...steps.map((step) => step.map((call) => asked(root, call))), 'Done.']),
      undo: () => project.command('takeback-undo'),
      redo: () => project.command('takeback-redo'),
      close: () => project.dispose(),
    };
  };
  for (const { name, run } of adapterSuite({ name: 'OpenCode', start })) test(name, run);

  async function inProject(check: (space: Space, project: Project) => Promise<void>, more: object = {}): Promise<void> {
    await using space = new Space();
    const project = program.project(space.root, pluginIn(space, more), { 'tool/fail.js': failingTool(space.root) });
    try {
      await check(space, project);
    } finally {
      await project.dispose();
    }
  }

  const write = (space: Space, id: string, path: string): ModelCall => ({
    ...{ id, name: 'write' },
    args: { filePath: join(space.root, path), content: '1\n' },
  });

  async function itemsOf(space: Space, project: Project) {
    const workspace = await space.open('native');
    const session = workspace.session({ threadId: await project.session() });
    return got(await session.timeline()).items;
  }

  test('calls have the ids of the model, and steps those of the messages that asked', () =>
    inProject(async (space, project) => {
      await project.turn([[write(space, 'c1', 'a.txt'), write(space, 'c2', 'b.txt')], [write(space, 'c3', 'c.txt')]]);
      const calls = (await itemsOf(space, project)).filter((item) => item.type === 'call');
      expect(calls).toMatchObject([
        { callId: 'c1', tool: 'write', state: 'ended', isError: false },
        { callId: 'c2', tool: 'write', state: 'ended', isError: false },
        { callId: 'c3', tool: 'write', state: 'ended', isError: false },
      ]);
      const [first, second, third] = calls.map(({ stepId }) => stepId);
      expect(first).toMatch(/^msg_/);
      expect(second).toBe(first);
      expect(third).toMatch(/^msg_/);
      expect(third).not.toBe(first);
    }));

  test('commands leave a note, the model is not asked, and no turn begins', () =>
    inProject(async (space, project) => {
      await project.turn([[write(space, 'c1', 'a.txt')]]);
      const { asked: before } = program.model;
      expect(await project.command('takeback-undo')).toBe('Undid the last turn. Files restored: 1.');
      expect(await project.command('takeback-redo')).toBe('Redid the last turn.');
      expect(await project.command('takeback-diff')).toContain('+++ b/a.txt');
      expect(program.model.asked).toBe(before);
    }));

  test('with answer: model the model is asked to say it', () =>
    inProject(
      async (space, project) => {
        await project.turn([[write(space, 'c1', 'a.txt')]]);
        const { asked: before } = program.model;
        program.model.steps = ['Undone.'];
        expect(await project.command('takeback-undo')).toBeNull();
        expect(program.model.asked).toBe(before + 1);
        expect(space.exists('a.txt')).toBe(false);
        const texts = (await project.messages()).flatMap(({ parts }) => parts.map(({ text }) => text ?? ''));
        expect(texts.some((text) => text.includes('Undid the last turn. Files restored: 1.'))).toBe(true);
      },
      { answer: 'model' },
    ));

  test('a failing tool is a failed call that has ended', () =>
    inProject(async (space, project) => {
      await project.turn([[{ id: 'c1', name: 'fail', args: {} }]]);
      const items = await itemsOf(space, project);
      expect(items[1]).toMatchObject({ callId: 'c1', tool: 'fail', state: 'ended', isError: true });
    }));

  test('a subagent’s files go with the turn that asked for it', () =>
    inProject(async (space, project) => {
      const args = { description: 'dig', prompt: 'Dig.', subagent_type: 'general' };
      await project.turn([
        [{ id: 'c1', name: 'task', args }],
        [write(space, 's1', 'sub.txt')],
        [{ id: 's2', name: 'bash', args: { command: 'echo 1 > sub2.txt', description: 'run' } }],
        'Dug.',
        'Done.',
      ]);
      expect([space.exists('sub.txt'), space.exists('sub2.txt')]).toEqual([true, true]);
      expect(await project.command('takeback-undo')).toBe('Undid the last turn. Files restored: 2.');
      expect([space.exists('sub.txt'), space.exists('sub2.txt')]).toEqual([false, false]);
    }));

  test('a turn that is aborted while a tool runs can be undone', () =>
    inProject(async (space, project) => {
      const command = 'echo 1 > a.txt; sleep 600';
      const turn = project.turn([[{ id: 'c1', name: 'bash', args: { command, description: 'run' } }]]);
      await expect.poll(() => space.bytes('a.txt'), { timeout: 120_000 }).toBe('1\n');
      await project.abort();
      await turn;
      expect(await project.command('takeback-undo')).toBe('Undid the last turn. Files restored: 1.');
      expect(space.exists('a.txt')).toBe(false);
    }));

  test('a session that the user deletes is forgotten', () =>
    inProject(async (space, project) => {
      await project.turn([[write(space, 'c1', 'a.txt')]]);
      await project.forget();
      writeFileSync(join(space.root, 'later.txt'), 'later\n');
      const workspace = await space.open('native');
      const sessions = async () => got(await workspace.sessions()).sessions;
      await expect.poll(sessions, { timeout: 60_000 }).toEqual([]);
    }));
}
