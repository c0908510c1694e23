//! The floor of a warm scan: a bare walk of a tree, readdir + fstatat by directory descriptor, two threads.
//!
//! The baseline twin of the bench (`bench/run.mjs`): it knows no index, no rules and no store, and shares no code with the
//! engine. Directories go from thread to thread through one counter, so that neither thread idles while the other has
//! work. Prints one JSON line: entries found and microseconds of each round; the caller checks the count.
//!
//! Linux only (getdents64). Usage: `floor ROOT [ROUNDS]`. Leaves out `.git` and whatever is no part of the file system of ROOT.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Condvar, Mutex, atomic::AtomicUsize, atomic::Ordering};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};

const THREADS: usize = 2;
const ROUNDS: usize = 15;
const BUFFER_BYTES: usize = 32 * 1024;

/// What lstat answers and a scan compares.
#[expect(dead_code, reason = "kept, as a scan keeps it; the floor only counts")]
struct Key {
    ino: u64,
    size: i64,
    mtime: (i64, u64),
    ctime: (i64, u64),
}

/// Directories found so far. `next` is the counter that the threads share.
struct Queue {
    directories: Mutex<Vec<Option<OwnedFd>>>,
    next: AtomicUsize,
    /// Directories that are not read to the end yet; 0 ends the walk.
    open: AtomicUsize,
    more: Condvar,
}

impl Queue {
    fn push(&self, directory: OwnedFd) {
        self.open.fetch_add(1, Ordering::SeqCst);
        self.directories
            .lock()
            .expect("a thread panicked")
            .push(Some(directory));
        self.more.notify_one();
    }

    /// The next directory, or nothing when all are read. Blocks; never spins.
    fn take(&self) -> Option<OwnedFd> {
        let mut directories = self.directories.lock().expect("a thread panicked");
        loop {
            let at = self.next.load(Ordering::SeqCst);
            if at < directories.len() {
                self.next.store(at + 1, Ordering::SeqCst);
                return directories[at].take();
            }
            if self.open.load(Ordering::SeqCst) == 0 {
                return None;
            }
            directories = self.more.wait(directories).expect("a thread panicked");
        }
    }

    fn done(&self) {
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _held = self.directories.lock().expect("a thread panicked");
            self.more.notify_all();
        }
    }
}

fn read(
    directory: OwnedFd,
    queue: &Queue,
    keys: &mut Vec<Key>,
    buffer: &mut [MaybeUninit<u8>],
) -> rustix::io::Result<()> {
    let mut entries = RawDir::new(directory.as_fd(), buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b".." | b".git") {
            continue;
        }
        let stat = statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        keys.push(Key {
            ino: stat.st_ino,
            size: stat.st_size,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
        });
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            queue.push(openat(directory.as_fd(), name, flags, Mode::empty())?);
        }
    }
    Ok(())
}

fn walk(root: &OsStr) -> rustix::io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let queue = Queue {
        directories: Mutex::new(Vec::new()),
        next: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
        more: Condvar::new(),
    };
    queue.push(openat(CWD, root.as_bytes(), flags, Mode::empty())?);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut keys: Vec<Key> = Vec::new();
                    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
                    let mut outcome = Ok(());
                    while let Some(directory) = queue.take() {
                        let read = read(directory, &queue, &mut keys, &mut buffer);
                        queue.done();
                        outcome = outcome.and(read);
                    }
                    outcome.map(|()| keys.len())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread panicked"))
            .sum()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let root = args.next().ok_or("usage: floor ROOT [ROUNDS]")?;
    let rounds = match args.next() {
        Some(text) => text.to_string_lossy().parse()?,
        None => ROUNDS,
    };
    let entries = walk(&root)?;
    let mut micros = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        let found = walk(&root)?;
        micros.push(started.elapsed().as_micros().to_string());
        if found != entries {
            return Err(format!("the tree changed: {entries} entries, then {found}").into());
        }
    }
    println!("{{\"entries\":{entries},\"micros\":[{}]}}", micros.join(","));
    Ok(())
}
