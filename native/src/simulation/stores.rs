//! Segments and the index, with errors and power cuts: a blob that was synced is there, and no answer is a wrong one.

use std::path::Path;

use rustix::io::Errno;

use super::{memory_folder, steps};
use crate::index::entry::flag;
use crate::index::file::RulesToWrite;
use crate::index::{Entry, Index, IndexFile, Step};
use crate::segment::SegmentStore;
use crate::sys::sim::image::{Disk, Order};
use crate::sys::sim::{at_call, log_length, logged};
use crate::wire::{FileKind, Position, StatKey};

fn open(dir: &Path) -> SegmentStore {
    SegmentStore::open(dir, 7).unwrap()
}

fn blob(number: usize) -> Vec<u8> {
    format!("blob {number} ").repeat(20 + number * 40).into_bytes()
}

/// Stores, syncs, closes, collects. Tells after each promise which blobs must be there from then on.
fn use_store(dir: &Path, mut promised: impl FnMut(&[usize])) -> crate::error::Result<()> {
    let store = SegmentStore::open(dir, 7)?;
    store.put(&blob(0))?;
    store.put(&blob(1))?;
    store.sync()?;
    promised(&[0, 1]);
    store.put(&blob(2))?;
    store.put(&blob(3))?;
    store.close()?;
    promised(&[2, 3]);
    let store = SegmentStore::open(dir, 7)?;
    store.put(&blob(4))?;
    let live = [1, 3].map(|number| store.hash(&blob(number)));
    store.collect(&live, &Default::default())?;
    store.sync()?;
    promised(&[4]);
    store.close()
}

/// Blobs that a collection may have taken.
const COLLECTED: [usize; 2] = [0, 2];

#[test]
fn a_power_cut_at_any_moment_takes_no_synced_blob_and_makes_no_wrong_one() {
    let (steps, mut dice) = steps(150, 20);
    let folder = memory_folder();
    let start = Disk::of(folder.path());
    let mut promises = Vec::new();
    let (used, log) = logged(|| {
        use_store(folder.path(), |blobs| {
            promises.push((log_length(), blobs.to_vec()))
        })
    });
    used.unwrap();
    for step in 0..steps {
        let order = [Order::Kept, Order::Loose][step % 2];
        let at = dice.below(log.len() + 1);
        let up = memory_folder();
        start.after_cut(&log[..at], order, &mut dice).lay_out(up.path());
        let store = open(up.path());
        for number in 0..5 {
            let bytes = blob(number);
            let promised = promises
                .iter()
                .any(|(since, blobs)| *since <= at && blobs.contains(&number));
            let sure = promised && !(COLLECTED.contains(&number) && at > promises[1].0);
            let what = format!("step {step}: blob {number}, names {order:?}, cut behind {at}");
            match store.read(&store.hash(&bytes)) {
                Ok(read) => assert_eq!(read, bytes, "{what}"),
                Err(error) => assert!(!sure, "{what}: {error:?}"),
            }
            // What is lost can be stored again, whatever was left of it.
            store.put(&bytes).unwrap();
            assert_eq!(
                store.read(&store.hash(&bytes)).unwrap(),
                bytes,
                "{what}, stored again"
            );
        }
    }
}

#[test]
fn an_error_at_every_call_of_the_segments_takes_no_blob_that_was_promised() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::MFILE, Errno::INTR, Errno::ROFS] {
        for nth in 1.. {
            let folder = memory_folder();
            let what = format!("{errno:?} at {nth}");
            let mut promised = Vec::new();
            let (result, came) = at_call(
                nth,
                move || Err(errno),
                || use_store(folder.path(), |blobs| promised.extend_from_slice(blobs)),
            );
            if let Err(error) = result.unwrap() {
                let named = error.path.is_some() || error.message.contains(&*folder.path().to_string_lossy());
                assert!(named, "{what}: {error:?}");
            }
            let store = open(folder.path());
            for number in promised.iter().filter(|number| !COLLECTED.contains(number)) {
                let bytes = blob(*number);
                assert_eq!(store.read(&store.hash(&bytes)).unwrap(), bytes, "{what}");
            }
            drop(store);
            use_store(folder.path(), |_| {}).unwrap();
            if !came {
                break;
            }
        }
    }
}

