/** Folders without links, both ways: by descriptor, and by name where there is no `/proc/self/fd`. */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openContained, removeContained, writeNew, writeWhole } from '../../src/hooks/contained.ts';
import { HookRegistry, offloadHook, readFileTool } from '../../src/index.ts';
import { Space } from '../kit/space.ts';
import { Heard, registryOf, toolCall } from './kit.ts';

const PLATFORM = Object.getOwnPropertyDescriptor(process, 'platform') as PropertyDescriptor;

describe.each([
  ['by descriptor', process.platform],
  ['by name', 'freebsd'],
])('%s', (way, platform) => {
  let space: Space;
  beforeEach(() => {
    Object.defineProperty(process, 'platform', { ...PLATFORM, value: platform });
    space = new Space();
  });
  afterEach(async () => {
    Object.defineProperty(process, 'platform', PLATFORM);
    await space[Symbol.asyncDispose]();
  });

  async function within<T>(
    parts: string[],
    work: (folder: Awaited<ReturnType<typeof openContained>>) => Promise<T>,
  ): Promise<T> {
    const folder = await openContained(space.root, parts, { makeMode: 0o700 });
    try {
      return await work(folder);
    } finally {
      await folder.close();
    }
  }

  test.skipIf(PLATFORM.value !== 'linux')('is the way that is taken (on Linux)', async () => {
    expect(await within([], async (folder) => folder.byDescriptor)).toBe(way === 'by descriptor');
  });

  test('folders are made, files written whole, and a name that is taken is left', async () => {
    await within(['a', 'b'], async (folder) => {
      expect(await writeNew(folder, 'f', Buffer.from('one'))).toBe(true);
      expect(await writeNew(folder, 'f', Buffer.from('two'))).toBe(false);
      expect(space.read('a/b/f')).toBe('one');
      await writeWhole(folder, 'f', Buffer.from('three'));
    });
    expect(space.read('a/b/f')).toBe('three');
    expect(readdirSync(join(space.root, 'a/b'))).toEqual(['f']);
  });

  test('a link, or a file, on the way is no folder', async () => {
    symlinkSync('..', join(space.root, 'link'));
    space.write('file', '');
    for (const name of ['link', 'file']) {
      await expect(openContained(space.root, [name, 'x'], { makeMode: 0o700 })).rejects.toThrow(
        `${join(space.root, name)} is not a folder; a link there is not followed`,
      );
    }
    await expect(openContained(space.root, ['none'])).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(openContained(join(space.root, 'file'), [])).rejects.toThrow();
  });

  test('a link at the name that is written is replaced, not followed', async () => {
    writeFileSync(join(space.base, 'victim'), 'mine');
    symlinkSync('../victim', join(space.root, 'f'));
    await within([], (folder) => writeWhole(folder, 'f', Buffer.from('new')));
    expect([space.read('f'), readFileSync(join(space.base, 'victim'), 'utf8')]).toEqual(['new', 'mine']);
  });

  test('what can’t be written leaves no temp file', async () => {
    space.write('d/f', '');
    await expect(within([], (folder) => writeWhole(folder, 'd', Buffer.from('x')))).rejects.toThrow();
    expect(readdirSync(space.root)).toEqual(['d']);
  });

  test('removing takes all below, and links as links', async () => {
    mkdirSync(join(space.base, 'elsewhere'));
    writeFileSync(join(space.base, 'elsewhere/f'), 'mine');
    space.write('d/e/f', 'x');
    symlinkSync('../../elsewhere', join(space.root, 'd/link'));
    symlinkSync('../elsewhere', join(space.root, 'top-link'));
    await within([], async (folder) => {
      expect(await removeContained(folder, 'd')).toBe(true);
      expect(await removeContained(folder, 'top-link')).toBe(true);
      expect(await removeContained(folder, 'd')).toBe(false);
    });
    expect(readdirSync(space.root)).toEqual([]);
    expect(existsSync(join(space.base, 'elsewhere/f'))).toBe(true);
  });

  test('an output is offloaded and read back; a link in the way is not followed', async () => {
    const hook = offloadHook({ workDir: space.root, sessionId: 's1', threshold: 10, logger: new Heard() });
    const registry = new HookRegistry(registryOf({ bash: () => 'a long output' }), hook);
    const { output } = await registry.execute(toolCall('c1', 'bash'));
    const path = /saved to (\S+),/.exec(output)?.[1];
    const tool = readFileTool({ root: space.root });
    expect(await tool.execute({ path })).toBe('a long output');
    symlinkSync('..', join(space.root, 'link'));
    await expect(tool.execute({ path: 'link/victim' })).rejects.toMatchObject({ code: 'ERR_IO' });
    await expect(tool.execute({ path: 'link' })).rejects.toMatchObject({ code: 'ERR_OUTSIDE_ROOT' });
  });
});
