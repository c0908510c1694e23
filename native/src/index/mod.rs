//! The index: current versions and stat keys of a tree, as a tree.
//!
//! Nodes lie in one array, names (each with a NUL behind it, ready for a system call) in another; folders list their
//! children sorted by name bytes. It is a cache of the timeline: `file` keeps it on disk, and whatever is wrong with
//! that file costs a rescan and no more. Knows nothing of disks, rules or rows.

pub mod entry;
pub mod file;

use std::borrow::Borrow;
use std::ffi::CStr;

pub use entry::{BORROWED, Entry, flag, kind};
pub use file::IndexFile;

use crate::ignore::names::join;
use crate::wire::{Position, RelPath, Version};

/// A node's number. The root is 0.
pub type NodeId = u32;

const ROOT: NodeId = 0;

#[derive(Debug, Clone)]
struct Node {
    name_at: u32,
    name_len: u16,
    parent: NodeId,
    entry: Entry,
    /// Apart, for most nodes are files: what they have not got would cost each of them a third more.
    more: Option<Box<More>>,
}

/// What folders and links have beside their entry.
#[derive(Debug, Clone, Default)]
struct More {
    /// Target of a symlink.
    extra: Box<[u8]>,
    /// Sorted by name bytes.
    children: Vec<NodeId>,
}

impl Node {
    fn new((name_at, name_len): (u32, u16), parent: NodeId, entry: Entry) -> Self {
        Node {
            name_at,
            name_len,
            parent,
            entry,
            more: None,
        }
    }

    fn children(&self) -> &[NodeId] {
        self.more.as_ref().map_or(&[], |more| &more.children)
    }

    fn take_children(&mut self) -> Vec<NodeId> {
        self.more
            .as_mut()
            .map_or_else(Vec::new, |more| std::mem::take(&mut more.children))
    }

