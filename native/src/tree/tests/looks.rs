//! Looks at named paths, rows of others, and what can't be looked at.

use std::fs;

use super::kit::{Kit, shown};
use crate::ingest;
use crate::scan::Request;
use crate::task::Work;
use crate::wire::{Position, Version};

fn only(paths: &[&str]) -> Request {
    Request {
        only: Some(paths.iter().map(|p| p.as_bytes().to_vec()).collect()),
        ..Request::default()
    }
}

#[test]
fn a_look_at_named_paths_sees_those_and_the_new_folders_above_them() {
    let mut kit = Kit::new();
    kit.write("a", "1");
    kit.write("b", "1");
    kit.write("d/x", "1");
    kit.boundary();
    kit.write("a", "22");
    kit.write("b", "22");
    kit.write("n/m/new", "1");
    kit.write("n/m/unseen", "1");
    kit.remove("d");
    let changes = kit.observe_with(only(&["a", "n/m/new", "d/x", "never/there"]));
    let paths: Vec<String> = shown(&changes)
        .iter()
        .map(|l| l.split(':').next().unwrap().into())
        .collect();
    assert_eq!(paths, ["a", "d", "d/x", "n", "n/m", "n/m/new"]);
    let rest: Vec<String> = kit
        .observe()
        .iter()
        .map(|l| l.split(':').next().unwrap().into())
        .collect();
    assert_eq!(rest, ["b", "n/m/unseen"]);
}

#[test]
fn rows_of_others_are_taken_and_a_second_look_updates_the_set() {
    let mut kit = Kit::new();
    kit.write("a", "1");
    kit.boundary();
    kit.write("a", "theirs");
    let scanned = kit.scan(Request::default());
    kit.tree
        .ingest(scanned.set, &ingest::Request::default(), &Work::default())
        .unwrap();
    assert_eq!(kit.tree.changes(scanned.set).unwrap().len(), 1);
    let mode = 0o777
        & std::os::unix::fs::PermissionsExt::mode(&fs::metadata(kit.root.join("a")).unwrap().permissions());
    let theirs = Version::File {
        mode,
        size: 6,
        content: kit.hash("theirs"),
    };
    kit.tree.catch_up(
        &[(b"a".to_vec(), theirs)],
        Position {
            seq: 7,
            observation: [7; 16],
        },
    );
    kit.tree
        .look(scanned.set, &[b"a".to_vec()], &Work::default())
        .unwrap();
    assert!(
        kit.tree.changes(scanned.set).unwrap().is_empty(),
        "what they recorded is no change of ours"
    );
    kit.write("a", "later");
    kit.tree
        .look(scanned.set, &[b"a".to_vec()], &Work::default())
        .unwrap();
    let changes = kit.tree.changes(scanned.set).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(
        changes[0].before,
        Version::File {
            mode,
            size: 6,
            content: kit.hash("theirs")
        }
    );
}

#[test]
fn a_catch_up_reaches_the_index_file_with_the_next_commit() {
    let mut kit = Kit::new();
    kit.write("a", "1");
    kit.boundary();
    kit.write("b", "1");
    let b = Version::File {
        mode: 0o644,
        size: 1,
        content: kit.hash("1"),
    };
    kit.tree.catch_up(
        &[(b"b".to_vec(), b)],
        Position {
            seq: 5,
            observation: [5; 16],
        },
    );
    let set = kit.scan(Request::default()).set;
    kit.tree
        .ingest(set, &ingest::Request::default(), &Work::default())
        .unwrap();
    let at = Position {
        seq: 6,
        observation: [6; 16],
    };
    kit.tree.commit(set, at).unwrap();
    let list = kit.list();
    kit.tree = super::kit::open(kit.folder.path(), &kit.store, |_| ());
    assert_eq!(kit.tree.load(), Some(at));
    assert_eq!(kit.list(), list);
}

#[test]
fn a_path_that_vanishes_between_scan_and_ingest_is_confirmed_gone() {
    let mut kit = Kit::new();
    kit.write("old", "1");
    kit.boundary();
    kit.write("old", "22");
    kit.write("new", "1");
    kit.write("turns/into", "1");
    let scanned = kit.scan(Request::default());
    kit.remove("old");
    kit.remove("new");
    kit.remove("turns");
    kit.write("turns", "a file");
    kit.tree
        .ingest(scanned.set, &ingest::Request::default(), &Work::default())
        .unwrap();
    let changes = shown(&kit.tree.changes(scanned.set).unwrap());
    assert!(
        changes[0].starts_with("old: file") && changes[0].ends_with("=> absent"),
        "{changes:?}"
    );
    assert!(changes[1].starts_with("turns: absent => file"), "{changes:?}");
    assert_eq!(changes.len(), 2);
}

#[test]
fn an_older_set_is_refused_once_there_is_a_newer_one() {
    let mut kit = Kit::new();
    let request = kit.boundary_request();
    let first = kit.scan(request.clone()).set;
    let second = kit.scan(request).set;
    assert_eq!(
        kit.tree.changes(first).unwrap_err().code(),
        "ERR_INVALID_ARGUMENT"
    );
    kit.tree.discard(first);
    assert!(kit.tree.changes(second).is_ok());
}

