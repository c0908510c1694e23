/**
 * The command line: commands, arguments and options, by commander. Owns parsing; each command's work is in its group's
 * file, loaded when it runs.
 */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { sideEffectSchema } from '../schemas.ts';
import type { SideEffect } from '../types.ts';
import { type Context, reportFault, runCommand } from './context.ts';
import { type CommonOptions, Exit, type Host } from './host.ts';
import { Screen } from './screen.ts';

/** A whole number from 1 on. */
function atLeastOne(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('Give a whole number from 1 on.');
  return Number(text);
}

const COMMON = (): Option[] => [
  new Option('--root <dir>', 'root of the workspace (default: the nearest recorded folder, else the current one)'),
  new Option('--data-dir <dir>', 'where the store is (default: takeback in the state folder of the system)'),
  new Option(
    '--session <id>',
    'session whose turns are meant (default: that of the newest turn; to record, "default")',
  ),
  new Option('--backend <kind>', 'backend (also TAKEBACK_BACKEND)').choices(['auto', 'native', 'portable']),
  new Option('--json', 'one JSON object on standard output, nothing else'),
];

const WRITING = (): Option[] => [
  new Option('--dry-run', 'list what would be done, and stop'),
  new Option('--yes', 'do not ask'),
];

const CONFLICT = (): Option =>
  new Option(
    '--on-conflict <policy>',
    'where a file changed since: keep it, save and overwrite it, or merge its text',
  ).choices(['refuse', 'overwrite', 'merge']);

type Action = (context: Context, args: readonly string[], flags: Record<string, unknown>) => Promise<number>;

/** Collects the exit code of the one command that ran. */
class Program {
  readonly root: Command;
  exitCode: number = Exit.done;
  readonly #host: Host;

  constructor(host: Host, version: string) {
    this.#host = host;
    this.root = new Command('takeback')
      .description('Records what a coding agent does to the files of a folder, and takes it back.')
      .version(version)
      .enablePositionalOptions()
      .exitOverride()
      .configureOutput({
        writeOut: (text) => host.stdout.write(text),
        writeErr: (text) => host.stderr.write(text),
      });
    for (const option of COMMON()) this.root.addOption(option);
    this.root.addHelpText(
      'after',
      '\nExit codes: 0 done, 1 failed or nothing to do, 2 wrong command line, 3 done in part.',
    );
  }

