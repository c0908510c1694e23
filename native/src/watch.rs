//! Events of the kernel (inotify) that tell where a look within a turn is needed.
//!
//! Owns one watch for each covered folder, what events told and no committed look has taken in yet, and what is to be looked
//! at without an event. A scan asks [`Watch::next`] where to look, and puts a watch on each folder that has none after it has
//! opened it and before it looks at a name in it ([`Watch::arm`]); the tree hands back what came of it ([`Watch::armed`],
//! [`Watch::committed`]). In any doubt (lost events, mounts, too much to look at) the answer is a walk of the whole tree.
//!
//! Events are named by folder and name. A folder that is moved loses its watches, and all below it, when the event of the
//! move is read: the look at its new name makes them anew. What gives no event here is looked at each time where it is known:
//! racy entries, files with writers (they may be mapped), files with several names. Not covered (LIMITS.md): a file that is
//! mapped and written between two looks, one that got another name outside the covered folders and is written by that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::ignore::names::{join, parent_of};
use crate::index::{Entry, Index, Step, flag, kind};
use crate::wire::{Problem, Reason, RelPath, StatKey};

const WATCHED: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);

/// Where more is to be looked at than this share of the tree, a walk is faster. Guessed: a look by name costs about six
/// times what a walk pays for a name.
const WALK_SHARE: u64 = 6;
/// Fewer paths than this are looked at by name whatever the tree's size.
const FEW: usize = 64;

/// File systems whose events tell of all that happens to them on this machine. Others (network, FUSE, shares of a virtual
/// machine) change without an event here.
const TOLD: [u32; 9] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683E, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0xF2F5_2010, // F2FS
    0xCA45_1A4E, // bcachefs
    0x2FC1_2FC1, // ZFS
    0x794C_7630, // overlayfs
];

/// Where a look is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Each by its own entry, and all below it where it is a folder.
    pub paths: BTreeSet<RelPath>,
    /// Each with its names, without the folders in it that are known.
    pub folders: BTreeSet<RelPath>,
}

/// A watch that a scan made.
#[derive(Debug)]
pub struct Armed {
    pub path: RelPath,
    pub wd: i32,
    pub ino: u64,
}

/// What the set of the newest scan looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taking {
    Nothing,
    Touched,
    All,
}

/// The events of one tree.
pub struct Watch {
    events: Arc<OwnedFd>,
    /// Told by poll when anything is mounted or unmounted.
    mounts: File,
    /// Watch and inode, by folder.
    folders: BTreeMap<RelPath, (i32, u64)>,
    /// Folder by watch.
    paths: HashMap<i32, RelPath>,
    /// There were no events yet, or they don't tell all.
    doubt: bool,
    /// A folder stands at two paths (a bind mount; or it moved while it was looked at): its events name one of them.
    twice: bool,
    touched: Touched,
    /// What the set of the newest scan was told: told again to the next one, unless that set is committed.
    taken: Touched,
    /// Paths that an event doesn't tell of, or that an unchanged stat key doesn't prove unchanged.
    doubtful: BTreeSet<RelPath>,
    /// Files with more names than one.
    linked: BTreeSet<RelPath>,
    taking: Taking,
}

