//! What this machine can hold: the answers behind `ronde doctor`, and the question asked before a
//! program is confined. It looks at the kernel alone; no setting or variable changes its answers.

use std::process::Stdio;

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::{Policy, confine::NEEDED_ABI, seccomp};

/// One thing ronde needs, or that is good to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as ronde needs it. What ronde can do without is `ok` either way.
    pub ok: bool,
    /// What was found, and what follows from it.
    pub detail: String,
}

/// Looks at everything.
pub fn probe() -> Vec<Probe> {
    vec![
        landlock(),
        unix_sockets(),
        seccomp(),
        kernel("no_new_privs", rustix::thread::no_new_privs().map(|_| ())),
        kernel("subreaper", rustix::process::child_subreaper().map(|_| ())),
        kernel(
            "pidfd",
            pidfd_open(getpid(), PidfdFlags::empty()).map(|_| ()),
        ),
        processes(),
        user_namespaces(),
        cgroups(),
        git(),
    ]
}

/// Whether this machine can enforce a policy; if not, why, and the way out.
///
/// # Errors
/// The reason in words.
pub fn can_hold(policy: &Policy) -> Result<(), String> {
    if policy.confines_files() {
        match landlock_abi() {
            Ok(abi) if abi >= NEEDED_ABI => {}
            found => {
                let found = match found {
                    Ok(abi) => format!("this kernel has version {abi} of it"),
                    Err(reason) => reason.to_owned(),
                };
                return Err(format!(
                    "file isolation needs Landlock version {NEEDED_ABI} (Linux 6.2): {found}; boot a \
                     kernel with `lsm=landlock,...`, or set `sandbox = \"full\"` to run without isolation"
                ));
            }
        }
    }
    if (policy.confines_files() || !policy.network) && !seccomp_available() {
        return Err(
            "blocking the network needs seccomp filters, which this kernel or processor does \
                    not offer; set `network = true` and `sandbox = \"full\"` to run without"
                .to_owned(),
        );
    }
    Ok(())
}

/// The version of Landlock this kernel offers.
#[expect(unsafe_code, reason = "the question has no wrapper")]
fn landlock_abi() -> Result<i32, &'static str> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no pointer and makes nothing; it returns a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    if abi >= 0 {
        return Ok(i32::try_from(abi).unwrap_or(i32::MAX));
    }
    Err(match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EOPNOTSUPP) => "this kernel has it, but it is switched off",
        Some(libc::ENOSYS) => "this kernel was built without it",
        _ => "the kernel refuses to say, perhaps because ronde itself runs in a sandbox",
    })
}

#[expect(unsafe_code, reason = "the question has no wrapper")]
fn seccomp_available() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call only reads the four bytes it is pointed to.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    answer == 0 && seccomp::supported()
}

fn landlock() -> Probe {
    let name = "landlock";
    match landlock_abi() {
        Ok(abi) if abi >= NEEDED_ABI => {
            let missing: Vec<&str> = [(4, "ports"), (5, "device ioctls"), (6, "signals")]
                .into_iter()
                .filter_map(|(since, what)| (abi < since).then_some(what))
                .collect();
            let detail = if missing.is_empty() {
                format!("version {abi}: files, ports, devices and signals are held")
            } else {
                format!(
                    "version {abi}: files are held; not held: {}",
                    missing.join(", ")
                )
            };
            Probe {
                name,
                ok: true,
                detail,
            }
        }
        Ok(abi) => Probe {
            name,
            ok: false,
            detail: format!("version {abi}; file isolation needs {NEEDED_ABI} (Linux 6.2)"),
        },
        Err(reason) => Probe {
            name,
            ok: false,
            detail: format!("no file isolation: {reason}"),
        },
    }
}

fn unix_sockets() -> Probe {
    let held = landlock_abi().is_ok_and(|abi| abi >= 9);
    let detail = if held {
        "a confined program reaches no Unix socket in a hidden folder"
    } else {
        "this kernel cannot keep a confined program from connecting to a Unix socket whose path it \
         knows, such as a container engine's; keep such sockets away from ronde's user"
    };
    Probe {
        name: "unix sockets",
        ok: true,
        detail: detail.to_owned(),
    }
}

fn seccomp() -> Probe {
    let ok = seccomp_available();
    let detail = if ok {
        "the network can be switched off"
    } else {
        "the network cannot be switched off"
    };
    Probe {
        name: "seccomp",
        ok,
        detail: detail.to_owned(),
    }
}

fn kernel(name: &'static str, answer: rustix::io::Result<()>) -> Probe {
    match answer {
        Ok(()) => Probe {
            name,
            ok: true,
            detail: "available".to_owned(),
        },
        Err(error) => Probe {
            name,
            ok: false,
            detail: format!("not available: {error}"),
        },
    }
}

fn processes() -> Probe {
    match std::fs::read("/proc/self/stat") {
        Ok(_) => Probe {
            name: "proc",
            ok: true,
            detail: "mounted".to_owned(),
        },
        Err(error) => Probe {
            name: "proc",
            ok: false,
            detail: format!(
                "/proc cannot be read, so abandoned processes cannot be found: {error}"
            ),
        },
    }
}

fn user_namespaces() -> Probe {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let off = read("/proc/sys/user/max_user_namespaces").as_deref() == Some("0")
        || read("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0")
        || read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1");
    let detail = if off {
        "off or restricted; ronde does not need them"
    } else {
        "on; ronde does not need them"
    };
    Probe {
        name: "user namespaces",
        ok: true,
        detail: detail.to_owned(),
    }
}

fn cgroups() -> Probe {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok();
    let path = own
        .as_deref()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::")));
    let detail = match path {
        None => "no version 2; ronde does not need it".to_owned(),
        Some(path) => {
            let folder = format!("/sys/fs/cgroup{path}");
            let delegated = rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok();
            let delegated = if delegated {
                "delegated"
            } else {
                "not delegated"
            };
            format!("version 2, {delegated}; ronde does not need it")
        }
    };
    Probe {
        name: "cgroups",
        ok: true,
        detail,
    }
}

fn git() -> Probe {
    let name = "git";
    #[expect(
        clippy::disallowed_methods,
        reason = "a fixed question, asked before there is a runtime"
    )]
    let mut command = std::process::Command::new("git");
    let output = command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let version = text.trim().trim_start_matches("git version ").to_owned();
            Probe {
                name,
                ok: true,
                detail: version,
            }
        }
        Ok(output) => Probe {
            name,
            ok: false,
            detail: format!("`git --version` fails: {}", output.status),
        },
        Err(error) => Probe {
            name,
            ok: false,
            detail: format!("cannot run git: {error}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use ronde_protocol::access::Level;

    use super::*;

    #[test]
    fn a_policy_is_held_or_refused_as_the_probes_say() {
        let probes = probe();
        let ok = |name: &str| {
            probes
                .iter()
                .find(|probe| probe.name == name)
                .expect("probed")
                .ok
        };
        let unconfined = Policy::unconfined();
        assert_eq!(can_hold(&unconfined), Ok(()));
        let confined = Policy {
            level: Level::ReadOnly,
            ..unconfined.clone()
        };
        assert_eq!(can_hold(&confined).is_ok(), ok("landlock") && ok("seccomp"));
        let offline = Policy {
            network: false,
            ..unconfined
        };
        assert_eq!(can_hold(&offline).is_ok(), ok("seccomp"));
    }
}
