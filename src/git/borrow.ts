/**
 * Whether the objects of a repository may stand for files that its index proves clean (DESIGN §4.3), as far as config and
 * refs tell: where git may have given files other bytes than its objects have, nothing is borrowed.
 *
 * Reads a few small files. Attributes in the tree, the index and the packs are the backend's to read. Conversions of line
 * ends are no obstacle: they change a file's size wherever they change a byte, and sizes are compared.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BorrowSources, RuleSources } from '../backend/backend.ts';
import { type ConfigEntry, configPath, lastValue } from './config.ts';
import { type RuleSourcesOptions, readConfig, userFiles } from './context.ts';

/** A driver that gives files other bytes. That of Git LFS never gives bytes of the same size, but for what attributes tell. */
const DRIVER = /^filter\.(?!lfs\.[a-z]+$).*\.(clean|smudge|process)$/s;

/** Null: nothing is to be borrowed. */
export function borrowSources({ repo }: RuleSources, options: RuleSourcesOptions = {}): BorrowSources | null {
  if (repo === null) return null;
  const { home, xdg, files } = userFiles(options);
  const entries = readConfig(repo, files, home);
  if (entries.some(([key]) => DRIVER.test(key)) || isForeign(entries) || hasReplacements(repo.commonDir)) return null;
  const named = lastValue(entries, 'core.attributesfile');
  const user = typeof named === 'string' ? configPath(named, repo.top, home) : join(xdg, 'attributes');
  const system = join(options.system === undefined ? '/etc' : join(options.system, '..'), 'gitattributes');
  return { ...repo, attributes: user === null ? [system] : [system, user] };
}

/** Its index is of another tree, its refs can't be read here, or its ids are of two kinds. */
function isForeign(entries: readonly ConfigEntry[]): boolean {
  const keys = ['core.worktree', 'extensions.refstorage', 'extensions.compatobjectformat'];
  return entries.some(([key]) => keys.includes(key));
}

/** `git replace`: an object stands for another one, whose id the index has. */
function hasReplacements(commonDir: string): boolean {
  const absent = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';
  try {
    if (readdirSync(join(commonDir, 'refs', 'replace')).length > 0) return true;
  } catch (error) {
    if (!absent(error)) return true;
  }
  try {
    return readFileSync(join(commonDir, 'packed-refs'), 'latin1').includes(' refs/replace/');
  } catch (error) {
    return !absent(error);
  }
}
