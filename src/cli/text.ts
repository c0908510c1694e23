/**
 * Words for people: names made safe to print, sizes, times, tables. Pure.
 *
 * A file name is data from a tree that may be hostile: what could move the cursor, change the reading direction, hide, or
 * not be shown at all never reaches a terminal as it is.
 */

/** Controls (C0, DEL, C1), line and paragraph separators, bidirectional and invisible format characters. */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udfff]/u;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '"': '\\"', '\\': '\\\\' };

function escapeChar(char: string): string {
  const short = SHORT[char];
  if (short !== undefined) return short;
  if (!UNSAFE.test(char)) return char;
  const code = char.codePointAt(0) as number;
  // A lone surrogate U+DC80–U+DCFF stands for the byte 0x80–0xFF of a name that isn't UTF-8 (rel-path.ts).
  if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`;
  return code <= 0xff ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
}

/** A name as it may be printed: itself where that is harmless, else in double quotes with escapes. */
export function printable(name: string): string {
  if (!UNSAFE.test(name) && !name.startsWith('"')) return name;
  return `"${[...name].map(escapeChar).join('')}"`;
}

/** Text of others (a label, an error of the system) on one line, without control characters. */
export function oneLine(text: string): string {
  return [...text].map((char) => (char === '"' || char === '\\' ? char : escapeChar(char))).join('');
}

/** `1 file`, `2 files`, `1,000 files`. */
export function count(n: number, noun: string, plural = `${noun}s`): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? noun : plural}`;
}

/** Bytes in binary units, three digits at most. */
export function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** A duration: `0.4 ms`, `12 ms`, `1.5 s`. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Local time, to the second: `2026-11-30 15:58:00`. */
export function localTime(at: number): string {
  const date = new Date(at);
  const two = (n: number): string => String(n).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Columns padded to the widest cell, two blanks between; the last one is not padded. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length);
    });
  }
  return rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}
