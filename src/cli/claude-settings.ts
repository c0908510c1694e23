/**
 * Our hooks in a settings file of Claude Code, as text: which are there, the text with them, the text without them. What else
 * the file holds stays as it is. Pure.
 *
 * @see https://code.claude.com/docs/en/settings
 */
import { added, type JsonNode, memberOf, readJsonText, removed } from './json-text.ts';

/** Events that `install` asks for. All that `events.ts` knows and that every version of Claude Code with hooks knows too. */
export const INSTALLED_EVENTS = [
  'UserPromptSubmit',
  'PreToolUse',
  'PostToolUse',
  'PostToolUseFailure',
  'Stop',
  'SessionEnd',
] as const;
const WITH_MATCHER: ReadonlySet<string> = new Set(['PreToolUse', 'PostToolUse', 'PostToolUseFailure']);
/** Seconds that the host waits for one of our hooks. */
const TIMEOUT_S = 30;
const OURS = /\bhook\.cjs['"]? claude-code\b|\btakeback['"]? hook claude-code\b/;

/** A settings file that is not of a form that hooks can be added to. */
export class SettingsError extends Error {}

/** The commands of our hooks in the text, each once. */
export function ourCommands(text: string): string[] {
  const found: string[] = [];
  visit(text, (command) => found.push(command));
  return [...new Set(found)];
}

/** Calls `seen` for every hook of ours: its command, its event, and where it stands. */
function visit(
  text: string,
  seen: (command: string, event: string, at: { group: number; hook: number }) => void,
): void {
  const hooks = memberOf(objectOf(text), 'hooks');
  for (const event of hooks?.value.members ?? []) {
    for (const [group, { members }] of (event.value.items ?? []).entries()) {
      const list = members?.find(({ key }) => key === 'hooks')?.value.items ?? [];
      for (const [hook, { value }] of list.entries()) {
        const command = (value as { command?: unknown } | null)?.command;
        if (typeof command === 'string' && OURS.test(command)) seen(command, event.key, { group, hook });
      }
    }
  }
}

function objectOf(text: string): JsonNode {
  const root = readJsonText(text.trim() === '' ? '{}' : text);
  if (root.members === undefined) throw new SettingsError('it must hold a JSON object');
  return root;
}

/**
 * The text with one hook of this command for each event; `text` itself where all are there already.
 *
 * @throws {SettingsError} or `JsonTextError` where it can't be added to
 */
export function withHooks(text: string, command: string): string {
  const start = text.trim() === '' ? '{}\n' : text;
  const there = new Set<string>();
  visit(start, (found, event) => {
    if (found === command) there.add(event);
  });
  if (INSTALLED_EVENTS.every((event) => there.has(event)) && ourCommands(start).length === 1) return start;
  // Hooks of ours with another command (an older installation) would record every event twice.
  return INSTALLED_EVENTS.reduce((now, event) => withHook(now, event, command), withoutHooks(start));
}

function withHook(text: string, event: string, command: string): string {
  const group = {
    ...(WITH_MATCHER.has(event) ? { matcher: '*' } : {}),
    hooks: [{ type: 'command', command, timeout: TIMEOUT_S }],
  };
  const root = objectOf(text);
  const hooks = memberOf(root, 'hooks');
  if (hooks === undefined) return added(text, root, { [event]: [group] }, 'hooks');
  if (hooks.value.members === undefined) throw new SettingsError('"hooks" must be an object');
  const groups = memberOf(hooks.value, event);
  if (groups === undefined) return added(text, hooks.value, [group], event);
  if (groups.value.items === undefined) throw new SettingsError(`"hooks.${event}" must be a list`);
  return added(text, groups.value, group);
}

/** The text without any hook of ours; what held nothing else goes with it. */
export function withoutHooks(text: string): string {
  let now = text;
  for (;;) {
    const found: { event: string; group: number; hook: number }[] = [];
    visit(now, (_command, event, at) => found.push({ event, ...at }));
    const [next] = found;
    if (next === undefined) return now;
    now = withoutHook(now, next);
  }
}

function withoutHook(text: string, { event, group, hook }: { event: string; group: number; hook: number }): string {
  const root = objectOf(text);
  const hooks = memberOf(root, 'hooks')?.value as JsonNode;
  const groups = memberOf(hooks, event)?.value as JsonNode;
  const list = memberOf(groups.items?.[group] as JsonNode, 'hooks')?.value as JsonNode;
  if ((list.items as readonly JsonNode[]).length > 1) return removed(text, list, hook);
  if ((groups.items as readonly JsonNode[]).length > 1) return removed(text, groups, group);
  const places = (node: JsonNode, key: string): number =>
    (node.members ?? []).findIndex((member) => member.key === key);
  if ((hooks.members ?? []).length > 1) return removed(text, hooks, places(hooks, event));
  return removed(text, root, places(root, 'hooks'));
}
