/**
 * Containment, part 3: names. What a file system of Linux takes as a name is captured and comes back byte for byte, each as
 * itself; what names a `.git` is never written to; paths of a caller that lead out are refused before anything is looked at.
 */
import { expect, test } from 'vitest';
import { describeResolvers, type Row, restore, Scene, testRows, told } from '../kit/containment.ts';
import { got } from '../kit/story.ts';

/** Shell words for names: `$'…'` takes any byte. */
const q = (name: string): string => `$'${name.replaceAll("'", "\\'")}'`;

interface Name {
  readonly label: string;
  /** As in `$'…'`. */
  readonly shell: string;
  /** As the API has it. */
  readonly path: string;
}

const plain = (label: string, name: string): Name => ({
  label,
  shell: [...name]
    .map((char) =>
      /[A-Za-z0-9._-]/.test(char)
        ? char
        : [...Buffer.from(char)].map((b) => `\\x${b.toString(16).padStart(2, '0')}`).join(''),
    )
    .join(''),
  path: name,
});

const NAMES: readonly Name[] = [
  plain('three dots', '...'),
  plain('two dots and a space', '.. '),
  plain('two dots and a letter', '..x'),
  plain('a backslash way out', '..\\..\\x'),
  plain('a drive', 'C:\\x'),
  plain('a drive with slashes is two names', 'd:x'),
  plain('a trailing dot', 'a.'),
  plain('a trailing space', 'a '),
  plain('a leading space', ' a'),
  plain('only a space', ' '),
  plain('a trailing backslash', 'a\\'),
  plain('a reserved DOS name', 'CON'),
  plain('a reserved DOS name with an end', 'nul.txt'),
  plain('a reserved DOS name with a digit', 'COM1'),
  plain('a reserved DOS name with a superscript', 'LPT¹'),
  plain('a stream', 'f:stream'),
  plain('a stream of the data', 'f::$DATA'),
  plain('an 8.3 name', 'PROGRA~1'),
  plain('a line end', 'a\nb'),
  plain('a carriage return', 'a\rb'),
  plain('a tab', 'a\tb'),
  plain('an escape sequence', 'a\x1b[31mb'),
  plain('the lowest control character', '\x01'),
  plain('DEL', 'a\x7f'),
  plain('a quote', 'a"b'),
  plain('an apostrophe', "a'b"),
  plain('a glob', '*'),
  plain('a question mark', '?'),
  plain('an option', '--force'),
  plain('a variable', '$HOME'),
  plain('a tilde', '~'),
  plain('a hash', '#a'),
  plain('a direction change', 'a\u202eb'),
  plain('a zero-width joiner', 'a\u200db'),
  plain('a byte order mark', '\ufeffa'),
  plain('an emoji', '👩‍💻'),
  plain('a name above U+FFFF', '\u{10ffff}'),
  plain('composed', 'é'),
  plain('decomposed', 'e\u0301'),
  plain('255 bytes', 'x'.repeat(255)),
  plain('255 bytes of two-byte letters', `${'ä'.repeat(127)}x`),
  plain('a prefix of our temp files', '.takeback-x'),
  plain('almost git', '.gitx'),
  plain('git without its dot', 'git'),
  plain('a git with a backslash', '.git\\config'),
  { label: 'a lone 0xff', shell: '\\xff', path: '\udcff' },
  { label: 'an overlong slash', shell: '\\xc0\\xaf', path: '\udcc0\udcaf' },
  { label: 'overlong dots', shell: '\\xc0\\xae\\xc0\\xae', path: '\udcc0\udcae\udcc0\udcae' },
  { label: 'a surrogate in UTF-8', shell: '\\xed\\xa0\\x80', path: '\udced\udca0\udc80' },
  { label: 'Latin-1', shell: 'caf\\xe9', path: 'caf\udce9' },
];

/** Names at a time: each row does all acts to each of its names. */
const PER_ROW = 10;

const literal: Row[] = [];
for (let i = 0; i < NAMES.length; i += PER_ROW) {
  const some = NAMES.slice(i, i + PER_ROW);
  const each = (script: (word: string) => string): string => some.map(({ shell }) => script(q(shell))).join('; ');
  literal.push({
    label: `as files and folders: ${some.map(({ label }) => label).join(', ')}`,
    setup: `mkdir old gone; ${each((n) => `echo base >old/${n}; echo base >gone/${n}`)}`,
    turn: `mkdir new; ${each((n) => `echo turn >old/${n}; rm gone/${n}; mkdir new/${n}; echo turn >new/${n}/${n}; ln -s ../../out/f new/${n}/l`)}`,
    says: Object.fromEntries([
      ...some.flatMap(({ path }) => [
        [`old/${path}`, 'restored: restore'],
        [`gone/${path}`, 'restored: recreate'],
        [`new/${path}/${path}`, 'restored: delete'],
        [`new/${path}/l`, 'restored: delete'],
      ]),
    ]),
    left: Object.fromEntries([
      ...some.flatMap(({ path }) =>
        path.isWellFormed()
          ? [
              [`old/${path}`, 'base'],
              [`gone/${path}`, 'base'],
            ]
          : [],
      ),
      ['new', null],
    ]),
  });
}

