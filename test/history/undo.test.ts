/** Undo and redo as the seed's page tells them, and where the design goes further. */
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

describeBackends('undo and redo', (backend) => {
  const files = (story: Story, ...paths: string[]): (string | null)[] => paths.map((path) => story.space.bytes(path));

  async function undo(story: Story): Promise<string> {
    return got(await story.session().undo()).message;
  }

  async function redo(story: Story): Promise<string> {
    return got(await story.session().redo()).message;
  }

  test('undo returns the number of files that it put back, redo brings them back', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a; printf 0 >b');
    await story.cp('m1');
    await story.t('printf 1 >a; rm b; printf new >c');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 3.');
    expect(files(story, 'a', 'b', 'c')).toEqual(['0', '0', null]);
    expect(await redo(story)).toBe('Redid the last turn.');
    expect(files(story, 'a', 'b', 'c')).toEqual(['1', null, 'new']);
  });

  test('undo finds the one change of the session among many of the user’s in the turn', async () => {
    await using story = await Story.begin(backend, 'printf 0 >z');
    await story.cp('m1');
    for (let i = 0; i < 100; i++) story.space.write(`user-${i}`, 'mine');
    await story.t('printf 1 >z');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'z', 'user-0', 'user-99')).toEqual(['0', 'mine', 'mine']);
    expect(await undo(story)).toBe('Nothing to undo.');
  });

  test('a turn of which the session owes nothing, though the user changed many files in it, is passed over', async () => {
    await using story = await Story.begin(backend, 'printf 0 >z');
    await story.cp('m1');
    await story.t('printf 1 >z');
    await story.cp('m2');
    for (let i = 0; i < 100; i++) story.space.write(`user-${i}`, 'mine');
    await story.t('true');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'z', 'user-0', 'user-99')).toEqual(['0', 'mine', 'mine']);
  });

  test('lines are left out of a timeline that is asked for without them; files are counted', async () => {
    await using story = await Story.begin(backend, 'echo 0 >a');
    await story.cp('m1');
    await story.t('echo 1 >a; echo new >b');
    const counts = { created: 1, modified: 1, deleted: 0 };
    const counted = async (options: { lines?: boolean }) =>
      got(await story.session().timeline(options)).items.flatMap((item) => ('files' in item ? [item.files] : []));
    expect(await counted({ lines: false })).toEqual([counts, counts]);
    const lines = { ...counts, linesAdded: 2, linesDeleted: 1 };
    expect(await counted({})).toEqual([lines, lines]);
  });

  test('undo puts back edits of file tools and changes of shell commands', async () => {
    await using story = await Story.begin(backend, 'printf 0 >tool; printf 0 >shell');
    const session = story.session();
    await story.cp('m1');
    got(await session.beginCall('edit', { tool: 'edit_file', paths: ['tool'] }));
    story.space.write('tool', 'edited');
    got(await session.endCall('edit'));
    await story.t('sed -i s/0/1/ shell');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 2.');
    expect(files(story, 'tool', 'shell')).toEqual(['0', '0']);
  });

  test('a folder that goes alone, since what was made in it is gone already, is told, and redo brings it back', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await story.t('mkdir d; printf new >d/b');
    await story.t('rm d/b');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
    expect(story.space.sh('ls')).toBe('a\n');
    expect(await redo(story)).toBe('Redid the last turn.');
    expect(story.space.sh('ls')).toBe('a\nd\n');
  });

  test('a folder without rights to enter that took the place of a file gives it back', async () => {
    await using story = await Story.begin(backend, 'printf 1 >z; mkdir d; printf one >d/a; chmod 644 d');
    await story.cp('m1');
    await story.t('rm z; mv d z');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 3.');
    expect(story.space.sh('cat z d/a; stat -c %a d')).toBe('1one644\n');
    expect(await redo(story)).toBe('Redid the last turn.');
    expect(story.space.sh('cat z/a; stat -c %a z')).toBe('one644\n');
  });

  test('undo and redo do not touch other files, nor one that you add or edit after the turn', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a; printf 0 >mine');
    await story.cp('m1');
    await story.t('printf 1 >a');
    story.u('printf edited >mine; printf added >added');
    await undo(story);
    expect(files(story, 'a', 'mine', 'added')).toEqual(['0', 'edited', 'added']);
    story.u('printf again >mine');
    await redo(story);
    expect(files(story, 'a', 'mine', 'added')).toEqual(['1', 'again', 'added']);
  });

  test('undo does not touch ignored files and .env files', async () => {
    await using story = await Story.begin(
      backend,
      'printf "node_modules/\\n" >.gitignore; printf 0 >.env; printf 0 >a',
    );
    await story.cp('m1');
    await story.t('printf 1 >a; printf 1 >.env; mkdir node_modules; printf 1 >node_modules/x');
    await undo(story);
    expect(files(story, 'a', '.env', 'node_modules/x')).toEqual(['0', '1', '1']);
  });

  test('a new turn clears redo', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await story.t('printf 1 >a');
    await undo(story);
    await story.cp('m2');
    expect(await redo(story)).toBe('Nothing to redo.');
    expect(files(story, 'a')).toEqual(['0']);
  });

  test('a file that you edited after the turn is kept and named; overwritten, it comes back with redo', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a; printf 0 >b');
    await story.cp('m1');
    await story.t('printf 1 >a; printf 1 >b');
    story.u('printf mine >a');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1. Kept 1 that changed since: a');
    expect(files(story, 'a', 'b')).toEqual(['mine', '0']);
    expect(await undo(story)).toBe('Nothing to undo.');
    const named = got(await story.session().undo({ boundaryId: 'm1', onConflict: 'overwrite' }));
    expect(named.message).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'a', 'b')).toEqual(['0', '0']);
    await redo(story);
    await redo(story);
    expect(files(story, 'a', 'b')).toEqual(['mine', '1']);
  });

  test('when another session edits a file during the turn, undo keeps that edit', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a; printf 0 >theirs');
    const other = story.session('s2');
    await story.cp('m1');
    await story.cp('o1', { session: other });
    got(await story.session().beginCall('mine', { paths: ['a'] }));
    story.space.write('a', '1');
    await story.turnOf(other, 'printf 1 >theirs');
    got(await story.session().endCall('mine'));
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'a', 'theirs')).toEqual(['0', '1']);
  });

  test('as many levels as there are turns; a turn that changed nothing is passed over', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    for (let n = 1; n <= 4; n++) {
      await story.cp(`m${n}`);
      if (n !== 3) await story.t(`printf ${n} >a`);
    }
    const seen: (string | null)[] = [];
    for (let n = 0; n < 3; n++) {
      expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
      seen.push(...files(story, 'a'));
    }
    expect(seen).toEqual(['2', '1', '0']);
    expect(await undo(story)).toBe('Nothing to undo.');
    for (let n = 0; n < 3; n++) {
      expect(await redo(story)).toBe('Redid the last turn.');
      seen.push(...files(story, 'a'));
    }
    expect(seen.slice(3)).toEqual(['1', '2', '4']);
    expect(await redo(story)).toBe('Nothing to redo.');
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
  });

  test('during a turn they answer that the turn must end, and change nothing', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await story.t('printf 1 >a');
    got(await story.session().beginCall('open'));
    const open = { available: false, reason: 'calls-in-flight', detail: 'Wait until the turn ends, then try again.' };
    expect(await story.session().undo()).toEqual(open);
    expect(await story.session().redo()).toEqual(open);
    expect(files(story, 'a')).toEqual(['1']);
  });

  test('where another server takes the thread, with the same data directory, undo and redo work there too', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a');
    await story.cp('m1');
    await story.t('printf 1 >a');
    await story.reopen();
    expect(await undo(story)).toBe('Undid the last turn. Files restored: 1.');
    await story.reopen();
    expect(await redo(story)).toBe('Redid the last turn.');
    expect(files(story, 'a')).toEqual(['1']);
  });

  test('threads of one name in two tenants are two sessions', async () => {
    await using story = await Story.begin(backend, 'printf 0 >a; printf 0 >b');
    const [one, two] = [undefined, 'acme'].map((tenantId) =>
      story.workspace.session({ threadId: 's1', ...(tenantId === undefined ? {} : { tenantId }) }),
    );
    if (one === undefined || two === undefined) throw new Error('no session');
    await story.cp('m1', { session: one });
    await story.turnOf(one, 'printf 1 >a');
    await story.cp('m1', { session: two });
    await story.turnOf(two, 'printf 1 >b');
    expect(got(await one.undo()).message).toBe('Undid the last turn. Files restored: 1.');
    expect(files(story, 'a', 'b')).toEqual(['0', '1']);
  });

  test('the project needs no git repository, and one that it has is never used', async () => {
    await using story = await Story.begin(backend, 'git init -q .; printf 0 >a; git add a; git commit -qm a');
    const git = story.space.sh('find .git -type f | sort | xargs sha256sum');
    await story.cp('m1');
    await story.t('printf 1 >a');
    await undo(story);
    await redo(story);
    expect(story.space.sh('find .git -type f | sort | xargs sha256sum')).toBe(git);
    await using plain = await Story.begin(backend, 'printf 0 >a');
    await plain.cp('m1');
    await plain.t('printf 1 >a');
    expect(await undo(plain)).toBe('Undid the last turn. Files restored: 1.');
    expect(plain.space.exists('.git')).toBe(false);
  });

  test('a boundary that is named must be known, also where the session has none, whether or not a call of it failed', async () => {
    await using story = await Story.begin(backend, 'echo 1 >f');
    await story.cp('a');
    const other = story.session('other');
    expect(await other.undo({ boundaryId: 'a' })).toMatchObject({ available: false, reason: 'no-checkpoint' });
    expect(await other.beginCall('c')).toMatchObject({ available: false, reason: 'no-checkpoint' });
    expect(await other.undo({ boundaryId: 'a' })).toMatchObject({ available: false, reason: 'no-checkpoint' });
    expect(got(await other.undo())).toMatchObject({ outcome: 'nothing', message: 'Nothing to undo.' });
  });
});