/// Runs `body` on a thread without root's power over permissions, where the tests run as root.
fn unprivileged<T: Send>(kit: &mut Kit, body: impl FnOnce(&mut Kit) -> T + Send) -> T {
    use std::os::unix::fs::chown;
    if !rustix::process::geteuid().is_root() {
        return body(kit);
    }
    const NOBODY: u32 = 65534;
    let mut stack = vec![kit.folder.path().to_path_buf()];
    while let Some(path) = stack.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        if path.is_dir() {
            stack.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            // SAFETY: the raw call changes this thread's ids alone, and the thread ends with the test.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(done, 0);
            body(kit)
        });
        run.join().unwrap()
    })
}

fn chmod(kit: &Kit, path: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(kit.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_closed_folder_keeps_what_was_known_and_its_names_come_back_flagged() {
    let mut kit = Kit::new();
    kit.write("d/known", "1");
    kit.write("d/lost", "1");
    kit.write("f", "1");
    unprivileged(&mut kit, |kit| {
        chmod(kit, "d", 0o755);
        chmod(kit, "f", 0o644);
        kit.boundary();
        kit.remove("d/lost");
        kit.write("d/new", "1");
        chmod(kit, "d", 0o000);
        chmod(kit, "f", 0o000);
        let scanned = kit.scan(Request::default());
        let result = kit
            .tree
            .ingest(scanned.set, &ingest::Request::default(), &Work::default())
            .unwrap();
        assert_eq!((scanned.problems.len(), result.problems.len()), (1, 1));
        let changes = shown(&kit.tree.changes(scanned.set).unwrap());
        assert_eq!(
            changes,
            ["d: dir 755 => (Unreadable)", "f: file 644 1 => (Unreadable)"]
        );
        kit.commit(scanned.set);
        assert_eq!(kit.list(), ["d", "d/known", "d/lost", "f"]);
        assert!(kit.observe().is_empty(), "still closed is no news");
        chmod(kit, "d", 0o755);
        chmod(kit, "f", 0o644);
        chmod(kit, "d/new", 0o644);
        assert_eq!(
            kit.observe(),
            [
                "d: (Unreadable) => dir 755",
                "d/lost: file 644 1 => absent [1]",
                "d/new: (Unreadable) => file 644 1 [8]",
                "f: (Unreadable) => file 644 1",
            ]
        );
    });
}

#[test]
fn a_name_that_a_folder_lists_and_hides_is_uncovered_and_no_creation_later() {
    for mode in [0o444, 0o600] {
        let mut kit = Kit::new();
        kit.write("d/file", "user");
        kit.write("d/sub/deep", "user");
        unprivileged(&mut kit, |kit| {
            chmod(kit, "d/file", 0o644);
            chmod(kit, "d/sub/deep", 0o644);
            chmod(kit, "d/sub", 0o755);
            chmod(kit, "d", mode);
            let request = kit.boundary_request();
            let scanned = kit.scan(request);
            let problems: Vec<_> = scanned
                .problems
                .iter()
                .map(|problem| problem.path.clone())
                .collect();
            assert!(problems.contains(&b"d/file".to_vec()) && problems.contains(&b"d/sub".to_vec()));
            kit.tree
                .ingest(scanned.set, &ingest::Request::default(), &Work::default())
                .unwrap();
            kit.commit(scanned.set);
            assert_eq!(kit.uncovered(), ["d/file Unreadable", "d/sub Unreadable"]);
            assert!(kit.observe().is_empty(), "still hidden is no news");
            chmod(kit, "d", 0o755);
            assert_eq!(
                kit.observe(),
                [
                    format!("d: dir {mode:o} => dir 755"),
                    "d/file: (Unreadable) => file 644 4".to_string(),
                    "d/sub: (Unreadable) => dir 755".to_string(),
                    "d/sub/deep: (Unreadable) => file 644 4 [8]".to_string(),
                ]
            );
        });
    }
}

#[test]
fn a_known_name_that_can_not_be_looked_at_keeps_its_version_and_a_new_one_is_uncovered() {
    let named = only(&["d/known", "d/sub/deep", "d/new", "d/none"]);
    // Within a turn the folder's rules are read by its path, which fails: they could hide the name.
    for (request, reason) in [
        (None, "Unreadable"),
        (Some(Request::default()), "Ignored"),
        (Some(named), "Ignored"),
    ] {
        let mut kit = Kit::new();
        kit.write("d/known", "1");
        kit.write("d/sub/deep", "1");
        unprivileged(&mut kit, |kit| {
            chmod(kit, "d", 0o755);
            kit.boundary();
            kit.write("d/new", "12");
            chmod(kit, "d/new", 0o644);
            chmod(kit, "d", 0o444);
            let request = request.unwrap_or_else(|| kit.boundary_request());
            let mut seen = shown(&kit.observe_with(request));
            seen.retain(|line| !line.starts_with("d: "));
            assert_eq!(seen, [format!("d/new: absent => ({reason})")]);
            assert_eq!(kit.list(), ["d", "d/known", "d/new", "d/sub", "d/sub/deep"]);
            chmod(kit, "d", 0o755);
            let entered = format!("d/new: ({reason}) => file 644 2");
            let back = kit.boundary();
            assert!(back.iter().any(|line| line.starts_with(&entered)), "{back:?}");
        });
    }
}
