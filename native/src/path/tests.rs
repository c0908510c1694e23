use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::leaf;
use super::look::{OpenFile, Writer};
use super::*;

const BOTH: [Resolver; 2] = [Resolver::Auto, Resolver::Component];

/// Rounds of an attack. The long run sets more.
fn attacks() -> usize {
    let set = std::env::var("TAKEBACK_STRESS_ATTACKS");
    set.ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

fn tree() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("d/e")).unwrap();
    std::fs::create_dir_all(dir.path().join("out/e")).unwrap();
    std::fs::write(root.join("file"), "x").unwrap();
    (dir, root)
}

#[test]
fn a_walk_ends_at_what_is_no_folder_of_the_tree() {
    let (dir, root) = tree();
    let links = [
        ("up", "../out"),
        ("abs", dir.path().join("out").to_str().unwrap()),
        ("inside", "d"),
        ("self", "self"),
        ("dangling", "nowhere"),
        ("proc", "/proc/self/root"),
        ("dot", "."),
        ("d/back", ".."),
    ]
    .map(|(name, target)| {
        symlink(target, root.join(name)).unwrap();
        name
    });
    let mut rows: Vec<(String, WalkError)> = links
        .iter()
        .map(|l| (format!("{l}/x"), WalkError::NotFolder))
        .collect();
    rows.extend(links.iter().map(|l| (format!("{l}/e/x"), WalkError::NotFolder)));
    for (path, error) in [
        ("file/x", WalkError::NotFolder),
        ("gone/x", WalkError::Missing),
        ("d/gone/x", WalkError::Missing),
        ("", WalkError::BadName),
        ("..", WalkError::BadName),
        ("../out/x", WalkError::BadName),
        ("d/../../out/x", WalkError::BadName),
        ("d/./x", WalkError::BadName),
        ("d//x", WalkError::BadName),
        ("/etc/x", WalkError::BadName),
        ("d/", WalkError::BadName),
    ] {
        rows.push((path.to_string(), error));
    }
    for resolver in BOTH {
        let root = Root::open(&root, resolver).unwrap();
        for (path, error) in &rows {
            assert_eq!(
                root.parent(path.as_bytes()).unwrap_err(),
                *error,
                "{resolver:?} {path:?}"
            );
        }
        for path in ["x", "d/x", "d/e/x", "d/..x", "d/e/...", "d/e/\u{fffd}"] {
            assert!(root.parent(path.as_bytes()).is_ok(), "{resolver:?} {path:?}");
        }
    }
}

#[test]
fn a_mount_below_the_root_is_not_entered() {
    // The one tree that has a mount on every Linux.
    if !std::path::Path::new("/dev/shm").is_dir() {
        eprintln!("skipped: no mount below /dev");
        return;
    }
    for resolver in BOTH {
        let root = Root::open(std::path::Path::new("/dev"), resolver).unwrap();
        assert_eq!(
            root.parent(b"shm/x").unwrap_err(),
            WalkError::Mount,
            "{resolver:?}"
        );
    }
}

#[test]
fn a_path_longer_than_path_max_is_walked_in_pieces() {
    let (_dir, root) = tree();
    for resolver in BOTH {
        let root = Root::open(&root, resolver).unwrap();
        let part = "n".repeat(200);
        let mut path = String::new();
        for _ in 0..30 {
            let parent = root.folder(path.as_bytes()).unwrap();
            match leaf::make_folder(parent.dir.as_fd(), part.as_bytes()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => panic!("{errno}"),
            }
            path = if path.is_empty() {
                part.clone()
            } else {
                format!("{path}/{part}")
            };
        }
        assert_eq!(path.len(), 6029);
        assert!(root.folder(path.as_bytes()).is_ok(), "{resolver:?}");
    }
}

