/** A story's engine by itself, so that a test can put itself between it and its backend or its timeline. */
import type { Engine } from '../../src/engine/engine.ts';
import { openEngine } from '../../src/engine/open.ts';
import type { Session } from '../../src/index.ts';
import { SessionHandle } from '../../src/session.ts';
import type { Story } from './story.ts';

/** Closes the story's workspace, works on an engine of the same store, and closes that. The caller opens the story again. */
export async function onEngine(story: Story, work: (engine: Engine, session: Session) => Promise<void>): Promise<void> {
  await story.workspace.close();
  const engine = await openEngine({
    ...{ root: story.space.root, dataDir: story.space.dataDir, backend: story.backend, maxEntries: 1000 },
    ...{ include: undefined, exclude: undefined, maxFileBytes: undefined, maxFileEvents: 100 },
    options: {
      ...{ durability: 'fast', recover: 'rollback', adoptRoot: false, captureDeadlineMs: undefined, logger: undefined },
      retention: { maxAgeDays: 30, maxBytes: 1e9, maxBoundaries: undefined },
    },
  });
  try {
    await work(engine, new SessionHandle(() => engine, { threadId: 's1', tenantId: undefined, onConflict: 'refuse' }));
  } finally {
    await engine.close();
  }
}
