use super::*;

fn put_all(store: &SegmentStore, blobs: &[Vec<u8>]) {
    for blob in blobs {
        store.put(blob).unwrap();
    }
}

#[test]
fn collect_drops_what_is_dead_and_keeps_what_lives() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let hashes: Vec<_> = (100..200).map(|i| first.put(&content(i)).unwrap().hash).collect();
    first.close().unwrap();
    orphan(&dir);
    let second = store(&dir);
    let mine = second.put(b"mine, dead").unwrap().hash;
    second.sync().unwrap();
    let before = second.stats().bytes;
    let live = &hashes[..50];
    let collected = second.collect(live, &Work::default()).unwrap();
    assert_eq!(collected.freed_bytes, before - collected.kept_bytes);
    assert!(collected.freed_bytes > 0);
    assert_eq!(second.stats().blobs, 50);
    for (i, hash) in hashes.iter().enumerate() {
        assert_eq!(second.read(hash).is_ok(), i < 50, "blob {i}");
    }
    assert_eq!(second.read(&mine).unwrap_err().code, Code::BlobMissing);
    assert_eq!(files(&dir, "seg").len(), 1);
    let again = second.collect(live, &Work::default()).unwrap();
    assert_eq!(again.freed_bytes, 0, "nothing dead, nothing moves");
    second.collect(&[], &Work::default()).unwrap();
    assert_eq!((files(&dir, "seg").len(), files(&dir, "idx").len()), (0, 0));
    assert!(second.put(b"after").unwrap().new, "the store goes on");
}

#[test]
fn collect_never_touches_a_segment_that_a_live_writer_appends_to() {
    let dir = TempDir::new().unwrap();
    let (writer, collector) = (store(&dir), store(&dir));
    let hash = writer.put(b"not in a row yet").unwrap().hash;
    collector.collect(&[], &Work::default()).unwrap();
    assert_eq!(writer.read(&hash).unwrap(), b"not in a row yet");
    assert_eq!(files(&dir, "seg").len(), 1);
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let started = owner::start_time(child.id()).unwrap();
    let foreign = dir
        .path()
        .join(format!("segments/{}-{started}-00000001.seg", child.id()));
    fs::write(&foreign, file_header(SEED)).unwrap();
    collector.collect(&[], &Work::default()).unwrap();
    assert!(foreign.exists(), "its writer lives");
    child.kill().unwrap();
    child.wait().unwrap();
    writer.close().unwrap();
    collector.collect(&[], &Work::default()).unwrap();
    assert!(!foreign.exists(), "its writer is gone");
    assert_eq!(
        files(&dir, "seg").len(),
        0,
        "a closed segment of this process is collected, too"
    );
}

#[test]
fn collect_keeps_a_segment_that_holds_a_living_blob_it_cannot_read() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let good = first.put(b"good").unwrap().hash;
    let bad = first.put(b"goes bad").unwrap().hash;
    first.put(b"dead").unwrap();
    first.close().unwrap();
    let path = orphan(&dir);
    let mut bytes = fs::read(&path).unwrap();
    let at = FILE_HEADER as usize + 4 + RECORD_OVERHEAD as usize + 48;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let second = store(&dir);
    second.collect(&[good, bad], &Work::default()).unwrap();
    assert!(path.exists());
    assert_eq!(second.read(&good).unwrap(), b"good");
    assert_eq!(second.read(&bad).unwrap_err().code, Code::BlobCorrupt);
}

#[test]
fn a_reader_whose_segment_was_collected_meanwhile_finds_the_blob_again() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let (kept, _) = (first.put(b"kept").unwrap().hash, first.put(b"dead").unwrap());
    first.close().unwrap();
    orphan(&dir);
    let (reader, collector) = (store(&dir), store(&dir));
    collector.collect(&[kept], &Work::default()).unwrap();
    assert_eq!(reader.read(&kept).unwrap(), b"kept");
}

#[test]
fn a_cancelled_collect_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let first = store(&dir);
    let hash = first.put(b"kept").unwrap().hash;
    first.put(b"dead").unwrap();
    first.sync().unwrap();
    let work = Work::default();
    work.cancel.cancel();
    assert_eq!(first.collect(&[hash], &work).unwrap_err().code, Code::Cancelled);
    assert_eq!(first.read(&hash).unwrap(), b"kept");
}

#[test]
fn readers_and_writers_go_on_while_another_store_collects() {
    let dir = TempDir::new().unwrap();
    let rounds = 30;
    let live: Vec<_> = (0..40).map(content).collect();
    let hashes: Vec<_> = live.iter().map(|blob| store(&dir).hash(blob)).collect();
    let (writer, reader) = (store(&dir), store(&dir));
    put_all(&writer, &live);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                // Each of these stores closes a segment that holds dead blobs among living ones.
                let passing = store(&dir);
                passing.put(format!("dead {round}").as_bytes()).unwrap();
                put_all(&passing, &live);
                passing.collect(&hashes, &Work::default()).unwrap();
            }
        });
        scope.spawn(|| {
            for round in 0..rounds {
                writer.put(format!("new {round}").as_bytes()).unwrap();
                put_all(&writer, &live);
            }
        });
        for _ in 0..rounds {
            for (hash, blob) in hashes.iter().zip(&live) {
                assert_eq!(reader.read(hash).unwrap(), *blob);
            }
        }
    });
    assert_eq!(reader.verify(&Work::default()).unwrap().problems, []);
}
