//! Frames of the index and the journal: u32 kind, u32 0, u64 length, payload, check64 of all before.

use twox_hash::XxHash3_64;

/// Bytes of a frame before its payload.
pub(super) const FRAME_HEAD: usize = 16;
/// Bytes of a frame beside its payload.
pub const FRAME_OVERHEAD: usize = 24;

/// XXH3-64, seed 0: guards headers and frames against damage, not against malice.
pub fn check64(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Appends a frame to `out`.
pub fn write_frame(out: &mut Vec<u8>, kind: u32, payload: &[u8]) {
    let start = out.len();
    out.reserve(payload.len() + FRAME_OVERHEAD);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    out.extend_from_slice(payload);
    let check = check64(&out[start..]);
    out.extend_from_slice(&check.to_le_bytes());
}

/// A whole, undamaged frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: u32,
    pub payload: &'a [u8],
    /// Where the frame ends in the bytes that were given to [`Frames::new`].
    pub end: usize,
}

/// Walks over frames; ends before the first one that is torn or damaged.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Frames { bytes, at: 0 }
    }

    /// End of the last whole frame. Less than the bytes' length where the tail is torn.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let rest = &self.bytes[self.at..];
        let (head, body) = rest.split_first_chunk::<16>()?;
        let kind = u32::from_le_bytes(head[0..4].try_into().ok()?);
        let length = usize::try_from(u64::from_le_bytes(head[8..16].try_into().ok()?)).ok()?;
        let payload = body.get(..length)?;
        let check = body[length..].first_chunk::<8>()?;
        if head[4..8] != [0; 4] || check64(&rest[..16 + length]) != u64::from_le_bytes(*check) {
            return None;
        }
        self.at += length + FRAME_OVERHEAD;
        Some(Frame {
            kind,
            payload,
            end: self.at,
        })
    }
}
