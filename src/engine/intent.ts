/**
 * Operations written down before they touch a file: what the journal knows not, so that one whose process died can be
 * recorded like any other once its files are complete. `journal/<operation>.intent`, beside the journal.
 *
 * Owns the file's form: JSON, versions in the wire codec, and a hash of it in front, so that a torn one is none. It is
 * written before the journal and goes after it; without it the operation's files are somebody's edit.
 */
import { createHash } from 'node:crypto';
import { open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelEntry, ModelPlan } from '../model/types.ts';
import type { Irreversible, RandomId, Version } from '../types.ts';
import { decodeVersion, hexOfVersion, sameVersion } from '../wire.ts';
import type { Engine } from './engine.ts';
import type { Landing } from './landing.ts';

export interface Intent {
  readonly operationId: RandomId;
  readonly landing: Landing;
  readonly plan: ModelPlan;
  readonly irreversible: readonly Irreversible[];
  readonly notes: readonly string[];
}

/** Ends of the names in the journal's folder, behind the operation's id. */
export const INTENT = '.intent';
export const JOURNAL = '.journal';

function fileOf(engine: Engine, operationId: RandomId): string {
  return join(engine.layout.journal, `${operationId}${INTENT}`);
}

type StoredEntry = Omit<ModelEntry, 'expect' | 'last' | 'target'> & Record<'expect' | 'last' | 'target', string>;

const fromHex = (hex: string): Version => decodeVersion(Buffer.from(hex, 'hex'));

/** Durable where boundaries are: the journal's own sync of the folder comes after it. */
export async function writeIntent(engine: Engine, intent: Intent): Promise<void> {
  const { operationId, landing, irreversible, notes } = intent;
  const entries = intent.plan.entries.map((entry): StoredEntry => {
    const expect = hexOfVersion(entry.expect);
    const last = sameVersion(entry.last, entry.expect) ? expect : hexOfVersion(entry.last);
    return { ...entry, expect, last, target: hexOfVersion(entry.target) };
  });
  const text = JSON.stringify({ version: 1, operationId, landing, irreversible, notes, entries });
  const file = await open(fileOf(engine, operationId), 'wx', 0o600);
  try {
    await file.writeFile(`${hashOf(text)}\n${text}`);
    if (engine.options.durability === 'full') await file.datasync();
  } finally {
    await file.close();
  }
}

/** Null where there is none, or a torn one, or one of a later version. */
export async function readIntent(engine: Engine, operationId: RandomId): Promise<Intent | null> {
  const stored = await readFile(fileOf(engine, operationId), 'utf8').catch(() => '');
  const at = stored.indexOf('\n');
  const text = stored.slice(at + 1);
  if (at < 0 || hashOf(text) !== stored.slice(0, at)) return null;
  const { version, entries, ...intent } = JSON.parse(text) as Omit<Intent, 'plan'> & {
    version: number;
    entries: StoredEntry[];
  };
  if (version !== 1) return null;
  const plan = {
    entries: entries.map((entry) => ({
      ...entry,
      expect: fromHex(entry.expect),
      last: fromHex(entry.last),
      target: fromHex(entry.target),
    })),
  };
  return { ...intent, plan };
}

export async function dropIntent(engine: Engine, operationId: RandomId): Promise<void> {
  await rm(fileOf(engine, operationId), { force: true });
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
