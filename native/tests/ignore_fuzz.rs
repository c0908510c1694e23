//! Ignore rules against git itself: random trees, the same names covered as git lists.
//!
//! Seeded: a tree that differs is named by its seed, and is made again by it. Skipped, aloud, where there is no git.

mod git_oracle;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use git_oracle::{Case, bytes, git, gits, has_git, open, ours, repo_source};
use takeback_native::rules::Sources;

const TREES: u64 = 360;

const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "foo",
    "bar",
    "foo.log",
    "bar.txt",
    "x y",
    "trail ",
    "#hash",
    "!bang",
    "A",
    "a.b",
    "build",
    "[z]",
    "{a,b}",
    "back\\slash",
    "é",
    "foo*",
    ".hidden",
    "tab\t",
    "q?",
    "$d",
];

const PATTERNS: &[&str] = &[
    "a",
    "b/",
    "/c",
    "foo",
    "*.log",
    "!foo.log",
    "!*.txt",
    "*",
    "!*/",
    "/*",
    "!/a",
    "a/b",
    "a/**",
    "**/b",
    "**/foo/bar",
    "a/**/c",
    "x y",
    "trail\\ ",
    "trail ",
    "trail",
    "\\#hash",
    "#hash",
    "\\!bang",
    "!\\!bang",
    "{a,b}",
    "*.{log,txt}",
    "[abc]",
    "[!a]",
    "[a-c]/",
    "[[:upper:]]",
    "\\[z\\]",
    "[z]",
    "[]z]",
    "build/",
    "!build/",
    "build/*",
    "!build/a",
    "/*/",
    "!/foo/",
    "foo/",
    "fo?",
    "back\\\\slash",
    "back\\slash",
    "é",
    "foo\\*",
    "*/b",
    "**",
    "**/",
    "/**",
    "a/",
    "!a/",
    "c/*.log",
    "!c/foo.log",
    ".*",
    "!.hidden",
    "tab\t",
    "q\\?",
    "A",
    "",
    "   ",
    "/",
    "!",
    "//a",
    "a//b",
    "[a",
    "a\\",
    "$d",
    "\\$d",
    "foo/**/",
    "***",
    "a**b",
    "foo \\ ",
    "*a*",
    "?",
    "**/*.txt",
    "!**/bar.txt",
    "bar/../a",
    "./a",
    "/b/",
    "[^b]",
    "[a-",
    "a[/]b",
    "a?b",
    "c/b/",
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

fn rule_file(random: &mut Random) -> String {
    let mut text = if random.one_in(12) {
        "\u{feff}".to_string()
    } else {
        String::new()
    };
    for _ in 0..1 + random.below(5) {
        if random.one_in(6) {
            text.push('!');
        }
        text.push_str(random.pick(PATTERNS));
        text.push_str(random.pick(&["\n", "\n", "\n", "\n", "\r\n", " \n", "\n\n", "\t\n"]));
    }
    if random.one_in(3) {
        text.pop();
    }
    text
}

fn fill(random: &mut Random, folder: &Path, depth: usize) {
    for _ in 0..2 + random.below(5) {
        let path = folder.join(random.pick(NAMES));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        if depth < 3 && random.one_in(2) {
            fs::create_dir(&path).unwrap();
            fill(random, &path, depth + 1);
        } else if random.one_in(10) {
            std::os::unix::fs::symlink("a", &path).unwrap();
        } else {
            fs::write(&path, "x").unwrap();
        }
    }
    if random.one_in(if depth == 0 { 2 } else { 4 }) {
        fs::write(folder.join(".gitignore"), rule_file(random)).unwrap();
    }
}

fn make(seed: u64) -> Case {
    let random = &mut Random(seed);
    let home = tempfile::tempdir().unwrap();
    let top = home.path().join("top");
    let git = top.join(".git");
    for part in ["objects", "refs", "info"] {
        fs::create_dir_all(git.join(part)).unwrap();
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let ignore_case = random.one_in(8);
    let config =
        format!("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tignorecase = {ignore_case}\n");
    fs::write(git.join("config"), config).unwrap();
    fill(random, &top, 0);
    if random.one_in(3) {
        fs::write(git.join("info/exclude"), rule_file(random)).unwrap();
    }
    let global = home.path().join("global");
    let has_global = random.one_in(3);
    if has_global {
        fs::write(&global, rule_file(random)).unwrap();
        fs::write(
            home.path().join(".gitconfig"),
            format!("[core]\n\texcludesFile = {}\n", global.display()),
        )
        .unwrap();
    }
    let mut root = top.clone();
    if random.one_in(4) {
        root = top.join("deep/down");
        fs::create_dir_all(&root).unwrap();
        fill(random, &root, 1);
        if random.one_in(2) {
            fs::write(top.join("deep/.gitignore"), rule_file(random)).unwrap();
        }
    }
    let repo = repo_source(&top, &git, &git);
    let sources = Sources {
        repo: Some(repo),
        global_excludes: has_global.then(|| bytes(&global)),
        ignore_case,
        ..Sources::default()
    };
    let case = Case {
        home,
        top,
        root,
        sources,
    };
    // With core.ignoreCase git matches tracked names without case, too: not what this test is about.
    if random.one_in(3) && !ignore_case {
        track(random, &case);
    }
    case
}

/// Has git track a few files, ignored or not.
fn track(random: &mut Random, case: &Case) {
    let mut files = Vec::new();
    let mut stack = vec![case.top.clone()];
    while let Some(folder) = stack.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.symlink_metadata().unwrap().is_dir() {
                if !path.ends_with(".git") {
                    stack.push(path);
                }
            } else if random.one_in(4) {
                files.push(path);
            }
        }
    }
    if files.is_empty() {
        return;
    }
    if random.one_in(3) {
        git(case, &case.top)
            .args(["update-index", "--index-version", "4"])
            .output()
            .unwrap();
    }
    let added = git(case, &case.top)
        .args(["--literal-pathspecs", "add", "-f", "--"])
        .args(files)
        .output()
        .unwrap();
    assert!(
        added.status.success(),
        "{}",
        String::from_utf8_lossy(&added.stderr)
    );
}

