//! The journal of one running operation: what it will do, written and synced before it does anything.
//!
//! Frames as in docs/formats.md: begin (owner, root, trash, entries with their temp and trash names), prepared (the
//! inodes of the temps, before the first swap), settled (advisory). A journal whose first frame is torn says that
//! nothing was done.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::{Code, EngineError, IoContext, Result};
use crate::path::{FileId, names};
use crate::sys::file::{self, OutFile};
use crate::wire::{Frames, Id, Reader, RelPath, Version, Writer, write_frame};

const BEGIN: u32 = 1;
const PREPARED: u32 = 2;
const SETTLED: u32 = 3;
/// Least bytes of an entry: four empty names, two absent versions.
const LEAST_ENTRY: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Durability {
    /// Names and modes are synced before the answer.
    Full = 0,
    /// Survives a kill, not a power cut.
    Fast = 1,
}

/// Which process runs an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub pid: u64,
    /// Field 22 of /proc/<pid>/stat; 0 where unknown.
    pub start_time: u64,
    pub boot_id: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    pub path: RelPath,
    pub expect: Version,
    pub target: Version,
    pub temp: Vec<u8>,
    pub trash: Vec<u8>,
    /// The temp's inode, once the prepared frame is there; [`FileId::NONE`]: being written anew, not swapped in.
    pub prepared: Option<FileId>,
    /// The settled frame says that it was done: its temp is at the path, or was never needed.
    pub done: bool,
}

/// What a journal holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    pub operation: Id,
    pub owner: Owner,
    pub root: FileId,
    pub trash: PathBuf,
    pub durability: Durability,
    pub entries: Vec<JournalEntry>,
    /// The prepared frame was written: swaps may have begun.
    pub swapping: bool,
}

impl Owner {
    pub fn current() -> Self {
        let pid = std::process::id();
        Owner {
            pid: u64::from(pid),
            start_time: start_time(u64::from(pid)).unwrap_or(0),
            boot_id: boot_id(),
        }
    }

    /// True where that process still runs, and is another one than this.
    pub fn lives_elsewhere(&self) -> bool {
        if self.pid == u64::from(std::process::id()) || self.boot_id != boot_id() {
            return false;
        }
        match start_time(self.pid) {
            Some(now) => self.start_time == 0 || now == self.start_time,
            None => false,
        }
    }
}

fn boot_id() -> Vec<u8> {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim_ascii().to_vec()
}

fn start_time(pid: u64) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in field 2 may hold anything, parentheses included; field 3 follows the last one.
    let after = text.iter().rposition(|b| *b == b')')? + 2;
    let fields = std::str::from_utf8(text.get(after..)?).ok()?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// Writes a journal. Dropping it leaves the file: only `finish` and recovery remove it.
#[derive(Debug)]
pub struct JournalFile {
    file: OutFile,
    path: PathBuf,
}

impl JournalFile {
    /// Makes the file (0600), writes the begin frame and syncs file and folder. `ERR_BUSY` where one is there already.
    pub fn begin(path: &Path, journal: &Journal) -> Result<Self> {
        let file = OutFile::create_new(path).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::AlreadyExists => EngineError::new(
                Code::Busy,
                format!(
                    "{} exists: an operation runs, or was not recovered",
                    path.display()
                ),
            ),
            _ => EngineError::io(&format!("make the journal {}", path.display()), cause),
        })?;
        let path_of = path.to_path_buf();
        let mut this = JournalFile { file, path: path_of };
        let started = this
            .append(BEGIN, &encode_begin(journal))
            .and_then(|()| this.sync());
        let started = started.and_then(|()| sync_parent(path));
        if let Err(error) = started {
            // Nothing was done yet, so a journal that can't be kept must not stay.
            file::remove(path).doing_at("remove a journal that could not be written", bytes(path))?;
            return Err(error);
        }
        Ok(this)
    }

    /// Opens the journal of an operation that is being recovered, to append to it.
    pub fn reopen(path: &Path, whole: u64) -> Result<Self> {
        let file = OutFile::append_to(path).doing_at("open the journal", bytes(path))?;
        file.set_len(whole)
            .doing_at("cut the torn end of the journal", bytes(path))?;
        let path = path.to_path_buf();
        Ok(JournalFile { file, path })
    }

    /// Names the temp files; must be synced (here, or by one sync of the file system) before the first swap.
    pub fn prepared(&mut self, temps: &[(usize, FileId)]) -> Result<()> {
        let mut writer = Writer::new();
        writer.count(temps.len());
        for (index, id) in temps {
            writer.count(*index).u64(id.dev).u64(id.ino);
        }
        self.append(PREPARED, &writer.done())
    }

    /// Says that recovery is about to write these temps anew: what has such a temp's name from now on was not swapped in.
    /// Must be synced, and all names of the root before it, before the first is made.
    pub fn prepares_anew(&mut self, indices: &[usize]) -> Result<()> {
        let none: Vec<_> = indices.iter().map(|index| (*index, FileId::NONE)).collect();
        self.prepared(&none)
    }

    /// Says which entries were done, so that nobody need look for their temps any more. Recovery goes by what is on disk.
    pub fn settled(&mut self, entries: &[(usize, bool)]) -> Result<()> {
        let mut writer = Writer::new();
        writer.count(entries.len());
        for (index, done) in entries {
            writer.count(*index).u8(u8::from(!done));
        }
        self.append(SETTLED, &writer.done())
    }

    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .doing_at("sync the journal", bytes(&self.path))
    }

    pub fn device(&self) -> Option<u64> {
        self.file.stat().ok().map(|s| s.st_dev)
    }

    fn append(&mut self, kind: u32, payload: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        write_frame(&mut frame, kind, payload);
        self.file
            .write_all(&frame)
            .doing_at("write the journal", bytes(&self.path))
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

pub fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    file::sync_folder(parent).doing_at("sync the journal's folder", bytes(parent))
}

