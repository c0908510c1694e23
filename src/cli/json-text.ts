/**
 * Changes a JSON text in place: what isn't changed keeps every byte, its order and its layout. Owns a reader that knows where
 * each value stands, and three edits: add a member, add an element, remove either.
 *
 * Strict JSON: comments and trailing commas are faults, with the line. Pure.
 */

export interface JsonNode {
  readonly start: number;
  readonly end: number;
  readonly value: unknown;
  /** Of an object, in the order of the text. */
  readonly members?: readonly JsonMember[];
  /** Of an array. */
  readonly items?: readonly JsonNode[];
}

export interface JsonMember {
  readonly key: string;
  readonly start: number;
  readonly value: JsonNode;
}

/** Not JSON; the message says where and why. */
export class JsonTextError extends Error {}

const SPACE = /[ \t\r\n]*/y;
const SCALAR =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them in a string
  /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const DEEPEST = 200;

class Reader {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith('\ufeff') ? 1 : 0;
  }

  document(): JsonNode {
    this.#space();
    const node = this.#value(0);
    this.#space();
    if (this.#at < this.#text.length) throw this.#fault('text after the end of the value');
    return node;
  }

  #fault(what: string): JsonTextError {
    const lines = this.#text.slice(0, this.#at).split('\n');
    const here = this.#text.slice(this.#at, this.#at + 2);
    const why = here === '//' || here === '/*' ? 'a comment, which JSON does not have' : what;
    return new JsonTextError(`line ${lines.length}, column ${(lines.at(-1) as string).length + 1}: ${why}`);
  }

  #space(): void {
    SPACE.lastIndex = this.#at;
    SPACE.exec(this.#text);
    this.#at = SPACE.lastIndex;
  }

  #take(char: string): boolean {
    if (this.#text[this.#at] !== char) return false;
    this.#at += 1;
    this.#space();
    return true;
  }

  #value(depth: number): JsonNode {
    if (depth > DEEPEST) throw this.#fault('nested too deeply');
    if (this.#text[this.#at] === '{') return this.#object(depth);
    if (this.#text[this.#at] === '[') return this.#array(depth);
    const start = this.#at;
    SCALAR.lastIndex = start;
    const found = SCALAR.exec(this.#text);
    if (found === null) throw this.#fault('a value was expected');
    this.#at = SCALAR.lastIndex;
    return { start, end: this.#at, value: JSON.parse(found[0]) };
  }

  #object(depth: number): JsonNode {
    const start = this.#at;
    const members: JsonMember[] = [];
    this.#take('{');
    while (this.#text[this.#at] !== '}') {
      if (members.length > 0 && !this.#take(',')) throw this.#fault('a comma or } was expected');
      const at = this.#at;
      const key = this.#value(depth + 1);
      if (typeof key.value !== 'string') throw this.#fault('a name in double quotes was expected');
      this.#space();
      if (!this.#take(':')) throw this.#fault('a colon was expected');
      const value = this.#value(depth + 1);
      if (members.some((member) => member.key === key.value))
        throw this.#fault(`the name ${JSON.stringify(key.value)} stands there twice`);
      members.push({ key: key.value, start: at, value });
      this.#space();
    }
    this.#at += 1;
    return { start, end: this.#at, members, value: Object.fromEntries(members.map((m) => [m.key, m.value.value])) };
  }

  #array(depth: number): JsonNode {
    const start = this.#at;
    const items: JsonNode[] = [];
    this.#take('[');
    while (this.#text[this.#at] !== ']') {
      if (items.length > 0 && !this.#take(',')) throw this.#fault('a comma or ] was expected');
      items.push(this.#value(depth + 1));
      this.#space();
    }
    this.#at += 1;
    return { start, end: this.#at, items, value: items.map((item) => item.value) };
  }
}

/** @throws {JsonTextError} */
export function readJsonText(text: string): JsonNode {
  return new Reader(text).document();
}

export function memberOf(node: JsonNode, key: string): JsonMember | undefined {
  return node.members?.find((member) => member.key === key);
}

/** How the text is laid out: its line ends, and one step of indentation. */
function layoutOf(text: string): { eol: string; step: string } {
  const step = /\n([ \t]+)\S/.exec(text)?.[1] ?? '  ';
  return { eol: text.includes('\r\n') ? '\r\n' : '\n', step };
}

/** Indentation of the line that holds this place. */
function indentAt(text: string, at: number): string {
  const line = text.lastIndexOf('\n', at - 1) + 1;
  return /^[ \t]*/.exec(text.slice(line))?.[0] ?? '';
}

/** Adds `value`, under `key` or (in an array) at the end, as the last of what `into` holds. */
export function added(text: string, into: JsonNode, value: unknown, key?: string): string {
  const { eol, step } = layoutOf(text);
  const outer = indentAt(text, into.start);
  const inner = outer + step;
  const json = JSON.stringify(value, null, step).replaceAll('\n', eol + inner);
  const entry = key === undefined ? json : `${JSON.stringify(key)}: ${json}`;
  const last = into.members?.at(-1)?.value ?? into.items?.at(-1);
  if (last !== undefined) return `${text.slice(0, last.end)},${eol}${inner}${entry}${text.slice(last.end)}`;
  return `${text.slice(0, into.start + 1)}${eol}${inner}${entry}${eol}${outer}${text.slice(into.end - 1)}`;
}

/** Removes the part of `from` at that place among its members or items, with one comma and the space before it. */
export function removed(text: string, from: JsonNode, index: number): string {
  const parts = from.members?.map(({ start, value }) => ({ start, end: value.end })) ?? from.items ?? [];
  const part = parts[index] as { start: number; end: number };
  const before = parts[index - 1];
  const after = parts[index + 1];
  if (before !== undefined) return text.slice(0, before.end) + text.slice(part.end);
  if (after !== undefined) return text.slice(0, part.start) + text.slice(after.start);
  return `${text.slice(0, from.start + 1)}${text.slice(from.end - 1)}`;
}
