/** `read_file`: pages, characters, and what lies outside. */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readFileTool } from '../../src/index.ts';
import { Space } from '../kit/space.ts';

let space: Space;
beforeEach(() => {
  space = new Space();
});
afterEach(() => space[Symbol.asyncDispose]());

const read = (input: unknown, root = space.root): Promise<string> => readFileTool({ root }).execute(input);
const refusal = (code: string, message: string | RegExp): unknown =>
  expect.objectContaining({
    code,
    message: typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
  });

/** The notice of a page that isn't the last: its own bytes, and where to go on. */
const NOTICE = /\n\n\[Bytes (\d+) to (\d+) of (\d+); to continue reading use offset=(\d+)\]$/;

/** Follows the notices from the beginning. */
async function byNotices(path: string, limit: number): Promise<string[]> {
  const pages: string[] = [];
  for (let offset = 0; ; ) {
    const answer = await read({ path, offset, limit });
    const notice = NOTICE.exec(answer);
    pages.push(notice === null ? answer : answer.slice(0, notice.index));
    if (notice === null) return pages;
    expect(Number(notice[4])).toBeGreaterThan(offset);
    offset = Number(notice[4]);
  }
}

describe('pages', () => {
  test('offset and limit default to 0 and 4,096 bytes', async () => {
    space.write('f', 'x'.repeat(5000));
    expect(await read({ path: 'f' })).toBe(
      `${'x'.repeat(4096)}\n\n[Bytes 0 to 4096 of 5000; to continue reading use offset=4096]`,
    );
    expect(await read({ path: 'f', offset: 4096 })).toBe('x'.repeat(904));
  });

  test('a file that ends with its page has no notice', async () => {
    space.write('f', 'x'.repeat(4096));
    expect(await read({ path: 'f' })).toBe('x'.repeat(4096));
  });

  test.each([
    ['at the end', 3],
    ['past the end', 4097],
  ])('an offset %s: the text of that, without an error', async (_name, offset) => {
    space.write('f', 'abc');
    expect(await read({ path: 'f', offset })).toBe(`[offset=${offset} exceeds file size (3 bytes), nothing to read.]`);
  });

  test('an empty file has nothing to read', async () => {
    space.write('f', '');
    expect(await read({ path: 'f' })).toBe('[offset=0 exceeds file size (0 bytes), nothing to read.]');
  });

  test('a huge limit is read as 65,536, or as maxLimit says', async () => {
    space.write('f', 'x'.repeat(70_000));
    expect(await read({ path: 'f', limit: Number.MAX_SAFE_INTEGER })).toMatch(/use offset=65536\]$/);
    const tool = readFileTool({ root: space.root, maxLimit: 10 });
    expect(await tool.execute({ path: 'f', limit: 100 })).toMatch(/^x{10}\n\n\[Bytes 0 to 10 of 70000/);
  });
});