const TWINS: readonly (readonly [label: string, a: string, b: string])[] = [
  ['case', 'readme', 'README'],
  ['composed and decomposed', '\\xc3\\xa9', 'e\\xcc\\x81'],
  ['sharp s and its fold', '\\xc3\\x9f', 'ss'],
  ['a trailing dot', 'a', 'a.'],
  ['a trailing space', 'a', 'a\\x20'],
  ['the dotless i', 'i', '\\xc4\\xb1'],
  ['the Kelvin sign', 'k', '\\xe2\\x84\\xaa'],
  ['full width', 'a', '\\xef\\xbd\\x81'],
  ['a zero-width joiner', 'ab', 'a\\xe2\\x80\\x8db'],
  ['a link and a folder that differ in case', 'Sub', 'sub'],
];

const twins: Row[] = TWINS.map(([label, a, b]) => ({
  label: `twins stay apart: ${label}`,
  setup: `mkdir d; echo one >d/${q(a)}; ln -s ../../out/f d/${q(b)}`,
  turn: `rm d/${q(a)} d/${q(b)}; ln -s ../../out/f d/${q(a)}; echo two >d/${q(b)}`,
  says: Object.fromEntries([a, b].map((name) => [`d/${bytesOf(name)}`, 'restored: restore'])),
  left: { [`d/${bytesOf(a)}`]: 'one', [`d/${bytesOf(b)}`]: '-> ../../out/f', '../out/f': 'outside' },
}));

/** What `$'…'` makes of a name. */
function bytesOf(shell: string): string {
  const escaped = shell.replaceAll(/\\x([0-9a-f]{2})/g, '%$1');
  return decodeURIComponent(escaped);
}

/** Spellings that some file system folds to `.git`. On this one they are names like others, and left alone all the same. */
const GITS: readonly (readonly [label: string, shell: string])[] = [
  ['upper case', '.GIT'],
  ['mixed case', '.GiT'],
  ['the 8.3 name', 'git~1'],
  ['the 8.3 name in upper case', 'GIT~1'],
  ['a trailing dot', '.git.'],
  ['trailing dots and spaces', '.git\\x20.\\x20'],
  ['a trailing space', '.git\\x20'],
  ['a stream', '.git:x'],
  ['the index stream of NTFS', '.git::$INDEX_ALLOCATION'],
  ['the 8.3 name with a stream', 'GIT~1:$I30:$INDEX_ALLOCATION'],
  ['a zero-width non-joiner', '.g\\xe2\\x80\\x8cit'],
  ['a right-to-left mark', '.git\\xe2\\x80\\x8f'],
  ['a direction override', '.\\xe2\\x80\\xaegit'],
  ['an inhibited form', '.gi\\xe2\\x81\\xaat'],
  ['a byte order mark', '\\xef\\xbb\\xbf.git'],
];

const gits: Row[] = GITS.map(([label, shell]) => {
  const path = bytesOf(shell);
  return {
    label: `a spelling of .git is never written to: ${label}`,
    setup: `mkdir ${q(shell)}; echo base >${q(shell)}/config; echo base >f`,
    turn: `echo turn >${q(shell)}/config; echo turn >${q(shell)}/hook; echo turn >f`,
    says: {
      f: 'restored: restore',
      [`${path}/config`]: 'refused: uncovered',
      [`${path}/hook`]: 'refused: uncovered',
    },
    left: { f: 'base', [`${path}/config`]: 'turn', [`${path}/hook`]: 'turn' },
  };
});

const real: Row[] = [
  {
    label: 'what happens in .git itself is no part of any plan',
    setup: 'mkdir -p .git/hooks sub/.git; echo base >.git/config; echo base >sub/.git/config; echo base >f',
    turn: 'echo turn >.git/config; echo turn >.git/hooks/post; rm sub/.git/config; echo turn >f',
    says: { f: 'restored: restore' },
    left: { '.git/config': 'turn', '.git/hooks/post': 'turn', 'sub/.git/config': null },
  },
  {
    label: 'a .git that is a link out, or a file that names one, is left alone',
    setup: 'ln -s ../out .git; mkdir sub; echo "gitdir: ../../out" >sub/.git; echo base >f',
    turn: 'echo turn >f; echo "gitdir: /" >sub/.git; ln -sfn / .git',
    says: { f: 'restored: restore' },
    left: { '.git': '-> /', 'sub/.git': 'gitdir: /' },
  },
];

