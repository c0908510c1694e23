/**
 * Git config files, read only: the values of single keys over system, user and repository files, with includes.
 *
 * Covers sections and subsections, quotes, escapes, comments, continued lines, `include.path`, and `includeIf` with
 * `gitdir:`, `gitdir/i:` and `onbranch:`. Does not cover `includeIf hasconfig:` (never taken), `~user/` paths, and
 * environment variables of git, which are not heeded. A file that can't be read, or breaks off in the middle of a
 * value, gives what stands before. Keys are `section.key` or `section.subsection.key`, section and key in lower case.
 */
import { readFileSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, resolve } from 'node:path';
import { compileGlob, foldCase } from './wildmatch.ts';

/** More includes inside each other than this are a loop; git draws the line at the same depth. */
const MAX_DEPTH = 10;

export interface ConfigContext {
  readonly home: string | null;
  /** For `includeIf`; null outside a repository. */
  readonly gitDir: string | null;
  /** Short name of the branch that is checked out, or null. */
  readonly branch: string | null;
}

/** Values in the order in which they stand; `null` is a key without `=`, which means true. */
export type ConfigEntry = readonly [key: string, value: string | null];

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', b: '\b', '"': '"', '\\': '\\' };

/** Reads a value from behind `=` up to the end of its line; null where it is malformed. */
function readValue(text: string, start: number): { value: string; next: number } | null {
  let value = '';
  /** Spaces that count only if something follows. */
  let spaces = '';
  let quoted = false;
  for (let at = start; ; at++) {
    const char = text[at];
    if (char === undefined || char === '\n') return quoted ? null : { value, next: at };
    if (!quoted && (char === '#' || char === ';')) {
      const end = text.indexOf('\n', at);
      return { value, next: end < 0 ? text.length : end };
    }
    if (!quoted && /\s/.test(char)) {
      if (value !== '') spaces += char;
      continue;
    }
    value += spaces;
    spaces = '';
    if (char === '"') quoted = !quoted;
    else if (char === '\\') {
      at++;
      if (text[at] === '\n') continue;
      const escaped = ESCAPES[text[at] ?? ''];
      if (escaped === undefined) return null;
      value += escaped;
    } else value += char;
  }
}

/** Section of a header `[…]`, as a prefix of keys. */
function sectionOf(header: RegExpExecArray): string {
  const name = (header[1] as string).toLowerCase();
  return header[2] === undefined ? name : `${name}.${header[2].replace(/\\(.)/g, '$1')}`;
}

/** All entries of one file's text, up to the first thing that is no config. */
export function parseConfig(source: string): ConfigEntry[] {
  const text = source.replace(/^\ufeff/, '').replaceAll('\r\n', '\n');
  const entries: ConfigEntry[] = [];
  const blank = /(?:\s+|[#;][^\n]*)*/y;
  const header = /\[([-.A-Za-z0-9]+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?\]/y;
  const key = /([A-Za-z][-A-Za-z0-9]*)[ \t]*/y;
  let section: string | null = null;
  for (let at = 0; ; ) {
    blank.lastIndex = at;
    blank.exec(text);
    at = blank.lastIndex;
    if (at >= text.length) return entries;
    header.lastIndex = at;
    const found = header.exec(text);
    if (found !== null) {
      section = sectionOf(found);
      at = header.lastIndex;
      continue;
    }
    key.lastIndex = at;
    const named = key.exec(text);
    if (named === null || section === null) return entries;
    at = key.lastIndex;
    const name = `${section}.${(named[1] as string).toLowerCase()}`;
    if (text[at] === '=') {
      const value = readValue(text, at + 1);
      if (value === null) return entries;
      entries.push([name, value.value]);
      at = value.next;
    } else entries.push([name, null]);
  }
}

/** `~/` → the home folder; a relative path counts from `from`. Null where it can't be told. */
export function configPath(value: string, from: string, home: string | null): string | null {
  if (value === '') return null;
  if (value.startsWith('~/')) return home === null ? null : resolve(home, value.slice(2));
  if (value.startsWith('~')) return null;
  return isAbsolute(value) ? value : resolve(from, value);
}

function matchesGitDir(
  pattern: string,
  file: string,
  options: { ignoreCase: boolean; context: ConfigContext },
): boolean {
  const { gitDir, home } = options.context;
  if (gitDir === null) return false;
  let glob = pattern;
  if (glob.startsWith('~/')) glob = home === null ? glob : `${home}/${glob.slice(2)}`;
  else if (glob.startsWith('./')) glob = `${realFolder(file)}/${glob.slice(2)}`;
  else if (!isAbsolute(glob)) glob = `**/${glob}`;
  if (glob.endsWith('/')) glob += '**';
  const bytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');
  const text = bytes(gitDir);
  return compileGlob(bytes(glob), { pathname: true, ignoreCase: options.ignoreCase })(
    options.ignoreCase ? foldCase(text) : text,
  );
}

function realFolder(file: string): string {
  try {
    return dirname(realpathSync(file));
  } catch {
    return dirname(file);
  }
}

function conditionHolds(condition: string, file: string, context: ConfigContext): boolean {
  const [, kind, pattern] = /^(gitdir|gitdir\/i|onbranch):(.*)$/s.exec(condition) ?? [];
  if (pattern === undefined) return false;
  if (kind !== 'onbranch') return matchesGitDir(pattern, file, { ignoreCase: kind === 'gitdir/i', context });
  const glob = pattern.endsWith('/') ? `${pattern}**` : pattern;
  return context.branch !== null && compileGlob(glob, { pathname: true, ignoreCase: false })(context.branch);
}

/** The file that an include entry names, where its condition holds. */
function includedFile([key, value]: ConfigEntry, file: string, context: ConfigContext): string | null {
  if (value === null) return null;
  if (key === 'include.path') return configPath(value, dirname(file), context.home);
  if (!key.startsWith('includeif.') || !key.endsWith('.path')) return null;
  const condition = key.slice('includeif.'.length, -'.path'.length);
  return conditionHolds(condition, file, context) ? configPath(value, dirname(file), context.home) : null;
}

/** Entries of a config file and what it includes, in the order in which they count (the last of a key wins). */
export function readConfigFile(file: string, context: ConfigContext, depth = 0): ConfigEntry[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return [];
  }
  return parseConfig(text).flatMap((entry) => {
    const included = depth < MAX_DEPTH ? includedFile(entry, file, context) : null;
    return included === null ? [entry] : [entry, ...readConfigFile(included, context, depth + 1)];
  });
}

/** The last value of a key; undefined where no file has it. */
export function lastValue(entries: readonly ConfigEntry[], key: string): string | null | undefined {
  return entries.findLast(([name]) => name === key)?.[1];
}

/** A value as git reads a boolean; undefined where the key isn't set or is no boolean. */
export function asBoolean(value: string | null | undefined): boolean | undefined {
  if (value === undefined) return undefined;
  if (value === null || /^(true|yes|on)$/i.test(value)) return true;
  if (value === '' || /^(false|no|off)$/i.test(value)) return false;
  const number = /^-?\d+$/.test(value) ? Number(value) : undefined;
  return number === undefined ? undefined : number !== 0;
}
