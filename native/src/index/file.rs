//! The index file: a base, then deltas (docs/formats.md, "Index"). A cache: whatever is wrong with it is an answer of none.
//!
//! Appends happen only to the file that this process read or wrote last, at the length that it knows; else the file is
//! written anew (temp and rename). A torn or damaged frame ends the file. The caller holds the workspace's lock.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::Stat;

use super::{Entry, Index, Node, NodeId, ROOT, Step};
use crate::error::{EngineError, IoContext, Result};
use crate::sys::file::{self, OutFile};
use crate::wire::{FRAME_OVERHEAD, Frames, Id, Position, Reader, Writer, check64, write_frame};

const MAGIC: &[u8; 8] = b"TBKIDXF1";
const HEADER: usize = 64;
const BASE: u32 = 1;
const DELTA: u32 = 2;
const RULES: u32 = 3;
/// Bytes of an entry in a base.
const ENTRY: usize = 88;
/// A rewrite is due where deltas pass half of the base and this.
const DELTA_ROOM: u64 = 1 << 20;

/// The file that this process knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    ino: u64,
    dev: u64,
    len: u64,
    base_len: u64,
    at: Position,
}

/// Where an index is kept.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    store: Id,
    known: Option<Known>,
}

/// What a file held.
pub struct Loaded {
    pub index: Index,
    pub at: Position,
    /// Encoded rules snapshot; empty where there was none.
    pub rules: Vec<u8>,
}

impl IndexFile {
    pub fn new(path: PathBuf, store: Id) -> Self {
        IndexFile {
            path,
            store,
            known: None,
        }
    }

    /// Knows no file any more: the next step forward writes one.
    pub fn forget(&mut self) {
        self.known = None;
    }

    /// It can be moved forward by steps: else all of it is written.
    pub fn takes_steps(&self) -> bool {
        self.known.is_some()
    }

    /// Reads the file up to its first damage. None: missing, foreign, damaged in its base, or newer than this.
    pub fn load(&mut self) -> Option<Loaded> {
        self.known = None;
        let file = File::open(&self.path).ok()?;
        let meta = file.metadata().ok()?;
        let bytes = fs::read(&self.path).ok()?;
        let header = bytes.get(..HEADER)?;
        let check = u64::from_le_bytes(header[56..].try_into().ok()?);
        let version = u32::from_le_bytes(header[8..12].try_into().ok()?);
        if &header[..8] != MAGIC
            || version != 1
            || header[16..32] != self.store
            || check64(&header[..56]) != check
        {
            return None;
        }
        let mut frames = Frames::new(&bytes[HEADER..]);
        let base = frames.next().filter(|frame| frame.kind == BASE)?;
        let (mut loaded, base_end) = (read_base(base.payload).ok()?, base.end);
        let mut end = base_end;
        for frame in frames {
            let taken = match frame.kind {
                DELTA => take_delta(&mut loaded, frame.payload).is_ok(),
                RULES => take_rules(&mut loaded, frame.payload).is_ok(),
                _ => false,
            };
            if !taken {
                break;
            }
            end = frame.end;
        }
        let (len, base_len) = ((HEADER + end) as u64, (HEADER + base_end) as u64);
        self.known = Some(Known {
            ino: meta.ino(),
            dev: meta.dev(),
            len,
            base_len,
            at: loaded.at,
        });
        Some(loaded)
    }

    /// Moves the file forward by `steps`, which led from `before` to where `index` stands. `rules`: written anew where
    /// they changed, in one piece with what they were asked for.
    pub fn forward(&mut self, index: &Index, steps: &[Step], rules: RulesToWrite<'_>) -> Result<()> {
        let Some(at) = index.at else { return Ok(()) };
        if let RulesToWrite::Same(_) = rules
            && let Some(known) = self.known
        {
            let frame = delta_frame(known.at, at, index.scanned_at_ns, steps);
            let room = DELTA_ROOM.max(known.base_len / 2);
            let deltas = known.len - known.base_len + frame.len() as u64;
            if deltas <= room && self.append(&frame, known) {
                self.known = Some(Known {
                    len: known.len + frame.len() as u64,
                    at,
                    ..known
                });
                return Ok(());
            }
        }
        self.rewrite(index, at, rules.bytes())
    }

