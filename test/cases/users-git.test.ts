/** Faults that damaged the user's repository, or let git decide what is kept. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { Agent } from '../kit/process.ts';
import { got, Story } from '../kit/story.ts';
import { contents, inGit, snapshot } from '../kit/tree.ts';

const GIT_NOTE =
  'git: HEAD or its branch moved since the boundary. Git metadata is not covered: commits, index and refs stay as they are.';

function gitState(root: string): Record<string, string> {
  return Object.fromEntries(Object.entries(contents(snapshot(root))).filter(([path]) => inGit(path)));
}

/** The case asks for 20. */
const KILLS = process.env.TAKEBACK_SLOW === '1' ? 20 : 8;

describeBackends('the user’s git', (backend) => {
  // B05 · cline/cline #13550
  test('undo keeps commits made after the boundary, and says that git is not covered', async () => {
    await using story = await Story.begin(backend, 'git init -q; echo 1 >f; git add f; git commit -qm c1');
    await story.cp('a');
    await story.t('echo 2 >f; git commit -qam c2');
    story.u('echo 3 >g; git add g; git commit -qm c3');
    const before = gitState(story.space.root);
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({ outcome: 'done', restored: { f: 'restore' } });
    expect(receipt.notes).toEqual([GIT_NOTE]);
    expect(gitState(story.space.root)).toEqual(before);
    expect(story.space.git('log', '--format=%s')).toBe('c3\nc2\nc1\n');
    expect(story.space.git('status', '--porcelain')).toBe(' M f\n');
    expect(story.space.sh('cat f g')).toBe('1\n3\n');
  });

  test('a branch switch, a stash and a rebase by the agent leave git as it is, and give the files back', async () => {
    await using story = await Story.begin(
      backend,
      'git init -q -b main; echo 1 >f; git add f; git commit -qm c1; git checkout -qb other; echo o>o; git add o; git commit -qm o; git checkout -q main',
    );
    await story.cp('a');
    await story.t('git checkout -q other', 'echo dirty>f; git stash -q');
    const before = gitState(story.space.root);
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({ outcome: 'done', restored: { o: 'delete' } });
    expect(receipt.notes).toEqual([GIT_NOTE]);
    expect(gitState(story.space.root)).toEqual(before);
    expect(story.space.git('status', '--porcelain')).toBe(' D o\n');
  });

  test('without a moved HEAD there is no note', async () => {
    await using story = await Story.begin(backend, 'git init -q; echo 1 >f; git add f; git commit -qm c1');
    await story.cp('a');
    await story.t('echo 2 >f');
    expect((await story.undo('a')).notes).toEqual([]);
  });

  // B06 · openai/codex PR #8303
  test('undo and redo leave the staging area byte-identical', async () => {
    await using story = await Story.begin(
      backend,
      'git init -q; echo 1 >f; echo 1 >h; git add -A; git commit -qm c1; echo 2 >h; git add h; echo 3 >h',
    );
    const index = () => readFileSync(join(story.space.root, '.git/index'), 'hex');
    const before = index();
    await story.cp('a');
    await story.t('echo x>f');
    await story.undo('a');
    expect(story.space.read('f')).toBe('1\n');
    await story.redo();
    expect(story.space.read('f')).toBe('x\n');
    expect(story.space.read('h')).toBe('3\n');
    expect(index()).toBe(before);
    expect(story.space.git('show', ':h')).toBe('2\n');
  });

  test('intent-to-add, skip-worktree and a merge in progress stay as they are', async () => {
    await using story = await Story.begin(
      backend,
      `git init -q -b main; echo 1 >f; echo 1 >s; git add -A; git commit -qm c1; git update-index --skip-worktree s
       git checkout -qb x; echo x>f; git commit -qam x; git checkout -q main; echo m>f; git commit -qam m
       git merge x >/dev/null || true; echo i>ita; git add -N ita`,
    );
    const before = gitState(story.space.root);
    await story.cp('a');
    await story.t('echo resolved>f; echo 2 >s; echo 2 >ita');
    expect(digest(await story.undo('a')).restored).toEqual({ f: 'restore', ita: 'restore', s: 'restore' });
    expect(gitState(story.space.root)).toEqual(before);
    expect(story.space.read('f')).toContain('<<<<<<<');
  });

  // B07 · cline/cline #9590
  test('a capture killed at any moment leaves every nested repository usable and in place', {
    timeout: 120_000,
  }, async () => {
    await using story = await Story.begin(
      backend,
      'git init -q; git init -q sub; echo 1 >sub/x; git -C sub add x; git -C sub commit -qm i; echo 1 >top',
    );
    await story.workspace.close();
    const before = gitState(story.space.root);
    const open = { root: story.space.root, dataDir: story.space.dataDir, backend, durability: 'fast' } as const;
    for (let run = 0; run < KILLS; run++) {
      const agent = new Agent(open, [['repeat', [['capture', `r${run}-%`]]]]);
      await agent.line('open');
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 60));
      await agent.kill();
      expect(gitState(story.space.root), `run ${run}`).toEqual(before);
      for (const cwd of ['.', 'sub']) {
        const status = spawnSync('git', ['status', '--porcelain'], {
          cwd: join(story.space.root, cwd),
          env: { ...story.space.env, GIT_OPTIONAL_LOCKS: '0' },
        });
        expect(status.status, `run ${run}`).toBe(0);
      }
    }
    await story.reopen();
    const capture = await story.cp('a');
    expect(capture.uncovered).toEqual([{ path: 'sub/.git', reason: 'git' }]);
    await story.t('echo 2 >top; echo 2 >sub/x');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { 'sub/x': 'restore', top: 'restore' },
    });
    expect(story.space.sh('cat top sub/x')).toBe('1\n1\n');
    expect(gitState(story.space.root)).toEqual(before);
  });

  test('a nested repository that the agent makes goes but for its .git, which is listed', async () => {
    await using story = await Story.begin(backend, 'git init -q; echo 1 >f');
    await story.cp('a');
    await story.t('git init -q vendor/lib; echo 1 >vendor/lib/x; echo 2 >f');
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({
      outcome: 'partial',
      restored: { f: 'restore', 'vendor/lib/x': 'delete' },
      refused: { 'vendor/lib/.git': 'uncovered' },
      skipped: { vendor: 'not-empty', 'vendor/lib': 'not-empty' },
      uncovered: { 'vendor/lib/.git': 'git' },
    });
    expect(story.space.exists('vendor/lib/.git/HEAD')).toBe(true);
  });

  test('a nested repository that the agent deletes comes back but for its .git, whose loss is listed', async () => {
    await using story = await Story.begin(backend, 'git init -q; git init -q sub; mkdir sub/d; echo 1 >sub/d/x');
    await story.cp('a');
    await story.t('rm -rf sub');
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({
      outcome: 'partial',
      restored: { 'sub/d/x': 'recreate' },
      refused: { 'sub/.git': 'uncovered' },
      uncovered: { 'sub/.git': 'git' },
    });
    expect(story.space.read('sub/d/x')).toBe('1\n');
  });

  test('.git as a file, of a worktree or a submodule, is never written', async () => {
    await using story = await Story.begin(
      backend,
      `git init -q ../main; cd ../main; echo 1 >f; git add f; git commit -qm i; git worktree add -q ../w/tree 2>/dev/null || true
       cd ../w; cp -r ../main/f f`,
    );
    const dotGit = story.space.bytes('tree/.git');
    await story.cp('a');
    await story.t('echo 2 >tree/f; echo gone>tree/.git');
    const receipt = await story.undo('a');
    expect(digest(receipt).restored).toEqual({ 'tree/f': 'restore' });
    expect(story.space.bytes('tree/.git'), 'it is not covered').toBe('gone\n');
    expect(dotGit).toContain('gitdir:');
  });

  // B08 · anomalyco/opencode #26893
  test('a nested repository without commits does not make a boundary stale', async () => {
    await using story = await Story.begin(backend, 'git init -q; echo v1>f.txt; git add f.txt; git commit -qm i');
    const a = await story.cp('a');
    story.u('echo v2>f.txt; git init -q vendor/n; echo z>vendor/n/z');
    const b = await story.cp('b');
    expect(b.position).not.toBe(a.position);
    expect(b.uncovered).toEqual([{ path: 'vendor/n/.git', reason: 'git' }]);
    await story.t('echo v3>f.txt; echo zz>vendor/n/z');
    expect(digest(await story.undo('b')).restored).toEqual({ 'f.txt': 'restore', 'vendor/n/z': 'restore' });
    expect(story.space.sh('cat f.txt vendor/n/z')).toBe('v2\nz\n');
  });

  test('broken repositories (no HEAD, a damaged index, an empty .git) do not stop or falsify a capture', async () => {
    await using story = await Story.begin(
      backend,
      `git init -q; echo 1 >f; git add f; git commit -qm i; printf garbage >.git/index; rm .git/HEAD
       mkdir -p n1/.git n2; echo 'gitdir: /nowhere' >n2/.git; echo 1 >n1/x; echo 1 >n2/y`,
    );
    await story.cp('a');
    await story.t('echo 2 >f; echo 2 >n1/x; echo 2 >n2/y');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'done',
      restored: { f: 'restore', 'n1/x': 'restore', 'n2/y': 'restore' },
    });
  });

  // B23 · RooCodeInc/Roo-Code #4567
  test('no GIT_ variable decides where anything is written or which rules hold', async () => {
    await using story = await Story.begin(
      backend,
      "git init -q --bare ../other.git; git init -q; echo 1 >f; echo '*.tmp' >.gitignore; echo 1 >x.tmp; mkdir ../wt",
    );
    const names = [
      'GIT_DIR',
      'GIT_INDEX_FILE',
      'GIT_WORK_TREE',
      'GIT_CONFIG_GLOBAL',
      'GIT_CEILING_DIRECTORIES',
    ] as const;
    const env = {
      GIT_DIR: join(story.space.base, 'other.git'),
      GIT_INDEX_FILE: join(story.space.base, 'idx'),
      GIT_WORK_TREE: join(story.space.base, 'wt'),
      GIT_CONFIG_GLOBAL: join(story.space.base, 'nope'),
      GIT_CEILING_DIRECTORIES: story.space.root,
    };
    const kept = names.map((name) => process.env[name]);
    Object.assign(process.env, env);
    try {
      const other = snapshot(join(story.space.base, 'other.git'));
      await story.reopen();
      await story.cp('a');
      await story.t('echo 2 >f; echo 2 >x.tmp');
      expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { f: 'restore' } });
      expect(story.space.sh('cat f x.tmp')).toBe('1\n2\n');
      expect(contents(snapshot(join(story.space.base, 'other.git')))).toEqual(contents(other));
      expect(story.space.sh('ls ..')).not.toContain('idx');
    } finally {
      names.forEach((name, i) => {
        if (kept[i] === undefined) delete process.env[name];
        else process.env[name] = kept[i];
      });
    }
    expect(got(await story.workspace.verify()).ok).toBe(true);
  });
});