describe('characters', () => {
  test('a page ends before a character that it can’t hold, and the next one begins with it', async () => {
    space.write('f', 'ab€cd');
    expect(await read({ path: 'f', limit: 4 })).toMatch(
      /^ab\n\n\[Bytes 0 to 2 of 7; to continue reading use offset=2\]$/,
    );
    expect(await read({ path: 'f', offset: 2, limit: 4 })).toMatch(/^€c\n\n/);
  });

  test('an offset inside a character begins with that character', async () => {
    space.write('f', 'ab€cd');
    for (const offset of [2, 3, 4]) expect(await read({ path: 'f', offset }), String(offset)).toBe('€cd');
  });

  test('a limit that is less than a character reads one all the same', async () => {
    space.write('f', '😀b');
    expect(await read({ path: 'f', limit: 1 })).toMatch(
      /^😀\n\n\[Bytes 0 to 4 of 5; to continue reading use offset=4\]$/,
    );
  });

  test('a byte order mark is kept', async () => {
    space.write('f', '\ufeffabc');
    expect(await read({ path: 'f' })).toBe('\ufeffabc');
  });

  const text = fc.string({
    unit: fc.oneof(
      fc.constantFrom('\n', '\0', 'é', '€', '😀', '\ufffd', '\ufeff'),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
    ),
    minLength: 1,
    maxLength: 60,
  });

  test('property: the pages that the notices lead through are exactly the file', async () => {
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 1, max: 20 }), async (content, limit) => {
        space.write('f', content);
        const pages = await byNotices('f', limit);
        expect(pages.join('')).toBe(content);
        for (const page of pages) expect(Buffer.byteLength(page)).toBeLessThanOrEqual(Math.max(limit, 4));
      }),
      { numRuns: 60 },
    );
  });

  test('property: so are pages by one’s own arithmetic, limit by limit', async () => {
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 4, max: 20 }), async (content, limit) => {
        space.write('f', content);
        let all = '';
        for (let offset = 0; offset < Buffer.byteLength(content); offset += limit) {
          all += (await read({ path: 'f', offset, limit })).replace(NOTICE, '');
        }
        expect(all).toBe(content);
      }),
      { numRuns: 60 },
    );
  });

  test('bytes that aren’t UTF-8 are shown as U+FFFD, with a notice, and the file goes on', async () => {
    space.write('latin1.txt', Buffer.from('gr\xfc\xdfe\n', 'latin1'));
    expect(await read({ path: 'latin1.txt' })).toBe(
      'gr\ufffd\ufffde\n\n\n[Some bytes of this page are not UTF-8; they are shown as U+FFFD.]',
    );
    expect(await read({ path: 'latin1.txt', limit: 3 })).toMatch(/U\+FFFD\.\]\n\[Bytes 0 to 3 of 6; to continue/);
  });
});

describe('inside the root', () => {
  beforeEach(() => {
    space.write('dir/f', 'inside');
    writeFileSync(join(space.base, 'secret'), 'outside');
  });

  test.each([
    ['relative', 'dir/f'],
    ['with dots', './dir/../dir//f'],
  ])('a path that is %s', async (_name, path) => {
    expect(await read({ path })).toBe('inside');
  });

  test('an absolute path inside it, also by another name of the root', async () => {
    expect(await read({ path: join(space.root, 'dir/f') })).toBe('inside');
    symlinkSync(space.root, join(space.base, 'link'));
    expect(await read({ path: join(space.base, 'link/dir/f') }, join(space.base, 'link'))).toBe('inside');
    expect(await read({ path: join(space.root, 'dir/f') }, join(space.base, 'link'))).toBe('inside');
  });

  test('a link that leads to a file inside', async () => {
    symlinkSync('dir/f', join(space.root, 'file-link'));
    symlinkSync('dir', join(space.root, 'dir-link'));
    expect([await read({ path: 'file-link' }), await read({ path: 'dir-link/f' })]).toEqual(['inside', 'inside']);
  });

  test.each([
    ['above it', '../secret'],
    ['above it, by a detour', 'dir/../../secret'],
    ['far above it', '/etc/passwd'],
    ['of a namesake', '../w-other/f'],
  ])('a path %s is refused, without offset and with', async (_name, path) => {
    mkdirSync(join(space.base, 'w-other'));
    writeFileSync(join(space.base, 'w-other/f'), 'other');
    await expect(read({ path })).rejects.toEqual(refusal('ERR_OUTSIDE_ROOT', path));
    await expect(read({ path, offset: 1, limit: 2 })).rejects.toEqual(refusal('ERR_OUTSIDE_ROOT', path));
  });

  test.each([
    ['a file', '../secret', 'link'],
    ['a folder', '..', 'link/secret'],
    ['a link to a link', 'second', 'link'],
  ])('a link out of it, to %s, is refused', async (_name, target, path) => {
    symlinkSync('../secret', join(space.root, 'second'));
    symlinkSync(target, join(space.root, 'link'));
    await expect(read({ path })).rejects.toEqual(refusal('ERR_OUTSIDE_ROOT', 'leads outside the root'));
  });

  test('while a folder is swapped with a link to the outside, nothing outside is ever read', async () => {
    mkdirSync(join(space.base, 'elsewhere'));
    writeFileSync(join(space.base, 'elsewhere/f'), 'outside');
    const dir = join(space.root, 'dir');
    const answers: string[] = [];
    for (let round = 0; round < 200; round++) {
      const reading = read({ path: 'dir/f' }).then(
        (text) => answers.push(text),
        (error: { code: string }) => answers.push(error.code),
      );
      // In the middle of it, at another place each round.
      for (let turn = 0; turn < round % 12; turn++) await new Promise((resolve) => setImmediate(resolve));
      renameSync(dir, `${dir}-away`);
      symlinkSync(join(space.base, 'elsewhere'), dir);
      await reading;
      rmSync(dir);
      renameSync(`${dir}-away`, dir);
    }
    expect(answers).toHaveLength(200);
    expect(answers.filter((answer) => !['inside', 'ERR_IO', 'ERR_OUTSIDE_ROOT'].includes(answer))).toEqual([]);
    expect(answers).toContain('inside');
  });
});

