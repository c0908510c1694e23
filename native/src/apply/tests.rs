use std::os::unix::fs::MetadataExt;

use super::kit::{Kit, dir, entry, link, told};
use super::{ApplyEntry, Status, apply};
use crate::journal::Durability;
use crate::task::Work;
use crate::wire::{SpecialType, Version};

const DONE: (Status, &str) = (Status::Done, "");
const CHANGED: (Status, &str) = (Status::Refused, "changed-outside-session");

/// Makes `path` be `version` (absent: nothing to do).
fn lay(kit: &Kit, path: &str, version: &Version) {
    match version {
        Version::Absent => {}
        Version::File { mode, content, .. } => {
            let bytes = kit.store.read(content).unwrap();
            std::fs::write(kit.path(path), bytes).unwrap();
            kit.chmod(path, *mode);
        }
        Version::Symlink { target } => kit.symlink(std::str::from_utf8(target).unwrap(), path),
        Version::Dir { mode } => {
            kit.mkdir(path);
            kit.chmod(path, *mode);
        }
        other => panic!("{other:?}"),
    }
}

fn kinds(kit: &Kit) -> Vec<Version> {
    vec![
        Version::Absent,
        kit.text("one"),
        kit.file("two", 0o755),
        kit.file("one", 0o600),
        link("nowhere"),
        link("else/where"),
        dir(0o755),
        dir(0o750),
    ]
}

#[test]
fn every_kind_becomes_every_other_and_what_left_is_kept() {
    let kit = Kit::new();
    let kinds = kinds(&kit);
    for (i, from) in kinds.iter().enumerate() {
        for (j, to) in kinds.iter().enumerate() {
            let path = format!("p{i}-{j}");
            lay(&kit, &path, from);
            let outcome = kit.one(&path, from.clone(), to.clone());
            assert_eq!(told(&outcome), DONE, "{from:?} -> {to:?}: {}", outcome.detail);
            assert_eq!(&kit.now(&path), to, "{from:?} -> {to:?}");
        }
    }
}

#[test]
fn every_kind_that_is_not_the_expected_one_is_refused_and_stays() {
    let kit = Kit::new();
    let kinds = kinds(&kit);
    let target = kit.text("target");
    for (i, disk) in kinds.iter().enumerate() {
        for (j, expect) in kinds.iter().enumerate().filter(|(j, _)| *j != i) {
            for (k, to) in [Version::Absent, target.clone(), link("t"), dir(0o711)]
                .into_iter()
                .enumerate()
            {
                let path = format!("p{i}-{j}-{k}");
                lay(&kit, &path, disk);
                let outcome = kit.one(&path, expect.clone(), to.clone());
                let what = format!("disk {disk:?}, expected {expect:?}, target {to:?}");
                assert_eq!(outcome.status, Status::Refused, "{what}: {outcome:?}");
                assert_eq!(&kit.now(&path), disk, "{what}");
            }
        }
    }
    assert_eq!(kit.trashed(), Vec::<String>::new(), "nothing left its path");
}

#[test]
fn a_foreign_edit_is_refused_and_named_and_stays() {
    let kit = Kit::new();
    kit.write("a", "human");
    let outcome = kit.one("a", kit.text("agent"), kit.text("before"));
    assert_eq!(told(&outcome), CHANGED);
    assert_eq!(outcome.found, Some(kit.text("human")));
    assert_eq!(kit.read("a"), "human");
}

#[test]
fn what_is_replaced_or_deleted_lies_in_the_trash_byte_for_byte() {
    let kit = Kit::new();
    kit.write("a", "old a");
    kit.write("b", "old b");
    let outcomes = kit.apply(vec![
        entry("a", kit.text("old a"), kit.text("new a")),
        entry("b", kit.text("old b"), Version::Absent),
    ]);
    assert!(outcomes.iter().all(|o| told(o) == DONE), "{outcomes:?}");
    assert_eq!(kit.trashed(), ["old a", "old b"]);
    assert_eq!(kit.read("a"), "new a");
    assert!(!kit.exists("b"));
}

#[test]
fn a_missing_and_a_damaged_blob_fail_and_the_file_stays() {
    let kit = Kit::new();
    kit.write("a", "old");
    let missing = Version::File {
        mode: 0o644,
        size: 3,
        content: [9; 16],
    };
    let outcome = kit.one("a", kit.text("old"), missing);
    assert_eq!(told(&outcome), (Status::Failed, "blob-missing"));
    assert_eq!(kit.read("a"), "old");
}

