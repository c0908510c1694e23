/** The README's figures are those of a run that lies in the repository, and of no other. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const TOP = fileURLToPath(new URL('../../', import.meta.url));
const table: string = '../../bench/table.mjs';

test('the table of the README is the one that the newest saved run makes', async () => {
  const { withTable } = await import(table);
  const newest = readdirSync(`${TOP}bench/runs`).sort().at(-1);
  const run: unknown = JSON.parse(readFileSync(`${TOP}bench/runs/${newest}/results.json`, 'utf8'));
  const readme = readFileSync(`${TOP}README.md`, 'utf8');
  expect(readme, 'npm run bench -- --readme writes it').toBe(withTable(readme, run));
});

test('a run of one row becomes a table with its ratios, and a README without the marks is refused', async () => {
  const { withTable, TABLE_START, TABLE_END } = await import(table);
  const against = { 'floor scan': { p50Ms: 10, ratio: 0.85 }, 'git status': { p50Ms: 31.2, ratio: 0.27 } };
  const row = { name: 'begin of a call', p50Ms: 8.5, p99Ms: 12, against };
  const runs = [
    { size: '10k', backend: 'native', rows: [row] },
    { size: '10k', backend: 'portable', rows: [{ ...row, p50Ms: 1234, against: {} }] },
  ];
  const made: string = withTable(`a\n${TABLE_START}\nold\n${TABLE_END}\nb\n`, { runs });
  expect(made.split('\n')).toContain('| begin of a call | 8.5 | 0.85 | git status 31.2 | 1,234 |');
  expect(made).not.toContain('old');
  expect(() => withTable('nothing', { runs })).toThrow('README.md lacks the lines');
});
