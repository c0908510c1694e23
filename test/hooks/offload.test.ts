/** Outputs that are too long for a context: the file, the summary, and what happens where none can be written. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { countLines, isSummary, preview, summary } from '../../src/hooks/offload-text.ts';
import {
  HookRegistry,
  type OffloadOptions,
  offloadGuidance,
  offloadHook,
  readFileTool,
  safeName,
  type ToolResult,
} from '../../src/index.ts';
import { Space } from '../kit/space.ts';
import { Heard, registryOf, toolCall, warningsDuring } from './kit.ts';

let space: Space;
beforeEach(() => {
  space = new Space();
});
afterEach(() => space[Symbol.asyncDispose]());

const SESSION = '0197b2c4-6f1e-7cc2-9a51-3b0c8f2e4d5a';

/** Offloads one output as the registry would. */
async function offload(
  output: string,
  options: Partial<OffloadOptions> = {},
  call: { id?: string; name?: string } = {},
): Promise<ToolResult> {
  const name = call.name ?? 'bash';
  const inner = registryOf({ [name]: () => output });
  const hook = offloadHook({ workDir: space.root, sessionId: SESSION, ...options });
  return new HookRegistry(inner, hook).execute(toolCall(call.id ?? 'c1', name));
}

const file = (name: string): string => join(space.root, '.takeback/tool_results', SESSION, name);
const modeOf = (path: string): string => (lstatSync(path).mode & 0o777).toString(8);

describe('when', () => {
  test('10,000 characters stay, 10,001 are offloaded', async () => {
    expect((await offload('x'.repeat(10_000))).output).toBe('x'.repeat(10_000));
    expect(existsSync(join(space.root, '.takeback'))).toBe(false);
    expect((await offload('x'.repeat(10_001))).output).toMatch(/^\[Output saved to /);
    expect(readFileSync(file('c1.txt'), 'utf8')).toBe('x'.repeat(10_001));
  });

  test('threshold counts JavaScript’s string length, not bytes', async () => {
    expect((await offload('é'.repeat(100), { threshold: 100 })).output).toBe('é'.repeat(100));
    expect((await offload('é'.repeat(101), { threshold: 100 })).output).toContain('1 lines / 202 bytes total.');
  });

  test.each(['read_file', 'write_file', 'edit_file'])('%s is excluded', async (name) => {
    const output = 'x'.repeat(20_000);
    expect((await offload(output, {}, { name })).output).toBe(output);
  });

  test('exclude takes the place of that list', async () => {
    expect((await offload('x'.repeat(20_000), { exclude: ['bash'] })).output).toBe('x'.repeat(20_000));
    expect((await offload('x'.repeat(20_000), { exclude: [] }, { name: 'read_file' })).output).toMatch(/^\[Output/);
  });

  test('the output of a failed tool is offloaded, and stays an error', async () => {
    const inner = registryOf({
      bash: () => {
        throw new Error('e'.repeat(20_000));
      },
    });
    const hook = offloadHook({ workDir: space.root, sessionId: SESSION });
    const result = await new HookRegistry(inner, hook).execute(toolCall('c1', 'bash'));
    expect(result).toMatchObject({ toolCallId: 'c1', isError: true });
    expect(result.output).toMatch(/^\[Output saved to /);
  });
});

describe('the summary', () => {
  test('letter for letter, with the path relative to the working directory', async () => {
    const lines = Array.from({ length: 847 }, (_, i) => `line ${i + 1} ${'.'.repeat(28)}`);
    const output = `${lines.join('\n')}\n`;
    const result = await offload(output);
    expect(result.output).toBe(
      `[Output saved to .takeback/tool_results/${SESSION}/c1.txt, 847 lines / ${output.length} bytes total.
Can be read in pages via the read_file tool with offset/limit parameters.

Preview (first 20 lines):
${lines.slice(0, 20).join('\n')}
...(truncated)]`,
    );
  });

  test('a long line is cut at 4,096 bytes, between two characters', async () => {
    const { output } = await offload(`${'é'.repeat(2047)}€${'x'.repeat(20_000)}`);
    expect(output.split('\n').slice(4)).toEqual(['é'.repeat(2047), '...(truncated)]']);
  });

  test('previewLines and previewBytes set it', async () => {
    const { output } = await offload('one\ntwo\nthree\n'.repeat(10), {
      threshold: 0,
      previewLines: 2,
      previewBytes: 5,
    });
    expect(output).toContain('Preview (first 2 lines):\none\nt\n...(truncated)]');
  });

  test('property: the preview is a beginning of the output, within lines and bytes, and no shorter than it must be', () => {
    const text = fc.string({
      unit: fc.oneof(fc.constant('\n'), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 })),
    });
    fc.assert(
      fc.property(text, fc.nat(6), fc.nat(40), (given, lines, maxBytes) => {
        const shown = preview(given, { lines, maxBytes });
        const wanted = given.split('\n').slice(0, lines).join('\n');
        const bytes = Buffer.byteLength(shown);
        expect(wanted.startsWith(shown)).toBe(true);
        expect(bytes).toBeLessThanOrEqual(maxBytes);
        if (shown !== wanted) expect(bytes).toBeGreaterThan(maxBytes - 4);
      }),
    );
  });

  test('property: lines and bytes are those of the output, and what is made is recognised', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(30), (output, previewLines) => {
        const text = summary(output, { path: 'a/b.txt', previewLines, previewBytes: 100 });
        const lines = output.replace(/\n$/, '').split('\n').length;
        expect(text).toContain(`, ${output === '' ? 0 : lines} lines / ${Buffer.byteLength(output)} bytes total.`);
        expect(isSummary(text)).toBe(true);
      }),
    );
  });

  test.each([
    ['', 0],
    ['a', 1],
    ['a\n', 1],
    ['\n', 1],
    ['a\nb', 2],
    ['a\n\n', 2],
  ])('%j has %i lines', (text, lines) => {
    expect(countLines(text)).toBe(lines);
  });
});

