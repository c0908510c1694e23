/** A disk that is full, as it is: a capture and a restore say so, lose nothing, and work once there is room again. */
import { readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { availableBackends } from '../kit/backends.ts';
import { Space } from '../kit/space.ts';
import { got } from '../kit/story.ts';
import { FileSystem, missing } from './kit/filesystems.ts';
import { treeOf } from './kit/scenario.ts';

const KIB = 1024;
/** Does not compress. */
const noise = (kib: number, seed: number): Buffer => {
  const bytes = Buffer.alloc(kib * KIB);
  let state = seed;
  for (let i = 0; i < bytes.length; i += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes.writeUInt32LE((state ^ (state >>> 15)) >>> 0, i);
  }
  return bytes;
};

/** Leaves about `kib` free; answers the file that takes the rest. */
function fill(disk: FileSystem, kib: number): string {
  const file = join(disk.folder, 'filler');
  const { bfree, bsize } = statfsSync(disk.folder);
  for (let left = bfree * bsize - kib * KIB; left > 0; left -= 1024 * KIB)
    writeFileSync(file, Buffer.alloc(Math.min(left, 1024 * KIB), 1), { flag: 'a' });
  return file;
}

for (const kind of ['ext4', 'tmpfs'] as const) {
  const lack = missing(kind);
  describe.skipIf(lack !== null)(`a full disk: ${kind}${lack === null ? '' : `: ${lack}`}`, () => {
    test.each(availableBackends)(
      'a capture is refused as no-space, the files stay, and it works with room [%s]',
      async (backend) => {
        using disk = new FileSystem(kind, { megabytes: 24 });
        await using space = new Space({ parent: disk.folder });
        space.write('a', noise(64, 1));
        const workspace = await space.open(backend, { durability: 'full' });
        const session = workspace.session({ threadId: 's' });
        got(await session.capture('start'));
        for (let i = 0; i < 6; i++) space.write(`big${i}`, noise(512, i + 2));
        const filler = fill(disk, 600);
        const before = treeOf(space);
        const refused = await session.capture('full');
        expect(refused).toMatchObject({ available: false, reason: 'no-space' });
        expect(refused.available ? '' : refused.detail).toMatch(/\//);
        expect(treeOf(space)).toEqual(before);
        rmSync(filler);
        got(await session.capture('room'));
        space.sh('rm big0');
        expect(got(await workspace.verify())).toMatchObject({ ok: true, problems: [] });
        const { position } = got(await session.capture('after'));
        const target = join(space.base, 'export');
        expect(got(await workspace.export(position, target)).failed).toEqual([]);
        expect(readFileSync(join(target, 'big5')).equals(noise(512, 7))).toBe(true);
        await workspace.close();
      },
    );

    test.each(availableBackends)(
      'a restore says what failed, nothing is lost, and it works with room [%s]',
      async (backend) => {
        using disk = new FileSystem(kind, { megabytes: 24 });
        await using space = new Space({ parent: disk.folder });
        for (let i = 0; i < 4; i++) space.write(`f${i}`, noise(512, i + 1));
        const start = treeOf(space);
        let workspace = await space.open(backend, { durability: 'full' });
        const session = () => workspace.session({ threadId: 's' });
        got(await session().capture('start'));
        got((await session().call('c', {}, () => space.sh('for i in 0 1 2 3; do echo turn >f$i; done'))).end);
        const turn = treeOf(space);
        const filler = fill(disk, 900);
        const receipt = await session().restore('start');
        const said = receipt.available ? receipt.failed.map(({ path, detail }) => [path, detail]) : receipt.detail;
        expect(said.length, 'it says that there is no room').toBeGreaterThan(0);
        expect(JSON.stringify(said)).toMatch(/space|ENOSPC/i);
        const now = treeOf(space);
        for (const path of Object.keys(turn)) expect([start[path], turn[path]], path).toContain(now[path]);
        rmSync(filler);
        await workspace.close();
        workspace = await space.open(backend, { durability: 'full' });
        const again = got(await session().restore('start'));
        expect([again.failed, again.refused]).toEqual([[], []]);
        expect(treeOf(space)).toEqual(start);
        expect(got(await workspace.verify())).toMatchObject({ ok: true, problems: [] });
        await workspace.close();
      },
    );
  });
}
