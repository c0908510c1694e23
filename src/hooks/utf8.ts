/** Cutting UTF-8 between characters. Pure. */

function lengthByLead(byte: number): number {
  if (byte >= 0xc2 && byte <= 0xdf) return 2;
  if (byte >= 0xe0 && byte <= 0xef) return 3;
  return byte >= 0xf0 && byte <= 0xf4 ? 4 : 1;
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;

/**
 * The character that byte `at` is part of, as `[start, end)`. Where it is part of none (bytes that aren't UTF-8, or a
 * character that is cut off by the end of `bytes`), the byte alone.
 */
export function characterAt(bytes: Uint8Array, at: number): readonly [start: number, end: number] {
  let start = at;
  while (start > 0 && at - start < 3 && isContinuation(bytes[start])) start -= 1;
  const length = lengthByLead(bytes[start] ?? 0);
  const end = start + length;
  if (end <= at || end > bytes.length) return [at, at + 1];
  for (let i = start + 1; i < end; i++) if (!isContinuation(bytes[i])) return [at, at + 1];
  return [start, end];
}

/** The greatest place up to `at` that is not inside a character. */
export function floorCharacter(bytes: Uint8Array, at: number): number {
  return at <= 0 || at >= bytes.length ? at : characterAt(bytes, at)[0];
}
