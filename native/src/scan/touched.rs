//! A look within a turn at what events told of, and at what they don't tell of, instead of a walk. And what any scan of a
//! watched tree does for the next one: a watch on each folder that it enters.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::place::{Base, Ctx, Here, Task};
use super::sys::stat_links;
use super::{Local, Scan, walk};
use crate::error::Result;
use crate::ignore::names::{join, parent_of};
use crate::index::flag;
use crate::watch::{Armed, Touched};
use crate::wire::{FileKind, RelPath, StatKey, Version};

impl Scan<'_> {
    /// Looks where it is told to; everywhere, where what it finds there raises a doubt.
    pub(super) fn look_where(&self, touched: &Touched) -> Result<Vec<Local>> {
        let mut locals = if self.rehash {
            Vec::new()
        } else {
            self.look_there(touched)?
        };
        if !self.rehash && !self.is_in_doubt(&locals) {
            return Ok(locals);
        }
        let mut watched = super::set::Watched {
            walked: true,
            ..Default::default()
        };
        locals
            .iter_mut()
            .for_each(|local| watched.add(&mut local.watched));
        let mut walked = walk::run(self, vec![Task::root(self)])?;
        walked.push(Local {
            watched,
            ..Local::default()
        });
        Ok(walked)
    }

    fn look_there(&self, touched: &Touched) -> Result<Vec<Local>> {
        let mut local = Local::default();
        let mut tasks: Vec<Task> = touched
            .folders
            .iter()
            .filter_map(|folder| self.shallow(folder))
            .collect();
        self.look_at_each(&mut local, &touched.paths, &mut tasks)?;
        let mut locals = match tasks.is_empty() {
            true => Vec::new(),
            false => walk::run(self, tasks)?,
        };
        locals.push(local);
        Ok(locals)
    }

    /// A file that has names which nobody knows may have changed by those; and only a walk counts all entries.
    fn is_in_doubt(&self, locals: &[Local]) -> bool {
        let linked = |local: &Local| {
            self.watch
                .is_some_and(|watch| !watch.knows_links(&local.watched.linked))
        };
        let came = |local: &Local| {
            local
                .found
                .iter()
                .filter(|(_, found)| found.before == Version::Absent)
                .count() as u64
        };
        locals.iter().any(linked)
            || self.index.known() + locals.iter().map(came).sum::<u64>() > self.limits.max_entries
    }

    /// A known folder and its names, without the folders in it.
    fn shallow(&self, path: &RelPath) -> Option<Task> {
        let node = self.index.find(path)?;
        Some(Task {
            node: Some(node),
            path: path.clone(),
            base: Base {
                fd: self.root.fd.clone(),
                len: 0,
            },
            dev: self.root.dev,
            before: None,
            marks: self.index.entry(node).flags & (flag::DESPITE | flag::HELD),
            ctx: Ctx {
                shallow: true,
                ..self.ctx_of(parent_of(path))
            },
        })
    }

    /// Puts a watch on a folder that is open, where events are to tell of it and it has none.
    pub(super) fn arm(&self, local: &mut Local, (path, stat): (&RelPath, &StatKey), fd: BorrowedFd<'_>) {
        let Some(watch) = self.watch.filter(|watch| !watch.is_armed(path, stat)) else {
            return;
        };
        match watch.arm(fd) {
            Ok(wd) => local.watched.armed.push(Armed {
                path: path.clone(),
                wd,
                ino: stat.ino,
            }),
            Err(error) => local.watched.failed = Some(error),
        }
    }

    /// Stats a name. Of a file with other names that is noted, where events are to tell of it: what is written by those
    /// gives none here.
    pub(super) fn stat_linked(
        &self,
        local: &mut Local,
        here: &Here<'_>,
        name: &[u8],
    ) -> std::result::Result<StatKey, Errno> {
        let (stat, links) = stat_links(here.fd, name)?;
        if links > 1 && stat.kind == FileKind::File && self.watch.is_some() {
            local.watched.linked.push(join(here.path, name));
        }
        Ok(stat)
    }
}
