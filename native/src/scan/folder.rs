//! One folder: opened by its parent's descriptor, compared with what the index knows of it.
//!
//! A folder whose stat key is unchanged and not racy has the same names: they are looked at without reading it. Else it
//! is read whole, and only then may a name be called gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::glance::Glance;
use super::place::{Ctx, Here, Task};
use super::rules::View;
use super::set::Pending;
use super::sys::{open_below, open_dir, stat_bytes, stat_open};
use super::{Before, Local, Scan};
use crate::error::{EngineError, Result};
use crate::ignore::names::{base_name, parent_of};
use crate::index::{Entry, NodeId, flag, kind};
use crate::rules::Inside;
use crate::scan::sys::Names;
use crate::wire::{FileKind, ProblemKind, Reason, StatKey, Version, row_flag};

const NOT_SEEN: &str = "it could not be looked at; its last version stands";

/// No fault of the folder's: the process has run out.
fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// The folder has the names that the index knows.
pub(super) fn is_steady(old: &Entry, stat: &StatKey) -> bool {
    old.kind == kind::DIR && old.stat == *stat && !old.has(flag::UNTRUSTED | flag::NOT_WHOLE)
}

impl Scan<'_> {
    /// Looks at a folder's own entry and at all its names; folders below go to `made`.
    pub(super) fn visit(&self, local: &mut Local, task: Task, made: &mut Vec<Task>) -> Result<()> {
        if let Glance::Known = self.glance(local, &task, made)? {
            return Ok(());
        }
        let holder = match self.holder(&task) {
            Ok(holder) => holder,
            Err(error) => return self.lost(local, &task, error),
        };
        let opened = self.open(&task, &holder);
        match opened.and_then(|fd| Ok((stat_open(fd.as_fd())?, fd))) {
            Ok((stat, fd)) => {
                local.counters.stat_calls += 1;
                self.visit_open(local, (task, &holder), (Arc::new(fd), stat), made)
            }
            Err(error) => self.cannot_enter(local, (task, &holder), error),
        }
    }

    /// The folder that holds a folder; the root's is the root.
    pub(super) fn holder(&self, task: &Task) -> std::result::Result<Arc<OwnedFd>, Errno> {
        match parent_of(task.below_base()) {
            b"" => Ok(task.base.fd.clone()),
            path => open_below(task.base.fd.as_fd(), path).map(Arc::new),
        }
    }

    pub(super) fn open(&self, task: &Task, holder: &OwnedFd) -> std::result::Result<OwnedFd, Errno> {
        let name = if task.path.is_empty() {
            b"."
        } else {
            base_name(&task.path)
        };
        open_dir(holder.as_fd(), name)
    }

    /// What holds a folder went away under the look: the next one says what became of both.
    fn lost(&self, local: &mut Local, task: &Task, error: Errno) -> Result<()> {
        if is_shortage(error) {
            return Err(EngineError::io("open a folder", error).with_path(&task.path));
        }
        local.problem(&task.path, ProblemKind::Vanished, NOT_SEEN);
        Ok(())
    }

    fn visit_open(
        &self,
        local: &mut Local,
        (mut task, holder): (Task, &Arc<OwnedFd>),
        (fd, stat): (Arc<OwnedFd>, StatKey),
        made: &mut Vec<Task>,
    ) -> Result<()> {
        if stat.dev != task.dev {
            self.record(local, &task, Entry::uncovered(Reason::Mount, stat));
            return Ok(());
        }
        // Before any of its names is looked at: what comes later gives an event.
        self.arm(local, (&task.path, &stat), fd.as_fd());
        let old = task.node.map(|node| *self.index.entry(node));
        let steady = !self.rehash && old.is_some_and(|old| is_steady(&old, &stat));
        let mut names = std::mem::take(&mut local.names);
        if !steady {
            local.counters.dirs_read += 1;
            if let Err(error) = names.read(fd.as_fd()) {
                local.names = names;
                return self.cannot_enter(local, (task, holder), error);
            }
        }
        let was_hidden = old.and_then(|old| old.reason());
        task.ctx.entering = task.ctx.entering.or(was_hidden);
        let racy = if self.clock.is_racy(&stat) {
            flag::UNTRUSTED
        } else {
            0
        };
        self.record(local, &task, Entry::dir(stat).with(racy | task.marks));
        // What is below it could not be observed; the folder itself could.
        task.ctx.incomplete |= was_hidden == Some(Reason::Unreadable);
        let seen = if steady { None } else { Some(&names) };
        let ctx = self.enter_rules(&task, fd.as_fd(), seen);
        let here = Here {
            fd: fd.as_fd(),
            shared: &fd,
            path: &task.path,
            dev: stat.dev,
            ctx,
        };
        let children = task.node.map_or(&[][..], |node| self.index.children(node));
        let looked = match seen {
            Some(names) => self.merge(local, &here, (names, children), made),
            None => self.steady(local, &here, children, made),
        };
        local.names = names;
        looked
    }

    /// Names of a folder that has the same ones as before.
    fn steady(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        children: &[NodeId],
        made: &mut Vec<Task>,
    ) -> Result<()> {
        self.count_entries(children.len() as u64)?;
        local.counters.entries += children.len() as u64;
        self.known_names(local, here, children, made);
        Ok(())
    }

    pub(super) fn known_names(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        children: &[NodeId],
        made: &mut Vec<Task>,
    ) {
        let mut gone = Vec::new();
        for child in children {
            if !self.known(local, here, (*child, None), made) {
                gone.push(*child);
            }
        }
        self.confirm_gone(local, here, &gone);
    }

    /// Names of a folder that was read, against those that the index knows; both are sorted.
    fn merge(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        (names, children): (&Names, &[NodeId]),
        made: &mut Vec<Task>,
    ) -> Result<()> {
        self.count_entries(names.len() as u64)?;
        local.counters.entries += names.len() as u64;
        let mut rest = children.iter().copied().peekable();
        let mut gone = Vec::new();
        for at in 0..names.len() {
            let name = names.name(at);
            while let Some(child) = rest.next_if(|child| self.index.name(*child) < name) {
                self.vanished(local, here, child);
            }
            let told = names.kind(at);
            match rest.next_if(|child| self.index.name(*child) == name) {
                Some(child) => {
                    // Where the file system doesn't tell, it is asked: a verdict on a folder is none on a file.
                    let kind = told.or_else(|| stat_bytes(here.fd, name).ok().map(|stat| stat.kind));
                    if !self.known(local, here, (child, kind), made) {
                        gone.push(child);
                    }
                }
                None => self.fresh(local, here, (name, told, None), made),
            }
        }
        rest.for_each(|child| self.vanished(local, here, child));
        self.confirm_gone(local, here, &gone);
        Ok(())
    }

    /// Reads a folder (again) and calls gone what it lacks.
    pub(super) fn confirm_gone(&self, local: &mut Local, here: &Here<'_>, gone: &[NodeId]) {
        if gone.is_empty() {
            return;
        }
        let mut names = Names::default();
        local.counters.dirs_read += 1;
        let read = open_dir(here.fd, b".").and_then(|fd| names.read(fd.as_fd()));
        for child in gone {
            if read.is_ok() && !names.has(self.index.name(*child)) {
                self.vanished(local, here, *child);
            } else {
                let path = self.path_below(here.path, *child);
                local.problem(&path, ProblemKind::Vanished, NOT_SEEN);
            }
        }
    }

    /// The rules that hold below a folder.
    pub(super) fn enter_rules(&self, task: &Task, fd: BorrowedFd<'_>, names: Option<&Names>) -> Ctx {
        let mut ctx = task.ctx.clone();
        ctx.inside = self.inside_of(&task.path, task.marks);
        let View::Renewed { old, present } = &self.view else {
            return ctx;
        };
        let Some(frame) = ctx.frame.take() else { return ctx };
        let has = |name: &[u8]| match (names, task.node) {
            (Some(names), _) => names.has(name),
            (None, Some(node)) => self.index.child(node, name).is_some(),
            (None, None) => false,
        };
        let has_git = has(b".git");
        let submodule = has_git
            && ctx.inside == Inside::Ignored
            && frame.repo.has_submodule(&present.base.full(&task.path));
        if ctx.inside != Inside::No && !submodule {
            ctx.frame = Some(frame);
            return ctx;
        }
        let folder = crate::rules::OpenFolder {
            fd,
            path: &task.path,
            has_ignore: has(b".gitignore"),
            has_git,
        };
        let entered = present.enter(&frame, &folder);
        ctx.changed |= old
            .as_ref()
            .is_none_or(|old| !present.same_in(&task.path, &old.snapshot));
        if entered.nested {
            ctx.inside = Inside::No;
            ctx.git_changed = self.git_keys.get(&task.path) != Some(&entered.frame.repo.key());
        }
        ctx.frame = Some(entered.frame);
        ctx
    }

    /// Records a folder's own entry where it differs.
    pub(super) fn record(&self, local: &mut Local, task: &Task, entry: Entry) {
        let old = task.node.map(|node| *self.index.entry(node));
        if task.before.is_none() && old == Some(entry) {
            return;
        }
        let incomplete = if task.ctx.incomplete {
            row_flag::INCOMPLETE
        } else {
            0
        };
        let known = task.node.filter(|node| self.index.entry(*node).is_known());
        let before = match (&task.before, known) {
            (Some(before), _) => before.clone(),
            (None, Some(node)) => Before {
                version: self.index.version(node),
                flags: incomplete,
            },
            (None, None) => match task.ctx.entering {
                Some(reason) => Before {
                    version: Entry::uncovered(reason, entry.stat).version(&[]),
                    flags: row_flag::COVERAGE,
                },
                None => Before {
                    version: Version::Absent,
                    flags: 0,
                },
            },
        };
        let mut pending = Pending::now(entry, before.version);
        pending.flags = before.flags;
        local.found(task.path.clone(), pending);
    }

    /// A folder that could not be opened: something else by now, gone, or closed to us.
    fn cannot_enter(
        &self,
        local: &mut Local,
        (task, holder): (Task, &Arc<OwnedFd>),
        error: Errno,
    ) -> Result<()> {
        if task.path.is_empty() {
            return Err(EngineError::io("read the root", error));
        }
        if is_shortage(error) {
            return Err(EngineError::io("open a folder", error).with_path(&task.path));
        }
        let folder = parent_of(&task.path).to_vec();
        let here = Here {
            fd: holder.as_fd(),
            shared: holder,
            path: &folder,
            dev: task.dev,
            ctx: task.ctx.clone(),
        };
        local.counters.stat_calls += 1;
        match stat_bytes(holder.as_fd(), base_name(&task.path)) {
            Ok(stat) if stat.kind == FileKind::Dir => {
                local.closed.push(task.path.clone());
                local.problem(&task.path, ProblemKind::UnreadableDir, error);
                self.record(
                    local,
                    &task,
                    Entry::uncovered(Reason::Unreadable, stat).with(task.marks),
                );
            }
            Ok(stat) => {
                if let Some(node) = task.node {
                    self.drop_below(local, &here, node);
                }
                let before = task.before.unwrap_or_else(|| Before {
                    version: task.node.map_or(Version::Absent, |node| self.index.version(node)),
                    flags: 0,
                });
                self.leaf(local, &here, (task.path, stat), before);
            }
            Err(Errno::NOENT | Errno::NOTDIR) => match task.node {
                Some(node) => self.confirm_gone(local, &here, &[node]),
                None => local.problem(&task.path, ProblemKind::Vanished, "it was there and is gone"),
            },
            Err(error) => {
                local.closed.push(task.path.clone());
                local.problem(&task.path, ProblemKind::UnreadableDir, error);
                // What is known keeps its version.
                if !task.node.is_some_and(|node| self.index.entry(node).is_known()) {
                    let stat = StatKey::unseen(FileKind::Dir);
                    let entry = Entry::uncovered(Reason::Unreadable, stat);
                    self.record(local, &task, entry.with(task.marks));
                }
            }
        }
        Ok(())
    }
}
