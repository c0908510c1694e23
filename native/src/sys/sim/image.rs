//! What a disk may hold after a power cut: a start, and of what was done since then all that was synced, and any part of
//! the rest.
//!
//! Two kinds of file system. A journal that commits names in their order (ext4, xfs): the rest is a beginning of them.
//! Loose: any of them, but that none comes without those before it that touched the same name. In both, the bytes of a
//! file that wasn't synced come apart from its name: none of them, zeros, a beginning, or all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::effect::{Effect, Ino, Kind, Place};

#[derive(Debug, Clone)]
enum Node {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Folder {
        names: BTreeMap<Vec<u8>, Ino>,
        mode: u32,
    },
    Link(Vec<u8>),
}

/// A tree by its inodes.
#[derive(Debug, Clone)]
pub struct Disk {
    root: Ino,
    nodes: HashMap<Ino, Node>,
}

/// How names reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Kept,
    Loose,
}

/// Numbers from one seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    fn coin(&mut self) -> bool {
        self.roll() & 1 == 0
    }
}

impl Disk {
    /// What is at `base` and below it.
    pub fn of(base: &Path) -> Self {
        let mut nodes = HashMap::new();
        let root = take_in(base, &mut nodes);
        Disk { root, nodes }
    }

    /// What a power cut behind the last of `log` may leave.
    pub fn after_cut(&self, log: &[Effect], order: Order, dice: &mut Dice) -> Disk {
        let kept = kept_names(log, order, dice);
        let mut disk = self.clone();
        for (effect, kept) in log.iter().zip(kept) {
            disk.names(effect, kept);
        }
        disk.bytes(log, dice);
        disk
    }

    /// Names and modes. What isn't kept still has an inode, to which a later name may lead.
    fn names(&mut self, effect: &Effect, kept: bool) {
        if let Effect::Made { ino, kind, .. } = effect {
            self.nodes.entry(*ino).or_insert_with(|| match kind {
                Kind::File(mode) => Node::File {
                    bytes: Vec::new(),
                    mode: *mode,
                },
                Kind::Folder(mode) => Node::Folder {
                    names: BTreeMap::new(),
                    mode: *mode,
                },
                Kind::Link(target) => Node::Link(target.clone()),
            });
        }
        if !kept {
            return;
        }
        match effect {
            Effect::Made { at, ino, .. } => self.set(at, Some(*ino)),
            Effect::Unlinked { at, .. } => self.set(at, None),
            Effect::Renamed { from, to, swap } => {
                let (moved, other) = (self.get(from), self.get(to));
                self.set(to, moved);
                self.set(from, other.filter(|_| *swap));
            }
            Effect::Mode { ino, mode: new } => {
                if let Some(Node::File { mode, .. } | Node::Folder { mode, .. }) = self.nodes.get_mut(ino) {
                    *mode = *new;
                }
            }
            _ => {}
        }
    }

    fn get(&self, (folder, name): &Place) -> Option<Ino> {
        match self.nodes.get(folder) {
            Some(Node::Folder { names, .. }) => names.get(name).copied(),
            _ => None,
        }
    }

    fn set(&mut self, (folder, name): &Place, ino: Option<Ino>) {
        if let Some(Node::Folder { names, .. }) = self.nodes.get_mut(folder) {
            match ino {
                Some(ino) => names.insert(name.clone(), ino),
                None => names.remove(name),
            };
        }
    }

    /// File by file: what was synced, and of the rest a part.
    fn bytes(&mut self, log: &[Effect], dice: &mut Dice) {
        let mut synced_to: BTreeMap<Ino, usize> = BTreeMap::new();
        let mut writes: BTreeMap<Ino, Vec<usize>> = BTreeMap::new();
        for (at, effect) in log.iter().enumerate() {
            match effect {
                Effect::Wrote { ino, .. } | Effect::Cut { ino, .. } => {
                    writes.entry(*ino).or_default().push(at)
                }
                Effect::Synced { ino } => synced_to.extend([(*ino, at)]),
                Effect::SyncAll => synced_to.extend(writes.keys().map(|ino| (*ino, at))),
                _ => {}
            }
        }
        for (ino, writes) in writes {
            let Some(Node::File { bytes, .. }) = self.nodes.get_mut(&ino) else {
                continue;
            };
            let until = synced_to.get(&ino).copied().unwrap_or(0);
            let sure = writes.iter().filter(|at| **at < until).count();
            let (part, zeros) = match dice.below(4) {
                0 => (sure, false),
                1 => (writes.len(), true),
                2 => (sure + dice.below(writes.len() - sure + 1), false),
                _ => (writes.len(), false),
            };
            for (number, at) in writes[..part].iter().enumerate() {
                write_to(bytes, &log[*at], zeros && number >= sure);
            }
        }
    }

