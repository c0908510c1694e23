use std::os::unix::fs::{MetadataExt, symlink};

use super::{Peek, peek};
use crate::apply::kit::{Kit, dir, link};
use crate::path::Resolver;
use crate::task::Work;
use crate::wire::{FileKind, Reason, SpecialType, Version};

fn at(kit: &Kit, path: &str) -> Peek {
    look(kit, path, false)
}

fn look(kit: &Kit, path: &str, included: bool) -> Peek {
    let paths = [path.as_bytes().to_vec()];
    peek(&kit.hands, &paths, &[included], &Work::default())
        .unwrap()
        .remove(0)
}

fn reason(peek: &Peek) -> Option<Reason> {
    match &peek.version {
        Version::Uncovered { reason, .. } => Some(*reason),
        _ => None,
    }
}

#[test]
fn every_kind_is_told_with_what_belongs_to_it() {
    let kit = Kit::new();
    kit.write("f", "one");
    std::fs::hard_link(kit.path("f"), kit.path("g")).unwrap();
    kit.symlink("f", "l");
    kit.mkdir("d");
    kit.write("d/b", "");
    kit.write("d/a", "");
    rustix::fs::mkfifoat(kit.hands.root.fd(), "p", rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    let file = at(&kit, "f");
    let ino = kit.path("f").metadata().unwrap().ino();
    assert_eq!((file.version, file.ino, file.nlink), (kit.text("one"), ino, 2));
    assert_eq!(file.open_for_write, Some(false));
    assert_eq!(at(&kit, "l").version, link("f"));
    let folder = at(&kit, "d");
    assert_eq!(
        (folder.version, folder.names),
        (dir(0o755), Some(vec![b"a".to_vec(), b"b".to_vec()]))
    );
    let ino = kit.path("p").symlink_metadata().unwrap().ino();
    let kind = SpecialType::Fifo;
    assert_eq!(at(&kit, "p").version, Version::Special { kind, ino });
    let gone = at(&kit, "gone");
    assert_eq!((gone.version, gone.ino, gone.nlink), (Version::Absent, 0, 0));
}

#[test]
fn a_path_below_a_link_or_a_file_is_absent() {
    let kit = Kit::new();
    kit.write("f", "x");
    std::fs::create_dir(kit.base.join("out")).unwrap();
    std::fs::write(kit.base.join("out/x"), "host").unwrap();
    symlink("../out", kit.path("l")).unwrap();
    for path in ["l/x", "f/x", "gone/x"] {
        assert_eq!(at(&kit, path).version, Version::Absent, "{path}");
    }
}

#[test]
fn secrets_and_large_files_are_never_read() {
    let kit = Kit::new();
    kit.write(".env", "KEY=1");
    kit.write(".env.example", "KEY=");
    kit.write("big", &"x".repeat((1 << 20) + 1));
    assert_eq!(reason(&at(&kit, ".env")), Some(Reason::Secret));
    assert_eq!(
        look(&kit, ".env", true).version,
        kit.text("KEY=1"),
        "an include pattern names it"
    );
    assert_eq!(at(&kit, ".env.example").version, kit.text("KEY="));
    assert_eq!(reason(&at(&kit, "big")), Some(Reason::TooLarge));
}

#[test]
fn a_nested_git_is_told_by_its_identity_alone() {
    let kit = Kit::new();
    kit.mkdir("sub");
    kit.mkdir("sub/.git");
    let found = at(&kit, "sub/.git");
    let Version::Uncovered { reason, stat } = found.version else {
        panic!("{found:?}")
    };
    assert_eq!(
        (reason, stat.kind, stat.mtime_ns, stat.mode),
        (Reason::Git, FileKind::Dir, 0, 0)
    );
    assert_eq!(stat.ino, kit.path("sub/.git").metadata().unwrap().ino());
}

#[test]
fn an_open_writer_is_seen() {
    let kit = Kit::new();
    kit.write("f", "x");
    let writer = std::fs::OpenOptions::new()
        .append(true)
        .open(kit.path("f"))
        .unwrap();
    assert_eq!(at(&kit, "f").open_for_write, Some(true));
    drop(writer);
    assert_eq!(at(&kit, "f").open_for_write, Some(false));
}

#[test]
fn many_paths_come_back_in_the_order_asked_and_a_cancelled_look_is_an_error() {
    let kit = Kit::with(Resolver::Component);
    let paths: Vec<Vec<u8>> = (0..100).rev().map(|i| format!("f{i:02}").into_bytes()).collect();
    for path in &paths {
        let name = std::str::from_utf8(path).unwrap();
        kit.write(name, name);
    }
    let found = peek(&kit.hands, &paths, &[], &Work::default()).unwrap();
    for (path, peek) in paths.iter().zip(&found) {
        let name = std::str::from_utf8(path).unwrap();
        assert_eq!((&peek.path, &peek.version), (path, &kit.text(name)));
    }
    let work = Work::default();
    work.cancel.cancel();
    assert_eq!(
        peek(&kit.hands, &paths, &[], &work).unwrap_err().code(),
        "ERR_CANCELLED"
    );
}
