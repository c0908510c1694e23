//! A store whose folder is read at its first use.

use super::*;

fn unread(dir: &TempDir) -> SegmentStore {
    SegmentStore::unread(&dir.path().join("segments"), SEED)
}

#[test]
fn a_store_that_is_not_used_writes_nothing() {
    let dir = TempDir::new().unwrap();
    store(&dir).put(b"one").unwrap();
    orphan(&dir);
    files(&dir, "idx")
        .iter()
        .for_each(|index| fs::remove_file(index).unwrap());
    let before = files(&dir, "seg");
    drop(unread(&dir));
    unread(&dir).close().unwrap();
    assert_eq!(files(&dir, "seg"), before);
    assert_eq!(files(&dir, "idx"), Vec::<PathBuf>::new());
    drop(store(&dir));
    assert_eq!(files(&dir, "idx").len(), 1, "one that reads leaves an index");
}

#[test]
fn each_use_finds_what_was_stored_before() {
    let dir = TempDir::new().unwrap();
    let hash = store(&dir).put(b"one").unwrap().hash;
    assert_eq!(unread(&dir).read(&hash).unwrap(), b"one");
    assert!(!unread(&dir).put(b"one").unwrap().new);
    assert_eq!(unread(&dir).verify(&Work::default()).unwrap().checked, 1);
    let collected = unread(&dir).collect(&[], &Work::default()).unwrap();
    assert!(collected.freed_bytes > 0);
    assert_eq!(files(&dir, "seg"), Vec::<PathBuf>::new());
}

#[test]
fn a_new_blob_goes_into_the_closed_segment() {
    let dir = TempDir::new().unwrap();
    store(&dir).put(b"one").unwrap();
    let second = unread(&dir);
    second.put(b"two").unwrap();
    second.close().unwrap();
    assert_eq!(files(&dir, "seg").len(), 1);
    assert_eq!(store(&dir).stats().blobs, 2);
}

#[test]
fn a_sync_covers_what_another_writer_appended() {
    let dir = TempDir::new().unwrap();
    let writer = store(&dir);
    writer.put(b"one").unwrap();
    let other = unread(&dir);
    other.sync().unwrap();
    assert_eq!(other.stats().segments, 1, "it was read, and so was synced");
}

#[test]
fn faults_of_the_folder_are_told_by_the_first_use() {
    let dir = TempDir::new().unwrap();
    let store = unread(&dir);
    assert_eq!(store.put(b"one").unwrap_err().code(), "ERR_IO");
    assert_eq!(store.sync().unwrap_err().code(), "ERR_IO");
    assert_eq!(store.read(&[1; 16]).unwrap_err().code(), "ERR_IO");
}