  /** A command with the common options; `usage` is its name and arguments. */
  add(usage: string, text: string, action: Action): Command {
    const command = this.root.command(usage).description(text);
    command.action(async () => {
      const flags = command.optsWithGlobals();
      const args = command.processedArgs.flat().flatMap((arg: unknown) => (arg === undefined ? [] : [String(arg)]));
      this.exitCode = await runCommand(this.#host, flags as CommonOptions, (context) => action(context, args, flags));
    });
    for (const option of COMMON()) command.addOption(option.hideHelp());
    command.addHelpText(
      'after',
      '\nCommon options: --root, --data-dir, --session, --backend, --json (see takeback --help).',
    );
    return command;
  }
}

function addRecording(program: Program): void {
  program
    .add('run', 'run a command as a turn: `takeback run -- make test`', async (context, args, flags) =>
      (await import('./record.ts')).run(context, args, flags),
    )
    .argument('<command...>', 'the command and its arguments')
    .option('--boundary <id>', 'id of the turn (default: made from the time)')
    .option('--label <text>', 'label of the turn (default: the command)')
    .passThroughOptions();
  program
    .add(
      'capture [boundary]',
      'record the files as they are: a boundary, to which a turn is taken back',
      async (context, [id], flags) => (await import('./record.ts')).capture(context, id, flags),
    )
    .option('--label <text>', 'text for the log');
  program
    .add('begin [call]', "open a call: what changes until its end is the session's", async (context, [id], flags) =>
      (await import('./record.ts')).begin(context, id, flags),
    )
    .option('--tool <name>', 'name of the tool')
    .option('--parent <call>', 'open call that this one is part of')
    .option('--paths <path...>', 'paths that the call will change: it owns these and no others');
  program
    .add('end [call]', 'end a call and list what it changed', async (context, [id], flags) =>
      (await import('./record.ts')).end(context, id, flags as { sideEffect?: SideEffect }),
    )
    .option('--all', 'end every open call of the session')
    .option('--error', 'the call failed')
    .addOption(
      new Option('--side-effect <class>', 'what it did outside the files').choices([...sideEffectSchema.options]),
    );
}

function addLooking(program: Program): void {
  program
    .add('log', 'list turns, newest last', async (context, _args, flags) =>
      (await import('./look.ts')).log(context, flags as { limit: number }),
    )
    .option('--limit <n>', 'turns to show', atLeastOne, 20)
    .option('--calls', 'list the calls too');
  program.add('show [boundary]', 'what a turn changed, with the patch (default: the newest)', async (context, [id]) =>
    (await import('./look.ts')).show(context, id),
  );
  program.add('status', 'what the newest turn changed and what undo would do', async (context) =>
    (await import('./look.ts')).status(context),
  );
  program.add(
    'diff [from] [to]',
    'git patch from a boundary (default: the newest) to another or to the files now',
    async (context, [from, to]) => (await import('./look.ts')).diff(context, from, to),
  );
  program
    .add('plan <boundary> [paths...]', 'what restore would do', async (context, [id = '', ...paths], flags) =>
      (await import('./look.ts')).plan(context, id, { paths, hunks: flags.hunks === true }),
    )
    .addOption(CONFLICT())
    .option('--hunks', 'list the hunks of text files, with numbers');
  program.add(
    'export <boundary> <dir>',
    'write the files as of a boundary into an empty folder',
    async (context, [id = '', folder = '']) => (await import('./look.ts')).exportTo(context, id, folder),
  );
}

/** Gives a command the options of those that write to the tree. */
function writing(command: Command): Command {
  for (const option of [...WRITING(), CONFLICT()]) command.addOption(option);
  return command;
}

function addTakingBack(program: Program): void {
  const times = (): Argument => new Argument('[n]', 'how many turns').argParser(atLeastOne);
  writing(
    program.add('undo', 'take back the newest turn, or n turns', async (context, [n], flags) =>
      (await import('./take-back.ts')).undo(context, Number(n ?? 1), flags),
    ),
  )
    .addArgument(times())
    .option('--turn <boundary>', 'take back this turn only');
  writing(
    program.add('redo', 'take back the newest undo or restore, or n of them', async (context, [n]) =>
      (await import('./take-back.ts')).redo(context, Number(n ?? 1)),
    ),
  ).addArgument(times());
  writing(
    program.add(
      'restore <boundary> [paths...]',
      'take back all that the session did since a boundary',
      async (context, [id = '', ...paths], flags) => {
        const command = await import('./take-back.ts');
        if (flags.hunks === undefined) return command.restore(context, id, paths);
        const { parseHunks } = await import('./hunks.ts');
        const wanted = flags.hunks === true ? [] : (flags.hunks as string[]).flatMap(parseHunks);
        return command.restoreHunks(context, id, { paths, wanted });
      },
    ),
  ).addOption(
    new Option(
      '--hunks [numbers]',
      'only these hunks of text files (1,3-4, or an id); without numbers: asks',
    ).argParser((text: string, before: unknown): string[] => [...(Array.isArray(before) ? before : []), text]),
  );
}

function addReverts(program: Program): void {
  writing(
    program.add(
      'revert <message>',
      'back to a message (a boundary, or a step): stands until unrevert or the next turn',
      async (context, [id = '']) => (await import('./take-back.ts')).revert(context, id),
    ),
  );
  writing(
    program.add('revert-turn <boundary>', 'take back one turn and keep what came later', async (context, [id = '']) =>
      (await import('./take-back.ts')).revertTurn(context, id),
    ),
  );
  writing(
    program.add('revert-call <call>', 'take back one call and keep what came later', async (context, [id = '']) =>
      (await import('./take-back.ts')).revertCall(context, id),
    ),
  );
  writing(
    program.add('unrevert', 'bring back the files as they were when the revert started', async (context) =>
      (await import('./take-back.ts')).unrevert(context),
    ),
  );
}

function addStore(program: Program): void {
  program.add('sessions', 'list the sessions', async (context) => (await import('./store.ts')).sessions(context));
  const drop = program.add('drop', 'forget the session and the bytes that only it needs', async (context) =>
    (await import('./store.ts')).drop(context),
  );
  for (const option of WRITING()) drop.addOption(option);
  program.add('gc', 'drop what retention no longer keeps', async (context) => (await import('./store.ts')).gc(context));
  program
    .add('verify', 'check every blob, row and reference', async (context, _args, flags) =>
      (await import('./store.ts')).verify(context, flags),
    )
    .option('--rehash', 'read every covered file again too');
  program.add('stats', 'what the store costs', async (context) => (await import('./store.ts')).stats(context));
  program.add('recover', 'end an operation whose process died', async (context) =>
    (await import('./store.ts')).recover(context),
  );
  program.add('doctor', 'which backend runs and why, and what is wrong', async (context) =>
    (await import('./doctor.ts')).doctor(context),
  );
  program
    .add('demo', 'show a turn undone and redone on a copy of a real tree', async (context, _args, flags) =>
      (await import('./demo.ts')).demo(context, flags),
    )
    .option('--path <dir>', "tree to copy (default: this package's own checkout)");
}

function addHosts(program: Program): void {
  const hostCommand = (name: 'install' | 'uninstall', text: string): void => {
    const command = program
      .add(`${name}`, text, async (context, _args, flags) => (await import('./install.ts'))[name](context, flags))
      .addArgument(new Argument('<host>', 'the agent host').choices(['claude-code']))
      .option('--user', 'settings of the user: every project')
      .option('--project', 'settings of the project that are shared')
      .option('--local', 'settings of the project that are yours alone (default)');
    for (const option of WRITING()) command.addOption(option);
  };
  hostCommand('install', 'add our hooks to the settings of an agent host; shows the change first');
  hostCommand('uninstall', 'take our hooks out of them again');
  program
    .add('hook', 'record one event of an agent host, given as JSON on standard input', async () => Exit.usage)
    .addArgument(new Argument('<host>', 'the agent host').choices(['claude-code', 'codex']));
}

function addServers(program: Program, version: string): void {
  program.add('mcp', 'serve the history to an MCP client on standard input and output', async (context) =>
    (await import('./mcp.ts')).serve(context, version),
  );
}

/** Runs one command line (without node and script) and answers its exit code. Never throws. */
export async function main(host: Host, argv: readonly string[], version: string): Promise<number> {
  const program = new Program(host, version);
  addRecording(program);
  addLooking(program);
  addTakingBack(program);
  addReverts(program);
  addStore(program);
  addHosts(program);
  addServers(program, version);
  try {
    await program.root.parseAsync([...argv], { from: 'user' });
    return program.exitCode;
  } catch (fault) {
    if (fault instanceof CommanderError) {
      if (fault.exitCode === 0) return Exit.done;
      const json = new Screen(host, argv.includes('--json'));
      // Commander has said it on standard error.
      json.object({ error: { code: 'ERR_USAGE', message: fault.message.replace(/^error: /, '') } });
      return Exit.usage;
    }
    return reportFault(new Screen(host, argv.includes('--json')), fault);
  }
}
