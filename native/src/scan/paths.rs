//! A look at named paths only: each by its own entry, with the folders above that the index lacks.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::place::{Ctx, Here, Task};
use super::sys::{Names, open_dir_beneath, stat_bytes};
use super::{Local, Scan};
use crate::error::Result;
use crate::ignore::names::{base_name, parent_of};
use crate::index::{NodeId, flag};
use crate::wire::{ProblemKind, Reason, RelPath};

/// A look at named paths under way.
struct Named<'m> {
    seen: BTreeSet<RelPath>,
    made: &'m mut Vec<Task>,
    /// The folder of the path before.
    last: Option<Opened>,
}

struct Opened {
    path: RelPath,
    fd: Arc<OwnedFd>,
    ctx: Ctx,
    /// Known names that were not found in it.
    gone: Vec<NodeId>,
}

impl Opened {
    fn here(&self, dev: u64) -> Here<'_> {
        Here {
            fd: self.fd.as_fd(),
            shared: &self.fd,
            path: &self.path,
            dev,
            ctx: self.ctx.clone(),
        }
    }
}

impl Scan<'_> {
    /// Looks at each path. What is found of one path is found once.
    pub(crate) fn look_at(&self, paths: &[RelPath]) -> Result<Local> {
        let mut local = Local::default();
        self.look_at_each(&mut local, paths, &mut Vec::new())?;
        Ok(local)
    }

    /// The same; folders that are to be entered go to `made`. Paths that are sorted open each folder once.
    pub(super) fn look_at_each<'p>(
        &self,
        local: &mut Local,
        paths: impl IntoIterator<Item = &'p RelPath>,
        made: &mut Vec<Task>,
    ) -> Result<()> {
        let mut named = Named {
            seen: BTreeSet::new(),
            made,
            last: None,
        };
        for path in paths {
            self.work.cancel.check()?;
            self.look_at_one(local, path, &mut named);
        }
        self.leave_last(local, &mut named);
        Ok(())
    }

    fn look_at_one(&self, local: &mut Local, path: &[u8], named: &mut Named<'_>) {
        if path.is_empty() || !named.seen.insert(path.to_vec()) {
            return;
        }
        if named
            .last
            .as_ref()
            .is_none_or(|last| last.path != parent_of(path))
        {
            self.leave_last(local, named);
            named.last = self.open_holder(local, path, named);
        }
        let Some(last) = &mut named.last else { return };
        local.counters.entries += 1;
        let here = last.here(self.root.dev);
        let Some(node) = self.index.find(path) else {
            return self.fresh_if_there(local, &here, path, named.made);
        };
        let there = self.plainly(local, &here, node, named.made).unwrap_or_else(|| {
            let kind = stat_bytes(here.fd, base_name(path)).ok().map(|stat| stat.kind);
            self.known(local, &here, (node, kind), named.made)
        });
        if !there {
            last.gone.push(node);
        }
    }

    /// Opens the folder that holds a path; none where that is no folder that is looked into, which is told.
    fn open_holder(&self, local: &mut Local, path: &[u8], named: &mut Named<'_>) -> Option<Opened> {
        let folder = parent_of(path);
        let fd = match open_dir_beneath(self.root.fd.as_fd(), folder) {
            Ok(fd) => Arc::new(fd),
            Err(error) => {
                let gone = matches!(
                    error.raw_os_error(),
                    Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)
                );
                if gone {
                    // The folder itself is gone or no folder: to look at it says what became of this path.
                    self.look_at_folder(local, folder, named);
                } else if self.index.find(path).is_some() {
                    local.problem(path, ProblemKind::UnreadableDir, error);
                }
                return None;
            }
        };
        if !folder.is_empty() && !self.is_known_folder(folder) {
            self.look_at_folder(local, folder, named);
        }
        if !folder.is_empty() && !self.is_entered(local, folder) {
            return None;
        }
        Some(Opened {
            path: folder.to_vec(),
            fd,
            ctx: self.ctx_of(folder),
            gone: Vec::new(),
        })
    }

    fn look_at_folder(&self, local: &mut Local, folder: &[u8], named: &mut Named<'_>) {
        self.look_at_one(local, folder, named);
        self.leave_last(local, named);
    }

    /// Says of the names that were not in the last folder that they are gone, once it was read.
    fn leave_last(&self, local: &mut Local, named: &mut Named<'_>) {
        if let Some(last) = named.last.take() {
            self.confirm_gone(local, &last.here(self.root.dev), &last.gone);
        }
    }

    fn fresh_if_there(&self, local: &mut Local, here: &Here<'_>, path: &[u8], made: &mut Vec<Task>) {
        let name = base_name(path);
        // A path that was never there is no problem.
        let kind = match stat_bytes(here.fd, name) {
            Ok(stat) => Some(stat.kind),
            Err(Errno::NOENT | Errno::NOTDIR) => return,
            Err(error) => {
                // The folder can tell of a name that can't be looked at.
                let mut names = Names::default();
                match names.read(here.fd) {
                    Ok(()) if !names.has(name) => return,
                    Ok(()) => None,
                    Err(_) => return local.problem(path, ProblemKind::UnreadableDir, error),
                }
            }
        };
        self.fresh(local, here, (name, kind, None), made);
    }

    fn is_known_folder(&self, folder: &[u8]) -> bool {
        self.index
            .find(folder)
            .is_some_and(|node| self.index.entry(node).is_entered())
    }

    /// Names below a folder that is hidden, or no folder, are not looked at.
    fn is_entered(&self, local: &Local, folder: &[u8]) -> bool {
        match local.found.iter().rev().find(|(path, _)| path == folder) {
            Some((_, pending)) => pending.entry.is_some_and(|entry| entry.is_entered()),
            None => self
                .index
                .find(folder)
                .is_some_and(|node| self.index.entry(node).is_entered()),
        }
    }

    /// What the folders above hand down, as the index has them.
    pub(super) fn ctx_of(&self, folder: &[u8]) -> Ctx {
        let mut ctx = Ctx {
            changed: self.view_renews(),
            ..Ctx::default()
        };
        let mut path = folder;
        while !path.is_empty() {
            if let Some(node) = self.index.find(path) {
                self.take_ctx(&mut ctx, path, node);
            }
            path = parent_of(path);
        }
        ctx
    }

    fn take_ctx(&self, ctx: &mut Ctx, path: &[u8], node: NodeId) {
        let entry = self.index.entry(node);
        if ctx.inside == crate::rules::Inside::No {
            ctx.inside = self.inside_of(path, entry.flags & (flag::DESPITE | flag::HELD));
        }
        if let Some(reason) = entry.reason() {
            ctx.entering = ctx.entering.or(Some(reason));
            ctx.incomplete |= reason == Reason::Unreadable;
        }
    }
}
