use std::io::Write;

use crate::apply::kit::{Kit, entry, link};
use crate::wire::{Hash, Version};

fn hash(kit: &Kit, bytes: &str) -> Hash {
    kit.store.hash(bytes.as_bytes())
}

/// Replaces `a` and deletes `b` and the link `l`; their old selves are in the trash.
fn filled() -> Kit {
    let kit = Kit::new();
    kit.write("a", "old a");
    kit.write("b", "old b");
    kit.symlink("old", "l");
    kit.apply(vec![
        entry("a", kit.text("old a"), kit.text("new a")),
        entry("b", kit.text("old b"), Version::Absent),
        entry("l", link("old"), Version::Absent),
    ]);
    kit
}

fn names(kit: &Kit) -> Vec<String> {
    let found = std::fs::read_dir(kit.base.join("trash")).unwrap();
    let mut names: Vec<_> = found
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_nobody_touched_is_dropped_with_its_list() {
    let kit = filled();
    assert_eq!(names(&kit).len(), 4, "three things and the list");
    let emptied = kit.empty_trash();
    assert_eq!(
        (emptied.freed, emptied.kept, emptied.late),
        (13, 0, vec![]),
        "two files and a link's text"
    );
    assert_eq!(names(&kit), Vec::<String>::new());
}

#[test]
fn a_late_write_is_stored_and_named_before_its_file_goes() {
    let kit = filled();
    let name = names(&kit).into_iter().find(|n| n.ends_with("-1")).unwrap();
    let path = kit.base.join("trash").join(&name);
    std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .unwrap()
        .write_all(b", late")
        .unwrap();
    let emptied = kit.empty_trash();
    let late = hash(&kit, "old b, late");
    assert_eq!(emptied.late, [(name.into_bytes(), late)]);
    assert_eq!(kit.store.read(&late).unwrap(), b"old b, late");
    assert_eq!(names(&kit), Vec::<String>::new());
}

#[test]
fn a_file_that_is_open_for_writing_stays_and_its_list_with_it() {
    let kit = filled();
    let path = kit
        .base
        .join("trash")
        .join(names(&kit).into_iter().find(|n| n.ends_with("-1")).unwrap());
    let mut writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    assert_eq!(kit.empty_trash().kept, 1);
    writer.write_all(b"!").unwrap();
    drop(writer);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old b!");
    let emptied = kit.empty_trash();
    assert_eq!(emptied.late.len(), 1);
    assert_eq!(names(&kit), Vec::<String>::new());
}

#[test]
fn without_or_with_a_damaged_list_everything_is_stored_first() {
    for damage in [None, Some("damage")] {
        let kit = filled();
        let list = kit
            .base
            .join("trash")
            .join(names(&kit).into_iter().find(|n| n.ends_with(".kept")).unwrap());
        match damage {
            None => std::fs::remove_file(list).unwrap(),
            Some(bytes) => std::fs::write(list, bytes).unwrap(),
        }
        let emptied = kit.empty_trash();
        let mut late: Vec<Hash> = emptied.late.into_iter().map(|(_, hash)| hash).collect();
        late.sort();
        let mut expected = [hash(&kit, "old a"), hash(&kit, "old b")];
        expected.sort();
        assert_eq!(late, expected);
        assert_eq!(names(&kit), Vec::<String>::new());
    }
}

#[test]
fn a_folder_with_content_in_the_trash_stays() {
    let kit = filled();
    std::fs::create_dir(kit.base.join("trash/foreign")).unwrap();
    std::fs::write(kit.base.join("trash/foreign/x"), "x").unwrap();
    assert_eq!(kit.empty_trash().kept, 1);
    assert_eq!(
        std::fs::read_to_string(kit.base.join("trash/foreign/x")).unwrap(),
        "x"
    );
}

#[test]
fn on_another_mount_the_trash_is_in_the_root_and_goes_when_it_is_empty() {
    let Ok(far) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no second file system");
        return;
    };
    let mut kit = Kit::new();
    for folder in ["trash", "scratch"] {
        std::fs::remove_dir(kit.base.join(folder)).unwrap();
        std::fs::create_dir(far.path().join(folder)).unwrap();
        std::os::unix::fs::symlink(far.path().join(folder), kit.base.join(folder)).unwrap();
    }
    if same_device(&kit.base, far.path()) {
        eprintln!("skipped: no second file system");
        return;
    }
    kit.trash = far.path().join("trash");
    kit.write("a", "old");
    kit.apply(vec![entry("a", kit.text("old"), kit.text("new"))]);
    let hidden = kit.path(".takeback/trash");
    assert_eq!(std::fs::read_to_string(hidden.join(".gitignore")).unwrap(), "*\n");
    assert_eq!(
        (kit.mode(".takeback"), kit.mode(".takeback/trash")),
        (0o700, 0o700)
    );
    assert_eq!(
        std::fs::read_dir(&hidden).unwrap().count(),
        2,
        "the list of names and one kept file"
    );
    assert!(
        kit.hands.abilities().unwrap().exchange,
        "tried in the root's own trash"
    );
    let emptied = kit.empty_trash();
    assert_eq!((emptied.freed, emptied.kept, emptied.late), (3, 0, vec![]));
    assert!(!kit.exists(".takeback"));
}

