//! One loan: packs that are pinned, and which names stand for which of their objects (docs/formats.md, "Borrowed").
//!
//! A folder with hard links of packs and a table. An entry whose bytes have been taken into the store says under which
//! name; one that has not is read from its pack, and what is read must have the object's id. Knows no segments.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gix_hash::{Kind, ObjectId};

use crate::pack::{Pack, damaged};
use crate::segment::owner::Owner;
use crate::wire::{Hash, Reader, Writer, check64};

const MAGIC: &[u8; 8] = b"TBKLOAN1";
const TABLE: &str = "loan";
const UNKNOWN: Hash = [0; 16];

/// One borrowed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lent {
    pub name: Hash,
    /// The blob that has its bytes, once they are in the store.
    pub real: Option<Hash>,
    pub pack: u32,
    pub offset: u64,
    pub size: u64,
    pub id: ObjectId,
}

impl Lent {
    /// Bytes of an entry in a table.
    fn width(kind: Kind) -> usize {
        16 + 16 + 4 + 8 + 8 + kind.len_in_bytes()
    }
}

/// The id that a file of these bytes has in git; none where they are made to collide.
pub fn blob_id(kind: Kind, bytes: &[u8]) -> Option<ObjectId> {
    let mut hasher = gix_hash::hasher(kind);
    hasher.update(format!("blob {}\0", bytes.len()).as_bytes());
    hasher.update(bytes);
    hasher.try_finalize().ok()
}

type OpenPacks = Vec<Option<Arc<Pack>>>;

pub struct Loan {
    pub dir: PathBuf,
    pub owner: Option<Owner>,
    pub kind: Kind,
    /// Names of the pinned packs, without extension.
    pub packs: Vec<String>,
    /// Identity of the table's file.
    pub key: (u64, u64),
    /// Sorted by name.
    entries: Vec<u8>,
    open: Mutex<OpenPacks>,
}

impl Loan {
    /// None where the folder has no table yet, or one that can't be read.
    pub fn load(dir: &Path) -> io::Result<Self> {
        let file = File::open(dir.join(TABLE))?;
        let meta = file.metadata()?;
        let bytes = fs::read(dir.join(TABLE))?;
        let mut loan = Self::decode(&bytes).map_err(|error| damaged(error.message))?;
        loan.dir = dir.to_path_buf();
        loan.owner = dir.file_name().and_then(|name| Owner::of_name(name.to_str()?));
        loan.key = (meta.ino(), meta.len());
        Ok(loan)
    }

    /// Identity of the table that a folder has now.
    pub fn key_of(dir: &Path) -> Option<(u64, u64)> {
        let meta = fs::metadata(dir.join(TABLE)).ok()?;
        Some((meta.ino(), meta.len()))
    }

    fn decode(bytes: &[u8]) -> crate::error::Result<Self> {
        let fail = || crate::error::EngineError::corrupt("a table of borrowed names is damaged");
        let (body, check) = bytes.split_last_chunk::<8>().ok_or_else(fail)?;
        if check64(body) != u64::from_le_bytes(*check) {
            return Err(fail());
        }
        let mut reader = Reader::new(body);
        let magic: [u8; 8] = reader.array()?;
        let kind = match reader.u32()? {
            20 => Kind::Sha1,
            32 => Kind::Sha256,
            _ => return Err(fail()),
        };
        let packs: Vec<String> = (0..reader.count(4)?)
            .map(|_| Ok(reader.text()?.to_string()))
            .collect::<crate::error::Result<_>>()?;
        let count = usize::try_from(reader.u64()?).map_err(|_| fail())?;
        if &magic != MAGIC || count.checked_mul(Lent::width(kind)) != Some(reader.left()) {
            return Err(fail());
        }
        if packs
            .iter()
            .any(|name| name.contains('/') || name.starts_with('.'))
        {
            return Err(fail());
        }
        let entries = reader.raw(reader.left())?.to_vec();
        Ok(Loan {
            dir: PathBuf::new(),
            owner: None,
            kind,
            open: Mutex::new(vec![None; packs.len()]),
            packs,
            key: (0, 0),
            entries,
        })
    }

    /// Writes a folder's table in one piece.
    pub fn write(dir: &Path, (kind, packs): (Kind, &[String]), entries: &mut [Lent]) -> io::Result<()> {
        entries.sort_unstable_by_key(|entry| entry.name);
        let mut writer = Writer::new();
        writer
            .raw(MAGIC)
            .u32(kind.len_in_bytes() as u32)
            .count(packs.len());
        for pack in packs {
            writer.bytes(pack.as_bytes());
        }
        writer.u64(entries.len() as u64);
        for entry in entries.iter() {
            writer.raw(&entry.name).raw(&entry.real.unwrap_or(UNKNOWN));
            writer.u32(entry.pack).u64(entry.offset).u64(entry.size);
            writer.raw(entry.id.as_slice());
        }
        let mut out = writer.done();
        let check = check64(&out);
        out.extend_from_slice(&check.to_le_bytes());
        let temp = dir.join(format!("{TABLE}.{}", std::process::id()));
        let written = (|| {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temp)?;
            file.write_all(&out)?;
            if dir.join(TABLE).exists() {
                // What is replaced must not go before this is on disk.
                file.sync_data()?;
            }
            fs::rename(&temp, dir.join(TABLE))
        })();
        if written.is_err() {
            fs::remove_file(&temp).ok();
        }
        written
    }

    /// Makes the table durable.
    pub fn sync(&self) -> io::Result<()> {
        File::open(self.dir.join(TABLE))?.sync_data()?;
        File::open(&self.dir)?.sync_all()
    }

    fn len(&self) -> usize {
        self.entries.len() / Lent::width(self.kind)
    }

    pub fn entry(&self, at: usize) -> Lent {
        let width = Lent::width(self.kind);
        let raw = &self.entries[at * width..][..width];
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| raw[from + i]));
        let hash = |from: usize| -> Hash { std::array::from_fn(|i| raw[from + i]) };
        Lent {
            name: hash(0),
            real: Some(hash(16)).filter(|real| *real != UNKNOWN),
            pack: number(32) as u32,
            offset: number(36),
            size: number(44),
            id: ObjectId::from_bytes_or_panic(&raw[52..]),
        }
    }

    pub fn find(&self, name: &Hash) -> Option<Lent> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.entries[middle * Lent::width(self.kind)..][..16].cmp(name) {
                std::cmp::Ordering::Equal => return Some(self.entry(middle)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub fn all(&self) -> impl Iterator<Item = Lent> {
        (0..self.len()).map(|at| self.entry(at))
    }

    pub fn pack(&self, number: u32) -> io::Result<Arc<Pack>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = open
            .get_mut(number as usize)
            .ok_or_else(|| damaged("a borrowed name is of no pack of its loan"))?;
        if let Some(pack) = slot {
            return Ok(pack.clone());
        }
        let pack = Arc::new(Pack::open(&self.stem(number), self.kind)?);
        *slot = Some(pack.clone());
        Ok(pack)
    }

    /// Path of a pinned pack, without extension.
    pub fn stem(&self, number: u32) -> PathBuf {
        self.dir.join(&self.packs[number as usize])
    }

    /// The bytes that a name stands for, out of the pack.
    pub fn read(&self, lent: &Lent) -> io::Result<Arc<Vec<u8>>> {
        let bytes = self.pack(lent.pack)?.blob(lent.offset)?;
        if blob_id(self.kind, &bytes) != Some(lent.id) {
            return Err(damaged(format!(
                "its bytes are not those of the object {}",
                lent.id
            )));
        }
        Ok(bytes)
    }
}
