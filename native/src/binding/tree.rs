//! N-API glue of the tree handle (docs/addon.md, NativeTree).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use napi::Env;
use napi::bindgen_prelude::{Object, ToNapiValue};
use napi_derive::napi;

use super::segments::{NativeSegments, hash_of, path_of};
use crate::error::{EngineError, Result};
use crate::rules::Sources;
use crate::scan::{Limits, Request, cores};
use crate::task::{self, Answer, Bytes, CancelToken, ProgressFn, Queue, Work};
use crate::tree::{Options, Scanned, Tree};
use crate::wire::{
    Hash, Position, Reader, Writer, decode_paths, decode_versions, encode_changes, encode_paths,
    encode_versions,
};
use crate::{borrow, ingest, segment::SegmentStore};

#[napi]
pub struct NativeTree {
    /// None once closed.
    tree: Arc<Mutex<Option<Tree>>>,
    queue: Queue,
}

fn options_of(bytes: &[u8]) -> Result<Options> {
    let mut reader = Reader::new(bytes);
    let (root, index_file) = (path_of(&reader.name()?), path_of(&reader.name()?));
    let store_id = reader.array()?;
    let skip = read_paths(&mut reader)?;
    let (max_file_bytes, max_entries) = (reader.u64()?, reader.u64()?);
    let limits = Limits {
        skip,
        max_file_bytes,
        max_entries,
        scratch: path_of(&reader.name()?),
        #[cfg(test)]
        clock: None,
        threads: cores(),
    };
    // How paths are resolved is the hands' concern.
    reader.u8()?;
    reader.end()?;
    Ok(Options {
        root,
        index_file,
        store_id,
        limits,
    })
}

#[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
pub fn open_tree<'env>(
    env: &'env Env,
    segments: &NativeSegments,
    options: &[u8],
) -> napi::Result<Object<'env>> {
    let store: Arc<SegmentStore> = segments.store();
    let options = options.to_vec();
    task::start_handle(env, "tree", move |queue| {
        let tree = Tree::open(options_of(&options)?, store)?;
        Ok(NativeTree {
            tree: Arc::new(Mutex::new(Some(tree))),
            queue,
        })
    })
}

#[napi(object, object_from_js = false)]
pub struct LoadedAhead {
    pub at: Option<Bytes>,
    pub rules: Option<Bytes>,
}

impl NativeTree {
    /// A handle that is there at once; its thread opens the tree, loads the index and scans, and answers what
    /// `load` and `rules`, then what `scan` would. A tree that can't be opened is closed. Without an index there is no scan.
    pub fn begun(
        queue: Queue,
        (options, store): (&[u8], Arc<SegmentStore>),
        (loaded, scan): (Answer<LoadedAhead>, Answer<Bytes>),
    ) -> Result<Self> {
        let handle = NativeTree {
            tree: Arc::new(Mutex::new(None)),
            queue,
        };
        let (options, place) = (options.to_vec(), handle.tree.clone());
        handle.queue.run(move || {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            let opened = task::guarded(|| {
                let tree = place.insert(Tree::open(options_of(&options)?, store)?);
                let at = tree.load().map(position_bytes);
                let rules = tree.rules().map(Bytes);
                Ok((at.is_some(), LoadedAhead { at, rules }))
            });
            let has_index = opened.as_ref().is_ok_and(|(has_index, _)| *has_index);
            loaded.give(opened.map(|(_, loaded)| loaded));
            scan.give(task::guarded(|| match place.as_mut() {
                Some(tree) if has_index => Ok(scanned(&tree.scan(Request::default(), &Work::default())?)),
                _ => Err(EngineError::cancelled()),
            }));
        })?;
        Ok(handle)
    }
}

fn position_of(bytes: &[u8]) -> Result<Position> {
    let mut reader = Reader::new(bytes);
    let position = Position {
        seq: reader.u64()?,
        observation: reader.array()?,
    };
    reader.end()?;
    Ok(position)
}

