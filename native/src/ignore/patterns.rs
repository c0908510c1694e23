//! Patterns of one source (a file, or an option), matched as git matches them.
//!
//! gix-ignore reads the lines and gix-glob matches; precedence between sources is `frame`'s.

use bstr::ByteSlice;
use gix_glob::pattern::{Case, Mode};
use gix_glob::{Pattern, wildmatch};

/// The patterns of one source, in file order.
#[derive(Debug, Default)]
pub struct Patterns {
    list: Vec<Pattern>,
}

impl Patterns {
    /// Reads gitignore lines.
    pub fn parse(bytes: &[u8]) -> Self {
        // Without a last line end, a carriage return at the end would be read as part of the pattern's line end.
        let mut text = bytes.to_vec();
        if text.last().is_some_and(|b| *b != b'\n') {
            text.push(b'\n');
        }
        Patterns {
            list: gix_ignore::parse(&text, false)
                .map(|(pattern, _, _)| pattern)
                .collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The verdict of the last line that matches: true for ignored, false for a negation. `path` is relative to the
    /// folder of the source.
    pub fn verdict(&self, path: &[u8], is_dir: bool, case: Case) -> Option<bool> {
        let base = path.rfind_byte(b'/').map(|at| at + 1);
        let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
        self.list
            .iter()
            .rev()
            .find(|p| p.matches_repo_relative_path(path.as_bstr(), base, Some(is_dir), case, mode))
            .map(|p| !p.is_negative())
    }

    /// The verdict on `path` or on the nearest folder above it that has one: what a line names holds for all below.
    pub fn verdict_with_folders(&self, path: &[u8], is_dir: bool, case: Case) -> Option<bool> {
        if self.list.is_empty() {
            return None;
        }
        if let Some(verdict) = self.verdict(path, is_dir, case) {
            return Some(verdict);
        }
        let mut rest = path;
        while let Some(at) = rest.rfind_byte(b'/') {
            rest = &rest[..at];
            if let Some(verdict) = self.verdict(rest, true, case) {
                return Some(verdict);
            }
        }
        None
    }

    /// Whether a line could match a name below `folder`.
    pub fn may_match_below(&self, folder: &[u8], case: Case) -> bool {
        self.list
            .iter()
            .filter(|p| !p.is_negative())
            .any(|p| may_match_below(p, folder, case))
    }
}

fn may_match_below(pattern: &Pattern, folder: &[u8], case: Case) -> bool {
    let mode = pattern.mode;
    if mode.contains(Mode::NO_SUB_DIR) {
        return !mode.contains(Mode::ABSOLUTE);
    }
    let flags = match case {
        Case::Fold => wildmatch::Mode::IGNORE_CASE,
        Case::Sensitive => wildmatch::Mode::empty(),
    };
    let mut parts = pattern.text.split_str("/");
    for name in folder.split_str("/") {
        match parts.next() {
            None => return false,
            Some(b"**") => return true,
            Some(part) => {
                if !gix_glob::wildmatch(part.as_bstr(), name.as_bstr(), flags) {
                    return false;
                }
            }
        }
    }
    parts.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(lines: &str, folder: &str) -> bool {
        Patterns::parse(lines.as_bytes()).may_match_below(folder.as_bytes(), Case::Sensitive)
    }

    #[test]
    fn a_pattern_with_folders_is_followed_part_by_part() {
        assert!(below("a/*/c.txt", "a/b"));
        assert!(below("a/b/", "a"));
        assert!(
            !below("a/b/", "a/b"),
            "the folder itself matches; nothing needs to be looked for below"
        );
        assert!(!below("/x.txt", "a"));
        assert!(below("x.txt", "a/b"), "a bare name matches at any depth");
        assert!(below("**/deep", "a/b"));
        assert!(!below("!a/b", "a"));
    }

    #[test]
    fn a_named_folder_holds_for_all_below_it() {
        let patterns = Patterns::parse(b"keep/\n!keep/no.txt");
        let verdict = |path: &[u8]| patterns.verdict_with_folders(path, false, Case::Sensitive);
        assert_eq!(verdict(b"keep/a/b.txt"), Some(true));
        assert_eq!(verdict(b"keep/no.txt"), Some(false));
        assert_eq!(verdict(b"other"), None);
    }

    #[test]
    fn a_last_line_without_an_end_is_read_like_the_others() {
        let patterns = Patterns::parse(b"foo \\ \r");
        assert_eq!(patterns.verdict(b"foo  ", false, Case::Sensitive), Some(true));
    }
}
