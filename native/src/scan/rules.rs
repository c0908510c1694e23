//! Which rules a scan judges by: at a boundary the present ones, within a turn the frozen ones and the present ones both.

use std::sync::{Arc, OnceLock};

use super::place::{Ctx, Here};
use super::{Local, Root, Scan};
use crate::index::{Entry, flag};
use crate::rules::{Context, Frozen, Inside, Look, Present, Sources, Verdict};
use crate::wire::{FileKind, Problem, ProblemKind, Reason};

/// The rules of one scan. Clones share what was read.
#[derive(Clone)]
pub enum View {
    Renewed {
        old: Option<Arc<Frozen>>,
        present: Arc<Present>,
    },
    Turn {
        frozen: Arc<Frozen>,
        present: Arc<OnceLock<Present>>,
        root: Root,
    },
}

/// What becomes of a name that the index lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newcomer {
    Covered {
        /// `DESPITE`, or nothing.
        marks: u32,
        /// The rules before hid it: it enters without a change of its own.
        visible_now: bool,
    },
    /// Ignored by the frozen rules: no entry.
    Ignored,
    /// Hidden by this turn's rules, or perhaps by rules that can't be read.
    Hidden,
}

/// What becomes of a name that the index has, when rules are asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Keep {
        marks: u32,
    },
    /// It was hidden and is visible.
    Enter {
        marks: u32,
    },
    Leave,
}

const HIDDEN_BY: u32 = flag::DESPITE | flag::HELD;

impl View {
    pub fn renewed(sources: Sources, old: Option<Arc<Frozen>>, root: &Root) -> Self {
        let present = Arc::new(Present::new(sources, &root.path, root.fd.clone()));
        View::Renewed { old, present }
    }

    pub fn turn(frozen: Arc<Frozen>, root: &Root) -> Self {
        View::Turn {
            frozen,
            present: Arc::default(),
            root: root.clone(),
        }
    }

    /// Option `include` names the path or a folder above it.
    pub fn included(&self, path: &[u8], is_dir: bool) -> bool {
        match self {
            View::Renewed { present, .. } => present.base.included(path, is_dir),
            View::Turn { frozen, .. } => frozen.base.included(path, is_dir),
        }
    }

    fn turn_present<'v>(frozen: &Frozen, cell: &'v OnceLock<Present>, root: &Root) -> &'v Present {
        cell.get_or_init(|| Present::new(frozen.base.sources.clone(), &root.path, root.fd.clone()))
    }

    pub(crate) fn problems(&self) -> Vec<Problem> {
        match self {
            View::Turn { present, .. } => present.get().map_or(Vec::new(), |p| p.collected().problems),
            View::Renewed { present, .. } if present.base.root_ignored => vec![Problem {
                path: Vec::new(),
                kind: ProblemKind::RootIgnored,
                detail: "a rule above the root hides it; the rules hold for the names inside".into(),
            }],
            View::Renewed { .. } => Vec::new(),
        }
    }
}

fn marks_of(verdict: Verdict) -> u32 {
    if matches!(verdict, Verdict::Despite(_)) {
        flag::DESPITE
    } else {
        0
    }
}