/// Files and links below a folder, `.git` left out.
fn on_disk(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: PathBuf| match path.symlink_metadata().unwrap().is_dir() {
        true if path.ends_with(".git") => 0,
        true => on_disk(&path),
        false => 1,
    };
    entries.map(count).sum()
}

fn explain(case: &Case, seed: u64, ours: &BTreeSet<Vec<u8>>, gits: &BTreeSet<Vec<u8>>) -> String {
    let show = |set: Vec<&Vec<u8>>| {
        set.iter()
            .map(|p| format!("{:?}", String::from_utf8_lossy(p)))
            .collect::<Vec<_>>()
    };
    let mut text = format!(
        "seed {seed}: only here {:?}",
        show(ours.difference(gits).collect())
    );
    text += &format!(", only git {:?}\n", show(gits.difference(ours).collect()));
    let found = Command::new("grep")
        .args(["-rn", "", "--include=.gitignore", "--include=exclude", "."])
        .current_dir(&case.top)
        .output()
        .unwrap();
    text += &String::from_utf8_lossy(&found.stdout);
    if let Ok(global) = fs::read_to_string(case.home.path().join("global")) {
        text += &format!("global: {global:?}\n");
    }
    text
}

#[derive(Default)]
struct Tally {
    compared: usize,
    /// Trees in which rules hid something.
    hidden: usize,
    wrong: Vec<String>,
}

fn compare(seed: u64, tally: &Mutex<Tally>) {
    let case = make(seed);
    let data = tempfile::tempdir().unwrap();
    let Some(ours) = ours(&case, &mut open(&case, data.path())) else {
        return;
    };
    let gits = gits(&case, &case.root);
    let hidden = on_disk(&case.root) > ours.len();
    let mut tally = tally.lock().unwrap();
    tally.compared += 1;
    tally.hidden += usize::from(hidden);
    if ours != gits {
        tally.wrong.push(explain(&case, seed, &ours, &gits));
    }
}

#[test]
fn random_trees_are_covered_as_git_lists_them() {
    if !has_git() {
        return;
    }
    let (tally, next) = (Mutex::new(Tally::default()), AtomicU64::new(0));
    let work = || {
        while let seed @ 0..TREES = next.fetch_add(1, Ordering::Relaxed) {
            compare(seed, &tally);
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
    let Tally {
        compared,
        hidden,
        wrong,
    } = tally.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {compared} trees differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared >= 300, "{compared} trees compared");
    assert!(
        hidden > compared / 3,
        "rules hid something in {hidden} of {compared} trees"
    );
}
