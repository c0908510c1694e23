//! A folder that is as the index has it, told by stats alone: nothing is opened, read or allocated.
//!
//! Names are looked up by their path below a folder that is open, a few components at most: that costs the kernel less
//! than to open and close each folder (1,200 folders: a fifth of a warm scan). A look that follows a link that was put in
//! the way, or crosses a mount, finds another inode; whatever isn't exactly as known is left to `folder`, which opens
//! each folder by itself and follows nothing. Not for folders whose rules are to be read, or whose verdicts are asked again.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::folder::is_steady;
use super::place::{Base, Here, Task};
use super::rules::{View, is_from_rows, is_hidden};
use super::sys::{open_dir, stat_name, stat_open};
use super::{Local, Scan};
use crate::error::Result;
use crate::ignore::names::may_fold_to_git;
use crate::index::{NodeId, flag};
use crate::watch::is_plain_folder;
use crate::wire::{Reason, RelPath, StatKey};

/// Components below an open folder by which names are looked up, at most. Guessed: each costs the kernel 50 ns a name.
const DEPTH: usize = 3;
/// A folder with more names than this is opened: it saves each of them a component. Guessed.
const MANY: usize = 64;
const MARKS: u32 = flag::DESPITE | flag::HELD;

/// What a glance at a folder says.
pub(super) enum Glance {
    /// All is as it was; folders below are among the tasks.
    Known,
    /// To be entered.
    Unclear,
}

enum Child {
    Same,
    Folder,
    Look,
}

/// Folders that have rules of their own in the snapshot of the last boundary.
pub(super) fn ruled_folders(view: &View) -> HashSet<RelPath> {
    match view {
        View::Renewed { old: Some(old), .. } => old.ruled_folders(),
        _ => HashSet::new(),
    }
}

/// A path below an open folder, as system calls take it. Kept from folder to folder.
#[derive(Default)]
pub(crate) struct Lookup {
    bytes: Vec<u8>,
    /// Bytes of the folder's own path.
    folder: usize,
}

impl Lookup {
    /// Names are in `folder` from here on: a path below the open one, empty for that itself.
    fn enter(&mut self, folder: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(folder);
        self.folder = folder.len();
    }

    fn stat_folder(&mut self, open: BorrowedFd<'_>) -> Option<StatKey> {
        if self.folder == 0 {
            return stat_open(open).ok();
        }
        self.bytes.truncate(self.folder);
        self.stat(open)
    }

    fn stat_in(&mut self, open: BorrowedFd<'_>, name: &[u8]) -> Option<StatKey> {
        self.bytes.truncate(self.folder);
        if self.folder > 0 {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(name);
        self.stat(open)
    }

    fn stat(&mut self, open: BorrowedFd<'_>) -> Option<StatKey> {
        self.bytes.push(0);
        stat_name(open, CStr::from_bytes_with_nul(&self.bytes).ok()?).ok()
    }
}

impl Scan<'_> {
    /// Looks at a folder and at its names; folders below go to `made`.
    pub(super) fn glance(&self, local: &mut Local, task: &Task, made: &mut Vec<Task>) -> Result<Glance> {
        let Some(node) = task.node.filter(|node| self.can_glance(task, *node)) else {
            return Ok(Glance::Unclear);
        };
        local.counters.stat_calls += 1;
        local.lookup.enter(task.below_base());
        let Some(stat) = local.lookup.stat_folder(task.base.fd.as_fd()) else {
            return Ok(Glance::Unclear);
        };
        let armed = self.watch.is_none_or(|watch| watch.is_armed(&task.path, &stat));
        if !is_steady(self.index.entry(node), &stat)
            || stat.dev != task.dev
            || self.clock.is_racy(&stat)
            || !armed
        {
            return Ok(Glance::Unclear);
        }
        let children = self.index.children(node);
        let Some(base) = self.base_for(local, task, (&stat, children.len())) else {
            return Ok(Glance::Unclear);
        };
        let before = made.len();
        let mut unclear = Vec::new();
        local.lookup.enter(base.rest(&task.path));
        for child in children {
            match self.child(local, (task, &base), *child) {
                Child::Same => {}
                Child::Folder => made.push(self.task_below(task, &base, *child)),
                Child::Look => unclear.push(*child),
            }
        }
        if !unclear.is_empty() && !self.look_closer(local, (task, &stat), &unclear, made) {
            made.truncate(before);
            return Ok(Glance::Unclear);
        }
        local.counters.entries += children.len() as u64;
        self.count_entries(children.len() as u64)?;
        Ok(Glance::Known)
    }

