//! Signals to everything below this process.

use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Passes over the tree in one call of [`kill`], so that what forks faster than it is found does not
/// keep the keeper from its other duties for ever.
const PASSES: usize = 50;

/// Sends SIGKILL to every descendant, again and again while new ones appear.
pub(super) fn kill() {
    let mut seen = HashSet::new();
    for _ in 0..PASSES {
        let before = seen.len();
        for (pid, parent) in descendants() {
            seen.insert(pid);
            send(pid, parent, Signal::KILL);
        }
        if seen.len() == before {
            return;
        }
    }
}

/// Sends a signal once to every descendant.
pub(super) fn signal(signal: Signal) {
    for (pid, parent) in descendants() {
        send(pid, parent, signal);
    }
}

/// Sends a signal to the process that still has this number and this parent: a number that was
/// given to a stranger in the meantime is not hit.
fn send(pid: i32, parent: i32, signal: Signal) {
    let Some(handle) = Pid::from_raw(pid) else {
        return;
    };
    let Ok(handle) = pidfd_open(handle, PidfdFlags::empty()) else {
        return;
    };
    // The handle was taken before the look, so it is that process that was looked at.
    if parent_of(pid) == Some(parent) {
        // It may have just died, or belong to another user.
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// Every living process below this one, with its parent.
fn descendants() -> Vec<(i32, i32)> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    for entry in processes.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid
            && let Some(parent) = parent_of(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = parents.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            found.push((pid, parent));
            parents.push(pid);
        }
    }
    found
}

/// The parent of a process, unless it is dead (a zombie counts as dead; its children have moved on).
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat)
}

/// `pid (name) state parent …`; the name may hold anything, parentheses and bytes too.
fn parse_stat(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_stat;

    #[test]
    fn parents_are_found_whatever_the_name() {
        let table: [(&[u8], Option<i32>); 6] = [
            (b"7 (cat) S 5 7 7 0", Some(5)),
            (b"7 (a) R 9 (b) S 5 7 7 0", Some(5)),
            (b"7 (\xff\n) D 12 7", Some(12)),
            (b"7 (cat) Z 5 7", None),
            (b"7 (cat", None),
            (b"", None),
        ];
        for (stat, want) in table {
            assert_eq!(parse_stat(stat), want, "{stat:?}");
        }
    }
}
