/** Moves that content can't tell: an empty file, a binary file that changed, a text that became another one. */
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ChangeSummary, FileChangedEvent, PlanEntry } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';
import { contents, snapshot } from '../kit/tree.ts';

const lines = (changes: readonly ChangeSummary[]): string[] =>
  changes.map(({ kind, from, path }) => (kind === 'moved' ? `${from} → ${path}` : `${path} ${kind}`));

const links = (entries: readonly PlanEntry[]): string[] =>
  entries.map(({ path, movedFrom, movedTo }) => `${path} ${movedFrom ? `from ${movedFrom}` : `to ${movedTo}`}`);

const SETUP = "mkdir d; : >empty; printf '0\\0old' >bin; seq 9 >text; ln -s t link";
/** Each file at another place, and none of them like it was but the empty one and the link. */
const MOVES = "mv empty d/none; mv bin d/bin2; printf '1\\0new!' >d/bin2; mv text d/t; echo other >d/t; mv link d/l";
const MOVED = ['bin → d/bin2', 'link → d/l', 'empty → d/none', 'text → d/t'];

describeBackends('moves by inode', (backend) => {
  test('call, turn, step, diff and event tell one move each, and so they do in the next process', async () => {
    await using story = await Story.begin(backend, SETUP);
    const events: FileChangedEvent[] = [];
    story.workspace.on('fileChanged', (event) => events.push(event));
    const first = await story.cp('1');
    expect(lines(await story.t(MOVES))).toEqual(MOVED);
    expect(events.map(({ change, from, path }) => `${change} ${from} ${path}`)).toEqual(
      MOVED.map((move) => `moved ${move.replace(' →', '')}`),
    );
    const last = await story.cp('2');
    for (const reopened of [false, true]) {
      if (reopened) await story.reopen();
      const session = story.session();
      expect(lines(got(await session.turnChanges('1')).changes)).toEqual(MOVED);
      expect(got(await session.steps()).steps.map(({ files }) => lines(files))).toEqual([MOVED]);
      expect(lines(got(await session.diff(first.position)).files)).toEqual(MOVED);
      expect(lines(got(await session.diff(last.position, first.position)).files)).toEqual([
        'd/bin2 → bin',
        'd/none → empty',
        'd/l → link',
        'd/t → text',
      ]);
      expect(got(await session.timeline()).items[0]).toMatchObject({ files: { created: 0, modified: 4, deleted: 0 } });
    }
  });

  test('the patch is a rename that git apply takes, forward and back', async () => {
    await using story = await Story.begin(backend, SETUP);
    const copy = mkdtempSync(join(story.space.base, 'copy-'));
    story.space.sh(`cp -a . ${copy}/`);
    const { position } = await story.cp('1');
    await story.t(MOVES);
    const { patch, patchBytes } = got(await story.session().diff(position));
    expect(patch.match(/^rename from .*$/gm)).toEqual([
      'rename from bin',
      'rename from link',
      'rename from empty',
      'rename from text',
    ]);
    const file = join(story.space.base, 'patch');
    writeFileSync(file, patchBytes);
    const start = contents(snapshot(copy));
    execFileSync('git', ['apply', file], { cwd: copy });
    expect(contents(snapshot(copy))).toEqual(contents(snapshot(story.space.root)));
    execFileSync('git', ['apply', '-R', file], { cwd: copy });
    story.space.sh(`mkdir -p ${copy}/d`);
    expect(contents(snapshot(copy))).toEqual(start);
  });

  test('plan and receipt link the two entries; undo and redo move back and forth, and their events are moves too', async () => {
    await using story = await Story.begin(backend, SETUP);
    const before = contents(snapshot(story.space.root));
    await story.cp('1');
    await story.t(MOVES);
    const after = contents(snapshot(story.space.root));
    const events: string[] = [];
    story.workspace.on('fileChanged', ({ change, from, path }) => events.push(`${change} ${from} → ${path}`));
    const back = [
      'bin from d/bin2',
      'd/bin2 to bin',
      'd/l to link',
      'd/none to empty',
      'd/t to text',
      'empty from d/none',
      'link from d/l',
      'text from d/t',
    ];
    expect(links((await story.plan('1')).entries)).toEqual(back);
    const undone = got(await story.session().undo());
    expect(links(undone.receipt?.restored ?? [])).toEqual(back);
    expect(contents(snapshot(story.space.root))).toEqual(before);
    expect(events).toEqual(['d/bin2 → bin', 'd/none → empty', 'd/l → link', 'd/t → text'].map((m) => `moved ${m}`));
    await story.reopen();
    const redone = await story.redo();
    expect(links(redone.receipt?.restored ?? [])).toEqual(
      back.map((line) => (line.includes(' to ') ? line.replace(' to ', ' from ') : line.replace(' from ', ' to '))),
    );
    expect(contents(snapshot(story.space.root))).toEqual(after);
    expect(links((await story.plan('1')).entries), 'the copies that redo made are followed too').toEqual(back);
  });

  test('a file that moves on from call to call is one move of the turn, and one that comes back is none', async () => {
    await using story = await Story.begin(backend, ": >empty; printf '0\\0' >bin");
    await story.cp('1');
    await story.t('mv empty a; mv bin x', "printf '1\\0' >x; mv a b", 'mv b c; mv x bin', ': >empty');
    expect(lines(got(await story.session().turnChanges('1')).changes)).toEqual(['bin modified', 'c created']);
    await story.t('rm empty');
    expect(lines(got(await story.session().turnChanges('1')).changes)).toEqual(['bin modified', 'empty → c']);
  });

  test('a new file that gets the number of one that went is no move', async (context) => {
    await using story = await Story.begin(backend, ': >gone; echo 1 >also');
    await story.cp('1');
    const inode = (name: string): bigint => lstatSync(join(story.space.root, name), { bigint: true }).ino;
    const numbers = [inode('gone'), inode('also')];
    let made: string | undefined;
    const changes = await story.session().call('c', {}, () => {
      story.space.sh('rm gone also');
      for (let i = 0; i < 500 && made === undefined; i++) {
        const path = join(story.space.root, `new${i}`);
        writeFileSync(path, '');
        if (numbers.includes(inode(`new${i}`))) made = `new${i}`;
        else rmSync(path);
      }
    });
    if (made === undefined) return context.skip('this file system gave no number again in 500 files');
    expect(lines(got(changes.end).changes)).toEqual(['also deleted', 'gone deleted', `${made} created`]);
  });
});