    fn can_glance(&self, task: &Task, node: NodeId) -> bool {
        let ctx = &task.ctx;
        let plain = task.before.is_none() && ctx.entering.is_none() && !ctx.incomplete && !ctx.changed;
        plain
            && !self.rehash
            && task.marks == self.index.entry(node).flags & MARKS
            && (!self.view_renews() || !self.has_rules(task, node))
    }

    /// Rules of its own, now or at the last boundary; or it is hidden, and rules say in what way.
    fn has_rules(&self, task: &Task, node: NodeId) -> bool {
        let holds = |name: &[u8]| self.index.child(node, name).is_some();
        task.marks != 0 || self.ruled.contains(&task.path) || holds(b".gitignore") || holds(b".git")
    }

    /// Where the names of a folder are looked up from: the folder above that is open, or the folder itself, opened.
    /// None where another is opened.
    fn base_for(&self, local: &mut Local, task: &Task, (stat, names): (&StatKey, usize)) -> Option<Base> {
        let below = task.below_base();
        let depth = below.iter().filter(|b| **b == b'/').count() + usize::from(!below.is_empty());
        if depth == 0 || (depth < DEPTH && names <= MANY) {
            return Some(task.base.clone());
        }
        let fd = open_dir(task.base.fd.as_fd(), below).ok()?;
        local.counters.stat_calls += 1;
        (stat_open(fd.as_fd()) == Ok(*stat)).then(|| Base {
            fd: Arc::new(fd),
            len: task.path.len() + 1,
        })
    }

    fn child(&self, local: &mut Local, (task, base): (&Task, &Base), child: NodeId) -> Child {
        let (entry, name) = (self.index.entry(child), self.index.name(child));
        if self.view_renews() && !entry.is(Reason::Git) && self.asks(&task.ctx, entry) {
            return Child::Look;
        }
        if is_hidden(entry) && (name == b".git" || may_fold_to_git(name)) {
            return Child::Look;
        }
        if entry.has(flag::IGNORED) {
            return Child::Same;
        }
        if !entry.is_known() || is_from_rows(entry) {
            return Child::Look;
        }
        if task.ctx.shallow && is_plain_folder(entry) {
            return Child::Same;
        }
        if entry.is_entered() {
            return Child::Folder;
        }
        local.counters.stat_calls += 1;
        let Some(stat) = local.lookup.stat_in(base.fd.as_fd(), name) else {
            return Child::Look;
        };
        let trusted = entry.stat == stat && !entry.has(flag::UNTRUSTED | flag::WRITERS);
        let same = match entry.reason() {
            Some(Reason::Git) => entry.same_identity(&stat),
            _ => trusted && self.is_settled(entry, &stat, task.dev),
        };
        if same { Child::Same } else { Child::Look }
    }

    fn task_below(&self, task: &Task, base: &Base, child: NodeId) -> Task {
        Task {
            node: Some(child),
            path: self.path_below(&task.path, child),
            base: base.clone(),
            dev: task.dev,
            before: None,
            marks: self.index.entry(child).flags & MARKS,
            ctx: task.ctx.deep(),
        }
    }

    /// Opens the folder for the names that are not plainly as they were; false where it is another by now.
    fn look_closer(
        &self,
        local: &mut Local,
        (task, stat): (&Task, &StatKey),
        unclear: &[NodeId],
        made: &mut Vec<Task>,
    ) -> bool {
        let Ok(fd) = self.holder(task).and_then(|holder| self.open(task, &holder)) else {
            return false;
        };
        local.counters.stat_calls += 1;
        if stat_open(fd.as_fd()) != Ok(*stat) {
            return false;
        }
        let fd = Arc::new(fd);
        let here = Here {
            fd: fd.as_fd(),
            shared: &fd,
            path: &task.path,
            dev: task.dev,
            ctx: self.enter_rules(task, fd.as_fd(), None),
        };
        self.known_names(local, &here, unclear, made);
        true
    }
}
