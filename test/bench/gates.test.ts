import { expect, test } from 'vitest';

interface Bar {
  readonly row: string;
  readonly beside: string;
  readonly most: number;
  readonly known?: { readonly measured: number; readonly ceiling: number };
  readonly others?: number;
}

type Judge = (measured: { ratio: number; spread: number; others: number | null }, bar: Partial<Bar>) => string;

const { BARS, PORTABLE_BARS, judge } = (await import(new URL('../../bench/bars.mjs', import.meta.url).href)) as {
  BARS: readonly Bar[];
  PORTABLE_BARS: readonly Bar[];
  judge: Judge;
};

const bar = { most: 0.9, known: { measured: 1.1, ceiling: 1.2 } };

test('a ratio is met at its bar, known to be missed up to its ceiling, and missed above that', () => {
  const quiet = { spread: 1.1, others: 0.1 };
  expect(judge({ ratio: 0.9, ...quiet }, bar)).toBe('met');
  expect(judge({ ratio: 0.91, ...quiet }, bar)).toBe('known');
  expect(judge({ ratio: 1.2, ...quiet }, bar)).toBe('known');
  expect(judge({ ratio: 1.21, ...quiet }, bar)).toBe('missed');
  expect(judge({ ratio: 0.91, ...quiet }, { most: 0.9 })).toBe('missed');
});

test('a try of which the rounds differ, or beside which others worked, decides nothing', () => {
  expect(judge({ ratio: 0.5, spread: 1.3, others: 0 }, bar)).toBe('noisy');
  expect(judge({ ratio: 9, spread: 1, others: 0.31 }, bar)).toBe('noisy');
  expect(judge({ ratio: 9, spread: 1, others: 0.3 }, bar)).toBe('missed');
  expect(judge({ ratio: 9, spread: 1, others: 0.5 }, { ...bar, others: 0.6 })).toBe('missed');
  expect(judge({ ratio: 9, spread: 1, others: null }, bar)).toBe('missed');
});

test('each bar that is known to be missed was measured above it, and has a ceiling within a half of that', () => {
  const bars = [...BARS, ...PORTABLE_BARS];
  expect(new Set(BARS.map(({ row, beside }) => `${row} beside ${beside}`)).size).toBe(BARS.length);
  for (const { row, most, known } of bars.filter((one) => one.known !== undefined)) {
    expect(known?.measured, row).toBeGreaterThan(most);
    expect(known?.ceiling, row).toBeGreaterThanOrEqual(known?.measured ?? 0);
    expect(known?.ceiling, row).toBeLessThanOrEqual((known?.measured ?? 0) * 1.5);
  }
});
