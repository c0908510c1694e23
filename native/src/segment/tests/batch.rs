//! Many blobs in one write: stored once each, found as soon as they are written, and told new by one batch only.

use super::*;

#[test]
fn a_batch_stores_each_content_once_and_each_can_be_read_back() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let old = store.put(&content(1)).unwrap();
    let mut batch = Batch::new(&store);
    let queued: Vec<Queued> = [1, 2, 3, 2]
        .iter()
        .map(|n| batch.put(&content(*n)).unwrap())
        .collect();
    assert!(!store.has(&queued[1].hash), "nothing is stored before the flush");
    batch.flush().unwrap();
    let new: Vec<bool> = queued
        .iter()
        .map(|queued| batch.stored(*queued).is_some())
        .collect();
    assert_eq!(new, [false, true, true, false]);
    assert_eq!(queued[0].hash, old.hash);
    for (queued, number) in queued.iter().zip([1, 2, 3, 2]) {
        assert_eq!(store.read(&queued.hash).unwrap(), content(number));
    }
    assert_eq!(store.stats().blobs, 3);
}

#[test]
fn of_two_batches_with_the_same_bytes_the_later_stores_only_the_rest() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let (mut one, mut two) = (Batch::new(&store), Batch::new(&store));
    let first: Vec<Queued> = [10, 11, 12]
        .iter()
        .map(|n| one.put(&content(*n)).unwrap())
        .collect();
    let second: Vec<Queued> = [20, 11, 21]
        .iter()
        .map(|n| two.put(&content(*n)).unwrap())
        .collect();
    one.flush().unwrap();
    two.flush().unwrap();
    let new = |batch: &Batch<'_>, queued: &[Queued]| -> Vec<bool> {
        queued
            .iter()
            .map(|queued| batch.stored(*queued).is_some())
            .collect()
    };
    assert_eq!(new(&one, &first), [true, true, true]);
    assert_eq!(new(&two, &second), [true, false, true]);
    for (queued, number) in second.iter().zip([20, 11, 21]) {
        assert_eq!(store.read(&queued.hash).unwrap(), content(number));
    }
    drop((one, two));
    let again = SegmentStore::open(&dir.path().join("segments"), SEED).unwrap();
    assert_eq!(again.stats().blobs, 5, "what lies on disk is whole");
}

#[test]
fn two_contents_of_one_name_are_refused_within_a_batch_too() {
    let dir = TempDir::new().unwrap();
    let store = SegmentStore::open_with(&dir.path().join("segments"), SEED, |_, _| [9; 16]).unwrap();
    let mut batch = Batch::new(&store);
    batch.put(b"one").unwrap();
    batch.put(b"one").unwrap();
    assert_eq!(batch.put(b"two").unwrap_err().code, Code::Collision);
}

#[test]
fn a_full_batch_writes_itself() {
    let dir = TempDir::new().unwrap();
    let store = store(&dir);
    let mut batch = Batch::new(&store);
    let noise = |seed: u64| -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        (0..80_000).flat_map(|_| next()).collect()
    };
    let queued: Vec<Queued> = (1..=3).map(|n| batch.put(&noise(n * 77)).unwrap()).collect();
    let stored = |at: usize| store.has(&queued[at].hash);
    assert_eq!(
        (stored(0), stored(1), stored(2)),
        (true, true, false),
        "a megabyte is full"
    );
    batch.flush().unwrap();
    assert_eq!(store.read(&queued[2].hash).unwrap(), noise(3 * 77));
}
