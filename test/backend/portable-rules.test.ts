/** Frozen and present rules, holds, tracked files, options, unreadable folders and rule files (DESIGN §4.2). */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { PortableBackend } from '../../src/backend/portable/portable.ts';
import { Snapshot } from '../../src/backend/portable/rules.ts';
import { ruleSources } from '../../src/git/context.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { decodePaths } from '../../src/wire.ts';
import { git, TreeKit, told } from './tree-kit.ts';

let kit: TreeKit;
beforeEach(async () => {
  kit = await TreeKit.make(new PortableBackend());
});
afterEach(() => kit.close());

const inRepo = async (options: { include?: string[]; exclude?: string[] } = {}) =>
  ruleSources(kit.root, { ...options, home: kit.base, xdg: '', system: join(kit.base, 'none') });
const rm = (path: string) => rmSync(join(kit.root, path), { recursive: true });
const names = async () => kit.tree.list(asRelPath(''));

describe('within a turn', () => {
  test('a covered path stays covered, whatever a call does to the rules', async () => {
    kit.write('a.log', '1');
    kit.write('build/x', '1');
    await kit.boundary();
    kit.write('.gitignore', '*.log\nbuild/\n');
    kit.write('a.log', '22');
    kit.write('build/x', '22');
    expect((await kit.observe()).changes.map(told)).toEqual([
      '.gitignore: absent -> file 13',
      'a.log: file 1 -> file 2',
      'build/x: file 1 -> file 2',
    ]);
  });

  test("a new name that only the boundary's rules allow is listed as ignored, a folder as one entry", async () => {
    kit.write('build/x');
    await kit.boundary();
    kit.write('.gitignore', '*.log\nout/\nbuild/\n');
    kit.write('b.log');
    kit.write('out/deep/y');
    kit.write('build/new');
    kit.write('plain');
    expect((await kit.observe()).changes.map(told)).toEqual([
      '.gitignore: absent -> file 18',
      'b.log: absent -> uncovered ignored',
      'build/new: absent -> uncovered ignored',
      'out: absent -> uncovered ignored',
      'plain: absent -> file 6',
    ]);
    kit.write('out/deep/z');
    expect((await kit.observe()).changes).toEqual([]);
    kit.write('b.log', 'another size');
    expect((await kit.observe()).changes.map(told)).toEqual(['b.log: uncovered ignored -> uncovered ignored']);
    rm('b.log');
    expect((await kit.observe()).changes.map(told)).toEqual(['b.log: uncovered ignored -> absent']);
  });

  test("a new name that the boundary's rules hide stays hidden when a call takes the rule away", async () => {
    kit.write('.gitignore', '*.log\n');
    kit.write('old.log');
    await kit.boundary();
    kit.write('.gitignore', '\n');
    kit.write('new.log');
    expect((await kit.observe()).changes.map(told)).toEqual(['.gitignore: file 6 -> file 1']);
    const { changes } = await kit.boundary();
    expect(changes.map(told)).toEqual([
      'new.log: uncovered ignored -> file 8 flags 8',
      'old.log: uncovered ignored -> file 8 flags 8',
    ]);
  });
});

