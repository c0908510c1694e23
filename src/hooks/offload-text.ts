/** The texts of offloading: the summary that stands for an output, and what a system prompt says of it. Pure. */
import { floorCharacter } from './utf8.ts';

/** The longest preview that can be asked for, in bytes. */
export const MAX_PREVIEW_BYTES = 16_384;
/** Of a summary without its preview: two paths' worth and the fixed words. */
const MAX_FRAME_BYTES = 4096;

const READ_HINT = 'Can be read in pages via the read_file tool with offset/limit parameters.';
const END = '\n...(truncated)]';
const SAVED = /^\[Output saved to .+, \d+ lines \/ \d+ bytes total\.$/;
const PREVIEW = /^Preview \(first \d+ lines\):$/;

/** Lines as a reader counts them: a line end at the very end starts no new one. */
export function countLines(text: string): number {
  if (text === '') return 0;
  let lines = text.endsWith('\n') ? 0 : 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines += 1;
  return lines;
}

/** The first `lines` lines, without the last one's end, and of them at most `maxBytes` bytes; no character is cut. */
export function preview(text: string, { lines, maxBytes }: { lines: number; maxBytes: number }): string {
  let end = lines === 0 ? 0 : -1;
  for (let line = 0; line < lines; line++) {
    end = text.indexOf('\n', end + 1);
    if (end < 0) break;
  }
  // A character has at least as many bytes as UTF-16 units, so more units than `maxBytes` never fit.
  const head = text.slice(0, Math.min(end < 0 ? text.length : end, maxBytes));
  const bytes = Buffer.from(head);
  return bytes.length <= maxBytes ? head : bytes.toString('utf8', 0, floorCharacter(bytes, maxBytes));
}

/** The summary that takes the place of `output`, which lies at `path`. */
export function summary(
  output: string,
  { path, previewLines, previewBytes }: { path: string; previewLines: number; previewBytes: number },
): string {
  const head = `[Output saved to ${path}, ${countLines(output)} lines / ${Buffer.byteLength(output)} bytes total.`;
  const shown = preview(output, { lines: previewLines, maxBytes: previewBytes });
  return `${head}\n${READ_HINT}\n\nPreview (first ${previewLines} lines):\n${shown}${END}`;
}

/** Whether a text is a summary. One that only looks so passes too, but is never longer than a summary can be. */
export function isSummary(text: string): boolean {
  if (text.length > MAX_PREVIEW_BYTES + MAX_FRAME_BYTES || !text.endsWith(END)) return false;
  const [saved = '', hint, empty, heading = ''] = text.split('\n', 4);
  return SAVED.test(saved) && hint === READ_HINT && empty === '' && PREVIEW.test(heading);
}

/** The section for the system prompt of an agent whose outputs are offloaded. */
export function offloadGuidance(): string {
  return `## Large Output File Retrieval

When a tool's output exceeds the threshold, the full content is automatically saved to the file system, and only a path reference and preview are shown in context.
To view the full output, use the read_file tool with offset/limit parameters for paginated reading:
- offset: starting byte position (default 0)
- limit: number of bytes to read (default 4096)
Example: read_file({"path": "/path/to/offload/file.txt", "offset": 4096, "limit": 4096})`;
}
