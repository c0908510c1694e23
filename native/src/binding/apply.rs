//! N-API glue of what reads and writes single paths (docs/addon.md, NativeHands).

use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

use super::segments::{NativeSegments, path_of};
use crate::apply::{self, ApplyEntry, ApplyRequest, Hands, HandsOptions, Outcome};
use crate::error::{Code, EngineError, Result};
use crate::journal::Durability;
use crate::path::Resolver;
use crate::peek::{self, Peek};
use crate::probe::Abilities;
use crate::recover::{self, Mode, RecoverRequest, Recovered};
use crate::task::{self, Bytes, CancelToken, ProgressFn, Queue, Work};
use crate::trash::{Trash, empty};
use crate::wire::{Reader, Writer, decode_paths};

/// Least bytes of an apply entry: an empty path, two absent versions and a flag.
const LEAST_ENTRY: usize = 7;

#[napi]
pub struct NativeHands {
    /// None once closed: the root's descriptor doesn't wait for the garbage collector.
    hands: Arc<Mutex<Option<Hands>>>,
    queue: Queue,
}

/// Opens a root for peek, apply and recovery.
#[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
pub fn open_hands<'env>(
    env: &'env Env,
    segments: &NativeSegments,
    options: &[u8],
) -> napi::Result<Object<'env>> {
    let store = segments.store();
    let options = options.to_vec();
    task::start_handle(env, "hands", move |queue| {
        let hands = Hands::open(store, read_options(&options)?)?;
        let hands = Arc::new(Mutex::new(Some(hands)));
        Ok(NativeHands { hands, queue })
    })
}

#[napi]
impl NativeHands {
    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn peek<'env>(
        &self,
        env: &'env Env,
        paths: &[u8],
        included: &[u8],
        token: Option<&CancelToken>,
        progress: Option<ProgressFn<'_>>,
    ) -> napi::Result<Object<'env>> {
        let work = Work::new(token, progress)?;
        let paths = paths.to_vec();
        let included: Vec<bool> = included.iter().map(|b| *b != 0).collect();
        self.run(env, move |hands| {
            let paths = decode_paths(&paths)?;
            Ok(Bytes(write_peeks(&peek::peek(hands, &paths, &included, &work)?)))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn apply<'env>(
        &self,
        env: &'env Env,
        request: &[u8],
        token: Option<&CancelToken>,
        progress: Option<ProgressFn<'_>>,
    ) -> napi::Result<Object<'env>> {
        let work = Work::new(token, progress)?;
        let request = request.to_vec();
        self.run(env, move |hands| {
            let outcomes = apply::apply(hands, read_apply(&request)?, &work)?;
            Ok(Bytes(write_outcomes(&outcomes)))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn recover<'env>(&self, env: &'env Env, request: &[u8]) -> napi::Result<Object<'env>> {
        let request = request.to_vec();
        self.run(env, move |hands| {
            let recovered = recover::recover(hands, &read_recover(&request)?, &Work::default())?;
            Ok(Bytes(write_recovered(&recovered)))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn finish<'env>(&self, env: &'env Env, journal: &[u8]) -> napi::Result<Object<'env>> {
        let journal = path_of(journal);
        self.run(env, move |hands| recover::finish(hands, &journal))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn abilities<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        self.run(env, |hands| Ok(Bytes(write_abilities(&hands.abilities()?))))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn empty_trash<'env>(&self, env: &'env Env, trash: &[u8]) -> napi::Result<Object<'env>> {
        let trash = path_of(trash);
        self.run(env, move |hands| {
            let trash = Trash::open(&hands.root, &trash)?;
            let emptied = empty::empty(&trash, &hands.store, &Work::default())?;
            let mut writer = Writer::new();
            writer
                .u64(emptied.freed)
                .u64(emptied.kept)
                .count(emptied.late.len());
            for (name, hash) in &emptied.late {
                writer.bytes(name).raw(hash);
            }
            Ok(Bytes(writer.done()))
        })
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let hands = self.hands.clone();
        let closed = task::start(env, &self.queue, move || {
            hands.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok(())
        });
        self.queue.close();
        closed
    }

    fn run<'env, T, F>(&self, env: &'env Env, body: F) -> napi::Result<Object<'env>>
    where
        T: napi::bindgen_prelude::ToNapiValue + Send + 'static,
        F: FnOnce(&Hands) -> Result<T> + Send + 'static,
    {
        let hands = self.hands.clone();
        task::start(env, &self.queue, move || {
            let hands = hands.lock().unwrap_or_else(PoisonError::into_inner);
            body(hands.as_ref().ok_or_else(|| EngineError::closed("the hands"))?)
        })
    }
}

