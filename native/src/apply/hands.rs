//! What reads and writes single paths of one root: its descriptor, the blob store, and what was learnt about both.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::guard::{Context, Ladder};
use super::sightings::{Seen, Sightings};
use crate::error::Result;
use crate::path::{Resolver, Root};
use crate::probe::{self, Abilities};
use crate::segment::SegmentStore;
use crate::task::Work;
use crate::trash::{Place, Trash};

pub struct HandsOptions {
    pub root: PathBuf,
    pub scratch: PathBuf,
    pub max_file_bytes: u64,
    pub resolver: Resolver,
}

pub struct Hands {
    pub root: Root,
    pub store: Arc<SegmentStore>,
    pub max_file_bytes: u64,
    pub ladder: Ladder,
    pub sightings: Sightings,
    scratch: PathBuf,
    abilities: OnceLock<Abilities>,
}

impl Hands {
    /// Opens the root. Nothing is probed yet.
    pub fn open(store: Arc<SegmentStore>, options: HandsOptions) -> Result<Self> {
        let root = Root::open(&options.root, options.resolver)?;
        // There already, most times; where it can't be made, probing does without.
        let _there = crate::sys::file::make_folder(&options.scratch);
        Ok(Hands {
            root,
            store,
            max_file_bytes: options.max_file_bytes,
            ladder: Ladder::new(true),
            sightings: Sightings::default(),
            scratch: options.scratch,
            abilities: OnceLock::new(),
        })
    }

    pub fn context<'a>(&'a self, trash: &'a Trash<'a>, work: &'a Work) -> Context<'a> {
        Context {
            root: &self.root,
            store: &self.store,
            trash,
            ladder: &self.ladder,
            holds: self
                .abilities
                .get()
                .is_some_and(|known| known.lease && known.lease_sees_maps),
            seen: Seen::default(),
            work,
        }
    }

    /// What this file system can do, tried once in the scratch folder. Where that is on another device, what needs
    /// named files counts as missing until the first apply, which may make `.takeback/` and tries there.
    pub fn abilities(&self) -> Result<Abilities> {
        if let Some(known) = self.abilities.get() {
            return Ok(known.clone().with_walk(self.root.uses_openat2()));
        }
        let found = probe::probe(&self.root, Some(&self.scratch))?;
        if found.named {
            self.ladder.probed(found.exchange);
            self.abilities.get_or_init(|| found.clone());
        }
        Ok(found)
    }

    /// Before an apply: probes in the trash of the root where no folder of ours lies on its device.
    pub fn learn_from(&self, trash: &Trash<'_>) -> Result<()> {
        if self.abilities()?.named {
            return Ok(());
        }
        // Not to be made here (a root that can't be written to): the ladder is stepped down by what fails.
        let Ok(inside) = trash.fd(Place::Root) else {
            return Ok(());
        };
        let by_proc = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&inside.as_fd())
        );
        let found = probe::probe(&self.root, Some(Path::new(&by_proc)))?;
        if found.named {
            self.ladder.probed(found.exchange);
            self.abilities.get_or_init(|| found);
        }
        Ok(())
    }
}
