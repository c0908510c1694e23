/**
 * A diff against git's own, over a corpus: the same files, kinds, modes, renames and line counts as
 * `git diff --no-index`, and `git apply` makes of the one tree exactly the other, forth and back.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DiffResult } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import type { Space } from '../kit/space.ts';
import { got, Story } from '../kit/story.ts';
import { snapshot } from '../kit/tree.ts';

interface Told {
  readonly status: string;
  readonly oldMode: string;
  readonly newMode: string;
}

/** Empty folders are no business of git's. */
function files(root: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [path, seen] of snapshot(root)) {
    const mode = seen.kind === 'file' ? ((seen.mode & 0o100) !== 0 ? 'x' : '-') : '';
    if (seen.kind !== 'dir') out[path] = `${seen.kind} ${mode} ${seen.content}`;
  }
  return out;
}

const below = (name: string): string => name.slice(name.indexOf('/') + 1);

/** What git tells of the folders `a` and `b`: status with similarity, modes, lines, by `old` or `old → new`. */
function gitTells(space: Space): Record<string, string> {
  const run = (...args: string[]): string[] => {
    const all = ['-c', 'core.quotePath=false', 'diff', '--no-index', '-M', '-z', ...args, 'a', 'b'];
    const { stdout, status } = spawnSync('git', all, { cwd: space.base, env: space.env, encoding: 'latin1' });
    if (status !== 0 && status !== 1) throw new Error(`git diff: ${status}`);
    return stdout.split('\0').slice(0, -1);
  };
  const raw = new Map<string, Told>();
  for (let fields = run('--raw'); fields.length > 0; ) {
    const [oldMode, newMode, , , status] = (fields.shift() as string).slice(1).split(' ') as [
      string,
      string,
      string,
      string,
      string,
    ];
    const names = fields.splice(0, status.startsWith('R') ? 2 : 1).map(below);
    raw.set(names.join(' → '), { status, oldMode, newMode });
  }
  const out: Record<string, string> = {};
  for (let fields = run('--numstat'); fields.length > 0; ) {
    const [added, deleted, name] = (fields.shift() as string).split('\t') as [string, string, string];
    // Without an index, git names both sides of every file.
    const names = name === '' ? fields.splice(0, 2) : [name, name];
    const [from, to] = names.map((side) => (side === '/dev/null' ? null : below(side))) as [
      string | null,
      string | null,
    ];
    const key = from !== null && to !== null && from !== to ? `${from} → ${to}` : (to ?? from ?? '');
    const known = raw.get(key);
    out[key] = `${known?.status ?? '?'} ${known?.oldMode} ${known?.newMode} +${added} -${deleted}`;
  }
  return out;
}

const unquote = (name: string): string => {
  if (!name.startsWith('"')) return name;
  const escapes: Record<string, string> = { a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' };
  return name
    .slice(1, -1)
    .replace(/\\([0-7]{3}|.)/g, (_, what: string) =>
      what.length === 3 ? String.fromCharCode(Number.parseInt(what, 8)) : (escapes[what] ?? what),
    );
};

/** The same of our patch, read from its text alone. */
function patchTells(diff: DiffResult): Record<string, string> {
  const text = Buffer.from(diff.patchBytes).toString('latin1');
  const out: Record<string, string> = {};
  for (const part of text.split(/^(?=diff --git )/m)) {
    const line = (start: string): string | undefined => new RegExp(`^${start}(.*)$`, 'm').exec(head)?.[1];
    const body = part.search(/^(@@|GIT binary patch)/m);
    const head = body < 0 ? part : part.slice(0, body);
    const names = /^diff --git ("(?:[^"\\]|\\.)*"|a\/.*) ("(?:[^"\\]|\\.)*"|b\/.*)\n/.exec(head);
    const same = /^diff --git a\/(.*) b\/\1\n/.exec(head)?.[1];
    const [from, to] = [line('rename from '), line('rename to ')];
    const key =
      from === undefined || to === undefined
        ? (same ?? unquote(names?.[1] ?? '').slice(2))
        : `${unquote(from)} → ${unquote(to)}`;
    const made = line('new file mode ');
    const gone = line('deleted file mode ');
    const index = /^index \S+ (\d+)$/m.exec(head)?.[1];
    const oldMode = made === undefined ? (gone ?? line('old mode ') ?? index) : '000000';
    const newMode = gone === undefined ? (made ?? line('new mode ') ?? index) : '000000';
    const similar = line('similarity index ')?.replace('%', '').padStart(3, '0');
    const status = made !== undefined ? 'A' : gone !== undefined ? 'D' : similar !== undefined ? `R${similar}` : 'M';
    const hunks = body < 0 ? '' : part.slice(body);
    const count = (sign: RegExp): string => (hunks.startsWith('GIT') ? '-' : `${(hunks.match(sign) ?? []).length}`);
    const told = `${status} ${oldMode} ${newMode} +${count(/^\+/gm)} -${count(/^-/gm)}`;
    out[key] = out[key] === undefined ? told : `${out[key]} & ${told}`;
  }
  return out;
}

/** A rename of equal bytes tells no modes where they stay; git's raw form does. A type change is a T in that form. */
function comparable(told: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(told).map(([key, text]) => [
      key,
      text.startsWith('R100')
        ? text.replace(/ (undefined|\d{6}) (undefined|\d{6}) /, (all, a, b) => (a === b ? ' ' : all))
        : text,
    ]),
  );
}

