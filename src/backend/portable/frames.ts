/**
 * Frames of docs/formats.md, which the journal and the index file are made of: kind, length, payload, check64. No I/O.
 * A torn or damaged frame ends a file: what stands before it counts.
 */
import type { Hasher } from './hash.ts';

const FRAME_HEADER = 16;

export interface Frame {
  readonly kind: number;
  /** A view of the file's bytes. */
  readonly payload: Buffer;
  /** Offset of the byte behind the frame. */
  readonly end: number;
}

export function encodeFrame(hasher: Hasher, kind: number, payload: Uint8Array): Buffer {
  const frame = Buffer.alloc(FRAME_HEADER + payload.length + 8);
  frame.writeUInt32LE(kind, 0);
  frame.writeBigUInt64LE(BigInt(payload.length), 8);
  frame.set(payload, FRAME_HEADER);
  const end = FRAME_HEADER + payload.length;
  hasher.check64(frame.subarray(0, end)).copy(frame, end);
  return frame;
}

/** The whole frames of `file` from `start` on. */
export function* readFrames(hasher: Hasher, file: Buffer, start = 0): Generator<Frame> {
  for (let at = start; at + FRAME_HEADER + 8 <= file.length; ) {
    const length = Number(file.readBigUInt64LE(at + 8));
    const bodyEnd = at + FRAME_HEADER + length;
    if (bodyEnd + 8 > file.length) return;
    if (!hasher.check64(file.subarray(at, bodyEnd)).equals(file.subarray(bodyEnd, bodyEnd + 8))) return;
    at = bodyEnd + 8;
    yield {
      kind: file.readUInt32LE(bodyEnd - length - FRAME_HEADER),
      payload: file.subarray(bodyEnd - length, bodyEnd),
      end: at,
    };
  }
}
