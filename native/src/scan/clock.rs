//! The file system's own now, and what it makes of stat keys.
//!
//! A stat key proves a file unchanged only where its times are older, by a tick, than the file system's now at the scan
//! that took it: what is written later then gets another time. Process clocks say nothing about file times.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use super::sys::{key_of, stat_open};
use crate::sys;
use crate::wire::StatKey;

/// Coarse kernel stamps move every 4 ms or 10 ms.
const TICK_NS: i64 = 10_000_000;
/// For file systems with one-second or two-second stamps.
const COARSE_TICK_NS: i64 = 2_000_000_000;

/// What a scan compares file times with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds since the epoch by the file system; the least value where it can't be told, so that all is racy.
    pub now_ns: i64,
    pub tick_ns: i64,
}

impl Clock {
    /// Takes the stamp of an unnamed file in the root; where that can't be had, of a file in `scratch` on the same device.
    pub fn of(root: &OwnedFd, scratch: &Path) -> Self {
        let root_key = stat_open(root.as_fd()).ok();
        let stamp = unnamed(root).or_else(|| named(scratch, root_key.map(|key| key.dev)));
        match stamp {
            None => Clock {
                now_ns: i64::MIN,
                tick_ns: 0,
            },
            Some(stamp) => {
                let whole = |ns: i64| ns % 1_000_000_000 == 0;
                let coarse = whole(stamp.mtime_ns) && root_key.is_none_or(|key| whole(key.mtime_ns));
                Clock {
                    now_ns: stamp.mtime_ns.max(stamp.ctime_ns),
                    tick_ns: if coarse { COARSE_TICK_NS } else { TICK_NS },
                }
            }
        }
    }

    /// The stat key proves nothing: the next scan hashes again.
    pub fn is_racy(&self, key: &StatKey) -> bool {
        let newest = key.mtime_ns.max(key.ctime_ns);
        newest > self.now_ns.saturating_sub(self.tick_ns)
    }
}

fn unnamed(root: &OwnedFd) -> Option<StatKey> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = sys::openat(root, b".", flags, Mode::RUSR | Mode::WUSR).ok()?;
    sys::fstat(&file).ok().map(|stat| key_of(&stat))
}

fn named(scratch: &Path, dev: Option<u64>) -> Option<StatKey> {
    let path = scratch.join(format!("clock-{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = sys::openat(CWD, path.as_os_str().as_bytes(), flags, Mode::RUSR | Mode::WUSR).ok()?;
    sys::write_all(&file, b"now").ok()?;
    let key = sys::fstat(&file).ok().map(|stat| key_of(&stat));
    // A scratch file that stays is harmless; the next look writes it anew.
    sys::file::remove(&path).ok();
    key.filter(|key| Some(key.dev) == dev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FileKind;
    use std::fs;

    fn key(mtime_ns: i64, ctime_ns: i64) -> StatKey {
        StatKey {
            kind: FileKind::File,
            mode: 0o644,
            size: 1,
            mtime_ns,
            ctime_ns,
            ino: 1,
            dev: 1,
        }
    }

    #[test]
    fn times_within_a_tick_of_now_or_ahead_of_it_are_racy() {
        let clock = Clock {
            now_ns: 1_000,
            tick_ns: 10,
        };
        assert!(!clock.is_racy(&key(990, 500)));
        assert!(clock.is_racy(&key(991, 500)));
        assert!(clock.is_racy(&key(500, 2_000)), "ctime counts as much as mtime");
    }

    #[test]
    fn without_a_clock_everything_is_racy() {
        let clock = Clock {
            now_ns: i64::MIN,
            tick_ns: 0,
        };
        assert!(clock.is_racy(&key(0, 0)));
    }

    #[test]
    fn the_clock_of_a_root_leaves_the_root_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let root: OwnedFd = fs::File::open(folder.path()).unwrap().into();
        let before = stat_open(root.as_fd()).unwrap();
        let clock = Clock::of(&root, folder.path());
        assert!(clock.now_ns >= before.mtime_ns);
        assert_eq!(stat_open(root.as_fd()).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