describe('at a boundary', () => {
  test('what became ignored leaves coverage, and what became visible enters, owned by nobody', async () => {
    kit.write('a.log');
    kit.write('build/x');
    kit.write('build/.env');
    kit.write('.gitignore', 'hidden\n');
    kit.write('hidden/deep/f');
    await kit.boundary();
    kit.write('.gitignore', '*.log\nbuild\n');
    expect((await kit.boundary()).changes.map(told)).toEqual([
      '.gitignore: file 7 -> file 12',
      'a.log: file 6 -> uncovered ignored flags 8',
      'build: dir -> uncovered ignored flags 8',
      'build/.env: uncovered secret -> uncovered ignored flags 8',
      'build/x: file 8 -> uncovered ignored flags 8',
      'hidden: uncovered ignored -> dir flags 8',
      'hidden/deep: uncovered ignored -> dir flags 8',
      'hidden/deep/f: uncovered ignored -> file 14 flags 8',
    ]);
    expect((await kit.boundary()).changes).toEqual([]);
    kit.write('build/x', 'changed while hidden');
    kit.write('build/new');
    kit.write('.gitignore', '\n');
    expect((await kit.boundary()).changes.map(told)).toEqual([
      '.gitignore: file 12 -> file 1',
      'a.log: uncovered ignored -> file 6 flags 8',
      'build: uncovered ignored -> dir flags 8',
      'build/.env: uncovered ignored -> uncovered secret flags 8',
      'build/new: uncovered ignored -> file 10 flags 8',
      'build/x: uncovered ignored -> file 20 flags 8',
    ]);
  });

  test('the rules that stand are asked again only where they changed', async () => {
    kit.write('.gitignore', '*.o\n');
    for (const path of ['a/1', 'a/2', 'a/x.o', 'b/1', 'b/c/1']) kit.write(path);
    kit.write('b/.gitignore', '*.p\n');
    await kit.boundary();
    kit.write('b/.gitignore', '*.q\n');
    const { scan, changes } = await kit.boundary();
    expect(changes.map(told)).toEqual(['b/.gitignore: file 4 -> file 4']);
    expect(scan.counters.rulesEvaluated).toBeLessThanOrEqual(6);
  });

  test('held paths stay covered, with the folders that lead to them, until they are not held', async () => {
    kit.write('build/keep/f', '1');
    kit.write('build/other', '1');
    await kit.boundary();
    kit.write('.gitignore', 'build/\n');
    const first = await kit.boundary({ hold: ['build/keep/f'] });
    expect(first.changes.map(told)).toEqual([
      '.gitignore: absent -> file 7',
      'build/other: file 1 -> uncovered ignored flags 8',
    ]);
    kit.write('build/keep/f', '22');
    kit.write('build/keep/new');
    expect((await kit.observe()).changes.map(told)).toEqual(['build/keep/f: file 1 -> file 2']);
    expect((await kit.boundary({ hold: ['build/keep'] })).changes).toEqual([]);
    expect((await kit.boundary()).changes.map(told)).toEqual([
      'build: dir -> uncovered ignored flags 8',
      'build/keep: dir -> uncovered ignored flags 8',
      'build/keep/f: file 2 -> uncovered ignored flags 8',
    ]);
  });

  test('include wins over rules and exclude; exclude over everything else', async () => {
    kit.write('.gitignore', 'dist/\n*.log\n');
    for (const path of ['dist/a', 'dist/keep/b', 'x.log', 'y.log', 'src/gen/c', 'src/gen/d']) kit.write(path);
    await kit.boundary({ include: ['/dist/keep/', 'y.log', '/src/gen/d'], exclude: ['gen'] });
    expect(await names()).toEqual([
      '.gitignore',
      'dist',
      'dist/keep',
      'dist/keep/b',
      'src',
      'src/gen',
      'src/gen/d',
      'y.log',
    ]);
    const { changes } = await kit.boundary({ exclude: ['src/'] });
    expect(changes.filter(({ after }) => after.kind !== 'uncovered').map(told)).toEqual([]);
    expect(changes.map(({ path }) => path)).toEqual([
      'dist',
      'dist/keep',
      'dist/keep/b',
      'src',
      'src/gen',
      'src/gen/d',
      'y.log',
    ]);
  });
});

