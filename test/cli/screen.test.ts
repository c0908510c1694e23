import { describe, expect, test } from 'vitest';
import type { Host } from '../../src/cli/host.ts';
import { Screen } from '../../src/cli/screen.ts';

function screenOf(options: { isTTY: boolean; json?: boolean; env?: Record<string, string> }) {
  const out: string[] = [];
  const err: string[] = [];
  let at = 0;
  const stream = (chunks: string[]) => ({
    write: (chunk: string | Uint8Array) => chunks.push(String(chunk)),
    isTTY: options.isTTY,
    columns: 80,
  });
  const host = {
    stdout: stream(out),
    stderr: stream(err),
    env: options.env ?? {},
    now: () => at,
  } as unknown as Host;
  const pass = (ms: number): void => {
    at += ms;
  };
  return { screen: new Screen(host, options.json ?? false), out, err, pass };
}

describe('the progress bar', () => {
  test('is not shown for work under half a second', () => {
    const { screen, err, pass } = screenOf({ isTTY: true });
    const bar = screen.bar();
    pass(499);
    bar.onProgress({ phase: 'scan', done: 5, total: 10 });
    bar.stop();
    expect(err).toEqual([]);
  });

  test('is drawn on standard error after that, and wiped at the end', () => {
    const { screen, out, err, pass } = screenOf({ isTTY: true, json: true });
    const bar = screen.bar();
    pass(600);
    bar.onProgress({ phase: 'ingest', done: 5, total: 10 });
    bar.stop();
    expect(err).toEqual([`\r\x1b[Kingest [${'#'.repeat(15)}${'.'.repeat(15)}] 5 of 10 files`, '\r\x1b[K']);
    expect(out).toEqual([]);
  });

  test('counts where the total is not known', () => {
    const { screen, err, pass } = screenOf({ isTTY: true });
    const bar = screen.bar();
    pass(600);
    bar.onProgress({ phase: 'scan', done: 1234 });
    expect(err).toEqual(['\r\x1b[Kscan: 1,234 files']);
  });

  test('is never drawn where standard error is no terminal', () => {
    const { screen, err, pass } = screenOf({ isTTY: false });
    const bar = screen.bar();
    pass(5000);
    bar.onProgress({ phase: 'scan', done: 1 });
    bar.stop();
    expect(err).toEqual([]);
  });
});

describe('colour', () => {
  test.each([
    ['a terminal', { isTTY: true }, true],
    ['a pipe', { isTTY: false }, false],
    ['NO_COLOR', { isTTY: true, env: { NO_COLOR: '1' } }, false],
    ['an empty NO_COLOR', { isTTY: true, env: { NO_COLOR: '' } }, true],
    ['a dumb terminal', { isTTY: true, env: { TERM: 'dumb' } }, false],
    ['--json', { isTTY: true, json: true }, false],
  ] as const)('on %s: %j', (_name, options, coloured) => {
    expect(screenOf(options).screen.style('red', 'x') !== 'x').toBe(coloured);
  });
});
