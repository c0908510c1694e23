//! Somebody else at work between any two calls: what they wrote is at its path, or the receipt says that it isn't.

use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::PathBuf;

use crate::apply::kit::{Kit, entry};
use crate::apply::{ApplyEntry, Outcome, Status};
use crate::recover::finish;
use crate::sys::sim::at_call;
use crate::wire::Version;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    RenameOver,
    Truncate,
    InPlace,
    Unlink,
    /// The folder of the file leaves, and another comes in its place.
    SwapFolder,
    /// The same with a symlink to a folder outside the root.
    LinkFolder,
}

const DEEDS: [Deed; 6] = [
    Deed::RenameOver,
    Deed::Truncate,
    Deed::InPlace,
    Deed::Unlink,
    Deed::SwapFolder,
    Deed::LinkFolder,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Replace,
    Delete,
    Recreate,
}

const TASKS: [Task; 3] = [Task::Replace, Task::Delete, Task::Recreate];

const OLD: &str = "old bytes";
const NEW: &str = "new bytes";
const FOREIGN: &str = "of another";

/// A folder `p` with the file `f`, and a task for it.
fn scene(task: Task, exchange: bool) -> (Kit, Vec<ApplyEntry>) {
    let kit = Kit::in_memory();
    kit.hands.ladder.probed(exchange);
    kit.hands.abilities().unwrap();
    kit.mkdir("p");
    fs::create_dir(kit.base.join("outside")).unwrap();
    fs::write(kit.base.join("outside/f"), FOREIGN).unwrap();
    if task != Task::Recreate {
        kit.write("p/f", OLD);
    }
    let (expect, target) = match task {
        Task::Replace => (kit.text(OLD), kit.text(NEW)),
        Task::Delete => (kit.text(OLD), Version::Absent),
        Task::Recreate => (Version::Absent, kit.text(NEW)),
    };
    let entries = vec![entry("p/f", expect, target)];
    (kit, entries)
}

/// Whether bytes of theirs came to the path; a writer that our lease holds up does it when it can.
type Wrote = std::thread::JoinHandle<bool>;

fn write(file: PathBuf, options: fs::OpenOptions) -> Wrote {
    let open = |flags| options.clone().write(true).custom_flags(flags).open(&file);
    let write = |open: fs::File| open.write_all_at(FOREIGN.as_bytes(), 0).is_ok();
    match open(libc::O_NONBLOCK) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            std::thread::spawn(move || options.clone().write(true).open(&file).is_ok_and(write))
        }
        opened => {
            let wrote = opened.is_ok_and(write);
            std::thread::spawn(move || wrote)
        }
    }
}

/// Does it, if it can be done at this moment.
fn act(base: &std::path::Path, deed: Deed) -> Wrote {
    let file = base.join("root/p/f");
    let mut options = fs::OpenOptions::new();
    let wrote = match deed {
        Deed::Truncate => return write(file, options.truncate(true).clone()),
        Deed::InPlace => return write(file, options),
        _ => act_on_names(base, deed),
    };
    std::thread::spawn(move || wrote)
}

fn act_on_names(base: &std::path::Path, deed: Deed) -> bool {
    let (folder, file) = (base.join("root/p"), base.join("root/p/f"));
    match deed {
        Deed::RenameOver => {
            let temp = base.join("root/theirs");
            fs::write(&temp, FOREIGN).unwrap();
            fs::rename(&temp, &file).is_ok()
        }
        Deed::Truncate | Deed::InPlace => unreachable!("they open the file"),
        Deed::Unlink => {
            let _absent = fs::remove_file(&file);
            false
        }
        Deed::SwapFolder => {
            fs::rename(&folder, base.join("root/gone")).unwrap();
            fs::create_dir(&folder).unwrap();
            fs::write(&file, FOREIGN).is_ok()
        }
        Deed::LinkFolder => {
            fs::rename(&folder, base.join("root/gone")).unwrap();
            symlink(base.join("outside"), &folder).unwrap();
            true
        }
    }
}

fn read(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// What is wrong, if anything, with where the bytes are by now.
fn judge(kit: &Kit, (task, deed): (Task, Deed), (outcome, wrote): (&Outcome, bool)) -> Option<String> {
    let root = kit.base.join("root");
    let trashed = kit.trashed();
    let done = outcome.status == Status::Done;
    if wrote && read(root.join("p/f")).as_deref() != Some(FOREIGN) {
        let lost = !trashed.iter().any(|bytes| bytes == FOREIGN);
        return Some(format!("lost: {lost}, and not at its path; {outcome:?}"));
    }
    if fs::read_dir(kit.base.join("outside")).unwrap().count() != 1 {
        return Some("a file of ours came to a folder outside".to_string());
    }
    let moved = matches!(deed, Deed::SwapFolder | Deed::LinkFolder);
    if moved {
        let there = read(root.join("gone/f"));
        let expected = match (task, done) {
            (Task::Recreate, false) => None,
            (Task::Replace | Task::Delete, false) => Some(OLD),
            (Task::Delete, true) => None,
            (Task::Replace | Task::Recreate, true) => Some(NEW),
        };
        // Done before the folder left, or told and taken back.
        return (there.as_deref() != expected)
            .then(|| format!("{there:?} in the folder that left; {outcome:?}"));
    }
    let old_kept = task == Task::Recreate
        || deed != Deed::RenameOver && deed != Deed::Unlink && wrote
        || trashed.iter().any(|bytes| bytes == OLD)
        || read(root.join("p/f")).as_deref() == Some(OLD)
        // Theirs to unlink or to replace.
        || !done;
    (!old_kept).then(|| format!("the old bytes are gone; {outcome:?}"))
}

/// False: the call was not reached.
fn round(nth: usize, (task, deed, exchange): (Task, Deed, bool)) -> bool {
    let (kit, entries) = scene(task, exchange);
    let (base, wrote) = (kit.base.clone(), std::rc::Rc::new(std::cell::Cell::new(None)));
    let told = wrote.clone();
    let hook = move || {
        told.set(Some(act(&base, deed)));
        Ok(())
    };
    let (outcomes, came) = at_call(nth, hook, || kit.begin(entries));
    let outcome = outcomes.unwrap().remove(0);
    finish(&kit.hands, &kit.journal()).unwrap();
    let wrote = wrote.take().is_some_and(|wrote| wrote.join().unwrap());
    if !came {
        return false;
    }
    let wrong = judge(&kit, (task, deed), (&outcome, wrote));
    assert_eq!(
        wrong, None,
        "{deed:?} at call {nth} of {task:?}, exchange {exchange}"
    );
    came
}

#[test]
fn what_another_writes_at_any_call_is_at_its_path_or_told() {
    for exchange in [true, false] {
        for (task, deed) in TASKS.iter().flat_map(|task| DEEDS.map(|deed| (*task, deed))) {
            for nth in 1.. {
                if !round(nth, (task, deed, exchange)) {
                    break;
                }
            }
        }
    }
}
