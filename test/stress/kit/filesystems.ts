/**
 * File systems for the stress tests, each in an image of its own that the test makes, mounts and removes. Needs root's right to
 * mount, and mkfs of the kind; where one is missing `tryFileSystem` answers why.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** `ext4-128`: with 128-byte inodes, so that times are whole seconds. `overlayfs` lies over ext4. */
export type FileSystemKind = 'ext4' | 'ext4-128' | 'xfs' | 'btrfs' | 'tmpfs' | 'overlayfs';

const MKFS: Partial<Record<FileSystemKind, readonly string[]>> = {
  ext4: ['mkfs.ext4', '-q', '-F'],
  'ext4-128': ['mkfs.ext4', '-q', '-F', '-I', '128'],
  overlayfs: ['mkfs.ext4', '-q', '-F'],
  xfs: ['mkfs.xfs', '-q', '-f'],
  btrfs: ['mkfs.btrfs', '-q', '-f'],
};

/** The smallest that each mkfs takes. */
const MEGABYTES: Record<FileSystemKind, number> = {
  ext4: 64,
  'ext4-128': 64,
  xfs: 300,
  btrfs: 128,
  tmpfs: 256,
  overlayfs: 128,
};

function command(program: string, ...args: string[]): string {
  const run = spawnSync(program, args, { encoding: 'utf8' });
  if (run.error !== undefined) throw run.error;
  if (run.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${run.stderr.trim()}`);
  return run.stdout;
}

export class FileSystem {
  readonly kind: FileSystemKind;
  /** Where to work. */
  readonly folder: string;
  readonly #base: string;
  readonly #image: string;
  readonly #megabytes: number;
  /** Of the image: the same one as long as it lives, so that device numbers stay. */
  #loop = '';
  /** Mount points, the newest last. */
  #mounted: string[] = [];

  constructor(kind: FileSystemKind, options: { megabytes?: number } = {}) {
    this.kind = kind;
    this.#base = mkdtempSync(join(tmpdir(), `takeback-${kind}-`));
    this.#image = join(this.#base, 'image');
    this.#megabytes = options.megabytes ?? MEGABYTES[kind];
    this.folder = join(this.#base, 'm');
    mkdirSync(this.folder);
    try {
      this.#make();
      this.mount();
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  #make(): void {
    const mkfs = MKFS[this.kind];
    if (mkfs === undefined) return;
    writeFileSync(this.#image, '');
    truncateSync(this.#image, this.#megabytes * 1024 * 1024);
    const [program = '', ...args] = mkfs;
    this.#loop = command('losetup', '--find', '--show', this.#image).trim();
    command(program, ...args, this.#loop);
  }

  mount(): void {
    if (this.kind === 'tmpfs') this.#attach(['-t', 'tmpfs', '-o', `size=${this.#megabytes}m`, 'tmpfs'], this.folder);
    else if (this.kind === 'overlayfs') this.#mountOverlay();
    else this.#attach([this.#loop], this.folder);
  }

  #mountOverlay(): void {
    const below = join(this.#base, 'below');
    mkdirSync(below, { recursive: true });
    this.#attach([this.#loop], below);
    for (const name of ['lower', 'upper', 'work']) mkdirSync(join(below, name), { recursive: true });
    const options = `lowerdir=${below}/lower,upperdir=${below}/upper,workdir=${below}/work`;
    this.#attach(['-t', 'overlay', '-o', options, 'overlay'], this.folder);
  }

  #attach(args: readonly string[], at: string): void {
    command('mount', ...args, at);
    this.#mounted.push(at);
  }

  unmount(): void {
    for (let at = this.#mounted.at(-1); at !== undefined; at = this.#mounted.at(-1)) {
      command('umount', at);
      this.#mounted.pop();
    }
  }

  /** As after a power cut: what the log holds is replayed. */
  remount(): void {
    this.unmount();
    this.mount();
  }

  /** Everything that was written so far is on the disk. */
  sync(): void {
    command('sync', '-f', this.folder);
  }

  [Symbol.dispose](): void {
    for (const at of this.#mounted.toReversed()) spawnSync('umount', ['-l', at]);
    this.#mounted = [];
    if (this.#loop !== '') spawnSync('losetup', ['--detach', this.#loop]);
    rmSync(this.#base, { recursive: true, force: true });
  }
}

/** Null where this machine can make and mount one; else why not. */
export function missing(kind: FileSystemKind): string | null {
  try {
    using made = new FileSystem(kind);
    return made.kind === kind ? null : 'another kind';
  } catch (error) {
    return (error as Error).message;
  }
}
