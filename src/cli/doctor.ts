/**
 * `doctor`: which backend runs here and why, what the file system can do, where the store is, whether hooks are installed and
 * what they could not record, and what is wrong, with remedies. Leaves nothing behind: a root that was never recorded is looked at with a store that is removed again.
 */
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { Capabilities } from '../api.ts';
import { makeFolders } from '../data-dir.ts';
import type { Context } from './context.ts';
import { type HookProblem, PROBLEMS_FILE, readProblems } from './hook/problems.ts';
import { Exit } from './host.ts';
import { installedHooks } from './install.ts';
import { count, localTime, oneLine, table } from './text.ts';

interface Finding {
  /** `error`: nothing can be recorded. `warning`: it works, less well. */
  readonly level: 'error' | 'warning';
  readonly problem: string;
  readonly remedy: string;
}

const OLDEST_NODE = [20, 19] as const;
/** Problems of hooks that are told, and that are listed for people. */
const SHOWN_PROBLEMS = 50;
const LISTED_PROBLEMS = 5;

function nodeFindings(version: string): Finding[] {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return [];
  return [
    {
      level: 'error',
      problem: `Node ${version} is older than ${OLDEST_NODE.join('.')}.`,
      remedy: 'Install Node 20.19 or newer.',
    },
  ];
}

function dataDirFindings(dataDir: string): Finding[] {
  if (process.platform === 'win32') return [];
  const mode = statSync(dataDir, { throwIfNoEntry: false })?.mode;
  if (mode === undefined || (mode & 0o077) === 0) return [];
  return [
    {
      level: 'warning',
      problem: `The data directory ${oneLine(dataDir)} can be entered by others (mode ${(mode & 0o777).toString(8)}).`,
      remedy: `chmod 700 ${oneLine(dataDir)}`,
    },
  ];
}

function capabilityFindings(found: Capabilities, asked: string | undefined): Finding[] {
  const findings: Finding[] = [];
  if (found.backend === 'portable' && asked !== 'portable') {
    findings.push({
      level: 'warning',
      problem: `The portable backend runs: ${oneLine(found.why)}`,
      remedy: 'For the faster one install Rust 1.89 or newer and run `npm run build` in the checkout.',
    });
  }
  if (found.guard === 'refuse') {
    findings.push({
      level: 'error',
      problem: 'This file system offers no way to replace a file without a race.',
      remedy: 'Move the workspace to a local file system; until then restores are refused.',
    });
  }
  if (!found.ctime) {
    findings.push({
      level: 'warning',
      problem: 'This file system does not move ctime: a same-size edit with its old mtime put back can be missed.',
      remedy: 'Move the workspace to a local file system.',
    });
  }
  return findings;
}

/** Where our hooks stand in the settings of a host, and whether what they run is there. */
function hookFindings(context: Context): { hooks: HookFacts; findings: Finding[] } {
  const installed = installedHooks(context.host, context.root);
  const problems = readProblems(context.dataDir, SHOWN_PROBLEMS);
  const gone = installed.flatMap(({ file, commands }) =>
    commands.flatMap(filesOf).flatMap((name) => (existsSync(name) ? [] : [{ file, name }])),
  );
  const findings: Finding[] = gone.map(({ file, name }) => ({
    level: 'error',
    problem: `A hook in ${oneLine(file)} runs ${oneLine(name)}, which is not there.`,
    remedy: 'Run `takeback install claude-code` again.',
  }));
  const newest = problems.at(-1);
  if (newest !== undefined) {
    findings.push({
      level: 'warning',
      problem: `Hooks could not record ${count(problems.length, 'event')}, last at ${localTime(newest.at)}: ${oneLine(newest.detail)} (${oneLine(newest.reason)})`,
      remedy: `See the list with --json. Once mended, remove ${oneLine(join(context.dataDir, PROBLEMS_FILE))}.`,
    });
  }
  return { hooks: { installed, problems }, findings };
}

/** Absolute paths that a hook's command names: Node, the hook file. */
function filesOf(command: string): string[] {
  return [...command.matchAll(/"((?:[^"\\]|\\.)*)"/g)]
    .map(([, quoted]) => (quoted as string).replaceAll(/\\(.)/g, '$1'))
    .filter((name) => isAbsolute(name) && /(^|[/\\])(node(\.exe)?|hook\.cjs)$/.test(name));
}

interface HookFacts {
  readonly installed: readonly { readonly file: string; readonly commands: readonly string[] }[];
  /** The newest, oldest first. */
  readonly problems: readonly HookProblem[];
}

/** A folder for the look at a root that has no timeline: beside the real ones, so on the same device. */
function scratchDataDir(dataDir: string): string {
  makeFolders(dataDir);
  return mkdtempSync(join(dataDir, 'doctor-'));
}

