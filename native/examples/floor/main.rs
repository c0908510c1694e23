//! The floors of the bench (`bench/`): the least that an operation can cost, done bare with two threads.
//!
//! They know no index, no rules and no timeline, and share no code with the engine; what they do is what no engine can
//! leave out. Each prints one JSON line, `{"count":…,"bytes":…,"micros":[…]}`, with microseconds of each round after one
//! to warm up; the caller checks the counts. Linux only.
//!
//! - `floor scan ROOT`: readdir and fstatat of all names (`walk`)
//! - `floor capture ROOT`: that, and each file read, hashed, packed and appended (`capture`)
//! - `floor changed ROOT`: scans (`--scans N`, 2), and files that are named on standard input read, hashed, packed and appended
//! - `floor restore ROOT`: files that are named on standard input guarded and swapped, one sync (`restore`)
//!
//! Options: `--rounds N` (15), `--prune NAME,NAME` (folders left out, as rules would have it; `.git` always is), `--out FILE`
//! (where to append to).

mod capture;
mod restore;
mod walk;

use std::collections::HashSet;
use std::ffi::CString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Where a floor works.
struct Options {
    root: PathBuf,
    rounds: usize,
    pruned: HashSet<Vec<u8>>,
    out: Option<PathBuf>,
    scans: usize,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    count: u64,
    bytes: u64,
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, Fault> {
    let mut options = Options {
        root: args
            .next()
            .ok_or("usage: floor scan|capture|changed|restore ROOT")?
            .into(),
        rounds: 15,
        pruned: HashSet::from([b".git".to_vec()]),
        out: None,
        scans: 2,
    };
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--rounds" => options.rounds = value.parse()?,
            "--prune" => options
                .pruned
                .extend(value.split(',').map(|name| name.as_bytes().to_vec())),
            "--scans" => options.scans = value.parse()?,
            "--out" => options.out = Some(value.into()),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    Ok(options)
}

/// Paths on standard input, one a line, relative to the root.
fn named() -> Result<Vec<CString>, Fault> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(CString::new).collect::<Result<_, _>>()?)
}

fn main() -> Result<(), Fault> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let options = options(args)?;
    let walk = walk::Walk::open(&options, what == "capture")?;
    let mut round: Box<dyn FnMut() -> Result<Done, Fault>> = match what.as_str() {
        "scan" => Box::new(|| Ok(walk.run()?.done())),
        "capture" => Box::new(|| {
            let files = walk.run()?.files;
            capture::run(&walk, &files, options.out.as_deref())
        }),
        "changed" => {
            let (files, walk, out, scans) = (named()?, &walk, options.out.as_deref(), options.scans);
            Box::new(move || {
                for _ in 0..scans {
                    walk.run()?;
                }
                capture::run(walk, &files, out)
            })
        }
        "restore" => {
            let (files, walk) = (named()?, &walk);
            Box::new(move || {
                walk.run()?;
                restore::run(walk, &files)
            })
        }
        _ => return Err(format!("unknown floor {what:?}").into()),
    };
    let first = round()?;
    let mut micros = Vec::with_capacity(options.rounds);
    for _ in 0..options.rounds {
        let started = Instant::now();
        let done = round()?;
        micros.push(started.elapsed().as_micros().to_string());
        if done != first {
            return Err(format!("the tree changed: {first:?}, then {done:?}").into());
        }
    }
    let (count, bytes, micros) = (first.count, first.bytes, micros.join(","));
    println!("{{\"count\":{count},\"bytes\":{bytes},\"micros\":[{micros}]}}");
    Ok(())
}
