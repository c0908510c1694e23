//! Who may append to a segment: the process in its name, while it lives. Pid 0 is nobody: the segment was closed.
//!
//! A process is named by pid and start time (field 22 of /proc/<pid>/stat), so that a reused pid isn't taken for it.
//! Not covered: processes of another machine or pid namespace; the caller keeps those apart (DESIGN §9).

/// Start time of a process in clock ticks after boot; None where there is no such process or it can't be told.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, may hold spaces and brackets: fields count from the last bracket.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let fields = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// The writer that a segment's file name gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub pid: u32,
    /// 0 where unknown.
    pub started: u64,
}

impl Owner {
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Owner {
            pid,
            started: start_time(pid).unwrap_or(0),
        }
    }

    /// From `<pid>-<starttime>-<8 hex>`; None for any other name.
    pub fn of_name(stem: &str) -> Option<Self> {
        let mut parts = stem.split('-');
        let owner = Owner {
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        let tail = parts.next()?;
        let hex = tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit());
        (hex && parts.next().is_none()).then_some(owner)
    }

    pub fn is_nobody(&self) -> bool {
        self.pid == 0
    }

    /// True unless it is known that the process is gone.
    pub fn lives(&self) -> bool {
        match start_time(self.pid) {
            Some(started) => self.started == 0 || started == self.started,
            None => self.may_exist(),
        }
    }

    /// Without /proc: whether a signal could be sent to the pid.
    fn may_exist(&self) -> bool {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_start_time_of_its_pid_does_not() {
        let me = Owner::this_process();
        assert!(me.started > 0);
        assert!(me.lives());
        assert!(
            !Owner {
                started: me.started + 1,
                ..me
            }
            .lives()
        );
        assert!(
            Owner { started: 0, ..me }.lives(),
            "an unknown start time counts as alive"
        );
        assert!(
            !Owner {
                pid: 0x3fff_ffff,
                started: 1
            }
            .lives()
        );
    }

    #[test]
    fn only_names_of_the_format_have_an_owner() {
        assert_eq!(
            Owner::of_name("12-345-00ff00ff"),
            Some(Owner {
                pid: 12,
                started: 345
            })
        );
        for name in [
            "12-345",
            "12-345-00ff00fg",
            "12-345-00ff00f",
            "x-1-00ff00ff",
            "1-2-00ff00ff-3",
        ] {
            assert_eq!(Owner::of_name(name), None, "{name}");
        }
    }
}
