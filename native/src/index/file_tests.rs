use std::fs;

use super::super::{Entry, Index, Step, flag};
use super::*;
use crate::wire::{FileKind, RelPath, StatKey};

const STORE: Id = [7; 16];

fn at(seq: u64) -> Position {
    Position {
        seq,
        observation: [seq as u8; 16],
    }
}

fn put(path: &str, ino: u64, extra: &str) -> Step {
    let kind = if extra.is_empty() {
        FileKind::File
    } else {
        FileKind::Symlink
    };
    let stat = StatKey {
        kind,
        mode: 0o640,
        size: ino,
        mtime_ns: -5,
        ctime_ns: 6,
        ino,
        dev: 7,
    };
    let entry = if extra.is_empty() {
        Entry::file(stat, [ino as u8; 16])
    } else {
        Entry::symlink(stat)
    };
    Step::Put {
        path: path.into(),
        entry: entry.with(flag::UNTRUSTED),
        extra: extra.into(),
    }
}

fn dir(path: &str) -> Step {
    let stat = StatKey {
        kind: FileKind::Dir,
        mode: 0o755,
        size: 0,
        mtime_ns: 1,
        ctime_ns: 2,
        ino: 9,
        dev: 7,
    };
    Step::Put {
        path: path.into(),
        entry: Entry::dir(stat),
        extra: Vec::new(),
    }
}

type State = Vec<(RelPath, Entry, Vec<u8>)>;

fn state(index: &Index) -> State {
    let mut out: Vec<_> = index
        .below(0)
        .into_iter()
        .map(|(path, node)| (path, *index.entry(node), index.extra(node).to_vec()))
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// A file with a base and two deltas; answers what the index was at each position.
fn written(file: &mut IndexFile) -> Vec<(Position, State)> {
    let mut index = Index::new();
    let mut states = Vec::new();
    let batches = [
        vec![dir("a"), put("a/x", 3, ""), put("a/l", 4, "x"), put("a-b", 5, "")],
        vec![
            put("a/new", 6, ""),
            Step::Remove {
                path: b"a-b".to_vec(),
            },
        ],
        vec![put("a/x", 8, ""), dir("q"), put("q/deep", 9, "")],
    ];
    for (seq, steps) in batches.into_iter().enumerate() {
        index.apply(steps.iter().cloned());
        index.at = Some(at(seq as u64 + 1));
        index.scanned_at_ns = seq as i64;
        file.forward(&index, &steps, RulesToWrite::Same(b"rules"))
            .unwrap();
        states.push((at(seq as u64 + 1), state(&index)));
    }
    states
}

#[test]
fn a_base_and_its_deltas_are_read_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let mut file = IndexFile::new(path.clone(), STORE);
    let states = written(&mut file);
    let loaded = IndexFile::new(path.clone(), STORE).load().unwrap();
    let last = states.last().unwrap();
    assert_eq!((loaded.at, state(&loaded.index)), *last);
    assert_eq!(loaded.rules, b"rules");
    assert_eq!(loaded.index.scanned_at_ns, 2);
    assert_eq!(loaded.index.covered_files(), 4);
    assert!(
        IndexFile::new(path, [8; 16]).load().is_none(),
        "another store's index is none"
    );
}

#[test]
fn a_delta_leaves_out_of_a_plain_file_what_all_of_them_share() {
    let stat = StatKey {
        kind: FileKind::File,
        mode: 0o640,
        size: 5,
        mtime_ns: -5,
        ctime_ns: 6,
        ino: 2,
        dev: 3,
    };
    let step = |flags: u32| Step::Put {
        path: b"f".to_vec(),
        entry: Entry::file(stat, [0xab; 16]).with(flags),
        extra: Vec::new(),
    };
    let ops = |flags: u32| delta::frame((at(3), at(4)), 9, &[step(flags)])[16 + 24 + 24 + 8 + 4..].to_vec();
    // The same bytes stand in test/backend/portable-index.test.ts.
    let hex = "010000006602a001010500000000000000fbffffffffffffff06000000000000000200000000000000\
               0300000000000000abababababababababababababababab";
    let found = ops(flag::UNTRUSTED);
    let shown: String = found[..found.len() - 8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(shown, hex);
    let whole = (4 + 1) + 1 + 74 + 4 + 8;
    assert_eq!(ops(256).len(), whole, "a flag that is no byte");
}

#[test]
fn damage_at_any_byte_answers_none_or_an_earlier_position_and_never_a_wrong_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let states = written(&mut IndexFile::new(path.clone(), STORE));
    let whole = fs::read(&path).unwrap();
    let mut seen = [0; 2];
    let mut check = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let Some(loaded) = IndexFile::new(path.clone(), STORE).load() else {
            seen[0] += 1;
            return;
        };
        seen[1] += 1;
        let right = states.iter().find(|(at, _)| *at == loaded.at);
        assert_eq!(
            Some(&state(&loaded.index)),
            right.map(|(_, state)| state),
            "{what}"
        );
    };
    for byte in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x41;
        check(&damaged, &format!("byte {byte}"));
        check(&whole[..byte], &format!("cut at {byte}"));
    }
    assert!(seen[0] > 0 && seen[1] > 0, "both answers were met: {seen:?}");
}

#[test]
fn a_file_that_another_process_moved_on_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let mut file = IndexFile::new(path.clone(), STORE);
    written(&mut file);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"torn tail");
    fs::write(&path, &bytes).unwrap();
    let mut index = Index::new();
    index.apply([put("only", 1, "")]);
    index.at = Some(at(9));
    file.forward(&index, &[put("only", 1, "")], RulesToWrite::Same(b""))
        .unwrap();
    let loaded = IndexFile::new(path, STORE).load().unwrap();
    assert_eq!((loaded.at, state(&loaded.index)), (at(9), state(&index)));
}

#[test]
fn the_writer_rewrites_once_deltas_outgrow_the_base() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let mut file = IndexFile::new(path.clone(), STORE);
    let mut index = Index::new();
    for seq in 1..200 {
        let steps: Vec<Step> = (0..100).map(|i| put(&format!("f{i}"), seq, "")).collect();
        index.apply(steps.iter().cloned());
        index.at = Some(at(seq));
        file.forward(&index, &steps, RulesToWrite::Same(b"")).unwrap();
    }
    assert!(fs::metadata(&path).unwrap().len() < (1 << 20) + 30_000);
    assert_eq!(
        state(&IndexFile::new(path, STORE).load().unwrap().index),
        state(&index)
    );
}
