//! N-API glue of SQLite (docs/addon.md, NativeDatabase).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use napi::Env;
use napi::bindgen_prelude::{Object, ToNapiValue};
use napi_derive::napi;

use super::segments::path_of;
use crate::error::{EngineError, Result};
use crate::sql::Database;
use crate::task::{self, Bytes, Queue};

#[napi]
pub struct NativeDatabase {
    database: Arc<Mutex<Option<Database>>>,
    queue: Queue,
}

#[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
pub fn open_database<'env>(env: &'env Env, file: &[u8], busy_timeout_ms: u32) -> napi::Result<Object<'env>> {
    let file = path_of(file);
    task::start_handle(env, "database", move |queue| {
        let database = Database::open(&file, Duration::from_millis(busy_timeout_ms.into()))?;
        Ok(NativeDatabase {
            database: Arc::new(Mutex::new(Some(database))),
            queue,
        })
    })
}

impl NativeDatabase {
    fn run<'env, T, F>(&self, env: &'env Env, body: F) -> napi::Result<Object<'env>>
    where
        T: ToNapiValue + Send + 'static,
        F: FnOnce(&Database) -> Result<T> + Send + 'static,
    {
        let database = self.database.clone();
        task::start(env, &self.queue, move || {
            let open = database.lock().unwrap_or_else(PoisonError::into_inner);
            body(open.as_ref().ok_or_else(|| EngineError::closed("the database"))?)
        })
    }
}

#[napi]
impl NativeDatabase {
    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn exec<'env>(&self, env: &'env Env, sql: String) -> napi::Result<Object<'env>> {
        self.run(env, move |database| database.exec(&sql))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn query<'env>(&self, env: &'env Env, sql: String, params: &[u8]) -> napi::Result<Object<'env>> {
        let params = params.to_vec();
        self.run(env, move |database| Ok(Bytes(database.query(&sql, &params)?)))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn transaction<'env>(&self, env: &'env Env, statements: &[u8]) -> napi::Result<Object<'env>> {
        let statements = statements.to_vec();
        self.run(env, move |database| Ok(Bytes(database.transaction(&statements)?)))
    }

    #[napi(catch_unwind, ts_return_type = "Promise<unknown>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let database = self.database.clone();
        let closing = task::start(env, &self.queue, move || {
            let open = database.lock().unwrap_or_else(PoisonError::into_inner).take();
            open.map_or(Ok(()), Database::close)
        });
        self.queue.close();
        closing
    }
}