#[test]
fn an_open_writer_is_refused_for_replace_and_delete() {
    let kit = Kit::new();
    kit.write("a", "old");
    kit.write("b", "old");
    let open = |name| {
        std::fs::OpenOptions::new()
            .append(true)
            .open(kit.path(name))
            .unwrap()
    };
    let writers = [open("a"), open("b")];
    for target in [kit.text("new"), Version::Absent] {
        let name = if target == Version::Absent { "a" } else { "b" };
        let outcome = kit.one(name, kit.text("old"), target);
        assert_eq!(told(&outcome), (Status::Refused, "open-for-write"));
        assert_eq!(kit.read(name), "old");
    }
    drop(writers);
    assert_eq!(told(&kit.one("a", kit.text("old"), kit.text("new"))), DONE);
}

#[test]
fn a_mode_only_entry_keeps_inode_and_mtime() {
    let kit = Kit::new();
    kit.write("run.sh", "echo");
    let before = kit.path("run.sh").metadata().unwrap();
    let outcome = kit.one("run.sh", kit.text("echo"), kit.file("echo", 0o755));
    let after = kit.path("run.sh").metadata().unwrap();
    assert_eq!(told(&outcome), DONE);
    assert_eq!(kit.mode("run.sh"), 0o755);
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );
}

#[test]
fn modes_are_exact_whatever_the_umask_and_setuid_is_never_written() {
    let kit = Kit::new();
    for mode in [0o600, 0o666, 0o777, 0o444, 0o000, 0o4755] {
        let target = kit.file("x", mode);
        kit.one("f", Version::Absent, target);
        assert_eq!(kit.mode("f"), mode & 0o777, "{mode:o}");
        std::fs::remove_file(kit.path("f")).unwrap();
    }
}

#[test]
fn the_deletion_of_one_of_two_names_is_noted_as_a_broken_hard_link() {
    let kit = Kit::new();
    kit.write("a", "old");
    std::fs::hard_link(kit.path("a"), kit.path("b")).unwrap();
    let outcome = kit.one("a", kit.text("old"), Version::Absent);
    assert_eq!(outcome.note, "hardlink-broken");
    assert_eq!(kit.read("b"), "old");
}

#[test]
fn a_broken_hard_link_is_noted_and_its_other_name_keeps_the_old_bytes() {
    let kit = Kit::new();
    kit.write("a", "old");
    std::fs::hard_link(kit.path("a"), kit.path("b")).unwrap();
    let outcome = kit.one("a", kit.text("old"), kit.text("new"));
    assert_eq!(outcome.note, "hardlink-broken");
    assert_eq!(
        (kit.read("a"), kit.read("b")),
        ("new".to_string(), "old".to_string())
    );
}

#[test]
fn a_fifo_is_moved_aside_and_never_opened() {
    let kit = Kit::new();
    let made = rustix::fs::mkfifoat(
        kit.hands.root.fd(),
        "pipe",
        rustix::fs::Mode::from_raw_mode(0o644),
    );
    made.unwrap();
    let ino = kit.path("pipe").metadata().unwrap().ino();
    let kind = SpecialType::Fifo;
    assert_eq!(
        told(&kit.one("pipe", Version::Special { kind, ino: ino + 1 }, Version::Absent)),
        CHANGED
    );
    assert_eq!(
        told(&kit.one("pipe", Version::Special { kind, ino }, Version::Absent)),
        DONE
    );
    assert!(!kit.exists("pipe"));
    let again = kit.one("pipe", Version::Absent, Version::Special { kind, ino });
    assert_eq!(told(&again), (Status::Failed, "unsupported"));
}

#[test]
fn nothing_is_ever_written_to_a_git_folder_or_outside_the_root() {
    let kit = Kit::new();
    kit.mkdir(".git");
    let new = || kit.text("x");
    for path in [".git/config", "sub/.GIT/hooks", ".git", "a/.git./x"] {
        let outcome = kit.one(path, Version::Absent, new());
        assert_eq!(told(&outcome), (Status::Refused, "uncovered"), "{path}");
    }
    for path in ["../x", "a/../../x", "/etc/x", "", "a//b"] {
        let outcome = kit.one(path, Version::Absent, new());
        assert_eq!(told(&outcome), (Status::Failed, "walk-failed"), "{path}");
    }
    assert_eq!(std::fs::read_dir(kit.path(".git")).unwrap().count(), 0);
}

