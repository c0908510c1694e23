//! Deltas of a pack: copies out of a base, and bytes of their own.

use std::io;

use super::damaged;

/// No more is set aside on the word of a delta.
const TRUSTED: usize = 64 << 20;

fn varint(delta: &[u8], at: &mut usize) -> io::Result<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = *delta.get(*at).ok_or_else(|| damaged("a delta is cut off"))?;
        *at += 1;
        if shift > 57 {
            return Err(damaged("a delta's size is out of bounds"));
        }
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            return Ok(value);
        }
    }
}

/// Bytes of the base, bytes of what the delta makes, and where its instructions begin.
pub fn sizes(delta: &[u8]) -> io::Result<(u64, u64, usize)> {
    let mut at = 0;
    let base = varint(delta, &mut at)?;
    let made = varint(delta, &mut at)?;
    Ok((base, made, at))
}

/// What a delta makes of its base.
pub fn apply(base: &[u8], delta: &[u8]) -> io::Result<Vec<u8>> {
    let (from, made, mut at) = sizes(delta)?;
    if from != base.len() as u64 {
        return Err(damaged("a delta is of another base"));
    }
    let made = usize::try_from(made).map_err(|_| damaged("a delta's size is out of bounds"))?;
    let mut out = Vec::with_capacity(made.min(TRUSTED));
    while let Some(op) = delta.get(at).copied() {
        at += 1;
        let piece = if op & 128 != 0 {
            let mut field = |bits: std::ops::Range<u8>| {
                let mut value = 0usize;
                for (place, bit) in bits.enumerate() {
                    if op & (1 << bit) != 0 {
                        let byte = *delta.get(at).ok_or_else(|| damaged("a delta is cut off"))?;
                        at += 1;
                        value |= usize::from(byte) << (8 * place);
                    }
                }
                Ok::<_, io::Error>(value)
            };
            let (offset, length) = (field(0..4)?, field(4..7)?);
            let length = if length == 0 { 0x10000 } else { length };
            base.get(offset..offset + length)
        } else if op != 0 {
            let own = delta.get(at..at + usize::from(op));
            at += usize::from(op);
            own
        } else {
            None
        };
        let piece = piece.ok_or_else(|| damaged("a delta reaches beyond its base or its end"))?;
        if out.len() + piece.len() > made {
            return Err(damaged("a delta makes more than it says"));
        }
        out.extend_from_slice(piece);
    }
    if out.len() == made {
        Ok(out)
    } else {
        Err(damaged("a delta makes less than it says"))
    }
}
