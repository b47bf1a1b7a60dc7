//! epoll control without libc. Owns: nothing; waiting is done by libc's own functions in the preload library.

use crate::raw::{nr, syscall};
use crate::{Result, check};

pub use linux_raw_sys::general::epoll_event as Event;

/// `EPOLL*` bits (`linux/eventpoll.h`).
#[allow(missing_docs)]
pub mod bits {
    pub const IN: u32 = 0x001;
    pub const PRI: u32 = 0x002;
    pub const OUT: u32 = 0x004;
    pub const ERR: u32 = 0x008;
    pub const HUP: u32 = 0x010;
    pub const RDNORM: u32 = 0x040;
    pub const RDBAND: u32 = 0x080;
    pub const WRNORM: u32 = 0x100;
    pub const WRBAND: u32 = 0x200;
    pub const RDHUP: u32 = 0x2000;
    pub const EXCLUSIVE: u32 = 1 << 28;
    pub const WAKEUP: u32 = 1 << 29;
    pub const ONESHOT: u32 = 1 << 30;
    pub const ET: u32 = 1 << 31;
}

/// What epoll_ctl does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// EPOLL_CTL_ADD
    Add = 1,
    /// EPOLL_CTL_DEL
    Del = 2,
    /// EPOLL_CTL_MOD
    Mod = 3,
}

/// epoll_ctl(2) with `events` and `data`.
pub fn ctl(epfd: i32, op: Op, fd: i32, events: u32, data: u64) -> Result<()> {
    let event = Event { events, data };
    // SAFETY: the event has the kernel's layout and outlives the call.
    check(unsafe { syscall!(nr::__NR_epoll_ctl, epfd, op as u32, fd, &raw const event) }).map(drop)
}
