//! The filter of system calls: sockets where there is no network, and for confined programs what
//! Landlock does not look at. It allows all else; files are Landlock's.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::Policy;

/// Calls that reach into other processes, the kernel, the mounts or the clock, which a confined
/// program has no use for; and shared memory, semaphores and queues that have no path, outlive the
/// program and would carry what it says to the next one.
const DENIED: [libc::c_long; 50] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_process_vm_readv,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Landlock does not hold them, and what they write outlasts the program anywhere.
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

/// Whether there is a filter for this processor.
pub(crate) fn supported() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// Filters the calling thread and what it will exec.
pub(crate) fn apply(policy: &Policy) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot confine it with seccomp: {error}");
    let program = filter(policy).map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

fn filter(policy: &Policy) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    if policy.confines_files() {
        rules.extend(DENIED.map(|call| (call, Vec::new())));
        // A user namespace is where most kernel holes begin. Threads and processes stay possible.
        let flag = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
        let new_user = SeccompCondition::new(
            0,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(flag),
            flag,
        )?;
        rules.insert(libc::SYS_unshare, vec![SeccompRule::new(vec![new_user])?]);
        // Limits of another process could blind or end its keeper, or ronde. Its own stay its own.
        let another = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
        let sets = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        rules.insert(
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![another, sets])?],
        );
    }
    if !policy.network {
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            let other = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::Ne,
                u64::from(libc::AF_UNIX.unsigned_abs()),
            )?;
            rules.insert(call, vec![SeccompRule::new(vec![other])?]);
        }
        // It can open sockets without the call above.
        rules.insert(libc::SYS_io_uring_setup, Vec::new());
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        arch,
    )?;
    let mut program = foreign_calls();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Kills what uses the second numbering of calls that x86-64 has (x32), which no rule by number
/// would meet. Calls of other processors are killed by what `seccompiler` puts first.
#[cfg(target_arch = "x86_64")]
fn foreign_calls() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| sock_filter {
        code: u16::try_from(code).expect("instruction codes have 16 bits"),
        jt,
        jf,
        k,
    };
    vec![
        // The call's number is the first field of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_KILL_PROCESS,
        ),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn foreign_calls() -> BpfProgram {
    Vec::<sock_filter>::new()
}
