//! A root, a store and a data directory for tests, removed when dropped.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{ApplyEntry, ApplyRequest, Hands, HandsOptions, Outcome, Status, apply};
use crate::journal::Durability;
use crate::path::Resolver;
use crate::path::look::look;
use crate::recover::{Mode, RecoverRequest, Recovered, finish, recover};
use crate::segment::SegmentStore;
use crate::task::Work;
use crate::trash::{Trash, empty};
use crate::wire::{Id, Version};

pub struct Kit {
    pub base: PathBuf,
    pub hands: Hands,
    pub store: Arc<SegmentStore>,
    pub trash: PathBuf,
    operations: AtomicU8,
    _dir: Option<tempfile::TempDir>,
}

impl Default for Kit {
    fn default() -> Self {
        Kit::new()
    }
}

impl Kit {
    pub fn new() -> Self {
        Kit::with(Resolver::Auto)
    }

    /// In memory where the machine has such a folder: for tests whose many syncs would only cost time.
    pub fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Kit::in_dir(dir.unwrap(), Resolver::Auto)
    }

    pub fn with(resolver: Resolver) -> Self {
        Kit::in_dir(tempfile::tempdir().unwrap(), resolver)
    }

    fn in_dir(dir: tempfile::TempDir, resolver: Resolver) -> Self {
        let base = dir.path().to_path_buf();
        for name in ["root", "scratch", "journal", "trash"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let mut kit = Kit::at(&base, resolver);
        kit._dir = Some(dir);
        kit
    }

    /// Opens what is at `base` anew, as another process would.
    pub fn at(base: &Path, resolver: Resolver) -> Self {
        let store = Arc::new(SegmentStore::open(&base.join("segments"), 7).unwrap());
        let options = HandsOptions {
            root: base.join("root"),
            scratch: base.join("scratch"),
            max_file_bytes: 1 << 20,
            resolver,
        };
        let hands = Hands::open(store.clone(), options).unwrap();
        Kit {
            base: base.to_path_buf(),
            hands,
            store,
            trash: base.join("trash"),
            operations: AtomicU8::new(1),
            _dir: None,
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.base.join("root").join(path)
    }

    pub fn write(&self, path: &str, bytes: &str) {
        std::fs::write(self.path(path), bytes).unwrap();
        self.chmod(path, 0o644);
    }

    pub fn chmod(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn mkdir(&self, path: &str) {
        std::fs::create_dir(self.path(path)).unwrap();
        self.chmod(path, 0o755);
    }

    pub fn symlink(&self, target: &str, path: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    pub fn mode(&self, path: &str) -> u32 {
        self.path(path).symlink_metadata().unwrap().mode() & 0o7777
    }

    /// A stored file version.
    pub fn file(&self, bytes: &str, mode: u32) -> Version {
        let content = self.store.put(bytes.as_bytes()).unwrap().hash;
        let size = bytes.len() as u64;
        Version::File { mode, size, content }
    }

    pub fn text(&self, bytes: &str) -> Version {
        self.file(bytes, 0o644)
    }

    /// What is at a path.
    pub fn now(&self, path: &str) -> Version {
        use std::os::fd::AsFd;
        let parent = self.hands.root.parent(path.as_bytes()).unwrap();
        let name = crate::path::names::split(path.as_bytes()).1;
        look(parent.dir.as_fd(), name, &self.store).unwrap().version
    }

    pub fn journal(&self) -> PathBuf {
        self.base.join("journal/op.journal")
    }

    pub fn request(&self, entries: Vec<ApplyEntry>) -> ApplyRequest {
        ApplyRequest {
            operation: self.operation(),
            journal: self.journal(),
            trash: self.trash.clone(),
            durability: Durability::Fast,
            entries,
        }
    }

    fn operation(&self) -> Id {
        [self.operations.fetch_add(1, Ordering::Relaxed); 16]
    }

    /// Applies and leaves the journal, as a process that dies before its commit.
    pub fn begin(&self, entries: Vec<ApplyEntry>) -> Vec<Outcome> {
        apply(&self.hands, self.request(entries), &Work::default()).unwrap()
    }

    pub fn apply(&self, entries: Vec<ApplyEntry>) -> Vec<Outcome> {
        let outcomes = self.begin(entries);
        finish(&self.hands, &self.journal()).unwrap();
        assert!(!self.journal().exists(), "finish removes the journal");
        self.assert_no_temps();
        outcomes
    }

    pub fn one(&self, path: &str, expect: Version, target: Version) -> Outcome {
        self.apply(vec![entry(path, expect, target)]).remove(0)
    }

    pub fn recover(&self, mode: Mode) -> Recovered {
        let request = RecoverRequest {
            journal: self.journal(),
            trash: self.trash.clone(),
            mode,
        };
        recover(&self.hands, &request, &Work::default()).unwrap()
    }

    pub fn empty_trash(&self) -> empty::Emptied {
        let trash = Trash::open(&self.hands.root, &self.trash).unwrap();
        empty::empty(&trash, &self.store, &Work::default()).unwrap()
    }

    /// Bytes of every file in the trash.
    pub fn trashed(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.trash).unwrap();
        let paths = names
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_none() && p.is_file());
        let mut out: Vec<String> = paths.map(|p| std::fs::read_to_string(p).unwrap()).collect();
        out.sort();
        out
    }

    /// Every path below the root with what it is, sorted.
    pub fn tree(&self) -> Vec<(String, Version)> {
        let mut out = Vec::new();
        self.tree_below("", &mut out);
        out.sort_by(|a, b| a.0.cmp(&b.0));
        out
    }

    fn tree_below(&self, folder: &str, out: &mut Vec<(String, Version)>) {
        for entry in std::fs::read_dir(self.path(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            let version = self.now(&path);
            if let Version::Dir { .. } = version {
                self.tree_below(&path, out);
            }
            out.push((path, version));
        }
    }

    pub fn assert_no_temps(&self) {
        let temps: Vec<_> = self
            .tree()
            .into_iter()
            .filter(|(path, _)| path.contains(".takeback-"))
            .collect();
        assert_eq!(temps, [], "no temp file is left");
    }
}

pub fn entry(path: &str, expect: Version, target: Version) -> ApplyEntry {
    ApplyEntry {
        path: path.as_bytes().to_vec(),
        expect,
        target,
        force: false,
    }
}

pub fn dir(mode: u32) -> Version {
    Version::Dir { mode }
}

pub fn link(target: &str) -> Version {
    Version::Symlink {
        target: target.as_bytes().to_vec(),
    }
}

pub fn told(outcome: &Outcome) -> (Status, &'static str) {
    (outcome.status, outcome.reason)
}
