/** The first bar: a turn of 100 shell edits in a git repository of 10,000 files, undone and redone exactly. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';
import { contents, inGit, snapshot } from '../kit/tree.ts';

const FILES = 10_000;
const FOLDERS = 500;

function fill(root: string): void {
  for (let d = 0; d < FOLDERS; d++) mkdirSync(join(root, `src${d % 10}`, `d${d}`), { recursive: true });
  for (let i = 0; i < FILES; i++) {
    const d = i % FOLDERS;
    writeFileSync(
      join(root, `src${d % 10}`, `d${d}`, `f${i}.ts`),
      `export const value${i} = ${i};\n`.repeat(1 + (i % 40)),
    );
  }
}

/** 100 commands of ten kinds, each in folders of its own. */
function edits(): string[] {
  return Array.from({ length: 100 }, (_, n) => {
    const dir = `src${n % 10}/d${n}`;
    const file = `${dir}/f${n}.ts`;
    const kinds = [
      `sed -i 's/value/other/' ${dir}/*.ts`,
      `echo '// more' >> ${file}`,
      `rm ${file}`,
      `mv ${file} ${dir}/moved-${n}.ts`,
      `chmod 755 ${file}`,
      `rm ${file}; ln -s f${n + FOLDERS}.ts ${file}`,
      `mkdir -p ${dir}/new/deep; echo x > ${dir}/new/deep/n.txt`,
      `rm -r ${dir}`,
      `mkdir ${dir}/empty; truncate -s 3 ${file}`,
      `cp ${file} ${dir}/copy.ts; printf 'bin\\0ary' > ${dir}/b.bin`,
    ];
    return kinds[Math.floor(n / 10)] as string;
  });
}

describeBackends('a turn of 100 shell edits in a git repository of 10,000 files', (backend) => {
  test('is undone and redone exactly, and the repository’s .git stays byte-identical', {
    timeout: 240_000,
  }, async () => {
    await using story = await Story.begin(
      backend,
      'git init -q; git config gc.auto 0; git config maintenance.auto false',
    );
    fill(story.space.root);
    story.space.sh('git add -A; git commit -qm all; git status --porcelain');
    const gitBefore = contents(snapshot(join(story.space.root, '.git')));
    const before = contents(snapshot(story.space.root, inGit));

    const captured = await story.cp('b1');
    expect(captured.scannedFiles).toBe(FILES);
    expect(captured.uncovered).toEqual([]);
    const session = story.session();
    for (const [n, command] of edits().entries()) {
      got(await session.beginCall(`c${n}`, { tool: 'bash' }));
      story.space.sh(command);
      got(await session.endCall(`c${n}`));
    }
    const after = contents(snapshot(story.space.root, inGit));
    expect(after).not.toEqual(before);

    const undone = await session.undo();
    expect(undone).toMatchObject({ available: true, outcome: 'done' });
    expect(contents(snapshot(story.space.root, inGit))).toEqual(before);
    expect(await session.redo()).toMatchObject({ available: true, outcome: 'done', message: 'Redid the last turn.' });
    expect(contents(snapshot(story.space.root, inGit))).toEqual(after);
    expect(await session.undo()).toMatchObject({ available: true, outcome: 'done' });
    expect(contents(snapshot(story.space.root, inGit))).toEqual(before);
    expect(contents(snapshot(join(story.space.root, '.git')))).toEqual(gitBefore);
  });
});
