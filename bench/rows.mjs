/**
 * What is measured: what a host waits for. Each row checks its answer; `against` are floors (`floor …`) and peers, which
 * answer their milliseconds.
 */
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { available, bytesBelow, check, TICK_MS } from './stage.mjs';

/** Tries of what changes nothing: the least of them counts. */
const REPEATS = 3;

const withFloor = (stage, name, run) => (stage.floors === null ? {} : { [`floor ${name}`]: run });
const withPeer = (stage, name, run) => (stage.peers === null ? {} : { [name]: run });

function scanFloor(stage) {
  return withFloor(stage, 'scan', () => stage.floors.run('scan').ms);
}

function shadow(stage) {
  // On a large tree there is none.
  if (stage.peers?.shadowCapture === undefined) return {};
  return withPeer(stage, 'shadow git', () => stage.peers.shadowCapture());
}

export function callRows(stage, session) {
  let id = '';
  const begin = async () => {
    id = stage.nextId();
    const answer = available(await session.beginCall(id));
    check('files looked at', answer.scannedFiles, stage.tree.files);
  };
  const end = async () => {
    check('changes', available(await session.endCall(id)).changes.length, 0);
  };
  return [
    {
      name: 'begin of a call',
      least: REPEATS,
      work: begin,
      after: end,
      against: { ...scanFloor(stage), ...withPeer(stage, 'git status', () => stage.peers.status()) },
    },
    { name: 'end of a call, nothing changed', least: REPEATS, before: begin, work: end, against: scanFloor(stage) },
  ];
}

/** Ends of calls where events tell where to look; with nothing changed, and with 100 files. */
export function watchRows(stage, session) {
  const row = (name, count, tries) => {
    let id = '';
    return {
      name: `watched: end of a call, ${name} changed`,
      ...tries,
      before: async () => {
        id = stage.nextId();
        available(await session.beginCall(id));
        if (count > 0) await stage.edit(count);
      },
      work: async () => check('changes', available(await session.endCall(id)).changes.length, count),
      against: scanFloor(stage),
    };
  };
  return [row('nothing', 0, { least: REPEATS }), row('100', 100, {})];
}

function capture(stage, session) {
  return async () => {
    const answer = available(await session.capture(stage.nextId()));
    check('files looked at', answer.scannedFiles, stage.tree.files);
    return answer;
  };
}

function changedFloor(stage, { scans, files }) {
  const options = ['--scans', `${scans}`, '--out', join(stage.scratch, 'appended')];
  return withFloor(stage, 'changed', () => stage.floors.run('changed', { files: files(), options }).ms);
}

export function captureRows(stage, session) {
  const take = capture(stage, session);
  const changed = (count) => {
    let names = [];
    return {
      name: `capture, ${count} changed`,
      round: async () => {
        names = await stage.edit(count);
      },
      work: async () => check('files stored', (await take()).storedFiles, count),
      against: { ...changedFloor(stage, { scans: 1, files: () => names }), ...shadow(stage) },
    };
  };
  return [
    {
      name: 'capture, nothing changed',
      least: REPEATS,
      work: take,
      against: { ...scanFloor(stage), ...shadow(stage) },
    },
    changed(1),
    changed(100),
  ];
}

/** Begin and end of a call that changed 100 files; what the tool does in between is not timed. */
export function bracketRow(stage, session) {
  let names = [];
  let spent = 0;
  return {
    name: 'begin and end of a call, 100 changed',
    work: async () => {
      const id = stage.nextId();
      const began = performance.now();
      available(await session.beginCall(id));
      spent = performance.now() - began;
      names = await stage.edit(100);
      const ending = performance.now();
      check('changes', available(await session.endCall(id)).changes.length, 100);
      spent += performance.now() - ending;
      return spent;
    },
    against: changedFloor(stage, { scans: 2, files: () => names }),
  };
}