describe('the file', () => {
  test('holds the full output, 0600 in folders of 0700, and nothing else is left', async () => {
    const output = `${'a line\n'.repeat(3000)}“the end”`;
    await offload(output);
    expect(readFileSync(file('c1.txt'), 'utf8')).toBe(output);
    expect(modeOf(file('c1.txt'))).toBe('600');
    expect(modeOf(join(space.root, '.takeback/tool_results'))).toBe('700');
    expect(modeOf(file(''))).toBe('700');
    expect(readdirSync(file(''))).toEqual(['c1.txt']);
  });

  test('one for each call', async () => {
    await offload('x'.repeat(20_000), {}, { id: 'c1' });
    await offload('y'.repeat(20_000), {}, { id: 'c2' });
    expect(readdirSync(file('')).sort()).toEqual(['c1.txt', 'c2.txt']);
  });

  test('calls that overlap have each their own', async () => {
    const outputs = Array.from({ length: 20 }, (_, i) => String(i % 10).repeat(20_000 + i));
    await Promise.all(outputs.map((output, i) => offload(output, {}, { id: `c${i}` })));
    expect(outputs.map((_, i) => readFileSync(file(`c${i}.txt`), 'utf8'))).toEqual(outputs);
  });

  test('an id that comes again keeps the first output; the same output again is the same file', async () => {
    await offload('x'.repeat(20_000));
    const second = await offload('y'.repeat(20_000));
    expect(second.output).toContain(`/${SESSION}/c1.2.txt, `);
    expect((await offload('x'.repeat(20_000))).output).toContain(`/${SESSION}/c1.txt, `);
    expect(readFileSync(file('c1.txt'), 'utf8')).toBe('x'.repeat(20_000));
    expect(readdirSync(file('')).sort()).toEqual(['c1.2.txt', 'c1.txt']);
  });

  test('calls of one id that overlap lose nothing', async () => {
    const outputs = Array.from({ length: 8 }, (_, i) => String(i).repeat(20_000));
    const results = await Promise.all(outputs.map((output) => offload(output)));
    const paths = results.map(({ output }) => /saved to (\S+),/.exec(output)?.[1] as string);
    expect(paths.map((path) => space.read(path))).toEqual(outputs);
  });

  test('ids with ../, capitals or separators stay inside, each in a place of its own', async () => {
    const ids = ['../../../out', 'ABC', 'abc', 'a/b', '', '.'];
    for (const id of ids) await offload(`${id}${'x'.repeat(20_000)}`, { sessionId: '../../s' }, { id });
    const folder = join(space.root, '.takeback/tool_results', safeName('../../s'));
    expect(readdirSync(folder).sort()).toEqual(ids.map((id) => `${safeName(id)}.txt`).sort());
    expect(readdirSync(space.base).sort()).toEqual(['home', 'w']);
    expect(readdirSync(space.root)).toEqual(['.takeback']);
  });

  test('git status stays clean, and a .gitignore of the user’s stays', async () => {
    space.git('init', '-q');
    await offload('x'.repeat(20_000));
    expect(space.git('status', '--porcelain', '--untracked-files=all')).toBe('');
    expect(space.read('.takeback/tool_results/.gitignore')).toBe('*\n');
    space.write('.takeback/tool_results/.gitignore', '*.txt\n');
    await offload('y'.repeat(20_000));
    expect(space.read('.takeback/tool_results/.gitignore')).toBe('*.txt\n');
  });

  test('dirName changes the folder', async () => {
    const { output } = await offload('x'.repeat(20_000), { dirName: '.agent' });
    expect(output).toContain(`[Output saved to .agent/tool_results/${SESSION}/c1.txt, `);
    expect(existsSync(join(space.root, '.takeback'))).toBe(false);
  });

  test('read_file reads it back by the path of the summary', async () => {
    const output = 'zeile – ü\n'.repeat(500);
    const path = /saved to (\S+),/.exec((await offload(output, { threshold: 100 })).output)?.[1];
    const tool = readFileTool({ root: space.root });
    expect(await tool.execute({ path, limit: 60_000 })).toBe(output);
  });
});

