//! Bytes of a segment file, of its records and of its index file (docs/formats.md). No I/O.

use crate::wire::{Hash, Reader, check64};

pub const SEGMENT_MAGIC: &[u8; 8] = b"TBKSEG1\n";
pub const INDEX_MAGIC: &[u8; 8] = b"TBKIDX1\n";
pub const FILE_HEADER: u64 = 32;
pub const RECORD_HEADER: usize = 48;
/// Bytes of a record beside its payload.
pub const RECORD_OVERHEAD: u64 = 56;
const RECORD_MAGIC: u32 = 0x3152_4254;
/// Bytes of an entry in an index file.
pub const INDEX_ENTRY: usize = 40;

pub fn file_header(seed: u64) -> [u8; FILE_HEADER as usize] {
    let mut out = [0; FILE_HEADER as usize];
    out[..8].copy_from_slice(SEGMENT_MAGIC);
    out[8..16].copy_from_slice(&seed.to_le_bytes());
    out
}

/// True for the header of a segment of the store with this seed.
pub fn is_file_header(bytes: &[u8], seed: u64) -> bool {
    bytes.len() >= 16 && bytes[..8] == *SEGMENT_MAGIC && bytes[8..16] == seed.to_le_bytes()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    pub codec: u8,
    pub raw: u64,
    pub stored: u64,
    pub hash: Hash,
}

impl RecordHeader {
    pub fn encode(&self) -> [u8; RECORD_HEADER] {
        let mut out = [0; RECORD_HEADER];
        out[0..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
        out[4] = self.codec;
        out[8..16].copy_from_slice(&self.raw.to_le_bytes());
        out[16..24].copy_from_slice(&self.stored.to_le_bytes());
        out[24..40].copy_from_slice(&self.hash);
        let check = check64(&out[..40]);
        out[40..48].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// A cheap first look, for searches.
    pub fn has_magic(bytes: &[u8; RECORD_HEADER]) -> bool {
        bytes[..4] == RECORD_MAGIC.to_le_bytes()
    }

    /// None where the check fails: the segment ends here.
    pub fn decode(bytes: &[u8; RECORD_HEADER]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32().ok()?;
        let codec = reader.u8().ok()?;
        let zeros = reader.array::<3>().ok()?;
        let header = RecordHeader {
            codec,
            raw: reader.u64().ok()?,
            stored: reader.u64().ok()?,
            hash: reader.array().ok()?,
        };
        let check = reader.u64().ok()?;
        (magic == RECORD_MAGIC && zeros == [0; 3] && check == check64(&bytes[..40])).then_some(header)
    }
}

/// Where a blob lies in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Of the record's header.
    pub offset: u64,
    pub raw: u64,
    pub stored: u64,
}

impl Location {
    /// End of the record; None where the numbers can't be true.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.stored)?.checked_add(RECORD_OVERHEAD)
    }
}

/// Entries of an index file, still packed: looked up by binary search, never unpacked as a whole.
#[derive(Debug, Default, Clone)]
pub struct SortedIndex {
    entries: Vec<u8>,
    /// Bytes of the segment that it covers.
    pub covered: u64,
}

impl SortedIndex {
    /// None where anything is wrong with it: the segment is read instead.
    pub fn decode(mut bytes: Vec<u8>, segment_size: u64) -> Option<Self> {
        let body = bytes.len().checked_sub(8)?;
        let mut reader = Reader::new(&bytes);
        let magic = reader.array::<8>().ok()?;
        let covered = reader.u64().ok()?;
        let count = usize::try_from(reader.u64().ok()?).ok()?;
        if magic != *INDEX_MAGIC
            || covered > segment_size
            || count.checked_mul(INDEX_ENTRY)? != body.checked_sub(24)?
        {
            return None;
        }
        if check64(&bytes[..body]) != u64::from_le_bytes(bytes[body..].try_into().ok()?) {
            return None;
        }
        bytes.truncate(body);
        bytes.drain(..24);
        let index = SortedIndex {
            entries: bytes,
            covered,
        };
        let sound = index
            .iter()
            .all(|(_, at)| at.offset >= FILE_HEADER && at.end().is_some_and(|end| end <= covered));
        sound.then_some(index)
    }

    /// `entries` in any order.
    pub fn encode(covered: u64, mut entries: Vec<(Hash, Location)>) -> Vec<u8> {
        entries.sort_unstable_by_key(|(hash, at)| (*hash, at.offset));
        let mut out = Vec::with_capacity(32 + entries.len() * INDEX_ENTRY);
        out.extend_from_slice(INDEX_MAGIC);
        out.extend_from_slice(&covered.to_le_bytes());
        out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
        for (hash, at) in &entries {
            out.extend_from_slice(hash);
            for number in [at.offset, at.raw, at.stored] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let check = check64(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    pub fn len(&self) -> usize {
        self.entries.len() / INDEX_ENTRY
    }

    pub fn find(&self, hash: &Hash) -> Option<Location> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle).0 < *hash {
                low = middle + 1
            } else {
                high = middle
            }
        }
        (low < self.len())
            .then(|| self.entry(low))
            .filter(|(found, _)| found == hash)
            .map(|(_, at)| at)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Hash, Location)> + '_ {
        (0..self.len()).map(|i| self.entry(i))
    }

    fn entry(&self, at: usize) -> (Hash, Location) {
        let bytes = &self.entries[at * INDEX_ENTRY..(at + 1) * INDEX_ENTRY];
        let number = |from: usize| {
            let mut le = [0; 8];
            le.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(le)
        };
        let mut hash = [0; 16];
        hash.copy_from_slice(&bytes[..16]);
        (
            hash,
            Location {
                offset: number(16),
                raw: number(24),
                stored: number(32),
            },
        )
    }
}