/** A first capture in each round, in a store of its own. `stored`: what it must store, where that is known. */
function openedEachTime(stage, stored) {
  let at;
  const dirs = [];
  return {
    before: async () => {
      at = await stage.open();
      dirs.push(at.dataDir);
    },
    work: async () => {
      const { storedFiles } = await capture(stage, at.session)();
      if (stored !== undefined) check('files stored', storedFiles, stored);
    },
    after: () => at.workspace.close(),
    // Deleted at the end: a file system searches past inodes that were just freed, and would slow the next round down.
    clean: () => {
      for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Without the peers' repository: nothing can be borrowed from it. */
export function firstRow(stage) {
  const opened = openedEachTime(stage);
  return {
    ...opened,
    name: 'first capture',
    before: async () => {
      hideGit(stage);
      await opened.before();
    },
    after: async () => {
      await opened.after();
      showGit(stage);
    },
    against: {
      ...withFloor(stage, 'capture', () => {
        return stage.floors.run('capture', { options: ['--out', join(stage.scratch, 'appended')] }).ms;
      }),
      ...withPeer(stage, 'shadow git', () => stage.peers.shadowFirst()),
    },
  };
}

function hideGit({ root, scratch, peers }) {
  if (peers !== null) renameSync(join(root, '.git'), join(scratch, 'hidden.git'));
}

function showGit({ root, scratch, peers }) {
  if (peers !== null) renameSync(join(scratch, 'hidden.git'), join(root, '.git'));
}

/** Captures until all bytes are in the store, and nothing is younger than a tick: what warm rows begin from. */
export async function warmUp(stage, session) {
  // With git's objects standing for files, the first edit of each would store what it replaced, too.
  hideGit(stage);
  available(await session.capture('start'));
  showGit(stage);
  await pause(TICK_MS);
  available(await session.capture('settled'));
}

/** Nothing is read: git's objects stand for the files. */
export function borrowRow(stage) {
  return {
    name: 'first capture, clean git worktree',
    start: async () => {
      stage.peers.commitPacked();
      await pause(TICK_MS);
    },
    ...openedEachTime(stage, 0),
    against: scanFloor(stage),
  };
}

const MANY = 1_000;

/** A turn that changed many files in one call, captured before. */
async function changeMany(stage, session) {
  available(await session.capture(stage.nextId()));
  const boundary = `id-${stage.calls}`;
  const call = stage.nextId();
  available(await session.beginCall(call));
  const names = await stage.edit(MANY);
  check('files changed', available(await session.endCall(call)).changes.length, MANY);
  return { names, boundary };
}

export function planRow(stage, session) {
  let boundary = '';
  return {
    name: `plan of ${MANY} changed files`,
    least: REPEATS,
    start: async () => {
      ({ boundary } = await changeMany(stage, session));
    },
    work: async () => check('entries', available(await session.plan(boundary)).entries.length, MANY),
    against: scanFloor(stage),
  };
}

export function undoRow(stage, session) {
  let names = [];
  return {
    name: `undo of ${MANY} files`,
    round: async () => {
      ({ names } = await changeMany(stage, session));
    },
    work: async () => check('files restored', available(await session.undo()).receipt.restored.length, MANY),
    against: {
      ...withFloor(stage, 'restore', () => stage.floors.run('restore', { files: names }).ms),
      ...withPeer(stage, 'git checkout', () => stage.peers.checkout()),
    },
  };
}

const CAPTURES = 50;
const CHANGED_CAPTURES = 5;

/** What work adds to a store that is closed before and after, a capture on average: a log of the database is no growth. */
async function growth(stage, dataDir, { times, work }) {
  const before = bytesBelow(dataDir);
  const { workspace, session } = await stage.reopen(dataDir);
  for (let i = 0; i < times; i += 1) await work(session);
  const running = bytesBelow(dataDir) - before;
  await workspace.close();
  return { bytes: (bytesBelow(dataDir) - before) / times, running };
}

/** Bytes of the store: not timed, and the same at each run. */
export async function storeSizes(stage) {
  const { workspace, session, dataDir } = await stage.open();
  const options = ['--out', join(stage.scratch, 'appended')];
  const frames = (files) => stage.floors.run('changed', { files, options }).bytes;
  try {
    hideGit(stage);
    await capture(stage, session)().finally(() => showGit(stage));
    await workspace.close();
    const first = bytesBelow(dataDir);
    await growth(stage, dataDir, { times: 1, work: (again) => capture(stage, again)() });
    const nothing = await growth(stage, dataDir, { times: CAPTURES, work: (again) => capture(stage, again)() });
    let changedFloorBytes = stage.floors === null ? null : 0;
    const changed = await growth(stage, dataDir, {
      times: CHANGED_CAPTURES,
      work: async (again) => {
        const edited = await stage.edit(100);
        await capture(stage, again)();
        if (changedFloorBytes !== null) changedFloorBytes += frames(edited) / CHANGED_CAPTURES;
      },
    });
    return {
      firstBytes: first,
      firstFloorBytes: stage.floors === null ? null : stage.floors.run('capture', { options }).bytes,
      nothingBytes: nothing.bytes,
      runningBytes: nothing.running,
      captures: CAPTURES,
      changedBytes: changed.bytes,
      changedFloorBytes,
    };
  } finally {
    await workspace.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** The longest that one call held the JS thread, milliseconds, by a loop that should come round without a pause. */
export async function longestBlock(stage, session) {
  let longest = 0;
  let last = performance.now();
  let on = true;
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (on) setImmediate(tick);
  };
  await pause(TICK_MS);
  last = performance.now();
  setImmediate(tick);
  const held = [];
  for (let i = 0; i < 15; i += 1) {
    longest = 0;
    const id = stage.nextId();
    available(await session.beginCall(id));
    available(await session.endCall(id));
    held.push(longest);
  }
  on = false;
  return held;
}
