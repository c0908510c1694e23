/**
 * What counts as text, and how its bytes become a string that can be cut into lines and put together again without
 * changing a byte. Pure. Text is UTF-8 without NUL (one char a byte), or UTF-16 with a byte order mark (one char a unit).
 */

/** `bytes`: each char is a byte. */
export type TextEncoding = 'bytes' | 'utf16le' | 'utf16be';

export interface Text {
  readonly text: string;
  readonly encoding: TextEncoding | 'empty';
}

/** Null for bytes that are no text. */
export function textOf(bytes: Uint8Array): Text | null {
  if (bytes.length === 0) return { text: '', encoding: 'empty' };
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer[0] === 0xff && buffer[1] === 0xfe) return wide(buffer, 'utf16le');
  if (buffer[0] === 0xfe && buffer[1] === 0xff) return wide(buffer, 'utf16be');
  return buffer.includes(0) || !isUtf8(buffer) ? null : { text: buffer.toString('latin1'), encoding: 'bytes' };
}

export function isText(text: Text | null): text is Text {
  return text !== null;
}

export function toBytes(text: string, encoding: TextEncoding): Uint8Array {
  if (encoding === 'bytes') return Buffer.from(text, 'latin1');
  const bytes = Buffer.from(text, 'utf16le');
  return encoding === 'utf16be' ? bytes.swap16() : bytes;
}

function wide(buffer: Buffer, encoding: 'utf16le' | 'utf16be'): Text | null {
  if (buffer.length % 2 !== 0) return null;
  const text = (encoding === 'utf16be' ? Buffer.from(buffer).swap16() : buffer).toString('utf16le');
  return text.includes('\0') ? null : { text, encoding };
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
