/**
 * Hook events are JSON of somebody else: whatever they are, the mapping gives an action of the documented form, or says what is
 * wrong, in the words that the hook notes for doctor.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { actionOf, HookInputError } from '../../../src/adapters/claude-code/events.ts';
import { Script } from './kit.ts';

const script = new Script('/home/me/project');
const EVENTS = [
  script.prompt('p1', 'Change it'),
  script.pre('Bash', 'toolu_1', { command: 'x' }),
  script.pre('Write', 'toolu_2', { file_path: '/home/me/project/a', content: 'x' }),
  script.post('Edit', 'toolu_3', { file_path: 'b', old_string: 'x', new_string: 'y' }),
  script.failure('Bash', 'toolu_4', { command: 'x' }),
  script.stop(),
  script.end(),
];
const KINDS = ['boundary', 'begin', 'end', 'turn-end', 'session-end', 'ignore'];
const FIELDS = [...new Set(EVENTS.flatMap((event) => [...Object.keys(event), ...Object.keys(event.tool_input ?? {})]))];

/** What a field may be instead: any JSON, long and strange text, names that objects have by themselves. */
const strange = fc.oneof(
  fc.jsonValue(),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('', '\0', '../../etc', '__proto__', 'constructor', '\ud800', 'x'.repeat(5000), 1e308, -0),
);
const edits = fc.array(fc.tuple(fc.constantFrom(...FIELDS, '__proto__', 'toString'), strange), {
  minLength: 1,
  maxLength: 4,
});

/** The action of any value; null where it is refused in the words that it should be. */
function taken(value: unknown): ReturnType<typeof actionOf> | null {
  try {
    return actionOf(value);
  } catch (error) {
    expect(error).toBeInstanceOf(HookInputError);
    expect((error as Error).message).not.toBe('');
    return null;
  }
}

function sound(action: ReturnType<typeof actionOf> | null): void {
  if (action === null) return;
  expect(KINDS).toContain(action.kind);
  if (action.kind === 'ignore') return;
  expect([typeof action.threadId, typeof action.cwd]).toEqual(['string', 'string']);
  expect(action.threadId).not.toBe('');
  if (action.kind === 'begin' || action.kind === 'end') expect(action.callId).toMatch(/./s);
  if (action.kind === 'boundary') expect(action.label?.length ?? 0).toBeLessThanOrEqual(160);
}

test('an event with fields that are anything is an action or is refused, and never a fault', () => {
  fc.assert(
    fc.property(fc.constantFrom(...EVENTS), edits, fc.boolean(), (event, list, inside) => {
      const copy = structuredClone(event) as Record<string, unknown>;
      for (const [field, value] of list) {
        const input = copy.tool_input;
        const target =
          inside && typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : copy;
        Object.defineProperty(target, field, { value, enumerable: true, configurable: true, writable: true });
      }
      sound(taken(copy));
    }),
    { numRuns: 2000 },
  );
});

test('any JSON at all is an action or is refused', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => sound(taken(value))),
    { numRuns: 1000 },
  );
});

test('an event that lacks a field is refused by its name, or means the same without it', () => {
  for (const event of EVENTS)
    for (const field of Object.keys(event)) {
      const { [field]: _, ...rest } = event;
      sound(taken(rest));
    }
});
