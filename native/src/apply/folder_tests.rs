use super::Status;
use super::kit::{Kit, dir, entry, link, told};
use crate::wire::Version;

const DONE: (Status, &str) = (Status::Done, "");
const CHANGED: (Status, &str) = (Status::Refused, "changed-outside-session");

#[test]
fn a_session_folder_goes_with_its_files_and_one_that_holds_others_stays() {
    let kit = Kit::new();
    for folder in ["d", "d/e", "k"] {
        kit.mkdir(folder);
    }
    kit.write("d/e/f", "1");
    kit.write("k/mine", "1");
    kit.write("k/yours", "2");
    let gone = |path, expect| entry(path, expect, Version::Absent);
    let outcomes = kit.apply(vec![
        gone("d", dir(0o755)),
        gone("d/e", dir(0o755)),
        gone("d/e/f", kit.text("1")),
        gone("k", dir(0o755)),
        gone("k/mine", kit.text("1")),
    ]);
    let told: Vec<_> = outcomes.iter().map(told).collect();
    assert_eq!(told, [DONE, DONE, DONE, (Status::Skipped, "not-empty"), DONE]);
    assert_eq!(
        kit.tree().into_iter().map(|(p, _)| p).collect::<Vec<_>>(),
        ["k", "k/yours"]
    );
}

#[test]
fn a_folder_gives_way_to_a_file_only_when_empty_after_the_deletions() {
    let kit = Kit::new();
    for folder in ["d", "k"] {
        kit.mkdir(folder);
        kit.write(&format!("{folder}/x"), "x");
    }
    let outcomes = kit.apply(vec![
        entry("d", dir(0o755), kit.text("file")),
        entry("d/x", kit.text("x"), Version::Absent),
        entry("k", dir(0o755), kit.text("file")),
    ]);
    assert_eq!(
        outcomes.iter().map(told).collect::<Vec<_>>(),
        [DONE, DONE, (Status::Refused, "not-empty")]
    );
    assert_eq!(kit.read("d"), "file");
    assert_eq!(kit.read("k/x"), "x");
}

#[test]
fn a_symlink_in_place_of_a_folder_gives_way_to_the_folder_and_its_files() {
    let kit = Kit::new();
    let out = kit.base.join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("t.txt"), "host").unwrap();
    kit.symlink("../out/t.txt", "t.txt");
    kit.symlink("../out", "d");
    let outcomes = kit.apply(vec![
        entry("d", link("../out"), dir(0o755)),
        entry("d/f", Version::Absent, kit.text("in")),
        entry("t.txt", link("../out/t.txt"), kit.text("in")),
    ]);
    assert!(outcomes.iter().all(|o| told(o) == DONE), "{outcomes:?}");
    assert_eq!(std::fs::read_to_string(out.join("t.txt")).unwrap(), "host");
    assert!(!out.join("f").exists());
    assert_eq!(
        (kit.read("t.txt"), kit.read("d/f")),
        ("in".to_string(), "in".to_string())
    );
}

#[test]
fn nothing_is_followed_where_a_folder_of_the_walk_became_a_link() {
    let kit = Kit::new();
    let out = kit.base.join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("f"), "host").unwrap();
    kit.symlink("../out", "d");
    for (expect, target) in [
        (kit.text("host"), kit.text("new")),
        (kit.text("host"), Version::Absent),
    ] {
        let outcome = kit.one("d/f", expect, target);
        assert_eq!(told(&outcome), (Status::Failed, "walk-failed"));
    }
    assert_eq!(
        told(&kit.one("d/g", Version::Absent, kit.text("new"))),
        (Status::Failed, "walk-failed")
    );
    assert_eq!(std::fs::read_to_string(out.join("f")).unwrap(), "host");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn folders_are_made_top_down_and_get_their_modes_last() {
    let kit = Kit::new();
    let outcomes = kit.apply(vec![
        entry("a", Version::Absent, dir(0o555)),
        entry("a/b", Version::Absent, dir(0o500)),
        entry("a/b/c", Version::Absent, kit.file("x", 0o444)),
    ]);
    assert!(outcomes.iter().all(|o| told(o) == DONE), "{outcomes:?}");
    assert_eq!(
        (kit.mode("a"), kit.mode("a/b"), kit.mode("a/b/c")),
        (0o555, 0o500, 0o444)
    );
}

#[test]
fn children_of_a_folder_that_could_not_be_made_fail_too() {
    let kit = Kit::new();
    kit.write("a", "foreign");
    let outcomes = kit.apply(vec![
        entry("a", Version::Absent, dir(0o755)),
        entry("a/b", Version::Absent, kit.text("x")),
    ]);
    assert_eq!(
        outcomes.iter().map(told).collect::<Vec<_>>(),
        [CHANGED, (Status::Failed, "walk-failed")]
    );
    assert_eq!(kit.read("a"), "foreign");
}

#[test]
fn a_read_only_folder_that_is_not_in_the_plan_is_left_alone() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may write to any folder");
        return;
    }
    let kit = Kit::new();
    kit.mkdir("ro");
    kit.write("ro/b", "old");
    kit.write("a", "old");
    kit.chmod("ro", 0o555);
    let outcomes = kit.apply(vec![
        entry("a", kit.text("old"), kit.text("new")),
        entry("ro/b", kit.text("old"), kit.text("new")),
        entry("ro/c", Version::Absent, kit.text("new")),
    ]);
    let denied = (Status::Failed, "permission-denied");
    assert_eq!(
        outcomes.iter().map(told).collect::<Vec<_>>(),
        [DONE, denied, denied]
    );
    assert_eq!(
        (kit.read("a"), kit.read("ro/b"), kit.mode("ro")),
        ("new".into(), "old".into(), 0o555)
    );
    kit.chmod("ro", 0o755);
    assert_eq!(told(&kit.one("ro/b", kit.text("old"), kit.text("new"))), DONE);
}

#[test]
fn a_read_only_folder_of_the_plan_is_loosened_for_what_lies_below_it() {
    let kit = Kit::new();
    kit.mkdir("d");
    kit.write("d/f", "old");
    kit.write("d/g", "made");
    kit.chmod("d", 0o500);
    let outcomes = kit.apply(vec![
        entry("d", dir(0o500), dir(0o555)),
        entry("d/f", kit.text("old"), kit.text("new")),
        entry("d/g", kit.text("made"), Version::Absent),
    ]);
    assert!(outcomes.iter().all(|o| told(o) == DONE), "{outcomes:?}");
    assert_eq!(
        (kit.read("d/f"), kit.exists("d/g"), kit.mode("d")),
        ("new".into(), false, 0o555)
    );
    kit.chmod("d", 0o755);
}
