//! Folders that are looked at from above, unopened: nothing below them is missed, at whatever depth.

use std::fs;
use std::os::unix::fs::symlink;

use super::kit::Kit;
use crate::scan::Request;

const DEEP: &str = "a/b/c/d/e/f/g/h";

/// The folders of `DEEP`, from the root's own on.
fn folders() -> Vec<String> {
    let parts: Vec<&str> = DEEP.split('/').collect();
    (0..=parts.len()).map(|n| parts[..n].join("/")).collect()
}

fn deep() -> Kit {
    let mut kit = Kit::new();
    for folder in folders() {
        for name in ["one", "two"] {
            kit.write(format!("{folder}/{name}").trim_start_matches('/'), "1");
        }
    }
    kit.boundary();
    kit.settle();
    kit
}

#[test]
fn a_warm_scan_looks_at_each_name_once_and_opens_few_folders() {
    let mut kit = deep();
    let warm = kit.scan(Request::default());
    assert_eq!(warm.counters.entries, 26);
    // The root itself, and one look more at each folder that was opened.
    assert_eq!(warm.counters.stat_calls, 27 + 2);
    assert_eq!((warm.counters.dirs_read, warm.suspects), (0, 0));
}

#[test]
fn a_change_is_found_at_any_depth_and_alone() {
    let mut kit = deep();
    for folder in folders() {
        let path = format!("{folder}/two");
        let path = path.trim_start_matches('/');
        kit.write(path, "22");
        assert_eq!(
            kit.observe(),
            [format!("{path}: file 644 1 => file 644 2")],
            "in {folder:?}"
        );
        kit.settle();
    }
}

#[test]
fn names_that_come_and_go_are_found_at_any_depth() {
    let mut kit = deep();
    for folder in folders().iter().skip(1) {
        kit.write(&format!("{folder}/new"), "1");
        kit.remove(&format!("{folder}/one"));
        assert_eq!(
            kit.observe(),
            [
                format!("{folder}/new: absent => file 644 1"),
                format!("{folder}/one: file 644 1 => absent")
            ]
        );
        kit.settle();
    }
}

#[test]
fn a_folder_that_moved_behind_a_link_of_its_name_is_a_link() {
    let mut kit = deep();
    fs::rename(kit.root.join("a/b/c"), kit.root.join("a/b/moved")).unwrap();
    symlink("moved", kit.root.join("a/b/c")).unwrap();
    let changes = kit.observe();
    assert!(
        changes.contains(&"a/b/c: dir 755 => -> moved".to_string()),
        "{changes:?}"
    );
    assert!(changes.contains(&"a/b/c/d/one: file 644 1 => absent".to_string()));
    assert!(changes.contains(&"a/b/moved/d/one: absent => file 644 1".to_string()));
}

#[test]
fn a_folder_that_came_in_the_place_of_another_has_its_own_names() {
    let mut kit = deep();
    kit.write("other/d/only", "1");
    kit.observe();
    kit.settle();
    fs::rename(kit.root.join("a/b/c"), kit.root.join("gone")).unwrap();
    fs::rename(kit.root.join("other"), kit.root.join("a/b/c")).unwrap();
    let changes = kit.observe();
    assert!(
        changes.contains(&"a/b/c/d/only: absent => file 644 1".to_string()),
        "{changes:?}"
    );
    assert!(changes.contains(&"a/b/c/d/e/one: file 644 1 => absent".to_string()));
}

#[test]
fn a_rule_file_that_went_within_a_turn_is_missed_at_the_next_boundary() {
    let mut kit = Kit::new().in_repository();
    kit.write("p/q/r/.gitignore", "*.log\n");
    kit.write("p/q/r/s/x.log", "1");
    kit.write("p/q/r/s/y", "1");
    kit.boundary();
    kit.settle();
    kit.remove("p/q/r/.gitignore");
    assert_eq!(kit.observe(), ["p/q/r/.gitignore: file 644 6 => absent"]);
    kit.settle();
    let entered = kit.boundary();
    assert_eq!(entered.len(), 1, "{entered:?}");
    assert!(
        entered[0].starts_with("p/q/r/s/x.log: (Ignored) => file 644 1"),
        "{entered:?}"
    );
}
