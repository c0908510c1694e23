/**
 * Stands for `node:crypto` in the built hook file: that module costs a tenth of Node's own start, and a hook needs two
 * things of it. SHA-256 names folders and hosts by short strings; nothing secret is hashed. Random bytes are the operating
 * system's. Test: the same answers as `node:crypto`.
 *
 * @see FIPS 180-4, sections 4.2.2, 5.3.3, 6.2.2
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** The first 32 bits of the fractional part of `root(p)` for the first `count` primes. */
function fractions(count: number, root: (prime: number) => number): number[] {
  const found: number[] = [];
  const primes: number[] = [];
  for (let n = 2; found.length < count; n += 1) {
    if (primes.some((prime) => n % prime === 0)) continue;
    primes.push(n);
    found.push(Math.floor((root(n) % 1) * 2 ** 32) | 0);
  }
  return found;
}

const ROUND_CONSTANTS: readonly number[] = fractions(64, Math.cbrt);
const START = fractions(8, Math.sqrt) as unknown as State;

function padded(message: Uint8Array): Buffer {
  const blocks = Math.ceil((message.length + 9) / 64);
  const out = Buffer.alloc(blocks * 64);
  out.set(message);
  out[message.length] = 0x80;
  out.writeBigUInt64BE(BigInt(message.length) * 8n, out.length - 8);
  return out;
}

const turn = (x: number, by: number): number => (x >>> by) | (x << (32 - by));

function schedule(block: Buffer): number[] {
  const w: number[] = [];
  for (let i = 0; i < 16; i += 1) w.push(block.readInt32BE(i * 4));
  for (let i = 16; i < 64; i += 1) {
    const a = w[i - 15] as number;
    const b = w[i - 2] as number;
    const small = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
    const large = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
    w.push(((w[i - 16] as number) + small + (w[i - 7] as number) + large) | 0);
  }
  return w;
}

type State = readonly [number, number, number, number, number, number, number, number];

function compress(state: State, block: Buffer): State {
  let [a, b, c, d, e, f, g, h] = state;
  const w = schedule(block);
  for (let i = 0; i < 64; i += 1) {
    const choose = (e & f) ^ (~e & g);
    const first =
      (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choose + (ROUND_CONSTANTS[i] as number) + (w[i] as number)) | 0;
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority) | 0;
    [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
  }
  const [A, B, C, D, E, F, G, H] = state;
  return [(A + a) | 0, (B + b) | 0, (C + c) | 0, (D + d) | 0, (E + e) | 0, (F + f) | 0, (G + g) | 0, (H + h) | 0];
}

function sha256(message: Uint8Array): Buffer {
  let state = START;
  const blocks = padded(message);
  for (let at = 0; at < blocks.length; at += 64) state = compress(state, blocks.subarray(at, at + 64));
  const out = Buffer.alloc(32);
  for (const [i, word] of state.entries()) out.writeInt32BE(word, i * 4);
  return out;
}

interface Hash {
  update(data: string | Uint8Array): Hash;
  digest(encoding: 'hex'): string;
}

export function createHash(algorithm: 'sha256'): Hash {
  if (algorithm !== 'sha256') throw new Error(`the hook file knows no ${String(algorithm)}`);
  const parts: Buffer[] = [];
  const hash: Hash = {
    update: (data) => {
      parts.push(typeof data === 'string' ? Buffer.from(data, 'utf8') : Buffer.from(data));
      return hash;
    },
    digest: (encoding) => sha256(Buffer.concat(parts)).toString(encoding),
  };
  return hash;
}

export function randomBytes(count: number): Buffer {
  if (process.platform === 'win32')
    return (process.getBuiltinModule('node:crypto') as typeof import('node:crypto')).randomBytes(count);
  const bytes = Buffer.alloc(count);
  const fd = openSync('/dev/urandom', 'r');
  try {
    for (let at = 0; at < count; ) at += readSync(fd, bytes, at, count - at, null);
  } finally {
    closeSync(fd);
  }
  return bytes;
}
