//! Somebody who found a file before it was replaced or deleted, and opens it only then, at any call: what they do up to
//! the second look is at its path afterwards, and later nothing of it is lost.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};

use crate::apply::Status;
use crate::apply::kit::{Kit, entry};
use crate::sys::sim::{at_call, call};
use crate::wire::Version;

const OLD: &str = "old bytes";
const NEW: &str = "new bytes";
const FOREIGN: &str = "of other!";
const THEIRS: u32 = 0o600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Write,
    /// Opens it, maps it, closes it and stores into the map, which is kept until the operation is over.
    Map,
    Chmod,
}

fn scene(deleted: bool) -> (Kit, Vec<crate::apply::ApplyEntry>) {
    let kit = Kit::in_memory();
    let found = kit.hands.abilities().unwrap();
    assert!(found.lease && found.lease_sees_maps, "{found:?}");
    kit.write("f", OLD);
    let target = match deleted {
        true => Version::Absent,
        false => kit.text(NEW),
    };
    let entries = vec![entry("f", kit.text(OLD), target)];
    (kit, entries)
}

/// The names of all calls of an operation that nobody disturbs.
fn calls(deleted: bool) -> Vec<&'static str> {
    let mut names = Vec::new();
    for nth in 1.. {
        let (kit, entries) = scene(deleted);
        let (outcomes, came) = at_call(nth, || Ok(()), || kit.begin(entries));
        assert_eq!(outcomes.unwrap()[0].status, Status::Done);
        if !came {
            break;
        }
        names.push(call());
    }
    names
}

/// The number of the last call by which the second look decides about a deed: that of the lease; of modes the stat
/// before it.
fn decides(names: &[&str], deed: Deed) -> usize {
    let out = names.iter().position(|name| *name == "renameat2").unwrap();
    let leases = names[out..].iter().filter(|name| **name == "lease").count();
    assert_eq!(
        leases, 3,
        "taken, asked for after the reading, and at the second look: {names:?}"
    );
    let lease = names.iter().rposition(|name| *name == "lease").unwrap();
    match deed {
        Deed::Write | Deed::Map => lease + 1,
        Deed::Chmod => names[..lease].iter().rposition(|name| *name == "fstat").unwrap() + 1,
    }
}

fn path_of(found: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Runs `act` on the file, open for writing; where a lease holds that up, when it can.
fn opened(found: OwnedFd, act: impl FnOnce(File) + Send + 'static) -> JoinHandle<()> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    match options
        .clone()
        .custom_flags(libc::O_NONBLOCK)
        .open(path_of(&found))
    {
        Ok(file) => {
            act(file);
            std::thread::spawn(|| {})
        }
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            std::thread::spawn(move || act(options.open(path_of(&found)).unwrap()))
        }
    }
}

fn act(found: OwnedFd, deed: Deed) -> JoinHandle<()> {
    match deed {
        Deed::Write => opened(found, |file| file.write_all_at(FOREIGN.as_bytes(), 0).unwrap()),
        Deed::Map => opened(found, |file| {
            // SAFETY: nobody cuts this file.
            let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
            drop(file);
            map.copy_from_slice(FOREIGN.as_bytes());
        }),
        Deed::Chmod => {
            fs::set_permissions(path_of(&found), fs::Permissions::from_mode(THEIRS)).unwrap();
            std::thread::spawn(|| {})
        }
    }
}

/// Whether a file is as they made it.
fn is_theirs(path: PathBuf, deed: Deed) -> bool {
    match deed {
        Deed::Chmod => fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o777 == THEIRS),
        _ => fs::read_to_string(path).is_ok_and(|bytes| bytes == FOREIGN),
    }
}

fn round(nth: usize, (deed, deleted, decides): (Deed, bool, usize)) {
    let (kit, entries) = scene(deleted);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::open(kit.path("f"), flags, Mode::empty()).unwrap();
    let running = Rc::new(RefCell::new(None));
    let told = running.clone();
    let hook = move || {
        *told.borrow_mut() = Some(act(found, deed));
        Ok(())
    };
    let (outcomes, came) = at_call(nth, hook, || kit.begin(entries));
    let outcome = outcomes.unwrap().remove(0);
    let what = format!("{deed:?}, deleted {deleted}, at call {nth} of which {decides} decides: {outcome:?}");
    assert!(came, "{what}");
    running.take().unwrap().join().unwrap();
    let mut trash = fs::read_dir(&kit.trash).unwrap().map(|kept| kept.unwrap().path());
    let at_path = is_theirs(kit.path("f"), deed);
    assert!(at_path || trash.any(|kept| is_theirs(kept, deed)), "lost: {what}");
    if nth <= decides {
        assert!(at_path, "not at its path: {what}");
        assert_ne!(outcome.status, Status::Done, "{what}");
    }
}

#[test]
fn what_is_done_to_a_file_that_was_found_before_is_at_its_path_up_to_the_second_look() {
    for deleted in [false, true] {
        let names = calls(deleted);
        for deed in [Deed::Write, Deed::Map, Deed::Chmod] {
            let decides = decides(&names, deed);
            (1..=names.len()).for_each(|nth| round(nth, (deed, deleted, decides)));
        }
    }
}

#[test]
fn what_nobody_touched_is_read_once_after_it_came_out() {
    for deleted in [false, true] {
        let names = calls(deleted);
        let moved = names.iter().position(|name| *name == "renameat2").unwrap();
        let reads = names[moved..].iter().filter(|name| **name == "pread").count();
        assert_eq!(reads, 1, "{names:?}");
    }
}
