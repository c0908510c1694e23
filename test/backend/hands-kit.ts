/** A root, a store and hands over both, for the tests of apply and recovery. */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ApplyEntry, ApplyOutcome } from '../../src/backend/backend.ts';
import { Hands } from '../../src/backend/portable/apply.ts';
import { Hasher } from '../../src/backend/portable/hash.ts';
import { SegmentStore } from '../../src/backend/portable/segments.ts';
import { nodeSyscalls, type Syscalls } from '../../src/backend/portable/syscalls.ts';
import type { RelPath, Version } from '../../src/types.ts';

export const OPERATION = 'ab'.repeat(16);
const hasherOf = Hasher.create(7n);
export const quiet = { cancelled: () => false, progress: () => {} };

/** A tree as a map: `{ 'a.txt': 'text', 'b/': 0o755, 'l': { link: 'a.txt' } }`; a mode of its own as `['text', 0o600]`. */
export type Layout = Record<string, string | number | [string, number] | { link: string }>;

export class Bench {
  readonly dir: string = mkdtempSync(join(tmpdir(), 'takeback-hands-'));
  readonly root: string = join(this.dir, 'root');
  readonly trash: string = join(this.dir, 'data', 'trash');
  readonly journal: string = join(this.dir, 'data', 'journal', `${OPERATION}.journal`);
  readonly segments: SegmentStore;
  hands: Hands;

  private constructor(segments: (dir: string) => SegmentStore, sys?: Syscalls) {
    mkdirSync(this.root, { mode: 0o755 });
    mkdirSync(join(this.dir, 'data', 'scratch'), { recursive: true, mode: 0o700 });
    this.segments = segments(join(this.dir, 'data', 'segments'));
    this.hands = this.open(sys);
  }

  static async make(layout: Layout = {}, sys?: Syscalls): Promise<Bench> {
    const hasher = await hasherOf;
    const bench = new Bench((dir) => new SegmentStore(dir, 7n, hasher), sys);
    bench.write(layout);
    return bench;
  }

  open(sys?: Syscalls): Hands {
    const scratchDir = join(this.dir, 'data', 'scratch');
    return new Hands({ root: this.root, segments: this.segments, maxFileBytes: 1 << 20, scratchDir, sys });
  }

  path(name: string): string {
    return join(this.root, name);
  }

  write(layout: Layout): void {
    for (const [name, what] of Object.entries(layout)) {
      const path = this.path(name);
      mkdirSync(dirname(path), { recursive: true });
      if (typeof what === 'number') {
        mkdirSync(path, { recursive: true });
        chmodSync(path, what);
      } else if (typeof what === 'string') writeFileSync(path, what);
      else if (Array.isArray(what)) {
        writeFileSync(path, what[0]);
        chmodSync(path, what[1]);
      } else symlinkSync(what.link, path);
    }
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8');
  }

  /** The version of a file with this text, stored. */
  file(text: string, mode = 0o644): Version {
    const bytes = Buffer.from(text);
    return { kind: 'file', mode, size: bytes.length, content: this.segments.put(bytes).hash };
  }

  now(name: string): Version {
    return (this.hands.peek([name as RelPath], quiet)[0] as { version: Version }).version;
  }

  /** An entry from what is on disk (its bytes stored) to a target. */
  entry(name: string, target: Version, expect: Version = this.now(name)): ApplyEntry {
    if (expect.kind === 'file' && lstatSync(this.path(name), { throwIfNoEntry: false })?.isFile()) {
      this.segments.put(readFileSync(this.path(name)));
    }
    return { path: name as RelPath, expect, target };
  }

  apply(entries: readonly ApplyEntry[], hooks: typeof quiet = quiet, trash: string = this.trash): ApplyOutcome[] {
    return this.hands.apply(
      { operationId: OPERATION, journal: this.journal, trash, durability: 'fast', entries },
      hooks,
    );
  }

  /** Every path of the root with what is there: mode and text, link, or kind. Fallback trash left out. */
  snapshot(): Record<string, string> {
    const out: Record<string, string> = {};
    const walk = (folder: string): void => {
      for (const name of readdirSync(join(this.root, folder)).sort()) {
        const path = folder === '' ? name : `${folder}/${name}`;
        if (path === '.takeback') continue;
        const stat = lstatSync(this.path(path));
        const mode = (stat.mode & 0o777).toString(8);
        if (stat.isDirectory()) {
          out[path] = `dir ${mode}`;
          walk(path);
        } else if (stat.isSymbolicLink()) out[path] = `link ${readlinkSync(this.path(path))}`;
        else if (stat.isFile()) out[path] = `file ${mode} ${this.read(path)}`;
        else out[path] = 'special';
      }
    };
    walk('');
    return out;
  }

  /** Texts of the files in the trash. */
  kept(): string[] {
    return readdirSync(this.trash)
      .filter((name) => lstatSync(join(this.trash, name)).isFile())
      .map((name) => readFileSync(join(this.trash, name), 'utf8'));
  }

  /** The store is left unsealed: the folder goes. */
  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true });
  }
}

/** The real calls, with `hook` run before and after each: `step` counts them from 0. */
export function stepping(hook: (step: number, when: 'before' | 'after', call: string) => void): Syscalls {
  let step = 0;
  return new Proxy(nodeSyscalls, {
    get(target, call: keyof Syscalls) {
      const real = target[call] as (...args: unknown[]) => unknown;
      return (...args: unknown[]): unknown => {
        const mine = step++;
        hook(mine, 'before', call);
        // Nothing here survives a power cut, nor needs to.
        const answer = call === 'fdatasync' || call === 'syncFolder' ? undefined : real(...args);
        hook(mine, 'after', call);
        return answer;
      };
    },
  });
}
