/**
 * Watch mode of the native tree: a look within a turn goes where events tell, finds what a whole look would find, and is a
 * whole look in any doubt. Races are set up by what lies between two looks, not by time.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import type { BackendKind } from '../../src/backend/backend.ts';
import { describeBackends } from '../kit/backends.ts';
import { brief, newId, rel, TreeBench } from '../kit/tree-bench.ts';

/** Twenty folders of ten files, seen at a boundary and again once nothing of it is racy. */
const TREE = 'for d in $(seq 20); do mkdir -p d$d/in; for f in $(seq 10); do echo $d $f >d$d/in/f$f; done; done';
/** A look at less than this is not at the whole of it. */
const NAMES = 200;

async function watched(setup = TREE, options: Parameters<typeof TreeBench.open>[2] = {}): Promise<TreeBench> {
  const bench = await TreeBench.open('native', setup, options);
  expect(await bench.tree.watch()).toBeNull();
  await bench.observe('boundary');
  await settle(bench);
  await bench.observe('boundary');
  return bench;
}

async function settle(bench: TreeBench): Promise<void> {
  const { tickNs } = await bench.tree.abilities();
  const until = process.hrtime.bigint() + tickNs * 2n;
  while (process.hrtime.bigint() < until) await new Promise((resolve) => setImmediate(resolve));
}

/** What one look finds, and whether it was at the whole tree. */
async function found(bench: TreeBench): Promise<{ changes: Record<string, string>; whole: boolean }> {
  const { changes, scan } = await bench.observe();
  return { changes: brief(changes), whole: scan.counters.statCalls >= NAMES };
}

/** Nothing that a look at every byte would find was missed. */
async function nothingMissed(bench: TreeBench): Promise<void> {
  const { scan, changes } = await bench.look({ rehash: true });
  expect(brief(changes)).toEqual({});
  await bench.tree.discard(scan.set);
}

/** A program that waits for lines; answers one to each. */
class Helper {
  readonly #child;
  readonly #lines;

