//! What holds for the whole tree: options, the sources above the root, and the judgement of one name.

use std::sync::Arc;

use gix_glob::pattern::Case;

use super::{Snapshot, Source, Sources, top_key};
use crate::ignore::names::join;
use crate::ignore::{Frame, Match, Patterns, Repo};

/// Whether a folder was entered although it is hidden, for the sake of something below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inside {
    #[default]
    No,
    /// A rule hides it: names below are ignored unless tracked or included.
    Ignored,
    /// Option `exclude` hides it: names below are ignored unless included.
    Excluded,
}

/// What rules say of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Covered,
    /// Covered although a rule hides it: tracked or included, or a folder that holds such a name.
    Despite(Inside),
    Ignored,
    /// A rule file can't be read: it may be ignored.
    Blind,
}

/// What holds for the names of a folder.
#[derive(Debug, Clone)]
pub struct Context {
    pub frame: Arc<Frame>,
    pub inside: Inside,
}

impl Context {
    /// The parent's stack, under another verdict.
    pub fn below(self, inside: Inside) -> Self {
        Context { inside, ..self }
    }
}

/// Options and the stack of sources that holds for the root's parent.
#[derive(Debug)]
pub struct Base {
    pub sources: Sources,
    /// The root's path relative to its repository's top, with a slash at the end; empty where they are one.
    pub prefix: Vec<u8>,
    pub case: Case,
    include: Patterns,
    exclude: Patterns,
    /// The global rules, for the bottom of each nested repository's stack.
    global: Option<Arc<Patterns>>,
    /// The sources above the root.
    pub above: Arc<Frame>,
    /// A rule above the root hides the root.
    pub root_ignored: bool,
}

fn lines(list: &[Vec<u8>]) -> Patterns {
    Patterns::parse(&list.join(&b'\n'))
}

fn compiled(source: Source<'_>) -> Option<Arc<Patterns>> {
    match source {
        Source::Missing => Some(Arc::default()),
        Source::Rules(bytes) => Some(Arc::new(Patterns::parse(bytes))),
        Source::Blind => None,
    }
}

/// Pushes patterns, or blindness where there are none.
fn push(frame: &Arc<Frame>, patterns: Option<Arc<Patterns>>, base: usize) -> Arc<Frame> {
    match patterns {
        Some(patterns) => frame.push(patterns, base),
        None => frame.push_blind(base),
    }
}

/// Bytes that a folder takes of a path below it.
fn width(folder: &[u8]) -> usize {
    if folder.is_empty() { 0 } else { folder.len() + 1 }
}

impl Base {
    /// `snapshot` needs to hold what lies above the root only.
    pub fn new(sources: Sources, root: &[u8], snapshot: &Snapshot, repo: Repo) -> Self {
        let case = if sources.ignore_case {
            Case::Fold
        } else {
            Case::Sensitive
        };
        let prefix = prefix_of(&sources, root);
        let global = compiled(snapshot.source(b"global"));
        let bottom = push(&Frame::bottom(Arc::new(repo)), global.clone(), 0);
        let mut above = push(&bottom, compiled(snapshot.source(b"info")), 0);
        let mut root_ignored = false;
        for (at, _) in prefix.iter().enumerate().filter(|(_, b)| **b == b'/') {
            let holder = crate::ignore::names::parent_of(&prefix[..at]);
            above = push(&above, compiled(snapshot.source(&top_key(holder))), width(holder));
            root_ignored |= above.matches(&prefix[..at], true, case) == Match::Ignored;
        }
        Base {
            include: lines(&sources.include),
            exclude: lines(&sources.exclude),
            sources,
            prefix,
            case,
            global,
            above,
            root_ignored,
        }
    }

    /// Path relative to the repository's top.
    pub fn full(&self, path: &[u8]) -> Vec<u8> {
        if path.is_empty() {
            return self.prefix.strip_suffix(b"/").unwrap_or_default().to_vec();
        }
        [&self.prefix[..], path].concat()
    }

    /// The stack that holds in a folder, given the one of its parent and its own `.gitignore`.
    pub fn enter(&self, parent: &Arc<Frame>, folder: &[u8], own: Source<'_>) -> Arc<Frame> {
        match own {
            Source::Missing => parent.clone(),
            own => push(parent, compiled(own), width(&self.full(folder))),
        }
    }

    /// The bottom of a nested repository's stack.
    pub fn nested(&self, folder: &[u8], repo: Arc<Repo>, info: Source<'_>) -> Arc<Frame> {
        let base = width(&self.full(folder));
        let bottom = push(&Frame::bottom(repo), self.global.clone(), base);
        push(&bottom, compiled(info), base)
    }

    /// Option `include` names `path` or a folder above it.
    pub fn included(&self, path: &[u8], is_dir: bool) -> bool {
        self.include.verdict_with_folders(path, is_dir, self.case) == Some(true)
    }

    fn excluded(&self, path: &[u8], is_dir: bool) -> bool {
        self.exclude.verdict_with_folders(path, is_dir, self.case) == Some(true)
    }

    /// How a folder that is entered despite a rule is entered.
    pub fn inside(&self, folder: &[u8]) -> Inside {
        if self.excluded(folder, true) {
            Inside::Excluded
        } else {
            Inside::Ignored
        }
    }

    /// How the names of a folder stand after the verdict on the folder itself, should it be entered.
    pub fn inside_after(&self, folder: &[u8], verdict: Verdict) -> Inside {
        match verdict {
            Verdict::Covered | Verdict::Blind => Inside::No,
            Verdict::Despite(inside) => inside,
            Verdict::Ignored => self.inside(folder),
        }
    }

    /// Judges a name in a folder where `frame` and `inside` hold. `tracked` is asked only where a rule hides it, or might.
    pub fn judge(&self, look: &Look<'_>, tracked: impl FnOnce() -> bool) -> Verdict {
        let Look {
            frame,
            inside,
            path,
            is_dir,
        } = *look;
        if self.included(path, is_dir) {
            return match inside {
                Inside::No => Verdict::Covered,
                inside => Verdict::Despite(inside),
            };
        }
        if inside == Inside::Excluded || self.excluded(path, is_dir) {
            return self.for_what_is_below(path, is_dir, Inside::Excluded);
        }
        let found = match inside {
            Inside::No => frame.matches(&self.full(path), is_dir, self.case),
            _ => Match::Ignored,
        };
        match found {
            Match::Visible => Verdict::Covered,
            _ if tracked() => Verdict::Despite(Inside::Ignored),
            Match::Blind => Verdict::Blind,
            Match::Ignored => self.for_what_is_below(path, is_dir, Inside::Ignored),
        }
    }

    fn for_what_is_below(&self, path: &[u8], is_dir: bool, inside: Inside) -> Verdict {
        if is_dir && self.include.may_match_below(path, self.case) {
            Verdict::Despite(inside)
        } else {
            Verdict::Ignored
        }
    }
}

/// A name to judge, and where it stands.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub frame: &'a Frame,
    pub inside: Inside,
    /// Relative to the root.
    pub path: &'a [u8],
    pub is_dir: bool,
}

fn prefix_of(sources: &Sources, root: &[u8]) -> Vec<u8> {
    let Some(repo) = &sources.repo else {
        return Vec::new();
    };
    let top = repo.top.strip_suffix(b"/").unwrap_or(&repo.top);
    match root.strip_prefix(top) {
        Some([b'/', below @ ..]) if !below.is_empty() => join(below, b""),
        _ => Vec::new(),
    }
}
