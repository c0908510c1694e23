/**
 * The guard: moves one name from an expected version to a target without ever destroying bytes that somebody else wrote.
 *
 * Node has neither atomic exchange nor leases, so this is the rung `take-out+link` of DESIGN §7: hash what is there;
 * rename it aside; look at what came out, which is what counts; link the new inode in, which fails where somebody took the
 * name meanwhile; look a second time at what came out (a writer may have had it open); walk to the folder again. Whatever
 * is not as expected is put back, without replacing. The name is absent for a moment; readers see ENOENT.
 *
 * What came out stays in its place aside. Not covered: a store through a mapping that outlives the second look; it lands
 * in the kept inode, and is found when the trash is emptied.
 */
import { closeSync, fstatSync, lstatSync, readdirSync } from 'node:fs';
import { encodeName } from '../../rel-path.ts';
import type { Version } from '../../types.ts';
import { sameVersion } from '../../wire.ts';
import { errnoOf } from './faults.ts';
import { type LookOptions, lookAtFile, observe, openFile, type Seen } from './observe.ts';
import type { Folder, FolderId, Walker } from './resolve.ts';
import { asStop, refusedFor, Stop } from './stop.ts';
import type { Syscalls } from './syscalls.ts';

/** A name in an open folder. */
export interface Spot {
  readonly folder: Folder;
  readonly leaf: Buffer;
}

/** What is to stand at the name: an inode that has another name now, or a symlink to be made. */
export type Supply =
  | { readonly kind: 'inode'; readonly spot: Spot; readonly id: FolderId }
  | { readonly kind: 'symlink'; readonly target: string; readonly spot: Spot };

export interface Hand {
  readonly walker: Walker;
  readonly look: LookOptions;
  readonly sys: Syscalls;
}

export interface Move {
  readonly at: Spot;
  readonly expect: Version;
  readonly target: Version;
  /** Null: nothing is to stand there. Its spot also takes what we put in, should that have to come out again. */
  readonly supply: Supply | null;
  /** A free name for what comes out, on the same mount. */
  readonly aside: Spot;
}

export function nameOf(spot: Spot): Buffer {
  return spot.folder.at(spot.leaf);
}

function isThere(name: Buffer): boolean {
  return lstatSync(name, { throwIfNoEntry: false }) !== undefined;
}

/**
 * Gives a thing back its name, if that is free. Answers whether it was. By link, which never replaces; a folder, or
 * something that this user may not link, is renamed onto an empty thing of ours that reserves the name.
 */
