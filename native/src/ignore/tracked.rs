//! What a repository tracks, as its index says: read only, and only once a rule matches a name.
//!
//! gix-index reads v2 to v4, split and sha256 indexes. Sparse folders count as tracked paths. Knows no rule.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bstr::ByteSlice;
use gix_index::entry;

/// Identity of an index file: it is rewritten by rename, so these tell two apart.
pub type GitKey = Option<(u64, u64, i64, i64)>;

/// A repository in or around the tree.
#[derive(Debug)]
pub struct Repo {
    /// Bytes of a full path (relative to the top of the root's repository) that the repository's own top takes.
    pub base: usize,
    /// Its `.git` folder, or none: no repository, or one whose tracked files come from a snapshot.
    dirs: Option<GitDirs>,
    index: OnceLock<Result<gix_index::File, String>>,
}

/// Where a repository keeps its things; for a linked worktree the two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDirs {
    pub git: PathBuf,
    pub common: PathBuf,
}

impl Repo {
    pub fn new(base: usize, dirs: Option<GitDirs>) -> Self {
        Repo {
            base,
            dirs,
            index: OnceLock::new(),
        }
    }

    /// None where there is no index.
    pub fn key(&self) -> GitKey {
        let meta = fs::metadata(self.dirs.as_ref()?.git.join("index")).ok()?;
        Some((
            meta.ino(),
            meta.size(),
            meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
            meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
        ))
    }

    /// Whether the index has `path` (a full path), or for a folder something below it.
    ///
    /// An index that can't be read is an error: the caller keeps the verdict that it has.
    pub fn tracks(&self, path: &[u8], is_dir: bool) -> Result<bool, String> {
        let Some(dirs) = &self.dirs else { return Ok(false) };
        let index = self.index.get_or_init(|| read_index(dirs));
        let index = index.as_ref().map_err(Clone::clone)?;
        let path = &path[self.base..];
        if !is_dir {
            return Ok(index.entry_index_by_path(path.as_bstr()).is_ok());
        }
        if self.is_submodule_in(index, path) {
            return Ok(true);
        }
        let mut prefix = path.to_vec();
        prefix.push(b'/');
        Ok(index
            .prefixed_entries_range(prefix.as_bstr())
            .is_some_and(|range| !range.is_empty()))
    }

    /// Whether the index has `path` as a submodule.
    pub fn has_submodule(&self, path: &[u8]) -> bool {
        match self
            .dirs
            .as_ref()
            .map(|dirs| self.index.get_or_init(|| read_index(dirs)))
        {
            Some(Ok(index)) => self.is_submodule_in(index, &path[self.base..]),
            _ => false,
        }
    }

    fn is_submodule_in(&self, index: &gix_index::File, path: &[u8]) -> bool {
        index
            .entry_by_path(path.as_bstr())
            .is_some_and(|found| found.mode == entry::Mode::COMMIT)
    }
}

fn read_index(dirs: &GitDirs) -> Result<gix_index::File, String> {
    let path = dirs.git.join("index");
    let kind = object_format(&dirs.common);
    let options = gix_index::decode::Options {
        thread_limit: Some(1),
        ..Default::default()
    };
    // The decoder has been seen to trust what it reads; a damaged index must not take the scan down.
    let read = std::panic::catch_unwind(|| gix_index::File::at_or_default(&path, kind, false, options));
    match read {
        Ok(Ok(index)) => Ok(index),
        Ok(Err(error)) => Err(format!("git's index {} can't be read: {error}", path.display())),
        Err(_) => Err(format!("git's index {} is damaged", path.display())),
    }
}

/// What ids are made with in a repository.
pub fn object_format(common_dir: &Path) -> gix_hash::Kind {
    match fs::read(common_dir.join("config")) {
        Ok(config) if names_sha256(&config) => gix_hash::Kind::Sha256,
        _ => gix_hash::Kind::Sha1,
    }
}

/// `extensions.objectFormat = sha256`, read without a config parser: the key stands nowhere else.
fn names_sha256(config: &[u8]) -> bool {
    config.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        let Some((key, value)) = line.split_once_str("=") else {
            return false;
        };
        key.trim() == b"objectformat" && value.trim() == b"sha256"
    })
}

/// The repository whose top is the folder `top`, if its `.git` is one that git would take.
pub fn repository_at(top: &Path) -> Option<GitDirs> {
    let dot_git = top.join(".git");
    let meta = fs::symlink_metadata(&dot_git).ok()?;
    let git = if meta.is_file() {
        let text = fs::read(&dot_git).ok()?;
        let target = text
            .strip_prefix(b"gitdir: ")?
            .trim_end_with(|c| c == '\n' || c == '\r');
        top.join(std::ffi::OsStr::from_bytes(target))
    } else {
        dot_git
    };
    let common = match fs::read(git.join("commondir")) {
        Ok(text) => git.join(std::ffi::OsStr::from_bytes(
            text.trim_end_with(|c| c == '\n' || c == '\r'),
        )),
        Err(_) => git.clone(),
    };
    let whole = fs::symlink_metadata(git.join("HEAD")).is_ok()
        && common.join("objects").is_dir()
        && common.join("refs").is_dir();
    whole.then_some(GitDirs { git, common })
}