#[test]
fn a_folder_swapped_with_a_link_never_leads_outside() {
    for resolver in BOTH {
        let (dir, path) = tree();
        let root = Root::open(&path, resolver).unwrap();
        let inside = root.folder(b"d/e").unwrap().id;
        symlink("../out", path.join("l")).unwrap();
        let stop = AtomicBool::new(false);
        let mut found = [0usize; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    leaf::exchange(root.fd(), b"d", b"l").unwrap();
                }
            });
            for round in 0..attacks() {
                match root.parent(b"d/e/x") {
                    Ok(parent) => {
                        assert_eq!(parent.id, inside, "{resolver:?} round {round}");
                        found[0] += 1;
                        if round % 64 == 0 {
                            drop(
                                leaf::create_file(parent.dir.as_fd(), format!("{round}").as_bytes()).unwrap(),
                            );
                        }
                    }
                    Err(WalkError::NotFolder | WalkError::Io(Errno::AGAIN)) => found[1] += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(
            std::fs::read_dir(dir.path().join("out/e")).unwrap().count(),
            0,
            "{resolver:?}"
        );
        println!("{resolver:?}: {} rounds, {found:?} inside and refused", attacks());
        assert!(found[0] > 0 && found[1] > 0, "the attack was on: {found:?}");
    }
}

#[test]
fn a_folder_that_was_moved_away_is_no_longer_at_its_path() {
    let (dir, path) = tree();
    for resolver in BOTH {
        let root = Root::open(&path, resolver).unwrap();
        let parent = root.parent(b"d/e/x").unwrap();
        assert_eq!(root.still_at(b"d/e", parent.id), Ok(true));
        std::fs::rename(path.join("d"), dir.path().join("moved")).unwrap();
        assert_eq!(root.still_at(b"d/e", parent.id), Ok(false));
        std::fs::rename(dir.path().join("moved"), path.join("d")).unwrap();
    }
}

#[test]
fn special_files_are_not_opened_and_nobody_waits() {
    let (_dir, path) = tree();
    let root = Root::open(&path, Resolver::Auto).unwrap();
    rustix::fs::mkfifoat(root.fd(), "pipe", rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    symlink("file", path.join("link")).unwrap();
    assert_eq!(leaf::open_file(root.fd(), b"pipe").unwrap_err(), Errno::INVAL);
    assert_eq!(leaf::open_file(root.fd(), b"link").unwrap_err(), Errno::LOOP);
    assert_eq!(leaf::open_file(root.fd(), b"d").unwrap_err(), Errno::INVAL);
}

#[test]
fn a_lease_tells_of_writers_and_of_those_that_come_while_we_read() {
    let (_dir, path) = tree();
    let root = Root::open(&path, Resolver::Auto).unwrap();
    let leased = || {
        let mut open = OpenFile::open(root.fd(), b"file").unwrap();
        open.lease();
        open
    };
    let writer = std::fs::OpenOptions::new()
        .append(true)
        .open(path.join("file"))
        .unwrap();
    assert_eq!(leased().writer(), Writer::Open);
    drop(writer);
    let held = leased();
    if held.writer() == Writer::Unknown {
        eprintln!("skipped: no leases on this file system");
        return;
    }
    assert_eq!(held.writer(), Writer::None);
    // The lease holder isn't waited for by one who won't wait; his try alone breaks the lease, and SIGURG is ignored.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let knocking = rustix::fs::open(path.join("file"), flags, Mode::empty());
    assert_eq!(knocking.unwrap_err(), Errno::AGAIN);
    assert_eq!(held.writer(), Writer::Open);
}

#[test]
fn chmod_of_a_folder_keeps_its_setgid_bit_and_follows_no_link() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let (dir, path) = tree();
    let root = Root::open(&path, Resolver::Auto).unwrap();
    std::fs::set_permissions(path.join("d"), std::fs::Permissions::from_mode(0o2755)).unwrap();
    let id = root.folder(b"d").unwrap().id;
    leaf::chmod_folder(root.fd(), b"d", id, 0o700).unwrap();
    assert_eq!(path.join("d").metadata().unwrap().mode() & 0o7777, 0o2700);
    symlink("../out", path.join("l")).unwrap();
    let out = FileId::of(&rustix::fs::stat(dir.path().join("out")).unwrap());
    assert!(leaf::chmod_folder(root.fd(), b"l", out, 0o777).is_err());
    assert!(
        leaf::chmod_folder(root.fd(), b"d", out, 0o777).is_err(),
        "another folder than the expected one"
    );
}
