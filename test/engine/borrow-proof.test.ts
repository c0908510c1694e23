/**
 * What forbids borrowing: in each case a file's bytes are not those of its object, though git takes it for clean, or could
 * be. What is captured must be the disk's bytes. The first test shows that a file which nothing forbids is not read: that
 * the others read it is told by their counts.
 */
import { mkdtempSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CaptureResult } from '../../src/index.ts';
import { describeBackends } from '../kit/backends.ts';
import { commitPacked, FILES, forgeIndex, pins, ripen, statOf, tree } from '../kit/borrowed.ts';
import { got, Story } from '../kit/story.ts';

interface Captured {
  readonly capture: CaptureResult;
  readonly exported: Record<string, string>;
  readonly onDisk: Record<string, string>;
}

async function capture(story: Story): Promise<Captured> {
  const onDisk = tree(story.space.root);
  const result = await story.cp('a');
  const target = join(story.space.base, 'exported');
  got(await story.workspace.export(result.position, target));
  return { capture: result, exported: tree(target), onDisk };
}

/** Captures, and expects that so many files were read, and that the capture holds what the disk does. */
async function expectRead(story: Story, stored: number, hidden: readonly string[] = []): Promise<void> {
  const { capture: result, exported, onDisk } = await capture(story);
  for (const path of hidden) delete onDisk[path];
  expect(result.storedFiles, 'files that were read').toBe(stored);
  expect(exported).toEqual(onDisk);
}

/** A filter that git knows only while it checks out: no config is left to tell of it. */
const ROT = `-c filter.rot.smudge='tr a-z n-za-m' -c filter.rot.clean='tr a-z n-za-m'`;
const AGAIN = 'rm -f src/odd; git';