const STORE: [u8; 16] = [7; 16];

fn position(seq: u64) -> Position {
    Position {
        seq,
        observation: [seq as u8; 16],
    }
}

fn put(path: &str, ino: u64) -> Step {
    let stat = StatKey {
        kind: FileKind::File,
        mode: 0o640,
        size: ino,
        mtime_ns: 5,
        ctime_ns: 6,
        ino,
        dev: 7,
    };
    Step::Put {
        path: path.into(),
        entry: Entry::file(stat, [ino as u8; 16]).with(flag::UNTRUSTED),
        extra: Vec::new(),
    }
}

/// Moves the index of `file` on to `seq`: every step changes one path.
fn step_on(file: &mut IndexFile, index: &mut Index, seq: u64) -> crate::error::Result<()> {
    let steps = [put("f", seq), put(&format!("g{seq}"), seq)];
    index.apply(steps.clone());
    index.at = Some(position(seq));
    let rules = match seq % 4 {
        0 => RulesToWrite::Changed(b"rules"),
        _ => RulesToWrite::Same(b"rules"),
    };
    file.forward(index, &steps, rules)
}

/// What an index of that position says of each path; none where it can't be.
fn says(index: &Index, seq: u64) -> bool {
    let of = |path: &str| index.find(path.as_bytes()).map(|node| index.entry(node).stat.ino);
    of("f") == Some(seq) && (1..=8).all(|n| of(&format!("g{n}")) == (n <= seq).then_some(n))
}

const LAST: u64 = 7;

fn use_index(path: &Path) -> crate::error::Result<()> {
    let mut file = IndexFile::new(path.to_path_buf(), STORE);
    let mut index = Index::new();
    (1..=LAST).try_for_each(|seq| step_on(&mut file, &mut index, seq))
}

#[test]
fn an_index_after_a_power_cut_at_any_moment_is_one_that_was_or_none() {
    let (steps, mut dice) = steps(200, 10);
    let folder = memory_folder();
    let start = Disk::of(folder.path());
    let (used, log) = logged(|| use_index(&folder.path().join("index")));
    used.unwrap();
    let mut loaded = 0;
    for step in 0..steps {
        let order = [Order::Kept, Order::Loose][step % 2];
        let at = dice.below(log.len() + 1);
        let up = memory_folder();
        start.after_cut(&log[..at], order, &mut dice).lay_out(up.path());
        let found = IndexFile::new(up.path().join("index"), STORE).load();
        if let Some(found) = found {
            loaded += 1;
            assert!(
                says(&found.index, found.at.seq),
                "step {step}, cut behind {at}: {:?}",
                found.at
            );
        }
    }
    assert!(loaded > steps / 10, "{loaded} of {steps} cuts left an index");
}

#[test]
fn an_error_at_every_call_of_the_index_leaves_one_that_was_or_none_and_the_next_step_works() {
    for errno in [Errno::IO, Errno::NOSPC, Errno::MFILE, Errno::INTR, Errno::ROFS] {
        for nth in 1.. {
            let folder = memory_folder();
            let path = folder.path().join("index");
            let what = format!("{errno:?} at {nth}");
            let mut file = IndexFile::new(path.clone(), STORE);
            let mut index = Index::new();
            let (_, came) = at_call(
                nth,
                move || Err(errno),
                || {
                    for seq in 1..=LAST {
                        if let Err(error) = step_on(&mut file, &mut index, seq) {
                            assert!(error.path.is_some(), "{errno:?} at {nth}: {error:?}");
                        }
                        if let Some(found) = IndexFile::new(path.clone(), STORE).load() {
                            assert!(says(&found.index, found.at.seq), "{errno:?} at {nth}");
                        }
                    }
                },
            );
            step_on(&mut file, &mut index, LAST + 1).unwrap();
            let found = IndexFile::new(path, STORE).load().unwrap();
            assert!(says(&found.index, LAST + 1), "{what}");
            if !came {
                break;
            }
        }
    }
}