/// A path list that stands among other fields.
fn read_paths(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>> {
    let count = reader.count(4)?;
    (0..count).map(|_| reader.name()).collect()
}

fn scan_request(bytes: &[u8]) -> Result<Request> {
    let mut reader = Reader::new(bytes);
    let flags = reader.u8()?;
    let has = |bit: u8| flags & bit != 0;
    let mut request = Request {
        rehash: has(8),
        ..Request::default()
    };
    if has(1) {
        request.renew = Some(Sources::from_json(reader.bytes()?)?);
    }
    if has(2) {
        request.hold = read_paths(&mut reader)?;
    }
    if has(4) {
        request.only = Some(read_paths(&mut reader)?);
    }
    reader.end()?;
    Ok(request)
}

fn ingest_request(bytes: &[u8]) -> Result<ingest::Request> {
    let mut reader = Reader::new(bytes);
    let flags = reader.u8()?;
    let has = |bit: u8| flags & bit != 0;
    let mut request = ingest::Request {
        hash_only: has(4),
        ..ingest::Request::default()
    };
    if has(1) {
        let ms = u64::try_from(reader.i64()?).unwrap_or(0);
        request.deadline = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    }
    if has(2) {
        request.first = read_paths(&mut reader)?;
    }
    if has(8) {
        request.borrow = Some(borrow::Sources {
            top: path_of(&reader.name()?),
            git_dir: path_of(&reader.name()?),
            common_dir: path_of(&reader.name()?),
            attributes: read_paths(&mut reader)?
                .iter()
                .map(|path| path_of(path))
                .collect(),
        });
    }
    if has(16) {
        let count = reader.count(size_of::<Hash>())?;
        request.stored = (0..count).map(|_| reader.array()).collect::<Result<_>>()?;
    }
    reader.end()?;
    Ok(request)
}

fn scanned(scanned: &Scanned) -> Bytes {
    let mut writer = Writer::new();
    let counters = &scanned.counters;
    writer.u32(scanned.set).u64(scanned.files).u64(scanned.suspects);
    writer
        .u64(counters.entries)
        .u64(counters.stat_calls)
        .u64(counters.dirs_read)
        .u64(counters.rules_evaluated);
    writer.problems(&scanned.problems);
    Bytes(writer.done())
}

fn ingested(result: &ingest::Ingested) -> Bytes {
    let mut writer = Writer::new();
    writer
        .u64(result.files_hashed)
        .u64(result.stored_files)
        .u64(result.stored_bytes)
        .u64(result.borrowed)
        .u64(result.left);
    writer.problems(&result.problems);
    Bytes(writer.done())
}

fn position_bytes(position: Position) -> Bytes {
    let mut writer = Writer::new();
    writer.position(&position);
    Bytes(writer.done())
}

impl NativeTree {
    fn run<'env, T, F>(&self, env: &'env Env, body: F) -> napi::Result<Object<'env>>
    where
        T: ToNapiValue + Send + 'static,
        F: FnOnce(&mut Tree) -> Result<T> + Send + 'static,
    {
        let tree = self.tree.clone();
        task::start(env, &self.queue, move || {
            // A panic leaves at worst a set that is dropped or an index that lags; both are found out.
            let mut tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
            body(tree.as_mut().ok_or_else(|| EngineError::closed("the tree"))?)
        })
    }
}