    fn append(&self, frame: &[u8], known: Known) -> bool {
        let Ok(file) = OutFile::append_to(&self.path) else {
            return false;
        };
        let is_known =
            |stat: Stat| (stat.st_ino, stat.st_dev, stat.st_size as u64) == (known.ino, known.dev, known.len);
        let ours = file.stat().is_ok_and(is_known);
        ours && file.write_all(frame).is_ok()
    }

    fn rewrite(&mut self, index: &Index, at: Position, rules: &[u8]) -> Result<()> {
        self.known = None;
        let out = base(header(&self.store), (index, at), rules)?;
        let temp = self.path.with_extension(format!("tmp-{}", std::process::id()));
        let shown = self.path.as_os_str().as_encoded_bytes();
        let written = (|| {
            match file::remove(&temp) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = OutFile::create_new(&temp)?;
            file.write_all(&out)?;
            file::rename(&temp, &self.path)?;
            file.stat()
        })();
        if written.is_err() {
            file::remove(&temp).ok();
        }
        let stat = written.doing_at("write the index", shown)?;
        let len = out.len() as u64;
        self.known = Some(Known {
            ino: stat.st_ino,
            dev: stat.st_dev,
            len,
            base_len: len,
            at,
        });
        Ok(())
    }
}

/// The rules beside an index, and whether the file has them already.
pub enum RulesToWrite<'a> {
    Same(&'a [u8]),
    Changed(&'a [u8]),
}

impl<'a> RulesToWrite<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            RulesToWrite::Same(bytes) | RulesToWrite::Changed(bytes) => bytes,
        }
    }
}

fn header(store: &Id) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.raw(MAGIC).u32(1).u32(0).raw(store).raw(&[0; 24]);
    let mut out = writer.done();
    let check = check64(&out);
    out.extend_from_slice(&check.to_le_bytes());
    out
}

