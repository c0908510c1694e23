/**
 * Stands for `node:os` in the built hook file, by the same sources without loading it: it knows the host's name on Linux and
 * the home folder where the environment has it, and asks Node's own for anything else. Test: the same answers as `node:os`.
 */
import { readFileSync } from 'node:fs';

function ordinary(): typeof import('node:os') {
  return require('node:os');
}

export function hostname(): string {
  try {
    // One line, as uname(2) has it.
    return readFileSync('/proc/sys/kernel/hostname', 'utf8').replace(/\n$/, '');
  } catch {
    return ordinary().hostname();
  }
}

export function homedir(): string {
  const named = process.platform === 'win32' ? undefined : process.env.HOME;
  return named ?? ordinary().homedir();
}