describe('offloaded already', () => {
  test('a summary is not offloaded again, by a second hook with a lower threshold', async () => {
    const inner = registryOf({ bash: () => 'x\n'.repeat(20_000) });
    const strict = offloadHook({ workDir: space.root, sessionId: 'strict', threshold: 10 });
    const loose = offloadHook({ workDir: space.root, sessionId: SESSION });
    const { output } = await new HookRegistry(inner, strict, loose).execute(toolCall('c1', 'bash'));
    expect(output).toMatch(/^\[Output saved to .*0197b2c4/);
    expect(readdirSync(join(space.root, '.takeback/tool_results')).sort()).toEqual(['.gitignore', SESSION]);
  });

  test('a long text that only begins and ends like a summary is offloaded', async () => {
    const forged = `${summary('x', { path: 'p', previewLines: 1, previewBytes: 1 }).replace('x\n', `${'x'.repeat(30_000)}\n`)}`;
    expect(forged).toMatch(/^\[Output saved to p, [\s\S]*\n\.\.\.\(truncated\)\]$/);
    expect((await offload(forged)).output).toContain(`/${SESSION}/c1.txt`);
  });
});

describe('fail-open', () => {
  test('where the folder can’t be made, the result is the original, and the logger hears why', async () => {
    writeFileSync(join(space.root, '.takeback'), 'a file in the way');
    const logger = new Heard();
    const output = 'x'.repeat(20_000);
    expect(await offload(output, { logger })).toEqual({ toolCallId: 'c1', output, isError: false });
    expect(logger.lines).toEqual([
      expect.stringMatching(/^offload: the output of bash stays in context, .*not a folder/),
    ]);
    expect(space.read('.takeback')).toBe('a file in the way');
  });

  test('without a logger the process is warned', async () => {
    writeFileSync(join(space.root, '.takeback'), '');
    const warnings = await warningsDuring(() => offload('x'.repeat(20_000)));
    expect(warnings).toEqual([expect.stringMatching(/^offload: the output of bash stays in context/)]);
  });

  test('a logger that throws does not fail the tool', async () => {
    writeFileSync(join(space.root, '.takeback'), '');
    const logger = {
      warn: () => {
        throw new Error('no disk');
      },
    };
    const warnings = await warningsDuring(async () => {
      expect((await offload('x'.repeat(20_000), { logger })).output).toBe('x'.repeat(20_000));
    });
    expect(warnings).toEqual([expect.stringContaining('the logger failed: Error: no disk')]);
  });

  test.each(['.takeback', '.takeback/tool_results', `.takeback/tool_results/${SESSION}`])(
    'a link at %s is not followed: nothing is written where it leads',
    async (path) => {
      const elsewhere = join(space.base, 'elsewhere');
      mkdirSync(elsewhere);
      mkdirSync(join(space.root, path, '..'), { recursive: true });
      symlinkSync(elsewhere, join(space.root, path));
      const logger = new Heard();
      expect((await offload('x'.repeat(20_000), { logger })).output).toBe('x'.repeat(20_000));
      expect(readdirSync(elsewhere)).toEqual([]);
      expect(logger.lines).toEqual([expect.stringContaining('a link there is not followed')]);
    },
  );

  test('a link at the file’s own name is not followed', async () => {
    const victim = join(space.base, 'victim');
    writeFileSync(victim, 'mine');
    mkdirSync(file(''), { recursive: true });
    symlinkSync(victim, file('c1.txt'));
    expect((await offload('x'.repeat(20_000))).output).toContain(`/${SESSION}/c1.2.txt`);
    expect(readFileSync(victim, 'utf8')).toBe('mine');
  });
});

describe('arguments', () => {
  test.each([
    ['a relative workDir', { workDir: 'w' }, 'options.workDir: must be an absolute path'],
    ['an empty sessionId', { sessionId: '' }, 'options.sessionId: must not be empty'],
    ['a negative threshold', { threshold: -1 }, 'options.threshold'],
    ['a dirName with a slash', { dirName: 'a/b' }, 'options.dirName: must be one name'],
    ['a dirName above', { dirName: '..' }, 'options.dirName: must not be'],
    ['git’s own folder', { dirName: '.GIT' }, 'options.dirName: must not be'],
    ['an unknown option', { treshold: 5 }, 'treshold'],
    ['a logger that is none', { logger: {} }, 'options.logger: must have a method warn'],
  ])('%s is refused', (_name, wrong, message) => {
    const options = { workDir: '/w', sessionId: 's', ...wrong } as OffloadOptions;
    expect(() => offloadHook(options)).toThrowError(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining(message) }),
    );
  });
});

test('the guidance for the system prompt, letter for letter', () => {
  expect(offloadGuidance()).toBe(`## Large Output File Retrieval

When a tool's output exceeds the threshold, the full content is automatically saved to the file system, and only a path reference and preview are shown in context.
To view the full output, use the read_file tool with offset/limit parameters for paginated reading:
- offset: starting byte position (default 0)
- limit: number of bytes to read (default 4096)
Example: read_file({"path": "/path/to/offload/file.txt", "offset": 4096, "limit": 4096})`);
});
