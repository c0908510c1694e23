/** The floors (`native/examples/floor/`): the least that an operation can cost, bare, on two threads. Needs cargo. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { HIDDEN } from './tree.mjs';

const THEIR_ROUNDS = 3;

export class Floors {
  #program;
  #root;

  constructor(program, root) {
    this.#program = program;
    this.#root = root;
  }

  /** Milliseconds, the least of a few rounds, and what was counted. `files`: names below the root, for those that take them. */
  run(what, { files, root = this.#root, options = [] } = {}) {
    const args = [what, root, '--rounds', `${THEIR_ROUNDS}`, '--prune', HIDDEN.join(','), ...options];
    const input = files === undefined ? '' : `${files.join('\n')}\n`;
    const { count, bytes, micros } = JSON.parse(execFileSync(this.#program, args, { encoding: 'utf8', input }));
    return { ms: Math.min(...micros) / 1000, count, bytes };
  }
}

/** Builds them before anything is timed; null where there is no cargo. */
export function buildFloors(top, root) {
  const args = ['build', '--release', '--quiet', '--locked', '--package', 'takeback-native', '--example', 'floor'];
  try {
    execFileSync('cargo', args, { cwd: top, stdio: ['ignore', 'inherit', 'inherit'] });
    return new Floors(join(top, 'target', 'release', 'examples', 'floor'), root);
  } catch (fault) {
    if (fault.code === 'ENOENT') return null;
    throw fault;
  }
}
