/**
 * The scripted turn of the demo: real shell commands, fitted to the tree that they run in. Pure but for looking at
 * candidate files.
 */
import { readFileSync, statSync } from 'node:fs';

export interface Step {
  readonly what: string;
  /** For `sh -c`, in the root. */
  readonly command: string;
  /** Names that the command reads from standard input, each ended by NUL. */
  readonly input?: string;
}

/** Larger files are left out of the turn, not of the tree. */
const MAX_BYTES = 512 * 1024;
const MAX_SED_FILES = 500;
/** Enough to tell text from binary, as git does it. */
const TEXT_PROBE_BYTES = 8000;

const quote = (name: string): string => `'${name.replaceAll("'", "'\\''")}'`;
/** With `./` a leading dash is no option. */
const shell = (name: string): string => quote(`./${name}`);

function isText(path: string): boolean {
  const { size } = statSync(path);
  return size > 0 && size <= MAX_BYTES && !readFileSync(path).subarray(0, TEXT_PROBE_BYTES).includes(0);
}

/** Secret names are never covered, and a turn that changes ignore rules would be another demo. */
function isCandidate(name: string): boolean {
  const leaf = name.slice(name.lastIndexOf('/') + 1);
  return !leaf.startsWith('.env') && !leaf.startsWith('.git');
}

/** `sed -i` takes a suffix of its own on macOS. */
const SED_IN_PLACE = process.platform === 'darwin' ? "sed -i ''" : 'sed -i';

/** Steps for a tree with these files; those that the tree has no file for are left out. */
export function scriptTurn(root: string, files: readonly string[]): Step[] {
  const texts = files.filter((name) => isCandidate(name) && isText(`${root}/${name}`));
  // From both ends, so that the steps meet different folders; sed gets all that is left.
  const [edited, chmodded] = texts;
  const [deleted, moved] = texts.length > 3 ? [texts.at(-1), texts.at(-2)] : [undefined, undefined];
  const rest = texts.slice(2, -2).slice(0, MAX_SED_FILES);
  const steps: Step[] = [];
  if (edited !== undefined) {
    steps.push({ what: 'edit a file', command: `printf 'one more line\\n' >> ${shell(edited)}` });
  }
  steps.push({
    what: 'create files in new folders',
    command:
      "mkdir -p 'notes of the agent/deep' && printf 'a plan\\n' > 'notes of the agent/deep/plan.md' && : > 'notes of the agent/empty'",
  });
  if (deleted !== undefined) steps.push({ what: 'delete a file', command: `rm ${shell(deleted)}` });
  if (moved !== undefined) {
    steps.push({ what: 'move a file', command: `mkdir -p moved && mv ${shell(moved)} moved/away` });
  }
  if (chmodded !== undefined) {
    steps.push({ what: 'change a mode', command: `chmod 700 ${shell(chmodded)}` });
  }
  steps.push({ what: 'make a symlink', command: "ln -s 'notes of the agent/deep/plan.md' 'link to the plan'" });
  if (rest.length > 0) {
    steps.push({
      what: `sed -i over ${rest.length.toLocaleString('en-US')} files`,
      command: `xargs -0 ${SED_IN_PLACE} -e 's/e/E/'`,
      input: rest.map((name) => `./${name}\0`).join(''),
    });
  }
  return steps;
}
