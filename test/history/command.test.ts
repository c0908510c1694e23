/** The command's part of the history: log, undo n, revert, unrevert, export, on the real engine. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import type { Host } from '../../src/cli/host.ts';
import { main } from '../../src/cli/program.ts';
import { openWorkspace } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { got, Story } from '../kit/story.ts';

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly questions: readonly string[];
}

interface Asked {
  readonly interactive?: boolean;
  readonly confirm?: boolean;
  readonly choose?: readonly number[];
  /** Happens between the question and the answer. */
  readonly answered?: () => void;
}

async function takeback(story: Story, argv: readonly string[], asked: Asked = {}): Promise<Ran> {
  const out: string[] = [];
  const err: string[] = [];
  const questions: string[] = [];
  const { root, dataDir } = story.space;
  const host: Host = {
    stdout: { write: (chunk) => out.push(Buffer.from(chunk).toString()) },
    stderr: { write: (chunk) => err.push(Buffer.from(chunk).toString()) },
    interactive: asked.interactive ?? false,
    env: {},
    cwd: root,
    now: Date.now,
    open: openWorkspace,
    confirm: async (question) => {
      questions.push(question);
      asked.answered?.();
      return asked.confirm ?? true;
    },
    choose: async (question, choices) => {
      questions.push(question, ...choices);
      return asked.choose ?? null;
    },
  };
  const options = ['--data-dir', dataDir, '--session', 's1', '--backend', story.backend];
  const code = await main(host, [...options, ...argv], '0.0.0');
  return { code, stdout: out.join(''), stderr: err.join(''), questions };
}

/** Three turns; the second has two steps. */
async function begin(backend: BackendKind): Promise<Story> {
  const story = await Story.begin(backend, 'printf "0\\n" >a; printf "gone\\n" >gone');
  const session = story.session();
  await story.cp('m1', { label: 'first' });
  await story.t('printf "1\\n" >a');
  await story.cp('m2');
  for (const n of [2, 3]) {
    got(await session.beginCall(`c${n}`, { stepId: `step-${n}` }));
    story.space.sh(`printf "${n}\\n" >a; printf "${n}\\n" >new`);
    got(await session.endCall(`c${n}`));
  }
  await story.cp('m3');
  await story.t('rm gone');
  return story;
}

/** Without the times. */
function table(stdout: string): string[] {
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) =>
      line
        .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/, '')
        .replace(/ {2,}/g, ' | ')
        .trim(),
    );
}

