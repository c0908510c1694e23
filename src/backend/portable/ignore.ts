/**
 * Git's ignore rules: the lines of one rule file, and the stack of files that decides about a name. Pure.
 *
 * An own matcher, not npm `ignore`: that package looks at a path's parents itself, so that a `!folder/` in a nested file
 * can't undo a `folder/` of an outer one, and it knows no bytes. Here a name is judged alone; whoever walks the tree
 * remembers that a folder was ignored. All strings are byte strings (latin1): {@link bytePath} makes them.
 *
 * Order, first file with a match wins, and in it the last line: the folder's own file, those above it up to the top of
 * the repository, `info/exclude`, the user's global excludes.
 */

import { compileGlob, foldCase, type Glob } from '../../git/wildmatch.ts';
import { encodeName } from '../../rel-path.ts';

/** What rules say of a name. `unknown`: a rule file that would have a say can't be read. */
export type RuleVerdict = 'ignored' | 'visible' | 'unknown';

/** A path as a byte string. */
export function bytePath(path: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
  return /^[\x00-\x7f]*$/.test(path) ? path : encodeName(path).toString('latin1');
}

interface Pattern {
  readonly negative: boolean;
  readonly dirOnly: boolean;
  /** Without a slash: compared with the name, at any depth; else with the path below the file's folder. */
  readonly nameOnly: boolean;
  readonly glob: Glob;
  /** For {@link PatternFile.mayMatchBelow}: the globs of the path's parts, null standing for any number of parts. */
  readonly parts: readonly (Glob | null)[];
}

/** Cuts spaces at the end of a line, but not one that a backslash escapes. */
function trimEnd(line: string): string {
  let end = 0;
  for (let i = 0; i < line.length; i++) {
    if (line[i] === '\\') {
      if (i + 1 >= line.length) return line;
      i++;
      end = i + 1;
    } else if (line[i] !== ' ') end = i + 1;
  }
  return line.slice(0, end);
}

function parseLine(raw: string, ignoreCase: boolean): Pattern | null {
  const nul = raw.indexOf('\0');
  let text = trimEnd(nul < 0 ? raw : raw.slice(0, nul));
  const negative = text.startsWith('!');
  if (negative) text = text.slice(1);
  const dirOnly = text.endsWith('/');
  if (dirOnly) text = text.slice(0, -1);
  if (text === '') return null;
  const nameOnly = !text.includes('/');
  const rooted = text.startsWith('/');
  const glob = compileGlob(rooted ? text.slice(1) : text, { pathname: !nameOnly, ignoreCase });
  const parts = nameOnly
    ? [null, glob]
    : (rooted ? text.slice(1) : text)
        .split('/')
        .map((part) => (part === '**' ? null : compileGlob(part, { pathname: true, ignoreCase })));
  return { negative, dirOnly, nameOnly, glob, parts };
}

/** The patterns of one file, which count from the folder that the file belongs to. */
export class PatternFile {
  readonly #patterns: readonly Pattern[];
  readonly #ignoreCase: boolean;

  /** @param text the file as a byte string */
  constructor(text: string, ignoreCase: boolean) {
    this.#ignoreCase = ignoreCase;
    const body = text.startsWith('\xef\xbb\xbf') ? text.slice(3) : text;
    this.#patterns = body
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => parseLine(line.endsWith('\r') ? line.slice(0, -1) : line, ignoreCase))
      .filter((pattern) => pattern !== null);
  }

  get empty(): boolean {
    return this.#patterns.length === 0;
  }

  /**
   * The last line that matches; null where none does.
   *
   * @param path relative to the file's folder
   */
  match(path: string, isDir: boolean): 'ignored' | 'visible' | null {
    if (this.#patterns.length === 0) return null;
    const text = this.#ignoreCase ? foldCase(path) : path;
    const name = text.slice(text.lastIndexOf('/') + 1);
    for (let i = this.#patterns.length - 1; i >= 0; i--) {
      const pattern = this.#patterns[i] as Pattern;
      if (pattern.dirOnly && !isDir) continue;
      if (pattern.glob(pattern.nameOnly ? name : text)) return pattern.negative ? 'visible' : 'ignored';
    }
    return null;
  }

  /** The verdict on a path, else that on the nearest folder above it which has one. */
  matchWithFolders(path: string, isDir: boolean): 'ignored' | 'visible' | null {
    if (this.#patterns.length === 0) return null;
    let found = this.match(path, isDir);
    for (let at = path.lastIndexOf('/'); found === null && at > 0; at = path.lastIndexOf('/', at - 1)) {
      found = this.match(path.slice(0, at), true);
    }
    return found;
  }

  /** Whether a path below the folder `path` could match a line that isn't negated. */
  mayMatchBelow(path: string): boolean {
    const names = (this.#ignoreCase ? foldCase(path) : path).split('/');
    return this.#patterns.some((pattern) => !pattern.negative && reachesBelow(pattern.parts, names));
  }
}

function reachesBelow(parts: readonly (Glob | null)[], names: readonly string[]): boolean {
  for (let i = 0; i < names.length; i++) {
    const part = parts[i];
    if (part === null) return true;
    if (part === undefined || !part(names[i] as string)) return false;
  }
  return parts.length > names.length;
}

/** Rule files one above another: the last pushed has the first say. A path is cut to what the file's folder holds. */
export class RuleStack {
  readonly #above: RuleStack | null;
  readonly #file: PatternFile | 'unreadable' | null;
  readonly #cut: number;

  private constructor(above: RuleStack | null, file: PatternFile | 'unreadable' | null, cut: number) {
    this.#above = above;
    this.#file = file;
    this.#cut = cut;
  }

  static empty(): RuleStack {
    return new RuleStack(null, null, 0);
  }

  /** @param cut how many bytes of a full path lead to the file's folder, the slash included */
  push(file: PatternFile | 'unreadable' | null, cut: number): RuleStack {
    return file === null || (file !== 'unreadable' && file.empty) ? this : new RuleStack(this, file, cut);
  }

  /** @param path full: from the top of the root's repository */
  verdict(path: string, isDir: boolean): RuleVerdict {
    for (let stack: RuleStack | null = this; stack !== null; stack = stack.#above) {
      if (stack.#file === 'unreadable') return 'unknown';
      const found = stack.#file?.match(path.slice(stack.#cut), isDir) ?? null;
      if (found !== null) return found;
    }
    return 'visible';
  }
}
