//! Rules within a turn and at a boundary.

use super::kit::{Kit, open};
use crate::scan::Request;

/// Changes without modes and sizes.
fn plain(changes: Vec<String>) -> Vec<String> {
    let word = |text: &str| text.split(' ').next().unwrap_or_default().to_string();
    changes
        .into_iter()
        .map(|line| {
            let (path, rest) = line.split_once(": ").unwrap();
            let (before, after) = rest.split_once(" => ").unwrap();
            let flags = after.find('[').map_or("", |at| &after[at..]);
            format!("{path}: {} => {} {flags}", word(before), word(after))
                .trim_end()
                .to_string()
        })
        .collect()
}

#[test]
fn within_a_turn_what_is_covered_stays_covered_and_new_hidden_names_are_listed() {
    let mut kit = Kit::new();
    kit.write("notes.log", "1");
    kit.boundary();
    kit.write(".gitignore", "*.log\nout/\n");
    kit.write("notes.log", "22");
    kit.write("new.log", "1");
    kit.write("out/a/b", "1");
    assert_eq!(
        plain(kit.observe()),
        [
            ".gitignore: absent => file",
            "new.log: absent => (Ignored)",
            "notes.log: file => file",
            "out: absent => (Ignored)",
        ]
    );
    assert_eq!(kit.uncovered(), ["new.log Ignored", "out Ignored"]);
    kit.write("out/a/c", "1");
    assert!(
        kit.observe().is_empty(),
        "a hidden folder is one entry, known by its inode"
    );
    assert_eq!(
        plain(kit.boundary()),
        ["notes.log: file => (Ignored) [8]"],
        "it leaves at the next boundary"
    );
}

#[test]
fn what_the_boundarys_rules_hide_stays_hidden_until_the_next_boundary() {
    let mut kit = Kit::new();
    kit.write(".gitignore", "*.log\nout/\n");
    kit.write("a.log", "1");
    kit.write("out/x", "1");
    assert_eq!(plain(kit.boundary()), [".gitignore: absent => file"]);
    kit.remove(".gitignore");
    kit.write("b.log", "1");
    assert_eq!(plain(kit.observe()), [".gitignore: file => absent"]);
    assert_eq!(
        plain(kit.boundary()),
        [
            "a.log: (Ignored) => file [8]",
            "b.log: (Ignored) => file [8]",
            "out: (Ignored) => dir [8]",
            "out/x: (Ignored) => file [8]",
        ],
        "what becomes visible is nobody's change"
    );
}

#[test]
fn what_left_coverage_comes_back_with_the_version_that_it_left_with() {
    let mut kit = Kit::new();
    kit.write("dist/a", "1");
    kit.write("dist/b", "1");
    kit.boundary();
    kit.write(".gitignore", "dist\n");
    let left = kit.observe_with(kit.boundary_request());
    assert_eq!(
        plain(super::kit::shown(&left)),
        [
            ".gitignore: absent => file",
            "dist: dir => (Ignored) [8]",
            "dist/a: file => (Ignored) [8]",
            "dist/b: file => (Ignored) [8]",
        ]
    );
    assert_eq!(kit.uncovered(), ["dist Ignored"]);
    kit.remove("dist/b");
    kit.write("dist/c", "1");
    assert!(kit.observe().is_empty());
    kit.remove(".gitignore");
    let back = kit.observe_with(kit.boundary_request());
    assert_eq!(
        plain(super::kit::shown(&back)),
        [
            ".gitignore: file => absent",
            "dist: (Ignored) => dir [8]",
            "dist/a: (Ignored) => file [8]",
            "dist/b: (Ignored) => absent",
            "dist/c: (Ignored) => file [8]",
        ]
    );
    let after = |changes: &[crate::wire::Change], path: &[u8]| {
        changes
            .iter()
            .find(|c| c.path == path)
            .map(|c| (c.before.clone(), c.after.clone()))
            .unwrap()
    };
    for path in [&b"dist"[..], b"dist/a", b"dist/b"] {
        assert_eq!(
            after(&left, path).1,
            after(&back, path).0,
            "rows of a path are a chain"
        );
    }
}

#[test]
fn held_paths_stay_covered_until_they_are_held_no_more() {
    let mut kit = Kit::new();
    kit.write("out/deep/mine", "1");
    kit.write("out/deep/other", "1");
    kit.boundary();
    kit.write(".gitignore", "out\n");
    let hold = Request {
        hold: vec![b"out/deep/mine".to_vec()],
        ..kit.boundary_request()
    };
    let changes = kit.observe_with(hold.clone());
    assert_eq!(
        plain(super::kit::shown(&changes)),
        [
            ".gitignore: absent => file",
            "out/deep/other: file => (Ignored) [8]"
        ]
    );
    kit.write("out/deep/mine", "22");
    kit.write("out/deep/new", "1");
    assert_eq!(plain(kit.observe()), ["out/deep/mine: file => file"]);
    assert!(kit.observe_with(hold).is_empty());
    assert_eq!(
        plain(kit.boundary()),
        [
            "out: dir => (Ignored) [8]",
            "out/deep: dir => (Ignored) [8]",
            "out/deep/mine: file => (Ignored) [8]"
        ]
    );
}

