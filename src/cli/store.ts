/**
 * Commands about the store: `sessions`, `drop`, `gc`, `verify`, `stats`, `recover`.
 */
import type { RecoveredOperation } from '../api.ts';
import { type Context, need, needSession } from './context.ts';
import { Exit } from './host.ts';
import { count, localTime, oneLine, printable, size, table } from './text.ts';

/** `sessions` */
export async function sessions(context: Context): Promise<number> {
  const { screen } = context;
  const result = need(await (await context.workspace('read')).sessions());
  screen.object(result);
  if (result.sessions.length === 0) screen.line('No sessions.');
  else {
    const rows = result.sessions.map((session) => [
      oneLine(session.tenantId === undefined ? session.threadId : `${session.tenantId}/${session.threadId}`),
      localTime(session.createdAt),
      String(session.boundaries),
      String(session.openCalls),
      session.newestBoundaryAt === undefined ? '' : localTime(session.newestBoundaryAt),
    ]);
    screen.lines(table([['SESSION', 'SINCE', 'BOUNDARIES', 'OPEN CALLS', 'NEWEST BOUNDARY'], ...rows]));
  }
  return Exit.done;
}

/** `drop`: forgets the session and every byte that nobody else refers to. The tree is not touched. */
export async function drop(context: Context): Promise<number> {
  const { screen, options, host } = context;
  const session = await context.session('read');
  const name = oneLine(session.threadId);
  const found = await needSession(await context.workspace('read'), session.threadId);
  if (options.dryRun === true) {
    screen.object({ available: true, dryRun: true, session: found });
    screen.line(`Would forget session ${name} with ${count(found.boundaries, 'boundary', 'boundaries')}.`);
    return Exit.done;
  }
  const ask = host.interactive && options.yes !== true && options.json !== true;
  if (ask && !(await host.confirm(`Forget session ${name}? Its turns can then not be undone any more.`))) {
    screen.line('Nothing was changed.');
    return Exit.failed;
  }
  const result = need(await session.drop());
  screen.object(result);
  screen.line(`Forgot session ${name}. Freed ${size(result.freedBytes)}.`);
  return Exit.done;
}

/** `gc` */
export async function gc(context: Context): Promise<number> {
  const { screen } = context;
  const workspace = await context.workspace('read');
  const result = need(await context.work((work) => workspace.gc(work)));
  screen.object(result);
  screen.line(
    `Freed ${size(result.freedBytes)}, kept ${size(result.keptBytes)}, ` +
      `dropped ${count(result.droppedBoundaries, 'boundary', 'boundaries')}.`,
  );
  for (const late of result.lateWrites) {
    screen.line(`Written to after it left the tree: ${printable(late.name)}; its bytes are kept as ${late.hash}.`);
  }
  return Exit.done;
}

/** `verify` */
export async function verify(context: Context, flags: { rehash?: boolean }): Promise<number> {
  const { screen } = context;
  const workspace = await context.workspace('read');
  const result = need(
    await context.work((work) =>
      workspace.verify({ ...work, ...(flags.rehash === undefined ? {} : { rehash: flags.rehash }) }),
    ),
  );
  screen.object(result);
  screen.line(
    `${count(result.checked, 'item')} checked: ${result.ok ? 'all sound' : count(result.problems.length, 'problem')}.`,
  );
  for (const problem of result.problems) {
    const path = problem.path === undefined ? '' : ` ${printable(problem.path)}`;
    screen.line(`  ${problem.kind}${path}: ${oneLine(problem.detail)}`);
  }
  return result.ok ? Exit.done : Exit.failed;
}

/** `stats` */
export async function stats(context: Context): Promise<number> {
  const { screen } = context;
  const result = need(await (await context.workspace('read')).stats());
  screen.object(result);
  screen.lines(
    table([
      ...Object.entries(result.bytes).map(([name, bytes]) => [name, size(bytes)]),
      ...Object.entries(result.counts).map(([name, n]) => [name, n.toLocaleString('en-US')]),
    ]),
  );
  return Exit.done;
}

/** `recover`: ends an operation whose process died. Opening does it too; both are shown. */
export async function recover(context: Context): Promise<number> {
  const { screen } = context;
  const workspace = await context.workspace('read');
  const result = need(await workspace.recover());
  const recovered: RecoveredOperation[] = [...workspace.recovered, ...result.recovered];
  screen.object({ available: true, recovered });
  if (recovered.length === 0) screen.line('No operation was left unfinished.');
  for (const operation of recovered) {
    screen.line(`Operation ${operation.operationId} (${operation.mode}):`);
    screen.lines(
      operation.paths.map(
        (path) =>
          `  ${path.state.padEnd(7)} ${printable(path.path)}${path.detail === undefined ? '' : ` (${oneLine(path.detail)})`}`,
      ),
    );
  }
  const foreign = recovered.some((operation) => operation.paths.some((path) => path.state === 'neither'));
  return foreign ? Exit.partial : Exit.done;
}
