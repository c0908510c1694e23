/**
 * Git's glob language over bytes: `*`, `?`, `[…]`, `\x`, and `**` between slashes. Braces are plain characters.
 *
 * Strings are byte strings here (one char per byte, latin1), as git matches bytes, not characters. A pattern compiles to
 * tokens once; matching backtracks with a memory of dead ends, so that no pattern takes more than tokens × bytes steps.
 * Case folding is ASCII only, and leaves escaped characters and the members of a set as they are, as git does.
 *
 * Not covered: git before 2.52 reads two stars and a slash behind a letter as folders, in some patterns; we follow the
 * documented meaning, in which `**` that isn't between slashes is a plain `*`.
 */

type Token =
  | { readonly kind: 'byte'; readonly code: number }
  | { readonly kind: 'any' } // `?`
  | { readonly kind: 'set'; readonly members: Uint8Array }
  | { readonly kind: 'star' } // `*`: a run within one path component
  | { readonly kind: 'deep' } // `**` at the end: anything
  | { readonly kind: 'folders' }; // `**/`: no folder, or any number of them

export interface GlobOptions {
  /** `*`, `?` and sets don't match a slash. */
  readonly pathname: boolean;
  readonly ignoreCase: boolean;
}

export type Glob = (text: string) => boolean;

const SLASH = 0x2f;
const BACKSLASH = 0x5c;

const isUpper = (c: number): boolean => c >= 0x41 && c <= 0x5a;
const isLower = (c: number): boolean => c >= 0x61 && c <= 0x7a;
const isDigit = (c: number): boolean => c >= 0x30 && c <= 0x39;
const isAlpha = (c: number): boolean => isUpper(c) || isLower(c);
const isGraph = (c: number): boolean => c > 0x20 && c < 0x7f;

const CLASSES: Readonly<Record<string, (c: number) => boolean>> = {
  alnum: (c) => isAlpha(c) || isDigit(c),
  alpha: isAlpha,
  blank: (c) => c === 0x20 || c === 0x09,
  cntrl: (c) => c < 0x20 || c === 0x7f,
  digit: isDigit,
  graph: isGraph,
  lower: isLower,
  print: (c) => c >= 0x20 && c < 0x7f,
  punct: (c) => isGraph(c) && !isAlpha(c) && !isDigit(c),
  space: (c) => c === 0x20 || (c >= 0x09 && c <= 0x0d),
  upper: isUpper,
  xdigit: (c) => isDigit(c) || (c >= 0x41 && c <= 0x46) || (c >= 0x61 && c <= 0x66),
};

/** ASCII letters of a byte string in lower case; other bytes as they are. */
export function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (run) => run.toLowerCase());
}

class SetReader {
  readonly members = new Uint8Array(256);
  readonly #ignoreCase: boolean;

  constructor(ignoreCase: boolean) {
    this.#ignoreCase = ignoreCase;
  }

