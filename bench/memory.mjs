/**
 * What a tree costs in memory while it is open: `node bench/memory.mjs ROOT DATADIR BACKEND` prints the bytes by which this
 * process grew when it opened the workspace and looked once. One on an empty folder is opened before, so that code, database and threads
 * don't count.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openWorkspace } from '../dist/index.js';
import { available } from './stage.mjs';

const [root, dataDir, backend] = process.argv.slice(2);

async function look(options) {
  const workspace = await openWorkspace({ backend, durability: 'fast', ...options });
  const session = workspace.session({ threadId: 'memory' });
  return { workspace, session };
}

const scratch = mkdtempSync(join(tmpdir(), 'takeback-memory-'));
try {
  const small = await look({ root: scratch, dataDir: join(scratch, 'data') });
  available(await small.session.capture('a'));
  const before = process.memoryUsage().rss;
  const large = await look({ root, dataDir });
  available(await large.session.endTurn());
  console.log(process.memoryUsage().rss - before);
  await large.workspace.close();
  await small.workspace.close();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
