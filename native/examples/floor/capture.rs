//! Files read, hashed (XXH3-128), packed (zstd, level 1, a frame a file) and appended to one file in pieces of a megabyte.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, openat};
use twox_hash::XxHash3_128;

use super::walk::{THREADS, Walk};
use super::{Done, Fault};

const LEVEL: i32 = 1;
/// Files that a thread takes at once.
const CHUNK: usize = 32;
const PIECE: usize = 1 << 20;

/// Shared by the threads.
struct Work<'a> {
    walk: &'a Walk,
    files: &'a [CString],
    out: Option<&'a File>,
    next: AtomicUsize,
    end: AtomicU64,
}

impl Work<'_> {
    fn append(&self, packed: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(out) = self.out.filter(|_| !packed.is_empty()) {
            let at = self.end.fetch_add(packed.len() as u64, Ordering::Relaxed);
            out.write_all_at(packed, at)?;
        }
        packed.clear();
        Ok(())
    }

    fn thread(&self) -> Result<u64, Fault> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        let (mut bytes, mut packed, mut sum) = (Vec::new(), Vec::new(), 0u64);
        loop {
            let from = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= self.files.len() {
                break;
            }
            for path in &self.files[from..self.files.len().min(from + CHUNK)] {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(openat(&self.walk.root, path, flags, Mode::empty())?);
                bytes.clear();
                file.read_to_end(&mut bytes)?;
                sum ^= XxHash3_128::oneshot(&bytes) as u64;
                let frame = compressor.compress(&bytes)?;
                packed.extend_from_slice(if frame.len() < bytes.len() { &frame } else { &bytes });
                if packed.len() >= PIECE {
                    self.append(&mut packed)?;
                }
            }
        }
        self.append(&mut packed)?;
        Ok(sum)
    }
}

pub fn run(walk: &Walk, files: &[CString], out: Option<&Path>) -> Result<Done, Fault> {
    let out = out.map(File::create).transpose()?;
    let work = Work {
        walk,
        files,
        out: out.as_ref(),
        next: AtomicUsize::new(0),
        end: AtomicU64::new(0),
    };
    let sum = std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(|| work.thread())).collect();
        let mut sum = work.thread()?;
        for other in others {
            sum ^= other.join().expect("a thread panicked")?;
        }
        Ok::<_, Fault>(sum)
    })?;
    std::hint::black_box(sum);
    Ok(Done {
        count: files.len() as u64,
        bytes: work.end.load(Ordering::Relaxed),
    })
}