fn invalid(what: &str) -> EngineError {
    EngineError::new(Code::InvalidArgument, what)
}

/// The options of `openTree`; those of the index are the tree's.
fn read_options(bytes: &[u8]) -> Result<HandsOptions> {
    let mut reader = Reader::new(bytes);
    let root = path_of(&reader.name()?);
    let _index_file = reader.name()?;
    reader.raw(16)?;
    for _ in 0..reader.count(4)? {
        reader.name()?;
    }
    let max_file_bytes = reader.u64()?;
    let _max_entries = reader.u64()?;
    let scratch = path_of(&reader.name()?);
    let resolver = match reader.u8()? {
        0 => Resolver::Auto,
        1 => Resolver::Component,
        _ => return Err(invalid("the resolver is 0 or 1")),
    };
    reader.end()?;
    Ok(HandsOptions {
        root,
        scratch,
        max_file_bytes,
        resolver,
    })
}

fn read_apply(bytes: &[u8]) -> Result<ApplyRequest> {
    let mut reader = Reader::new(bytes);
    let operation = reader.array()?;
    let journal = path_of(&reader.name()?);
    let trash = path_of(&reader.name()?);
    let durability = match reader.u8()? {
        0 => Durability::Full,
        1 => Durability::Fast,
        _ => return Err(invalid("the durability is 0 or 1")),
    };
    let mut entries = Vec::new();
    for _ in 0..reader.count(LEAST_ENTRY)? {
        entries.push(ApplyEntry {
            path: reader.name()?,
            expect: reader.version()?,
            target: reader.version()?,
            force: reader.u8()? != 0,
        });
    }
    reader.end()?;
    Ok(ApplyRequest {
        operation,
        journal,
        trash,
        durability,
        entries,
    })
}

fn read_recover(bytes: &[u8]) -> Result<RecoverRequest> {
    let mut reader = Reader::new(bytes);
    let journal = path_of(&reader.name()?);
    let trash = path_of(&reader.name()?);
    let mode = match reader.u8()? {
        0 => Mode::Rollback,
        1 => Mode::Complete,
        _ => return Err(invalid("the recovery's mode is 0 or 1")),
    };
    reader.end()?;
    Ok(RecoverRequest { journal, trash, mode })
}

fn write_peeks(peeks: &[Peek]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.count(peeks.len());
    for peek in peeks {
        writer
            .bytes(&peek.path)
            .version(&peek.version)
            .u64(peek.ino)
            .u32(peek.nlink);
        writer.u8(match peek.open_for_write {
            Some(false) => 0,
            Some(true) => 1,
            None => 2,
        });
        writer.u8(u8::from(peek.names.is_some()));
        if let Some(names) = &peek.names {
            writer.count(names.len());
            for name in names {
                writer.bytes(name);
            }
        }
    }
    writer.done()
}

fn write_outcomes(outcomes: &[Outcome]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.count(outcomes.len());
    for outcome in outcomes {
        writer.bytes(&outcome.path).u8(outcome.status as u8);
        writer
            .bytes(outcome.reason.as_bytes())
            .bytes(outcome.detail.as_bytes());
        writer.u8(u8::from(outcome.found.is_some()));
        if let Some(found) = &outcome.found {
            writer.version(found);
        }
        writer.bytes(outcome.note.as_bytes());
    }
    writer.done()
}

fn write_recovered(recovered: &Recovered) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.raw(&recovered.operation).count(recovered.paths.len());
    for (path, settled) in &recovered.paths {
        writer
            .bytes(path)
            .u8(settled.state as u8)
            .bytes(settled.detail.as_bytes());
    }
    writer.done()
}

fn write_abilities(found: &Abilities) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u8(u8::from(!found.openat2));
    for able in [
        found.exchange,
        found.no_replace,
        found.lease,
        found.reflink,
        found.case_folding,
        found.exec_bit,
        found.symlinks,
        found.ctime,
    ] {
        writer.u8(u8::from(able));
    }
    writer.u64(found.tick_ns).u8(found.guard() as u8);
    writer.done()
}
