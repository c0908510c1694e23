/** The portable reader of git's packs, with git as the oracle: every blob of packs that git made. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { applyDelta, GitPack } from '../../src/backend/portable/git-pack.ts';
import { Space } from '../kit/space.ts';

interface Blob {
  readonly id: string;
  readonly offset: number;
}

/** A repository with chains of deltas, an empty and a large file, in one pack. */
function packed(space: Space, format: string, repack: string): { stem: string; blobs: Blob[] } {
  space.sh(`git init -q -b main --object-format=${format}
    for i in $(seq 15); do seq $i 1500 >long; echo $i >small-$i; git add -A; git commit -qm $i; done
    : >empty; head -c 300000 /dev/zero >large; git add -A; git commit -qm last; ${repack}`);
  const dir = join(space.root, '.git/objects/pack');
  const stem = join(dir, (readdirSync(dir).find((name) => name.endsWith('.pack')) as string).slice(0, -'.pack'.length));
  const lines = space.git('verify-pack', '-v', `${stem}.idx`).split('\n');
  const blobs = lines
    .map((line) => /^([0-9a-f]+) blob +\d+ \d+ (\d+)/.exec(line))
    .filter((match) => match !== null)
    .map((match): Blob => ({ id: match[1] as string, offset: Number(match[2]) }));
  return { stem, blobs };
}

test.each([
  ['deltas with offsets', 'sha1', 'git repack -adfq --depth=50'],
  ['deltas with ids', 'sha1', 'git -c repack.useDeltaBaseOffset=false repack -adfq'],
  ['SHA-256', 'sha256', 'git repack -adfq'],
])('every blob is what git says: %s', async (_name, format, repack) => {
  await using space = new Space();
  const { stem, blobs } = packed(space, format, repack);
  expect(blobs.length).toBeGreaterThan(30);
  const pack = new GitPack(stem, format === 'sha1' ? 20 : 32);
  try {
    for (const { id, offset } of blobs) {
      const bytes = execFileSync('git', ['cat-file', 'blob', id], { cwd: space.root, env: space.env });
      expect(pack.blob(offset).equals(bytes), id).toBe(true);
    }
  } finally {
    pack.close();
  }
});

test('bytes that changed are an error or other bytes', async () => {
  await using space = new Space();
  const { stem, blobs } = packed(space, 'sha1', 'git repack -adfq');
  const bytes = readFileSync(`${stem}.pack`);
  const copy = join(space.base, 'copy');
  writeFileSync(`${copy}.idx`, readFileSync(`${stem}.idx`));
  let faults = 0;
  for (let round = 0; round < 20; round++) {
    const bad = Buffer.from(bytes);
    for (let step = 0; step < 8; step++) {
      const at = 12 + ((round * 7919 + step * 104_729) % (bytes.length - 40));
      bad.writeUInt8(bad.readUInt8(at) ^ (1 << ((round + step) % 8)), at);
    }
    writeFileSync(`${copy}.pack`, bad);
    const pack = new GitPack(copy, 20);
    for (const { offset } of blobs) {
      try {
        pack.blob(offset);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        faults += 1;
      }
    }
    pack.close();
  }
  expect(faults).toBeGreaterThan(10);
});

test('a delta that reaches beyond its base, or makes another length than it says, is an error', () => {
  const base = Buffer.from('0123456789');
  expect(applyDelta(base, Buffer.from([10, 4, 0x91, 2, 4])).toString()).toBe('2345');
  expect(applyDelta(base, Buffer.from([10, 2, 2, 0x61, 0x62])).toString()).toBe('ab');
  for (const delta of [
    [9, 4, 0x91, 2, 4],
    [10, 4, 0x91, 8, 4],
    [10, 5, 0x91, 2, 4],
    [10, 3, 0x91, 2, 4],
    [10, 1, 0],
    [10, 3, 3, 0x61],
  ])
    expect(() => applyDelta(base, Buffer.from(delta)), `${delta}`).toThrow('the pack is damaged');
});
