/** The stand-ins of the built hook file give the answers of the modules that they stand for. */
import { createHash as nodesHash } from 'node:crypto';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import * as nodes from 'node:fs/promises';
import { homedir, hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance as nodesClock } from 'node:perf_hooks';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { performance } from '../../src/cli/hook/light-clock.ts';
import { createHash, randomBytes } from '../../src/cli/hook/light-crypto.ts';
import * as light from '../../src/cli/hook/light-fs.ts';
import * as lightOs from '../../src/cli/hook/light-os.ts';

describe('light-crypto', () => {
  test('SHA-256 of every length from 0 to 200 bytes, and of text, is that of node:crypto', () => {
    for (let length = 0; length <= 200; length += 1) {
      const bytes = Buffer.from(Array.from({ length }, (_, i) => (i * 37 + length) & 255));
      expect(createHash('sha256').update(bytes).digest('hex'), `${length} bytes`).toBe(
        nodesHash('sha256').update(bytes).digest('hex'),
      );
    }
    expect(createHash('sha256').update('Grüße').update('\u{1f600}').digest('hex')).toBe(
      nodesHash('sha256').update('Grüße\u{1f600}').digest('hex'),
    );
  });

  test('random bytes have the length that was asked for, and differ', () => {
    const found = new Set(Array.from({ length: 50 }, () => randomBytes(16).toString('hex')));
    expect([...found].every((hex) => hex.length === 32)).toBe(true);
    expect(found.size).toBe(50);
  });
});

describe('light-fs', () => {
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'takeback-light-')));
    file = join(folder, 'a.txt');
    writeFileSync(file, 'content');
  });

  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('answers as node:fs/promises', async () => {
    expect(await light.stat(file, { bigint: true })).toEqual(await nodes.stat(file, { bigint: true }));
    expect(await light.lstat(file)).toEqual(await nodes.lstat(file));
    expect(await light.readdir(folder)).toEqual(['a.txt']);
    expect(await light.realpath(Buffer.from(file), { encoding: 'buffer' })).toEqual(Buffer.from(file));
    expect((await light.statfs(folder)).type).toBe((await nodes.statfs(folder)).type);
    expect(await light.mkdir(join(folder, 'b/c'), { recursive: true })).toBe(join(folder, 'b'));
    await expect(light.access(file, light.constants.R_OK)).resolves.toBeUndefined();
    const handle = await light.open(file, 'r');
    expect((await handle.read(Buffer.alloc(4), 0, 4, 1)).buffer.toString()).toBe('onte');
    expect((await handle.readFile()).toString()).toBe('content');
    await handle.close();
  });

  test('rejects as node:fs/promises, and never throws', async () => {
    for (const call of [
      () => light.stat(join(folder, 'none')),
      () => light.readdir(file),
      () => light.open(join(folder, 'none'), 'r'),
      () => light.realpath(join(folder, 'none')),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: expect.stringMatching(/^(ENOENT|ENOTDIR)$/) });
    }
  });
});

describe('light-os', () => {
  const home = process.env.HOME;
  afterEach(() => {
    if (home === undefined) delete process.env.HOME;
    else process.env.HOME = home;
  });

  test('names the host and the home folder as node:os, with and without HOME', () => {
    expect(lightOs.hostname()).toBe(hostname());
    expect(lightOs.homedir()).toBe(homedir());
    process.env.HOME = '';
    expect(lightOs.homedir()).toBe(homedir());
    delete process.env.HOME;
    expect(lightOs.homedir()).toBe(homedir());
  });
});

test('light-clock counts the milliseconds of the clock that never goes back', () => {
  const outer = nodesClock.now();
  const from = performance.now();
  const inner = nodesClock.now();
  while (nodesClock.now() - inner < 5);
  const shortest = nodesClock.now() - inner;
  const took = performance.now() - from;
  const longest = nodesClock.now() - outer;
  expect(took).toBeGreaterThanOrEqual(shortest - 0.1);
  expect(took).toBeLessThanOrEqual(longest + 0.1);
});
