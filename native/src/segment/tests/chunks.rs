//! Large contents: where they are cut, what an edit costs, and gc, verify and reads of them.

use super::*;
use crate::error::Code;
use crate::segment::chunks::{OVER, cuts};

/// Noise: no codec makes it smaller.
fn noise(bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::with_capacity(bytes);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

const LARGE: usize = 12 << 20;

fn joined(store: &SegmentStore, hash: &Hash) -> Result<Vec<u8>> {
    Ok(store.pieces(hash)?.collect::<Result<Vec<_>>>()?.concat())
}

#[test]
fn cuts_lie_where_the_format_says() {
    // The same numbers stand in test/backend/chunks.test.ts.
    assert_eq!(cuts(&noise(LARGE, 7)), CUTS);
    assert_eq!(
        cuts(&vec![0; 9 << 20]),
        [4 << 20, 8 << 20],
        "without any cut of its own it is cut at the most"
    );
}

const CUTS: [usize; 14] = [
    734996, 1038250, 1745462, 2125194, 6072656, 6339526, 7216967, 7532348, 8246485, 8602835, 9811944,
    10094731, 11122405, 12447155,
];

#[test]
fn a_large_content_comes_back_whole_and_piece_by_piece() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let bytes = noise(LARGE, 7);
    let put = store.put(&bytes).unwrap();
    assert!(put.new);
    assert_eq!(put.hash, store.hash(&bytes));
    assert_eq!(store.read(&put.hash).unwrap(), bytes);
    assert_eq!(joined(&store, &put.hash).unwrap(), bytes);
    assert!(
        store.pieces(&put.hash).unwrap().count() > 3,
        "no piece is the whole"
    );
    assert!(
        !store.put(&bytes).unwrap().new,
        "the second time nothing is stored"
    );
    let small = store.put(b"small").unwrap();
    assert_eq!(joined(&store, &small.hash).unwrap(), b"small");
}

#[test]
fn an_edit_in_the_middle_costs_the_chunks_around_it() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let mut bytes = noise(LARGE, 7);
    store.put(&bytes).unwrap();
    let before = store.stats().bytes;
    bytes.splice(LARGE / 2..LARGE / 2 + 10, *b"another length");
    let put = store.put(&bytes).unwrap();
    let grown = store.stats().bytes - before;
    assert!(grown <= 2 * OVER, "grew by {grown}");
    assert!(grown > 256 << 10);
    assert_eq!(store.read(&put.hash).unwrap(), bytes);
}

#[test]
fn the_chunks_of_what_lives_stay_and_others_go() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let (first, second) = (noise(LARGE, 7), noise(LARGE, 8));
    let kept = store.put(&first).unwrap().hash;
    let dead = store.put(&second).unwrap().hash;
    store.sync().unwrap();
    let collected = store.collect(&[kept], &Work::default()).unwrap();
    assert!(collected.freed_bytes > LARGE as u64 - 4096);
    let on_disk: u64 = files(&dir, "seg")
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!(on_disk < LARGE as u64 + (64 << 10), "{on_disk} bytes are left");
    assert_eq!(store.read(&kept).unwrap(), first);
    assert_eq!(store.read(&dead).unwrap_err().code, Code::BlobMissing);
    assert_eq!(store.verify(&Work::default()).unwrap().problems, []);
}

#[test]
fn a_chunk_that_is_gone_is_told() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let bytes = noise(LARGE, 7);
    let hash = store.put(&bytes).unwrap().hash;
    store.sync().unwrap();
    let chunk = store.chunks_of(&hash).unwrap().unwrap()[1].0;
    // The list lives, and all of its chunks but one: as a gc of a process that didn't know of it would leave it.
    let list = store.places(&hash)[0].clone();
    let (header, payload) = list.0.read(&store.files, &hash, list.1).unwrap();
    let other = TempDir::new().unwrap();
    let other_store = SegmentStore::open(&other.path().join("segments"), SEED).unwrap();
    other_store.put(&bytes[..1000]).unwrap();
    other_store.close().unwrap();
    let target = files(&other, "seg").pop().unwrap();
    let _ = fs::remove_file(target.with_extension("idx"));
    let mut segment = fs::read(&target).unwrap();
    segment.extend(record(hash, header.codec, header.raw, &payload));
    fs::write(&target, segment).unwrap();
    let broken = SegmentStore::open(&other.path().join("segments"), SEED).unwrap();
    assert!(!broken.has(&chunk));
    assert!(!broken.has(&hash), "a list without its chunks is no content");
    assert!(broken.read(&hash).is_err());
    assert!(joined(&broken, &hash).is_err());
    assert!(
        broken.put(&bytes).unwrap().hash == hash && broken.has(&hash),
        "storing it again mends it"
    );
    assert_eq!(broken.read(&hash).unwrap(), bytes);
}

#[test]
fn a_list_that_makes_no_sense_is_damage() {
    let hash = [5; 16];
    let lists = [
        vec![1; 19],
        vec![],
        [[5; 16].as_slice(), &u32::MAX.to_le_bytes()].concat(),
    ];
    for (at, list) in lists.iter().enumerate() {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("segments")).unwrap();
        let file = [file_header(SEED).as_slice(), &record(hash, 3, 5 << 20, list)].concat();
        let path = dir.path().join("segments/0-0-00000001.seg");
        fs::write(&path, file).unwrap();
        let store = store(&dir);
        assert_eq!(
            store.read(&hash).unwrap_err().code,
            Code::BlobCorrupt,
            "list {at}"
        );
        assert_eq!(store.collect(&[hash], &Work::default()).unwrap().freed_bytes, 0);
        assert!(path.exists(), "what can't be read is kept");
    }
}