#[test]
fn a_rule_file_that_cannot_be_read_keeps_verdicts_and_hides_new_names() {
    let mut kit = Kit::new();
    kit.write("a/.gitignore", "*.log\n");
    kit.write("a/x.log", "1");
    kit.write("a/y", "1");
    kit.write("b", "1");
    kit.sources.global_excludes = Some(b"/proc/self/mem".to_vec());
    kit.boundary();
    assert!(kit.list().is_empty() || !kit.list().contains(&"a/x.log".to_string()));
    kit.sources.global_excludes = None;
    let changes = plain(kit.boundary());
    assert!(
        changes.contains(&"b: (Ignored) => file [8]".to_string()),
        "{changes:?}"
    );
    kit.sources.global_excludes = Some(b"/proc/self/mem".to_vec());
    kit.write("c", "1");
    let request = kit.boundary_request();
    let scanned = kit.scan(request);
    assert_eq!(scanned.problems.len(), 1, "{:?}", scanned.problems);
    assert_eq!(plain(kit.boundary()), ["c: absent => (Ignored)"]);
}

#[test]
fn rules_come_back_from_the_index_and_from_a_snapshot() {
    let mut kit = Kit::new();
    kit.write(".gitignore", "*.log\n");
    kit.write("sub/.gitignore", "/only\n");
    kit.boundary();
    let rules = kit.tree.rules().unwrap();
    kit.tree = open(kit.folder.path(), &kit.store, |_| ());
    kit.tree.load().unwrap();
    assert_eq!(kit.tree.rules().unwrap(), rules);
    kit.remove(".gitignore");
    kit.remove("sub/.gitignore");
    kit.write("a.log", "1");
    kit.write("sub/only", "1");
    kit.write("sub/deep/only", "1");
    assert_eq!(
        plain(kit.observe()),
        [
            ".gitignore: file => absent",
            "sub/.gitignore: file => absent",
            "sub/deep: absent => dir",
            "sub/deep/only: absent => file",
        ],
        "the frozen rules hold though the files are gone"
    );
}

#[test]
fn a_rule_of_the_turn_hides_what_is_new_in_a_covered_folder_that_it_names() {
    let mut kit = Kit::new();
    kit.write("build/old", "1");
    kit.boundary();
    kit.write(".gitignore", "build/\n");
    kit.write("build/old", "22");
    kit.write("build/new", "1");
    assert_eq!(
        plain(kit.observe()),
        [
            ".gitignore: absent => file",
            "build/new: absent => (Ignored)",
            "build/old: file => file",
        ]
    );
}

#[test]
fn what_a_manifest_tells_is_known_as_covered_despite_a_rule() {
    let mut kit = Kit::new();
    kit.write(".gitignore", "build/\n");
    kit.write("build/kept", "1");
    kit.write("build/not", "1");
    kit.sources.include = vec![b"build/kept".to_vec()];
    kit.boundary();
    let set = kit.take_in(Request::default());
    let (manifest, _) = kit.tree.manifest(set).unwrap();
    let rules = kit.tree.rules().unwrap();
    let at = crate::wire::Position {
        seq: 1,
        observation: [1; 16],
    };
    for renew in [false, true] {
        kit.tree = open(kit.folder.path(), &kit.store, |_| ());
        kit.tree.reset(Some(&manifest), Some(at)).unwrap();
        kit.tree.set_rules(&rules).unwrap();
        let changes = if renew { kit.boundary() } else { kit.observe() };
        assert!(changes.is_empty(), "{changes:?}");
        kit.write("build/later", "1");
        assert!(kit.observe().is_empty());
        assert!(kit.boundary().is_empty());
        assert_eq!(kit.tree.rules().unwrap(), rules, "the rules stand");
    }
}

#[test]
fn a_set_that_is_committed_unread_leaves_its_suspects_for_the_next_look() {
    let mut kit = Kit::new();
    kit.write("old", "1");
    kit.boundary();
    kit.settle();
    kit.write("old", "22");
    kit.write("d/new", "1");
    let set = kit.scan(Request::default()).set;
    kit.commit(set);
    assert_eq!(
        plain(kit.observe()),
        ["d/new: absent => file", "old: file => file"]
    );
}