describe('what is no text file', () => {
  test('a missing one is named', async () => {
    await expect(read({ path: 'none' })).rejects.toEqual(refusal('ERR_IO', 'no such file: none'));
  });

  test('a link that leads nowhere is missing', async () => {
    symlinkSync('nowhere', join(space.root, 'link'));
    await expect(read({ path: 'link' })).rejects.toEqual(refusal('ERR_IO', 'no such file: link'));
  });

  test.each(['.', 'dir'])('a folder, %s', async (path) => {
    space.write('dir/f', '');
    await expect(read({ path })).rejects.toEqual(refusal('ERR_UNSUPPORTED', `${path} is a folder`));
  });

  test('a pipe is refused at once, not waited for', async () => {
    space.sh('mkfifo pipe');
    await expect(read({ path: 'pipe' })).rejects.toEqual(refusal('ERR_UNSUPPORTED', 'pipe is no regular file'));
  });

  test('a socket', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(space.root, 's'), resolve));
    try {
      await expect(read({ path: 's' })).rejects.toEqual(refusal('ERR_UNSUPPORTED', 's is no regular file'));
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  test('a binary file, with its size', async () => {
    space.write('x.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 0, 13]));
    await expect(read({ path: 'x.png' })).rejects.toEqual(
      refusal('ERR_UNSUPPORTED', 'x.png is a binary file (8 bytes)'),
    );
  });

  test('output that holds a NUL is text', async () => {
    space.write('f', `a\0b${'é'.repeat(5000)}`);
    expect(await read({ path: 'f', limit: 3 })).toMatch(/^a\0b\n\n/);
  });
});

describe('input', () => {
  test.each([
    ['nothing', undefined, 'input'],
    ['no path', {}, 'input.path'],
    ['an empty path', { path: '' }, 'input.path: must not be empty'],
    ['a number for a path', { path: 7 }, 'input.path'],
    ['a negative offset', { path: 'f', offset: -1 }, 'input.offset'],
    ['an offset that is no integer', { path: 'f', offset: 1.5 }, 'input.offset'],
    ['an offset as text', { path: 'f', offset: '4096' }, 'input.offset'],
    ['a limit of 0', { path: 'f', limit: 0 }, 'input.limit'],
    ['a key that is misspelt', { path: 'f', ofset: 1 }, 'ofset'],
    ['a NUL in the path', { path: 'a\0b' }, 'NUL'],
  ])('%s is refused, and the message says where', async (_name, input, message) => {
    space.write('f', 'abc');
    await expect(read(input)).rejects.toEqual(refusal('ERR_INVALID_ARGUMENT', message));
  });

  test('a root that is relative is refused; one that is missing is named when it is read', async () => {
    expect(() => readFileTool({ root: 'w' })).toThrowError(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringContaining('absolute') }),
    );
    await expect(read({ path: 'f' }, join(space.base, 'none'))).rejects.toEqual(refusal('ERR_IO', 'the root'));
  });

  test('the tool tells a model its name and its input', () => {
    const { name, jsonSchema } = readFileTool({ root: space.root });
    expect(name).toBe('read_file');
    expect(jsonSchema).toMatchObject({
      type: 'object',
      properties: { path: { type: 'string' }, offset: { type: 'integer' }, limit: { type: 'integer' } },
      required: ['path'],
      additionalProperties: false,
    });
  });
});