  constructor(program: string, args: readonly string[]) {
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async ask(line: string): Promise<string> {
    this.#child.stdin.write(`${line}\n`);
    return (await this.#lines.next()).value as string;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.stdin.end();
    await ended;
  }
}

describeBackends('watch', () => {
  test('a look where nothing happened stats next to nothing; a boundary looks everywhere', async () => {
    await using bench = await watched();
    const turn = await bench.observe();
    expect(turn.changes).toEqual([]);
    expect(turn.scan.files).toBe(200);
    expect(turn.scan.counters.statCalls).toBeLessThan(5);
    expect((await bench.observe('boundary')).scan.counters.statCalls).toBeGreaterThanOrEqual(NAMES);
  });

  test('each kind of change is found where it happened', async () => {
    await using bench = await watched();
    bench.space.sh(`echo changed >>d1/in/f1; rm d2/in/f2; mv d3/in/f3 d4/f3; chmod 600 d5/in/f5; ln -s x d6/link
        chmod 700 d7; mkfifo d8/pipe; rm -r d9; truncate -s 1 d10/in/f1; cp d11/in/f1 t; mv t d11/in/f1; rm d12/in/f1; mkdir d12/in/f1`);
    const { changes, whole } = await found(bench);
    expect(whole).toBe(false);
    expect(Object.keys(changes).filter((path) => !path.startsWith('d9'))).toEqual([
      'd1/in/f1',
      'd10/in/f1',
      'd12/in/f1',
      'd2/in/f2',
      'd3/in/f3',
      'd4/f3',
      'd5/in/f5',
      'd6/link',
      'd7',
      'd8/pipe',
    ]);
    expect(Object.keys(changes).filter((path) => path.startsWith('d9'))).toHaveLength(12);
    await nothingMissed(bench);
  });

  test('what came into a new folder before it had a watch is found, and what comes after', async () => {
    await using bench = await watched();
    bench.space.sh('mkdir -p new/a/b; echo 1 >new/a/b/f; mkdir new/empty');
    expect(Object.keys((await found(bench)).changes)).toEqual(['new', 'new/a', 'new/a/b', 'new/a/b/f', 'new/empty']);
    await settle(bench);
    await bench.observe();
    bench.space.sh('echo 2 >>new/a/b/f; echo 3 >new/empty/g');
    expect(await found(bench)).toEqual({
      changes: { 'new/a/b/f': 'file 644 2 → file 644 4', 'new/empty/g': 'absent → file 644 2' },
      whole: false,
    });
  });

  test('folders that come while a look is at them are missed by none: the watch is there before the names are read', async () => {
    await using bench = await watched();
    const writer = spawn(
      'bash',
      ['-c', 'for i in $(seq 400); do mkdir -p w/$((i % 7))/$i; echo $i >w/$((i % 7))/$i/f; done'],
      { cwd: bench.space.root, stdio: 'ignore' },
    );
    const ended = once(writer, 'exit');
    let looks = 0;
    while (writer.exitCode === null) {
      await bench.observe();
      looks += 1;
    }
    await ended;
    await bench.observe();
    expect(looks).toBeGreaterThan(1);
    await nothingMissed(bench);
  });

  test('what changes in a folder while it gets its watch is not missed: the watch is there before a name is looked at', async () => {
    await using bench = await TreeBench.open('native', 'mkdir d; cd d; for f in $(seq 4000); do : >f$f; done');
    await bench.observe('boundary');
    await settle(bench);
    await bench.observe();
    expect(await bench.tree.watch()).toBeNull();
    // Each file once, in an order that is not the look's: what the look misses stays missed.
    const edit = 'echo x >>d/f$((i * 1237 % 4000 + 1)); if [ $i = 200 ]; then echo begun; fi';
    const script = `for i in $(seq 4000); do ${edit}; done`;
    const writer = spawn('bash', ['-c', script], { cwd: bench.space.root, stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(writer, 'exit');
    await once(writer.stdout, 'data');
    await bench.observe();
    expect(writer.exitCode, 'the writer writes while the look is made').toBeNull();
    await ended;
    await bench.observe();
    await nothingMissed(bench);
  });

  test('a folder that moved is told of by its new name, and what stands at the old one by that', async () => {
    await using bench = await watched();
    bench.space.sh('mv d1 moved; mkdir -p d1/in');
    await bench.observe();
    bench.space.sh('echo x >moved/in/f1; echo y >d1/in/new');
    expect(await found(bench)).toEqual({
      changes: { 'd1/in/new': 'absent → file 644 2', 'moved/in/f1': 'file 644 4 → file 644 2' },
      whole: false,
    });
    await nothingMissed(bench);
  });

  test('two folders that changed places are told of by their new names', async () => {
    await using bench = await watched();
    bench.space.sh('mv d1 t; mv d2 d1; mv t d2; echo one >>d1/in/f1');
    await bench.observe();
    await nothingMissed(bench);
    bench.space.sh('echo two >>d2/in/f1');
    expect(Object.keys((await found(bench)).changes)).toEqual(['d2/in/f1']);
    await nothingMissed(bench);
  });

  test('a folder that left the tree is told of no more', async () => {
    await using bench = await watched();
    renameSync(join(bench.space.root, 'd1'), join(bench.space.base, 'out'));
    expect(Object.keys((await found(bench)).changes)).toHaveLength(12);
    writeFileSync(join(bench.space.base, 'out/in/f1'), 'outside');
    expect(await found(bench)).toEqual({ changes: {}, whole: false });
  });

  test('more events than the queue holds: the next look is a whole one, and misses nothing', async () => {
    const limit = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
    expect(limit, 'a queue that a test can fill').toBeLessThan(200_000);
    await using bench = await watched();
    const [one, other] = ['d1/in/f1', 'd1/in/f2'].map((name) => join(bench.space.root, name)) as [string, string];
    // Equal events in a row are one: two files take turns.
    for (let i = 0; i < limit; i += 2) {
      appendFileSync(one, 'x');
      appendFileSync(other, 'x');
    }
    bench.space.sh('echo last >d20/in/f10; echo new >d20/in/new');
    const { changes, whole } = await found(bench);
    expect(whole).toBe(true);
    expect(Object.keys(changes)).toEqual(['d1/in/f1', 'd1/in/f2', 'd20/in/f10', 'd20/in/new']);
    expect((await found(bench)).whole).toBe(false);
  });

  test('events of a look that was dropped, or that nobody read the files of, are not lost', async () => {
    await using bench = await watched();
    bench.space.sh('echo dropped >d1/in/f1; mkdir d2/new; echo x >d2/new/f');
    await bench.tree.discard((await bench.tree.scan()).set);
    const unread = await bench.tree.scan();
    expect(unread.suspects).toBe(2);
    await bench.commit(unread.set);
    const { changes } = await bench.observe();
    expect(brief(changes)).toEqual({ 'd1/in/f1': 'file 644 4 → file 644 8', 'd2/new/f': 'absent → file 644 2' });
  });

  test('a look that was cancelled loses nothing', async () => {
    await using bench = await watched();
    bench.space.sh('echo changed >d1/in/f1');
    const signal = AbortSignal.abort();
    await expect(bench.tree.scan({ signal })).rejects.toMatchObject({ code: 'ERR_CANCELLED' });
    expect(Object.keys((await found(bench)).changes)).toEqual(['d1/in/f1']);
  });

  test('a look at named paths takes no event from the next one', async () => {
    await using bench = await watched();
    bench.space.sh('echo a >d1/in/f1; echo b >d2/in/f1');
    const { changes } = await bench.observe('look', { only: [rel('d1/in/f1')] });
    expect(Object.keys(brief(changes))).toEqual(['d1/in/f1']);
    expect(Object.keys((await found(bench)).changes)).toEqual(['d2/in/f1']);
  });

  test('a file that is mapped for writing is looked at without an event, once a look has seen its writer', async () => {
    await using bench = await watched();
    const program = `import mmap, sys
f = open(sys.argv[1], 'r+b')
m = mmap.mmap(f.fileno(), 0)
f.close()
for line in sys.stdin:
    m[0:1] = line[0:1].encode()
    print('written', flush=True)`;
    await using helper = new Helper('python3', ['-c', program, join(bench.space.root, 'd1/in/f1')]);
    await helper.ask('a');
    // The event that a look needs once: any.
    bench.space.sh('touch d1/in/f1');
    expect(Object.keys((await found(bench)).changes)).toEqual(['d1/in/f1']);
    for (const letter of ['b', 'c']) {
      await helper.ask(letter);
      const { changes, whole } = await found(bench);
      expect([Object.keys(changes), whole]).toEqual([['d1/in/f1'], false]);
    }
  });

  test('a file with another name outside is looked at without an event', async () => {
    await using bench = await TreeBench.open('native', TREE);
    const outside = join(bench.space.base, 'outside');
    linkSync(join(bench.space.root, 'd1/in/f1'), outside);
    expect(await bench.tree.watch()).toBeNull();
    await bench.observe('boundary');
    await settle(bench);
    await bench.observe('boundary');
    // Nothing is racy any more.
    appendFileSync(outside, 'by another name');
    expect(await found(bench)).toEqual({ changes: { 'd1/in/f1': 'file 644 4 → file 644 19' }, whole: false });
  });

  test('a file that got a second name is a doubt: what is written by that changes both', async () => {
    await using bench = await watched();
    bench.space.sh('ln d1/in/f1 d2/second; echo more >>d2/second');
    const { changes, whole } = await found(bench);
    expect([Object.keys(changes), whole]).toEqual([['d1/in/f1', 'd2/second'], true]);
    await settle(bench);
    await bench.observe();
    bench.space.sh('echo more >>d2/second');
    expect(await found(bench)).toMatchObject({ changes: { 'd1/in/f1': expect.anything() }, whole: false });
  });

  test('a folder that a boundary takes out of coverage is told of no more, one that it takes in is', async () => {
    await using bench = await watched(`${TREE}; echo d2 >.gitignore`);
    bench.space.sh('echo d1 >.gitignore');
    await bench.observe('boundary');
    bench.space.sh('echo a >d1/in/f1; echo b >d2/in/f1; mkdir d1/x d2/x');
    expect(await found(bench)).toMatchObject({
      changes: { 'd2/in/f1': 'file 644 4 → file 644 2', 'd2/x': 'absent → dir 755' },
      whole: false,
    });
    await nothingMissed(bench);
  });

  test('rows of another process, and rules of its boundary, are looked at', async () => {
    await using bench = await watched();
    const { version } = { version: await bench.blob('theirs\n') };
    bench.space.sh('printf "theirs\\n" >d1/in/f1');
    await bench.observe();
    await bench.tree.catchUp([{ path: rel('d2/in/f1'), after: version }], { seq: 90, observationId: newId() });
    expect(Object.keys((await found(bench)).changes)).toEqual(['d2/in/f1']);
    const other = await bench.again('native');
    bench.space.sh('echo d3 >.gitignore');
    const { scan } = await other.look(await other.renew());
    const rules = (await other.tree.rules()) as Uint8Array;
    await other.tree.discard(scan.set);
    await other.close();
    await bench.tree.setRules(rules);
    expect((await bench.observe()).scan.counters.statCalls).toBeGreaterThan(NAMES / 2);
    await nothingMissed(bench);
  });

  test('what a restore of ours writes is looked at, and found as it is', async () => {
    await using bench = await watched();
    const before = await bench.version('d1/in/f1');
    bench.space.sh('echo agent >d1/in/f1; mkdir -p n/m; echo x >n/m/f');
    await bench.observe();
    const now = await bench.version('d1/in/f1');
    await bench.apply([{ path: rel('d1/in/f1'), expect: now, target: before }]);
    expect(await found(bench)).toEqual({ changes: { 'd1/in/f1': 'file 644 6 → file 644 4' }, whole: false });
    await nothingMissed(bench);
  });

  test('a root that was replaced is told; one that was moved away and back is looked at as a whole', async () => {
    await using bench = await watched();
    const away = join(bench.space.base, 'away');
    renameSync(bench.space.root, away);
    mkdirSync(bench.space.root);
    await expect(bench.tree.scan()).rejects.toMatchObject({ code: 'ERR_ROOT_CHANGED' });
    rmSync(bench.space.root, { recursive: true });
    writeFileSync(join(away, 'd1/in/f1'), 'meanwhile');
    renameSync(away, bench.space.root);
    const { changes, whole } = await found(bench);
    expect([Object.keys(changes), whole]).toEqual([['d1/in/f1'], true]);
  });

  test('anything that is mounted is a doubt', async (context) => {
    const mount = (...args: string[]): number | null => spawnSync('mount', args, { stdio: 'ignore' }).status;
    await using bench = await watched();
    const target = join(bench.space.root, 'd1/in');
    if (mount('-t', 'tmpfs', 'none', target) !== 0) return context.skip('mount is not permitted here');
    try {
      const { changes, whole } = await found(bench);
      expect(whole).toBe(true);
      expect(changes['d1/in']).toBe('dir 755 → mount');
    } finally {
      expect(spawnSync('umount', [target]).status).toBe(0);
    }
    await bench.observe();
    await nothingMissed(bench);
  });

  test('where no more folders may be watched, every look is a whole one, and watch says why', async (context) => {
    const program = `
        import { openWorkspace } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
        const workspace = await openWorkspace({ root: process.argv[1], dataDir: process.argv[2], backend: 'native', watch: true });
        const session = workspace.session({ threadId: 't' });
        const first = await session.capture('b');
        await session.beginCall('c');
        (await import('node:fs')).writeFileSync(process.argv[1] + '/d20/in/f1', 'changed');
        const { changes } = await session.endCall('c');
        const { capabilities } = await workspace.capabilities();
        await workspace.close();
        console.log(JSON.stringify({ complete: first.complete, changes: changes?.map((c) => c.path), watch: capabilities.watch }));`;
    const setLimit = 'echo 5 >/proc/sys/user/max_inotify_watches && exec "$@"';
    const unshared = (...args: string[]) =>
      spawnSync('unshare', ['-Ur', 'sh', '-c', setLimit, 'sh', ...args], { encoding: 'utf8' });
    if (unshared('true').status !== 0)
      return context.skip('user namespaces with limits of their own are not permitted here');
    await using bench = await TreeBench.open('native', TREE);
    const data = join(bench.space.base, 'limited');
    const { stdout, stderr } = unshared(process.execPath, '--input-type=module', '-e', program, bench.space.root, data);
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toMatchObject({ complete: true, changes: ['d20/in/f1'], watch: { on: false } });
  });
}, ['native']);

describeBackends('asking for a watch', (kind: BackendKind) => {
  test('the portable backend says that it looks everywhere; the native one watches, however often it is asked', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >f');
    const said = kind === 'native' ? null : 'the portable backend looks everywhere each time';
    expect([await bench.tree.watch(), await bench.tree.watch()]).toEqual([said, said]);
  });

  test('a workspace tells whether it watches', async () => {
    await using bench = await TreeBench.open(kind, 'echo 1 >f');
    const watch = async (options: { watch?: boolean }): Promise<unknown> => {
      const workspace = await bench.space.open(kind, options);
      const answer = await workspace.capabilities();
      return answer.available ? answer.capabilities.watch : answer;
    };
    if (kind === 'native') expect(await watch({})).toEqual({ on: false, why: 'it was not asked for (watch: true)' });
    // A second open of the root may ask for it.
    expect(await watch({ watch: true })).toMatchObject({ on: kind === 'native' });
  });
});
