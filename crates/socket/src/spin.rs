//! With how much spinning a fresh connection begins, and when one that yields parts from its peer. Owns: those numbers, which
//! `wait` goes by, and from which connections and sets start.

/// Spin rounds of a fresh connection; at most `SMC_SPIN`. A round is some pauses and a yield. A fresh one starts small:
/// most short connections end before a spin pays, and a busy one has grown its window after three exchanges.
pub(crate) const SPIN_START: u32 = 2;
/// After so many yields in a row that gave the core to another program of ours, most likely the peer, a waiter sleeps once:
/// who is woken goes to an idle CPU if there is one, who yields waits for the next balancing (one pair on two CPUs shared
/// one of them for 7 to 12 milliseconds at a time, a twentieth of all). If that did not help, twice as many, up to the second.
pub(crate) const SHARED_YIELDS: (u32, u32) = (32, 512);
