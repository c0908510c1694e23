/** Requests of any kind: fields that are right, nearly right, of another type, missing or too many. And what no answer may be. */
import fc from 'fast-check';
import { expect } from 'vitest';

type Kind = 'session' | 'boundary' | 'call' | 'class' | 'paths' | 'policy' | 'flag';

/** Mostly right, or nothing would ever get past the checks. */
const mostly = <T>(right: fc.Arbitrary<T>, ...wrong: fc.Arbitrary<unknown>[]): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 8, arbitrary: right }, fc.anything(), ...wrong);

const oddIds = fc.oneof(
  fc.constantFrom('', '../../etc/passwd', '/etc/passwd', 'a\0b', '.', '..', 'C:\\x', '\ud800', '__proto__', '\n'),
  fc.constant('x'.repeat(2000)),
  fc.string({ unit: 'binary', maxLength: 20 }),
);

const KINDS: Readonly<Record<Kind, fc.Arbitrary<unknown>>> = {
  session: mostly(fc.constantFrom('s1', 's1', 's2'), oddIds),
  boundary: mostly(fc.constantFrom('m1', 'm1', 'm2'), oddIds),
  call: mostly(fc.constantFrom('c1', 'c2'), oddIds),
  class: mostly(fc.constantFrom('none', 'network', 'desktop_control'), fc.constantFrom('NETWORK', 'all')),
  paths: mostly(
    fc.array(fc.constantFrom('a.txt', 'd', 'd/b.txt', './a.txt', 'none', '.git/config')),
    fc.array(fc.constantFrom('', '.', '..', '../x', '/etc/passwd', 'a\0', 'x'.repeat(9000))),
    fc.array(fc.string({ unit: 'binary', maxLength: 10 }), { maxLength: 4 }),
  ),
  policy: mostly(fc.constantFrom('refuse', 'overwrite', 'merge'), fc.constant('force')),
  flag: mostly(fc.boolean()),
};

/** Fields of each action: those that it needs, then those that it may have. */
const FIELDS: Readonly<Record<string, readonly [needed: Record<string, Kind>, more: Record<string, Kind>]>> = {
  capture: [{ session_id: 'session', boundary_id: 'boundary' }, {}],
  call_begin: [{ session_id: 'session', call_id: 'call' }, { paths: 'paths' }],
  call_end: [
    { session_id: 'session', call_id: 'call' },
    { paths: 'paths', side_effect: 'class', is_error: 'flag' },
  ],
  plan: [
    { session_id: 'session', boundary_id: 'boundary' },
    { paths: 'paths', on_conflict: 'policy' },
  ],
  restore: [
    { session_id: 'session', boundary_id: 'boundary' },
    { paths: 'paths', on_conflict: 'policy' },
  ],
  drop: [{ session_id: 'session' }, {}],
};

/** A request of an action in Harn's names: right, nearly right, or no object at all. */
export function anyRequest(): fc.Arbitrary<{ action: string; request: unknown }> {
  return fc.constantFrom(...Object.keys(FIELDS)).chain((action) => {
    const [needed, more] = FIELDS[action] as (typeof FIELDS)[string];
    const values = (kinds: Record<string, Kind>) =>
      Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, KINDS[kind]]));
    const full = fc
      .tuple(fc.record(values(needed)), fc.record(values(more), { requiredKeys: [] }))
      .map(([a, b]) => ({ ...a, ...b }));
    const odd = fc.oneof(
      fc.record({ ...values(needed), ...values(more) }, { requiredKeys: [] }),
      fc
        .tuple(full, fc.dictionary(fc.string({ maxLength: 5 }), fc.anything(), { maxKeys: 2 }))
        .map(([a, b]) => ({ ...a, ...b })),
      fc.anything(),
    );
    const request = fc.oneof({ weight: 4, arbitrary: full as fc.Arbitrary<unknown> }, odd);
    return request.map((value) => ({ action, request: value }));
  });
}

/** Fails for an answer that says nothing: why there is none, or all that its action answers. True where it is available. */
export function soundAnswer(action: string, answer: unknown): boolean {
  const fields = answer as Record<string, unknown>;
  if (fields.available !== true) {
    expect(fields).toMatchObject({ available: false, reason: expect.stringMatching(/^[a-z_]+$/) });
    expect(fields.detail, 'says why').toMatch(/\S/);
    return false;
  }
  expect(Object.keys(fields)).toEqual(expect.arrayContaining(KEYS[action] as string[]));
  if (action === 'restore') {
    const settled = [fields.restored, fields.skipped].flat().length;
    expect(fields.outcome === 'done' && settled === 0, 'done, and yet nothing').toBe(false);
  }
  return true;
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