#[napi]
impl NativeTree {
    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn load<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        self.run(env, |tree| Ok(tree.load().map(position_bytes)))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn reset<'env>(
        &self,
        env: &'env Env,
        manifest: Option<&[u8]>,
        at: Option<&[u8]>,
    ) -> napi::Result<Object<'env>> {
        let manifest = manifest.map(hash_of).transpose();
        let at = at.map(position_of).transpose();
        self.run(env, move |tree| tree.reset(manifest?.as_ref(), at?))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn catch_up<'env>(&self, env: &'env Env, rows: &[u8], at: &[u8]) -> napi::Result<Object<'env>> {
        let rows = decode_versions(rows);
        let at = position_of(at);
        self.run(env, move |tree| {
            tree.catch_up(&rows?, at?);
            Ok(())
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn rules<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        self.run(env, |tree| Ok(tree.rules().map(Bytes)))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn set_rules<'env>(&self, env: &'env Env, snapshot: &[u8]) -> napi::Result<Object<'env>> {
        let snapshot = snapshot.to_vec();
        self.run(env, move |tree| tree.set_rules(&snapshot))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn scan<'env>(
        &self,
        env: &'env Env,
        options: &[u8],
        token: Option<&CancelToken>,
        progress: Option<ProgressFn<'_>>,
    ) -> napi::Result<Object<'env>> {
        let request = scan_request(options);
        let work = Work::new(token, progress)?;
        self.run(env, move |tree| Ok(scanned(&tree.scan(request?, &work)?)))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn watch<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        self.run(env, |tree| Ok(tree.watch().unwrap_or_default()))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn ingest<'env>(
        &self,
        env: &'env Env,
        set: u32,
        options: &[u8],
        token: Option<&CancelToken>,
        progress: Option<ProgressFn<'_>>,
    ) -> napi::Result<Object<'env>> {
        let request = ingest_request(options);
        let work = Work::new(token, progress)?;
        self.run(env, move |tree| {
            Ok(ingested(&tree.ingest(set, &request?, &work)?))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn look<'env>(&self, env: &'env Env, set: u32, paths: &[u8]) -> napi::Result<Object<'env>> {
        let paths = decode_paths(paths);
        self.run(env, move |tree| tree.look(set, &paths?, &Work::default()))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn changes<'env>(&self, env: &'env Env, set: u32) -> napi::Result<Object<'env>> {
        self.run(env, move |tree| Ok(Bytes(encode_changes(&tree.changes(set)?))))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn moves<'env>(&self, env: &'env Env, set: u32) -> napi::Result<Object<'env>> {
        self.run(env, move |tree| {
            let moves = tree.moves(set)?;
            let mut writer = Writer::new();
            writer.count(moves.len());
            for (from, to) in &moves {
                writer.bytes(from).bytes(to);
            }
            Ok(Bytes(writer.done()))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn uncovered<'env>(&self, env: &'env Env, set: u32) -> napi::Result<Object<'env>> {
        self.run(env, move |tree| {
            let paths = tree.uncovered(set)?;
            let mut writer = Writer::new();
            writer.count(paths.len());
            for (path, reason) in &paths {
                writer.bytes(path).u8(reason.map_or(8, |reason| reason as u8));
            }
            Ok(Bytes(writer.done()))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn manifest<'env>(&self, env: &'env Env, set: u32) -> napi::Result<Object<'env>> {
        self.run(env, move |tree| {
            let (hash, entries) = tree.manifest(set)?;
            let mut writer = Writer::new();
            writer.raw(&hash).u64(entries);
            Ok(Bytes(writer.done()))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn commit<'env>(&self, env: &'env Env, set: u32, at: &[u8]) -> napi::Result<Object<'env>> {
        let at = position_of(at);
        self.run(env, move |tree| tree.commit(set, at?))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn discard<'env>(&self, env: &'env Env, set: u32) -> napi::Result<Object<'env>> {
        self.run(env, move |tree| {
            tree.discard(set);
            Ok(())
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn versions<'env>(&self, env: &'env Env, paths: &[u8]) -> napi::Result<Object<'env>> {
        let paths = decode_paths(paths);
        self.run(env, move |tree| {
            let paths = paths?;
            let versions = tree.versions(&paths);
            let pairs = paths.iter().map(Vec::as_slice).zip(&versions);
            Ok(Bytes(encode_versions(pairs.collect::<Vec<_>>().into_iter())))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn list<'env>(&self, env: &'env Env, folder: &[u8]) -> napi::Result<Object<'env>> {
        let folder = folder.to_vec();
        self.run(env, move |tree| Ok(Bytes(encode_paths(&tree.list(&folder)))))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn included<'env>(&self, env: &'env Env, paths: &[u8]) -> napi::Result<Object<'env>> {
        let paths = decode_paths(paths);
        self.run(env, move |tree| {
            Ok(Bytes(
                paths?.iter().map(|path| u8::from(tree.included(path))).collect(),
            ))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let tree = self.tree.clone();
        let closing = task::start(env, &self.queue, move || {
            tree.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok(())
        });
        self.queue.close();
        closing
    }
}
