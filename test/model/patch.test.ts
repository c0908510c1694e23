/** Patches, with git as the oracle: `git apply` takes each and gives exactly the other side. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type BinaryTools, largePatch, type PatchSide, patchOf } from '../../src/model/patch.ts';
import { asRelPath, decodeName, encodeName } from '../../src/rel-path.ts';

const BINARY: BinaryTools = {
  deflate: (bytes) => deflateSync(bytes),
  blobId: (bytes) => createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex'),
};

const NONE: PatchSide = { version: { kind: 'absent' } };
const file = (content: string | Buffer, mode = 0o644): PatchSide => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return { version: { kind: 'file', mode, size: bytes.length, content: '00'.repeat(16) }, bytes };
};
const link = (target: string): PatchSide => ({ version: { kind: 'symlink', target } });

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'takeback-patch-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function put(path: string, side: PatchSide): void {
  const at = Buffer.concat([Buffer.from(`${dir}/`), encodeName(path)]);
  rmSync(at, { force: true });
  if (side.version.kind === 'absent') return;
  if (path.includes('/')) mkdirSync(dirname(at.toString()), { recursive: true });
  if (side.version.kind === 'symlink') symlinkSync(encodeName(side.version.target), at);
  if (side.version.kind === 'file') {
    writeFileSync(at, side.bytes as Uint8Array);
    chmodSync(at, side.version.mode);
  }
}

/** Kind, execute bit and bytes, or null. */
function seen(path: string): unknown {
  const at = Buffer.concat([Buffer.from(`${dir}/`), encodeName(path)]);
  const stat = lstatSync(at, { throwIfNoEntry: false });
  if (stat === undefined) return null;
  if (stat.isSymbolicLink()) return ['link', readlinkSync(at, 'latin1')];
  return ['file', (stat.mode & 0o100) !== 0, readFileSync(at, 'latin1')];
}

function wanted(side: PatchSide): unknown {
  if (side.version.kind === 'absent') return null;
  if (side.version.kind === 'symlink') return ['link', encodeName(side.version.target).toString('latin1')];
  if (side.version.kind !== 'file') throw new Error('no such side in these tests');
  return ['file', (side.version.mode & 0o100) !== 0, Buffer.from(side.bytes as Uint8Array).toString('latin1')];
}

