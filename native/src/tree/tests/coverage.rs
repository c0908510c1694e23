//! What is covered, and how the rest is named.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::kit::{Kit, open};
use crate::task::Work;

#[test]
fn files_links_folders_and_modes_are_covered() {
    let mut kit = Kit::new();
    kit.write("a/b.txt", "one");
    fs::set_permissions(kit.root.join("a/b.txt"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(kit.root.join("a"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(kit.root.join("empty")).unwrap();
    fs::set_permissions(kit.root.join("empty"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("nowhere", kit.root.join("link")).unwrap();
    assert_eq!(
        kit.boundary(),
        [
            "a: absent => dir 750",
            "a/b.txt: absent => file 751 3",
            "empty: absent => dir 755",
            "link: absent => -> nowhere",
        ]
    );
    assert_eq!(kit.tree.store.read(&kit.hash("one")).unwrap(), b"one");
    fs::set_permissions(kit.root.join("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(kit.root.join("link")).unwrap();
    symlink("elsewhere", kit.root.join("link")).unwrap();
    fs::set_permissions(kit.root.join("a/b.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(
        kit.observe(),
        [
            "a/b.txt: file 751 3 => file 600 3",
            "empty: dir 755 => dir 700",
            "link: -> nowhere => -> elsewhere",
        ]
    );
}

#[test]
fn kinds_that_take_each_others_place_take_what_was_below_with_them() {
    let mut kit = Kit::new();
    kit.write("d/x", "1");
    kit.write("d/sub/y", "2");
    kit.write("f", "3");
    kit.boundary();
    kit.remove("d");
    kit.remove("f");
    kit.write("d", "now a file");
    kit.write("f/z", "now a folder");
    let mode = fs::metadata(kit.root.join("f")).unwrap().permissions().mode() & 0o777;
    let file = fs::metadata(kit.root.join("d")).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        kit.observe(),
        [
            format!("d: dir {mode:o} => file {file:o} 10"),
            format!("d/sub: dir {mode:o} => absent"),
            format!("d/sub/y: file {file:o} 1 => absent"),
            format!("d/x: file {file:o} 1 => absent"),
            format!("f: file {file:o} 1 => dir {mode:o}"),
            format!("f/z: absent => file {file:o} 12"),
        ]
    );
    assert_eq!(kit.list(), ["d", "f", "f/z"]);
}

#[test]
fn secrets_are_named_and_never_stored_even_where_a_rule_hides_them() {
    let mut kit = Kit::new();
    kit.write(".gitignore", ".env\n");
    kit.write(".env", "KEY=tok-1");
    kit.write("pkg/.env.local", "KEY=tok-2");
    kit.write("pkg/.env.example", "KEY=");
    fs::create_dir(kit.root.join(".env.d")).unwrap();
    kit.boundary();
    assert_eq!(kit.uncovered(), [".env Secret", "pkg/.env.local Secret"]);
    assert!(!kit.store.has(&kit.hash("KEY=tok-1")) && !kit.store.has(&kit.hash("KEY=tok-2")));
    assert!(kit.store.has(&kit.hash("KEY=")), "a sample is no secret");
    kit.write(".env", "KEY=other");
    assert_eq!(
        kit.observe(),
        [".env: (Secret) => (Secret)"],
        "a change is reported, without bytes"
    );
}

#[test]
fn a_secret_that_include_names_enters_as_nobodys_change() {
    let mut kit = Kit::new();
    kit.write(".env.ci", "d");
    kit.boundary();
    kit.sources.include = vec![b".env.ci".to_vec()];
    let entered = kit.boundary();
    assert!(
        entered[0].starts_with(".env.ci: (Secret) => file") && entered[0].ends_with("[8]"),
        "{entered:?}"
    );
    kit.sources.include.clear();
    let left = kit.boundary();
    assert!(
        left[0].starts_with(".env.ci: file") && left[0].ends_with("=> (Secret) [8]"),
        "{left:?}"
    );
}

#[test]
fn include_wins_over_rules_and_secrets_and_exclude_over_negations() {
    let mut kit = Kit::new();
    kit.write(".gitignore", "build/\n!keep.log\n");
    kit.write("build/out/a.js", "a");
    kit.write("build/out/b.js", "b");
    kit.write("keep.log", "c");
    kit.write(".env.ci", "d");
    kit.sources.include = vec![b"build/out/a.js".to_vec(), b"/.env.ci".to_vec()];
    kit.sources.exclude = vec![b"*.log".to_vec()];
    kit.boundary();
    assert_eq!(
        kit.list(),
        [".env.ci", ".gitignore", "build", "build/out", "build/out/a.js"]
    );
    assert!(kit.uncovered().is_empty());
    kit.write("build/out/c.js", "e");
    assert!(
        kit.observe().is_empty(),
        "what is new in a folder entered for an include is ignored like before"
    );
}

#[test]
fn special_files_are_never_opened_and_are_named() {
    let mut kit = Kit::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        kit.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(kit.root.join("sock")).unwrap();
    assert_eq!(kit.boundary(), ["pipe: absent => Fifo", "sock: absent => Socket"]);
    assert_eq!(kit.uncovered(), ["pipe special", "sock special"]);
}

#[test]
fn large_files_are_uncovered_until_the_limit_lets_them_in() {
    let mut kit = Kit::new();
    kit.write("big", &"x".repeat(1001));
    assert_eq!(kit.boundary(), ["big: absent => (TooLarge)"]);
    assert!(kit.observe().is_empty());
    kit.tree = open(kit.folder.path(), &kit.store, |limits| {
        limits.max_file_bytes = 2000
    });
    kit.tree.load().unwrap();
    let mode = fs::metadata(kit.root.join("big")).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        kit.boundary(),
        [format!("big: (TooLarge) => file {mode:o} 1001 [8]")]
    );
}

#[test]
fn a_limit_that_was_lowered_uncovers_at_the_next_boundary_what_no_write_touched() {
    let mut kit = Kit::new();
    kit.write("big", &"x".repeat(500));
    kit.boundary();
    kit.settle();
    kit.tree = open(kit.folder.path(), &kit.store, |limits| {
        limits.max_file_bytes = 499
    });
    kit.tree.load().unwrap();
    assert!(kit.observe().is_empty(), "not within a turn");
    let mode = fs::metadata(kit.root.join("big")).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        kit.boundary(),
        [format!("big: file {mode:o} 500 => (TooLarge) [8]")]
    );
}

#[test]
fn nested_git_folders_are_known_by_identity_and_the_roots_own_has_no_entry() {
    let mut kit = Kit::new().in_repository();
    kit.write("sub/.git/HEAD", "x");
    kit.write("sub/code", "y");
    kit.write("wt/.git", "gitdir: /nowhere\n");
    kit.write(".takeback/trash/x", "z");
    kit.write(&format!(".takeback-{}-3.tmp", "ab".repeat(16)), "temp");
    kit.boundary();
    assert_eq!(kit.list(), ["sub", "sub/.git", "sub/code", "wt", "wt/.git"]);
    assert_eq!(kit.uncovered(), ["sub/.git Git", "wt/.git Git"]);
    kit.write("sub/.git/HEAD", "moved");
    kit.write("sub/.git/index", "more");
    assert!(kit.observe().is_empty(), "what happens inside is no change");
    kit.remove("sub/.git");
    assert_eq!(kit.observe(), ["sub/.git: (Git) => absent"], "its loss is");
}

#[test]
fn more_entries_than_allowed_are_an_error_and_move_nothing() {
    let kit = Kit::new();
    for i in 0..50 {
        kit.write(&format!("d{}/f{i}", i % 5), "x");
    }
    let mut small = open(kit.folder.path(), &kit.store, |limits| limits.max_entries = 30);
    let error = small.scan(kit.boundary_request(), &Work::default()).unwrap_err();
    assert_eq!(error.code(), "ERR_TOO_MANY_ENTRIES");
    assert!(small.list(b"").is_empty());
}

#[test]
fn a_root_that_vanished_or_was_replaced_is_an_error_and_moves_nothing() {
    let mut kit = Kit::new();
    kit.write("a", "1");
    kit.boundary();
    fs::rename(&kit.root, kit.folder.path().join("away")).unwrap();
    let gone = kit
        .tree
        .scan(kit.boundary_request(), &Work::default())
        .unwrap_err();
    assert_eq!(gone.code(), "ERR_ROOT_CHANGED");
    fs::create_dir(&kit.root).unwrap();
    let other = kit
        .tree
        .scan(kit.boundary_request(), &Work::default())
        .unwrap_err();
    assert_eq!(other.code(), "ERR_ROOT_CHANGED");
    assert_eq!(kit.list(), ["a"]);
}

#[test]
fn a_cancelled_scan_is_an_error_and_moves_nothing() {
    let mut kit = Kit::new();
    kit.write("a", "1");
    let work = Work::default();
    work.cancel.cancel();
    assert_eq!(
        kit.tree.scan(kit.boundary_request(), &work).unwrap_err().code(),
        "ERR_CANCELLED"
    );
    assert!(kit.list().is_empty());
}

#[test]
fn names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let mut kit = Kit::new();
    let name = std::ffi::OsStr::from_bytes(b"a\xff\nb ");
    fs::write(kit.root.join(name), "x").unwrap();
    fs::write(kit.root.join("n".repeat(255)), "y").unwrap();
    kit.boundary();
    assert_eq!(kit.tree.list(b""), [b"a\xff\nb ".to_vec(), vec![b'n'; 255]]);
}