  range(from: number, to: number): void {
    for (let c = from; c <= to; c++) this.members[c] = 1;
    if (!this.#ignoreCase) return;
    for (let c = 0x61; c <= 0x7a; c++) if (c - 32 >= from && c - 32 <= to) this.members[c] = 1;
  }

  /** False where there is no class of that name. */
  class(name: string): boolean {
    const belongs = CLASSES[name];
    if (belongs === undefined) return false;
    for (let c = 0; c < 256; c++) if (belongs(c)) this.members[c] = 1;
    if (this.#ignoreCase && name === 'upper') this.range(0x61, 0x7a);
    return true;
  }
}

/** Reads a set that starts behind `[`; null where it never ends or names an unknown class: it then matches nothing. */
function readSet(pattern: string, start: number, ignoreCase: boolean): { members: Uint8Array; next: number } | null {
  let at = start;
  const negated = pattern[at] === '!' || pattern[at] === '^';
  if (negated) at++;
  const set = new SetReader(ignoreCase);
  /** The byte that a range may start at; 0: none. */
  let previous = 0;
  for (let first = true; first || pattern[at] !== ']'; first = false) {
    if (at >= pattern.length) return null;
    let code = pattern.charCodeAt(at);
    if (code === BACKSLASH) {
      at++;
      if (at >= pattern.length) return null;
      code = pattern.charCodeAt(at);
      set.members[code] = 1;
    } else if (code === 0x2d && previous !== 0 && at + 1 < pattern.length && pattern[at + 1] !== ']') {
      at++;
      if (pattern.charCodeAt(at) === BACKSLASH) at++;
      if (at >= pattern.length) return null;
      set.range(previous, pattern.charCodeAt(at));
      code = 0;
    } else if (code === 0x5b && pattern[at + 1] === ':') {
      const end = pattern.indexOf(']', at + 2);
      if (end < 0) return null;
      if (end - 1 < at + 2 || pattern[end - 1] !== ':') set.members[code] = 1;
      else {
        if (!set.class(pattern.slice(at + 2, end - 1))) return null;
        at = end;
        code = 0;
      }
    } else set.members[code] = 1;
    previous = code;
    at++;
  }
  if (negated) for (let c = 0; c < 256; c++) set.members[c] = set.members[c] === 1 ? 0 : 1;
  return { members: set.members, next: at + 1 };
}

function readStars(pattern: string, start: number, pathname: boolean): { token: Token; next: number } {
  let end = start;
  while (pattern[end] === '*') end++;
  if (!pathname) return { token: { kind: 'deep' }, next: end };
  const opens = start === 0 || pattern.charCodeAt(start - 1) === SLASH;
  if (end - start >= 2 && opens) {
    if (pattern.charCodeAt(end) === SLASH) return { token: { kind: 'folders' }, next: end + 1 };
    if (end === pattern.length || pattern.startsWith('\\/', end)) return { token: { kind: 'deep' }, next: end };
  }
  return { token: { kind: 'star' }, next: end };
}

/** Null: a pattern that matches nothing (an open set, a backslash at the end). */
function tokenize(pattern: string, options: GlobOptions): Token[] | null {
  const tokens: Token[] = [];
  for (let at = 0; at < pattern.length; ) {
    const char = pattern[at] as string;
    if (char === '*') {
      const { token, next } = readStars(pattern, at, options.pathname);
      tokens.push(token);
      at = next;
    } else if (char === '?') {
      tokens.push({ kind: 'any' });
      at++;
    } else if (char === '[') {
      const set = readSet(pattern, at + 1, options.ignoreCase);
      if (set === null) return null;
      if (options.pathname) set.members[SLASH] = 0;
      tokens.push({ kind: 'set', members: set.members });
      at = set.next;
    } else if (char === '\\') {
      if (at + 1 >= pattern.length) return null;
      tokens.push({ kind: 'byte', code: pattern.charCodeAt(at + 1) });
      at += 2;
    } else {
      const code = pattern.charCodeAt(at);
      tokens.push({ kind: 'byte', code: options.ignoreCase && isUpper(code) ? code + 32 : code });
      at++;
    }
  }
  return tokens;
}

class Matcher {
  readonly #tokens: readonly Token[];
  readonly #text: string;
  readonly #pathname: boolean;
  readonly #dead: Set<number>;

  constructor(tokens: readonly Token[], text: string, pathname: boolean) {
    this.#tokens = tokens;
    this.#text = text;
    this.#pathname = pathname;
    this.#dead = new Set();
  }

  matches(token: number, at: number): boolean {
    const text = this.#text;
    for (let i = token, j = at; ; i++) {
      const step = this.#tokens[i];
      if (step === undefined) return j === text.length;
      switch (step.kind) {
        case 'byte':
          if (text.charCodeAt(j) !== step.code) return false;
          j++;
          break;
        case 'any':
          if (j >= text.length || (this.#pathname && text.charCodeAt(j) === SLASH)) return false;
          j++;
          break;
        case 'set':
          if (j >= text.length || step.members[text.charCodeAt(j)] !== 1) return false;
          j++;
          break;
        default:
          return this.#run(step.kind, i, j);
      }
    }
  }

  #run(kind: 'star' | 'deep' | 'folders', token: number, at: number): boolean {
    const key = token * (this.#text.length + 1) + at;
    if (this.#dead.has(key)) return false;
    if (this.#tries(kind, token, at)) return true;
    this.#dead.add(key);
    return false;
  }

  #tries(kind: 'star' | 'deep' | 'folders', token: number, at: number): boolean {
    const text = this.#text;
    if (kind === 'folders') {
      if (this.matches(token + 1, at)) return true;
      for (let j = text.indexOf('/', at); j >= 0; j = text.indexOf('/', j + 1)) {
        if (this.matches(token + 1, j + 1)) return true;
      }
      return false;
    }
    for (let j = at; j <= text.length; j++) {
      if (this.matches(token + 1, j)) return true;
      if (kind === 'star' && text.charCodeAt(j) === SLASH) return false;
    }
    return false;
  }
}

/** Compiles a pattern of byte characters. With `ignoreCase` the text must come folded ({@link foldCase}). */
export function compileGlob(pattern: string, options: GlobOptions): Glob {
  const tokens = tokenize(pattern, options);
  if (tokens === null) return () => false;
  if (tokens.every((token) => token.kind === 'byte')) {
    const literal = String.fromCharCode(...tokens.map((token) => (token.kind === 'byte' ? token.code : 0)));
    return (text) => text === literal;
  }
  return (text) => new Matcher(tokens, text, options.pathname).matches(0, 0);
}
