/**
 * Holds docs/seed-*.md to the tests: every file that they name is there, and every claim of their tables is the title of a test.
 *
 * A claim is what a cell says in *italics*, else each part between semicolons. `…` stands for any text. What is in parentheses,
 * and a sentence that follows a claim, is prose; so is a row that says `No test`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const SEEDS = ['seed-000', 'seed-001', 'seed-002'];

const names = readdirSync(join(TOP, 'test'), { recursive: true })
  .map((name) => `test/${String(name).replaceAll('\\', '/')}`)
  .filter((name) => /\.(ts|jsonl)$/.test(name) && name !== 'test/seeds.test.ts');
const sources = [...names, 'src/adapters/testkit.ts'].map((name) => readFileSync(join(TOP, name), 'utf8')).join('\n');

const plain = (text: string): string => text.replaceAll("\\'", "'").replaceAll(/[’‘]/g, "'").replaceAll('`', '');
const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** String literals of the tests: titles are among them, also those that a table gives. */
const literals = [...sources.matchAll(/(['"`])((?:\\.|(?!\1)[^\\\n]){4,})\1/g)].map(([, , text]) =>
  plain(text as string),
);

/** What `test.each` puts into a title. */
const FILLED = /%[sdji]|\$\{[^}]*\}|\$[\w.]+/g;
const MIN_FIXED = 12;
const patterns = literals
  .filter((title) => title.match(FILLED) !== null && title.replaceAll(FILLED, '').length >= MIN_FIXED)
  .map((title) => new RegExp(title.split(FILLED).map(escaped).join('.+')));

function isTitle(claim: string): boolean {
  const wanted = new RegExp(
    claim
      .split('…')
      .map((part) => escaped(part.trim()))
      .join('.*'),
  );
  return literals.some((title) => wanted.test(title)) || patterns.some((pattern) => pattern.test(claim));
}

const FILE = /`((?:[\w-]+\/)*[\w-]+\.test\.ts|test\/[\w/*.-]+\.jsonl)`:?/g;
const MARK = /^(?:(?:Goes further|Gone|The same|same file|Here|Otherwise here):\s*)+/;

const withoutProse = (claim: string): string =>
  claim
    .replaceAll(/\([^()]*\)/g, '')
    .replace(/\.$/, '')
    .trim();

function claimsOf(cell: string): string[] {
  const italics = [...cell.matchAll(/(?<![\w*])\*([^*]+)\*/g)].map(([, claim]) => claim as string);
  const parts = italics.length > 0 ? italics : cell.replaceAll(FILE, ';').split(';');
  return parts
    .flatMap((part) => plain(part).split(/\.(?= Goes further: )|\. (?=[A-Z]).*$/))
    .map((part) => part.trim().replace(MARK, '').replace(/\.$/, '').trim())
    .filter((claim) => withoutProse(claim) !== '' && !/^(the same|all of it|the oracle|the whole oracle)/.test(claim));
}

function rowsOf(name: string): string[] {
  return readFileSync(join(TOP, 'docs', `${name}.md`), 'utf8')
    .split('\n')
    .filter((line) => /^\| (?!sentence|limit of)/.test(line))
    .map((line) => line.slice(line.indexOf(' | ') + 3).replace(/ \|$/, ''));
}

describe.each(SEEDS)('docs/%s.md', (name) => {
  test('names test files that are there', () => {
    const text = readFileSync(join(TOP, 'docs', `${name}.md`), 'utf8');
    const missing = [...text.matchAll(FILE)]
      .map(([, file]) => (file as string).replace('*.jsonl', ''))
      .filter((file) => !names.some((known) => `/${known}`.includes(`/${file}`)));
    expect(missing).toEqual([]);
  });

  test('names titles of tests', () => {
    const claims = rowsOf(name)
      .filter((cell) => !cell.includes('No test'))
      .flatMap(claimsOf);
    expect(claims.length).toBeGreaterThan(20);
    expect(claims.filter((claim) => !isTitle(claim) && !isTitle(withoutProse(claim)))).toEqual([]);
  });
});

test('a claim that no test makes is found', () => {
  expect(isTitle('a claim that nobody ever made of this engine')).toBe(false);
  expect(claimsOf('`a.test.ts`: one thing; another (prose). And more. Goes further: a third')).toEqual([
    'one thing',
    'another (prose)',
  ]);
});
