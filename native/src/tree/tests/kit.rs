//! A root, a store and a tree over them, and short names for what tests do with them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ingest;
use crate::rules::{RepoSource, Sources};
use crate::scan::{Limits, Request};
use crate::segment::SegmentStore;
use crate::task::Work;
use crate::tree::{Options, Scanned, Tree};
use crate::wire::{Change, Position, Version};

pub struct Kit {
    pub folder: tempfile::TempDir,
    pub root: PathBuf,
    pub tree: Tree,
    pub sources: Sources,
    pub store: Arc<SegmentStore>,
    seq: u64,
}

pub fn open(folder: &std::path::Path, store: &Arc<SegmentStore>, change: impl FnOnce(&mut Limits)) -> Tree {
    let mut limits = Limits {
        skip: vec![b".takeback".to_vec()],
        max_file_bytes: 1000,
        max_entries: 10_000,
        scratch: folder.join("data"),
        clock: None,
        threads: 2,
    };
    change(&mut limits);
    let options = Options {
        root: folder.join("root"),
        index_file: folder.join("data/index"),
        store_id: [1; 16],
        limits,
    };
    Tree::open(options, store.clone()).unwrap()
}

impl Kit {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(folder.path().join("data")).unwrap();
        let store = Arc::new(SegmentStore::open(&folder.path().join("data/segments"), 5).unwrap());
        let tree = open(folder.path(), &store, |_| ());
        Kit {
            folder,
            root,
            tree,
            sources: Sources::default(),
            store,
            seq: 0,
        }
    }

    /// Says that the root is the top of a repository; `.git` is what a test put there.
    pub fn in_repository(mut self) -> Self {
        let git = self.root.join(".git");
        for part in ["objects", "refs", "info"] {
            fs::create_dir_all(git.join(part)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let bytes = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
        self.sources.repo = Some(RepoSource {
            top: bytes(&self.root),
            git_dir: bytes(&git),
            common_dir: bytes(&git),
        });
        self
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        let path = self.root.join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    pub fn hash(&self, text: &str) -> [u8; 16] {
        self.store.hash(text.as_bytes())
    }

    pub fn scan(&mut self, request: Request) -> Scanned {
        self.tree.scan(request, &Work::default()).unwrap()
    }

    pub fn commit(&mut self, set: u32) {
        self.seq += 1;
        let at = Position {
            seq: self.seq,
            observation: [self.seq as u8; 16],
        };
        self.tree.commit(set, at).unwrap();
    }

    /// Scan, ingest, commit: an observation. Answers its changes.
    pub fn observe_with(&mut self, request: Request) -> Vec<Change> {
        let set = self.take_in(request);
        let changes = self.tree.changes(set).unwrap();
        self.commit(set);
        changes
    }

    /// Scan and ingest.
    pub fn take_in(&mut self, request: Request) -> u32 {
        let scanned = self.scan(request);
        self.tree
            .ingest(scanned.set, &ingest::Request::default(), &Work::default())
            .unwrap();
        scanned.set
    }

    pub fn boundary_request(&self) -> Request {
        Request {
            renew: Some(self.sources.clone()),
            ..Request::default()
        }
    }

    /// An observation that renews the rules.
    pub fn boundary(&mut self) -> Vec<String> {
        let request = self.boundary_request();
        shown(&self.observe_with(request))
    }

    /// An observation within a turn.
    pub fn observe(&mut self) -> Vec<String> {
        shown(&self.observe_with(Request::default()))
    }

    /// Observes until every stat key is older than the clock's tick, as some time after a change.
    pub fn settle(&mut self) {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.scan(Request::default()).suspects > 0 || self.reads_folders() {
            self.observe();
            assert!(Instant::now() < limit, "stat keys come to be trusted");
        }
    }

    fn reads_folders(&mut self) -> bool {
        self.scan(Request::default()).counters.dirs_read > 0
    }

    pub fn list(&self) -> Vec<String> {
        self.tree
            .list(b"")
            .into_iter()
            .map(|path| String::from_utf8_lossy(&path).into_owned())
            .collect()
    }

    pub fn uncovered(&mut self) -> Vec<String> {
        let set = self.take_in(Request::default());
        let paths = self.tree.uncovered(set).unwrap();
        let show = |(path, reason): &(Vec<u8>, Option<crate::wire::Reason>)| {
            let reason = reason.map_or("special".into(), |reason| format!("{reason:?}"));
            format!("{} {reason}", String::from_utf8_lossy(path))
        };
        paths.iter().map(show).collect()
    }
}

/// One word for a version.
pub fn word(version: &Version) -> String {
    match version {
        Version::Absent => "absent".into(),
        Version::File { mode, size, .. } => format!("file {mode:o} {size}"),
        Version::Symlink { target } => format!("-> {}", String::from_utf8_lossy(target)),
        Version::Dir { mode } => format!("dir {mode:o}"),
        Version::Special { kind, .. } => format!("{kind:?}"),
        Version::Uncovered { reason, .. } => format!("({reason:?})"),
    }
}

/// `path: before => after [flags]`, one line a change.
pub fn shown(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| {
            let flags = if change.flags == 0 {
                String::new()
            } else {
                format!(" [{}]", change.flags)
            };
            let path = String::from_utf8_lossy(&change.path);
            format!(
                "{path}: {} => {}{flags}",
                word(&change.before),
                word(&change.after)
            )
        })
        .collect()
}