function apply(space: Space, { folder, patch }: { folder: string; patch: Uint8Array }, ...options: string[]): void {
  const env = { ...space.env, GIT_CEILING_DIRECTORIES: space.base };
  const all = ['apply', '--whitespace=nowarn', ...options, '-'];
  execFileSync('git', all, { cwd: folder, input: patch, env, stdio: ['pipe', 'pipe', 'pipe'] });
}

/** Diffs the root before and after `change`; `a` and `b` beside it are copies of both for git. */
async function around(story: Story, change: () => void): Promise<DiffResult> {
  const { space } = story;
  const copy = (name: string): string => space.sh(`cp -a w ${name}`, { cwd: space.base });
  const first = await story.cp('1');
  copy('a');
  change();
  const second = await story.cp('2');
  copy('b');
  const diff = got(await story.session().diff(first.position, second.position));
  const back = got(await story.session().diff(second.position, first.position));
  space.sh('cp -a a forth; cp -a b back', { cwd: space.base });
  // The way back is a patch of its own: `git apply -R` makes a file of a link that the patch deletes.
  apply(space, { folder: join(space.base, 'forth'), patch: diff.patchBytes });
  apply(space, { folder: join(space.base, 'back'), patch: back.patchBytes });
  expect(files(join(space.base, 'forth')), 'git apply makes the new tree').toEqual(files(space.root));
  expect(files(join(space.base, 'back')), 'git apply of the way back makes the old tree').toEqual(
    files(join(space.base, 'a')),
  );
  return diff;
}

const CORPUS: readonly (readonly [string, string, string])[] = [
  ['edits, new and deleted files', 'seq 100 >a; seq 5 >d', 'sed -i "3d;50s/0/x/;90a new" a; rm d; echo n >n'],
  ['modes', 'seq 9 >a; seq 8 >b; seq 7 >c; chmod 755 c', 'chmod 755 a; chmod 600 b; chmod 644 c; echo x >>c'],
  ['symlinks', 'ln -s x l; ln -s y m; ln -s z n; echo f >f', 'ln -sfn q l; rm m; mv n o; ln -s f p'],
  [
    'binary files',
    'printf "a\\0b" >a; head -c 9000 /dev/zero >z; printf "t\\n" >t',
    'printf "a\\0c" >a; rm z; printf "\\0" >t; printf "n\\0" >n',
  ],
  [
    'CRLF and CR',
    'printf "a\\r\\nb\\r\\nc\\n" >a; printf "x\\ry\\n" >b',
    'printf "a\\r\\nb\\nc\\n" >a; printf "x\\rz\\n" >b',
  ],
  [
    'no newline at the end',
    'printf "a\\nb" >a; printf "c\\n" >b; printf d >c',
    'printf "a\\nb\\n" >a; printf c >b; printf e >c',
  ],
  [
    'names',
    'mkdir "sp ace" ü; echo 1 >"sp ace/a b"; echo 2 >ü/ß; printf 3 >"q\\"uo\\\\te"; printf 4 >"$(printf "t\\tab")"; echo 5 >" lead"; echo 6 >"trail "; echo 7 >a.b',
    'echo x >>"sp ace/a b"; echo x >>ü/ß; echo x >>"q\\"uo\\\\te"; rm "$(printf "t\\tab")"; echo x >>" lead"; echo x >>"trail "; printf n >"$(printf "new\\nline")"',
  ],
  [
    'names that are not UTF-8',
    'printf 1 >"$(printf "\\377\\376")"; printf 2 >"$(printf "m\\351")"',
    'printf x >>"$(printf "\\377\\376")"; mkdir d; mv "$(printf "m\\351")" "d/$(printf "m\\352")"',
  ],
  ['empty files', ': >a; : >b; echo c >c', ': >d; echo b >b; : >c; chmod 755 b; mv d e'],
  [
    'moves',
    'seq 40 >a; seq 50 90 >b; seq 100 160 >c; mkdir d; seq 9 >d/k',
    'mkdir "new dir"; mv a "new dir/a"; sed 3d b >"ö"; rm b; chmod 755 c; mv c d/c; mv d/k k2',
  ],
  ['a renamed folder', 'mkdir -p d/e; seq 20 >d/1; seq 30 50 >d/e/2; seq 60 80 >d/e/3', 'mv d n; sed -i 1d n/e/3'],
  [
    'a file moved over another, and a swap',
    'seq 20 >a; seq 30 50 >b; seq 60 80 >c; seq 90 99 >d',
    'mv a b; mv c t; mv d c; mv t d',
  ],
  [
    'texts in other encodings',
    'printf "\\377\\376a\\n" >u; printf "caf\\351\\n" >l',
    'printf "\\377\\376b\\n" >u; printf "th\\351\\n" >>l',
  ],
];

