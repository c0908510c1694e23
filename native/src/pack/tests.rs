//! Git is the oracle: every object of packs that it made, and packs that were damaged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;

fn git(at: &Path, args: &[&str]) -> Vec<u8> {
    let out = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(args)
        .current_dir(at)
        .stdin(Stdio::null())
        .output()
        .expect("git is needed here");
    assert!(
        out.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

/// A repository with chains of deltas, empty and large files, in one pack; answers the pack without extension.
fn packed(at: &Path, format: &str, repack: &[&str]) -> PathBuf {
    git(
        at,
        &["init", "-q", "-b", "main", &format!("--object-format={format}")],
    );
    let text = |from: u32| -> String {
        (from..2000)
            .map(|n| format!("line {n} {}\n", n * 7919 % 1000))
            .collect()
    };
    for version in 0..20 {
        std::fs::write(at.join("long"), text(version * 3)).unwrap();
        std::fs::write(at.join(format!("small-{version}")), format!("{version}\n")).unwrap();
        git(at, &["add", "-A"]);
        git(at, &["commit", "-qm", "next"]);
    }
    std::fs::write(at.join("empty"), "").unwrap();
    std::fs::write(at.join("large"), vec![7; 3 << 20]).unwrap();
    git(at, &["add", "-A"]);
    git(at, &["commit", "-qm", "last"]);
    git(at, repack);
    let mut packs = std::fs::read_dir(at.join(".git/objects/pack"))
        .unwrap()
        .map(|e| e.unwrap().path());
    packs
        .find(|path| path.extension().is_some_and(|e| e == "pack"))
        .unwrap()
        .with_extension("")
}

/// Ids of all blobs, as git tells.
fn blobs(at: &Path) -> Vec<String> {
    let listed = git(
        at,
        &[
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objecttype) %(objectname)",
        ],
    );
    let text = String::from_utf8(listed).unwrap();
    text.lines()
        .filter_map(|line| Some(line.strip_prefix("blob ")?.to_string()))
        .collect()
}

fn compare(format: &str, repack: &[&str], kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let pack = Pack::open(&packed(folder.path(), format, repack), kind).unwrap();
    let ids = blobs(folder.path());
    assert!(ids.len() > 40);
    let mut window = Window::new(4096);
    for hex in ids {
        let id = ObjectId::from_hex(hex.as_bytes()).unwrap();
        let offset = pack.idx().find(&id).unwrap().expect("git put it there");
        let bytes = git(folder.path(), &["cat-file", "blob", &hex]);
        assert_eq!(
            pack.size(offset, &mut window).unwrap(),
            bytes.len() as u64,
            "{hex}"
        );
        assert!(*pack.blob(offset).unwrap() == bytes, "{hex}");
    }
    let nobody = ObjectId::null(kind);
    assert_eq!(pack.idx().find(&nobody).unwrap(), None);
}

#[test]
fn every_blob_is_what_git_says() {
    compare("sha1", &["repack", "-adfq", "--depth=50"], Kind::Sha1);
}

#[test]
fn so_it_is_where_deltas_name_their_bases_by_id() {
    // Without offsets of bases.
    let repack = ["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"];
    compare("sha1", &repack, Kind::Sha1);
}

#[test]
fn so_it_is_with_sha256() {
    compare("sha256", &["repack", "-adfq"], Kind::Sha256);
}

#[test]
fn a_pack_that_is_cut_short_or_of_another_index_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let stem = packed(folder.path(), "sha1", &["repack", "-adq"]);
    let bytes = std::fs::read(stem.with_extension("pack")).unwrap();
    let other = folder.path().join("other");
    std::fs::copy(stem.with_extension("idx"), other.with_extension("idx")).unwrap();
    for length in [0, 11, 40, bytes.len() - 1] {
        std::fs::write(other.with_extension("pack"), &bytes[..length]).unwrap();
        assert!(Pack::open(&other, Kind::Sha1).is_err(), "{length}");
    }
    std::fs::write(other.with_extension("pack"), &bytes).unwrap();
    assert!(Pack::open(&other, Kind::Sha1).is_ok());
    assert!(Pack::open(&other, Kind::Sha256).is_err());
}

#[test]
fn bytes_that_changed_are_a_fault_or_other_bytes_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let stem = packed(folder.path(), "sha1", &["repack", "-adfq"]);
    let bytes = std::fs::read(stem.with_extension("pack")).unwrap();
    let other = folder.path().join("other");
    std::fs::copy(stem.with_extension("idx"), other.with_extension("idx")).unwrap();
    let ids: Vec<ObjectId> = blobs(folder.path())
        .iter()
        .map(|hex| ObjectId::from_hex(hex.as_bytes()).unwrap())
        .collect();
    let mut faults = 0;
    for round in 0..25_usize {
        let mut bad = bytes.clone();
        for step in 0..8_usize {
            let at = 12 + (round * 7919 + step * 104_729) % (bytes.len() - 40);
            bad[at] ^= 1 << ((round + step) % 8);
        }
        std::fs::write(other.with_extension("pack"), &bad).unwrap();
        let pack = Pack::open(&other, Kind::Sha1).unwrap();
        let mut window = Window::new(4096);
        for id in &ids {
            let offset = pack.idx().find(id).unwrap().unwrap();
            let _ = pack.size(offset, &mut window);
            match pack.blob(offset) {
                Ok(read) => {
                    faults += usize::from(crate::borrow::loan::blob_id(Kind::Sha1, &read) != Some(*id))
                }
                Err(_) => faults += 1,
            }
        }
    }
    assert!(faults > 25);
}