fn encode_begin(journal: &Journal) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.raw(&journal.operation);
    writer.u64(journal.owner.pid).u64(journal.owner.start_time);
    writer.bytes(&journal.owner.boot_id);
    writer.u64(journal.root.dev).u64(journal.root.ino);
    writer.bytes(journal.trash.as_os_str().as_bytes());
    writer.u8(journal.durability as u8).count(journal.entries.len());
    for entry in &journal.entries {
        writer
            .bytes(&entry.path)
            .version(&entry.expect)
            .version(&entry.target);
        writer.bytes(&entry.temp).bytes(&entry.trash);
    }
    writer.done()
}

fn decode_begin(payload: &[u8]) -> Result<Journal> {
    let mut reader = Reader::new(payload);
    let operation = reader.array()?;
    let owner = Owner {
        pid: reader.u64()?,
        start_time: reader.u64()?,
        boot_id: reader.bytes()?.to_vec(),
    };
    let root = FileId {
        dev: reader.u64()?,
        ino: reader.u64()?,
    };
    let trash = PathBuf::from(std::ffi::OsString::from_vec(reader.name()?));
    let durability = match reader.u8()? {
        0 => Durability::Full,
        _ => Durability::Fast,
    };
    let count = reader.count(LEAST_ENTRY)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(JournalEntry {
            path: reader.name()?,
            expect: reader.version()?,
            target: reader.version()?,
            temp: reader.name()?,
            trash: reader.name()?,
            prepared: None,
            done: false,
        });
    }
    reader.end()?;
    let names = entries.iter().flat_map(|e| [&e.temp, &e.trash]);
    if names
        .into_iter()
        .any(|name| names::check(name).is_err() || name.contains(&b'/'))
    {
        return Err(EngineError::corrupt(
            "a journal holds a temp or trash name that is a path",
        ));
    }
    let swapping = false;
    Ok(Journal {
        operation,
        owner,
        root,
        trash,
        durability,
        entries,
        swapping,
    })
}

/// Takes the newest inode of each temp. An index that is no entry's is damage.
fn decode_prepared(payload: &[u8], journal: &mut Journal) -> Result<()> {
    let mut reader = Reader::new(payload);
    for _ in 0..reader.count(20)? {
        let index = reader.u32()? as usize;
        let id = FileId {
            dev: reader.u64()?,
            ino: reader.u64()?,
        };
        let entry = journal.entries.get_mut(index);
        entry
            .ok_or_else(|| EngineError::corrupt("a journal names an entry that it hasn't"))?
            .prepared = Some(id);
    }
    journal.swapping = true;
    reader.end()
}

/// Takes which entries were done. What doesn't fit is passed over: recovery must not fail for a hint.
fn decode_settled(payload: &[u8], journal: &mut Journal) -> Result<()> {
    let mut reader = Reader::new(payload);
    for _ in 0..reader.count(5)? {
        let index = reader.u32()? as usize;
        let done = reader.u8()? == 0;
        if let Some(entry) = journal.entries.get_mut(index) {
            entry.done = done;
        }
    }
    Ok(())
}

/// A journal and how much of the file is whole.
#[derive(Debug)]
pub struct Stored {
    pub journal: Journal,
    pub whole: u64,
}

/// Reads a journal. None: no file, or its first frame is torn, so nothing was done.
pub fn read(path: &Path) -> Result<Option<Stored>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause).doing_at("read the journal", bytes(path)),
    };
    let mut frames = Frames::new(&bytes);
    let Some(begin) = frames.next().filter(|f| f.kind == BEGIN) else {
        return Ok(None);
    };
    let mut journal = decode_begin(begin.payload)?;
    let mut whole = begin.end;
    for frame in frames {
        match frame.kind {
            PREPARED => decode_prepared(frame.payload, &mut journal)?,
            SETTLED => decode_settled(frame.payload, &mut journal).unwrap_or_default(),
            _ => {}
        }
        whole = frame.end;
    }
    let whole = whole as u64;
    Ok(Some(Stored { journal, whole }))
}

/// Removes a journal; one that is gone is fine.
pub fn remove(path: &Path) -> Result<()> {
    match file::remove(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(cause).doing_at("remove the journal", bytes(path))
        }
        _ => Ok(()),
    }
}