describeBackends(
  'what forbids borrowing',
  (backend) => {
    const begin = async (more: string, after = 'true'): Promise<Story> => {
      const story = await Story.begin(backend, `${commitPacked(more)}; ${after}`);
      ripen(story.space);
      return story;
    };

    test('a clean file of a packed repository is not read', async () => {
      await using story = await begin('true');
      await expectRead(story, 0);
      expect(pins(story.space)).toHaveLength(1);
    });

    test('a clean file whose index entry lies is captured as the object, and so each test below can fail', async () => {
      await using story = await begin('echo aaaa >src/odd');
      story.u('echo bbbb >src/odd');
      forgeIndex(story.space, 'src/odd', statOf(story.space, 'src/odd'));
      const { exported, onDisk } = await capture(story);
      expect(exported['src/odd']).not.toBe(onDisk['src/odd']);
    });

    test.each(['ctimeNs', 'mtimeNs', 'ino', 'size'] as const)('another %s in the index', async (field) => {
      await using story = await begin('echo aaaa >src/odd');
      story.u('echo bbbb >src/odd');
      const stat = statOf(story.space, 'src/odd');
      const other = field === 'size' ? { size: stat.size + 1 } : { [field]: stat[field] - 1n };
      forgeIndex(story.space, 'src/odd', { ...stat, ...other });
      await expectRead(story, 1);
    });

    test('a file that is no older than the index', async () => {
      await using story = await begin('echo aaaa >src/odd');
      story.u('echo bbbb >src/odd');
      forgeIndex(story.space, 'src/odd', statOf(story.space, 'src/odd'));
      const { mtimeMs } = statSync(join(story.space.root, 'src/odd'));
      utimesSync(join(story.space.root, '.git/index'), mtimeMs / 1000, Math.floor(mtimeMs) / 1000);
      await expectRead(story, 1);
    });

    test('an old time of modification does not make up for a new time of change', async () => {
      await using story = await begin('echo aaaa >src/odd');
      story.u('echo bbbb >src/odd; touch -d 2001-01-01 src/odd');
      forgeIndex(story.space, 'src/odd', statOf(story.space, 'src/odd'));
      const { ctimeMs } = statSync(join(story.space.root, 'src/odd'));
      utimesSync(join(story.space.root, '.git/index'), ctimeMs / 1000, Math.floor(ctimeMs) / 1000);
      await expectRead(story, 1);
    });

    test.each(['--assume-unchanged', '--skip-worktree'])('the mark %s', async (mark) => {
      await using story = await begin('echo aaaa >src/odd', `git update-index ${mark} src/odd`);
      story.u('echo bbbb >src/odd');
      forgeIndex(story.space, 'src/odd', statOf(story.space, 'src/odd'));
      await expectRead(story, 1);
    });

    test('a name that git only intends to add', async () => {
      await using story = await begin('true', ': >src/odd; git add -N src/odd');
      await expectRead(story, 1);
    });

    test('an object that is not packed', async () => {
      await using story = await begin('true', 'echo new >src/odd; git add src/odd');
      await expectRead(story, 1);
    });

    test('line ends that git converted', async () => {
      await using story = await begin(
        'printf "a\\nb\\n" >src/odd',
        `git config core.autocrlf true; ${AGAIN} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('a\r\nb\r\n');
      await expectRead(story, 1);
    });

    test('attribute eol, its bytes converted', async () => {
      await using story = await begin(
        'printf "a\\nb\\n" >src/odd; echo "odd eol=crlf" >src/.gitattributes',
        `${AGAIN} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('a\r\nb\r\n');
      await expectRead(story, 1);
    });

    test('attribute filter, in the tree', async () => {
      await using story = await begin(
        'echo abc >src/odd; echo "odd filter=rot" >src/.gitattributes',
        `${AGAIN} ${ROT} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('nop\n');
      await expectRead(story, 1);
    });

    test('attribute filter, of a folder above', async () => {
      await using story = await begin(
        'echo abc >src/odd; echo "src/o* filter=rot" >.gitattributes',
        `${AGAIN} ${ROT} checkout -q src/odd`,
      );
      await expectRead(story, 1);
    });

    test('attribute filter, in info/attributes', async () => {
      await using story = await begin(
        'echo abc >src/odd',
        `echo "odd filter=rot" >.git/info/attributes; ${AGAIN} ${ROT} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('nop\n');
      await expectRead(story, 1);
    });

    test('attribute filter, in a file that the config names', async () => {
      await using story = await begin(
        'echo abc >src/odd',
        `echo "odd filter=rot" >.git/mine; git config core.attributesFile .git/mine; ${AGAIN} ${ROT} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('nop\n');
      await expectRead(story, 1);
    });

    test('attribute filter, in a file that rules hide', async () => {
      await using story = await begin(
        'echo abc >src/odd; echo .gitattributes >.gitignore',
        `echo "odd filter=rot" >src/.gitattributes; ${AGAIN} ${ROT} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('nop\n');
      await expectRead(story, 1, ['src/.gitattributes']);
    });

    test('attributes that are not those of the index: nothing is borrowed', async () => {
      await using story = await begin(
        'echo abc >src/odd; echo "odd filter=rot" >src/.gitattributes',
        `${AGAIN} ${ROT} checkout -q src/odd; rm src/.gitattributes`,
      );
      expect(story.space.read('src/odd')).toBe('nop\n');
      await expectRead(story, FILES + 1);
    });

    test('a filter that the config has: nothing is borrowed', async () => {
      await using story = await begin(
        'echo abc >src/odd',
        `echo "odd filter=rot" >.git/info/attributes; git config filter.rot.smudge 'tr a-z n-za-m'; ${AGAIN} checkout -q src/odd; rm .git/info/attributes`,
      );
      expect(story.space.read('src/odd')).toBe('nop\n');
      await expectRead(story, FILES + 1);
    });

    test('attribute ident, where what it expands was expanded before', async () => {
      const id = '$Id: 0123456789012345678901234567890123456789 $';
      await using story = await begin(
        `echo '${id}' >src/odd`,
        `echo "odd ident" >.git/info/attributes; ${AGAIN} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toMatch(/^\$Id: [0-9a-f]{40} \$\n$/);
      expect(story.space.read('src/odd')).not.toBe(`${id}\n`);
      await expectRead(story, 1);
    });

    test('attribute working-tree-encoding, of as many bytes', async () => {
      await using story = await begin(
        'printf "\\320\\226\\320\\226" >src/odd',
        `echo "odd working-tree-encoding=SHIFT-JIS" >.git/info/attributes; ${AGAIN} checkout -q src/odd`,
      );
      expect(story.space.bytes('src/odd')).toBe('\x84\x47\x84\x47');
      await expectRead(story, 1);
    });

    test('an object that another one stands for', async () => {
      await using story = await begin(
        'echo abc >src/odd',
        `git replace $(git rev-parse :src/odd) $(echo xyz | git hash-object -w --stdin); ${AGAIN} checkout -q src/odd`,
      );
      expect(story.space.read('src/odd')).toBe('xyz\n');
      await expectRead(story, FILES + 1);
    });

    test('a split index', async () => {
      await using story = await begin('true', 'git update-index --split-index');
      await expectRead(story, FILES);
    });

    test('a sparse index', async () => {
      await using story = await begin(
        'mkdir other; echo x >other/x',
        'git sparse-checkout set --cone --sparse-index src',
      );
      expect(story.space.exists('other')).toBe(false);
      await expectRead(story, FILES);
    });

    test('a data directory on another device', async (context) => {
      await using story = await begin('true');
      const other = mkdtempSync(join(process.cwd(), 'node_modules', '..', '.takeback-test-'));
      try {
        if (statSync(other).dev === statSync(story.space.root).dev)
          context.skip('the temp folder is on the device of the sources');
        await story.reopen({ dataDir: other });
        await expectRead(story, FILES);
        await story.workspace.close();
      } finally {
        rmSync(other, { recursive: true, force: true });
      }
    });
  },
  ['native'],
);
