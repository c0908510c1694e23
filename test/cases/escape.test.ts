/** Faults that wrote outside the root, or into what a link or another kind of file stood for. */
import { lstatSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('containment', (backend) => {
  // B14 · nesquena/hermes-webui PR #4405
  test('restore replaces a planted symlink by the file, and never writes through it', async () => {
    await using story = await Story.begin(
      backend,
      'mkdir ../out; echo host>../out/t.txt; echo in>t.txt; mkdir d; echo in>d/f',
    );
    await story.cp('a');
    await story.t('rm t.txt; ln -s ../out/t.txt t.txt; rm -r d; ln -s ../out d');
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({
      outcome: 'done',
      restored: { d: 'restore', 'd/f': 'recreate', 't.txt': 'restore' },
    });
    expect(story.space.sh('cat ../out/t.txt t.txt d/f; ls ../out')).toBe('host\nin\nin\nt.txt\n');
    expect(lstatSync(join(story.space.root, 't.txt')).isFile()).toBe(true);
    expect(lstatSync(join(story.space.root, 'd')).isDirectory()).toBe(true);
    await story.redo();
    expect(story.space.sh('readlink t.txt d; ls ../out')).toBe('../out/t.txt\n../out\nt.txt\n');
  });

  test('a symlink that the user put in place of a folder or a file is not followed, and said to be in the way', async () => {
    await using story = await Story.begin(backend, 'mkdir -p ../out d/e; echo host>../out/f; echo 1 >d/e/f; echo 1 >g');
    await story.cp('a');
    await story.t('echo 2 >d/e/f; echo 2 >g');
    story.u('rm -r d/e; ln -s ../../out d/e; rm g; ln -s ../out/f g');
    const receipt = await story.undo('a');
    expect(receipt.outcome).not.toBe('done');
    expect(receipt.restored).toEqual([]);
    expect(receipt.refused.length + receipt.failed.length).toBe(2);
    expect(story.space.sh('cat ../out/f; ls ../out')).toBe('host\nf\n');
    const forced = await story.undo('a', { onConflict: 'overwrite' });
    expect(digest(forced).restored).toMatchObject({ g: 'restore!changed-outside-session' });
    expect(story.space.sh('cat ../out/f g; ls ../out')).toBe('host\n1\nf\n');
  });

  test('links that dangle, loop, point at themselves or out of the root are captured and restored as links', async () => {
    await using story = await Story.begin(
      backend,
      'ln -s gone dangling; ln -s loop2 loop1; ln -s loop1 loop2; ln -s . self; ln -s / outside; ln -s ../../../../etc/passwd up',
    );
    await story.cp('a');
    await story.t('rm dangling loop1 up; echo file>loop1; mkdir up; ln -sfn elsewhere outside');
    expect((await story.undo('a')).outcome).toBe('done');
    expect(story.space.sh('readlink dangling loop1 loop2 self outside up')).toBe(
      'gone\nloop2\nloop1\n.\n/\n../../../../etc/passwd\n',
    );
  });

  test('types that changed both ways come back: file to folder, folder to file, link to file', async () => {
    await using story = await Story.begin(
      backend,
      'echo f>file; mkdir -p dir/sub; echo 1 >dir/sub/x; echo 2 >dir/y; ln -s file link',
    );
    await story.cp('a');
    await story.t('rm file; mkdir -p file/deep; echo n>file/deep/n; rm -r dir; echo d>dir; rm link; echo l>link');
    expect((await story.undo('a')).outcome).toBe('done');
    expect(story.space.sh('cat file dir/sub/x dir/y; readlink link; find . | sort | tr "\\n" " "')).toBe(
      'f\n1\n2\nfile\n. ./dir ./dir/sub ./dir/sub/x ./dir/y ./file ./link ',
    );
    await story.redo();
    expect(story.space.sh('cat file/deep/n dir link')).toBe('n\nd\nl\n');
  });

  test('a folder in place of a file is kept where the user put something into it', async () => {
    await using story = await Story.begin(backend, 'echo f>file');
    await story.cp('a');
    await story.t('rm file; mkdir file; echo n>file/n');
    story.u('echo mine>file/mine');
    expect(digest(await story.undo('a'))).toMatchObject({
      restored: { 'file/n': 'delete' },
      refused: { file: 'not-empty' },
    });
    expect(story.space.read('file/mine')).toBe('mine\n');
  });

  test('a hard link to a file outside is broken, not written through, and said so', async () => {
    await using story = await Story.begin(backend, 'mkdir ../out; echo 1 >f; ln f ../out/twin');
    await story.cp('a');
    await story.t('echo 2 >f');
    const receipt = await story.undo('a');
    expect(digest(receipt)).toEqual({ outcome: 'done', restored: { f: 'restore' } });
    expect(receipt.restored[0]?.note).toContain('hardlink-broken');
    expect(story.space.sh('cat f ../out/twin')).toBe('1\n2\n');
  });

  // B18 · duplicati/duplicati #876
  test('FIFOs and sockets never block, keep their inode and are named; one of the session’s own is moved aside', async () => {
    await using story = await Story.begin(
      backend,
      `mkfifo pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"; echo 1 >f`,
    );
    const within = async <T>(work: Promise<T>): Promise<T> => {
      const started = Date.now();
      const value = await work;
      expect(Date.now() - started, 'no call blocks').toBeLessThan(5000);
      return value;
    };
    const inodes = () => ['pipe', 'sock'].map((name) => lstatSync(join(story.space.root, name)).ino);
    const before = inodes();
    const capture = await within(story.cp('a'));
    expect(capture.uncovered).toEqual([
      { path: 'pipe', reason: 'special' },
      { path: 'sock', reason: 'special' },
    ]);
    await within(story.t('echo 2 >f; mkfifo pipe2'));
    const receipt = await within(story.undo('a'));
    expect(digest(receipt)).toEqual({ outcome: 'done', restored: { f: 'restore', pipe2: 'delete' } });
    expect(inodes()).toEqual(before);
    expect(story.space.exists('pipe2')).toBe(false);
    const redone = await within(story.redo());
    expect(digest(redone.receipt as NonNullable<typeof redone.receipt>)).toMatchObject({
      restored: { f: 'restore' },
      refused: { pipe2: 'unsupported' },
    });
  });

  test('a FIFO in place of a file, and a file in place of a FIFO, neither block nor lose', async () => {
    await using story = await Story.begin(backend, 'mkfifo pipe; echo 1 >f');
    await story.cp('a');
    await story.t('rm f; mkfifo f; rm pipe; echo file>pipe');
    const receipt = await story.undo('a');
    expect(digest(receipt)).toMatchObject({ restored: { f: 'restore' }, refused: { pipe: 'unsupported' } });
    expect(story.space.sh('cat f pipe')).toBe('1\nfile\n');
  });

  // B27 · can1357/oh-my-pi #11828
  test('a deleted working directory neither crashes nor misleads', async () => {
    await using story = await Story.begin(backend, 'mkdir tmp; echo 1 >f; echo 1 >tmp/x');
    const kept = process.cwd();
    process.chdir(join(story.space.root, 'tmp'));
    try {
      await story.cp('a');
      await story.t('rm -r tmp; echo 2 >f');
      expect(() => process.cwd()).toThrow();
      expect(digest(await story.undo('a'))).toEqual({
        outcome: 'done',
        restored: { f: 'restore', 'tmp/x': 'recreate' },
      });
      await story.workspace.close();
      const { openWorkspace } = await import('../../src/index.ts');
      const { root, dataDir } = story.space;
      await using again = await openWorkspace({ root, dataDir, backend });
      // Node starts no worker thread without a working directory, and the portable backend is one.
      expect(again).toMatchObject(
        backend === 'native' ? { available: true } : { available: false, reason: 'unsupported' },
      );
    } finally {
      process.chdir(kept);
    }
    expect(story.space.sh('cat f tmp/x')).toBe('1\n1\n');
  });

  test('a root that was removed and made anew answers root-changed, and nothing is written into it', async () => {
    await using story = await Story.begin(backend, 'mkdir tmp; echo 1 >f; echo 1 >tmp/x');
    await story.cp('a');
    await story.t('echo 2 >f');
    const { root } = story.space;
    // The old root is moved, not removed, so that the new one can't get its inode.
    story.space.sh(`mv ${root} ${root}-old; mkdir ${root}; echo other>${root}/f`, { cwd: story.space.base });
    const session = story.session();
    const changed = { available: false, reason: 'root-changed' };
    expect(await session.restore('a')).toMatchObject(changed);
    expect(await session.plan('a')).toMatchObject(changed);
    expect(await session.undo()).toMatchObject(changed);
    expect(await session.capture('b')).toMatchObject(changed);
    expect(story.space.sh('cat f; ls -A')).toBe('other\nf\n');
    await story.reopen();
    expect(await story.session().restore('a'), 'made on another folder').toMatchObject(changed);
    expect(story.space.read('f')).toBe('other\n');
  });

  test('a root that is gone answers root-missing, and is not made again', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('rm f');
    rmdirSync(story.space.root);
    const missing = { available: false, reason: 'root-missing' };
    expect(await story.session().restore('a')).toMatchObject(missing);
    expect(await story.session().capture('b')).toMatchObject(missing);
    expect(readdirSync(story.space.base)).not.toContain('w');
    mkdirSync(story.space.root);
  });

  test('paths that lead out of the root are refused before anything is looked at', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    await story.t('echo 2 >f');
    for (const path of ['..', '../x', 'f/../../x', '/etc/passwd', `${story.space.root}/../x`]) {
      await expect(story.session().plan('a', { paths: [path] }), path).rejects.toMatchObject({
        code: 'ERR_OUTSIDE_ROOT',
      });
      await expect(story.session().beginCall('c', { paths: [path] }), path).rejects.toMatchObject({
        code: 'ERR_OUTSIDE_ROOT',
      });
    }
    expect(got(await story.session().plan('a', { paths: [`${story.space.root}/f`] })).entries.length).toBe(1);
  });
});