    /// Makes the tree below `base`, an empty folder. Answers which number each new inode had before.
    pub fn lay_out(&self, base: &Path) -> HashMap<Ino, Ino> {
        let mut new = HashMap::new();
        self.lay_out_one(self.root, base, &mut new);
        let number = |path: &PathBuf| path.symlink_metadata().unwrap().ino();
        new.iter().map(|(was, path)| (number(path), *was)).collect()
    }

    fn lay_out_one(&self, ino: Ino, path: &Path, new: &mut HashMap<Ino, PathBuf>) {
        if let Some(first) = new.get(&ino) {
            fs::hard_link(first, path).unwrap();
            return;
        }
        match &self.nodes[&ino] {
            Node::File { bytes, mode } => {
                fs::write(path, bytes).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            Node::Link(target) => {
                std::os::unix::fs::symlink(OsStr::from_bytes(target), path).unwrap();
            }
            Node::Folder { names, mode } => {
                if !path.exists() {
                    fs::create_dir(path).unwrap();
                }
                for (name, child) in names {
                    self.lay_out_one(*child, &path.join(OsStr::from_bytes(name)), new);
                }
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
        new.insert(ino, path.to_path_buf());
    }
}

fn take_in(path: &Path, nodes: &mut HashMap<Ino, Node>) -> Ino {
    let meta = path.symlink_metadata().unwrap();
    let mode = meta.mode() & 0o777;
    let node = if meta.is_dir() {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let names = names.map(|entry| (entry.file_name().into_vec(), take_in(&entry.path(), nodes)));
        Node::Folder {
            names: names.collect(),
            mode,
        }
    } else if meta.is_symlink() {
        Node::Link(fs::read_link(path).unwrap().into_os_string().into_vec())
    } else {
        Node::File {
            bytes: fs::read(path).unwrap(),
            mode,
        }
    };
    nodes.insert(meta.ino(), node);
    meta.ino()
}

fn write_to(file: &mut Vec<u8>, effect: &Effect, zeros: bool) {
    match effect {
        Effect::Wrote { at, bytes, .. } => {
            let (from, end) = (*at as usize, *at as usize + bytes.len());
            let known = file.len();
            file.resize(known.max(end), 0);
            match zeros {
                // Room that is there, and blocks that never were written.
                true => file[from.max(known.min(end))..end].fill(0),
                false => file[from..end].copy_from_slice(bytes),
            }
        }
        Effect::Cut { length, .. } => file.resize(*length as usize, 0),
        _ => {}
    }
}

/// What an effect touches: names, a folder as a whole, or an inode's mode.
fn touched(effect: &Effect) -> Vec<Place> {
    match effect {
        Effect::Made { at, .. } => vec![at.clone()],
        Effect::Renamed { from, to, .. } => vec![from.clone(), to.clone()],
        Effect::Unlinked { at, .. } => vec![at.clone()],
        Effect::Mode { ino, .. } => vec![(*ino, Vec::new())],
        _ => Vec::new(),
    }
}

/// A folder goes only with all that left it before, and holds something only where it was made.
fn depends(later: &Effect, earlier: &Effect) -> bool {
    let places = touched(earlier);
    if let Effect::Made { ino, .. } = earlier
        && touched(later).iter().any(|place| place.0 == *ino)
    {
        return true;
    }
    let emptied = |place: &Place| matches!(later, Effect::Unlinked { ino, .. } if place.0 == *ino);
    touched(later).iter().any(|place| places.contains(place)) || places.iter().any(emptied)
}

/// Which effects on names are on the disk.
fn kept_names(log: &[Effect], order: Order, dice: &mut Dice) -> Vec<bool> {
    let mut kept = vec![false; log.len()];
    for (at, effect) in log.iter().enumerate() {
        match effect {
            Effect::SyncAll => kept[..at].fill(true),
            // A journal commits all that came before.
            Effect::Synced { .. } if order == Order::Kept => kept[..at].fill(true),
            Effect::Synced { ino } => {
                for earlier in 0..at {
                    kept[earlier] |= touched(&log[earlier]).iter().any(|place| place.0 == *ino);
                }
            }
            _ => {}
        }
    }
    if order == Order::Kept {
        let sure = kept.iter().rposition(|kept| *kept).map_or(0, |last| last + 1);
        let end = sure + dice.below(log.len() - sure + 1);
        return (0..log.len()).map(|at| at < end).collect();
    }
    for later in (0..log.len()).rev() {
        for earlier in 0..later {
            kept[earlier] |= kept[later] && depends(&log[later], &log[earlier]);
        }
    }
    let mut lost: BTreeSet<usize> = BTreeSet::new();
    for at in 0..log.len() {
        let without = |earlier: &usize| depends(&log[at], &log[*earlier]);
        kept[at] |= !lost.iter().any(without) && dice.coin();
        if !kept[at] {
            lost.insert(at);
        }
    }
    kept
}