export function putBack(hand: Hand, from: Spot, to: Spot): boolean {
  const [source, name] = [nameOf(from), nameOf(to)];
  try {
    if (lstatSync(source).isDirectory()) {
      hand.sys.mkdir(name);
      hand.sys.rename(source, name);
      return true;
    }
    try {
      hand.sys.link(source, name);
    } catch (error) {
      if (errnoOf(error) === 'EEXIST' || errnoOf(error) === 'ENOENT') throw error;
      closeSync(hand.sys.create(name));
      hand.sys.rename(source, name);
      return true;
    }
    hand.sys.unlink(source);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Says where a thing stayed that could not go back. */
function keptAs(spot: Spot): string {
  return `what was there is kept as ${spot.leaf.toString()} in the trash`;
}

function returnOrKeep(hand: Hand, move: Move): string | undefined {
  return putBack(hand, move.aside, move.at) ? undefined : keptAs(move.aside);
}

/** Throws where a thing is not as expected. A folder must be empty, too: what is in it would go with it. */
function check(name: Buffer, seen: Seen, expect: Version): void {
  if (!sameVersion(seen.version, expect)) throw refusedFor(seen.version);
  if (expect.kind === 'dir' && readdirSync(name).length > 0) throw new Stop('refused', 'not-empty');
}

/** The same stop, with a word on where the thing stayed that could not go back. */
function withDetail(stop: Stop, detail: string | undefined): Stop {
  if (detail === undefined) return stop;
  const both = stop.message === '' ? detail : `${stop.message}; ${detail}`;
  return new Stop(stop.status, stop.reason, {
    detail: both,
    ...(stop.found === undefined ? {} : { found: stop.found }),
  });
}

/** Moves what is at the name aside, and answers it. */
function takeOut(hand: Hand, move: Move): Seen {
  check(nameOf(move.at), observe(nameOf(move.at), hand.look), move.expect);
  try {
    hand.sys.rename(nameOf(move.at), nameOf(move.aside));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw refusedFor(observe(nameOf(move.at), hand.look).version);
    throw error;
  }
  try {
    const out = observe(nameOf(move.aside), hand.look);
    check(nameOf(move.aside), out, move.expect);
    return out;
  } catch (error) {
    throw withDetail(asStop(error), returnOrKeep(hand, move));
  }
}

function put(hand: Hand, supply: Supply, at: Spot): void {
  if (supply.kind === 'inode') hand.sys.link(nameOf(supply.spot), nameOf(at));
  else hand.sys.symlink(encodeName(supply.target), nameOf(at));
}

/** True where `seen` is what we put in. */
function isOurs(seen: Seen, move: Move): boolean {
  if (move.supply?.kind === 'inode' && seen.ino !== move.supply.id.ino) return false;
  return sameVersion(seen.version, move.target);
}

/** Takes out what we put in. Answers false where somebody else's thing stands there, which then stays. */
function withdraw(hand: Hand, move: Move, supply: Supply): boolean {
  const [name, scrap] = [nameOf(move.at), nameOf(supply.spot)];
  // Two names of one inode: a rename of one onto the other would do nothing.
  if (supply.kind === 'inode' && lstatSync(name, { bigint: true, throwIfNoEntry: false })?.ino === supply.id.ino)
    hand.sys.unlink(scrap);
  else if (isThere(scrap)) return false;
  try {
    hand.sys.rename(name, scrap);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return true;
    throw error;
  }
  if (isOurs(observe(scrap, hand.look), move)) return true;
  putBack(hand, supply.spot, move.at);
  return false;
}

/** Undoes a move whose end was not as expected, and says why. */
function undo(hand: Hand, move: Move, out: Seen | null): string | undefined {
  const free = move.supply === null || withdraw(hand, move, move.supply);
  if (out === null) return undefined;
  return free ? returnOrKeep(hand, move) : keptAs(move.aside);
}

function install(hand: Hand, move: Move, supply: Supply, out: Seen | null): void {
  try {
    put(hand, supply, move.at);
  } catch (error) {
    const taken = errnoOf(error) === 'EEXIST';
    const stop = taken ? refusedFor(observe(nameOf(move.at), hand.look).version) : asStop(error);
    throw withDetail(stop, out === null ? undefined : returnOrKeep(hand, move));
  }
}

/**
 * Makes the move, or throws a `Stop` with the disk as others left it. Answers what came out, null where nothing was
 * expected there. Afterwards the supply's inode has both of its names.
 */
export function makeMove(hand: Hand, move: Move): Seen | null {
  const out = move.expect.kind === 'absent' ? null : takeOut(hand, move);
  if (move.supply !== null) install(hand, move, move.supply, out);
  try {
    if (out !== null) check(nameOf(move.aside), observe(nameOf(move.aside), hand.look), move.expect);
    if (!hand.walker.isStillThere(move.at.folder))
      throw new Stop('failed', 'walk-failed', { detail: `the folder ${move.at.folder.path} was moved meanwhile` });
  } catch (error) {
    throw withDetail(asStop(error), undo(hand, move, out));
  }
  return out;
}

/** Changes the mode of a file whose bytes are as expected; the file isn't rewritten. Answers the inode. */
export function changeMode(hand: Hand, at: Spot, expect: Version & { kind: 'file' }, mode: number): Seen {
  const before = observe(nameOf(at), hand.look);
  if (!sameVersion(before.version, expect)) throw refusedFor(before.version);
  const fd = openFile(nameOf(at));
  if (fd === null) throw refusedFor(observe(nameOf(at), hand.look).version);
  try {
    const found = lookAtFile(fd, hand.look);
    if (!sameVersion(found, expect)) throw refusedFor(found);
    hand.sys.fchmod(fd, mode);
    const now = lstatSync(nameOf(at), { bigint: true, throwIfNoEntry: false });
    if (now?.ino === fstatSync(fd, { bigint: true }).ino && hand.walker.isStillThere(at.folder)) return before;
    hand.sys.fchmod(fd, expect.mode);
    throw refusedFor(observe(nameOf(at), hand.look).version);
  } finally {
    closeSync(fd);
  }
}
