//! Reads one file of an ingest: opened without following or blocking, its stat key taken before and after.

use std::os::fd::{AsFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::lease::{Held, Lease};
use super::{Contents, Outcome, Request, Sink};
use crate::borrow::loan::blob_id;
use crate::error::{EngineError, Result};
use crate::scan::sys::{open_beneath, stat_open};
use crate::segment::{Batch, Large, OVER};
use crate::wire::{FileKind, Hash, Reason, RelPath, StatKey};

/// Reads of one file before it counts as unstable.
const TRIES: usize = 4;
/// Bytes of a large file that are read at once.
const PIECE: usize = 1 << 20;

impl Sink<'_> {
    pub fn read(&self, path: &RelPath, buffer: &mut Vec<u8>, batch: &mut Batch<'_>) -> Result<Outcome> {
        if self.is_late() {
            return Ok(Outcome::Left);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match open_beneath(self.root.as_fd(), path, flags) {
            Ok(file) => file,
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                return Err(EngineError::io("open a file", error).with_path(path));
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Ok(Outcome::Changed);
            }
            Err(error) => return Ok(self.unreadable(path, error)),
        };
        for _ in 0..TRIES {
            let Ok(before) = stat_open(file.as_fd()) else {
                return Ok(Outcome::Changed);
            };
            if before.kind != FileKind::File {
                return Ok(Outcome::Changed);
            }
            if before.size > self.max_file_bytes {
                return Ok(Outcome::Uncovered(Reason::TooLarge, before, None));
            }
            // What is borrowed is compared with git's object, whole.
            let outcome = match before.size > OVER && self.borrowed(path, &before).is_none() {
                true => self.read_large(&file, before, (buffer, batch))?,
                false => self.read_small((path, &file), before, (buffer, batch))?,
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        let stat = stat_open(file.as_fd()).map_err(|error| EngineError::io("stat a file", error))?;
        Ok(Outcome::Uncovered(Reason::Unstable, stat, None))
    }

    fn is_late(&self) -> bool {
        let deadline = self.request.deadline;
        deadline.is_some_and(|deadline| SystemTime::now() >= deadline)
    }

    /// None where it moved while it was read.
    fn read_small(
        &self,
        (path, file): (&RelPath, &OwnedFd),
        before: StatKey,
        (buffer, batch): (&mut Vec<u8>, &mut Batch<'_>),
    ) -> Result<Option<Outcome>> {
        let lease = Lease::take(file);
        let read = read_whole(file, before.size, buffer);
        let held = lease.held();
        drop(lease);
        if let Err(error) = read {
            return Ok(Some(Outcome::Uncovered(Reason::Unreadable, before, Some(error))));
        }
        let still = stat_open(file.as_fd()) == Ok(before) && buffer.len() as u64 == before.size;
        if !still || held == Held::Broken {
            return Ok(None);
        }
        if held != Held::Writers
            && let Some(name) = self.borrowed_as(path, &before, buffer)
        {
            return Ok(Some(Outcome::Read(Contents {
                stat: before,
                hash: name,
                writers: false,
                borrowed: true,
                queued: None,
                stored: None,
            })));
        }
        let contents = self.keep((before, held == Held::Writers), buffer, batch)?;
        Ok(Some(Outcome::Read(contents)))
    }

    /// The borrowed name that the index has for the file, where its mode and size are still the object's.
    fn borrowed(&self, path: &RelPath, stat: &StatKey) -> Option<Hash> {
        let entry = self.index.entry(self.index.find(path)?);
        let same = entry.stat.mode == stat.mode && entry.stat.size == stat.size;
        (entry.is_borrowed() && same).then_some(entry.hash)
    }

    /// That name, where these are still the object's bytes.
    fn borrowed_as(&self, path: &RelPath, stat: &StatKey, bytes: &[u8]) -> Option<Hash> {
        let name = self.borrowed(path, stat)?;
        let (loan, lent) = self.store.loans().find(&name)?;
        (blob_id(loan.kind, bytes)? == lent.id).then_some(name)
    }

    /// As `read_small`, piece by piece. Who wants to write waits for the lease, so it is given back at once.
    fn read_large(
        &self,
        file: &OwnedFd,
        before: StatKey,
        (buffer, batch): (&mut Vec<u8>, &mut Batch<'_>),
    ) -> Result<Option<Outcome>> {
        let lease = Lease::take(file);
        let (mut hasher, mut large) = (self.store.hasher(), Large::new(self.store));
        buffer.resize(PIECE, 0);
        let mut length = 0;
        loop {
            self.work.cancel.check()?;
            if self.is_late() {
                return Ok(Some(Outcome::Left));
            }
            let read = match rustix::io::pread(file, &mut buffer[..PIECE], length) {
                Ok(0) => break,
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    let outcome = Outcome::Uncovered(Reason::Unreadable, before, Some(error));
                    return Ok(Some(outcome));
                }
            };
            length += read as u64;
            if length > before.size || lease.held() == Held::Broken {
                return Ok(None);
            }
            match self.request.hash_only {
                true => hasher.update(&buffer[..read]),
                false => large.push(&buffer[..read], batch)?,
            }
        }
        let held = lease.held();
        drop(lease);
        if length != before.size || held == Held::Broken || stat_open(file.as_fd()) != Ok(before) {
            return Ok(None);
        }
        let queued = match self.request.hash_only {
            true => None,
            false => Some(large.finish(batch)?),
        };
        Ok(Some(Outcome::Read(Contents {
            stat: before,
            hash: queued.map_or_else(|| hasher.finish(), |queued| queued.hash),
            writers: held == Held::Writers,
            borrowed: false,
            queued,
            stored: None,
        })))
    }

    fn keep(
        &self,
        (stat, writers): (StatKey, bool),
        bytes: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<Contents> {
        let (hash, queued) = match self.kept(bytes) {
            Some(hash) => (hash, None),
            None => {
                let queued = batch.put(bytes)?;
                (queued.hash, Some(queued))
            }
        };
        Ok(Contents {
            stat,
            hash,
            writers,
            borrowed: false,
            queued,
            stored: None,
        })
    }

    /// The name of bytes that need not be stored.
    fn kept(&self, bytes: &[u8]) -> Option<Hash> {
        let Request {
            hash_only, stored, ..
        } = self.request;
        if !*hash_only && stored.is_empty() {
            return None;
        }
        let hash = self.store.hash(bytes);
        (*hash_only || stored.contains(&hash)).then_some(hash)
    }

    fn unreadable(&self, path: &RelPath, error: Errno) -> Outcome {
        let stat = open_beneath(
            self.root.as_fd(),
            path,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        )
        .and_then(|fd| stat_open(fd.as_fd()));
        match stat {
            Ok(stat) => Outcome::Uncovered(Reason::Unreadable, stat, Some(error)),
            Err(_) => Outcome::Changed,
        }
    }
}

/// Reads from the start until the end, whatever the size was said to be; never more than a little beyond it.
fn read_whole(file: &OwnedFd, size: u64, buffer: &mut Vec<u8>) -> std::result::Result<(), Errno> {
    let room = usize::try_from(size).map_err(|_| Errno::FBIG)?.saturating_add(1);
    buffer.clear();
    buffer.resize(room, 0);
    let mut length = 0;
    while length < room {
        match rustix::io::pread(file, &mut buffer[length..], length as u64) {
            Ok(0) => break,
            // Less than asked for, and all that it should have: its end, without a call more to be told so.
            Ok(read) if (length + read) as u64 == size => {
                length += read;
                break;
            }
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(length);
    Ok(())
}
