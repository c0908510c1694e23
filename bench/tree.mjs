/**
 * The tree that the bench runs on: the same names and bytes on every machine, code-like text of 0.5 to 6 KB a file, ten
 * files a folder. All times lie an hour back, so that no stat key is racy.
 */
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const FILES = 10_000;
const FILES_A_FOLDER = 10;
const WORDS = [
  'const ',
  'return ',
  'value',
  'index',
  ' = ',
  '(',
  ');\n',
  'import ',
  'await ',
  'path',
  "'",
  ' => {\n',
  '}\n',
];

/** xorshift32: small, seeded, the same everywhere. */
export function randomFrom(seed) {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

export function text(random, bytes) {
  let out = '';
  while (out.length < bytes) out += WORDS[random(WORDS.length)] + (random(8) === 0 ? random(100_000) : '');
  return out;
}

/** Makes the tree and answers its files, relative to `root`, in the order in which they were made. */
export function makeTree(root, files = FILES) {
  const random = randomFrom(20_26);
  const anHourAgo = new Date(Date.now() - 3_600_000);
  const names = [];
  const folders = [root];
  for (let i = 0; i < files; i += 1) {
    const at = Math.floor(i / FILES_A_FOLDER);
    const folder = join(`area-${Math.floor(at / 25)}`, `part-${at % 25}`);
    if (i % FILES_A_FOLDER === 0) {
      mkdirSync(join(root, folder), { recursive: true });
      folders.push(join(root, folder));
    }
    const name = join(folder, `file-${i % FILES_A_FOLDER}.ts`);
    writeFileSync(join(root, name), text(random, 500 + random(5_500)));
    utimesSync(join(root, name), anHourAgo, anHourAgo);
    names.push(name);
  }
  for (const folder of folders) utimesSync(folder, anHourAgo, anHourAgo);
  return names;
}
