use super::*;

/// A store that opens, puts one blob and closes: what a hook process does.
fn short_store(dir: &TempDir, bytes: &[u8]) -> Hash {
    let store = store(dir);
    let hash = store.put(bytes).unwrap().hash;
    store.sync().unwrap();
    store.close().unwrap();
    hash
}

#[test]
fn three_hundred_short_stores_leave_one_segment_and_every_blob() {
    let dir = TempDir::new().unwrap();
    let blobs: Vec<_> = (1000..1300).map(content).collect();
    let hashes: Vec<_> = blobs.iter().map(|blob| short_store(&dir, blob)).collect();
    assert_eq!((files(&dir, "seg").len(), files(&dir, "idx").len()), (1, 1));
    let reader = store(&dir);
    for (hash, blob) in hashes.iter().zip(&blobs) {
        assert_eq!(&reader.read(hash).unwrap(), blob);
    }
    let verified = reader.verify(&Work::default()).unwrap();
    assert!(verified.problems.is_empty());
    assert_eq!(verified.checked, reader.stats().blobs);
}

#[test]
fn of_two_writers_at_once_one_takes_the_closed_segment_and_the_other_makes_its_own() {
    let dir = TempDir::new().unwrap();
    let old = short_store(&dir, b"old");
    let (one, two) = (store(&dir), store(&dir));
    let hashes = [one.put(b"one").unwrap().hash, two.put(b"two").unwrap().hash];
    assert_eq!(files(&dir, "seg").len(), 2);
    assert_eq!(two.read(&old).unwrap(), b"old", "found under its new name");
    one.close().unwrap();
    two.close().unwrap();
    let third = store(&dir);
    third.put(b"three").unwrap();
    assert_eq!(files(&dir, "seg").len(), 2, "one of the two is taken over");
    for hash in hashes {
        assert!(third.read(&hash).is_ok());
    }
}

#[test]
fn a_reader_that_knows_a_segment_by_its_old_name_reads_on_while_it_is_taken_over_and_closed() {
    let dir = TempDir::new().unwrap();
    let hash = short_store(&dir, b"known");
    let reader = store(&dir);
    let writer = store(&dir);
    writer.put(b"more").unwrap();
    assert_eq!(reader.read(&hash).unwrap(), b"known");
    writer.close().unwrap();
    assert_eq!(reader.read(&hash).unwrap(), b"known");
    let more = short_store(&dir, b"and more");
    assert_eq!(reader.read(&more).unwrap(), b"and more");
}

#[test]
fn a_blob_that_was_damaged_in_the_segment_that_is_taken_over_is_stored_anew_and_read() {
    let dir = TempDir::new().unwrap();
    let hash = short_store(&dir, b"to be damaged");
    let path = files(&dir, "seg").remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let at = FILE_HEADER as usize + 48;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(store(&dir).read(&hash).unwrap_err().code, Code::BlobCorrupt);
    assert_eq!(short_store(&dir, b"to be damaged"), hash);
    assert_eq!(files(&dir, "seg").len(), 1);
    assert_eq!(store(&dir).read(&hash).unwrap(), b"to be damaged");
}

#[test]
fn a_closed_segment_with_a_torn_end_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let hash = short_store(&dir, b"whole");
    let path = files(&dir, "seg").remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"torn");
    fs::write(&path, &bytes).unwrap();
    let next = short_store(&dir, b"next");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(files(&dir, "seg").len(), 2);
    let reader = store(&dir);
    assert_eq!(reader.read(&hash).unwrap(), b"whole");
    assert_eq!(reader.read(&next).unwrap(), b"next");
}

#[test]
fn a_writer_that_dies_at_any_step_of_taking_over_loses_nothing() {
    for index_stays in [true, false] {
        let dir = TempDir::new().unwrap();
        let hash = short_store(&dir, b"kept");
        let closed = files(&dir, "seg").remove(0);
        // Renamed, and no more; then its index file removed, too; and at last half a record written.
        let taken = closed.with_file_name("1073741823-5-00000001.seg");
        fs::rename(&closed, &taken).unwrap();
        if !index_stays {
            fs::remove_file(closed.with_extension("idx")).unwrap();
        }
        assert_eq!(store(&dir).read(&hash).unwrap(), b"kept");
        let torn = record([7; 16], 0, 4, b"torn");
        let mut bytes = fs::read(&taken).unwrap();
        bytes.extend_from_slice(&torn[..torn.len() - 3]);
        fs::write(&taken, bytes).unwrap();
        let next = short_store(&dir, b"next");
        let collector = store(&dir);
        collector.collect(&[hash, next], &Work::default()).unwrap();
        assert_eq!(collector.read(&hash).unwrap(), b"kept");
        assert_eq!(collector.read(&next).unwrap(), b"next");
        assert!(!taken.exists(), "its torn end went with it");
        assert!(
            !closed.with_extension("idx").exists(),
            "no index file without a segment"
        );
    }
}
