use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::format::{FILE_HEADER, RECORD_OVERHEAD, RecordHeader, file_header};
use super::*;
use crate::task::Work;
use crate::wire::check64;

mod adopt;
mod batch;
mod chunks;
mod collect;
mod unread;

const SEED: u64 = 7;

fn store(dir: &TempDir) -> SegmentStore {
    SegmentStore::open(&dir.path().join("segments"), SEED).unwrap()
}

fn files(dir: &TempDir, extension: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(dir.path().join("segments"))
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut out: Vec<_> = listed
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    out.sort();
    out
}

/// Compressible text and noise, of a size around what `seed` says.
fn content(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let text = format!("line of file {seed}\n").repeat(seed as usize % 40);
    let noise: Vec<u8> = (0..seed % 90).map(|_| next()).collect();
    [text.as_bytes(), &noise].concat()
}

/// Makes a segment look as if a process that is gone had written it.
fn orphan(dir: &TempDir) -> PathBuf {
    let from = files(dir, "seg")
        .into_iter()
        .find(|p| !p.to_str().unwrap().contains("/1073741823-"))
        .unwrap();
    let mark = fs::read_dir(dir.path().join("segments")).unwrap().count();
    let to = from.with_file_name(format!("1073741823-5-{mark:08x}.seg"));
    fs::rename(&from, &to).unwrap();
    let _ = fs::remove_file(from.with_extension("idx"));
    to
}

/// A record by hand, as another writer would make it.
fn record(hash: Hash, codec: u8, raw: u64, payload: &[u8]) -> Vec<u8> {
    let header = RecordHeader {
        codec,
        raw,
        stored: payload.len() as u64,
        hash,
    };
    [&header.encode()[..], payload, &check64(payload).to_le_bytes()].concat()
}

#[test]
fn the_hash_is_seeded_xxh3_128_in_canonical_order() {
    let dir = TempDir::new().unwrap();
    let unseeded = SegmentStore::open(&dir.path().join("a"), 0).unwrap();
    // Published test vector of XXH3-128 with seed 0 for the empty input.
    assert_eq!(hex(&unseeded.hash(b"")), "99aa06d3014798d86001c324468d497f");
    let seeded = store(&dir);
    assert_ne!(seeded.hash(b"x"), unseeded.hash(b"x"));
    let mut hasher = seeded.hasher();
    let bytes = content(39).repeat(40);
    bytes.chunks(100).for_each(|chunk| hasher.update(chunk));
    assert_eq!(hasher.finish(), seeded.hash(&bytes));
}

#[test]
fn blobs_read_back_in_this_store_and_in_the_next() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let blobs: Vec<_> = (0..200).map(content).collect();
    let puts: Vec<_> = blobs.iter().map(|b| first.put(b).unwrap()).collect();
    for (put, blob) in puts.iter().zip(&blobs) {
        assert_eq!(first.read(&put.hash).unwrap(), *blob);
    }
    first.sync().unwrap();
    first.close().unwrap();
    assert_eq!(first.read(&puts[0].hash).unwrap_err().code, Code::Closed);
    assert_eq!(files(&dir, "idx").len(), 1);
    let second = store(&dir);
    for (put, blob) in puts.iter().zip(&blobs) {
        assert_eq!(second.read(&put.hash).unwrap(), *blob);
    }
    assert_eq!(second.stats().blobs, first.stats().blobs);
    assert_eq!(second.verify(&Work::default()).unwrap().problems, []);
}

#[test]
fn folder_and_files_are_private_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    store.put(b"secret").unwrap();
    store.close().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("segments")), 0o700);
    assert_eq!(mode(&files(&dir, "seg")[0]), 0o600);
    assert_eq!(mode(&files(&dir, "idx")[0]), 0o600);
}

#[test]
fn the_same_bytes_are_stored_once_from_many_threads() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let blobs: Vec<_> = (0..100).map(|i| content(i + 100)).collect();
    let new: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| blobs.iter().filter(|b| store.put(b).unwrap().new).count()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(new, 100);
    assert_eq!(store.stats().blobs, 100);
    assert_eq!(store.verify(&Work::default()).unwrap().checked, 100);
}

