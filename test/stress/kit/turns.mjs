/**
 * A process that works through turns of its session, to be killed and followed by another. Takes JSON: `{ open, name, prefix, turns,
 * declared }`. Each turn: a boundary, then a call that writes `<name>.txt`. Prints a JSON line once a boundary is answered,
 * with what the file held at it, one at the end of each turn, and at the first fault that fault alone.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openWorkspace } from '../../../dist/index.js';

const { open, name, prefix, turns, declared } = JSON.parse(process.argv[2]);
const file = join(open.root, `${name}.txt`);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const held = () => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
};

function must(step, result) {
  if (result.available) return;
  say({ fault: `${step}: ${result.reason}: ${result.detail}` });
  process.exit(1);
}

const workspace = await openWorkspace(open);
must('open', workspace);
const session = workspace.session({ threadId: name });
for (let turn = 0; turn < turns; turn++) {
  const id = `${prefix}${turn}`;
  const content = held();
  must('capture', await session.capture(id));
  say({ boundary: id, content });
  must('beginCall', await session.beginCall(id, declared ? { paths: [`${name}.txt`] } : {}));
  writeFileSync(file, `${name} ${id}\n`);
  must('endCall', await session.endCall(id));
  say({ done: id });
}
await workspace.close();
