//! What the root's file system and OS can do, found by trying. Never inferred from a name or a version.
//!
//! What needs named files is tried in a folder of ours on the root's device; what doesn't, with an unnamed file
//! (O_TMPFILE) in the root. No name is ever made in the root itself.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, Stat, Timespec, Timestamps};

use crate::apply::guard::At;
use crate::error::Result;
use crate::path::leaf::{self, Sys};
use crate::path::look::OpenFile;
use crate::path::{Root, look::Writer};
use crate::sys;
use crate::trash::empty::list;
use crate::wire::FileKind;

/// A file system with stamps of whole seconds (FAT, ext4 with small inodes): twice that, as the last may be rounded.
const COARSE_TICK_NS: u64 = 2_000_000_000;
/// The kernel's coarse clock moves every 1 to 10 ms.
const FINE_TICK_NS: u64 = 10_000_000;
/// Longer than one step of the coarse clock.
const CTIME_WAIT: Duration = Duration::from_millis(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    pub openat2: bool,
    pub exchange: bool,
    pub no_replace: bool,
    pub lease: bool,
    /// A lease is refused for those too who have the file mapped and no more open.
    pub lease_sees_maps: bool,
    pub reflink: bool,
    pub case_folding: bool,
    pub exec_bit: bool,
    pub symlinks: bool,
    pub ctime: bool,
    pub tick_ns: u64,
    /// A folder for named files was at hand: what needs them was tried.
    pub named: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Rung {
    ExchangeLease = 0,
    Exchange = 1,
    TakeOutLink = 2,
    Refuse = 3,
}

impl Abilities {
    /// The rung of the guard's ladder.
    pub fn guard(&self) -> Rung {
        match (self.exchange, self.lease, self.no_replace) {
            (true, true, _) => Rung::ExchangeLease,
            (true, false, _) => Rung::Exchange,
            (false, _, true) => Rung::TakeOutLink,
            // Not tried yet is not missing: the first apply tries.
            (false, _, false) if !self.named => Rung::TakeOutLink,
            (false, _, false) => Rung::Refuse,
        }
    }

    pub fn with_walk(mut self, openat2: bool) -> Self {
        self.openat2 = openat2;
        self
    }
}

/// Tries everything. `scratch`: a folder of ours; used where it is on the root's device.
pub fn probe(root: &Root, scratch: Option<&Path>) -> Result<Abilities> {
    // The first walk shows whether openat2 is there.
    let walk = root.folder(b".takeback");
    let openat2 = root.uses_openat2() || walk.is_ok() && root.uses_openat2();
    let near = scratch.and_then(|path| open_near(root, path));
    let mut found = Abilities {
        openat2,
        exchange: false,
        no_replace: false,
        lease: false,
        lease_sees_maps: false,
        reflink: false,
        case_folding: folds_in(root.fd()),
        exec_bit: false,
        symlinks: false,
        ctime: false,
        tick_ns: COARSE_TICK_NS,
        named: near.is_some(),
    };
    match near {
        Some(dir) => {
            let name = format!("probe-{}-{:?}", std::process::id(), std::thread::current().id());
            let names = Names::new(&name);
            try_named(&mut found, dir.as_fd(), &names);
            names.clear(dir.as_fd());
        }
        None => try_unnamed(&mut found, root),
    }
    Ok(found)
}

fn open_near(root: &Root, path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = sys::openat(CWD, path.as_os_str().as_bytes(), flags, Mode::empty()).ok()?;
    root.same_mount(fd.as_fd()).ok()?.then_some(fd)
}

struct Names {
    a: Vec<u8>,
    b: Vec<u8>,
    link: Vec<u8>,
    upper: Vec<u8>,
}

impl Names {
    fn new(stem: &str) -> Self {
        let name = |end: &str| format!("{stem}{end}").into_bytes();
        Names {
            a: name("a"),
            b: name("b"),
            link: name("l"),
            upper: name("A"),
        }
    }

    fn clear(&self, dir: BorrowedFd<'_>) {
        for name in [&self.a, &self.b, &self.link] {
            // Absent where its step failed; one that stays is in a scratch folder that nothing else reads.
            let _absent = leaf::unlink(dir, name);
        }
    }
}

fn try_named(found: &mut Abilities, dir: BorrowedFd<'_>, names: &Names) {
    let (Ok(a), Ok(b)) = (leaf::create_file(dir, &names.a), leaf::create_file(dir, &names.b)) else {
        return;
    };
    try_file(found, &a, &b);
    drop((a, b));
    found.case_folding |= matches!(leaf::stat(dir, &names.upper), Ok(Some(_)));
    found.symlinks = leaf::make_symlink(dir, &names.link, b"nowhere").is_ok();
    found.lease = OpenFile::open(dir, &names.a).is_ok_and(|mut open| {
        open.lease();
        open.writer() == Writer::None
    });
    found.lease_sees_maps = sees_maps(dir, names).unwrap_or(false);
    found.exchange = exchanges(dir, names).unwrap_or(false);
    let refused = leaf::rename_new(dir, &names.a, dir, &names.b) == Err(rustix::io::Errno::EXIST);
    let moved = leaf::unlink(dir, &names.b).is_ok() && leaf::rename_new(dir, &names.a, dir, &names.b).is_ok();
    found.no_replace = refused && moved;
}

/// On the first name, which holds bytes by now.
fn sees_maps(dir: BorrowedFd<'_>, names: &Names) -> Sys<bool> {
    let (reader, _) = leaf::open_file(dir, &names.a)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let writable = sys::openat(dir, &names.a, flags, Mode::empty())?;
    Ok(sys::lease_sees_maps(writable, reader.as_fd()))
}

/// True where the two names have each other's inodes afterwards: an answer of success alone is no proof.
fn exchanges(dir: BorrowedFd<'_>, names: &Names) -> Sys<bool> {
    let id = |name: &[u8]| leaf::stat(dir, name).map(|s| s.map(|s| s.st_ino));
    let before = (id(&names.a)?, id(&names.b)?);
    leaf::exchange(dir, &names.a, &names.b)?;
    Ok((id(&names.b)?, id(&names.a)?) == before && before.0 != before.1)
}

/// What can be tried on open files, named or not.
fn try_file(found: &mut Abilities, a: &OwnedFd, b: &OwnedFd) {
    let written = leaf::write_all(a, b"probe").and_then(|()| sys::fstat(a));
    let Ok(first) = written else { return };
    found.reflink = sys::ioctl_ficlone(b, a).is_ok();
    let chmod = |mode| {
        let set = sys::fchmod(a, Mode::from_raw_mode(mode));
        set.and_then(|()| sys::fstat(a)).map(|s| leaf::mode(&s))
    };
    found.exec_bit = chmod(0o700) == Ok(0o700) && chmod(0o600) == Ok(0o600);
    let (moves, fine) = ctime_moves(a.as_fd(), &first).unwrap_or((false, false));
    found.ctime = moves;
    found.tick_ns = if fine { FINE_TICK_NS } else { COARSE_TICK_NS };
}

/// Rewrites the file and puts its mtime back, until ctime moves or the wait is over. Also: any stamp with a fraction.
fn ctime_moves(fd: BorrowedFd<'_>, first: &Stat) -> Sys<(bool, bool)> {
    let fine = |s: &Stat| s.st_mtime_nsec != 0 || s.st_ctime_nsec != 0;
    let mut seen_fraction = fine(first);
    let keep = Timespec {
        tv_sec: first.st_mtime,
        tv_nsec: first.st_mtime_nsec as _,
    };
    let times = Timestamps {
        last_access: keep,
        last_modification: keep,
    };
    let began = Instant::now();
    loop {
        sys::pwrite_all(fd, b"PROBE", 0)?;
        sys::futimens(fd, &times)?;
        let now = sys::fstat(fd)?;
        seen_fraction |= fine(&now);
        let moved = (now.st_ctime, now.st_ctime_nsec) != (first.st_ctime, first.st_ctime_nsec);
        if moved || began.elapsed() > CTIME_WAIT {
            return Ok((moved, seen_fraction));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// No folder of ours on this device: unnamed files in the root tell what they can.
fn try_unnamed(found: &mut Abilities, root: &Root) {
    let unnamed = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        sys::openat(root.fd(), b".", flags, Mode::from_raw_mode(0o600))
    };
    let (Ok(a), Ok(b)) = (unnamed(), unnamed()) else {
        return;
    };
    try_file(found, &a, &b);
    let by_proc = format!("/proc/self/fd/{}", a.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    if let Ok(reader) = sys::openat(CWD, by_proc.as_bytes(), flags, Mode::empty()) {
        drop(a);
        found.lease = OpenFile::of(reader).is_ok_and(|mut open| {
            open.lease();
            open.writer() == Writer::None
        });
    }
    found.symlinks = list(root.fd()).is_ok_and(|names| {
        let links = names
            .iter()
            .filter_map(|n| leaf::stat(root.fd(), n).ok().flatten());
        links.take(1000).any(|s| leaf::kind(&s) == FileKind::Symlink)
    });
}

/// True where a name of the root, spelled in the other case, is the same file. Looks only.
fn folds_in(dir: BorrowedFd<'_>) -> bool {
    let swap = |b: &u8| match b {
        b'a'..=b'z' => b.to_ascii_uppercase(),
        b'A'..=b'Z' => b.to_ascii_lowercase(),
        other => *other,
    };
    let same = |name: &Vec<u8>| {
        let other: Vec<u8> = name.iter().map(swap).collect();
        let at = At { dir, name: &other };
        let (Ok(Some(a)), Ok(Some(b))) = (leaf::stat(dir, name), leaf::stat(dir, at.name)) else {
            return false;
        };
        other != *name && (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) && leaf::kind(&a) != FileKind::Symlink
    };
    // Two hard links may differ in case only; a folder can't have two names.
    let folder = |name: &&Vec<u8>| {
        let stat = leaf::stat(dir, name).ok().flatten();
        stat.is_some_and(|s| leaf::kind(&s) == FileKind::Dir || s.st_nlink == 1)
    };
    list(dir).is_ok_and(|names| names.iter().filter(folder).take(16).any(same))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::kit::Kit;
    use crate::path::Resolver;

    #[test]
    fn probing_leaves_no_name_in_the_root_and_none_in_the_scratch_folder() {
        let kit = Kit::new();
        let before = kit.hands.root.fd();
        let stamp = |fd| {
            rustix::fs::fstat(fd)
                .map(|s| (s.st_mtime, s.st_mtime_nsec))
                .unwrap()
        };
        let (then, found) = (stamp(before), kit.hands.abilities().unwrap());
        assert_eq!(stamp(before), then, "the root's names did not change");
        assert_eq!(std::fs::read_dir(kit.base.join("scratch")).unwrap().count(), 0);
        assert!(found.named && found.symlinks && found.exec_bit && !found.case_folding);
    }

    #[test]
    fn a_lease_in_memory_is_refused_for_one_that_has_the_file_mapped_only() {
        let kit = Kit::in_memory();
        let found = kit.hands.abilities().unwrap();
        assert!(found.lease && found.lease_sees_maps, "{found:?}");
    }

    #[test]
    fn the_ladder_follows_what_was_found() {
        let mut found = Kit::new().hands.abilities().unwrap();
        let mut rung = |exchange, lease, no_replace| {
            (found.exchange, found.lease, found.no_replace) = (exchange, lease, no_replace);
            found.guard()
        };
        assert_eq!(rung(true, true, true), Rung::ExchangeLease);
        assert_eq!(rung(true, false, true), Rung::Exchange);
        assert_eq!(rung(false, true, true), Rung::TakeOutLink);
        assert_eq!(rung(false, false, false), Rung::Refuse);
    }

    #[test]
    fn the_forced_resolver_is_reported() {
        let kit = Kit::with(Resolver::Component);
        assert!(!kit.hands.abilities().unwrap().openat2);
    }

    #[test]
    fn without_a_folder_of_ours_what_needs_no_name_is_still_found() {
        let kit = Kit::new();
        let near = probe(&kit.hands.root, Some(&kit.base.join("scratch"))).unwrap();
        let far = probe(&kit.hands.root, None).unwrap();
        assert!(!far.named);
        assert_eq!(
            (far.ctime, far.exec_bit, far.tick_ns),
            (near.ctime, near.exec_bit, near.tick_ns)
        );
        assert_eq!(std::fs::read_dir(kit.base.join("root")).unwrap().count(), 0);
    }
}
