//! A delta of the index file: what an index took in between two positions (docs/formats.md, "Index", frame 2).

use super::file::{Loaded, damaged, is_name, read_position};
use super::{Entry, Step};
use crate::error::Result;
use crate::wire::{FRAME_OVERHEAD, Position, Reader, RelPath, Writer, write_frame};

pub const DELTA: u32 = 2;
const REMOVE: u8 = 0;
const PUT: u8 = 1;
/// An entry of a plain file, which most are, without what is the same in all of them.
const PUT_FILE: u8 = 2;

fn is_path(path: &[u8]) -> bool {
    path.is_empty() || path.split(|b| *b == b'/').all(is_name)
}

/// The frame of the steps that led from one position to another.
pub fn frame((before, after): (Position, Position), scanned_at_ns: i64, steps: &[Step]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .position(&before)
        .position(&after)
        .i64(scanned_at_ns)
        .count(steps.len());
    for step in steps {
        match step {
            Step::Remove { path } => {
                writer.bytes(path).u8(REMOVE);
            }
            Step::Put { path, entry, extra } => {
                writer.bytes(path);
                if entry.is_plain_file() && extra.is_empty() {
                    writer.u8(PUT_FILE);
                    entry.write_file(&mut writer);
                } else {
                    writer.u8(PUT);
                    entry.write(&mut writer, None, (0, extra.len() as u16));
                    writer.bytes(extra);
                }
            }
        }
    }
    let payload = writer.done();
    let mut out = Vec::with_capacity(payload.len() + FRAME_OVERHEAD);
    write_frame(&mut out, DELTA, &payload);
    out
}

/// Moves what was loaded forward by a delta. One that isn't of where that stands is damage.
pub fn take(loaded: &mut Loaded, payload: &[u8]) -> Result<()> {
    let mut reader = Reader::new(payload);
    let before = read_position(&mut reader)?;
    let after = read_position(&mut reader)?;
    if before != loaded.at {
        return Err(damaged());
    }
    let scanned_at_ns = reader.i64()?;
    let count = reader.count(5)?;
    let mut steps = Vec::with_capacity(count);
    for _ in 0..count {
        let path = reader.name()?;
        if !is_path(&path) {
            return Err(damaged());
        }
        steps.push(step(path, &mut reader)?);
    }
    reader.end()?;
    loaded.index.apply(steps);
    loaded.index.scanned_at_ns = scanned_at_ns;
    loaded.index.at = Some(after);
    loaded.at = after;
    Ok(())
}

fn step(path: RelPath, reader: &mut Reader<'_>) -> Result<Step> {
    match reader.u8()? {
        REMOVE => Ok(Step::Remove { path }),
        PUT => {
            let (entry, _, _) = Entry::read(reader, false)?;
            let extra = reader.bytes()?.to_vec();
            Ok(Step::Put { path, entry, extra })
        }
        PUT_FILE => {
            let (entry, extra) = (Entry::read_file(reader)?, Vec::new());
            Ok(Step::Put { path, entry, extra })
        }
        _ => Err(damaged()),
    }
}
