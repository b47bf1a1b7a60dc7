//! What a connection remembers in single bits. Owns: their meaning and their numbers.
//!
//! A connection's flags are one word, which threads change bit by bit: no flag says anything about the order
//! of two of them.

use core::ops::BitOr;

/// A set of flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags(u32);

impl Flags {
    /// None of them.
    pub(crate) const NONE: Flags = Flags(0);

    /// The flags of a word.
    #[inline]
    pub(crate) const fn from_word(word: u32) -> Self {
        Flags(word)
    }

    /// The word that holds them.
    #[inline]
    pub(crate) const fn word(self) -> u32 {
        self.0
    }

    /// Those of both.
    pub(crate) const fn and(self, others: Flags) -> Self {
        Flags(self.0 | others.0)
    }

    /// Whether any of `wanted` is among them.
    #[inline]
    pub(crate) const fn has_any(self, wanted: Flags) -> bool {
        self.0 & wanted.0 != 0
    }

    /// Whether all of `wanted` are.
    #[inline]
    pub(crate) const fn has_all(self, wanted: Flags) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

macro_rules! flags {
    ($($(#[doc = $doc:literal])+ $name:ident = $bit:literal;)*) => {
        $($(#[doc = $doc])+ pub(crate) const $name: Flags = Flags(1 << $bit);)*
        /// Every flag with its name, in order.
        #[cfg(test)]
        const ALL: &[(&str, Flags)] = &[$((stringify!($name), $name)),*];
    };
}

flags! {
    /// TCP was seen to have ended (FIN or reset received).
    TCP_ENDED = 0;
    /// TCP reported an error or a full hang-up.
    TCP_GONE = 1;
    /// connect() was seen to have completed.
    ESTABLISHED = 2;
    /// Reset: the peer died with our bytes unread, or the ring contradicted itself. TCP would have said
    /// ECONNRESET.
    RESET = 3;
    /// ECONNRESET has been reported; from now on the stream has ended.
    RESET_TOLD = 4;
    /// The ring contradicted itself: nothing in it is believed any more.
    BROKEN = 5;
    /// TCP was made to answer bytes that nobody will read.
    PROVOKED = 6;
    /// Bytes wait for a peer that has ended its stream: whether it lives is looked at now and then.
    WATCHED = 7;
    /// O_NONBLOCK as this process last set or saw it.
    NONBLOCKING = 8;
    /// O_ASYNC is on: the doorbell raises the program's signal.
    SIGNAL_DRIVEN = 9;
    /// The memory is another process's, also on the client's side (inherited over exec or passed).
    ATTACHED = 10;
    /// What this side moved has been added to the totals.
    COUNTED = 11;
    /// This process's hold of the side was given back before the last close (exit, exec).
    LEFT = 12;
    /// A copy that may have left this process is counted.
    LENT = 13;
    /// It was counted for the exec that is being tried.
    LENT_NOW = 14;
    /// A descriptor of it goes on into the next program, if the exec that is being tried succeeds.
    GOES_ON = 15;
    /// Others may hold the socket whom nobody has counted: it came from another process, or this one forked
    /// before its first use.
    UNCOUNTED = 16;
    /// A listener that was announced until a filter of system calls came.
    WITHDRAWN = 17;
    /// connect() to AF_UNSPEC ended the connection: the socket, with all its descriptors, is TCP's.
    DISSOLVED = 18;
    /// SO_PEEK_OFF was set.
    PEEK_OFFSET = 19;
    /// SO_RCVTIMEO was set to a negative time: nobody waits. (The kernel tells it as none.)
    RECEIVES_AT_ONCE = 20;
    /// The same for SO_SNDTIMEO.
    SENDS_AT_ONCE = 21;
    /// A number of it was closed while another thread was in a call on it.
    KEPT = 22;
    /// It was in an epoll set before it was connected: what the kernel reports may have been said then.
    EARLY = 23;
    /// The socket has a number of ours, for who sleeps on one that was closed.
    HELD_OPEN = 24;
    /// TCP_CORK is on: what is written is held back.
    CORKED = 25;
    /// It was shared, and is back on TCP: the slot is this process's to let go of still.
    DEMOTED = 26;
    /// Its epoll sets were told that this direction is on TCP for good.
    TOLD_OUTSIDE = 27;
    /// Somebody waits for room that its reader does not make: whether the reader moves is looked at now and
    /// then.
    STALLED = 28;
    /// A small SO_SNDBUF was set: the ring takes no more than TCP would.
    LIMITED = 29;
    /// This process has changed what a set that others have as well asks of it.
    CHANGED_SETS = 30;
    /// What it put into TCP last is held back there (MSG_MORE, TCP_CORK).
    HELD_OUTSIDE = 31;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_stand_in_order_and_none_twice() {
        for (place, (name, flag)) in ALL.iter().enumerate() {
            assert_eq!(flag.word(), 1 << place, "{name}");
        }
    }

    #[test]
    fn any_and_all_differ() {
        let both = TCP_ENDED | RESET;
        assert!(TCP_ENDED.has_any(both) && !TCP_ENDED.has_all(both));
        assert!(both.has_all(RESET) && !Flags::NONE.has_any(both) && both.has_all(Flags::NONE));
        assert_eq!(Flags::from_word(both.word()), both);
    }
}
