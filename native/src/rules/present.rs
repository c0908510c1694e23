//! The rules that are on disk now.
//!
//! A boundary's scan passes each folder that it enters ([`Present::enter`]), and what was read on the way is the next
//! snapshot. Within a turn nothing is read before a new name needs it ([`Present::judge`]).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::base::{Base, Context, Inside, Look, Verdict};
use super::files::{Content, read_ignore, read_path};
use super::{Snapshot, Source, Sources, info_key, top_key, unreadable};
use crate::ignore::names::{join, parent_of};
use crate::ignore::{Frame, GitDirs, GitKey, Repo, repository_at};
use crate::scan::sys::open_dir_beneath;
use crate::wire::{Problem, ProblemKind};

/// Reads rule files as they are asked for, and remembers what it read.
pub struct Present {
    pub base: Base,
    root: PathBuf,
    root_fd: Arc<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    problems: Vec<Problem>,
    contexts: HashMap<Vec<u8>, Context>,
    /// Index identities of the repositories met, by path relative to the root.
    keys: BTreeMap<Vec<u8>, GitKey>,
}

/// What a folder adds.
pub struct Entered {
    pub frame: Arc<Frame>,
    /// A repository of its own starts here.
    pub nested: bool,
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

impl Present {
    /// Reads what lies outside the root.
    pub fn new(sources: Sources, root: &Path, root_fd: Arc<OwnedFd>) -> Self {
        let mut state = State::default();
        state.entries.insert(b"sources".to_vec(), sources.to_json());
        if let Some(path) = &sources.global_excludes {
            state.take(b"global".to_vec(), b"", read_path(&path_of(path)));
        }
        let mut dirs = None;
        if let Some(repo) = &sources.repo {
            let common = path_of(&repo.common_dir);
            state.take(b"info".to_vec(), b"", read_path(&common.join("info/exclude")));
            above_root(&mut state, repo.top.as_slice(), root.as_os_str().as_bytes());
            dirs = Some(GitDirs {
                git: path_of(&repo.git_dir),
                common,
            });
        }
        let read = Snapshot {
            entries: state.entries.clone(),
        };
        let base = Base::new(sources, root.as_os_str().as_bytes(), &read, Repo::new(0, dirs));
        state.keys.insert(Vec::new(), base.above.repo.key());
        Present {
            base,
            root: root.to_owned(),
            root_fd,
            state: Mutex::new(state),
        }
    }

