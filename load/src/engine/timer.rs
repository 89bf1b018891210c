//! A timer that wakes within tens of microseconds: timerfd, because tokio's own counts milliseconds, which a latency from the intended
//! start would show.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

pub(super) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// On the runtime of the calling thread.
    #[expect(
        deprecated,
        reason = "what is unsound about it needs a type that lies about its descriptor; its successor is unsafe"
    )]
    pub(super) fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags).expect("a process may have a timer");
        Self(AsyncFd::new(descriptor).expect("a timer can be waited for"))
    }

    /// Until a time; at once if it is past.
    pub(super) async fn until(&self, time: Instant) {
        while let Some(left) = time.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let once = Itimerspec { it_interval: zero, it_value: left };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once).expect("the time is valid");
            // Setting it again makes it unreadable; reading how often it went off would be a system call more.
            self.0.readable().await.expect("the runtime is there").clear_ready();
        }
    }
}
