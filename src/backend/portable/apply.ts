/**
 * What changes the tree on behalf of a plan, and what looks at it for one: apply, recover, finish, peek, the trash, and
 * the probe of this file system's abilities. Synchronous, for the worker thread of the portable backend.
 *
 * Each call checks that the root is still the folder that it was when this was made, and works through descriptors below
 * it (`resolve.ts`). The journal of an `apply` stays until `finish`: a process that dies before leaves it to `recover`.
 * Not covered: extended attributes and ACLs (Node can't read them), and names that a folding file system takes for one.
 */
import { TakebackError } from '../../errors.ts';
import type { Hash, RelPath } from '../../types.ts';
import type { Abilities, ApplyOutcome, ApplyRequest, Peek, RecoverOutcome, RecoverRequest } from '../backend.ts';
import { doing, type WorkHooks } from './faults.ts';
import type { Hand } from './guard.ts';
import { JournalFile, readJournal, removeJournal, tempNameOf, trashNameOf } from './journal.ts';
import { type Job, Operation } from './operation.ts';
import { isSecretName, peekAt } from './peek.ts';
import { probe } from './probe.ts';
import { finishOperation, Recovery } from './recover.ts';
import { Walker } from './resolve.ts';
import type { SegmentStore } from './segments.ts';
import { Steps } from './steps.ts';
import { nodeSyscalls, type Syscalls } from './syscalls.ts';
import { Trash } from './trash.ts';

export interface HandsOptions {
  /** Absolute real path. */
  readonly root: string;
  readonly segments: SegmentStore;
  readonly maxFileBytes: number;
  readonly scratchDir: string;
  /** Both choices walk component by component here; the native backend has another way too. */
  readonly resolver?: 'auto' | 'component' | undefined;
  /** Whether a file is never to be opened. Default: by its name, whatever `include` says. */
  readonly isSecret?: ((path: RelPath) => boolean) | undefined;
  /** Test seam. */
  readonly sys?: Syscalls | undefined;
}

export class Hands {
  readonly #options: HandsOptions;
  readonly #hand: Hand;
  #abilities: Abilities | null = null;

  /** @throws {TakebackError} `ERR_ROOT_CHANGED` where the root is no folder */
  constructor(options: HandsOptions) {
    this.#options = options;
    this.#hand = {
      walker: new Walker(options.root),
      look: { hasher: options.segments.hasher, maxFileBytes: options.maxFileBytes },
      sys: options.sys ?? nodeSyscalls,
    };
  }

  #withSteps<T>(trashDir: string, act: (steps: Steps) => T): T {
    const trash = doing(`can't open the trash ${trashDir}`, () => new Trash(this.#hand.walker, trashDir));
    const steps = new Steps(this.#hand, this.#options.segments, trash);
    try {
      return act(steps);
    } finally {
      steps.forgetParent();
      trash.close();
    }
  }

  /**
   * Executes a plan's entries under guard. One outcome for each entry, in path order.
   *
   * @throws {TakebackError} only before anything was changed: `ERR_ROOT_CHANGED`, `ERR_BUSY` (the journal exists),
   *   `ERR_NO_SPACE` or `ERR_IO` (it can't be written), `ERR_UNSUPPORTED` (no hard links here)
   */
  apply(request: ApplyRequest, hooks: WorkHooks): ApplyOutcome[] {
    this.#hand.walker.openRoot().close();
    if (this.abilities().guard === 'refuse') {
      throw new TakebackError(
        'ERR_UNSUPPORTED',
        'this file system has no hard links, without which nothing can be replaced safely',
      );
    }
    const { operationId, durability, trash } = request;
    const jobs: Job[] = request.entries.map((entry, index) => ({
      ...entry,
      index,
      tempName: tempNameOf(operationId, index),
      trashName: trashNameOf(operationId, index),
      notes: [],
    }));
    return this.#withSteps(trash, (steps) => {
      const begun = { operationId, root: this.#hand.walker.root, trash, durability, entries: jobs };
      const journal = JournalFile.begin(request.journal, begun, {
        hasher: this.#hand.look.hasher,
        sys: this.#hand.sys,
      });
      try {
        return new Operation(steps, journal, { jobs, hooks }).run(durability);
      } finally {
        journal.close();
      }
    });
  }

  /** Ends an operation whose owner is gone. Call under the workspace's lock; it does not ask who the owner was. */
  recover(request: RecoverRequest, hooks: WorkHooks): RecoverOutcome {
    this.#hand.walker.openRoot().close();
    const journal = doing(`can't read the journal ${request.journal}`, () =>
      readJournal(request.journal, this.#hand.look.hasher),
    );
    if (journal === null) {
      doing(`can't remove the journal ${request.journal}`, () => removeJournal(request.journal));
      return { operationId: operationIdOf(request.journal), paths: [] };
    }
    if (journal.root.ino !== this.#hand.walker.root.ino) {
      throw new TakebackError('ERR_ROOT_CHANGED', `the journal ${request.journal} is of another folder than the root`);
    }
    return this.#withSteps(request.trash, (steps) => {
      const recovery = new Recovery(steps, journal, { mode: request.mode, hooks });
      const paths = recovery.run();
      if (recovery.complete) removeJournal(request.journal);
      return { operationId: journal.operationId, paths };
    });
  }

  /** Ends an operation that is in the timeline: its temp files and its journal go. */
  finish(journalFile: string): void {
    const journal = doing(`can't read the journal ${journalFile}`, () =>
      readJournal(journalFile, this.#hand.look.hasher),
    );
    if (journal !== null) this.#withSteps(journal.trash, (steps) => finishOperation(steps, journal));
    doing(`can't remove the journal ${journalFile}`, () => removeJournal(journalFile));
  }

  /** What is on disk at these paths now. */
  peek(paths: readonly RelPath[], hooks: WorkHooks): Peek[] {
    this.#hand.walker.openRoot().close();
    const isSecret = this.#options.isSecret ?? isSecretName;
    return peekAt(this.#hand, paths, { hooks, isSecret });
  }

  abilities(): Abilities {
    this.#abilities ??= probe(this.#hand.walker, this.#options.scratchDir);
    return this.#abilities;
  }

  /** Drops kept inodes of a trash folder and of `.takeback/trash/` in the root. */
  emptyTrash(trashDir: string): { freedBytes: number; kept: number; lateWrites: { name: string; hash: Hash }[] } {
    return this.#withSteps(trashDir, ({ trash, segments }) =>
      doing(`can't empty the trash ${trashDir}`, () => trash.empty(segments, this.#options.maxFileBytes)),
    );
  }
}

/** `<operation>.journal`: what the file's name says, where the file itself says nothing. */
function operationIdOf(journal: string): string {
  return /([0-9a-f]{32})\.journal$/.exec(journal)?.[1] ?? '';
}
