//! A name that the index knows: is it still what it was?
//!
//! Nothing is allocated for a name that is unchanged. Within a turn no rule is asked: what is covered stays covered,
//! what is ignored stays ignored.

use rustix::io::Errno;

use super::place::{Ctx, Here, Task};
use super::rules::{Again, is_from_rows, is_hidden};
use super::set::Pending;
use super::sys::stat_name;
use super::{Before, Local, Scan};
use crate::index::{Entry, NodeId, flag, kind};
use crate::rules::Inside;
use crate::watch::is_plain_folder;
use crate::wire::{FileKind, ProblemKind, Reason, RelPath, StatKey, Version, row_flag};

const MARKS: u32 = flag::DESPITE | flag::HELD;

/// What is to be done about a name whose stat is known.
enum Next {
    Stay,
    /// This, without another look.
    Is(Entry),
    /// To be seen anew, with these row flags.
    Look(u8),
}

impl Scan<'_> {
    /// Looks at a known name; `listed` is what the folder says that it is. False where it is not there.
    pub(super) fn known(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (child, listed): (NodeId, Option<FileKind>),
        made: &mut Vec<Task>,
    ) -> bool {
        let entry = *self.index.entry(child);
        if !entry.is_known() && !entry.has(flag::IGNORED) {
            return self.unknown_node(local, here, (child, listed), made);
        }
        let mut marks = entry.flags & MARKS;
        let mut asked = false;
        if is_hidden(&entry)
            && (listed.is_some_and(|kind| kind != entry.stat.kind)
                || self.is_git(local, here, self.index.name(child)))
        {
            // Another thing stands under the name: the verdict was not about it. Or it is a `.git` that left coverage
            // with its folder: no rule makes it a plain folder.
            return self.unknown_node(local, here, (child, listed), made);
        }
        let now = listed.unwrap_or(entry.stat.kind);
        // Rules can say one thing of a folder and another of a file: a verdict on the one is none on the other.
        let turned = (now == FileKind::Dir) != (entry.stat.kind == FileKind::Dir);
        if (turned || self.asks(&here.ctx, &entry)) && self.view_renews() && !entry.is(Reason::Git) {
            asked = true;
            let path = self.path_below(here.path, child);
            match self.judge_again(local, here, (&path, now), (&entry, turned)) {
                Again::Keep { marks: now } => marks = now,
                Again::Enter { marks } => return self.enter(local, here, (child, path, marks), made),
                Again::Leave => return self.leave(local, here, (child, path)),
            }
        }
        if entry.has(flag::IGNORED) {
            return true;
        }
        if !asked && (turned || is_from_rows(&entry)) {
            let path = self.path_below(here.path, child);
            let unless_hidden = if turned { marks } else { 0 };
            marks = self.marks_in_turn(local, (&path, now), unless_hidden);
        }
        if here.ctx.shallow && is_plain_folder(&entry) && now == FileKind::Dir {
            return true;
        }
        if entry.is_entered() && !self.own_only && now == FileKind::Dir {
            made.push(self.task_for(here, child, &entry, (marks, asked)));
            return true;
        }
        self.look_again(local, here, (child, marks, asked), made)
    }

    fn task_for(&self, here: &Here<'_>, child: NodeId, entry: &Entry, (marks, asked): (u32, bool)) -> Task {
        let mut ctx = here.ctx.deep();
        // A folder that begins or ceases to be hidden has its names judged anew.
        ctx.changed |= asked && (marks & flag::HELD != 0 || marks != entry.flags & MARKS);
        Task {
            node: Some(child),
            path: self.path_below(here.path, child),
            base: here.base(),
            dev: here.dev,
            before: None,
            marks,
            ctx,
        }
    }

    /// A node without a version: rows told of something below it, or it stood for an ignored name of another kind.
    fn unknown_node(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (child, listed): (NodeId, Option<FileKind>),
        made: &mut Vec<Task>,
    ) -> bool {
        if listed.is_some_and(|kind| kind != FileKind::Dir) {
            self.drop_below(local, here, child);
        }
        let name = self.index.name(child).to_vec();
        self.fresh(local, here, (&name, listed, Some(child)), made);
        true
    }

    /// Stats a name and compares.
    fn look_again(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (child, marks, asked): (NodeId, u32, bool),
        made: &mut Vec<Task>,
    ) -> bool {
        local.counters.stat_calls += 1;
        let stat = match self.stat_linked(local, here, self.index.name(child)) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return false,
            Err(error) => {
                let path = self.path_below(here.path, child);
                local.problem(&path, ProblemKind::UnreadableDir, error);
                return true;
            }
        };
        self.compare(local, here, (child, stat), (marks, asked), made)
    }

    /// What a covered file that was looked at by name is, where no rule needs to be asked about it; none where one may.
    pub(super) fn plainly(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        child: NodeId,
        made: &mut Vec<Task>,
    ) -> Option<bool> {
        let entry = self.index.entry(child);
        if !entry.is_covered_file() || is_from_rows(entry) || self.view_renews() {
            return None;
        }
        local.counters.stat_calls += 1;
        let stat = self.stat_linked(local, here, self.index.name(child)).ok()?;
        let marks = entry.flags & MARKS;
        (stat.kind != FileKind::Dir).then(|| self.compare(local, here, (child, stat), (marks, false), made))
    }

    fn compare(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (child, stat): (NodeId, StatKey),
        (marks, asked): (u32, bool),
        made: &mut Vec<Task>,
    ) -> bool {
        let entry = self.index.entry(child);
        let trusted = entry.stat == stat && !self.rehash && !entry.has(flag::UNTRUSTED | flag::WRITERS);
        if trusted && !asked && marks == entry.flags & MARKS && self.is_settled(entry, &stat, here.dev) {
            return true;
        }
        let path = self.path_below(here.path, child);
        if stat.kind == FileKind::Dir
            && stat.dev == here.dev
            && !entry.is(Reason::Ignored)
            && !entry.is(Reason::Git)
        {
            let mut task = self.task_for(here, child, entry, (marks, asked));
            task.path = path;
            self.folder_now(local, task, (entry, stat), made);
            return true;
        }
        if entry.stat.kind == FileKind::Dir && stat.kind != FileKind::Dir {
            self.drop_below(local, here, child);
        }
        if let Some(mut pending) = self.renewed((child, entry), &stat, (&path, here)) {
            pending.entry = pending.entry.map(|now| now.with(marks));
            if pending.entry != Some(*entry) || pending.suspect || pending.after() != pending.before {
                local.found(path, pending);
            }
        }
        true
    }

    /// Under a trusted stat key there is nothing to do.
    pub(super) fn is_settled(&self, entry: &Entry, stat: &StatKey, dev: u64) -> bool {
        match entry.reason() {
            Some(Reason::Unstable | Reason::OutOfTime) => false,
            Some(Reason::TooLarge) => stat.size > self.limits.max_file_bytes,
            Some(Reason::Mount) => stat.dev != dev,
            // A limit that was lowered counts from a boundary on.
            None if entry.kind == kind::FILE => {
                !self.view_renews() || stat.size <= self.limits.max_file_bytes
            }
            _ => true,
        }
    }

    /// What a known name that is no folder is to become; none where it stays as it is.
    fn renewed(
        &self,
        (child, entry): (NodeId, &Entry),
        stat: &StatKey,
        (path, here): (&[u8], &Here<'_>),
    ) -> Option<Pending> {
        let mut pending = match self.next_of(entry, stat, (path, here)) {
            Next::Stay => return None,
            Next::Is(now) => Pending::now(now, Version::Absent),
            Next::Look(flags) => {
                let mut pending = self.sight(here, path, stat)?;
                pending.flags = flags;
                pending
            }
        };
        pending.before = self.index.version(child);
        if here.ctx.incomplete {
            pending.flags |= row_flag::INCOMPLETE;
        }
        Some(pending)
    }

    fn next_of(&self, entry: &Entry, stat: &StatKey, (path, here): (&[u8], &Here<'_>)) -> Next {
        let same_stat = entry.stat == *stat;
        let trusted = same_stat && !self.rehash && !entry.has(flag::UNTRUSTED | flag::WRITERS);
        let fits = stat.size <= self.limits.max_file_bytes;
        let still_file = stat.kind == FileKind::File && entry.stat.kind == FileKind::File;
        let coverage = row_flag::COVERAGE;
        // In a folder that rules hide no name is told by itself.
        let stays_hidden = entry.is(Reason::Ignored) && here.ctx.inside != Inside::No;
        if still_file && !stays_hidden && self.is_secret_file(path, stat.kind) != entry.is(Reason::Secret) {
            return Next::Look(coverage);
        }
        match entry.reason() {
            Some(Reason::Git) if entry.same_identity(stat) => Next::Stay,
            Some(Reason::Git) => Next::Is(Entry::uncovered(Reason::Git, *stat)),
            // A folder's times move with every name below it: only another inode is news.
            Some(Reason::Ignored) if stat.kind == FileKind::Dir && entry.same_identity(stat) => Next::Stay,
            Some(Reason::Ignored) if same_stat => Next::Stay,
            Some(Reason::Ignored) => Next::Is(Entry::uncovered(Reason::Ignored, *stat)),
            Some(Reason::Unreadable) if trusted => Next::Is(*entry),
            Some(Reason::OutOfTime) if same_stat && !entry.has(flag::UNTRUSTED) => Next::Look(row_flag::LATE),
            Some(Reason::TooLarge) if same_stat && fits => Next::Look(coverage),
            None if trusted && entry.kind == kind::FILE && (fits || !self.view_renews()) => {
                Next::Is(Entry { flags: 0, ..*entry })
            }
            None if trusted && entry.kind == kind::FILE => Next::Look(coverage),
            _ => Next::Look(0),
        }
    }

    /// A known name is a folder now (or, looked at alone, still is one).
    fn folder_now(
        &self,
        local: &mut Local,
        task: Task,
        (entry, stat): (&Entry, StatKey),
        made: &mut Vec<Task>,
    ) {
        if !self.own_only {
            made.push(task);
            return;
        }
        let differs = match entry.kind {
            kind::DIR => entry.stat.mode != stat.mode || entry.stat.ino != stat.ino,
            _ => !entry.is(Reason::Unreadable) || entry.stat != stat,
        };
        if differs {
            let now = Entry::dir(stat).with(flag::UNTRUSTED | flag::NOT_WHOLE | task.marks);
            self.record(local, &task, now);
        }
    }

    /// A hidden name is visible: it enters, and what stood in its place was uncovered.
    fn enter(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (child, path, marks): (NodeId, RelPath, u32),
        made: &mut Vec<Task>,
    ) -> bool {
        local.counters.stat_calls += 1;
        let seen = stat_name(here.fd, self.index.c_name(child));
        let stat = match &seen {
            Ok(stat) => *stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return false,
            Err(_) => StatKey::unseen(self.index.entry(child).stat.kind),
        };
        let version = match self.index.version(child) {
            Version::Absent => Entry::uncovered(Reason::Ignored, stat).version(&[]),
            version => version,
        };
        let before = Before {
            version,
            flags: row_flag::COVERAGE,
        };
        if let Err(error) = seen {
            local.problem(&path, ProblemKind::UnreadableDir, error);
            let entry = Entry::uncovered(Reason::Unreadable, stat).with(marks);
            let mut pending = Pending::now(entry, before.version);
            pending.flags = before.flags;
            local.found(path, pending);
            return true;
        }
        if stat.kind == FileKind::Dir && stat.dev == here.dev {
            let ctx = Ctx {
                entering: Some(Reason::Ignored),
                changed: true,
                ..here.ctx.clone()
            };
            let node = Some(child);
            made.push(Task {
                node,
                path,
                base: here.base(),
                dev: here.dev,
                before: Some(before),
                marks,
                ctx,
            });
        } else if let Some(mut pending) = self.sight(here, &path, &stat) {
            pending.before = before.version;
            pending.flags = before.flags;
            pending.entry = pending.entry.map(|entry| entry.with(marks));
            local.found(path, pending);
        }
        true
    }

    /// A known name is ignored by the new rules: it and all below leave coverage, but what is held.
    fn leave(&self, local: &mut Local, here: &Here<'_>, (child, path): (NodeId, RelPath)) -> bool {
        local.counters.stat_calls += 1;
        let now = match stat_name(here.fd, self.index.c_name(child)) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return false,
            Err(_) => self.index.entry(child).stat,
        };
        let mut leaving = vec![(path, child)];
        if now.kind == FileKind::Dir {
            leaving.append(&mut self.index.below(child));
        } else {
            self.drop_below(local, here, child);
        }
        for (path, node) in leaving {
            let entry = self.index.entry(node);
            if !entry.is_known() || entry.is(Reason::Ignored) {
                continue;
            }
            let stat = if node == child { now } else { entry.stat };
            let left = Entry::uncovered(Reason::Ignored, stat);
            let mut pending = Pending::now(left, self.index.version(node));
            pending.flags = row_flag::COVERAGE;
            local.found(path, pending);
        }
        true
    }

    /// A known name that its folder, read whole, lacks.
    pub(super) fn vanished(&self, local: &mut Local, here: &Here<'_>, child: NodeId) {
        self.drop_below(local, here, child);
        let flags = if here.ctx.incomplete {
            row_flag::INCOMPLETE
        } else {
            0
        };
        local.found(
            self.path_below(here.path, child),
            Pending::gone(self.index.version(child), flags),
        );
    }

    /// All that was known below a folder that is no more.
    pub(super) fn drop_below(&self, local: &mut Local, here: &Here<'_>, child: NodeId) {
        if self.index.children(child).is_empty() {
            return;
        }
        let unreadable = here.ctx.incomplete || self.index.entry(child).is(Reason::Unreadable);
        let flags = if unreadable { row_flag::INCOMPLETE } else { 0 };
        for (path, node) in self.index.below(child) {
            if self.index.entry(node).is_known() {
                local.found(path, Pending::gone(self.index.version(node), flags));
            }
        }
    }
}