impl Watch {
    /// Opens the queue of events; no folder has a watch yet. An error says why there can be none.
    pub fn start(root: BorrowedFd<'_>) -> Result<Self, String> {
        let kind =
            rustix::fs::fstatfs(root).map_err(|error| format!("the file system can't be told: {error}"))?;
        if !TOLD.contains(&(kind.f_type as u32)) {
            return Err("this file system does not tell of all changes by events".into());
        }
        let mounts =
            File::open("/proc/self/mountinfo").map_err(|error| format!("there is no /proc: {error}"))?;
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|error| format!("inotify gives no queue of events: {error}"))?;
        Ok(Watch {
            events: Arc::new(events),
            mounts,
            folders: BTreeMap::new(),
            paths: HashMap::new(),
            doubt: true,
            twice: false,
            touched: Touched::default(),
            taken: Touched::default(),
            doubtful: BTreeSet::new(),
            linked: BTreeSet::new(),
            taking: Taking::Nothing,
        })
    }

    /// Where the next scan of a turn is to look; none: everywhere. `walk`: it looks everywhere anyhow.
    pub fn next(&mut self, index: &Index, walk: bool) -> Option<Touched> {
        let untaken = std::mem::take(&mut self.taken);
        self.touched.paths.extend(untaken.paths);
        self.touched.folders.extend(untaken.folders);
        self.drain();
        self.doubt |= self.has_mounted();
        self.taking = Taking::All;
        self.taken = std::mem::take(&mut self.touched);
        if walk || self.doubt {
            return None;
        }
        let mut touched = self.taken.clone();
        self.doubtful
            .retain(|path| match index.find(path).map(|node| index.entry(node)) {
                Some(entry) if needs_look(entry) => {
                    if is_plain_folder(entry) {
                        touched.folders.insert(path.clone());
                    } else {
                        touched.paths.insert(path.clone());
                    }
                    true
                }
                _ => false,
            });
        touched.paths.extend(self.linked.iter().cloned());
        touched.reduce();
        let count = touched.paths.len() + touched.folders.len();
        if touched.paths.contains(&b""[..]) || (count > FEW && count as u64 * WALK_SHARE > index.known()) {
            return None;
        }
        self.taking = Taking::Touched;
        Some(touched)
    }

    /// A scan that looks at named paths only takes no event.
    pub fn leave(&mut self) {
        self.taking = Taking::Nothing;
    }

    fn drain(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
        let mut reader = inotify::Reader::new(self.events.clone(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => self.take(event.wd(), event.events(), event.file_name()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.doubt = true;
                    return;
                }
            }
        }
    }

    fn take(&mut self, wd: i32, events: ReadFlags, name: Option<&CStr>) {
        if events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
            self.doubt = true;
        }
        if events.contains(ReadFlags::IGNORED) {
            self.forget(wd);
            return;
        }
        // A watch that was taken away: the look that its folder needs is known by the event that took it.
        let Some(folder) = self.paths.get(&wd) else {
            return;
        };
        let Some(name) = name else {
            self.doubt |= folder.is_empty() && events.contains(ReadFlags::MOVE_SELF);
            if events.contains(ReadFlags::ATTRIB) {
                self.touched.folders.insert(folder.clone());
            }
            return;
        };
        let path = join(folder, name.to_bytes());
        if events.contains(ReadFlags::ISDIR) {
            if events.contains(ReadFlags::ATTRIB) && self.folders.contains_key(&path) {
                self.touched.folders.insert(path);
                return;
            }
            if events.contains(ReadFlags::MOVED_FROM) {
                self.forget_below(&path);
            }
        }
        self.touched.paths.insert(path);
    }

    fn forget(&mut self, wd: i32) {
        if let Some(path) = self.paths.remove(&wd)
            && self.folders.get(&path).is_some_and(|(armed, _)| *armed == wd)
        {
            self.folders.remove(&path);
        }
    }

    /// A folder left its path: its watches go by names that are wrong from here on.
    fn forget_below(&mut self, path: &[u8]) {
        let below = join(path, b"");
        let inner = self
            .folders
            .range(below.clone()..)
            .take_while(|(p, _)| p.starts_with(&below));
        let own = self.folders.get(path).into_iter();
        let gone: Vec<i32> = own
            .chain(inner.map(|(_, armed)| armed))
            .map(|(wd, _)| *wd)
            .collect();
        for wd in gone {
            self.forget(wd);
            // One that the kernel dropped before is none to take away.
            inotify::remove_watch(self.events.as_ref(), wd).ok();
        }
    }

    fn has_mounted(&self) -> bool {
        let mut fds = [PollFd::new(&self.mounts, PollFlags::PRI)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(0) => false,
            Ok(_) => fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR),
            Err(_) => true,
        }
    }

    /// The folder that stands at a path has a watch.
    pub fn is_armed(&self, path: &[u8], stat: &StatKey) -> bool {
        self.folders.get(path).is_some_and(|(_, ino)| *ino == stat.ino)
    }

    /// Puts a watch on an open folder: on that, whatever stands at its path by now.
    pub fn arm(&self, folder: BorrowedFd<'_>) -> Result<i32, Errno> {
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        inotify::add_watch(self.events.as_ref(), path, WATCHED)
    }

    /// Files with several names, of which `paths` are some, are known all.
    pub fn knows_links(&self, paths: &[RelPath]) -> bool {
        paths.iter().all(|path| self.linked.contains(path))
    }

    /// Takes in what a scan did; `walked`: it looked everywhere, whatever it was to look at.
    pub fn armed(&mut self, armed: Vec<Armed>, linked: Vec<RelPath>, walked: bool) {
        let mut stale = Vec::new();
        for Armed { path, wd, ino } in armed {
            if let Some(old) = self.paths.insert(wd, path.clone())
                && old != path
                && self.folders.get(&old).is_some_and(|(armed, _)| *armed == wd)
            {
                self.folders.remove(&old);
                self.twice = true;
            }
            if let Some((old, _)) = self.folders.insert(path, (wd, ino))
                && old != wd
            {
                stale.push(old);
            }
        }
        for wd in stale {
            // Its folder may stand elsewhere by now, under the same watch.
            let used = self.paths.get(&wd).and_then(|path| self.folders.get(path));
            if used.is_none_or(|(armed, _)| *armed != wd) {
                self.paths.remove(&wd);
                inotify::remove_watch(self.events.as_ref(), wd).ok();
            }
        }
        if walked {
            self.taking = Taking::All;
        } else if self.taking == Taking::Touched {
            self.linked.clear();
        }
        self.linked.extend(linked);
    }

    /// The set of the newest scan is in the index.
    pub fn committed(&mut self, index: &Index, steps: &[Step], unsettled: Vec<RelPath>) {
        for step in steps {
            if let Step::Put { path, entry, .. } = step
                && needs_look(entry)
            {
                self.doubtful.insert(path.clone());
            }
        }
        let taking = std::mem::replace(&mut self.taking, Taking::Nothing);
        if taking == Taking::Nothing {
            return;
        }
        self.taken = Touched::default();
        self.touched.paths.extend(unsettled);
        if taking == Taking::All && std::mem::take(&mut self.doubt) {
            self.doubtful = index.paths_where(needs_look).into_iter().collect();
        }
        self.doubt |= std::mem::take(&mut self.twice);
    }

    /// Somebody else looked at this path.
    pub fn touch(&mut self, path: &RelPath) {
        self.touched.paths.insert(path.clone());
    }

    /// The index or its rules were replaced.
    pub fn lose(&mut self) {
        self.doubt = true;
    }
}

