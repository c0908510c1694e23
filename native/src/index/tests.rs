use super::*;
use crate::wire::{FileKind, StatKey};

fn stat(ino: u64) -> StatKey {
    StatKey {
        kind: FileKind::File,
        mode: 0o644,
        size: 3,
        mtime_ns: 5,
        ctime_ns: 6,
        ino,
        dev: 7,
    }
}

fn put(path: &str, entry: Entry) -> Step {
    Step::Put {
        path: path.into(),
        entry,
        extra: Vec::new(),
    }
}

fn dir() -> Entry {
    Entry::dir(StatKey {
        kind: FileKind::Dir,
        mode: 0o755,
        ..stat(2)
    })
}

fn sample() -> Index {
    let mut index = Index::new();
    index.apply([
        put("a", dir()),
        put("a/x", Entry::file(stat(3), [1; 16])),
        put("a-b", Entry::file(stat(4), [2; 16])),
        put("a/sub", dir()),
        put("a/sub/y", Entry::file(stat(5), [3; 16])),
        put("z", Entry::ignored(FileKind::Dir)),
    ]);
    index
}

fn paths(index: &Index) -> Vec<String> {
    let mut out: Vec<String> = index
        .below(0)
        .into_iter()
        .map(|(path, _)| String::from_utf8(path).unwrap())
        .collect();
    out.sort();
    out
}

#[test]
fn what_is_put_is_found_by_its_path_and_name() {
    let index = sample();
    assert_eq!(paths(&index), ["a", "a-b", "a/sub", "a/sub/y", "a/x", "z"]);
    let node = index.find(b"a/sub/y").unwrap();
    assert_eq!(index.path(node), b"a/sub/y");
    assert_eq!(index.c_name(node), c"y");
    assert_eq!(index.covered_files(), 3);
    assert_eq!(index.known(), 5, "an ignored name has no version");
}

#[test]
fn a_folder_goes_with_all_below_it() {
    let mut index = sample();
    index.apply([Step::Remove { path: b"a".to_vec() }]);
    assert_eq!(paths(&index), ["a-b", "z"]);
    assert_eq!(index.covered_files(), 1);
    index.apply([put("q", Entry::file(stat(9), [9; 16]))]);
    assert_eq!(
        index.version_at(b"q"),
        Version::File {
            mode: 0o644,
            size: 3,
            content: [9; 16]
        }
    );
}

#[test]
fn a_file_in_a_folders_place_drops_what_was_below() {
    let mut index = sample();
    index.apply([put("a", Entry::file(stat(8), [8; 16]))]);
    assert_eq!(paths(&index), ["a", "a-b", "z"]);
}

#[test]
fn forgotten_ignored_names_leave_their_folder_to_be_read_again() {
    let mut index = sample();
    index.forget_ignored();
    assert_eq!(index.find(b"z"), None);
    assert!(index.entry(index.root()).has(flag::UNTRUSTED));
}