describe("git's rules", () => {
  test('tracked files that a rule hides are covered, and leave when git forgets them', async () => {
    git(kit.root, kit.base, 'init', '-q');
    kit.write('.gitignore', 'build/\n*.gen\n');
    for (const path of ['build/kept', 'build/other', 'a.gen', 'b.gen']) kit.write(path);
    git(kit.root, kit.base, 'add', '-f', 'build/kept', 'a.gen');
    await kit.boundary(await inRepo());
    expect(await names()).toEqual(['.gitignore', 'a.gen', 'build', 'build/kept']);
    const snapshot = Snapshot.decode((await kit.tree.rules()) as Uint8Array);
    expect([...snapshot.entries.keys()].sort()).toEqual(['info', 'sources', 'top:', 'tracked']);
    expect(decodePaths(snapshot.entries.get('tracked') as Buffer)).toEqual(['a.gen', 'build/kept']);

    rm('a.gen');
    await kit.observe();
    kit.write('a.gen', 'again');
    kit.write('build/new');
    expect((await kit.observe()).changes.map(told)).toEqual(['a.gen: absent -> file 5']);

    git(kit.root, kit.base, 'rm', '-q', '--cached', 'build/kept');
    git(kit.root, kit.base, 'add', '-f', 'b.gen');
    expect((await kit.boundary(await inRepo())).changes.map(told)).toEqual([
      'b.gen: uncovered ignored -> file 6 flags 8',
      'build: dir -> uncovered ignored flags 8',
      'build/kept: file 11 -> uncovered ignored flags 8',
    ]);
  });

  test('a damaged git index is a problem, and what was tracked stays covered', async () => {
    git(kit.root, kit.base, 'init', '-q');
    kit.write('.gitignore', '*.gen\n');
    kit.write('a.gen');
    git(kit.root, kit.base, 'add', '-f', 'a.gen');
    await kit.boundary(await inRepo());
    writeFileSync(join(kit.root, '.git/index'), 'DIRC damaged');
    kit.write('.gitignore', '*.gen\n*.x\n');
    const { changes, scan } = await kit.boundary(await inRepo());
    expect(changes.map(told)).toEqual(['.gitignore: file 6 -> file 10']);
    expect(scan.problems.map(({ kind }) => kind)).toEqual(['unreadable-rules']);
  });

  test('a nested repository has its own rules and index; one that the outer rules hide is hidden whole', async () => {
    git(kit.root, kit.base, 'init', '-q');
    kit.write('.gitignore', '*.o\nvendor/hidden\n');
    for (const path of ['sub/a.o', 'sub/b.p', 'sub/c.p', 'vendor/hidden/x', 'x.o']) kit.write(path);
    kit.write('sub/.gitignore', '*.p\n');
    git(join(kit.root, 'sub'), kit.base, 'init', '-q');
    git(join(kit.root, 'sub'), kit.base, 'add', '-f', 'b.p');
    git(join(kit.root, 'vendor/hidden'), kit.base, 'init', '-q');
    writeFileSync(join(kit.root, 'sub/.git/info/exclude'), 'none\n');
    await kit.boundary(await inRepo());
    expect(await names()).toEqual(['.gitignore', 'sub', 'sub/.git', 'sub/.gitignore', 'sub/a.o', 'sub/b.p', 'vendor']);
    kit.write('sub/new.o');
    kit.write('sub/new.p');
    expect((await kit.observe()).changes.map(told)).toEqual(['sub/new.o: absent -> file 10']);
    expect((await kit.boundary(await inRepo())).changes).toEqual([]);
  });

  test('a nested .git that left coverage with its folder comes back as git, and is never entered', async () => {
    kit.write('build/x');
    git(join(kit.root, 'build'), kit.base, 'init', '-q');
    await kit.boundary();
    kit.write('.gitignore', 'build\n');
    await kit.boundary();
    kit.write('.gitignore', '\n');
    expect((await kit.boundary()).changes.map(told)).toEqual([
      '.gitignore: file 6 -> file 1',
      'build: uncovered ignored -> dir flags 8',
      'build/.git: uncovered ignored -> uncovered git flags 8',
      'build/x: uncovered ignored -> file 8 flags 8',
    ]);
  });

  test('a root that the rules above it hide is covered all the same, with a problem that says so', async () => {
    const sources = await (async () => {
      git(kit.base, kit.base, 'init', '-q');
      writeFileSync(join(kit.base, '.gitignore'), 'root/\n*.o\n');
      return ruleSources(kit.root, { home: join(kit.base, 'none'), xdg: '', system: '' });
    })();
    kit.write('a.o');
    kit.write('b');
    const { scan } = await kit.boundary(sources);
    expect(scan.problems.map(({ kind, path }) => [kind, path])).toEqual([['root-ignored', '']]);
    expect(await names()).toEqual(['b']);
    expect((await kit.boundary(sources)).scan.problems.length).toBe(1);
  });

  test('a link in place of a rule file is no rule', async () => {
    writeFileSync(join(kit.base, 'rules'), '*\n');
    symlinkSync(join(kit.base, 'rules'), join(kit.root, '.gitignore'));
    kit.write('f');
    await kit.boundary();
    expect(await names()).toEqual(['.gitignore', 'f']);
  });
});

