//! Lists of changes, versions and paths: u32 count, then the items.

use super::{Change, Reader, RelPath, Version, Writer};
use crate::error::Result;

/// Least bytes of a change (empty path, two absent versions, flags), a version entry and a path.
const LEAST_CHANGE: usize = 7;
const LEAST_VERSION: usize = 5;
const LEAST_PATH: usize = 4;

pub fn encode_changes(changes: &[Change]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.count(changes.len());
    for change in changes {
        writer.change(change);
    }
    writer.done()
}

pub fn decode_changes(bytes: &[u8]) -> Result<Vec<Change>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count(LEAST_CHANGE)?;
    let changes = (0..count).map(|_| reader.change()).collect::<Result<_>>()?;
    reader.end()?;
    Ok(changes)
}

/// Manifests, catch-up rows, answers of `versions`.
pub fn encode_versions<'a>(entries: impl ExactSizeIterator<Item = (&'a [u8], &'a Version)>) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.count(entries.len());
    for (path, version) in entries {
        writer.bytes(path).version(version);
    }
    writer.done()
}

pub fn decode_versions(bytes: &[u8]) -> Result<Vec<(RelPath, Version)>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count(LEAST_VERSION)?;
    let entries = (0..count)
        .map(|_| Ok((reader.name()?, reader.version()?)))
        .collect::<Result<_>>()?;
    reader.end()?;
    Ok(entries)
}

pub fn encode_paths<P: AsRef<[u8]>>(paths: &[P]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.count(paths.len());
    for path in paths {
        writer.bytes(path.as_ref());
    }
    writer.done()
}

pub fn decode_paths(bytes: &[u8]) -> Result<Vec<RelPath>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count(LEAST_PATH)?;
    let paths = (0..count).map(|_| reader.name()).collect::<Result<_>>()?;
    reader.end()?;
    Ok(paths)
}