impl Scan<'_> {
    /// How a folder is entered that the index marks so.
    pub(super) fn inside_of(&self, path: &[u8], marks: u32) -> Inside {
        if marks & HIDDEN_BY == 0 {
            return Inside::No;
        }
        match &self.view {
            View::Renewed { present, .. } => present.base.inside(path),
            // A submodule has rules of its own.
            View::Turn { frozen, .. } if frozen.is_submodule(path) => Inside::No,
            View::Turn { frozen, .. } => frozen.base.inside(path),
        }
    }

    /// Judges a name that the index lacks.
    pub(super) fn judge_new(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        path: &[u8],
        is_dir: bool,
    ) -> Newcomer {
        local.counters.rules_evaluated += 1;
        match &self.view {
            View::Renewed { old, present } => {
                let verdict = self.judge_present(local, here, present, (path, is_dir), false);
                let old = old.as_ref().filter(|_| here.ctx.changed);
                match verdict {
                    Verdict::Ignored => Newcomer::Ignored,
                    Verdict::Blind => Newcomer::Hidden,
                    seen => Newcomer::Covered {
                        marks: marks_of(seen),
                        visible_now: old.is_some_and(|o| o.judge(path, is_dir) == Verdict::Ignored),
                    },
                }
            }
            View::Turn {
                frozen,
                present,
                root,
            } => {
                let before = frozen.judge(path, is_dir);
                match before {
                    Verdict::Ignored => return Newcomer::Ignored,
                    Verdict::Blind => return Newcomer::Hidden,
                    _ => {}
                }
                match View::turn_present(frozen, present, root).judge(path, is_dir) {
                    Verdict::Ignored | Verdict::Blind => Newcomer::Hidden,
                    now => Newcomer::Covered {
                        marks: marks_of(before) | marks_of(now),
                        visible_now: false,
                    },
                }
            }
        }
    }

    fn judge_present(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        present: &Present,
        name: (&[u8], bool),
        otherwise: bool,
    ) -> Verdict {
        let (path, is_dir) = name;
        let Context { frame, inside } = context(here, present);
        let look = Look {
            frame: &frame,
            inside,
            path,
            is_dir,
        };
        let verdict = present.judge_in(&look, otherwise);
        if is_dir
            && matches!(verdict, Verdict::Despite(_))
            && frame.repo.has_submodule(&present.base.full(path))
        {
            local.submodules.push(path.to_vec());
        }
        verdict
    }

    /// Whether rules are to be asked again about a known name.
    pub(super) fn asks(&self, ctx: &Ctx, entry: &Entry) -> bool {
        ctx.changed
            || is_doubtful(entry)
            || (ctx.git_changed && (entry.has(flag::DESPITE) || is_hidden(entry)))
    }

    /// Asks again about a known name.
    pub(super) fn judge_again(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (path, kind): (&[u8], FileKind),
        (entry, turned): (&Entry, bool),
    ) -> Again {
        let is_dir = kind == FileKind::Dir;
        let same = Again::Keep {
            marks: entry.flags & HIDDEN_BY,
        };
        let View::Renewed { present, .. } = &self.view else {
            return same;
        };
        if here.ctx.inside == Inside::No && self.is_secret_file(path, kind) {
            // No rule hides a secret: it is listed.
            return match is_hidden(entry) {
                true => Again::Enter { marks: 0 },
                false => Again::Keep { marks: 0 },
            };
        }
        let was_tracked = entry.has(flag::DESPITE);
        if !turned && !here.ctx.changed && !is_doubtful(entry) {
            // Only what git tracks could have changed: no rule needs to be asked.
            let Context { frame, inside } = context(here, present);
            let look = Look {
                frame: &frame,
                inside,
                path,
                is_dir,
            };
            if present.tracks(&look, was_tracked) == was_tracked {
                return same;
            }
        }
        local.counters.rules_evaluated += 1;
        let verdict = self.judge_present(local, here, present, (path, is_dir), was_tracked);
        match verdict {
            Verdict::Blind => same,
            Verdict::Covered | Verdict::Despite(_) if is_hidden(entry) => Again::Enter {
                marks: marks_of(verdict),
            },
            Verdict::Covered | Verdict::Despite(_) => Again::Keep {
                marks: marks_of(verdict),
            },
            Verdict::Ignored if is_hidden(entry) => same,
            Verdict::Ignored if self.is_held(path) || (is_dir && self.holds_below(path)) => {
                Again::Keep { marks: flag::HELD }
            }
            Verdict::Ignored => Again::Leave,
        }
    }

    /// The marks of a known name within a turn, where its entry can't tell: it came by rows, which have none, or a
    /// folder took the place of something else.
    pub(super) fn marks_in_turn(
        &self,
        local: &mut Local,
        (path, kind): (&[u8], FileKind),
        unless_hidden: u32,
    ) -> u32 {
        let View::Turn { frozen, .. } = &self.view else {
            return unless_hidden;
        };
        local.counters.rules_evaluated += 1;
        match frozen.judge(path, kind == FileKind::Dir) {
            Verdict::Ignored => flag::HELD,
            _ if unless_hidden != 0 => unless_hidden,
            Verdict::Despite(_) => flag::DESPITE,
            Verdict::Covered | Verdict::Blind => 0,
        }
    }

    fn is_held(&self, path: &[u8]) -> bool {
        self.hold
            .iter()
            .any(|held| crate::ignore::names::is_within(path, held))
    }

    fn holds_below(&self, path: &[u8]) -> bool {
        self.hold
            .iter()
            .any(|held| crate::ignore::names::is_within(held, path))
    }
}

/// What holds for the names of a folder at a boundary.
fn context(here: &Here<'_>, present: &Present) -> Context {
    match &here.ctx.frame {
        Some(frame) => Context {
            frame: frame.clone(),
            inside: here.ctx.inside,
        },
        None => present.context(here.path),
    }
}

/// Rows or a manifest told of it, and it was not looked at since.
pub(super) fn is_from_rows(entry: &Entry) -> bool {
    entry.stat.ino == 0 && entry.is_known()
}

/// Each boundary asks about it, whether its rules changed or not: it was covered against a rule, or listed as ignored
/// by rules of a turn that may never have been a boundary's.
fn is_doubtful(entry: &Entry) -> bool {
    entry.has(flag::HELD) || entry.is(Reason::Ignored) || is_from_rows(entry)
}

/// An ignored name, or one that left coverage.
pub(super) fn is_hidden(entry: &Entry) -> bool {
    entry.has(flag::IGNORED) || entry.is(Reason::Ignored)
}
