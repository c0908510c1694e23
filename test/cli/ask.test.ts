/** Questions on a terminal, over streams in place of one. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { askChoices, askYesNo } from '../../src/cli/ask.ts';

class Terminal {
  readonly input: PassThrough = new PassThrough();
  readonly output: PassThrough = new PassThrough();
  drawn = '';

  constructor() {
    this.output.on('data', (chunk: Buffer) => {
      this.drawn += chunk.toString();
    });
  }

  /** Types once the question stands there. */
  type(keys: string): void {
    this.output.once('data', () => setImmediate(() => this.input.write(keys)));
  }

  hangUp(): void {
    this.output.once('data', () => setImmediate(() => this.input.end()));
  }
}

const SHOW_CURSOR = '\x1b[?25h';

test.each([
  ['y', 'y', true],
  ['n', 'n', false],
  ['Enter', '\r', false],
  ['Ctrl-C', '\x03', false],
  ['Ctrl-D', '\x04', false],
])('%s is an answer, and the cursor is shown again', async (_name, keys, answer) => {
  const terminal = new Terminal();
  terminal.type(keys);
  expect(await askYesNo(terminal, 'Undo this turn?')).toBe(answer);
  expect(terminal.drawn).toContain(SHOW_CURSOR);
});

test('a terminal that goes away answers no, and chooses nothing', async () => {
  const [one, other] = [new Terminal(), new Terminal()];
  one.hangUp();
  expect(await askYesNo(one, 'Undo this turn?')).toBe(false);
  other.hangUp();
  expect(await askChoices(other, 'Which hunks go back?', ['[1]', '[2]'])).toBeNull();
});

test('choices are answered by their places; Ctrl-D chooses nothing', async () => {
  const [one, other] = [new Terminal(), new Terminal()];
  one.type(' \r');
  expect(await askChoices(one, 'Which hunks go back?', ['[1]', '[2]'])).toEqual([0]);
  other.type(' \x04');
  expect(await askChoices(other, 'Which hunks go back?', ['[1]', '[2]'])).toBeNull();
});