#[test]
fn a_cancelled_apply_puts_everything_back() {
    let kit = Kit::new();
    kit.mkdir("d");
    kit.write("d/x", "x");
    kit.write("a", "a");
    let before = kit.tree();
    let work = Work::default();
    work.cancel.cancel();
    let entries = vec![
        entry("a", kit.text("a"), kit.text("b")),
        entry("d", dir(0o755), Version::Absent),
        entry("d/x", kit.text("x"), Version::Absent),
        entry("n", Version::Absent, dir(0o755)),
    ];
    let outcomes = apply(&kit.hands, kit.request(entries), &work).unwrap();
    assert!(
        outcomes.iter().all(|o| told(o) == (Status::Failed, "cancelled")),
        "{outcomes:?}"
    );
    assert_eq!(kit.tree(), before);
}

#[test]
fn a_root_that_was_replaced_is_an_error_and_nothing_is_written() {
    let kit = Kit::new();
    std::fs::rename(kit.base.join("root"), kit.base.join("moved")).unwrap();
    std::fs::create_dir(kit.base.join("root")).unwrap();
    let request = kit.request(vec![entry("a", Version::Absent, kit.text("x"))]);
    let error = apply(&kit.hands, request, &Work::default()).unwrap_err();
    assert_eq!(error.code(), "ERR_ROOT_CHANGED");
    assert!(!kit.path("a").exists());
}

#[test]
fn full_durability_gives_the_same_tree_and_many_files_use_both_cores() {
    let kit = Kit::new();
    let mut entries = Vec::new();
    for i in 0..200 {
        let path = format!("f{i:03}");
        kit.write(&path, &format!("old {i}"));
        entries.push(entry(
            &path,
            kit.text(&format!("old {i}")),
            kit.text(&format!("new {i}")),
        ));
    }
    let mut request = kit.request(entries);
    request.durability = Durability::Full;
    let outcomes = apply(&kit.hands, request, &Work::default()).unwrap();
    assert!(
        outcomes.iter().all(|o| told(o) == DONE),
        "{:?}",
        outcomes.iter().find(|o| told(o) != DONE)
    );
    assert!((0..200).all(|i| kit.read(&format!("f{i:03}")) == format!("new {i}")));
    assert_eq!(kit.trashed().len(), 200);
}

#[test]
fn attributes_of_the_replaced_file_are_copied() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let kit = Kit::new();
    kit.write("a", "old");
    if setxattr(kit.path("a"), "user.note", b"kept", XattrFlags::empty()).is_err() {
        eprintln!("skipped: no extended attributes on this file system");
        return;
    }
    kit.one("a", kit.text("old"), kit.text("new"));
    let mut value = [0u8; 16];
    let length = getxattr(kit.path("a"), "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn without_an_exchange_the_take_out_rung_gives_the_same_trees_and_says_so() {
    let kit = Kit::new();
    kit.hands.ladder.without_exchange();
    let kinds = kinds(&kit);
    for (i, from) in kinds.iter().enumerate() {
        for (j, to) in kinds.iter().enumerate() {
            let path = format!("p{i}-{j}");
            lay(&kit, &path, from);
            let outcome = kit.one(&path, from.clone(), to.clone());
            assert_eq!(told(&outcome), DONE, "{from:?} -> {to:?}: {}", outcome.detail);
            assert_eq!(&kit.now(&path), to, "{from:?} -> {to:?}");
        }
    }
    kit.write("f", "old");
    assert_eq!(
        kit.one("f", kit.text("old"), kit.text("new")).note,
        "guard:take-out+link"
    );
}

#[test]
fn a_forced_entry_goes_on_under_a_writer_but_not_over_other_bytes() {
    let kit = Kit::new();
    kit.write("a", "old");
    let writer = std::fs::OpenOptions::new()
        .write(true)
        .open(kit.path("a"))
        .unwrap();
    let plain = entry("a", kit.text("old"), kit.text("new"));
    let wrong = entry("a", kit.text("other"), kit.text("new"));
    let force = |entry: ApplyEntry| ApplyEntry { force: true, ..entry };
    assert_eq!(
        told(&kit.apply(vec![plain.clone()])[0]),
        (Status::Refused, "open-for-write")
    );
    assert_eq!(
        told(&kit.apply(vec![force(wrong)])[0]),
        (Status::Refused, "changed-outside-session")
    );
    let done = kit.apply(vec![force(plain)]).remove(0);
    assert_eq!(
        (told(&done), done.note.as_str()),
        ((Status::Done, ""), "open-for-write")
    );
    assert_eq!(kit.read("a"), "new");
    assert_eq!(kit.empty_trash().kept, 1, "the writer's file stays");
    drop(writer);
    assert_eq!(kit.empty_trash().kept, 0);
}