impl Touched {
    /// Leaves out what lies below a path that is looked at with all below it.
    fn reduce(&mut self) {
        let all = self.paths.clone();
        let covered = |path: &RelPath| {
            let mut above = path.as_slice();
            while !above.is_empty() {
                above = parent_of(above);
                if all.contains(above) {
                    return true;
                }
            }
            false
        };
        self.paths.retain(|path| !covered(path));
        self.folders.retain(|path| !all.contains(path) && !covered(path));
    }
}

/// What must be looked at again although nothing told of it.
fn needs_look(entry: &Entry) -> bool {
    let unsettled = matches!(
        entry.reason(),
        Some(Reason::Unstable | Reason::OutOfTime | Reason::Mount | Reason::Unreadable)
    );
    unsettled || entry.has(flag::UNTRUSTED | flag::WRITERS | flag::NOT_WHOLE)
}

/// A folder whose names are known: a look at it by itself tells all of it.
pub fn is_plain_folder(entry: &Entry) -> bool {
    entry.kind == kind::DIR && entry.stat.ino != 0 && !entry.has(flag::NOT_WHOLE)
}

/// Paths of a set that are to be looked at again: what could not be looked at, and files that nobody read.
pub fn unsettled<'a>(problems: &'a [Problem], suspects: impl Iterator<Item = &'a RelPath>) -> Vec<RelPath> {
    let paths = problems.iter().map(|problem| &problem.path);
    paths
        .filter(|path| !path.is_empty())
        .chain(suspects)
        .cloned()
        .collect()
}
