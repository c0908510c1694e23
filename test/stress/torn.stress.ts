/**
 * Files that another process rewrites without a pause, in four parts: what a capture reads of them is whole, or flagged `in-flux`. On the
 * native backend none that is torn passes for clean. The portable one has no lease: by times alone it can't tell a writer that
 * pauses between two parts; what passes is printed and not judged (LIMITS).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openBackend } from '../../src/backend/open.ts';
import { asRelPath } from '../../src/rel-path.ts';
import { TreeKit } from '../backend/tree-kit.ts';
import { describeBackends } from '../kit/backends.ts';
import { sized } from './kit/tools.ts';

const FILES = 20;
const PART = 16 * 1024;
const READS = sized(5_000, 50_000);
const IN_FLUX = 2;

/** Rewrites the files in turn, each part with the letter of the round; pauses in the middle of every seventh. */
const REWRITER = `
const fs = require('node:fs');
const [folder, files, part] = [process.argv[1], Number(process.argv[2]), Number(process.argv[3])];
process.stdout.write('on\\n');
for (let round = 0; ; round++) {
  const bytes = Buffer.alloc(part, 97 + (round % 26));
  for (let i = 0; i < files; i++) {
    const fd = fs.openSync(folder + '/f' + i, 'r+');
    for (let k = 0; k < 4; k++) {
      fs.writeSync(fd, bytes, 0, part, k * part);
      if (k === 1 && (round + i) % 7 === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
    fs.closeSync(fd);
  }
}`;

describeBackends('torn reads', (name) => {
  test(`of ${READS} reads under a rewriter none is torn and taken for clean`, async () => {
    const { backend } = await openBackend(name);
    const kit = await TreeKit.make(backend);
    for (let i = 0; i < FILES; i++) kit.write(`f${i}`, Buffer.alloc(4 * PART, 65));
    await kit.boundary();
    const writer = spawn(process.execPath, ['-e', REWRITER, kit.root, String(FILES), String(PART)]);
    await once(writer.stdout, 'data');
    const count = { reads: 0, flagged: 0, torn: 0, tornClean: 0 };
    while (count.reads < READS) {
      for (const { after, flags } of (await kit.observe()).changes) {
        if (after.kind !== 'file') continue;
        const bytes = await kit.segments.read(after.content);
        const torn = bytes.some((byte) => byte !== bytes[0]);
        const clean = (flags & IN_FLUX) === 0;
        count.reads += 1;
        count.flagged += clean ? 0 : 1;
        count.torn += torn ? 1 : 0;
        count.tornClean += torn && clean ? 1 : 0;
      }
    }
    writer.kill('SIGKILL');
    await once(writer, 'close');
    await kit.observe();
    const paths = Array.from({ length: FILES }, (_, i) => asRelPath(`f${i}`));
    for (const [i, version] of (await kit.tree.versions(paths)).entries()) {
      const stored = version.kind === 'file' ? Buffer.from(await kit.segments.read(version.content)) : null;
      const whole = stored?.equals(readFileSync(join(kit.root, `f${i}`)));
      expect(whole, `f${i}: once the writer is gone, a look has its bytes`).toBe(true);
    }
    await kit.close();
    console.info(`${name}: ${JSON.stringify(count)}`);
    expect(count.torn, 'the writer was on').toBeGreaterThan(0);
    if (name === 'native') expect(count.tornClean).toBe(0);
  });
});
