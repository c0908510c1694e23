//! Where git may give a file other bytes of the same length than its object has: `filter`, `ident` and
//! `working-tree-encoding`.
//!
//! Conversions of line ends need no look here: they only ever add carriage returns, or only take some away, so that they
//! change the size where they change a byte. A path that any line gives one of the three is in doubt, whatever other
//! lines say.

use gix_glob::pattern::Case;

use crate::ignore::Patterns;
use crate::ignore::names::is_within;
use crate::wire::RelPath;

const DOUBTFUL: [&[u8]; 3] = [b"filter", b"ident", b"working-tree-encoding"];

/// Paths, relative to the repository's top, that git may have converted.
#[derive(Default)]
pub struct Doubts {
    /// By the folder that their file lies in.
    lines: Vec<(RelPath, Patterns)>,
}

impl Doubts {
    /// Takes a file of attributes in. `folder`: where it lies, relative to the top; empty for files outside the tree.
    pub fn add(&mut self, folder: RelPath, text: &[u8]) {
        let mut patterns = Vec::new();
        let mut whole_tree = false;
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            let is_blank = |byte: &u8| byte.is_ascii_whitespace();
            let Some(end) = line.iter().position(is_blank) else {
                continue;
            };
            let (pattern, rest) = line.split_at(end);
            let doubtful = |word: &[u8]| {
                let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
                DOUBTFUL.contains(&name)
            };
            if line.starts_with(b"#") || !rest.split(is_blank).any(doubtful) {
                continue;
            }
            // A name in quotes, and a macro that any file may use, are not followed further.
            whole_tree |= line.starts_with(b"[attr]");
            if line.starts_with(b"\"") || line.starts_with(b"[attr]") {
                patterns.extend_from_slice(b"*\n");
            } else {
                patterns.extend_from_slice(pattern);
                patterns.push(b'\n');
            }
        }
        if !patterns.is_empty() {
            let folder = if whole_tree { Vec::new() } else { folder };
            self.lines.push((folder, Patterns::parse(&patterns)));
        }
    }

    /// `path` is relative to the repository's top.
    pub fn has(&self, path: &[u8]) -> bool {
        self.lines.iter().any(|(folder, patterns)| {
            let below = match folder.as_slice() {
                [] => path,
                folder if is_within(path, folder) && path.len() > folder.len() => &path[folder.len() + 1..],
                _ => return false,
            };
            patterns.verdict(below, false, Case::Fold).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubted(text: &str, path: &str) -> bool {
        let mut doubts = Doubts::default();
        doubts.add(b"lib".to_vec(), text.as_bytes());
        doubts.has(path.as_bytes())
    }

    #[test]
    fn a_line_with_a_conversion_that_may_keep_the_size_puts_its_paths_in_doubt() {
        assert!(doubted("*.psd filter=lfs -text", "lib/a/b.psd"));
        assert!(doubted("*.c\tident", "lib/x.c"));
        assert!(doubted("/x.txt working-tree-encoding=KOI8-R", "lib/x.txt"));
        assert!(!doubted("/x.txt ident", "lib/a/x.txt"));
        assert!(
            !doubted("*.psd filter=lfs", "other/b.psd"),
            "a file speaks for its own folder"
        );
        assert!(!doubted("*.psd filter=lfs", "lib"));
    }

    #[test]
    fn line_ends_and_what_is_not_set_are_no_doubt() {
        assert!(!doubted("* text=auto eol=crlf", "lib/x"));
        assert!(!doubted("* -filter !ident", "lib/x"));
        assert!(!doubted("# *.c ident", "lib/x.c"));
        assert!(!doubted("ident", "lib/ident"));
    }

    #[test]
    fn a_later_line_takes_no_doubt_away() {
        assert!(doubted("*.c ident\nx.c -ident", "lib/x.c"));
    }

    #[test]
    fn quotes_and_macros_put_all_in_doubt() {
        assert!(doubted("\"a b\" ident", "lib/other"));
        assert!(!doubted("\"a b\" ident", "else/other"));
        assert!(
            doubted("[attr]mine ident", "else/other"),
            "any file may use a macro"
        );
    }
}