/// A whole file, in one buffer: it is as large as the tree.
fn base(header: Vec<u8>, (index, at): (&Index, Position), rules: &[u8]) -> Result<Vec<u8>> {
    let mut order: Vec<NodeId> = vec![ROOT];
    let mut first_child = Vec::new();
    let mut next = 0;
    while next < order.len() {
        first_child.push(order.len() as u32);
        order.extend_from_slice(index.children(order[next]));
        next += 1;
    }
    let room = 2 * HEADER + rules.len() + order.len() * ENTRY + index.names.len();
    let mut writer = Writer::with_room(header, room);
    let frame = writer.open_frame(BASE);
    writer.position(&at).i64(index.scanned_at_ns).count(order.len());
    let name_bytes = writer.hold_u32();
    writer.bytes(rules);
    let mut names: Vec<u8> = Vec::with_capacity(index.names.len());
    for (number, node) in order.iter().enumerate() {
        let name = index.name(*node);
        writer.u32(names.len() as u32).u16(name.len() as u16);
        names.extend_from_slice(name);
        let extra = index.extra(*node);
        let place = if extra.is_empty() {
            (0, 0)
        } else {
            (names.len() as u32, extra.len() as u16)
        };
        names.extend_from_slice(extra);
        let count = index.children(*node).len() as u32;
        let children = if count == 0 {
            (0, 0)
        } else {
            (first_child[number], count)
        };
        index.entry(*node).write(&mut writer, Some(children), place);
    }
    let length =
        u32::try_from(names.len()).map_err(|_| EngineError::corrupt("the tree's names exceed 4 GiB"))?;
    writer.raw(&names).put_u32(name_bytes, length);
    writer.close_frame(frame);
    Ok(writer.done())
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position> {
    Ok(Position {
        seq: reader.u64()?,
        observation: reader.array()?,
    })
}

fn damaged() -> EngineError {
    EngineError::corrupt("the index is damaged")
}

fn read_base(payload: &[u8]) -> Result<Loaded> {
    let mut reader = Reader::new(payload);
    let at = read_position(&mut reader)?;
    let scanned_at_ns = reader.i64()?;
    let (count, name_bytes) = (reader.u32()? as usize, reader.u32()? as usize);
    let rules = reader.bytes()?.to_vec();
    if count == 0 || count.checked_mul(ENTRY).and_then(|b| b.checked_add(name_bytes)) != Some(reader.left()) {
        return Err(damaged());
    }
    let entries = Reader::new(reader.raw(count * ENTRY)?);
    let mut index = read_nodes(entries, reader.raw(name_bytes)?, count)?;
    index.at = Some(at);
    index.scanned_at_ns = scanned_at_ns;
    Ok(Loaded { index, at, rules })
}

fn read_nodes(mut entries: Reader<'_>, names: &[u8], count: usize) -> Result<Index> {
    let slice = |at: u32, len: u16| {
        let range = at as usize..at as usize + len as usize;
        names.get(range).ok_or_else(damaged)
    };
    let mut index = Index::new();
    index.nodes = Vec::with_capacity(count);
    index.names = Vec::with_capacity(names.len() + count);
    let mut parents: Vec<Option<NodeId>> = vec![None; count];
    for number in 0..count {
        let (name_at, name_len) = (entries.u32()?, entries.u16()?);
        let (entry, (first, children), (extra_at, extra_len)) = Entry::read(&mut entries, true)?;
        let name = slice(name_at, name_len)?;
        let parent = parents[number];
        let well_named = match number {
            0 => name.is_empty(),
            _ => is_name(name) && parent.is_some(),
        };
        let range = first as usize..first as usize + children as usize;
        if !well_named || (children > 0 && (range.start <= number || range.end > count)) {
            return Err(damaged());
        }
        let children = if children == 0 { 0..0 } else { range };
        for child in children.clone() {
            if parents[child].replace(number as NodeId).is_some() {
                return Err(damaged());
            }
        }
        let place = (index.names.len() as u32, name_len);
        let mut node = Node::new(place, parent.unwrap_or(ROOT), entry);
        node.set_extra(slice(extra_at, extra_len)?.into());
        if !children.is_empty() {
            node.more_mut().children = children.map(|child| child as NodeId).collect();
        }
        index.nodes.push(node);
        index.names.extend_from_slice(name);
        index.names.push(0);
        index.count(number as NodeId, true);
    }
    sorted(index)
}

/// Children are found by their names' order.
fn sorted(index: Index) -> Result<Index> {
    let in_order = |ids: &[NodeId]| ids.windows(2).all(|two| index.name(two[0]) < index.name(two[1]));
    match index.nodes.iter().all(|node| in_order(node.children())) {
        true => Ok(index),
        false => Err(damaged()),
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&0) && !name.contains(&b'/')
}

fn is_path(path: &[u8]) -> bool {
    path.is_empty() || path.split(|b| *b == b'/').all(is_name)
}

fn delta_frame(before: Position, after: Position, scanned_at_ns: i64, steps: &[Step]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .position(&before)
        .position(&after)
        .i64(scanned_at_ns)
        .count(steps.len());
    for step in steps {
        match step {
            Step::Remove { path } => {
                writer.bytes(path).u8(0);
            }
            Step::Put { path, entry, extra } => {
                writer.bytes(path).u8(1);
                entry.write(&mut writer, None, (0, extra.len() as u16));
                writer.bytes(extra);
            }
        }
    }
    let payload = writer.done();
    let mut out = Vec::with_capacity(payload.len() + FRAME_OVERHEAD);
    write_frame(&mut out, DELTA, &payload);
    out
}

fn take_delta(loaded: &mut Loaded, payload: &[u8]) -> Result<()> {
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
        steps.push(match reader.u8()? {
            0 => Step::Remove { path },
            1 => {
                let (entry, _, _) = Entry::read(&mut reader, false)?;
                Step::Put {
                    path,
                    entry,
                    extra: reader.bytes()?.to_vec(),
                }
            }
            _ => return Err(damaged()),
        });
    }
    reader.end()?;
    loaded.index.apply(steps);
    loaded.index.scanned_at_ns = scanned_at_ns;
    loaded.index.at = Some(after);
    loaded.at = after;
    Ok(())
}

fn take_rules(loaded: &mut Loaded, payload: &[u8]) -> Result<()> {
    let mut reader = Reader::new(payload);
    let rules = reader.bytes()?.to_vec();
    reader.end()?;
    loaded.rules = rules;
    Ok(())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
