//! N-API glue of the blob store (docs/addon.md, NativeSegments).

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::{BigInt, Object};
use napi_derive::napi;

use crate::error::{Code, EngineError, Result};
use crate::segment::{SegmentStore, Verified};
use crate::task::{self, Bytes, CancelToken, ProgressFn, Queue, Work};
use crate::wire::{Hash, Writer};

#[napi]
pub struct NativeSegments {
    store: Arc<SegmentStore>,
    queue: Queue,
}

#[napi(object)]
pub struct SegmentStats {
    pub segments: f64,
    pub blobs: f64,
    pub bytes: f64,
}

#[napi(object)]
pub struct SegmentsCollected {
    pub freed_bytes: f64,
    pub kept_bytes: f64,
}

/// A path that JavaScript gave as raw bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// One hash of 16 bytes.
pub fn hash_of(bytes: &[u8]) -> Result<Hash> {
    bytes
        .try_into()
        .map_err(|_| EngineError::new(Code::InvalidArgument, "a hash is 16 bytes"))
}

fn hashes_of(bytes: &[u8]) -> Result<Vec<Hash>> {
    bytes.chunks(16).map(hash_of).collect()
}

#[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
pub fn open_segments<'env>(env: &'env Env, dir: &[u8], seed: BigInt) -> napi::Result<Object<'env>> {
    let dir = path_of(dir);
    let seed = seed_of(&seed);
    task::start_handle(env, "segments", move |queue| {
        let store = Arc::new(SegmentStore::open(&dir, seed?)?);
        Ok(NativeSegments { store, queue })
    })
}

pub fn seed_of(seed: &BigInt) -> Result<u64> {
    match seed.get_u64() {
        (false, seed, true) => Ok(seed),
        _ => Err(EngineError::new(
            Code::InvalidArgument,
            "the seed is an unsigned 64-bit number",
        )),
    }
}

impl NativeSegments {
    /// A handle of a store that is open.
    pub fn of(store: Arc<SegmentStore>) -> Result<Self> {
        Ok(NativeSegments {
            store,
            queue: Queue::new("segments")?,
        })
    }

    /// For the handles that read and store blobs.
    pub fn store(&self) -> Arc<SegmentStore> {
        self.store.clone()
    }

    fn run<'env, T, F>(&self, env: &'env Env, body: F) -> napi::Result<Object<'env>>
    where
        T: napi::bindgen_prelude::ToNapiValue + Send + 'static,
        F: FnOnce(&SegmentStore) -> Result<T> + Send + 'static,
    {
        let store = self.store.clone();
        task::start(env, &self.queue, move || body(&store))
    }
}

#[napi]
impl NativeSegments {
    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn put<'env>(&self, env: &'env Env, bytes: &[u8]) -> napi::Result<Object<'env>> {
        let bytes = bytes.to_vec();
        self.run(env, move |store| Ok(Bytes(store.put(&bytes)?.hash.to_vec())))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn read<'env>(&self, env: &'env Env, hash: &[u8]) -> napi::Result<Object<'env>> {
        let hash = hash_of(hash);
        self.run(env, move |store| Ok(Bytes(store.read(&hash?)?)))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn has<'env>(&self, env: &'env Env, hashes: &[u8]) -> napi::Result<Object<'env>> {
        let hashes = hashes_of(hashes);
        self.run(env, move |store| {
            store.refresh()?;
            Ok(Bytes(
                hashes?.iter().map(|hash| u8::from(store.has(hash))).collect(),
            ))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn sync<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        self.run(env, |store| store.sync())
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn stats<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        self.run(env, |store| {
            store.refresh()?;
            let stats = store.stats();
            Ok(SegmentStats {
                segments: stats.segments as f64,
                blobs: stats.blobs as f64,
                bytes: stats.bytes as f64,
            })
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn verify<'env>(
        &self,
        env: &'env Env,
        token: Option<&CancelToken>,
        progress: Option<ProgressFn<'_>>,
    ) -> napi::Result<Object<'env>> {
        let work = Work::new(token, progress)?;
        self.run(env, move |store| Ok(Bytes(verified(&store.verify(&work)?))))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn collect<'env>(
        &self,
        env: &'env Env,
        live: &[u8],
        token: Option<&CancelToken>,
        progress: Option<ProgressFn<'_>>,
    ) -> napi::Result<Object<'env>> {
        let live = hashes_of(live);
        let work = Work::new(token, progress)?;
        self.run(env, move |store| {
            let collected = store.collect(&live?, &work)?;
            let (freed, kept) = (collected.freed_bytes as f64, collected.kept_bytes as f64);
            Ok(SegmentsCollected {
                freed_bytes: freed,
                kept_bytes: kept,
            })
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let closing = self.run(env, SegmentStore::close);
        self.queue.close();
        closing
    }
}

fn verified(verified: &Verified) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u64(verified.checked).count(verified.problems.len());
    for problem in &verified.problems {
        match &problem.hash {
            Some(hash) => writer.u8(1).raw(hash),
            None => writer.u8(0),
        };
        writer
            .bytes(problem.segment.as_bytes())
            .bytes(problem.detail.as_bytes());
    }
    writer.done()
}
