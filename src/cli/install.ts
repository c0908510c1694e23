/**
 * `install` and `uninstall`: our hooks in a settings file of an agent host. Shows the change first, keeps whatever else the
 * file holds, writes atomically, and takes it back to the byte where nothing else changed since.
 *
 * For that, what stood there before is kept in the data directory (`installs/`). Not covered: hosts other than Claude Code.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ourCommands, SettingsError, withHooks, withoutHooks } from './claude-settings.ts';
import { type Context, UsageError } from './context.ts';
import { Exit, type Host } from './host.ts';
import { JsonTextError } from './json-text.ts';
import { oneLine } from './text.ts';

export interface InstallFlags {
  readonly user?: boolean;
  readonly project?: boolean;
  readonly local?: boolean;
}

type Scope = 'user' | 'project' | 'local';

const HOOK_FILE = fileURLToPath(new URL('./hook.cjs', import.meta.url));

/** The settings files of Claude Code, in the order in which it reads them. */
export function settingsFiles(host: Host, project: string): Record<Scope, string> {
  const home = host.env.CLAUDE_CONFIG_DIR || join(host.env.HOME || homedir(), '.claude');
  return {
    user: join(home, 'settings.json'),
    project: join(project, '.claude', 'settings.json'),
    local: join(project, '.claude', 'settings.local.json'),
  };
}

/** Which of the settings files hold hooks of ours, and what they run. A file that can't be read holds none. */
export function installedHooks(host: Host, project: string): { file: string; commands: readonly string[] }[] {
  return Object.values(settingsFiles(host, project)).flatMap((file) => {
    try {
      const commands = ourCommands(readFileSync(file, 'utf8'));
      return commands.length === 0 ? [] : [{ file, commands }];
    } catch {
      return [];
    }
  });
}

function scopeOf({ user, project, local }: InstallFlags): Scope {
  const asked = [user && 'user', project && 'project', local && 'local'].filter(Boolean) as Scope[];
  if (asked.length > 1) throw new UsageError('Give one of --user, --project and --local.');
  return asked[0] ?? 'local';
}

/** For a shell, in double quotes. */
function quoted(text: string): string {
  return `"${text.replaceAll(/[\\"$`]/g, '\\$&')}"`;
}

/**
 * What the host runs: Node and the hook file, by absolute paths, so that neither npx nor a shell's PATH has a say. Where
 * takeback is installed in the project, the file is named from the project's folder, and shared settings name no Node.
 */
function commandFor(context: Context, scope: Scope, project: string): string {
  const below = relative(project, HOOK_FILE);
  const inProject = !below.startsWith('..') && below !== HOOK_FILE;
  const file = inProject ? `"$CLAUDE_PROJECT_DIR"/${quoted(below.split(sep).join('/'))}` : quoted(HOOK_FILE);
  const node = scope === 'project' ? 'node' : quoted(process.execPath);
  const { dataDir, backend } = context.options;
  return [
    node,
    file,
    'claude-code',
    ...(dataDir === undefined ? [] : ['--data-dir', quoted(context.dataDir)]),
    ...(backend === undefined ? [] : ['--backend', backend]),
  ].join(' ');
}

interface Settings {
  /** As it is named. */
  readonly file: string;
  /** Where it really lies. */
  readonly target: string;
  /** Null where there is none yet. */
  readonly text: string | null;
}

/** The real path of a folder that may not be there yet. */
function realFolder(folder: string): string {
  if (existsSync(folder) || dirname(folder) === folder) return realpathSync(folder);
  return join(realFolder(dirname(folder)), basename(folder));
}

function read(file: string): Settings {
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) {
    return { file, target: join(realFolder(dirname(file)), basename(file)), text: null };
  }
  if (!existsSync(file))
    throw new UsageError(`${oneLine(file)} is a link that leads nowhere. Remove it, or make what it names.`);
  const target = realpathSync(file);
  if (!statSync(target).isFile()) throw new UsageError(`${oneLine(file)} is not a file.`);
  const bytes = readFileSync(target);
  const text = bytes.toString('utf8');
  if (!Buffer.from(text, 'utf8').equals(bytes)) throw new UsageError(`${oneLine(file)} is not UTF-8. Mend it by hand.`);
  return { file, target, text };
}

/** The file's text after `change`, or a usage fault that names the file. */
function changed(settings: Settings, change: (text: string) => string): string {
  try {
    return change(settings.text ?? '');
  } catch (fault) {
    if (!(fault instanceof JsonTextError) && !(fault instanceof SettingsError)) throw fault;
    const remedy = 'It was left as it is. Mend it (JSON, without comments), then run this again.';
    throw new UsageError(`${oneLine(settings.file)}: ${fault.message}. ${remedy}`);
  }
}

/** Links are followed only where somebody says so: a name in a project may lead to a file of another. */
function isLinked({ file, target }: Settings, base: string): boolean {
  return target !== join(realFolder(base), relative(base, file));
}

