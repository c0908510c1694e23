//! Where rules come from, and which are frozen.
//!
//! A [`Snapshot`] holds the bytes of every rule file as it was at a boundary; [`Frozen`] judges names by one,
//! [`Present`] by what is on disk now. A boundary's scan reads the present rules, and what it collected becomes the next
//! snapshot. Coverage decisions that take both are `scan`'s.

mod base;
mod files;
mod frozen;
pub mod json;
mod present;

use std::collections::BTreeMap;

pub use base::{Base, Context, Inside, Look, Verdict};
pub use frozen::Frozen;
pub use present::{OpenFolder, Present};

use crate::error::{EngineError, Result};
use crate::wire::{Reader, Writer};
use json::Json;

/// The repository that the root lies in. Absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoSource {
    pub top: Vec<u8>,
    pub git_dir: Vec<u8>,
    pub common_dir: Vec<u8>,
}

/// RuleSources of `backend.ts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    pub repo: Option<RepoSource>,
    pub global_excludes: Option<Vec<u8>>,
    pub ignore_case: bool,
    pub include: Vec<Vec<u8>>,
    pub exclude: Vec<Vec<u8>>,
}

fn bad(key: &str) -> EngineError {
    EngineError::corrupt(format!("the rule sources lack {key}, or it is of the wrong form"))
}

fn text(json: Option<&Json>, key: &str) -> Result<Vec<u8>> {
    match json {
        Some(Json::Text(bytes)) => Ok(bytes.clone()),
        _ => Err(bad(key)),
    }
}

fn texts(json: Option<&Json>, key: &str) -> Result<Vec<Vec<u8>>> {
    match json {
        Some(Json::List(items)) => items.iter().map(|item| text(Some(item), key)).collect(),
        _ => Err(bad(key)),
    }
}

impl Sources {
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let json = Json::parse(bytes)?;
        let repo = match json.get("repo") {
            Some(Json::Null) => None,
            Some(repo) => Some(RepoSource {
                top: text(repo.get("top"), "repo.top")?,
                git_dir: text(repo.get("gitDir"), "repo.gitDir")?,
                common_dir: text(repo.get("commonDir"), "repo.commonDir")?,
            }),
            None => return Err(bad("repo")),
        };
        let global_excludes = match json.get("globalExcludes") {
            Some(Json::Null) => None,
            path => Some(text(path, "globalExcludes")?),
        };
        let ignore_case = match json.get("ignoreCase") {
            Some(Json::Bool(value)) => *value,
            _ => return Err(bad("ignoreCase")),
        };
        Ok(Sources {
            repo,
            global_excludes,
            ignore_case,
            include: texts(json.get("include"), "include")?,
            exclude: texts(json.get("exclude"), "exclude")?,
        })
    }

    /// As `JSON.stringify` writes them, keys in the order of `docs/addon.md`.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = b"{\"repo\":".to_vec();
        match &self.repo {
            None => out.extend_from_slice(b"null"),
            Some(repo) => {
                for (key, value) in [
                    ("{\"top\":", &repo.top),
                    (",\"gitDir\":", &repo.git_dir),
                    (",\"commonDir\":", &repo.common_dir),
                ] {
                    out.extend_from_slice(key.as_bytes());
                    json::write_text(&mut out, value);
                }
                out.push(b'}');
            }
        }
        out.extend_from_slice(b",\"globalExcludes\":");
        match &self.global_excludes {
            None => out.extend_from_slice(b"null"),
            Some(path) => json::write_text(&mut out, path),
        }
        out.extend_from_slice(format!(",\"ignoreCase\":{}", self.ignore_case).as_bytes());
        for (key, list) in [
            (",\"include\":[", &self.include),
            (",\"exclude\":[", &self.exclude),
        ] {
            out.extend_from_slice(key.as_bytes());
            for (index, line) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json::write_text(&mut out, line);
            }
            out.push(b']');
        }
        out.push(b'}');
        out
    }
}

/// Rule files by key (docs/formats.md, "Rules snapshot").
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Snapshot {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.count(self.entries.len());
        for (key, content) in &self.entries {
            writer.bytes(key).bytes(content);
        }
        writer.done()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let count = reader.count(8)?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            entries.insert(reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
        }
        reader.end()?;
        Ok(Snapshot { entries })
    }

    /// What stands under a key.
    pub fn source(&self, key: &[u8]) -> Source<'_> {
        match self.entries.get(key) {
            Some(content) => Source::Rules(content),
            None if self.entries.contains_key(&unreadable(key)) => Source::Blind,
            None => Source::Missing,
        }
    }
}

/// One rule file as a snapshot has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    Missing,
    Rules(&'a [u8]),
    /// It is there, and can't be read.
    Blind,
}

/// Key of a rule file of a folder, by the folder's path relative to the repository's top.
fn top_key(folder: &[u8]) -> Vec<u8> {
    [b"top:", folder].concat()
}

/// Key of a nested repository's info/exclude, by its path relative to the root.
fn info_key(folder: &[u8]) -> Vec<u8> {
    [b"info:", folder].concat()
}

fn unreadable(key: &[u8]) -> Vec<u8> {
    [b"unreadable:", key].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_the_way_to_json_and_back() {
        let sources = Sources {
            repo: Some(RepoSource {
                top: b"/r\xff".to_vec(),
                git_dir: b"/r/.git".to_vec(),
                common_dir: b"/r/.git".to_vec(),
            }),
            global_excludes: None,
            ignore_case: true,
            include: vec![b"a\"".to_vec()],
            exclude: vec![b"x".to_vec(), b"y".to_vec()],
        };
        assert_eq!(Sources::from_json(&sources.to_json()).unwrap(), sources);
        let empty = Sources::default();
        assert_eq!(
            empty.to_json(),
            br#"{"repo":null,"globalExcludes":null,"ignoreCase":false,"include":[],"exclude":[]}"#
        );
    }

    #[test]
    fn a_snapshot_is_read_back_and_damage_is_an_error() {
        let mut snapshot = Snapshot::default();
        snapshot.entries.insert(b"global".to_vec(), b"*.o\n".to_vec());
        snapshot.entries.insert(unreadable(b"top:a"), vec![]);
        let bytes = snapshot.encode();
        assert_eq!(Snapshot::decode(&bytes).unwrap(), snapshot);
        for end in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert_eq!(snapshot.source(b"top:a"), Source::Blind);
        assert_eq!(snapshot.source(b"info"), Source::Missing);
    }
}
