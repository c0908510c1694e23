/** Bytes that the files of one of our own folders take on disk. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** 0 where the folder is missing. Files that go away meanwhile count for nothing. */
export async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      lstat(join(folder, name)).then(
        (s) => (s.isDirectory() ? 0 : s.blocks * 512),
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** The same of the folders in a folder. */
export async function bytesInFolders(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(names.map((name) => folderBytes(join(folder, name))));
  return sizes.reduce((sum, size) => sum + size, 0);
}
