/**
 * Stands for `node:crypto` in the built hook file: that module costs a tenth of Node's own start, and a hook needs two
 * things of it. SHA-256 names folders and hosts by short strings; nothing secret is hashed. Random bytes are the operating
 * system's. Test: the same answers as `node:crypto`.
 *
 * @see FIPS 180-4, sections 4.2.2, 5.3.3, 6.2.2
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
// biome-ignore format: eight a line, as the standard prints them
const ROUND_CONSTANTS: readonly number[] = [
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
/** The same of the square roots of the first eight. */
// biome-ignore format: as above
const START: State = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

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
