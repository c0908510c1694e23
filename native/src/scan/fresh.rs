//! A name that the index lacks: names that need no rule first, then the rules, then what stands there.

use rustix::io::Errno;

use super::place::{Here, Task};
use super::rules::Newcomer;
use super::set::Pending;
use super::sys::stat_bytes;
use super::{Before, Local, Scan};
use crate::ignore::names::{base_name, is_secret, is_temp, join, may_fold_to_git};
use crate::index::{Entry, NodeId, flag};
use crate::rules::Inside;
use crate::scan::View;
use crate::wire::{FileKind, ProblemKind, Reason, RelPath, StatKey, Version, row_flag};

impl Scan<'_> {
    /// Looks at a new name. `node`: a place that the index has for it, without a version.
    pub(super) fn fresh(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (name, listed, node): (&[u8], Option<FileKind>, Option<NodeId>),
        made: &mut Vec<Task>,
    ) {
        if is_temp(name) {
            return;
        }
        let path = join(here.path, name);
        if self.limits.skip.contains(&path) {
            return;
        }
        if self.is_git(local, here, name) {
            self.fresh_git(local, here, (name, path), node);
            return;
        }
        let seen = match listed {
            Some(_) => None,
            None => self.stat(local, here, (name, listed), &path),
        };
        let Some(file_kind) = listed.or(seen.map(|seen| seen.stat.kind)) else {
            return;
        };
        let secret = self.is_secret_file(&path, file_kind) && here.ctx.inside == Inside::No;
        let verdict = match secret {
            // No rule hides a secret: it is listed.
            true => Newcomer::Covered {
                marks: 0,
                visible_now: false,
            },
            false => self.judge_new(local, here, &path, file_kind == FileKind::Dir),
        };
        let known = node.is_some_and(|node| self.index.entry(node).is_known());
        if verdict == Newcomer::Ignored && !known {
            local.found(path, Pending::now(Entry::ignored(file_kind), Version::Absent));
            return;
        }
        let Some(Seen { stat, blind }) = seen.or_else(|| self.stat(local, here, (name, listed), &path))
        else {
            return;
        };
        if let Newcomer::Covered { marks, visible_now } = verdict {
            // A thing of another kind was ignored under the name.
            let was_ignored = node.is_some_and(|node| self.index.entry(node).has(flag::IGNORED));
            let visible_now = visible_now || (was_ignored && self.view_renews());
            let name = NewName {
                path,
                stat,
                node,
                marks,
                visible_now,
            };
            return match blind {
                true => self.cover_blind(local, here, name),
                false => self.cover(local, here, name, made),
            };
        }
        let hidden = Entry::uncovered(Reason::Ignored, stat);
        self.take(local, here, (path, stat, hidden), node);
    }

    /// A `.git`: known by its identity, the root's own not at all.
    fn fresh_git(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (name, path): (&[u8], RelPath),
        node: Option<NodeId>,
    ) {
        if here.path.is_empty() {
            return;
        }
        if let Some(Seen { stat, .. }) = self.stat(local, here, (name, None), &path) {
            let before = self.newcomer_before(here, &stat, (node, false));
            let mut pending = Pending::now(Entry::uncovered(Reason::Git, stat), before.version);
            pending.flags = before.flags;
            local.found(path, pending);
        }
    }

    /// Stats a new name that its folder told of; none where it is gone by now.
    fn stat(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (name, listed): (&[u8], Option<FileKind>),
        path: &[u8],
    ) -> Option<Seen> {
        local.counters.stat_calls += 1;
        match self.stat_linked(local, here, name) {
            Ok(stat) => Some(Seen { stat, blind: false }),
            Err(Errno::NOENT | Errno::NOTDIR) => {
                local.problem(path, ProblemKind::Vanished, "it was there and is gone");
                None
            }
            Err(error) => {
                local.problem(path, ProblemKind::UnreadableDir, error);
                let stat = StatKey::unseen(listed.unwrap_or(FileKind::Other));
                Some(Seen { stat, blind: true })
            }
        }
    }

    /// `.git`, or another spelling of it, as the file system says.
    pub(super) fn is_git(&self, local: &mut Local, here: &Here<'_>, name: &[u8]) -> bool {
        if name == b".git" {
            return true;
        }
        if !may_fold_to_git(name) {
            return false;
        }
        local.counters.stat_calls += 2;
        match (stat_bytes(here.fd, name), stat_bytes(here.fd, b".git")) {
            (Ok(a), Ok(b)) => (a.ino, a.dev) == (b.ino, b.dev),
            _ => false,
        }
    }

    /// A secret that no `include` names.
    pub(super) fn is_secret_file(&self, path: &[u8], kind: FileKind) -> bool {
        kind == FileKind::File && is_secret(base_name(path)) && !self.view.included(path, false)
    }

    /// A new name that is covered: a folder is entered, the rest is looked at.
    fn cover(&self, local: &mut Local, here: &Here<'_>, name: NewName, made: &mut Vec<Task>) {
        let NewName {
            path,
            stat,
            node,
            marks,
            visible_now,
        } = name;
        let mut ctx = here.ctx.deep();
        if visible_now {
            ctx.entering = ctx.entering.or(Some(Reason::Ignored));
        }
        if stat.kind == FileKind::Dir && stat.dev == here.dev {
            let known = node.is_some_and(|node| self.index.entry(node).is_known());
            let task = Task {
                node,
                path,
                base: here.base(),
                dev: here.dev,
                before: known.then(|| self.newcomer_before(here, &stat, (node, visible_now))),
                marks,
                ctx,
            };
            if self.own_only {
                self.record(
                    local,
                    &task,
                    Entry::dir(stat).with(flag::UNTRUSTED | flag::NOT_WHOLE | marks),
                );
            } else {
                made.push(task);
            }
            return;
        }
        let Some(mut pending) = self.sight(here, &path, &stat) else {
            local.problem(&path, ProblemKind::Vanished, "it changed while it was looked at");
            return;
        };
        pending.entry = pending.entry.map(|entry| entry.with(marks));
        let before = self.newcomer_before(here, &stat, (node, visible_now));
        (pending.before, pending.flags) = (before.version, before.flags);
        local.found(path, pending);
    }

    /// A new name that is there and can't be looked at: never gone, and never somebody's creation later.
    fn cover_blind(&self, local: &mut Local, here: &Here<'_>, name: NewName) {
        let before = self.newcomer_before(here, &name.stat, (name.node, name.visible_now));
        let entry = Entry::uncovered(Reason::Unreadable, name.stat).with(name.marks);
        let mut pending = Pending::now(entry, before.version);
        pending.flags = before.flags;
        local.found(name.path, pending);
    }

    fn newcomer_before(
        &self,
        here: &Here<'_>,
        stat: &StatKey,
        (node, visible_now): (Option<NodeId>, bool),
    ) -> Before {
        let reason = here.ctx.entering.or(visible_now.then_some(Reason::Ignored));
        let known = node.filter(|node| self.index.entry(*node).is_known());
        match (reason, known) {
            // Within a turn another thing under a hidden name is somebody's change.
            (_, Some(node)) => Before {
                version: self.index.version(node),
                flags: if self.view_renews() { row_flag::COVERAGE } else { 0 },
            },
            (None, None) => Before {
                version: Version::Absent,
                flags: 0,
            },
            (Some(reason), None) => Before {
                version: Entry::uncovered(reason, *stat).version(&[]),
                flags: row_flag::COVERAGE,
            },
        }
    }

    /// Records a new name whose version is known by its stat alone.
    fn take(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (path, stat, entry): (RelPath, StatKey, Entry),
        node: Option<NodeId>,
    ) {
        let before = self.newcomer_before(here, &stat, (node, false));
        let mut pending = Pending::now(entry, before.version);
        // What stays hidden is a change like any other.
        pending.flags = if node.is_some() { 0 } else { before.flags };
        local.found(path, pending);
    }

    /// What stands under a covered name that is no folder of this file system; files become suspects. None where it
    /// changed under the look.
    pub(super) fn sight(&self, here: &Here<'_>, path: &[u8], stat: &StatKey) -> Option<Pending> {
        let racy = if self.clock.is_racy(stat) {
            flag::UNTRUSTED
        } else {
            0
        };
        let now = |entry: Entry| Pending::now(entry, Version::Absent);
        if stat.dev != here.dev {
            return Some(now(Entry::uncovered(Reason::Mount, *stat)));
        }
        match stat.kind {
            FileKind::File if self.is_secret_file(path, FileKind::File) => {
                Some(now(Entry::uncovered(Reason::Secret, *stat)))
            }
            FileKind::File if stat.size > self.limits.max_file_bytes => {
                Some(now(Entry::uncovered(Reason::TooLarge, *stat)))
            }
            FileKind::File => {
                let entry = Entry::uncovered(Reason::OutOfTime, *stat).with(racy);
                Some(Pending {
                    suspect: true,
                    ..now(entry)
                })
            }
            FileKind::Symlink => {
                let target = rustix::fs::readlinkat(here.fd, base_name(path), Vec::new()).ok()?;
                let entry = Entry::symlink(*stat).with(racy);
                Some(Pending {
                    extra: target.into_bytes(),
                    ..now(entry)
                })
            }
            FileKind::Dir => None,
            kind => kind.special().map(|special| now(Entry::special(*stat, special))),
        }
    }

    /// Records what came in a folder's place.
    pub(super) fn leaf(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (path, stat): (RelPath, StatKey),
        before: Before,
    ) {
        match self.sight(here, &path, &stat) {
            Some(mut pending) => {
                (pending.before, pending.flags) = (before.version, before.flags);
                local.found(path, pending);
            }
            None => local.problem(&path, ProblemKind::Vanished, "it changed while it was looked at"),
        }
    }

    /// The scan is a boundary's.
    pub(super) fn view_renews(&self) -> bool {
        matches!(self.view, View::Renewed { .. })
    }
}

/// What a stat said.
#[derive(Clone, Copy)]
struct Seen {
    stat: StatKey,
    /// The name could not be looked at: of the key no more than the kind is known, if that.
    blind: bool,
}

struct NewName {
    path: RelPath,
    stat: StatKey,
    node: Option<NodeId>,
    marks: u32,
    visible_now: bool,
}