function apply(patch: Buffer, ...options: string[]): void {
  const env = { PATH: process.env.PATH, HOME: dir, GIT_CEILING_DIRECTORIES: dirname(dir), GIT_CONFIG_NOSYSTEM: '1' };
  execFileSync('git', ['apply', '--whitespace=nowarn', ...options, '-'], {
    cwd: dir,
    input: patch,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

function expectApplies(path: string, before: PatchSide, after: PatchSide, binary?: BinaryTools): void {
  const patch = patchOf(asRelPath(path), before, after, binary === undefined ? {} : { binary });
  if (patch === null) throw new Error(`no patch for ${path}`);
  put(path, before);
  apply(patch.bytes);
  expect(seen(path), `forwards: ${patch.bytes}`).toEqual(wanted(after));
  // Backwards, git 2.47 makes a regular file of a link that went, from its own patches too: nothing to compare with.
  const linkGoes = before.version.kind === 'symlink' && after.version.kind !== 'symlink';
  if (!linkGoes) {
    apply(patch.bytes, '--reverse');
    expect(seen(path), `backwards: ${patch.bytes}`).toEqual(wanted(before));
  }
  put(path, NONE);
}

const many = Array.from({ length: 60 }, (_, i) => `line ${i}`);
const manyEdited = many.flatMap((line, i) => (i % 20 === 5 ? [] : i % 17 === 3 ? [line, 'added'] : [line]));

describe('git apply takes the patch and gives exactly the other side', () => {
  const corpus: [string, string, PatchSide, PatchSide][] = [
    ['a changed line', 'f.txt', file('a\nb\nc\n'), file('a\nB\nc\n')],
    ['several hunks', 'f.txt', file(`${many.join('\n')}\n`), file(`${manyEdited.join('\n')}\n`)],
    ['a new file', 'f.txt', NONE, file('a\nb\n')],
    ['a new file in a new folder', 'd/e/f.txt', NONE, file('a\n')],
    ['a deleted file', 'f.txt', file('a\nb\n'), NONE],
    ['a new empty file', 'f.txt', NONE, file('')],
    ['a deleted empty file', 'f.txt', file(''), NONE],
    ['a file that becomes empty', 'f.txt', file('a\n'), file('')],
    ['a last line that loses its newline', 'f.txt', file('a\nb\n'), file('a\nb')],
    ['a last line that gains its newline', 'f.txt', file('a\nb'), file('a\nb\n')],
    ['no newline on either side', 'f.txt', file('a\nb'), file('a\nc')],
    ['a context line without newline', 'f.txt', file('a\nb\nc'), file('A\nb\nc')],
    ['a new file without newline', 'f.txt', NONE, file('a')],
    ['CRLF lines', 'f.txt', file('a\r\nb\r\nc\r\n'), file('a\r\nB\r\nc\r\n')],
    ['CRLF that becomes LF', 'f.txt', file('a\r\nb\r\n'), file('a\nb\r\n')],
    ['a lone CR in a line', 'f.txt', file('a\rb\nc\n'), file('a\rB\nc\n')],
    [
      'text that is not UTF-8',
      'f.txt',
      file(Buffer.from([0xe9, 10, 0xff, 0xfe, 10])),
      file(Buffer.from([0xe8, 10, 0xff, 0xfe, 10])),
    ],
    ['a line that looks like a header', 'f.txt', file('-- a/x\n++ b/x\n'), file('@@ -1 +1 @@\n++ b/x\n')],
    ['an execute bit set', 'run.sh', file('echo\n'), file('echo\n', 0o755)],
    ['an execute bit dropped with other content', 'run.sh', file('echo\n', 0o755), file('echo 2\n')],
    ['a new executable', 'run.sh', NONE, file('echo\n', 0o755)],
    ['a new link', 'l', NONE, link('../out/t.txt')],
    ['a link that points elsewhere', 'l', link('a'), link('b/c')],
    ['a deleted link', 'l', link('a'), NONE],
    ['a file that becomes a link', 't.txt', file('in\n'), link('x')],
    ['a link that becomes a file', 't.txt', link('x'), file('in\n')],
    ['a name with a space', 'my file.txt', file('a\n'), file('b\n')],
    ['a new name with a space', 'my file.txt', NONE, file('b\n')],
    ['a name outside ASCII', '日本語 メモ.ts', file('a\n'), file('b\n')],
    ['a name with an emoji', '🚀.md', NONE, file('b\n')],
    ['a name with quotes, backslash, tab and newline', 'a"b\\c\td\ne.txt', file('a\n'), file('b\n')],
    ['a name with control characters', '\u0001\u007f\u001b', file('a\n'), NONE],
    ['a name that is not UTF-8', decodeName(Buffer.from([0x66, 0xff, 0x80, 0x67])), file('a\n'), file('b\n')],
  ];
  test.each(corpus)('%s', (_, path, before, after) => {
    expectApplies(path, before, after);
    expectApplies(path, before, after, BINARY);
  });

  const blob = Buffer.from(Array.from({ length: 1000 }, (_, i) => (i * 7919) % 256));
  const binaries: [string, PatchSide, PatchSide][] = [
    ['a changed binary file', file(blob), file(Buffer.concat([blob, Buffer.from([0, 1, 2])]))],
    ['a new binary file', NONE, file(blob, 0o755)],
    ['a deleted binary file', file(blob), NONE],
    ['text that becomes binary', file('a\n'), file(blob)],
    ['binary that becomes empty', file(blob), file('')],
  ];
  test.each(binaries)('%s, with the tools for it', (_, before, after) => expectApplies('x.bin', before, after, BINARY));

  test('random texts over few distinct lines', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c', '', 'd\r'), { maxLength: 40 })
      .chain((lines) => fc.constantFrom(lines.join('\n'), lines.map((l) => `${l}\n`).join('')));
    fc.assert(
      fc.property(text, text, (a, b) => {
        fc.pre(a !== b);
        expectApplies('f.txt', file(a), file(b));
      }),
      { numRuns: 60 },
    );
  });
});

describe('the text of a patch', () => {
  const text = (path: string, a: PatchSide, b: PatchSide): string | undefined =>
    patchOf(asRelPath(path), a, b)?.bytes.toString();

  test('is that of git for a changed line', () => {
    expect(text('a b.txt', file('1\n2\n3\n4\n5\n'), file('1\n2\n3\n4\nfive'))).toBe(
      'diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -2,4 +2,4 @@\n 2\n 3\n 4\n-5\n+five\n\\ No newline at end of file\n',
    );
  });

  test('marks a binary file as differing without the tools', () => {
    const patch = patchOf(asRelPath('x.bin'), file(Buffer.from([0])), file(Buffer.from([0, 1])));
    expect(patch?.bytes.toString()).toBe('diff --git a/x.bin b/x.bin\nBinary files a/x.bin and b/x.bin differ\n');
    expect(patch).toMatchObject({ binary: true, added: 0, deleted: 0 });
  });

  test('quotes a name as git does', () => {
    expect(text('naïve.txt', NONE, file(''))).toBe(
      'diff --git "a/na\\303\\257ve.txt" "b/na\\303\\257ve.txt"\nnew file mode 100644\n',
    );
  });

  test('counts lines', () => {
    expect(patchOf(asRelPath('f'), file('a\nb\nc\n'), file('a\nx\ny\nc\n'))).toMatchObject({
      added: 2,
      deleted: 1,
      binary: false,
    });
  });

  test('is absent for folders, for bits that git does not know, and where bytes are not kept', () => {
    expect(text('d', NONE, { version: { kind: 'dir', mode: 0o755 } })).toBeUndefined();
    expect(text('f', file('a\n'), file('a\n', 0o600))).toBeUndefined();
    const stat = { kind: 'file', mode: 0o644, size: 1, mtimeNs: 1n, ctimeNs: 1n, ino: 1n, dev: 1n } as const;
    expect(text('.env', { version: { kind: 'uncovered', reason: 'secret', stat } }, NONE)).toBeUndefined();
  });

  test('of a file without bytes is a bug of the caller', () => {
    const bare = { version: file('a').version };
    expect(() => patchOf(asRelPath('f'), bare, NONE)).toThrow('a patch lacks the bytes of f');
  });
});

test('a hopeless diff ends in time, as one hunk that git apply takes', () => {
  const a = `same\n${Array.from({ length: 20_000 }, (_, i) => `old ${i}`).join('\n')}\nend\n`;
  const b = `same\n${Array.from({ length: 20_000 }, (_, i) => `new ${i}`).join('\n')}\nend\n`;
  const patch = patchOf(asRelPath('f'), file(a), file(b), { timeoutMs: 20 });
  expect(patch).toMatchObject({ added: 20_000, deleted: 20_000 });
  put('f', file(a));
  apply((patch as { bytes: Buffer }).bytes);
  expect(seen('f')).toEqual(['file', false, b]);
});

describe('files too large to be compared', () => {
  const path = asRelPath('d/big one');
  const from = asRelPath('old');
  const version = (content: string, mode = 0o644) => ({ kind: 'file', mode, size: 1 << 30, content }) as const;
  const text = (change: Parameters<typeof largePatch>[0]) => largePatch(change)?.bytes.toString();

  test('a patch says that they differ', () => {
    expect(text({ path, before: version('a'), after: version('b', 0o755) })).toBe(
      'diff --git a/d/big one b/d/big one\nold mode 100644\nnew mode 100755\nBinary files a/d/big one and b/d/big one differ\n',
    );
    expect(text({ path, before: version('a'), after: { kind: 'absent' } })).toBe(
      'diff --git a/d/big one b/d/big one\ndeleted file mode 100644\nBinary files a/d/big one and /dev/null differ\n',
    );
  });

  test('nothing is said where nothing differs that git knows, and only the name where that alone does', () => {
    expect(text({ path, before: version('a', 0o600), after: version('a', 0o644) })).toBeUndefined();
    expect(text({ path, from, before: version('a'), after: version('a') })).toBe(
      'diff --git a/old b/d/big one\nsimilarity index 100%\nrename from old\nrename to d/big one\n',
    );
  });
});