#[test]
fn compression_is_kept_only_where_it_saves_an_eighth() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let text = b"abcdefgh".repeat(1000);
    assert!(store.put(&text).unwrap().stored < 1000);
    let noise: Vec<u8> = (0..80u64)
        .flat_map(|i| {
            content(89 + 90 * i)[..]
                .iter()
                .rev()
                .take(80)
                .copied()
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        store.put(&noise).unwrap().stored,
        noise.len() as u64 + RECORD_OVERHEAD
    );
    assert_eq!(store.put(b"tiny").unwrap().stored, 4 + RECORD_OVERHEAD);
}

#[test]
fn a_segment_cut_at_any_byte_keeps_every_whole_record() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let blobs = [
        b"one".to_vec(),
        b"two two ".repeat(30),
        Vec::new(),
        b"four".to_vec(),
    ];
    let mut ends = Vec::new();
    for blob in &blobs {
        first.put(blob).unwrap();
        ends.push(fs::metadata(&files(&dir, "seg")[0]).unwrap().len());
    }
    let hashes: Vec<_> = blobs.iter().map(|b| first.hash(b)).collect();
    drop(first);
    let path = orphan(&dir);
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let _ = fs::remove_file(path.with_extension("idx"));
        let store = store(&dir);
        for (i, hash) in hashes.iter().enumerate() {
            let expected = ends[i] <= cut as u64;
            assert_eq!(store.has(hash), expected, "blob {i} at cut {cut}");
            assert_eq!(store.read(hash).is_ok(), expected, "blob {i} at cut {cut}");
        }
        assert_eq!(
            store.verify(&Work::default()).unwrap().problems,
            [],
            "a torn tail at {cut} is no problem"
        );
    }
}

#[test]
fn damage_at_any_byte_never_gives_wrong_bytes_and_is_found() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let blobs = [b"one".to_vec(), b"two two ".repeat(30), b"three".to_vec()];
    let hashes: Vec<_> = blobs.iter().map(|b| first.put(b).unwrap().hash).collect();
    first.close().unwrap();
    let path = orphan(&dir);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        fs::write(&path, &damaged).unwrap();
        let _ = fs::remove_file(path.with_extension("idx"));
        let store = store(&dir);
        let mut lost = 0;
        for (hash, blob) in hashes.iter().zip(&blobs) {
            match store.read(hash) {
                Ok(bytes) => assert_eq!(bytes, *blob, "damage at {at}"),
                Err(error) => {
                    assert!(
                        matches!(error.code, Code::BlobMissing | Code::BlobCorrupt),
                        "damage at {at}: {error}"
                    );
                    lost += 1;
                }
            }
        }
        // The last record's own header looks like a torn tail; the sixteen zero bytes of the file header say nothing.
        let last = whole.len() - b"three".len() - RECORD_OVERHEAD as usize;
        let silent = (16..32).contains(&at) || (last..last + 48).contains(&at);
        let found = !store.verify(&Work::default()).unwrap().problems.is_empty();
        assert_eq!(found, !silent, "damage at {at}, {lost} lost");
    }
}

#[test]
fn a_damaged_blob_is_stored_anew_and_then_read_from_the_good_copy() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let hash = first.put(b"precious").unwrap().hash;
    first.close().unwrap();
    let path = orphan(&dir);
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 9;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let second = store(&dir);
    assert_eq!(second.read(&hash).unwrap_err().code, Code::BlobCorrupt);
    assert!(second.put(b"precious").unwrap().new);
    assert_eq!(second.read(&hash).unwrap(), b"precious");
}

#[test]
fn a_damaged_index_file_is_ignored_at_every_byte() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let hashes: Vec<_> = (0..5).map(|i| first.put(&content(i)).unwrap().hash).collect();
    first.close().unwrap();
    let path = files(&dir, "idx").remove(0);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x41;
        fs::write(&path, &damaged).unwrap();
        let store = store(&dir);
        assert!(
            hashes
                .iter()
                .enumerate()
                .all(|(i, h)| store.read(h).unwrap() == content(i as u64)),
            "damage at {at}"
        );
        fs::write(&path, &whole[..at]).unwrap();
        let store = SegmentStore::open(&dir.path().join("segments"), SEED).unwrap();
        assert!(hashes.iter().all(|h| store.has(h)), "cut at {at}");
    }
}

