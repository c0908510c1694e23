//! A bare walk of a tree: readdir + fstatat by directory descriptor. Threads take one folder at a time from a shared
//! stack, so that neither idles while the other has work.

use std::collections::HashSet;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};

use super::{Done, Fault, Options};

pub const THREADS: usize = 2;
const BUFFER_BYTES: usize = 32 * 1024;
const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What lstat answers and a scan compares.
struct Key {
    ino: u64,
    size: i64,
    mtime: (i64, u64),
    ctime: (i64, u64),
}

/// What a walk found.
#[derive(Default)]
pub struct Found {
    keys: Vec<Key>,
    folders: u64,
    /// Paths of the files; empty unless they are asked for.
    pub files: Vec<CString>,
}

impl Found {
    pub fn done(&self) -> Done {
        // The keys are looked at, so that no compiler leaves them out.
        let odd = |key: &Key| {
            key.ino == 0
                || key.size < 0
                || key.mtime.0 < 0
                || key.ctime.1 > 999_999_999
                || key.mtime.1 > 999_999_999
                || key.ctime.0 < 0
        };
        let keys = self.keys.iter().filter(|key| !odd(key)).count() as u64;
        Done {
            count: keys + self.folders,
            bytes: 0,
        }
    }

    fn add(&mut self, other: Found) {
        self.keys.extend(other.keys);
        self.files.extend(other.files);
        self.folders += other.folders;
    }
}

/// Folders that are still to be read, by their path below the root.
struct Stack {
    state: Mutex<State>,
    more: Condvar,
}

struct State {
    paths: Vec<CString>,
    /// Found and not read to the end yet; 0 ends the walk.
    open: usize,
}

impl Stack {
    /// Takes what was found in a folder that is read; answers the next one, nothing when all are. Blocks, never spins.
    fn next(&self, found: &mut Vec<CString>, after_one: bool) -> Option<CString> {
        let mut state = self.state.lock().expect("a thread panicked");
        state.open = state.open + found.len() - usize::from(after_one);
        state.paths.append(found);
        if state.open == 0 || state.paths.len() > 1 {
            self.more.notify_all();
        }
        loop {
            if let Some(path) = state.paths.pop() {
                return Some(path);
            }
            if state.open == 0 {
                return None;
            }
            state = self.more.wait(state).expect("a thread panicked");
        }
    }
}

pub struct Walk {
    pub root: OwnedFd,
    pruned: HashSet<Vec<u8>>,
    /// Paths of files are kept, for what reads them afterwards.
    keeps_paths: bool,
}

/// What one thread keeps.
struct Own {
    found: Found,
    folders: Vec<CString>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Walk {
    pub fn open(options: &Options, keeps_paths: bool) -> Result<Self, Fault> {
        Ok(Walk {
            root: openat(CWD, &options.root, OPEN, Mode::empty())?,
            pruned: options.pruned.clone(),
            keeps_paths,
        })
    }

    fn read(&self, path: &CString, own: &mut Own) -> rustix::io::Result<()> {
        let name = if path.is_empty() { c"." } else { path.as_c_str() };
        let folder = openat(&self.root, name, OPEN, Mode::empty())?;
        let mut entries = RawDir::new(folder.as_fd(), &mut own.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                if !self.pruned.contains(name.to_bytes()) {
                    own.found.folders += 1;
                    own.folders.push(below(path, name.to_bytes()));
                }
                continue;
            }
            let stat = statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
            own.found.keys.push(Key {
                ino: stat.st_ino,
                size: stat.st_size,
                mtime: (stat.st_mtime, stat.st_mtime_nsec),
                ctime: (stat.st_ctime, stat.st_ctime_nsec),
            });
            if self.keeps_paths {
                own.found.files.push(below(path, name.to_bytes()));
            }
        }
        Ok(())
    }

    fn thread(&self, stack: &Stack) -> rustix::io::Result<Found> {
        let mut own = Own {
            found: Found::default(),
            folders: Vec::new(),
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
        };
        let mut outcome = Ok(());
        let mut at = stack.next(&mut own.folders, false);
        while let Some(path) = at {
            let read = self.read(&path, &mut own);
            outcome = outcome.and(read);
            at = stack.next(&mut own.folders, true);
        }
        outcome.map(|()| own.found)
    }

    pub fn run(&self) -> Result<Found, Fault> {
        let state = State {
            paths: vec![CString::default()],
            open: 1,
        };
        let stack = Stack {
            state: Mutex::new(state),
            more: Condvar::new(),
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..THREADS)
                .map(|_| scope.spawn(|| self.thread(&stack)))
                .collect();
            let mut found = self.thread(&stack)?;
            for other in others {
                found.add(other.join().expect("a thread panicked")?);
            }
            Ok(found)
        })
    }
}

fn below(folder: &CString, name: &[u8]) -> CString {
    let mut path = Vec::with_capacity(folder.as_bytes().len() + name.len() + 2);
    if !folder.is_empty() {
        path.extend_from_slice(folder.as_bytes());
        path.push(b'/');
    }
    path.extend_from_slice(name);
    CString::new(path).expect("a file name holds no NUL")
}