fn same_device(a: &std::path::Path, b: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    a.metadata().unwrap().dev() == b.metadata().unwrap().dev()
}

/// As [`filled`], of files whose last write lies back; answers the trash names of those that need no second reading.
fn settled() -> (Kit, Vec<String>) {
    let kit = Kit::new();
    for (path, text) in [("a", "old a"), ("b", "old b")] {
        kit.write(path, text);
        set_old(&kit.path(path));
    }
    kit.apply(vec![
        entry("a", kit.text("old a"), kit.text("new a")),
        entry("b", kit.text("old b"), Version::Absent),
    ]);
    let trash = crate::trash::Trash::open(&kit.hands.root, &kit.base.join("trash")).unwrap();
    let list = names(&kit).into_iter().find(|n| n.ends_with(".kept")).unwrap();
    let list = crate::trash::empty::read_list(trash.store_fd(), list.as_bytes()).unwrap();
    let unmoved = list
        .unmoved
        .into_iter()
        .map(|(name, _)| String::from_utf8(name).unwrap());
    let unmoved = unmoved.collect();
    drop(trash);
    (kit, unmoved)
}

fn set_old(path: &std::path::Path) {
    let file = std::fs::File::options().read(true).open(path).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    file.set_modified(old).unwrap();
}

#[test]
fn what_its_stat_key_proves_unmoved_is_dropped_unread() {
    let (kit, unmoved) = settled();
    assert_eq!(unmoved.len(), 2, "one by exchange, one by removal: {unmoved:?}");
    // Were they read, then against this list, which says nothing of their bytes: they would be stored as late writes.
    let list = kit
        .base
        .join("trash")
        .join(names(&kit).into_iter().find(|n| n.ends_with(".kept")).unwrap());
    let bytes = std::fs::read(&list).unwrap();
    let mut reader = crate::wire::Reader::new(&bytes);
    for _ in 0..reader.count(5).unwrap() {
        let _listed = (reader.name().unwrap(), reader.version().unwrap());
    }
    let unread = &bytes[bytes.len() - reader.left()..];
    std::fs::write(&list, [&[0; 4], unread].concat()).unwrap();
    let emptied = kit.empty_trash();
    assert_eq!((emptied.freed, emptied.kept, emptied.late), (10, 0, vec![]));
    assert_eq!(names(&kit), Vec::<String>::new());
}

#[test]
fn a_late_write_is_found_though_its_times_were_put_back() {
    let (kit, unmoved) = settled();
    for name in &unmoved {
        let path = kit.base.join("trash").join(name);
        std::fs::write(&path, "newer").unwrap();
        set_old(&path);
    }
    let emptied = kit.empty_trash();
    assert_eq!(emptied.late.len(), 2);
    assert_eq!(kit.store.read(&hash(&kit, "newer")).unwrap(), b"newer");
}

#[test]
fn a_file_written_just_before_it_was_kept_is_read_again() {
    let kit = filled();
    let trash = crate::trash::Trash::open(&kit.hands.root, &kit.base.join("trash")).unwrap();
    let list = names(&kit).into_iter().find(|n| n.ends_with(".kept")).unwrap();
    let list = crate::trash::empty::read_list(trash.store_fd(), list.as_bytes()).unwrap();
    assert_eq!(list.unmoved, []);
}
