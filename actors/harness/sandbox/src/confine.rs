//! Confines the calling process for good: Landlock for files, signals and ports, dropped
//! capabilities, and the filter of `seccomp`. It runs in the forked child, just before the exec. What
//! cannot be enforced is refused, never weakened.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::{
    fs::FileType,
    io::Errno,
    thread::{CapabilitySet, remove_capability_from_bounding_set},
};

use crate::{
    Policy,
    carve::{self, Right},
    doctor, seccomp,
};

/// The first version of Landlock that can hold truncation, and so "read only".
pub(crate) const NEEDED_ABI: i32 = 3;

/// Devices every program expects to be able to write. `/dev/shm` is not one of them: it is the same
/// folder for all programs, so what one leaves there the next would find.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/ptmx",
];

/// The terminals of people: what is typed there is not for a program, nor is what is shown its to write.
const TERMINALS: [&str; 2] = ["/dev/pts", "/dev/tty"];

/// What root would still have that reaches past files: raw devices, the clock, the kernel, other
/// processes, and the way around path checks by file handle.
const DROPPED: [CapabilitySet; 18] = [
    CapabilitySet::DAC_READ_SEARCH,
    CapabilitySet::LINUX_IMMUTABLE,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
    CapabilitySet::SYS_MODULE,
    CapabilitySet::SYS_RAWIO,
    CapabilitySet::SYS_PTRACE,
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SYS_BOOT,
    CapabilitySet::SYS_NICE,
    CapabilitySet::SYS_RESOURCE,
    CapabilitySet::SYS_TIME,
    CapabilitySet::MKNOD,
    CapabilitySet::MAC_OVERRIDE,
    CapabilitySet::MAC_ADMIN,
    CapabilitySet::SYSLOG,
    CapabilitySet::BPF,
    CapabilitySet::PERFMON,
];

/// Confines the calling thread and what it will exec. The current folder must be the one it is to
/// start in.
pub(crate) fn apply(policy: &Policy) -> Result<(), String> {
    if !policy.confines_files() && policy.network {
        return Ok(());
    }
    doctor::can_hold(policy)?;
    if policy.confines_files() {
        restrict_files(policy)?;
        for capability in DROPPED {
            match remove_capability_from_bounding_set(capability) {
                // Not root: nothing to drop, and nothing will be gained. Or unknown to the kernel.
                Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
                Err(error) => return Err(format!("cannot drop a capability: {error}")),
            }
        }
    }
    seccomp::apply(policy)
}

fn restrict_files(policy: &Policy) -> Result<(), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot confine it with Landlock: {error}");
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))
        .map_err(|error| failed(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V9))
        .map_err(|error| failed(&error))?
        .scope(Scope::from_all(ABI::V6))
        .map_err(|error| failed(&error))?;
    if !policy.network {
        rules = rules
            .handle_access(AccessNet::from_all(ABI::V4))
            .map_err(|error| failed(&error))?;
    }
    let mut rules = rules.create().map_err(|error| failed(&error))?;

    let writable = policy
        .writable
        .iter()
        .map(|path| {
            path.canonicalize()
                .map_err(|error| format!("cannot make {} writable: {error}", path.display()))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let start =
        std::env::current_dir().map_err(|error| format!("cannot tell where it starts: {error}"))?;
    let readable = [Path::new("/"), &start];
    for (path, right) in carve::grants(&readable, &writable, &hidden(policy)?)? {
        let rights = match right {
            Right::Read => reading(),
            Right::Write => writing(),
        };
        rules = allow(rules, &path, rights)?;
    }
    for device in DEVICES {
        rules = allow(rules, Path::new(device), using_a_device())?;
    }
    let status = rules.restrict_self().map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(failed(&"the kernel does not enforce it"));
    }
    Ok(())
}

/// The hidden paths, resolved, with the terminals, and the block devices that could be read: a raw
/// disk has every hidden file in it.
fn hidden(policy: &Policy) -> Result<Vec<PathBuf>, String> {
    let mut hidden = Vec::new();
    for path in &policy.hidden {
        match path.canonicalize() {
            Ok(path) => hidden.push(path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("cannot hide {}: {error}", path.display())),
        }
    }
    hidden.extend(
        TERMINALS
            .map(PathBuf::from)
            .into_iter()
            .filter(|path| path.exists()),
    );
    for entry in std::fs::read_dir("/dev").into_iter().flatten().flatten() {
        let path = entry.path();
        let block = rustix::fs::lstat(&path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice);
        if block && rustix::fs::access(&path, rustix::fs::Access::READ_OK).is_ok() {
            hidden.push(path);
        }
    }
    Ok(hidden)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(ABI::V9) | AccessFs::ResolveUnix
}

fn writing() -> BitFlags<AccessFs> {
    // A device node made in the workspace would be a way to the raw disk.
    AccessFs::from_all(ABI::V9) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev)
}

fn using_a_device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::IoctlDev
        | AccessFs::ReadDir
}

/// Adds a rule. A path that has vanished since it was found needs none.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let Ok(fd) = PathFd::new(path) else {
        return Ok(rules);
    };
    let stat = rustix::fs::fstat(&fd)
        .map_err(|error| format!("cannot look at {}: {error}", path.display()))?;
    let rights = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        rights
    } else {
        rights & AccessFs::from_file(ABI::V9)
    };
    rules
        .add_rule(PathBeneath::new(fd, rights))
        .map_err(|error| format!("cannot allow {}: {error}", path.display()))
}
