//! Ignore rules against git in the cases that random trees don't reach.

mod git_oracle;

use std::fs;
use std::path::{Path, PathBuf};

use git_oracle::{Case, git, gits, has_git, open, ours, repo_source};
use takeback_native::rules::Sources;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A repository made by git itself.
fn repository(init: &[&str]) -> Case {
    let home = tempfile::tempdir().unwrap();
    let top = home.path().join("top");
    fs::create_dir(&top).unwrap();
    let dot_git = top.join(".git");
    let sources = Sources {
        repo: Some(repo_source(&top, &dot_git, &dot_git)),
        ..Sources::default()
    };
    let case = Case {
        home,
        root: top.clone(),
        top,
        sources,
    };
    run(&case, &case.top.clone(), &[&["init", "-q"], init].concat());
    case
}

fn run(case: &Case, cwd: &Path, args: &[&str]) {
    let identity = [
        "-c",
        "user.name=n",
        "-c",
        "user.email=e@x",
        "-c",
        "protocol.file.allow=always",
    ];
    let output = git(case, cwd).args(identity).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn names(paths: impl IntoIterator<Item = Vec<u8>>) -> Vec<String> {
    paths
        .into_iter()
        .map(|path| String::from_utf8(path).unwrap())
        .collect()
}

fn covered(case: &Case) -> Vec<String> {
    let data = tempfile::tempdir().unwrap();
    let ours = ours(case, &mut open(case, data.path())).expect("no problems");
    names(ours)
}

fn same_as_git(case: &Case) {
    assert_eq!(covered(case), names(gits(case, &case.root)));
}

fn tracked_though_ignored(init: &[&str], prepare: &[&str]) {
    if !has_git() {
        return;
    }
    let case = repository(init);
    write(&case.top, ".gitignore", "*.log\nbuild/\n");
    write(&case.top, "a.log", "1");
    write(&case.top, "b.log", "1");
    write(&case.top, "build/deep/kept.txt", "1");
    write(&case.top, "build/deep/not.txt", "1");
    write(&case.top, "build/other/not.txt", "1");
    run(&case, &case.top, &["add", "-f", "a.log", "build/deep/kept.txt"]);
    if !prepare.is_empty() {
        run(&case, &case.top, prepare);
        run(&case, &case.top, &["add", ".gitignore"]);
    }
    assert_eq!(covered(&case), [".gitignore", "a.log", "build/deep/kept.txt"]);
    same_as_git(&case);
}

#[test]
fn tracked_names_are_covered_though_a_rule_hides_them() {
    tracked_though_ignored(&[], &[]);
}

#[test]
fn an_index_of_version_four_is_read() {
    tracked_though_ignored(&[], &["update-index", "--index-version", "4"]);
}

#[test]
fn a_split_index_is_read() {
    tracked_though_ignored(&[], &["update-index", "--split-index"]);
}

#[test]
fn an_index_of_a_sha256_repository_is_read() {
    tracked_though_ignored(&["--object-format=sha256"], &[]);
}

#[test]
fn a_damaged_index_is_a_problem_and_the_rules_stand() {
    if !has_git() {
        return;
    }
    let case = repository(&[]);
    write(&case.top, ".gitignore", "*.log\n");
    write(&case.top, "a.log", "1");
    write(&case.top, "b", "1");
    fs::write(case.top.join(".git/index"), b"DIRC\0\0\0\x02\0\0\xff\xffnonsense").unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut tree = open(&case, data.path());
    let request = takeback_native::scan::Request {
        renew: Some(case.sources.clone()),
        ..Default::default()
    };
    let scanned = tree.scan(request, &Default::default()).unwrap();
    assert_eq!(scanned.problems.len(), 1, "{:?}", scanned.problems);
    assert_eq!(scanned.files, 2);
}

#[test]
fn negated_folder_rules_are_read_as_git_reads_them() {
    if !has_git() {
        return;
    }
    let case = repository(&[]);
    write(
        &case.top,
        ".gitignore",
        "build/\n!/a/b/build/\n/*/\n!/a/\n!/foo/\n",
    );
    for path in ["build/x", "a/b/build/y", "a/c/build/z", "foo/bar.js", "qux/q.js"] {
        write(&case.top, path, "1");
    }
    assert_eq!(covered(&case), [".gitignore", "a/b/build/y", "foo/bar.js"]);
    same_as_git(&case);
}

#[test]
fn a_linked_worktree_has_its_own_index_and_the_common_exclude() {
    if !has_git() {
        return;
    }
    let mut case = repository(&[]);
    write(&case.top, "file", "1");
    run(&case, &case.top, &["add", "file"]);
    run(&case, &case.top, &["commit", "-qm", "one"]);
    run(&case, &case.top, &["worktree", "add", "-q", "../linked"]);
    fs::write(case.top.join(".git/info/exclude"), "*.log\n").unwrap();
    let linked = case.home.path().join("linked");
    write(&linked, "a.log", "1");
    write(&linked, "b.log", "1");
    run(&case, &linked, &["add", "-f", "a.log"]);
    let common = case.top.join(".git");
    case.sources.repo = Some(repo_source(&linked, &common.join("worktrees/linked"), &common));
    case.root = linked;
    let covered: Vec<String> = covered(&case).into_iter().filter(|path| path != ".git").collect();
    assert_eq!(covered, ["a.log", "file"]);
    assert_eq!(covered, names(gits(&case, &case.root)));
}

#[test]
fn a_nested_repository_starts_afresh_with_its_own_rules_and_the_global_ones() {
    if !has_git() {
        return;
    }
    let mut case = repository(&[]);
    let global = case.home.path().join("global");
    fs::write(&global, "*.tmp\n").unwrap();
    fs::write(
        case.home.path().join(".gitconfig"),
        format!("[core]\nexcludesFile = {}\n", global.display()),
    )
    .unwrap();
    case.sources.global_excludes = Some(git_oracle::bytes(&global));
    write(&case.top, ".gitignore", "*.log\nhidden/\n");
    for nested in ["sub", "hidden/repo"] {
        let top = case.top.join(nested);
        fs::create_dir_all(&top).unwrap();
        run(&case, &top, &["init", "-q"]);
        write(&top, ".gitignore", "*.o\n");
        fs::write(top.join(".git/info/exclude"), "secret.txt\n").unwrap();
        for name in ["a.log", "b.o", "c.tmp", "d.txt", "secret.txt", "kept.o"] {
            write(&top, name, "1");
        }
        run(&case, &top, &["add", "-f", "kept.o"]);
    }
    let inside: Vec<String> = names(gits(&case, &case.top.join("sub")))
        .iter()
        .map(|p| format!("sub/{p}"))
        .collect();
    assert_eq!(inside, ["sub/.gitignore", "sub/a.log", "sub/d.txt", "sub/kept.o"]);
    assert_eq!(
        covered(&case),
        [vec![".gitignore".to_string()], inside].concat(),
        "a hidden one is hidden whole"
    );
}

#[test]
fn a_submodule_that_a_rule_hides_is_covered_by_its_own_rules() {
    if !has_git() {
        return;
    }
    let case = repository(&[]);
    let origin: PathBuf = case.home.path().join("origin");
    fs::create_dir(&origin).unwrap();
    run(&case, &origin, &["init", "-q"]);
    write(&origin, "code", "1");
    run(&case, &origin, &["add", "."]);
    run(&case, &origin, &["commit", "-qm", "one"]);
    run(
        &case,
        &case.top,
        &["submodule", "--quiet", "add", "../origin", "mod"],
    );
    write(&case.top, ".gitignore", "mod\n");
    write(&case.top, "mod/new", "1");
    let expected = [".gitignore", ".gitmodules", "mod/code", "mod/new"];
    assert_eq!(covered(&case), expected);
    // The frozen rules know it as one, too.
    let data = tempfile::tempdir().unwrap();
    let mut tree = open(&case, data.path());
    ours(&case, &mut tree).unwrap();
    write(&case.top, "mod/later", "1");
    let scanned = tree.scan(Default::default(), &Default::default()).unwrap();
    tree.ingest(scanned.set, &Default::default(), &Default::default())
        .unwrap();
    let changed: Vec<Vec<u8>> = tree
        .changes(scanned.set)
        .unwrap()
        .into_iter()
        .map(|c| c.path)
        .collect();
    assert_eq!(changed, [b"mod/later"]);
}

#[test]
fn a_root_that_rules_above_hide_is_a_problem_and_the_rules_hold_inside() {
    if !has_git() {
        return;
    }
    let mut case = repository(&[]);
    write(&case.top, ".gitignore", "pkg/\n*.log\n");
    write(&case.top, "pkg/a", "1");
    write(&case.top, "pkg/b.log", "1");
    case.root = case.top.join("pkg");
    let data = tempfile::tempdir().unwrap();
    let mut tree = open(&case, data.path());
    let request = takeback_native::scan::Request {
        renew: Some(case.sources.clone()),
        ..Default::default()
    };
    let scanned = tree.scan(request, &Default::default()).unwrap();
    assert_eq!(scanned.problems.len(), 1);
    assert_eq!(
        scanned.problems[0].kind,
        takeback_native::wire::ProblemKind::RootIgnored
    );
    assert_eq!(scanned.files, 1);
}
