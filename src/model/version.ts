/**
 * Words for versions: the hash texts of plans and receipts, and what changes besides content. Pure.
 */
import { parentOf } from '../rel-path.ts';
import type { PublicVersion, RelPath, Version } from '../types.ts';

/** `xxh3:<32 hex>` of a file, else its kind: `absent`, `dir`, `symlink`, `special`, `uncovered`. */
export function hashText(version: Version | PublicVersion): string {
  return version.kind === 'file' ? `xxh3:${version.content}` : version.kind;
}

/** Three octal digits. */
export function modeText(mode: number): string {
  return mode.toString(8).padStart(3, '0');
}

/** What differs besides content: type, mode or link target. Undefined where nothing of that does. */
export function describeChange(from: Version, to: Version): string | undefined {
  if (from.kind === 'absent' || to.kind === 'absent') return undefined;
  if (from.kind !== to.kind) return `type ${from.kind} → ${to.kind}`;
  if (from.kind === 'symlink' && to.kind === 'symlink') {
    return from.target === to.target ? undefined : `link ${from.target} → ${to.target}`;
  }
  const modes = 'mode' in from && 'mode' in to && from.mode !== to.mode;
  return modes ? `mode ${modeText(from.mode)} → ${modeText(to.mode)}` : undefined;
}

/** A version as callers see it. */
export function publicVersion(version: Version): PublicVersion {
  if (version.kind === 'special') return { ...version, ino: String(version.ino) };
  if (version.kind !== 'uncovered') return version;
  const { mtimeNs, ctimeNs, ino, dev, ...rest } = version.stat;
  const stat = {
    ...rest,
    mtimeNs: String(mtimeNs),
    ctimeNs: String(ctimeNs),
    ino: String(ino),
    dev: String(dev),
  };
  return { ...version, stat };
}

/** Folders above a path, nearest first; the root itself left out. */
export function foldersAbove(path: RelPath): RelPath[] {
  const out: RelPath[] = [];
  if (path === '') return out;
  for (let folder = parentOf(path); folder !== ''; folder = parentOf(folder)) out.push(folder);
  return out;
}
