/**
 * Eight processes at once on one workspace, each of them killed and followed by another again and again. Calls that declare their paths:
 * every boundary restores its session's own state, and no lock is left. Without: what is contested is refused, nothing is lost.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { sized } from './kit/tools.ts';

const PROGRAM = fileURLToPath(new URL('kit/turns.mjs', import.meta.url));
const PROCESSES = 8;
const TURNS = { declared: sized(25, 1_000), undeclared: sized(6, 1_000) };
/** A process is killed about that often, turns. */
const TURNS_A_LIFE = 8;

interface Boundary {
  readonly boundary: string;
  readonly content: string | null;
}

interface Lived {
  readonly boundaries: readonly Boundary[];
  readonly turns: number;
  readonly faults: readonly string[];
}

/** One process until it ends, or is killed right after a boundary was answered or a while later. */
async function live(
  open: object,
  how: { name: string; prefix: string; turns: number; declared: boolean; kill: boolean },
): Promise<Lived> {
  const { kill, ...rest } = how;
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify({ open, ...rest })], { stdio: 'pipe' });
  const boundaries: Boundary[] = [];
  const faults: string[] = [];
  const fatal = Math.floor(Math.random() * 2 * TURNS_A_LIFE);
  let turns = 0;
  let text = '';
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (more: string) => (errors += more));
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    const lines = (text + more).split('\n');
    text = lines.pop() as string;
    for (const line of lines.map((whole) => JSON.parse(whole))) {
      if (line.fault !== undefined) faults.push(line.fault);
      if (line.boundary !== undefined) boundaries.push(line);
      if (line.done !== undefined) turns += 1;
      if (kill && boundaries.length > fatal) setTimeout(() => child.kill('SIGKILL'), Math.random() * 20);
    }
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  if (code !== null && code !== 0) faults.push(`exit ${code}: ${errors}`);
  return { boundaries, turns, faults };
}

/** All lives of a session, until it has done its turns. */
async function session(
  open: object,
  name: string,
  options: { turns: number; declared: boolean },
): Promise<Lived & { kills: number }> {
  const boundaries: Boundary[] = [];
  const faults: string[] = [];
  let turns = 0;
  let lives = 0;
  while (turns < options.turns && faults.length === 0) {
    const left = options.turns - turns;
    const lived = await live(open, { ...options, name, prefix: `${lives++}-`, turns: left, kill: lives % 4 !== 0 });
    boundaries.push(...lived.boundaries);
    faults.push(...lived.faults);
    turns += lived.turns;
  }
  return { boundaries, faults, turns, kills: lives - 1 };
}

const names = Array.from({ length: PROCESSES }, (_, i) => `p${i}`);

describeBackends('load', (backend) => {
  test(`${PROCESSES} processes × ${TURNS.declared} turns with kills, paths declared: every boundary restores its own state`, async () => {
    await using space = new Space();
    space.write('shared', 'nobody writes this\n');
    const open = { root: space.root, dataDir: space.dataDir, backend, durability: 'fast' };
    const lived = await Promise.all(
      names.map((name) => session(open, name, { turns: TURNS.declared, declared: true })),
    );
    expect(lived.flatMap(({ faults }) => faults)).toEqual([]);
    const kills = lived.reduce((sum, { kills: more }) => sum + more, 0);
    const workspace = await space.open(backend);
    const started = Date.now();
    got(await workspace.session({ threadId: 'after' }).capture('a'));
    expect(Date.now() - started, 'no lock is left').toBeLessThan(10_000);
    const wrong: string[] = [];
    let checked = 0;
    for (const [i, name] of names.entries()) {
      const on = workspace.session({ threadId: name });
      for (const { boundary, content } of (lived[i] as Lived).boundaries.toReversed()) {
        // A call whose process died is incomplete: only overwrite takes it back.
        const answer = await on.restore(boundary, { onConflict: 'overwrite' });
        const now = space.bytes(`${name}.txt`);
        if (!answer.available || now !== content)
          wrong.push(`${name} ${boundary}: ${now} for ${content}: ${answer.available ? '' : answer.detail}`);
        checked += 1;
      }
    }
    console.info(`${backend}: ${PROCESSES} × ${TURNS.declared} turns, ${kills} kills, ${checked} boundaries restored`);
    expect(wrong).toEqual([]);
    expect(kills).toBeGreaterThan(0);
    expect(space.read('shared')).toBe('nobody writes this\n');
    expect(got(await workspace.verify())).toMatchObject({ ok: true, problems: [] });
    await workspace.close();
  });

  test(`${PROCESSES} processes × ${TURNS.undeclared} turns with kills, nothing declared: contested, refused, nothing lost`, async () => {
    await using space = new Space();
    const open = { root: space.root, dataDir: space.dataDir, backend, durability: 'fast' };
    const lived = await Promise.all(
      names.map((name) => session(open, name, { turns: TURNS.undeclared, declared: false })),
    );
    expect(lived.flatMap(({ faults }) => faults)).toEqual([]);
    const before = names.map((name) => space.read(`${name}.txt`));
    const workspace = await space.open(backend);
    const reasons: Record<string, number> = {};
    for (const [i, name] of names.entries()) {
      const first = (lived[i] as Lived).boundaries[0] as Boundary;
      const receipt = got(await workspace.session({ threadId: name }).restore(first.boundary));
      for (const { reason = '' } of receipt.refused) reasons[reason] = (reasons[reason] ?? 0) + 1;
      // What it may take back is its own file alone; all others stay as they are.
      for (const { path } of receipt.restored) expect(path).toBe(`${name}.txt`);
      for (const [k, other] of names.entries())
        if (k > i) expect(space.read(`${other}.txt`), `${name} leaves ${other}`).toBe(before[k]);
    }
    console.info(`${backend}: undeclared, refused: ${JSON.stringify(reasons)}`);
    expect(reasons.contested ?? 0).toBeGreaterThan(0);
    expect(got(await workspace.verify())).toMatchObject({ ok: true, problems: [] });
    await workspace.close();
  });
});
