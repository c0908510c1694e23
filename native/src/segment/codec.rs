//! Compression of one record. Contexts are kept for reuse: making one costs more than compressing a small file.

use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};

pub const RAW: u8 = 0;
pub const ZSTD: u8 = 1;
pub const DEFLATE: u8 = 2;
/// No bytes, but a list of the blobs that hold them (`chunks`).
pub const CHUNKS: u8 = 3;

/// Level that writers use; a first capture is bound by it.
const LEVEL: i32 = 1;
/// Below this many bytes a frame's own overhead eats what it saves.
const LEAST_PACKED: usize = 64;
/// Up to this many bytes are unpacked in one step into a buffer of the claimed size; above it the buffer grows with
/// what really comes out.
const ONE_STEP: u64 = 16 << 20;

#[derive(Default)]
pub struct Codec {
    compressors: Mutex<Vec<Compressor<'static>>>,
    decompressors: Mutex<Vec<Decompressor<'static>>>,
}

impl Codec {
    /// Packs bytes where that makes them smaller by at least an eighth; None: store them raw.
    pub fn pack(&self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if bytes.len() < LEAST_PACKED {
            return Ok(None);
        }
        let taken = self
            .compressors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut compressor = match taken {
            Some(compressor) => compressor,
            None => Compressor::new(LEVEL)?,
        };
        let mut out = Vec::with_capacity(bytes.len() - bytes.len().div_ceil(8));
        // A frame that doesn't fit in seven eighths is an error of zstd, and here the answer that it isn't worth it.
        let fits = compressor.compress_to_buffer(bytes, &mut out).is_ok();
        self.compressors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(compressor);
        Ok(fits.then_some(out))
    }

    /// The bytes of a record; an error where they aren't exactly `raw` many.
    pub fn unpack(&self, codec: u8, payload: Vec<u8>, raw: u64) -> io::Result<Vec<u8>> {
        let out = match codec {
            RAW => payload,
            ZSTD if raw <= ONE_STEP => self.unpack_small(&payload, raw as usize)?,
            ZSTD => bounded(zstd::stream::read::Decoder::with_buffer(payload.as_slice())?, raw)?,
            DEFLATE => bounded(flate2::bufread::DeflateDecoder::new(payload.as_slice()), raw)?,
            other => return Err(invalid(format!("unknown codec {other}"))),
        };
        if out.len() as u64 != raw {
            return Err(invalid(format!("{} bytes instead of {raw}", out.len())));
        }
        Ok(out)
    }

    fn unpack_small(&self, payload: &[u8], raw: usize) -> io::Result<Vec<u8>> {
        let taken = self
            .decompressors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut decompressor = match taken {
            Some(decompressor) => decompressor,
            None => Decompressor::new()?,
        };
        let out = decompressor.decompress(payload, raw);
        self.decompressors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(decompressor);
        out
    }
}

/// Reads at most one byte more than was claimed, so that a bomb can't fill the memory.
fn bounded(reader: impl Read, raw: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    reader.take(raw.saturating_add(1)).read_to_end(&mut out)?;
    Ok(out)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
