//! The only wall clock of ronde. It sleeps on a `timerfd` of the real-time clock, so that a laptop
//! that was suspended wakes at the right instant and a clock that is set wakes its sleepers.

use std::{future::Future, os::fd::OwnedFd, pin::Pin};

use jiff::Timestamp;
use ronde_protocol::Clock;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn reached(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            match arm(at).and_then(watch) {
                // Readable when it fires, and when the clock was set. Both mean: look again.
                Ok(timer) => drop(timer.readable().await),
                Err(error) => {
                    tracing::error!(%error, "no timer of the real-time clock; looking again in a second");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                }
            }
        })
    }
}

#[expect(
    deprecated,
    reason = "what takes its place is unsafe; a timer that is owned and never given away is what it asks for"
)]
fn watch(timer: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(timer, Interest::READABLE)
}

fn arm(at: Timestamp) -> std::io::Result<OwnedFd> {
    let fd = timerfd_create(
        TimerfdClockId::Realtime,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )?;
    // An expiry of zero would disarm the timer; anything in the past fires at once.
    let at = at.max(Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1));
    let value = Timespec {
        tv_sec: at.as_second(),
        tv_nsec: i64::from(at.subsec_nanosecond()),
    };
    let spec = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: value,
    };
    timerfd_settime(
        &fd,
        TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET,
        &spec,
    )?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_instant_in_the_past_is_reached_at_once() {
        WallClock.reached(Timestamp::UNIX_EPOCH).await;
    }

    #[tokio::test]
    async fn never_early() {
        let at = WallClock.now() + jiff::SignedDuration::from_millis(30);
        WallClock.reached(at).await;
        assert!(WallClock.now() >= at);
    }
}
