//! Files put back: each is read and hashed, a new one of the same length is written beside it and swapped with it, the old
//! one removed; one sync of the file system before the swaps, which make nothing durable by themselves.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat_with, syncfs, unlinkat};
use twox_hash::XxHash3_128;

use super::walk::{THREADS, Walk};
use super::{Done, Fault};

fn temp_of(path: &CStr) -> CString {
    let bytes = [path.to_bytes(), b".floor"].concat();
    CString::new(bytes).expect("a path holds no NUL")
}

/// Runs `act` on each file, on two threads.
fn each(files: &[CString], act: impl Fn(&CStr) -> Result<u64, Fault> + Sync) -> Result<u64, Fault> {
    let next = AtomicUsize::new(0);
    let thread = || {
        let mut sum = 0u64;
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            sum += act(path)?;
        }
        Ok::<_, Fault>(sum)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(thread)).collect();
        let mut sum = thread()?;
        for other in others {
            sum += other.join().expect("a thread panicked")?;
        }
        Ok(sum)
    })
}

pub fn run(walk: &Walk, files: &[CString]) -> Result<Done, Fault> {
    let root = &walk.root;
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let bytes = each(files, |path| {
        let mut content = Vec::new();
        File::from(openat(root, path, read, Mode::empty())?).read_to_end(&mut content)?;
        let mut temp = File::from(openat(root, temp_of(path), make, Mode::RUSR | Mode::WUSR)?);
        temp.write_all(&content)?;
        Ok(content.len() as u64)
    })?;
    syncfs(root)?;
    each(files, |path| {
        let mut content = Vec::new();
        File::from(openat(root, path, read, Mode::empty())?).read_to_end(&mut content)?;
        std::hint::black_box(XxHash3_128::oneshot(&content));
        let temp = temp_of(path);
        renameat_with(root, path, root, &temp, RenameFlags::EXCHANGE)?;
        unlinkat(root, &temp, AtFlags::empty())?;
        Ok(0)
    })?;
    Ok(Done {
        count: files.len() as u64,
        bytes,
    })
}