describeBackends('history by command', (backend) => {
  test('log lists turns, newest last, with files and lines, and says what is undone or reverted', async () => {
    await using story = await begin(backend);
    expect(table((await takeback(story, ['log'])).stdout)).toEqual([
      'BOUNDARY | STARTED | CHANGED | STATE | LABEL',
      'm1 | 1 file (+1 -1 lines) | first',
      'm2 | 2 files (+2 -1 lines)',
      'm3 | 1 file (+0 -1 lines)',
    ]);
    await takeback(story, ['undo']);
    expect(table((await takeback(story, ['log'])).stdout).slice(3)).toEqual([
      'm3 | 1 file (+0 -1 lines) | undone',
      '| undo | 1 file restored | done | m3',
    ]);
    await takeback(story, ['redo']);
    await takeback(story, ['revert', 'm2']);
    expect(table((await takeback(story, ['log'])).stdout).slice(2)).toEqual([
      'm2 | 2 files (+2 -1 lines) | reverted',
      'm3 | 1 file (+0 -1 lines) | reverted',
      '| undo | 1 file restored | done, taken back | m3',
      '| redo | 1 file restored | done | m3',
      '| revert | 3 files restored | done | m2',
    ]);
  });

  test('undo 3 takes back three turns, redo 3 brings them again', async () => {
    await using story = await begin(backend);
    expect((await takeback(story, ['undo', '3'])).code).toBe(0);
    expect(story.space.sh('cat a; ls')).toBe('0\na\ngone\n');
    expect((await takeback(story, ['redo', '3'])).code).toBe(0);
    expect(story.space.sh('cat a; ls')).toBe('3\na\nnew\n');
    expect(await takeback(story, ['undo', '9'])).toMatchObject({ code: 0 });
    expect(await takeback(story, ['undo'])).toMatchObject({ code: 1, stdout: 'Nothing to undo.\n' });
  });

  test('revert goes back to a boundary or a step, undo then names the remedy, unrevert brings it back', async () => {
    await using story = await begin(backend);
    const reverted = await takeback(story, ['revert', 'step-2']);
    expect(reverted).toMatchObject({ code: 0, stderr: '' });
    expect(reverted.stdout.split('\n')[0]).toBe('Went back to the message. Files restored: 3.');
    expect(story.space.sh('cat a new; ls')).toBe('2\n2\na\ngone\nnew\n');
    expect(await takeback(story, ['undo'])).toMatchObject({
      code: 1,
      stderr: 'takeback: A revert stands. Run unrevert, or send a prompt, first. (revert-stands)\n',
    });
    const back = JSON.parse((await takeback(story, ['unrevert', '--json'])).stdout);
    expect(back).toMatchObject({
      available: true,
      message: 'Took the revert back. Files restored: 3.',
      outcome: 'done',
    });
    expect(story.space.sh('cat a new; ls')).toBe('3\n3\na\nnew\n');
    expect(await takeback(story, ['unrevert'])).toMatchObject({ code: 1, stdout: 'Nothing to unrevert.\n' });
  });

  test('on a terminal revert and unrevert list what they touch and ask; no, or --dry-run, changes nothing', async () => {
    await using story = await begin(backend);
    const asked = await takeback(story, ['revert', 'm2'], { interactive: true, confirm: false });
    expect(asked.questions).toEqual(['Revert to m2?']);
    expect(asked.stdout).toContain('3 paths would be written:');
    const step = await takeback(story, ['revert', 'step-2'], { interactive: true, confirm: false });
    expect(table(step.stdout)).toEqual([
      '3 paths would be written:',
      '| restore | a',
      '| recreate gone',
      '| restore | new',
      'Nothing was changed.',
    ]);
    expect((await takeback(story, ['revert', 'm2', '--dry-run'])).code).toBe(0);
    expect(story.space.sh('ls')).toBe('a\nnew\n');
    await takeback(story, ['revert', 'm2', '--yes'], { interactive: true });
    const un = await takeback(story, ['unrevert'], { interactive: true, confirm: false });
    expect(un.stdout).toContain('3 paths would be written:\n');
    expect([un.questions, un.stdout.endsWith('Nothing was changed.\n')]).toEqual([['Unrevert?'], true]);
    expect(JSON.parse((await takeback(story, ['unrevert', '--dry-run', '--json'])).stdout)).toMatchObject({
      dryRun: true,
      unrevert: { boundaryId: 'm2', plan: { entries: [{ path: 'a' }, { path: 'gone' }, { path: 'new' }] } },
    });
    expect(story.space.sh('ls')).toBe('a\ngone\n');
  });

  test('a message that is unknown ends with 1 and says where the names are', async () => {
    await using story = await begin(backend);
    for (const asked of [{}, { interactive: true }]) {
      const run = await takeback(story, ['revert', 'nothing'], asked);
      expect(run.code).toBe(1);
      expect(run.stderr).toContain(
        '"nothing" (unknown-boundary)\n`takeback log` lists the boundaries, `takeback log --calls` the calls too.',
      );
      expect(run.questions).toEqual([]);
    }
  });

  test('revert-turn and revert-call take back one, keep what came later, and redo brings them again', async () => {
    await using story = await begin(backend);
    expect(JSON.parse((await takeback(story, ['revert-call', 'c2', '--dry-run', '--json'])).stdout)).toMatchObject({
      callId: 'c2',
      revertCall: {
        plan: {
          entries: [
            { path: 'a', action: 'refuse' },
            { path: 'new', action: 'refuse' },
          ],
        },
      },
    });
    const clash = await takeback(story, ['revert-call', 'c2']);
    expect([clash.code, story.space.sh('cat a new')]).toEqual([3, '3\n3\n']);
    const asked = await takeback(story, ['revert-turn', 'm3'], { interactive: true });
    expect(asked.questions).toEqual(['Take turn m3 back?']);
    expect(table(asked.stdout).slice(0, 3)).toEqual([
      '1 path would be written:',
      '| recreate gone',
      'Undid the turn. Files restored: 1.',
    ]);
    expect(story.space.sh('ls; cat a')).toBe('a\ngone\nnew\n3\n');
    expect((await takeback(story, ['redo'])).code).toBe(0);
    expect(story.space.sh('ls')).toBe('a\nnew\n');
    expect(await takeback(story, ['revert-call', 'none'])).toMatchObject({ code: 1 });
  });

  test('restore --hunks puts back those that were picked; what changed since the list is stale', async () => {
    await using story = await Story.begin(backend, 'seq 1 9 >f');
    await story.cp('m1');
    await story.t("sed -i 's/^2$/two/; 8a x' f");
    const picked = await takeback(story, ['restore', 'm1', 'f', '--hunks'], { interactive: true, choose: [0] });
    expect(picked).toMatchObject({ code: 0, stderr: '' });
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,8,x,9\n');
    const plan = JSON.parse((await takeback(story, ['plan', 'm1', '--hunks', '--json'])).stdout);
    const [{ id, lines }] = plan.entries[0].hunks;
    expect(lines).toEqual(['-x']);
    story.u('echo more >>f');
    expect(await takeback(story, ['restore', 'm1', '--hunks', id])).toMatchObject({ code: 3 });
    expect(story.space.sh('paste -sd, f')).toBe('1,2,3,4,5,6,7,8,x,9,more\n');
  });

  test('what was confirmed is what is done: a change between the list and the answer makes it stale', async () => {
    await using story = await begin(backend);
    const run = await takeback(story, ['undo'], { interactive: true, answered: () => story.u('echo mine >gone') });
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('(stale-plan)');
    expect(story.space.sh('cat gone')).toBe('mine\n');
  });

  test('export writes the tree of a boundary into an empty folder, and refuses another', async () => {
    await using story = await begin(backend);
    const target = join(story.space.base, 'out');
    expect(await takeback(story, ['export', 'm2', '../out'])).toMatchObject({
      code: 0,
      stdout: `Wrote 2 files to ${target}.\n`,
    });
    expect(story.space.sh(`cat ${target}/a; ls ${target}`)).toBe('1\na\ngone\n');
    const again = await takeback(story, ['export', 'm2', target]);
    expect([again.code, again.stderr]).toEqual([
      2,
      `takeback: targetDir must be empty: ${target} (ERR_INVALID_ARGUMENT)\n`,
    ]);
    expect((await takeback(story, ['export', 'none', join(story.space.base, 'out2')])).code).toBe(1);
  });
});
