//! Lets a test binary be its own keeper: a constructor takes over before the test harness does when
//! the first argument is [`keeper::ARG`]. Never part of ronde itself.

use std::ffi::CStr;

use crate::{Spawner, keeper};

/// A spawner whose keepers are the running test binary.
pub fn test_spawner() -> Spawner {
    Spawner::new("/proc/self/exe".into())
}

#[ctor::ctor(unsafe)]
fn become_keeper() {
    // The arguments are read from the kernel: the standard library may not have them yet.
    let Ok(arguments) = std::fs::read("/proc/self/cmdline") else {
        return;
    };
    let second = arguments
        .iter()
        .position(|&byte| byte == 0)
        .map(|end| &arguments[end + 1..]);
    let is_keeper = second
        .and_then(|rest| CStr::from_bytes_until_nul(rest).ok())
        .is_some_and(|argument| argument.to_bytes() == keeper::ARG.as_bytes());
    if is_keeper {
        keeper::main();
    }
}
