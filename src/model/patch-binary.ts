/**
 * The body of a git binary patch: both sides whole, as `literal`, so that it can be applied forwards and backwards.
 * Pure; the caller lends the deflate.
 *
 * @see git's Documentation/diff-format and `emit_binary_diff_body` for the form: lines of at most 52 bytes, a letter for
 *   the length (A–Z 1–26, a–z 27–52), then base 85.
 */

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~';
const LINE = 52;

export function binaryBody(before: Uint8Array, after: Uint8Array, deflate: (bytes: Uint8Array) => Uint8Array): string {
  return `GIT binary patch\n${literal(after, deflate)}\n${literal(before, deflate)}\n`;
}

function literal(bytes: Uint8Array, deflate: (bytes: Uint8Array) => Uint8Array): string {
  const packed = deflate(bytes);
  const lines = [`literal ${bytes.length}\n`];
  for (let at = 0; at < packed.length; at += LINE) {
    const chunk = packed.subarray(at, at + LINE);
    const length = chunk.length <= 26 ? 0x40 + chunk.length : 0x60 + chunk.length - 26;
    lines.push(`${String.fromCharCode(length)}${base85(chunk)}\n`);
  }
  return lines.join('');
}

/** Five digits for four bytes, most significant first; the last four are filled up with zeros. */
function base85(bytes: Uint8Array): string {
  let out = '';
  for (let at = 0; at < bytes.length; at += 4) {
    let value = 0;
    for (let i = 0; i < 4; i++) value = value * 256 + (bytes[at + i] ?? 0);
    let group = '';
    for (let i = 0; i < 5; i++) {
      group = DIGITS.charAt(value % 85) + group;
      value = Math.floor(value / 85);
    }
    out += group;
  }
  return out;
}
