/** Faults that kept secrets. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { decompress } from 'fzstd';
import { expect, test } from 'vitest';
import { describeBackends } from '../kit/backends.ts';
import { digest } from '../kit/digest.ts';
import { got, Story } from '../kit/story.ts';

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

/** All bytes of the store, and what its records say once decompressed. */
function storedText(dataDir: string): string {
  return filesBelow(dataDir)
    .map((file) => {
      const bytes = readFileSync(file);
      return bytes.toString('latin1') + (file.endsWith('.seg') ? recordsOf(bytes).join('\n') : '');
    })
    .join('\n');
}

function recordsOf(segment: Buffer): string[] {
  const out: string[] = [];
  for (let at = 32; at + 48 <= segment.length; ) {
    if (segment.readUInt32LE(at) !== 0x31524254) break;
    const codec = segment.readUInt8(at + 4);
    const stored = Number(segment.readBigUInt64LE(at + 16));
    const payload = segment.subarray(at + 48, at + 48 + stored);
    const raw = codec === 1 ? Buffer.from(decompress(payload)) : codec === 2 ? inflateRawSync(payload) : payload;
    out.push(raw.toString('latin1'));
    at += 48 + stored + 8;
  }
  return out;
}

describeBackends('secrets', (backend) => {
  // B26 · Lingtai-AI/lingtai-kernel #627
  test('secret files are never stored, planned or diffed; what a later rule hides leaves with collection', async () => {
    await using story = await Story.begin(
      backend,
      'mkdir -p .secrets pkg; echo tok-8c1>.secrets/t.json; echo KEY=tok-env>.env; echo KEY=tok-local>pkg/.env.local; echo 1 >f',
    );
    const a = await story.cp('a');
    expect(a.uncovered).toEqual([
      { path: '.env', reason: 'secret' },
      { path: 'pkg/.env.local', reason: 'secret' },
    ]);
    await story.t('echo 2 >f; echo KEY=agent>>.env');
    story.u('echo .secrets/>.gitignore');
    const b = await story.cp('b');
    const target = join(story.space.base, 'data', 'export-b');
    got(await story.workspace.export(b.position, target));
    expect(readdirSync(target).sort()).toEqual(['.gitignore', 'f', 'pkg']);
    const plan = await story.plan('a');
    const diff = got(await story.session().diff(a.position));
    expect(JSON.stringify(plan) + diff.patch).not.toMatch(/tok-|KEY=/);
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'partial',
      restored: { f: 'restore' },
      refused: { '.env': 'uncovered' },
      uncovered: { '.env': 'secret' },
    });
    expect(story.space.read('.env')).toBe('KEY=tok-env\nKEY=agent\n');
    expect(storedText(join(story.space.dataDir, 'workspaces'))).not.toMatch(/tok-env|tok-local|KEY=/);
    got(await story.session().drop());
    got(await story.workspace.gc());
    expect(storedText(join(story.space.dataDir, 'workspaces'))).not.toContain('tok-8c1');
    await story.workspace.close();
    expect(storedText(join(story.space.dataDir, 'workspaces'))).not.toContain('tok-8c1');
  });

  test('the store is its owner’s only, whatever the umask', async () => {
    const kept = process.umask(0);
    try {
      await using story = await Story.begin(backend, 'echo 1 >f; mkdir d; echo 1 >d/g');
      await story.cp('a');
      await story.t('echo 2 >f; rm -r d');
      await story.undo('a');
      const store = join(story.space.dataDir, 'workspaces');
      const files = filesBelow(story.space.dataDir);
      const kept = files.filter((file) => file.includes('/trash/'));
      expect(kept.length, 'what came out of the tree keeps its mode, in a folder of 0700').toBeGreaterThan(0);
      for (const file of files.filter((f) => !kept.includes(f))) expect(statSync(file).mode & 0o077, file).toBe(0);
      expect(statSync(story.space.dataDir).mode & 0o777).toBe(0o700);
      for (const name of readdirSync(store)) {
        for (const folder of ['.', 'segments', 'journal', 'trash', 'scratch'])
          expect(statSync(join(store, name, folder)).mode & 0o777, folder).toBe(0o700);
      }
    } finally {
      process.umask(kept);
    }
  });

  test.each([
    ['.env', true],
    ['.env.production', true],
    ['deep/er/.env.local', true],
    ['.env.example', false],
    ['.env.sample', false],
    ['x/.env.template', false],
    ['env', false],
    ['.environment', false],
  ])('%s is a secret: %s', async (path, secret) => {
    await using story = await Story.begin(
      backend,
      `git init -q; mkdir -p "$(dirname ${path})"; echo 1 >${path}; git add -f -A`,
    );
    const capture = await story.cp('a');
    expect(capture.uncovered).toEqual(secret ? [{ path, reason: 'secret' }] : []);
    await story.t(`echo 2 >${path}`);
    expect(digest(await story.undo('a')).outcome).toBe(secret ? 'nothing' : 'done');
    expect(story.space.read(path)).toBe(secret ? '2\n' : '1\n');
  });

  test('a folder named like a secret is a plain folder', async () => {
    await using story = await Story.begin(backend, 'mkdir .env; echo 1 >.env/f');
    expect((await story.cp('a')).uncovered).toEqual([]);
    await story.t('echo 2 >.env/f');
    expect(digest(await story.undo('a'))).toEqual({ outcome: 'done', restored: { '.env/f': 'restore' } });
  });

  test('a secret that the agent moved is never deleted: its only bytes are there', async () => {
    await using story = await Story.begin(backend, 'echo KEY=1 >.env; echo 1 >f');
    await story.cp('a');
    await story.t('mv .env config; echo 2 >f');
    const receipt = await story.undo('a');
    expect(digest(receipt).restored).toEqual({ f: 'restore' });
    expect(digest(receipt).refused).toMatchObject({ '.env': 'uncovered', config: 'moved-uncovered' });
    expect(story.space.read('config')).toBe('KEY=1\n');
  });

  test('a secret made, changed or deleted by the agent is listed and left as it is', async () => {
    await using story = await Story.begin(backend, 'echo KEY=1 >.env; mkdir p');
    await story.cp('a');
    await story.t('rm .env; echo NEW=1 >p/.env');
    expect(digest(await story.undo('a'))).toEqual({
      outcome: 'nothing',
      refused: { '.env': 'uncovered', 'p/.env': 'uncovered' },
      uncovered: { '.env': 'secret', 'p/.env': 'secret' },
    });
    expect(story.space.read('p/.env')).toBe('NEW=1\n');
  });

  test('include covers a secret, and then it comes back', async () => {
    await using story = await Story.begin(backend, 'echo KEY=1 >.env', { open: { include: ['.env'] } });
    expect((await story.cp('a')).uncovered).toEqual([]);
    await story.t('echo KEY=2 >.env');
    await story.undo('a');
    expect(story.space.read('.env')).toBe('KEY=1\n');
  });
});
