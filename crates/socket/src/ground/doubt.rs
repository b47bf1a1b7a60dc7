//! Numbers that somebody may close who makes his calls elsewhere: a child that shares this process's table of
//! descriptors and has memory of its own, or another process id in the same. Owns: which socket was under
//! such a number when the child was made, so that the kernel can say whether it still is.

use crate::here::Part as _;
use crate::numbers::Numbers;
use sync::Ordering;

/// The kernel's cookies of those sockets.
pub(crate) struct Doubts(Numbers);

impl Doubts {
    pub(crate) const fn new() -> Self {
        Doubts(Numbers::new())
    }
}

/// The socket under `fd` has this cookie. Whether there was memory to note it.
pub(crate) fn note(fd: i32, cookie: u64) -> bool {
    Doubts::here().0.word_or_new(fd).map(|word| word.store(cookie, Ordering::Release)).is_some()
}

/// Whether it is there still. (Behind a filter nobody can be asked.)
pub(crate) fn stands(fd: i32) -> bool {
    let noted = Doubts::here().0.word(fd).map(|word| word.load(Ordering::Acquire));
    os::confined::is_confined() || os::net::cookie(fd).ok() == noted
}
