/** Paths that a rule change would take out of coverage while another session still owes them (DESIGN §4.2). */
import { attribute } from '../model/attribution.ts';
import type { RelPath } from '../types.ts';
import type { Engine } from './engine.ts';
import { attributionInput } from './rows.ts';

/** Of `leaving`: those with an owed row of a session other than `session`, since that session's newest boundary. */
export async function heldPaths(engine: Engine, session: number, leaving: readonly RelPath[]): Promise<RelPath[]> {
  if (leaving.length === 0) return [];
  const held = new Set<RelPath>();
  for (const other of await engine.timeline.sessions()) {
    if (other.id === session) continue;
    const newest = (await engine.timeline.boundaries(other.id, { limit: 1 }))[0];
    if (newest === undefined) continue;
    const rows = attribute(await attributionInput(engine, other.id, { afterSeq: newest.seq, paths: leaving }));
    for (const row of rows) if (row.owed) held.add(row.path);
  }
  return [...held];
}