describeBackends('diff and git', (backend) => {
  test.each(CORPUS)('%s: the patch means what git’s means', async (_, before, after) => {
    await using story = await Story.begin(backend, before);
    const diff = await around(story, () => story.u(after));
    const git = comparable(gitTells(story.space));
    expect(comparable(patchTells(diff))).toEqual(git);
    const lines = Object.values(git).map((text) => /\+(\d+) -(\d+)$/.exec(text) ?? ['', '0', '0']);
    expect(diff.stats).toEqual({
      files: diff.files.length,
      linesAdded: lines.reduce((sum, [, added]) => sum + Number(added), 0),
      linesDeleted: lines.reduce((sum, [, , deleted]) => sum + Number(deleted), 0),
    });
  });

  test.each([
    ['a file became a link, and a link a file', 'seq 9 >a; ln -s t b', 'rm a; ln -s t a; rm b; seq 9 >b'],
    [
      'a file became a folder, and a folder a file',
      'seq 9 >a; mkdir b; seq 8 >b/x',
      'rm a; mkdir a; seq 7 >a/y; rm -r b; seq 6 >b',
    ],
    [
      'a move below its own old path, and out of it',
      'seq 20 >a; mkdir b; seq 30 50 >b/c',
      'mv a t; mkdir a; mv t a/x; mv b/c t; rmdir b; mv t b',
    ],
    ['an empty file moved', ': >a', 'mv a b'],
    ['chmod of what moved and was edited', 'seq 40 >a', 'sed 1d a >b; chmod 755 b; rm a'],
  ])('%s: git apply takes the patch', async (_, before, after) => {
    await using story = await Story.begin(backend, before);
    const diff = await around(story, () => story.u(after));
    expect(diff.files.length).toBeGreaterThan(0);
  });

  test('the diff of two equal trees is empty', async () => {
    await using story = await Story.begin(backend, 'seq 9 >a');
    const { position } = await story.cp('1');
    story.u('seq 8 >a; seq 9 >a');
    expect(got(await story.session().diff(position))).toMatchObject({ files: [], patch: '', stats: { files: 0 } });
  });
});

describe('random turns', () => {
  const name = fc.constantFrom('a', 'b', 'c d', 'ü', 'x/a', 'x/y/b', 'x/"q"', 'b.sh');
  const text = fc
    .array(fc.constantFrom('one\n', 'two\n', 'three\r\n', '\n', 'ü\n', 'four'), { maxLength: 12 })
    .map((parts) => parts.join(''));
  const act = fc.oneof(
    fc.record({ do: fc.constant('write' as const), name, text }),
    fc.record({ do: fc.constant('move' as const), name, to: name }),
    fc.record({ do: fc.constant('remove' as const), name }),
    fc.record({ do: fc.constant('mode' as const), name }),
  );
  type Act = typeof act extends fc.Arbitrary<infer T> ? T : never;

  const quoted = (path: string): string => `'./${path}'`;
  function run(space: Space, acts: readonly Act[]): void {
    for (const step of acts) {
      const at = quoted(step.name);
      if (step.do === 'write') {
        mkdirSync(join(space.root, 'x/y'), { recursive: true });
        space.write(step.name, step.text);
      } else if (step.do === 'move') space.sh(`mkdir -p x/y; mv -f ${at} ${quoted(step.to)} 2>/dev/null || true`);
      else if (step.do === 'remove') space.sh(`rm -f ${at}`);
      else space.sh(`chmod 755 ${at} 2>/dev/null || true`);
    }
  }

  test('git apply makes the new tree of the old one, and back', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(act, { maxLength: 8 }),
        fc.array(act, { minLength: 1, maxLength: 8 }),
        async (setup, acts) => {
          await using story = await Story.begin('portable', '');
          run(story.space, setup);
          const before = files(story.space.root);
          const turn = (): void => {
            run(story.space, acts);
            const changed = JSON.stringify(files(story.space.root)) !== JSON.stringify(before);
            // An empty patch is none for git.
            if (!changed) story.space.write('marker', 'x');
          };
          await around(story, turn);
        },
      ),
      { numRuns: 8, seed: 4 },
    );
  });
});