    fn more_mut(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    fn set_extra(&mut self, extra: Box<[u8]>) {
        if self.more.is_some() || !extra.is_empty() {
            self.more_mut().extra = extra;
        }
    }
}

/// Versions and stat keys by path.
#[derive(Debug, Clone)]
pub struct Index {
    nodes: Vec<Node>,
    names: Vec<u8>,
    free: Vec<NodeId>,
    covered_files: u64,
    known: u64,
    /// Where it stands; none for an empty tree before its first observation.
    pub at: Option<Position>,
    /// The file system's now of the newest scan.
    pub scanned_at_ns: i64,
}

/// One step of an index forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Put {
        path: RelPath,
        entry: Entry,
        extra: Vec<u8>,
    },
    /// With all below.
    Remove { path: RelPath },
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// An empty tree: only the root, which is to be read.
    pub fn new() -> Self {
        let root = Node::new((0, 0), ROOT, Entry::absent().with(flag::NOT_WHOLE));
        Index {
            nodes: vec![root],
            names: vec![0],
            free: Vec::new(),
            covered_files: 0,
            known: 0,
            at: None,
            scanned_at_ns: i64::MIN,
        }
    }

    pub fn root(&self) -> NodeId {
        ROOT
    }

    pub fn entry(&self, node: NodeId) -> &Entry {
        &self.nodes[node as usize].entry
    }

    pub fn extra(&self, node: NodeId) -> &[u8] {
        self.nodes[node as usize]
            .more
            .as_ref()
            .map_or(&[], |more| &more.extra)
    }

    pub fn version(&self, node: NodeId) -> Version {
        self.entry(node).version(self.extra(node))
    }

    pub fn children(&self, node: NodeId) -> &[NodeId] {
        self.nodes[node as usize].children()
    }

    pub fn parent(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].parent
    }

    pub fn name(&self, node: NodeId) -> &[u8] {
        let node = &self.nodes[node as usize];
        &self.names[node.name_at as usize..node.name_at as usize + node.name_len as usize]
    }

    /// The name, ready for a system call.
    pub fn c_name(&self, node: NodeId) -> &CStr {
        let node = &self.nodes[node as usize];
        let end = node.name_at as usize + node.name_len as usize + 1;
        CStr::from_bytes_with_nul(&self.names[node.name_at as usize..end]).unwrap_or(c"")
    }

    pub fn path(&self, node: NodeId) -> RelPath {
        if node == ROOT {
            return Vec::new();
        }
        join(&self.path(self.parent(node)), self.name(node))
    }

    pub fn child(&self, node: NodeId, name: &[u8]) -> Option<NodeId> {
        let children = self.children(node);
        children
            .binary_search_by(|child| self.name(*child).cmp(name))
            .ok()
            .map(|at| children[at])
    }

    pub fn find(&self, path: &[u8]) -> Option<NodeId> {
        if path.is_empty() {
            return Some(ROOT);
        }
        path.split(|b| *b == b'/')
            .try_fold(ROOT, |node, name| self.child(node, name))
    }

    /// The version at a path; absent where it has none.
    pub fn version_at(&self, path: &[u8]) -> Version {
        self.find(path).map_or(Version::Absent, |node| self.version(node))
    }

    /// Covered files and symlinks.
    pub fn covered_files(&self) -> u64 {
        self.covered_files
    }

    /// Paths that have a version.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// All below `node`, parents first, with their paths.
    pub fn below(&self, node: NodeId) -> Vec<(RelPath, NodeId)> {
        let mut out = Vec::new();
        let mut stack = vec![(self.path(node), node)];
        while let Some((path, node)) = stack.pop() {
            for child in self.children(node) {
                let path = join(&path, self.name(*child));
                if !self.children(*child).is_empty() {
                    stack.push((path.clone(), *child));
                }
                out.push((path, *child));
            }
        }
        out
    }

    /// Shows all below `node`, parents first, without a copy of a path.
    pub fn each_below(&self, node: NodeId, mut see: impl FnMut(&[u8], NodeId)) {
        let mut path = self.path(node);
        // Of each folder on the way: its children that are still to be seen, and how long its path is.
        let mut stack = vec![(self.children(node).iter(), path.len())];
        while let Some((rest, folder)) = stack.last_mut() {
            path.truncate(*folder);
            let Some(child) = rest.next() else {
                stack.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(self.name(*child));
            see(&path, *child);
            if !self.children(*child).is_empty() {
                stack.push((self.children(*child).iter(), path.len()));
            }
        }
    }

    /// Paths whose entries are wanted, the root's among them.
    pub fn paths_where(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<RelPath> {
        let mut found = Vec::new();
        if wanted(self.entry(ROOT)) {
            found.push(Vec::new());
        }
        self.each_below(ROOT, |path, node| {
            if wanted(self.entry(node)) {
                found.push(path.to_vec());
            }
        });
        found
    }

    /// Moves forward. Steps sorted by path are fastest.
    pub fn apply<S: Borrow<Step>>(&mut self, steps: impl IntoIterator<Item = S>) {
        let mut last: (RelPath, NodeId) = (Vec::new(), ROOT);
        for step in steps {
            match step.borrow() {
                Step::Put { path, entry, extra } => {
                    let folder = crate::ignore::names::parent_of(path);
                    if last.0 != folder {
                        last = (folder.to_vec(), self.ensure(folder));
                    }
                    let node = if path.is_empty() {
                        ROOT
                    } else {
                        self.ensure_child(last.1, path)
                    };
                    self.set(node, *entry, extra);
                }
                Step::Remove { path } => {
                    if let Some(node) = self.find(path) {
                        self.remove(node);
                    }
                    last = (Vec::new(), ROOT);
                }
            }
        }
    }

    fn ensure(&mut self, path: &[u8]) -> NodeId {
        if let Some(node) = self.find(path) {
            return node;
        }
        let parent = self.ensure(crate::ignore::names::parent_of(path));
        self.ensure_child(parent, path)
    }

    fn ensure_child(&mut self, parent: NodeId, path: &[u8]) -> NodeId {
        let name = crate::ignore::names::base_name(path);
        let children = self.children(parent);
        match children.binary_search_by(|child| self.name(*child).cmp(name)) {
            Ok(at) => children[at],
            Err(at) => {
                let node = self.add(parent, name);
                self.nodes[parent as usize].more_mut().children.insert(at, node);
                node
            }
        }
    }

    fn add(&mut self, parent: NodeId, name: &[u8]) -> NodeId {
        let place = (self.names.len() as u32, name.len() as u16);
        let node = Node::new(place, parent, Entry::absent());
        self.names.extend_from_slice(name);
        self.names.push(0);
        match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as NodeId
            }
        }
    }

    fn count(&mut self, node: NodeId, add: bool) {
        if node == ROOT {
            return;
        }
        let entry = self.entry(node);
        let (files, known) = (u64::from(entry.is_covered_file()), u64::from(entry.is_known()));
        if add {
            self.covered_files += files;
            self.known += known;
        } else {
            self.covered_files -= files;
            self.known -= known;
        }
    }

    fn set(&mut self, node: NodeId, entry: Entry, extra: &[u8]) {
        self.count(node, false);
        // What can't hold names holds none; an uncovered folder keeps what was known below it.
        let holds = entry.stat.kind == crate::wire::FileKind::Dir || !entry.is_known();
        if !holds {
            for child in self.nodes[node as usize].take_children() {
                self.drop_with_below(child);
            }
        }
        let slot = &mut self.nodes[node as usize];
        slot.entry = entry;
        slot.set_extra(extra.into());
        self.count(node, true);
    }

    fn remove(&mut self, node: NodeId) {
        if node == ROOT {
            return;
        }
        let parent = self.parent(node);
        self.nodes[parent as usize]
            .more_mut()
            .children
            .retain(|child| *child != node);
        self.drop_with_below(node);
    }

    fn drop_with_below(&mut self, node: NodeId) {
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            self.count(node, false);
            let slot = &mut self.nodes[node as usize];
            stack.append(&mut slot.take_children());
            slot.entry = Entry::absent();
            self.free.push(node);
        }
    }

    /// Forgets ignored names, so that rules are asked again, and has their folders read again.
    pub fn forget_ignored(&mut self) {
        for node in 0..self.nodes.len() as NodeId {
            let ignored: Vec<NodeId> = self
                .children(node)
                .iter()
                .copied()
                .filter(|c| self.entry(*c).has(flag::IGNORED))
                .collect();
            if ignored.is_empty() {
                continue;
            }
            ignored.into_iter().for_each(|child| self.remove(child));
            self.nodes[node as usize].entry.flags |= flag::UNTRUSTED;
        }
    }
}

#[cfg(test)]
mod tests;