#[test]
fn deflate_and_zstd_records_of_other_writers_are_read_and_lies_about_length_are_damage() {
    use std::io::Write;
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let text = b"hello hello hello hello hello ".repeat(20);
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text).unwrap();
    let deflated = encoder.finish().unwrap();
    let streamed = zstd::stream::encode_all(&b"streamed"[..], 3).unwrap();
    let hashes = [
        store.hash(&text),
        store.hash(b"streamed"),
        [1; 16],
        [2; 16],
        [3; 16],
    ];
    let mut bytes = file_header(SEED).to_vec();
    bytes.extend(record(hashes[0], 2, text.len() as u64, &deflated));
    bytes.extend(record(hashes[1], 1, 8, &streamed));
    bytes.extend(record(hashes[2], 2, 5, &deflated));
    bytes.extend(record(hashes[3], 1, u64::MAX, &streamed));
    bytes.extend(record(hashes[4], 9, 8, &streamed));
    fs::write(dir.path().join("segments/1073741823-5-00000000.seg"), bytes).unwrap();
    assert_eq!(store.read(&hashes[0]).unwrap(), text, "found after a refresh");
    assert_eq!(store.read(&hashes[1]).unwrap(), b"streamed");
    for lie in &hashes[2..] {
        assert_eq!(store.read(lie).unwrap_err().code, Code::BlobCorrupt);
    }
    assert_eq!(store.verify(&Work::default()).unwrap().problems.len(), 3);
}

#[test]
fn two_contents_of_one_name_are_an_error_and_swap_nothing() {
    let dir = TempDir::new().unwrap();
    let store = SegmentStore::open_with(&dir.path().join("segments"), SEED, |_, bytes| {
        [bytes.len() as u8; 16]
    })
    .unwrap();
    let put = store.put(b"abc").unwrap();
    assert_eq!(store.put(b"xyz").unwrap_err().code, Code::Collision);
    assert!(!store.put(b"abc").unwrap().new);
    assert_eq!(store.read(&put.hash).unwrap(), b"abc");
}

#[test]
fn two_stores_on_one_folder_see_each_others_blobs() {
    let dir = TempDir::new().unwrap();
    let (a, b) = (store(&dir), store(&dir));
    let from_a = a.put(b"from a").unwrap().hash;
    assert_eq!(
        b.read(&from_a).unwrap(),
        b"from a",
        "a read that misses looks again"
    );
    let later = a.put(b"later").unwrap().hash;
    assert!(!b.has(&later));
    b.refresh().unwrap();
    assert!(b.has(&later));
    assert!(
        !b.put(b"later").unwrap().new,
        "dedupes against the other's segment"
    );
    b.sync().unwrap();
    assert_eq!(files(&dir, "seg").len(), 1, "b never had to make a segment");
}

#[test]
fn a_segment_of_another_seed_is_left_alone_and_reported() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let hash = first.put(b"x").unwrap().hash;
    drop(first);
    orphan(&dir);
    let other = SegmentStore::open(&dir.path().join("segments"), SEED + 1).unwrap();
    assert!(!other.has(&hash));
    other.collect(&[], &Work::default()).unwrap();
    assert_eq!(files(&dir, "seg").len(), 1);
    let problems = other.verify(&Work::default()).unwrap().problems;
    assert_eq!(problems.iter().map(|p| p.hash).collect::<Vec<_>>(), [None]);
}

#[test]
fn an_append_that_fails_half_way_leaves_no_torn_record() {
    // Runs itself again under a file size limit of 64 blocks, with the limit's signal ignored.
    if let Ok(path) = std::env::var("TAKEBACK_TEST_LIMITED") {
        let store = SegmentStore::open(Path::new(&path), SEED).unwrap();
        let small = store.put(b"small").unwrap().hash;
        let noise: Vec<u8> = (0..2000u64).flat_map(|i| store.hash(&i.to_le_bytes())).collect();
        let failed = (0..8u8).find_map(|mask| {
            store
                .put(&noise.iter().map(|b| b ^ mask).collect::<Vec<_>>())
                .err()
        });
        assert_eq!(failed.map(|error| error.code), Some(Code::Io));
        let blobs = store.stats().blobs;
        let after = store.put(b"after").unwrap().hash;
        store.close().unwrap();
        let next = SegmentStore::open(Path::new(&path), SEED).unwrap();
        assert_eq!(next.read(&small).unwrap(), b"small");
        assert_eq!(next.read(&after).unwrap(), b"after");
        assert_eq!(next.stats().blobs, blobs + 1);
        return;
    }
    let dir = TempDir::new().unwrap();
    let me = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 64; exec \"$0\" an_append_that_fails_half_way",
            me.to_str().unwrap(),
        ])
        .env("TAKEBACK_TEST_LIMITED", dir.path().join("segments"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
