//! Names that mean something to coverage whatever the rules say: secrets, our own temp files, spellings of `.git`.
//!
//! Pure; whether a spelling is the file system's `.git` is for the caller to ask the file system.

/// `.env` and `.env.*`, but not the samples that are made to be shared. For files only.
pub fn is_secret(name: &[u8]) -> bool {
    let samples: [&[u8]; 3] = [b".example", b".sample", b".template"];
    name == b".env" || (name.starts_with(b".env.") && !samples.iter().any(|end| name.ends_with(end)))
}

/// `.takeback-<32 hex>-<digits>.tmp`: temp files of a running or dead operation.
pub fn is_temp(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b".takeback-") else {
        return false;
    };
    let Some(rest) = rest.strip_suffix(b".tmp") else {
        return false;
    };
    let Some((id, index)) = rest.split_at_checked(32) else {
        return false;
    };
    id.iter().all(u8::is_ascii_hexdigit)
        && index.len() > 1
        && index[0] == b'-'
        && index[1..].iter().all(u8::is_ascii_digit)
}

/// A name that some file system folds to `.git`: another case, invisible letters, an 8.3 name. The caller checks that
/// it is the same inode as `.git`.
pub fn may_fold_to_git(name: &[u8]) -> bool {
    if name.len() == 4 || name.is_ascii() {
        return name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b"git~1");
    }
    let ascii: Vec<u8> = name.iter().copied().filter(u8::is_ascii).collect();
    ascii.eq_ignore_ascii_case(b".git")
}

/// The last component of a path.
pub fn base_name(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => &path[at + 1..],
        None => path,
    }
}

/// The folder that holds `path`; empty for a name in the root.
pub fn parent_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => &path[..at],
        None => b"",
    }
}

/// `folder/name`, or `name` in the root.
pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(folder.len() + 1 + name.len());
    if !folder.is_empty() {
        path.extend_from_slice(folder);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// True where `path` is `folder` or lies below it.
pub fn is_within(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_env_files_but_not_their_samples() {
        for name in [".env", ".env.local", ".env.production", ".env."] {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        for name in [
            ".env.example",
            ".env.sample",
            ".env.local.template",
            "env",
            ".envrc",
            "a.env",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn only_whole_temp_names_are_ours() {
        let id = "0123456789abcdef0123456789abcdef";
        assert!(is_temp(format!(".takeback-{id}-0.tmp").as_bytes()));
        for name in [
            format!(".takeback-{id}-.tmp"),
            format!(".takeback-{id}-x.tmp"),
            format!(".takeback-{id}.tmp"),
            ".takeback-zz-1.tmp".into(),
        ] {
            assert!(!is_temp(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn spellings_that_could_fold_to_git_are_suspected_and_others_are_not() {
        for name in [".git", ".GIT", ".Git", "GIT~1", ".g\u{200c}it"] {
            assert!(may_fold_to_git(name.as_bytes()), "{name}");
        }
        for name in [".gitignore", "git", ".gi", ".gîtx"] {
            assert!(!may_fold_to_git(name.as_bytes()), "{name}");
        }
    }
}
