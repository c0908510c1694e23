/** Requests of any kind: fields that are right, nearly right, of another type, missing or too many. And what no answer may be. */
import fc from 'fast-check';
import { expect } from 'vitest';

type Kind = 'session' | 'id' | 'class' | 'paths' | 'policy' | 'any';

const ids = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('m1', 'c1', 'm2', 'c2') },
  fc.constantFrom('', '../../etc/passwd', '/etc/passwd', 'a\0b', '.', '..', 'C:\\x', '\ud800', '__proto__', '\n'),
  fc.constant('x'.repeat(2000)),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.anything(),
);

const paths = fc.oneof(
  fc.array(
    fc.constantFrom(
      'a.txt',
      'd',
      'd/b.txt',
      './a.txt',
      'none',
      '',
      '.',
      '..',
      '../x',
      '/etc/passwd',
      '.git/config',
      'a\0',
    ),
  ),
  fc.array(fc.string({ unit: 'binary', maxLength: 10 }), { maxLength: 4 }),
  fc.anything(),
);

const KINDS: Readonly<Record<Kind, fc.Arbitrary<unknown>>> = {
  session: fc.oneof({ weight: 8, arbitrary: fc.constantFrom('s1', 's2') }, ids),
  id: ids,
  class: fc.oneof(fc.constantFrom('none', 'network', 'desktop_control', 'NETWORK', 'all'), fc.anything()),
  paths,
  policy: fc.oneof(fc.constantFrom('refuse', 'overwrite', 'merge', 'force'), fc.anything()),
  any: fc.anything(),
};

/** Objects with some of the fields and, now and then, others; and things that are no objects. */
export function anyFields(shape: Readonly<Record<string, Kind>>): fc.Arbitrary<unknown> {
  const names = Object.keys(shape);
  const fields = fc
    .subarray(names)
    .chain((chosen) => fc.record(Object.fromEntries(chosen.map((name) => [name, KINDS[shape[name] as Kind]]))));
  const more = fc.dictionary(fc.string({ maxLength: 5 }), fc.anything(), { maxKeys: 1 });
  return fc.oneof(
    { weight: 10, arbitrary: fields },
    { weight: 1, arbitrary: fc.tuple(fields, more).map(([a, b]) => ({ ...a, ...b })) },
    { weight: 1, arbitrary: fc.anything() },
  );
}

/** An answer that says something: why there is none, or all that its action answers. */
export function soundAnswer(action: string, answer: unknown): void {
  const fields = answer as Record<string, unknown>;
  if (fields.available !== true) {
    expect(fields).toMatchObject({ available: false, reason: expect.stringMatching(/^[a-z_]+$/) });
    expect(fields.detail, 'says why').toMatch(/\S/);
    return;
  }
  expect(Object.keys(fields)).toEqual(expect.arrayContaining(KEYS[action] as string[]));
  if (action === 'restore') {
    const settled = [fields.restored, fields.skipped].flat().length;
    expect(fields.outcome === 'done' && settled === 0, 'done, and yet nothing').toBe(false);
  }
}

const KEYS: Readonly<Record<string, readonly string[]>> = {
  capture: [
    'boundary_id',
    'scanned_files',
    'stored_files',
    'stored_bytes',
    'unrestorable_files',
    'scan_errors',
    'scan_ms',
  ],
  call_begin: ['call_id', 'scanned_files', 'scan_errors', 'scan_ms'],
  call_end: ['call_id', 'changes', 'scan_errors'],
  plan: ['boundary_id', 'entries', 'irreversible'],
  restore: ['boundary_id', 'restored', 'refused', 'skipped', 'failed', 'irreversible'],
  drop: ['dropped'],
};
