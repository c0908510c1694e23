/** What is covered (DESIGN §4.2): each sentence a test. Git's ignore semantics are `backend/ignore-fuzz.test.ts`. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { changeDigest, digest, NOTHING } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('coverage', (backend) => {
  test('the root’s own .git, the data directory and .takeback are no part of the tree', async () => {
    await using story = await Story.begin(backend, 'git init -q; mkdir .takeback; echo x >.takeback/x; echo 1 >f', {
      space: { dataDir: 'w/state' },
    });
    const capture = await story.cp('a');
    expect([capture.scannedFiles, capture.uncovered]).toEqual([1, []]);
    expect(await story.t('echo y >.takeback/x; git config a.b c; echo z >.takeback/new')).toEqual([]);
    expect(digest(await story.undo('a'))).toEqual(NOTHING);
  });

  test('a nested .git is named uncovered, in any depth, as a folder and as a file; its repository’s files are covered', async () => {
    await using story = await Story.begin(
      backend,
      'git init -q a; mkdir -p b/c; echo "gitdir: /nowhere" >b/c/.git; echo 1 >a/f; echo 1 >b/c/f',
    );
    expect((await story.cp('x')).uncovered).toEqual([
      { path: 'a/.git', reason: 'git' },
      { path: 'b/c/.git', reason: 'git' },
    ]);
    await story.t('echo 2 >a/f; echo 2 >b/c/f; git -C a config x.y z');
    expect(digest(await story.undo('x'))).toEqual({
      outcome: 'done',
      restored: { 'a/f': 'restore', 'b/c/f': 'restore' },
    });
  });

  test('inside a nested repository its own rules hold; a nested folder that the outer rules ignore is ignored whole', async () => {
    await using story = await Story.begin(
      backend,
      "git init -q; printf '*.o\\nvendor/\\n' >.gitignore; git init -q sub; printf '*.tmp\\n' >sub/.gitignore; git init -q vendor; for f in sub/a.o sub/a.tmp vendor/f x.o; do echo 1 >$f; done",
    );
    await story.cp('a');
    await story.t('for f in sub/a.o sub/a.tmp vendor/f x.o; do echo 2 >$f; done');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'sub/a.o': 'restore' } });
  });

  test('the user’s global excludes and info/exclude hold', async () => {
    await using story = await Story.begin(
      backend,
      "git init -q; printf '*.bak\\n' >.git/info/exclude; for f in a.bak a.swp b; do echo 1 >$f; done",
    );
    const kept = { HOME: process.env.HOME, XDG: process.env.XDG_CONFIG_HOME };
    process.env.HOME = join(story.space.base, 'home');
    delete process.env.XDG_CONFIG_HOME;
    try {
      story.space.sh("mkdir -p ~/.config/git; printf '*.swp\\n' >~/.config/git/ignore");
      await story.cp('a');
      await story.t('for f in a.bak a.swp b; do echo 2 >$f; done');
      expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { b: 'restore' } });
    } finally {
      process.env.HOME = kept.HOME;
      if (kept.XDG !== undefined) process.env.XDG_CONFIG_HOME = kept.XDG;
    }
  });

  test('rules hold without a repository', async () => {
    await using story = await Story.begin(backend, "printf 'out/\\n' >.gitignore; mkdir out; echo 1 >out/x; echo 1 >f");
    await story.cp('a');
    await story.t('echo 2 >out/x; echo 2 >f');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore' } });
  });

  test('a linked worktree uses its own index and the common info/exclude', async () => {
    await using story = await Story.begin(
      backend,
      `git init -q ../main; cd ../main; printf '*.x\\n' >.git/info/exclude; echo 1 >t.log; git add t.log; git commit -qm i; rmdir ../w; git worktree add -q ../w
       cd ../w; printf '*.log\\n' >.gitignore; echo 1 >a.x; echo 1 >u.log`,
    );
    await story.cp('a');
    await story.t('echo 2 >t.log; echo 2 >a.x; echo 2 >u.log');
    expect(digest(await story.undo('a')), 't.log is tracked').toEqual({
      outcome: 'done',
      restored: { 't.log': 'restore' },
    });
  });

  test('empty folders, permission bits and links are covered; touching a file is no change', async () => {
    await using story = await Story.begin(backend, 'mkdir -p e/f; echo 1 >x; ln -s x l');
    await story.cp('a');
    expect(changeDigest(await story.t('rmdir e/f; chmod 600 x; ln -sfn y l; mkdir -p n/m'))).toEqual({
      'e/f': 'deleted',
      l: 'modified',
      'n/m': 'created',
      x: 'modified',
    });
    expect(digest(await story.undo('a')).restored).toEqual({
      'e/f': 'recreate',
      l: 'restore',
      'n/m': 'delete',
      x: 'restore',
    });
    expect(story.space.sh('find . | sort; stat -c %a x; readlink l')).toBe('.\n./e\n./e/f\n./l\n./x\n644\nx\n');
  });

  test.skipIf(process.getuid?.() !== 0)(
    'what is below a mount point is uncovered, never entered, and never taken for deleted',
    async () => {
      await using story = await Story.begin(backend, 'mkdir m; echo under >m/under; echo 1 >f');
      const folder = join(story.space.root, 'm');
      if (spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', folder]).status !== 0) return;
      try {
        story.space.sh('echo mounted >m/x');
        expect((await story.cp('a')).uncovered).toEqual([{ path: 'm', reason: 'mount' }]);
        await story.t('echo 2 >m/x; rm -f m/y; echo 2 >f');
        expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore' } });
        expect(story.space.read('m/x')).toBe('2\n');
      } finally {
        spawnSync('umount', ['-l', folder]);
      }
      await story.t('echo 3 >f');
      const receipt = await story.undo('a');
      expect(digest(receipt).restored).toEqual({ f: 'restore' });
      expect(story.space.read('m/under')).toBe('under\n');
    },
  );

  test('within a turn a covered path stays covered, whatever a call does to the rules', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a.log');
    await story.cp('a');
    await story.t("printf '*.log\\n' >.gitignore", 'echo 2 >a.log', 'rm a.log');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { '.gitignore': 'delete', 'a.log': 'recreate' },
    });
    expect(story.space.read('a.log')).toBe('1\n');
  });

  test('at the next boundary what became ignored leaves coverage, and what became visible enters as nobody’s', async () => {
    await using story = await Story.begin(backend, "printf 'old\\n' >.gitignore; echo 1 >old; echo 1 >new; echo 1 >f");
    await story.cp('a');
    await story.t("printf 'new\\n' >.gitignore");
    const b = await story.cp('b');
    expect(b.uncovered).toEqual([{ path: 'new', reason: 'ignored' }]);
    await story.t('echo 2 >old; echo 2 >new; echo 2 >f');
    expect(digest(await story.undo('b'))).toMatchObject({ restored: { f: 'restore', old: 'restore' } });
    await story.undo('a');
    expect(story.space.sh('cat .gitignore old new')).toBe('old\n1\n2\n');
  });

  test('a path with another session’s owed rows stays covered until that session’s next capture', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a.log; echo 1 >b.log');
    const [s1, s2] = [story.session('s1'), story.session('s2')];
    await story.cp('a', { session: s1 });
    await story.cp('a', { session: s2 });
    await story.turnOf(s1, 'echo 2 >a.log');
    story.u("printf '*.log\\n' >.gitignore");
    await story.cp('b', { session: s2 });
    expect(digest(await story.undo('a', { session: s1 }))).toEqual({
      outcome: 'done',
      restored: { 'a.log': 'restore' },
    });
    expect(story.space.read('a.log')).toBe('1\n');
  });

  test('a plan looks at an owed path on disk whatever the rules say now', async () => {
    await using story = await Story.begin(backend, 'echo 1 >a.log');
    await story.cp('a');
    await story.t('echo 2 >a.log');
    story.u("printf '*.log\\n' >.gitignore");
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'a.log': 'restore' } });
  });

  test('include and exclude are stored with the workspace, and others act like a rule change', async () => {
    await using story = await Story.begin(
      backend,
      "printf 'dist/\\n' >.gitignore; mkdir dist; echo 1 >dist/x; echo 1 >a.tmp; echo 1 >f",
      {
        open: { include: ['dist/'], exclude: ['*.tmp'] },
      },
    );
    await story.cp('a');
    await story.workspace.close();
    story.workspace = await story.space.open(backend);
    await story.t('echo 2 >dist/x; echo 2 >a.tmp; echo 2 >f');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { 'dist/x': 'restore', f: 'restore' } });
    await story.reopen({ include: [], exclude: [] });
    await story.cp('b');
    await story.t('echo 3 >dist/x; echo 3 >a.tmp; echo 3 >f');
    expect(digest(await story.undo('b')).restored).toEqual({ 'a.tmp': 'restore', f: 'restore' });
  });

  test('a rule file that can’t be read hides nothing that was known', async () => {
    await using story = await Story.begin(backend, "printf '*.log\\n' >.gitignore; echo 1 >f; echo 1 >a.log");
    await story.cp('a');
    story.u('rm .gitignore; mkdir .gitignore');
    await story.cp('b');
    await story.t('echo 2 >f');
    expect(digest(await story.undo('b'))).toMatchObject({ restored: { f: 'restore' } });
  });

  test('a path longer than PATH_MAX is restored, or its folder is named as out of reach', async () => {
    await using story = await Story.begin(backend, 'echo 1 >top');
    const name = 'n'.repeat(60);
    const down = `for i in $(seq 80); do mkdir -p ${name}; cd -P ${name}; done`;
    story.space.sh(`${down}; echo 1 >f`);
    const session = story.session();
    const capture = got(await session.capture('a'));
    got(await session.beginCall('c'));
    story.space.sh(`echo 2 >top; ${down}; echo 2 >f`);
    got(await session.endCall('c'));
    const receipt = got(await session.restore('a'));
    expect(story.space.sh('cat top')).toBe('1\n');
    const reached = capture.scannedFiles === 2;
    expect(story.space.sh(`${down}; cat f`)).toBe(reached ? '1\n' : '2\n');
    if (reached) expect(receipt.outcome).toBe('done');
    else
      expect(
        capture.uncovered.map(({ reason }) => reason),
        'never a silent skip',
      ).toEqual(['unreadable']);
    if (backend === 'native') expect(reached).toBe(true);
  });

  test('a path that was deleted, made again where rules hid it, and is seen again leaves a sound store', async () => {
    await using story = await Story.begin(backend, 'mkdir d; echo 0 >d/n');
    await story.cp('a');
    await story.t('rm -r d');
    story.u('echo d/ >.gitignore; mkdir d; echo 1 >d/n');
    await story.cp('b');
    story.u('rm .gitignore');
    await story.cp('c');
    expect(got(await story.workspace.verify()).problems).toEqual([]);
    expect(digest(await story.undo('a')).refused).toEqual({ 'd/n': 'changed-outside-session' });
  });

  test('a deadline marks the capture partial; what it left is read behind the turn and restorable', async () => {
    await using story = await Story.begin(backend, '');
    for (let i = 0; i < 300; i++) story.space.write(`f${i}`, `${i}\n`.repeat(2000));
    mkdirSync(join(story.space.root, 'empty'));
    const capture = await story.cp('a', { deadlineMs: 1 });
    expect(capture.complete).toBe(capture.uncovered.length === 0);
    const named = await story.session().beginCall('c', { paths: ['f7'] });
    expect(named.available).toBe(true);
    story.space.write('f7', 'changed');
    await story.session().endCall('c');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f7: 'restore' } });
    expect(story.space.read('f7')).toBe('7\n'.repeat(2000));
    const late = await story.cp('b');
    expect([late.complete, late.uncovered]).toEqual([true, []]);
  });
});
