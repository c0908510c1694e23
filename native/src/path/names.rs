//! What the names of a path tell, without looking at the disk: form, `.git`, secrets, names of ours.

use super::WalkError;
use crate::wire::Id;

/// Refuses a path that is empty or absolute, or has an empty, `.` or `..` part, or a NUL.
pub fn check(path: &[u8]) -> Result<(), WalkError> {
    let bad = |part: &[u8]| part.is_empty() || part == b"." || part == b".." || part.len() > 255;
    if path.contains(&0) || path.split(|b| *b == b'/').any(bad) {
        return Err(WalkError::BadName);
    }
    Ok(())
}

/// The folder of a path (empty: the root) and its last name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// True where `path` lies below `folder` (and isn't it).
pub fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.len() > folder.len() && path.starts_with(folder) && path[folder.len()] == b'/'
}

/// A spelling of `.git` that some file system folds to it. Wider than any one file system: such a name is left alone.
pub fn is_git(name: &[u8]) -> bool {
    // HFS+ drops zero-width code points (U+200C–U+200F, U+202A–U+202E, U+206A–U+206F, U+FEFF); NTFS trailing dots and
    // spaces, and what follows a colon names a stream.
    let mut kept = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        rest = match rest {
            [b':', ..] => &[],
            [0xe2, 0x80, 0x8c..=0x8f | 0xaa..=0xae, tail @ ..] | [0xe2, 0x81, 0xaa..=0xaf, tail @ ..] => tail,
            [0xef, 0xbb, 0xbf, tail @ ..] => tail,
            _ => {
                kept.push(first.to_ascii_lowercase());
                tail
            }
        };
    }
    while kept.last().is_some_and(|b| *b == b'.' || *b == b' ') {
        kept.pop();
    }
    kept == b".git" || kept == b"git~1"
}

/// True where a part of the path is a `.git`.
pub fn touches_git(path: &[u8]) -> bool {
    path.split(|b| *b == b'/').any(is_git)
}

/// Names of files whose bytes are never read: `.env` and `.env.*`, but not their examples.
pub fn is_secret(name: &[u8]) -> bool {
    let example = [&b".example"[..], b".sample", b".template"]
        .iter()
        .any(|end| name.ends_with(end));
    (name == b".env" || name.starts_with(b".env.")) && !example
}

/// Name of the temp file of entry `index`, in its path's folder.
pub fn temp_name(operation: &Id, index: usize) -> Vec<u8> {
    format!(".takeback-{}-{index}.tmp", hex(operation)).into_bytes()
}

/// Name in the trash of what entry `index` takes out of its path.
pub fn trash_name(operation: &Id, index: usize) -> Vec<u8> {
    format!("{}-{index}", hex(operation)).into_bytes()
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_part_that_no_file_has_is_refused() {
        for bad in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "./a", "a\0b",
        ] {
            assert_eq!(check(bad.as_bytes()), Err(WalkError::BadName), "{bad:?}");
        }
        for good in ["a", "a/b", "...", "a/..b", "\u{fffd}", "a\\b"] {
            assert_eq!(check(good.as_bytes()), Ok(()), "{good:?}");
        }
        assert_eq!(check(&[b'x'; 256]), Err(WalkError::BadName));
    }

    #[test]
    fn every_spelling_of_git_that_a_file_system_folds_is_git() {
        for name in [
            ".git",
            ".GIT",
            ".Git.",
            ".git ",
            ".gi\u{200c}T",
            ".GiT\u{200f}",
            "git~1",
            "GIT~1",
            ".\u{feff}git",
            ".git::$INDEX_ALLOCATION",
            ".Git :$DATA",
        ] {
            assert!(is_git(name.as_bytes()), "{name:?}");
        }
        for name in [
            ".gitignore",
            "git",
            ".github",
            ".git2",
            "x.git",
            ".gitmodules",
            "x:.git",
        ] {
            assert!(!is_git(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn secrets_are_env_files_but_not_their_examples() {
        for name in [".env", ".env.local", ".env.production"] {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        for name in [
            ".env.example",
            ".env.local.sample",
            ".env.template",
            ".envrc",
            "env",
            "a.env",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }
}
