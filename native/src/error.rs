//! The one error of the engine: a stable code of `src/errors.ts`, a sentence, a path, a cause.
//!
//! What happened to one file is no error but a value (a `Problem` or an outcome); this is for what could not be done
//! as a whole. Knows nothing of N-API.

use std::io;

/// Codes of `src/errors.ts` that the engine gives out. Append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    OutsideRoot,
    BackendUnavailable,
    Closed,
    Cancelled,
    BlobMissing,
    BlobCorrupt,
    /// Two contents hash to one name. JavaScript sees a corrupt store.
    Collision,
    StoreCorrupt,
    StoreNewer,
    TooManyEntries,
    RootChanged,
    NoSpace,
    Busy,
    Unsupported,
    Io,
    Internal,
}

impl Code {
    /// The string that JavaScript sees.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidArgument => "ERR_INVALID_ARGUMENT",
            Code::OutsideRoot => "ERR_OUTSIDE_ROOT",
            Code::BackendUnavailable => "ERR_BACKEND_UNAVAILABLE",
            Code::Closed => "ERR_CLOSED",
            Code::Cancelled => "ERR_CANCELLED",
            Code::BlobMissing => "ERR_BLOB_MISSING",
            Code::BlobCorrupt => "ERR_BLOB_CORRUPT",
            Code::Collision | Code::StoreCorrupt => "ERR_STORE_CORRUPT",
            Code::StoreNewer => "ERR_STORE_NEWER",
            Code::TooManyEntries => "ERR_TOO_MANY_ENTRIES",
            Code::RootChanged => "ERR_ROOT_CHANGED",
            Code::NoSpace => "ERR_NO_SPACE",
            Code::Busy => "ERR_BUSY",
            Code::Unsupported => "ERR_UNSUPPORTED",
            Code::Io => "ERR_IO",
            Code::Internal => "ERR_INTERNAL",
        }
    }
}

/// Why a piece of work could not be done as a whole.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    pub code: Code,
    pub message: String,
    /// The path that it is about, relative to the root where it lies in it; raw bytes.
    pub path: Option<Vec<u8>>,
    #[source]
    pub cause: Option<io::Error>,
}

pub type Result<T> = std::result::Result<T, EngineError>;

impl EngineError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        EngineError {
            code,
            message: message.into(),
            path: None,
            cause: None,
        }
    }

    /// A fault of the operating system while doing `what`. ENOSPC and EDQUOT become `ERR_NO_SPACE`.
    pub fn io(what: &str, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        let code = match cause.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Code::NoSpace,
            _ => Code::Io,
        };
        EngineError {
            code,
            message: format!("{what}: {cause}"),
            path: None,
            cause: Some(cause),
        }
    }

    pub fn with_path(mut self, path: impl AsRef<[u8]>) -> Self {
        self.path = Some(path.as_ref().to_vec());
        self
    }

    pub fn code(&self) -> &'static str {
        self.code.as_str()
    }

    pub fn cancelled() -> Self {
        Self::new(Code::Cancelled, "the work was cancelled")
    }

    pub fn closed(what: &str) -> Self {
        Self::new(Code::Closed, format!("{what} was closed"))
    }

    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Code::StoreCorrupt, message)
    }
}

/// Pins what was being done, and where, to a fault of the operating system.
pub trait IoContext<T> {
    fn doing(self, what: &str) -> Result<T>;
    fn doing_at(self, what: &str, path: impl AsRef<[u8]>) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn doing(self, what: &str) -> Result<T> {
        self.map_err(|cause| EngineError::io(what, cause))
    }

    fn doing_at(self, what: &str, path: impl AsRef<[u8]>) -> Result<T> {
        self.map_err(|cause| {
            let shown = String::from_utf8_lossy(path.as_ref()).into_owned();
            EngineError::io(&format!("{what} {shown}"), cause).with_path(path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_full_quota_have_a_code_of_their_own() {
        for errno in [libc::ENOSPC, libc::EDQUOT] {
            let error = EngineError::io("write", io::Error::from_raw_os_error(errno));
            assert_eq!(error.code(), "ERR_NO_SPACE");
        }
        let error = EngineError::io("write", io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(error.code(), "ERR_IO");
    }

    #[test]
    fn an_error_keeps_its_path_and_its_cause() {
        let failed: std::result::Result<(), io::Error> = Err(io::Error::from_raw_os_error(libc::EACCES));
        let error = failed.doing_at("open", b"a/b").unwrap_err();
        assert_eq!(error.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(
            error.cause.as_ref().and_then(|c| c.raw_os_error()),
            Some(libc::EACCES)
        );
    }
}
