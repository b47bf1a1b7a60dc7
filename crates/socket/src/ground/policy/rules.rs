//! The numbers by which waiters go. Owns: each number, with its reason; a rule that is to be tried without is
//! taken out by a type that names another one (`simulation`).

use os::time::Cycles;

/// What a waiter goes by. The defaults are the product's.
pub(crate) trait Rules {
    /// Rounds of a fresh connection or set; at most `SMC_SPIN`. A round is some looks and a yield. A fresh
    /// one starts small: most short connections end before a spin pays, and a busy one has grown its window
    /// after three exchanges.
    const ROUNDS_AT_FIRST: u32 = 2;
    /// Rounds for a server's answer, over all connections of a process: each has one answer, so what it
    /// learns serves the next. (A server that waits in accept() answers after some 20 us; asleep that long, a
    /// short connection took 9 % longer than over TCP, with this wait 11 % less.)
    const ROUNDS_FOR_ANSWER: u32 = 8;
    /// Looks of a round while the core has nobody else to run.
    const LOOKS: u32 = 50;
    /// A yield that came back later than this found somebody else to run: then a round is a look and a yield.
    /// With fifty looks each, a hundred processes on two cores kept each other waiting for milliseconds.
    const IDLE_YIELD: Cycles = Cycles::from_us(10);
    /// A sleep shorter than this would have been worth a spin.
    const SHORT_SLEEP: Cycles = Cycles::from_us(50);

    /// After so many yields in a row that gave the core to another program of ours, most likely the peer, a
    /// waiter sleeps once: who is woken goes to an idle CPU if there is one, who yields waits for the next
    /// balancing (one pair on two CPUs shared one of them for 7 to 12 milliseconds at a time, a twentieth of
    /// all). If that did not help, twice as many, up to the second.
    const SHARED_YIELDS: (u32, u32) = (32, 512);

    /// Who has a core for longer computes: a scheduler's slice is 1.4 ms and more. A yield during which
    /// nobody did lasted because many took their slice, however long. (500 processes that only exchange
    /// messages: 1 to 3 ms.)
    const LONG_SLICE: Cycles = Cycles::from_ms(1);
    /// In a wait whose yields have taken so long a signal may well come in the next one. (Of a crowd hardly
    /// any wait is: three system calls at each of its yields cost a quarter of its rate.)
    const LONG_AWAY: Cycles = Cycles::from_us(100);
    /// So many times its length a long slice is remembered: beside a program of low priority one comes in
    /// 150 yields.
    const REMEMBERED: u64 = 10;
    /// A yield that lasts longer is long whoever had the core.
    const TOO_LONG_YIELD: Cycles = Cycles::from_ms(200);
    /// Who has yielded for so long in one wait sleeps, whatever he has learned: on a machine with dozens of
    /// threads for each core a round takes a tenth of a second, and a blocked read looked for 3.5 s.
    const MOST_YIELDING: Cycles = Cycles::from_ms(100);
    /// One long yield says little: each counts so much, each short one takes one off, and at
    /// [`Rules::TOO_MANY`] nobody yields for a while. What a long one costs against what a short one saves,
    /// some 2 us of a sleep and a wake-up. (A program of low priority gets the core for 1 to 6 ms once in 150
    /// yields, Linux 6.18: at 64 for each a pair reached 0.05 to 1 of TCP's rate beside it.)
    const LONG_YIELD_WEIGHT: u32 = 512;
    /// Of the sum of long yields.
    const TOO_MANY: u32 = 2048;
    /// For so long nobody yields then, at first and at most.
    const ABSTAIN: (Cycles, Cycles) = (Cycles::from_ms(33), Cycles::from_ms(1_000));

    /// So many short sleeps in a row, and the next is a nap.
    const NAPS_FROM: u32 = 4;
    /// A sleep that a nap would have done for is shorter.
    const SHORT_NAP: Cycles = Cycles::from_us(3_333);
    /// After so many naps and so long the next sleep is libc's own wait: a thread that is to be cancelled
    /// must come by it. (By the count alone short naps pay too often for it, by the time alone the long ones
    /// of a crowd.)
    const PROPER_EVERY: (u32, Cycles) = (16, Cycles::from_us(6_667));
}

/// The product's rules, each as it was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured;

impl Rules for Measured {}
