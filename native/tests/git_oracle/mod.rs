//! git as the oracle: a home, a repository, and the same names listed by git and by a tree.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use takeback_native::ingest;
use takeback_native::rules::{RepoSource, Sources};
use takeback_native::scan::{Limits, Request};
use takeback_native::segment::SegmentStore;
use takeback_native::task::Work;
use takeback_native::tree::{Options, Tree};
use takeback_native::wire::Position;

/// A repository below a home of its own, and the root that is guarded in it.
pub struct Case {
    pub home: tempfile::TempDir,
    pub top: PathBuf,
    pub root: PathBuf,
    pub sources: Sources,
}

pub fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The repository whose top, `.git` folder and common folder are these.
pub fn repo_source(top: &Path, git: &Path, common: &Path) -> RepoSource {
    RepoSource {
        top: bytes(top),
        git_dir: bytes(git),
        common_dir: bytes(common),
    }
}

pub fn git(case: &Case, cwd: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
        .env("HOME", case.home.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(cwd);
    command
}

pub fn gits(case: &Case, cwd: &Path) -> BTreeSet<Vec<u8>> {
    let output = git(case, cwd)
        .args(["ls-files", "-z", "-o", "-c", "--exclude-standard"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
        .stdout
        .split(|b| *b == 0)
        .filter(|path| !path.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

pub fn open(case: &Case, data: &Path) -> Tree {
    let store = Arc::new(SegmentStore::open(&data.join("segments"), 1).unwrap());
    let limits = Limits {
        skip: vec![],
        max_file_bytes: 1 << 20,
        max_entries: 100_000,
        scratch: data.to_owned(),
        threads: 2,
    };
    let options = Options {
        root: case.root.clone(),
        index_file: data.join("index"),
        store_id: [1; 16],
        limits,
    };
    Tree::open(options, store).unwrap()
}

/// Names that the tree covers, folders left out; none where a rule above hides the root.
pub fn ours(case: &Case, tree: &mut Tree) -> Option<BTreeSet<Vec<u8>>> {
    let request = Request {
        renew: Some(case.sources.clone()),
        ..Request::default()
    };
    let scanned = tree.scan(request, &Work::default()).unwrap();
    if !scanned.problems.is_empty() {
        return None;
    }
    let hash_only = ingest::Request {
        hash_only: true,
        ..ingest::Request::default()
    };
    tree.ingest(scanned.set, &hash_only, &Work::default()).unwrap();
    tree.commit(
        scanned.set,
        Position {
            seq: 1,
            observation: [1; 16],
        },
    )
    .unwrap();
    let is_folder = |path: &[u8]| {
        case.root
            .join(std::ffi::OsStr::from_bytes(path))
            .symlink_metadata()
            .unwrap()
            .is_dir()
    };
    let uncovered = |tree: &Tree, path: &Vec<u8>| {
        matches!(
            tree.versions(std::slice::from_ref(path))[0],
            takeback_native::wire::Version::Uncovered { .. }
        )
    };
    let listed = tree.list(b"");
    Some(
        listed
            .into_iter()
            .filter(|path| !is_folder(path) && !uncovered(tree, path))
            .collect(),
    )
}

pub fn has_git() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: there is no git to compare with");
    }
    there
}
