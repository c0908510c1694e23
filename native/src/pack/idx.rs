//! The index of a pack, version 2: which object lies at which offset.
//!
//! Read in pieces, one for all ids of one first byte: an index may be far larger than what is asked of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gix_hash::{Kind, ObjectId};

use super::damaged;

const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
const HEADER: u64 = 8 + 256 * 4;
/// An offset that stands in the table of large ones.
const LARGE: u32 = 1 << 31;

pub struct Idx {
    file: File,
    kind: Kind,
    /// By first byte: ids with it or a smaller one.
    fan: [u32; 256],
    /// Bytes of an id.
    width: u64,
    pack_checksum: Vec<u8>,
}

impl Idx {
    pub fn open(path: &Path, kind: Kind) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut header = [0; HEADER as usize];
        file.read_exact_at(&mut header, 0)?;
        if header[..8] != MAGIC {
            return Err(damaged("it is no index of a pack, or of another version"));
        }
        let mut fan = [0; 256];
        for (slot, bytes) in fan.iter_mut().zip(header[8..].chunks_exact(4)) {
            *slot = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let width = kind.len_in_bytes() as u64;
        let least = HEADER + u64::from(fan[255]) * (width + 8) + 2 * width;
        let length = file.metadata()?.len();
        if !fan.is_sorted() || length < least || !(length - least).is_multiple_of(8) {
            return Err(damaged("the index of a pack is damaged"));
        }
        let mut pack_checksum = vec![0; width as usize];
        file.read_exact_at(&mut pack_checksum, length - 2 * width)?;
        Ok(Idx {
            file,
            kind,
            fan,
            width,
            pack_checksum,
        })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn count(&self) -> u32 {
        self.fan[255]
    }

    pub fn pack_checksum(&self) -> &[u8] {
        &self.pack_checksum
    }

    /// Where an object lies, if it is in the pack.
    pub fn find(&self, id: &ObjectId) -> io::Result<Option<u64>> {
        Ok(self.find_all(&[*id])?[0])
    }

    /// The same of many, which are sorted.
    pub fn find_all(&self, ids: &[ObjectId]) -> io::Result<Vec<Option<u64>>> {
        let mut out = Vec::with_capacity(ids.len());
        for same in ids.chunk_by(|a, b| a.first_byte() == b.first_byte()) {
            let first = usize::from(same[0].first_byte());
            let from = if first == 0 { 0 } else { self.fan[first - 1] };
            let count = (self.fan[first] - from) as usize;
            let mut names = vec![0; count * self.width as usize];
            self.file
                .read_exact_at(&mut names, HEADER + u64::from(from) * self.width)?;
            let mut offsets = vec![0; count * 4];
            let table = HEADER + u64::from(self.count()) * (self.width + 4);
            self.file
                .read_exact_at(&mut offsets, table + u64::from(from) * 4)?;
            for id in same {
                let at = self.place(&names, id);
                let found = at.map(|at| u32::from_be_bytes(std::array::from_fn(|i| offsets[at * 4 + i])));
                out.push(found.map(|offset| self.wide(offset)).transpose()?);
            }
        }
        Ok(out)
    }

    fn place(&self, names: &[u8], id: &ObjectId) -> Option<usize> {
        let width = self.width as usize;
        let (mut low, mut high) = (0, names.len() / width);
        while low < high {
            let middle = (low + high) / 2;
            match names[middle * width..][..width].cmp(id.as_bytes()) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn wide(&self, offset: u32) -> io::Result<u64> {
        if offset & LARGE == 0 {
            return Ok(u64::from(offset));
        }
        let mut wide = [0; 8];
        let table = HEADER + u64::from(self.count()) * (self.width + 8);
        self.file
            .read_exact_at(&mut wide, table + u64::from(offset & !LARGE) * 8)?;
        Ok(u64::from_be_bytes(wide))
    }
}