interface Look {
  readonly capabilities: Capabilities | undefined;
  readonly findings: Finding[];
}

async function look(context: Context, dataDir: string): Promise<Look> {
  const workspace = await context.tryWorkspace(dataDir);
  const answer = await workspace.capabilities();
  if (!answer.available) {
    const remedy =
      REMEDIES[answer.reason] ?? 'Do what the sentence above asks for; LIMITS.md tells what is not supported.';
    return {
      capabilities: undefined,
      findings: [{ level: 'error', problem: `${answer.detail} (${answer.reason})`, remedy }],
    };
  }
  const { capabilities } = answer;
  const asked = context.options.backend ?? context.host.env.TAKEBACK_BACKEND;
  return { capabilities, findings: capabilityFindings(capabilities, asked) };
}

const REMEDIES: Readonly<Record<string, string>> = {
  'root-missing': 'Give an existing folder with --root.',
  'not-a-directory': 'Give a folder with --root.',
  'protected-root': 'Give a project folder with --root.',
  'permission-denied': 'Run as the user who owns the folder.',
  'data-dir-unwritable': 'Give a folder that you may write to with --data-dir.',
  'store-newer': 'Update takeback: a newer version made this store. It was left as it is.',
  'store-corrupt':
    'Keep a copy of the data directory, then remove its folder of this workspace: `takeback capture` starts anew.',
  'no-space': 'Free some disk space.',
  busy: 'Another process holds the store: wait until it has ended.',
};

/** `doctor` */
export async function doctor(context: Context): Promise<number> {
  const { screen } = context;
  const temporary = !context.recorded;
  let dataDir = context.dataDir;
  let findings: Finding[] = nodeFindings(process.versions.node);
  let capabilities: Capabilities | undefined;
  try {
    if (temporary) dataDir = scratchDataDir(context.dataDir);
    const looked = await look(context, dataDir);
    capabilities = looked.capabilities;
    findings = [...findings, ...looked.findings];
  } catch (fault) {
    const problem = fault instanceof Error ? fault.message : String(fault);
    findings.push({ level: 'error', problem, remedy: REMEDIES['data-dir-unwritable'] as string });
  } finally {
    await context.close();
    if (dataDir !== context.dataDir) rmSync(dataDir, { recursive: true, force: true });
  }
  const { hooks, findings: ofHooks } = hookFindings(context);
  findings = [...findings, ...dataDirFindings(context.dataDir), ...ofHooks];
  const facts = { ...factsOf(context, capabilities), hooks };
  screen.object({ available: true, ok: findings.length === 0, ...facts, problems: findings });
  print(context, facts, findings);
  return findings.some((finding) => finding.level === 'error') ? Exit.failed : Exit.done;
}

type Facts = ReturnType<typeof factsOf> & { readonly hooks: HookFacts };

function factsOf(context: Context, capabilities: Capabilities | undefined) {
  return {
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    root: context.root,
    recorded: context.recorded,
    dataDir: context.dataDir,
    capabilities: capabilities === undefined ? null : { ...capabilities, dataDir: context.dataDir },
  };
}

const ABILITY_NAMES = [
  'walk',
  'guard',
  'exchange',
  'noReplace',
  'lease',
  'reflink',
  'caseFolding',
  'execBit',
  'symlinks',
  'ctime',
  'tickNs',
] as const;

function print(context: Context, facts: Facts, findings: readonly Finding[]): void {
  const { screen } = context;
  const { capabilities } = facts;
  const rows: string[][] = [
    ['Node', `${facts.node} (${facts.platform})`],
    ['root', oneLine(facts.root)],
    ['data directory', oneLine(facts.dataDir)],
    ['recorded', facts.recorded ? 'yes' : 'nothing yet'],
    ['hooks', facts.hooks.installed.map(({ file }) => oneLine(file)).join(', ') || 'not installed'],
  ];
  if (capabilities !== null) {
    rows.push(
      ['backend', `${capabilities.backend}: ${oneLine(capabilities.why)}`],
      ['SQLite', capabilities.sqlite],
      ['watch', oneLine(`${capabilities.watch.on ? 'on' : 'off'}: ${capabilities.watch.why}`)],
    );
    for (const name of ABILITY_NAMES) rows.push([name, String(capabilities[name])]);
  }
  screen.lines(table(rows));
  for (const { at, event, reason, detail } of facts.hooks.problems.slice(-LISTED_PROBLEMS))
    screen.line(
      `  ${localTime(at)} ${oneLine(event ?? 'hook')}: ${oneLine(detail.slice(0, 200))} (${oneLine(reason)})`,
    );
  if (findings.length === 0) screen.line('No problems.');
  for (const { level, problem, remedy } of findings) {
    screen.line(`${screen.style(level === 'error' ? 'red' : 'yellow', level)}: ${problem}`);
    screen.line(`  ${remedy}`);
  }
}