/** Whole or not at all: a temporary file beside it, synced, then renamed over it. */
function write({ target, text }: Settings, next: string): void {
  mkdirSync(dirname(target), { recursive: true });
  const temporary = `${target}.${randomBytes(4).toString('hex')}.tmp`;
  const mode = text === null ? undefined : statSync(target).mode & 0o777;
  const fd = openSync(temporary, 'wx', mode ?? 0o666);
  try {
    try {
      if (mode !== undefined) fchmodSync(fd, mode);
      writeFileSync(fd, next);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    const now = existsSync(target) ? readFileSync(target, 'utf8') : null;
    if (now !== text) throw new UsageError(`${oneLine(target)} changed meanwhile. Run this again.`);
    renameSync(temporary, target);
  } catch (fault) {
    rmSync(temporary, { force: true });
    throw fault;
  }
}

/** What stood there before an install. */
interface Kept {
  readonly file: string;
  readonly before: string | null;
  readonly madeFolder: boolean;
  /** Hash of what the install wrote: while that stands, `before` is the answer of an uninstall. */
  readonly after: string;
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

function keptFile(context: Context, target: string): string {
  return join(context.dataDir, 'installs', `${digest(target).slice(0, 32)}.json`);
}

/** A second install (of a newer takeback) is taken back with the first. */
function keep(context: Context, settings: Settings, next: string): void {
  const file = keptFile(context, settings.target);
  const first = keptFrom(context, settings);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const kept: Kept = {
    file: settings.target,
    before: first === null ? settings.text : first.before,
    madeFolder: first?.madeFolder ?? !existsSync(dirname(settings.target)),
    after: digest(next),
  };
  writeFileSync(file, `${JSON.stringify(kept)}\n`, { mode: 0o600 });
}

/** What the file was before our install, while nothing else changed it. */
function keptFrom(context: Context, { target, text }: Settings): Kept | null {
  try {
    const found = JSON.parse(readFileSync(keptFile(context, target), 'utf8')) as Kept;
    return text !== null && found.file === target && found.after === digest(text) ? found : null;
  } catch {
    return null;
  }
}

async function showChange(context: Context, { file, text }: Settings, next: string | null): Promise<void> {
  const { createTwoFilesPatch } = await import('diff');
  const patch = createTwoFilesPatch(
    text === null ? '/dev/null' : file,
    next === null ? '/dev/null' : file,
    text ?? '',
    next ?? '',
  );
  for (const line of patch.trimEnd().split('\n').slice(1)) context.screen.line(oneLine(line.replace(/\r$/, '')));
}

interface Change {
  readonly settings: Settings;
  /** Null: the file goes. */
  readonly next: string | null;
  readonly linked: boolean;
  readonly apply: () => void;
  readonly done: string;
}

/** Shows a change, asks where that is possible, and makes it. */
async function carryOut(context: Context, { settings, next, linked, apply, done }: Change): Promise<number> {
  const { screen, options, host } = context;
  const { file, target } = settings;
  const facts = { available: true, file, ...(linked ? { target } : {}), before: settings.text, after: next };
  if (next === settings.text) {
    screen.object({ ...facts, changed: false });
    screen.line(`Nothing to change in ${oneLine(file)}.`);
    return Exit.done;
  }
  await showChange(context, settings, next);
  if (linked) screen.note(`${oneLine(file)} leads to ${oneLine(target)}: that is what would be written.`);
  if (options.dryRun === true) {
    screen.object({ ...facts, dryRun: true, changed: false });
    return Exit.done;
  }
  const ask = host.interactive && options.yes !== true && options.json !== true;
  if (linked && !ask && options.yes !== true)
    throw new UsageError(`${oneLine(file)} leads to ${oneLine(target)}. Say --yes to write there.`);
  if (ask && !(await host.confirm(`Write ${oneLine(target)}?`))) {
    screen.line('Nothing was changed.');
    return Exit.failed;
  }
  apply();
  screen.object({ ...facts, changed: true });
  screen.line(done);
  return Exit.done;
}

function place(
  context: Context,
  flags: InstallFlags,
): { scope: Scope; project: string; settings: Settings; linked: boolean } {
  const scope = scopeOf(flags);
  const project =
    context.options.root === undefined ? context.host.cwd : resolve(context.host.cwd, context.options.root);
  const file = settingsFiles(context.host, project)[scope];
  const settings = read(file);
  const base = scope === 'user' ? dirname(dirname(file)) : project;
  return { scope, project, settings, linked: isLinked(settings, base) };
}

/** `install claude-code` */
export async function install(context: Context, flags: InstallFlags): Promise<number> {
  const { scope, project, settings, linked } = place(context, flags);
  const command = commandFor(context, scope, project);
  const next = changed(settings, (text) => withHooks(text, command));
  if (scope === 'project' && !command.includes('$CLAUDE_PROJECT_DIR'))
    context.screen.note(
      'These settings are shared, but takeback lies outside the project: others need it at the same path.',
    );
  return carryOut(context, {
    settings,
    next,
    linked,
    apply: () => {
      keep(context, settings, next);
      write(settings, next);
    },
    done: `Wrote ${oneLine(settings.target)}. New sessions of Claude Code are recorded; \`takeback uninstall claude-code\` takes this back.`,
  });
}

/** `uninstall claude-code` */
export async function uninstall(context: Context, flags: InstallFlags): Promise<number> {
  const { settings, linked } = place(context, flags);
  const before = keptFrom(context, settings);
  const next = settings.text === null ? null : before !== null ? before.before : changed(settings, withoutHooks);
  return carryOut(context, {
    settings,
    next,
    linked,
    apply: () => {
      if (next === null) remove(settings.target, before?.madeFolder === true);
      else write(settings, next);
      rmSync(keptFile(context, settings.target), { force: true });
    },
    done: `Took our hooks out of ${oneLine(settings.target)}.`,
  });
}

/** The file that the install made, and its folder where the install made that and nothing else came into it. */
function remove(file: string, folderToo: boolean): void {
  rmSync(file);
  if (!folderToo) return;
  try {
    rmdirSync(dirname(file));
  } catch (fault) {
    if (!['ENOTEMPTY', 'EEXIST'].includes((fault as NodeJS.ErrnoException).code ?? '')) throw fault;
  }
}