    pub fn root_path(&self) -> &Path {
        &self.root
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stack that holds in a folder, given its parent's; `has_*` save looks at names that aren't there.
    pub fn enter(&self, parent: &Arc<Frame>, folder: &OpenFolder<'_>) -> Entered {
        let path = folder.path;
        let mut below = parent.clone();
        let mut nested = false;
        if folder.has_git
            && !path.is_empty()
            && let Some(dirs) = repository_at(&self.root.join(path_of(path)))
        {
            nested = true;
            let info = read_path(&dirs.common.join("info/exclude"));
            let info = info.map(|found| Some(found.unwrap_or_default()));
            let repo = Arc::new(Repo::new(self.base.full(path).len() + 1, Some(dirs)));
            let mut state = self.state();
            state.keys.insert(path.to_vec(), repo.key());
            let source = state.take(info_key(path), path, info);
            below = self.base.nested(path, repo, source.as_source());
        }
        if !folder.has_ignore {
            return Entered { frame: below, nested };
        }
        let own = read_ignore(folder.fd);
        let source = self.state().take(top_key(&self.base.full(path)), path, own);
        Entered {
            frame: self.base.enter(&below, path, source.as_source()),
            nested,
        }
    }

    /// Whether what was read of a folder is what `snapshot` holds of it.
    pub fn same_in(&self, folder: &[u8], snapshot: &Snapshot) -> bool {
        let state = self.state();
        [top_key(&self.base.full(folder)), info_key(folder)]
            .iter()
            .filter(|key| !folder.is_empty() || !key.starts_with(b"info:"))
            .all(|key| {
                let other = unreadable(key);
                state.entries.get(key) == snapshot.entries.get(key)
                    && state.entries.contains_key(&other) == snapshot.entries.contains_key(&other)
            })
    }

    /// Whether what lies outside the root is what `snapshot` holds.
    pub fn same_above(&self, snapshot: &Snapshot) -> bool {
        let above = |entries: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<(Vec<u8>, Vec<u8>)> {
            let prefix = &self.base.prefix;
            let is_above = |key: &[u8]| {
                let key = key.strip_prefix(b"unreadable:").unwrap_or(key);
                match key.strip_prefix(b"top:") {
                    Some(folder) => {
                        !prefix.is_empty()
                            && prefix.starts_with(&join_slash(folder))
                            && folder.len() + 1 < prefix.len()
                    }
                    None => matches!(key, b"sources" | b"global" | b"info"),
                }
            };
            entries
                .iter()
                .filter(|(key, _)| is_above(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        above(&self.state().entries) == above(&snapshot.entries)
    }

    /// Judges a name in a folder whose stack is known. A git index that can't be read counts as `otherwise`.
    pub fn judge_in(&self, look: &Look<'_>, otherwise: bool) -> Verdict {
        self.base.judge(look, || self.tracks(look, otherwise))
    }

    /// Whether git tracks a name (or something below it).
    pub fn tracks(&self, look: &Look<'_>, otherwise: bool) -> bool {
        match look.frame.repo.tracks(&self.base.full(look.path), look.is_dir) {
            Ok(tracked) => tracked,
            Err(detail) => {
                self.state().problem(b"", detail);
                otherwise
            }
        }
    }

    /// Whether git tracks a file anywhere; an index that can't be read tracks nothing.
    pub fn tracks_name(&self, path: &[u8]) -> bool {
        let Context { frame, .. } = self.context(parent_of(path));
        frame.repo.tracks(&self.base.full(path), false).unwrap_or(false)
    }

    /// Judges a name anywhere; reads what it needs. What hides a folder above it hides it, too.
    pub fn judge(&self, path: &[u8], is_dir: bool) -> Verdict {
        let Context { frame, inside } = self.context(parent_of(path));
        self.judge_in(
            &Look {
                frame: &frame,
                inside,
                path,
                is_dir,
            },
            false,
        )
    }

    /// What holds in `folder`, read from disk on first use.
    pub fn context(&self, folder: &[u8]) -> Context {
        if let Some(context) = self.state().contexts.get(folder) {
            return context.clone();
        }
        let context = self.context_of(folder);
        self.state().contexts.insert(folder.to_vec(), context.clone());
        context
    }

    fn context_of(&self, folder: &[u8]) -> Context {
        let mut context = Context {
            frame: self.base.above.clone(),
            inside: Inside::No,
        };
        if !folder.is_empty() {
            let parent = self.context(parent_of(folder));
            let verdict = self.judge(folder, true);
            context = parent.below(self.base.inside_after(folder, verdict));
        }
        if context.inside != Inside::No && !context.frame.repo.has_submodule(&self.base.full(folder)) {
            return context;
        }
        match open_dir_beneath(self.root_fd.as_fd(), folder) {
            Ok(fd) => {
                let open = OpenFolder {
                    fd: fd.as_fd(),
                    path: folder,
                    has_ignore: true,
                    has_git: true,
                };
                let entered = self.enter(&context.frame, &open);
                context.frame = entered.frame;
                if entered.nested {
                    context.inside = Inside::No;
                }
            }
            Err(error) => {
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) {
                    context.frame = context.frame.push_blind(0);
                }
            }
        }
        context
    }

    /// What was read so far, with the problems met. Ends the collection.
    pub fn collected(&self) -> Collected {
        let mut state = self.state();
        Collected {
            entries: std::mem::take(&mut state.entries),
            problems: std::mem::take(&mut state.problems),
            keys: std::mem::take(&mut state.keys),
        }
    }
}

/// What a scan read of rules.
pub struct Collected {
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub problems: Vec<Problem>,
    pub keys: BTreeMap<Vec<u8>, GitKey>,
}

/// A folder that is being entered.
pub struct OpenFolder<'a> {
    pub fd: BorrowedFd<'a>,
    /// Relative to the root.
    pub path: &'a [u8],
    /// It may hold a `.gitignore`.
    pub has_ignore: bool,
    /// It may hold a `.git`.
    pub has_git: bool,
}

enum Kept {
    Missing,
    Rules(Vec<u8>),
    Blind,
}

impl Kept {
    fn as_source(&self) -> Source<'_> {
        match self {
            Kept::Missing => Source::Missing,
            Kept::Rules(bytes) => Source::Rules(bytes),
            Kept::Blind => Source::Blind,
        }
    }
}

impl State {
    fn take(&mut self, key: Vec<u8>, folder: &[u8], content: Content) -> Kept {
        match content {
            Ok(None) => Kept::Missing,
            Ok(Some(bytes)) => {
                self.entries.insert(key, bytes.clone());
                Kept::Rules(bytes)
            }
            Err(error) => {
                let shown = String::from_utf8_lossy(&key).into_owned();
                self.problem(folder, format!("the ignore rules {shown} can't be read: {error}"));
                self.entries.insert(unreadable(&key), Vec::new());
                Kept::Blind
            }
        }
    }

    fn problem(&mut self, path: &[u8], detail: String) {
        let problem = Problem {
            path: path.to_vec(),
            kind: ProblemKind::UnreadableRules,
            detail,
        };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

fn join_slash(folder: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        Vec::new()
    } else {
        join(folder, b"")
    }
}

/// The `.gitignore` files of the folders between the repository's top and the root.
fn above_root(state: &mut State, top: &[u8], root: &[u8]) {
    let Some(below) = root.strip_prefix(top).and_then(|rest| rest.strip_prefix(b"/")) else {
        return;
    };
    for (at, _) in join(below, b"").iter().enumerate().filter(|(_, b)| **b == b'/') {
        let folder = parent_of(&below[..at]);
        let path = path_of(&join(top, folder)).join(".gitignore");
        let linked = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
        let content = if linked { Ok(None) } else { read_path(&path) };
        state.take(top_key(folder), b"", content);
    }
}
