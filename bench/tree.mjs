/**
 * The trees that the bench runs on: the same names and bytes on every machine, code-like text of 0.5 to 6 KB a file, ten
 * files a folder, with folders that rules hide. All times lie an hour back, so that no stat key is racy.
 *
 * `10k`, `100k` and `1m` have one `.gitignore`; `nested` is 20,000 files in 200 packages, each with rules of its own. The files
 * of `1m` are small: it is names and stats that it is about.
 */
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

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

/** Files, counted with the ignore files; packages with rules of their own; the most bytes that a file has beyond the least. */
export const SIZES = {
  '10k': { files: 10_000, packages: 0, spread: 5_500 },
  nested: { files: 20_000, packages: 200, spread: 5_500 },
  '100k': { files: 100_000, packages: 0, spread: 5_500 },
  '1m': { files: 1_000_000, packages: 0, spread: 100 },
};

/** Names of the folders that the rules hide. */
export const HIDDEN = ['node_modules', 'build'];
const HIDDEN_FILES = 1_000;

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

function folderOf(at, { files, packages }) {
  if (packages === 0) return join(`area-${Math.floor(at / 25)}`, `part-${at % 25}`);
  const inOne = Math.ceil(files / FILES_A_FOLDER / packages);
  return join('packages', `package-${Math.floor(at / inOne)}`, 'src', `part-${at % inOne}`);
}

/** Makes the tree and answers its covered files, relative to `root`, in the order in which they were made. */
export function makeTree(root, size) {
  const shape = SIZES[size];
  const random = randomFrom(20_26);
  const anHourAgo = new Date(Date.now() - 3_600_000);
  const names = [];
  const folders = new Set([root]);
  const put = (name, content) => {
    const folder = dirname(name);
    if (!folders.has(join(root, folder))) {
      mkdirSync(join(root, folder), { recursive: true });
      for (let at = folder; at !== '.'; at = dirname(at)) folders.add(join(root, at));
    }
    writeFileSync(join(root, name), content);
    utimesSync(join(root, name), anHourAgo, anHourAgo);
  };
  const rules = ['.gitignore'];
  for (let i = 0; i < shape.packages; i += 1) rules.push(join('packages', `package-${i}`, '.gitignore'));
  for (const name of rules) put(name, `${HIDDEN.map((hidden) => `${hidden}/`).join('\n')}\n*.log\n`);
  for (let i = 0; names.length < shape.files - rules.length; i += 1) {
    const name = join(folderOf(Math.floor(i / FILES_A_FOLDER), shape), `file-${i % FILES_A_FOLDER}.ts`);
    put(name, text(random, 500 + random(shape.spread)));
    names.push(name);
  }
  for (let i = 0; i < HIDDEN_FILES; i += 1) put(join('node_modules', `package-${i % 40}`, `file-${i}.js`), 'hidden\n');
  for (const folder of folders) utimesSync(folder, anHourAgo, anHourAgo);
  return { names, files: shape.files };
}