/** Root reads everything: what can't be read is shown to a user who is not. */
describe.skipIf(process.getuid?.() !== 0)('as a user who may not read everything', () => {
  /** Runs steps on a tree of the built backend as uid 65534, and answers what they print, one JSON value a line. */
  function asNobody(prepare: (root: string) => void, steps: string): unknown[] {
    const base = realpathSync(mkdtempSync(join(tmpdir(), 'tb-nobody-')));
    try {
      const root = join(base, 'root');
      mkdirSync(root);
      mkdirSync(join(base, 'data'));
      prepare(root);
      const script = `
        import { chmodSync, writeFileSync } from 'node:fs';
        import { PortableBackend } from ${JSON.stringify(new URL('../../dist/backend/portable/portable.js', import.meta.url).href)};
        const [base, root] = ${JSON.stringify([base, root])};
        const backend = new PortableBackend();
        const segments = await backend.openSegments({ dir: base + '/data/seg', seed: 1n });
        const tree = await backend.openTree({ root, indexFile: base + '/data/index', storeId: '0'.repeat(32), segments, skip: [], maxFileBytes: 1e6, maxEntries: 1e4, scratchDir: base + '/data' });
        const sources = { repo: null, globalExcludes: null, ignoreCase: false, include: [], exclude: [] };
        const short = (v) => v.kind === 'uncovered' ? v.reason : v.kind;
        let seq = 0;
        async function look(options) {
          const scan = await tree.scan(options);
          const { problems } = await tree.ingest(scan.set);
          const changes = await tree.changes(scan.set);
          console.log(JSON.stringify([changes.map((c) => [c.path, short(c.before), short(c.after), c.flags].join(' ')), [...scan.problems, ...problems].map((p) => p.kind + ' ' + p.path)]));
          seq++;
          await tree.commit(scan.set, { seq, observationId: String(seq).padStart(32, '0') });
        }
        ${steps}
        await backend.close();`;
      const own = (path: string) => chownSync(path, 65534, 65534);
      for (const path of [base, root, join(base, 'data')]) own(path);
      const run = spawnSync(
        'setpriv',
        ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, '--input-type=module', '-e', script],
        {
          encoding: 'utf8',
          cwd: '/',
        },
      );
      expect(run.stderr).toBe('');
      return run.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    } finally {
      rmSync(base, { recursive: true, force: true });
    }
  }

  test('an unreadable file and folder are uncovered; a folder that opens again shows names that were there before', () => {
    const answers = asNobody(
      (root) => {
        mkdirSync(join(root, 'priv'));
        writeFileSync(join(root, 'priv/s'), 's');
        writeFileSync(join(root, 'locked'), 's');
        for (const path of ['priv/s', 'priv', 'locked']) {
          chownSync(join(root, path), 65534, 65534);
          chmodSync(join(root, path), path === 'priv/s' ? 0o644 : 0);
        }
      },
      `
      await look({ renewRules: sources });
      chmodSync(root + '/priv', 0o755);
      chmodSync(root + '/locked', 0o644);
      await look();
      chmodSync(root + '/priv', 0);
      await look();
      chmodSync(root + '/priv', 0o755);
      writeFileSync(root + '/priv/s', 'changed');
      await look();`,
    );
    expect(answers).toEqual([
      [
        ['locked absent unreadable 0', 'priv absent unreadable 0'],
        ['unreadable-dir priv', 'unreadable-file locked'],
      ],
      [['locked unreadable file 0', 'priv unreadable dir 0', 'priv/s unreadable file 8'], []],
      [['priv dir unreadable 0'], ['unreadable-dir priv']],
      [['priv unreadable dir 0', 'priv/s file file 1'], []],
    ]);
  });

  test('a rule file that can not be read: known paths keep their verdict, new names below it are uncovered', () => {
    const answers = asNobody(
      (root) => {
        mkdirSync(join(root, 'd'));
        for (const path of ['d/f', 'd/.gitignore', 'd']) {
          if (path !== 'd') writeFileSync(join(root, path), '\n');
          chownSync(join(root, path), 65534, 65534);
        }
      },
      `
      await look({ renewRules: sources });
      chmodSync(root + '/d/.gitignore', 0);
      writeFileSync(root + '/d/new', 'n');
      writeFileSync(root + '/top', 'n');
      await look();
      await look({ renewRules: sources });`,
    );
    expect(answers).toEqual([
      [['d absent dir 0', 'd/.gitignore absent file 0', 'd/f absent file 0'], []],
      [
        ['d/.gitignore file unreadable 0', 'd/new absent ignored 0', 'top absent file 0'],
        ['unreadable-rules d', 'unreadable-file d/.gitignore'],
      ],
      [[], ['unreadable-rules d', 'unreadable-file d/.gitignore']],
    ]);
  });
});