describeResolvers('containment: names', (how) => {
  testRows(how, [...literal, ...twins, ...gits, ...real]);

  test('a path far longer than PATH_MAX is walked in parts', async () => {
    const down = 'n=$(printf x%.0s $(seq 200)); for i in $(seq 30); do mkdir -p $n; cd $n; done';
    await using scene = await Scene.begin(how, `${down}; echo base >f; echo base >gone`);
    const { session, space } = scene;
    got(await session.capture('m1'));
    got(await session.beginCall('c1'));
    space.sh(`${down}; echo turn >f; rm gone; echo turn >new`);
    got(await session.endCall('c1'));
    const before = [...scene.outside()];
    const folder = `${'x'.repeat(200)}/`.repeat(30);
    if (how.backend === 'portable') {
      // What Node can't reach by its whole path was not covered, so nothing is owed there.
      expect(told(got(await session.restore('m1')))).toEqual({});
      expect([...scene.outside()]).toEqual(before);
      return;
    }
    expect(told(got(await session.restore('m1')))).toEqual({
      [`${folder}f`]: 'restored: restore',
      [`${folder}gone`]: 'restored: recreate',
      [`${folder}new`]: 'restored: delete',
    });
    expect(space.sh(`${down}; ls -A; cat f gone`)).toBe('f\ngone\nbase\nbase\n');
    expect([...scene.outside()]).toEqual(before);
  });

  const OUT: readonly (readonly [label: string, path: string, code: string])[] = [
    ['the parent', '..', 'ERR_OUTSIDE_ROOT'],
    ['a name in the parent', '../x', 'ERR_OUTSIDE_ROOT'],
    ['out through a folder', 'd/../../x', 'ERR_OUTSIDE_ROOT'],
    ['out through a folder that does not exist', 'no/../../x', 'ERR_OUTSIDE_ROOT'],
    ['out and back in by name', '../w/f/../../../x', 'ERR_OUTSIDE_ROOT'],
    ['an absolute path', '/etc/passwd', 'ERR_OUTSIDE_ROOT'],
    ['the root of the system', '/', 'ERR_OUTSIDE_ROOT'],
    ['with empty parts', 'd//..//..//x', 'ERR_OUTSIDE_ROOT'],
    ['with single dots', './.././x', 'ERR_OUTSIDE_ROOT'],
    ['an empty path', '', 'ERR_INVALID_ARGUMENT'],
    ['a NUL', 'f\0', 'ERR_INVALID_ARGUMENT'],
    ['a NUL before the way out', '\0/../../x', 'ERR_INVALID_ARGUMENT'],
    ['a surrogate that is no byte', '\ud800', 'ERR_INVALID_ARGUMENT'],
  ];

  test('a caller’s path that leads out, or is none, is refused by name, and nothing is done', async () => {
    await using scene = await Scene.begin(how, 'mkdir d; echo base >f');
    const { session, space } = scene;
    got(await session.capture('m1'));
    got(await session.beginCall('c1'));
    space.sh('echo turn >f');
    got(await session.endCall('c1'));
    const before = scene.looks();
    for (const [label, path, code] of OUT) {
      await expect(session.restore('m1', { paths: [path] }), label).rejects.toMatchObject({ code });
      await expect(session.plan('m1', { paths: [path] }), label).rejects.toMatchObject({ code });
      await expect(session.beginCall('c2', { paths: [path] }), label).rejects.toMatchObject({ code });
    }
    const after = scene.looks();
    expect([...after.root, ...after.outside]).toEqual([...before.root, ...before.outside]);
    await scene.watched(() => restore({ paths: ['./d/../f'] })(session));
    expect(space.read('f')).toBe('base\n');
  });

  test('a caller’s path through a link names nothing of the session’s', async () => {
    await using scene = await Scene.begin(how, 'ln -s ../out l; echo base >f');
    const { session, space } = scene;
    got(await session.capture('m1'));
    got(await session.beginCall('c1'));
    space.sh('echo turn >f');
    got(await session.endCall('c1'));
    const receipt = await scene.watched(() => restore({ paths: ['l/f', 'l/../l/d/e/f'] })(session));
    expect(receipt.skipped.map(({ path, reason }) => [path, reason])).toEqual([
      ['l/d/e/f', 'not-attributed'],
      ['l/f', 'not-attributed'],
    ]);
  });
});
