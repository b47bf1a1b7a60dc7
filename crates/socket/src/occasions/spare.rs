//! The program is short of descriptors. Owns: that it is not for ours: first those go that nobody needs, then
//! connections go back to TCP and give theirs up, then the process leaves what it shares with others.

use crate::end::End;
use crate::held::{Held, connections, hold};
use crate::here::fabric;
use crate::phase::Phase;
use crate::{answer, closing, credentials, flag, home, release};
use fabric::Reason;

/// What was given up so far, step by step: each costs more than the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// What no connection needs.
    Unused,
    /// Some connections go back to TCP.
    Some,
    /// All that can.
    All,
    /// The process shares nothing any more.
    Everything,
}

impl Step {
    /// The steps, in order.
    pub const ALL: [Step; 4] = [Step::Unused, Step::Some, Step::All, Step::Everything];
}

/// So many connections go back to TCP for one number: the program most likely wants more.
const SOME: usize = 8;
/// So often the core is given to somebody in a call who has been rung: he looks, and goes to libc.
const YIELDS: u32 = 200;
/// So many moments of [`MOMENT_NS`] he is waited for after that, all such connections together, where the
/// call would fail otherwise: he gets no core at once, or is in a signal handler. (For want of it two numbers
/// were missing in one CI run of some hundred.)
const MOMENTS: u32 = 100;
const MOMENT_NS: u32 = 1_000_000;

/// Gives up descriptors of ours; whether the program may try again.
#[cold]
pub fn give_back_descriptors(step: Step) -> bool {
    if os::confined::is_confined() || !os::fd::is_in_the_programs_way() {
        return false;
    }
    os::limits::note_shortage();
    match step {
        Step::Unused => {
            fabric().spare_descriptors();
            true
        }
        Step::Some => send_home(SOME, Patience::of_who_has_more()) > 0,
        Step::All => {
            decide_all_inherited();
            (send_home(usize::MAX, Patience::of_who_is_rung()) > 0) | close_inherited()
        }
        Step::Everything => credentials::leave_for_a_while(),
    }
}

/// One of our numbers is wanted itself: whoever has it makes way. Whether the number may be free now.
#[cold]
pub fn make_way(number: i32) -> bool {
    if os::confined::is_confined() {
        return false;
    }
    fabric().spare_descriptors();
    if !os::fd::is_internal(number) {
        return true;
    }
    if fabric().renumber(number) {
        return true;
    }
    decide_all_inherited();
    let is_its = |held: &Held| held.view().is_some_and(|view| view.has_bell(number));
    for (fd, held) in connections().filter(|(_, held)| is_its(held)) {
        is_home(fd, &held);
        gives_up(&held, &mut Patience::of_who_is_rung());
    }
    if os::fd::is_internal(number) {
        // It is no doorbell, but needed for all of them.
        os::limits::note_shortage();
        send_home(usize::MAX, Patience::of_who_is_rung());
        credentials::leave_for_a_while();
        close_inherited();
    }
    !os::fd::is_internal(number)
}

/// What came over exec, and has not been used: it is taken up, so that it can go back to TCP.
fn decide_all_inherited() {
    if os::inherited::are_any() {
        for (fd, held) in connections().filter(|(_, held)| held.phase() == Phase::Accepted) {
            crate::claim::decide(&held, fd);
        }
    }
}

/// Closes what the program before this one left open for its connections, if all of them are on TCP.
fn close_inherited() -> bool {
    let is_needed = |held: &Held| matches!(held.phase(), Phase::Smc | Phase::Intent | Phase::Accepted);
    os::inherited::are_any() && !connections().any(|(_, held)| is_needed(&held)) && os::inherited::close_all()
}

/// The connection of `fd` goes back to TCP, and gives up what it had beside it, as far as that goes at once.
pub fn go_home(fd: i32) {
    if let Some(held) = hold(fd) {
        let _ = is_home(fd, &held) && gives_up(&held, &mut Patience::none());
    }
}

/// Sends up to `most` connections home; how many gave their doorbells up. `patience` is with those in calls.
fn send_home(most: usize, patience: Patience) -> usize {
    let mut done = 0;
    // Who waits in a call is rung the first time, and has gone to libc by the second, most likely.
    for mut patience in [Patience::none(), patience] {
        for (fd, held) in connections() {
            if done >= most {
                return done;
            }
            done += usize::from(is_home(fd, &held) && gives_up(&held, &mut patience));
        }
    }
    done
}

/// Whether the socket is libc's by now.
fn is_home(fd: i32, held: &Held) -> bool {
    match (held.phase(), End::still_of(held)) {
        // (Before the connection stands nothing can be sent over it.)
        (Phase::Intent, _) if held.has(flag::ESTABLISHED) && !release::is_copy(held) => {
            answer::retract(held, fd, Reason::MEM) == Phase::Plain
        }
        (Phase::Smc, Some(end)) => home::send(held, &end, Reason::MEM) && held.phase() == Phase::Plain,
        (phase, _) => phase == Phase::Plain,
    }
}

/// How long who gives numbers up waits for others in calls.
struct Patience {
    yields: u32,
    moments: u32,
}

impl Patience {
    const fn none() -> Self {
        Patience { yields: 0, moments: 0 }
    }

    /// There are other numbers to be had.
    const fn of_who_has_more() -> Self {
        Patience { yields: YIELDS, moments: 0 }
    }

    const fn of_who_is_rung() -> Self {
        Patience { yields: YIELDS, moments: MOMENTS }
    }

    /// Lets others run; false when there was time enough.
    fn lets_others_run(&mut self) -> bool {
        match self {
            Patience { yields: 1.., .. } => {
                self.yields -= 1;
                os::process::yield_now();
            }
            Patience { moments: 1.., .. } => {
                self.moments -= 1;
                os::poll::pause_ns(MOMENT_NS);
            }
            _ => return false,
        }
        true
    }
}

/// Whether the doorbells of a socket that is libc's were closed, if it had any.
fn gives_up(held: &Held, patience: &mut Patience) -> bool {
    let Some(view) = held.view().filter(|view| view.has_any_bell() && !held.is_stale()) else { return false };
    let is_own = closing::is_own_memory(held.side(), held.flags());
    while held.phase() == Phase::Plain {
        if fabric().give_up_bells(view, is_own, || held.is_in_other_calls()) {
            end_rings(held);
            return true;
        }
        if !patience.lets_others_run() {
            return false;
        }
    }
    false
}

/// Nothing will be moved through the slot of a socket that is libc's: where nothing ever was (its server had
/// not looked, or refused), its rings do not say so, and the memory would be kept for it.
fn end_rings(held: &Held) {
    if let Some(end) = End::still_of(held) {
        let _ = end.end_turn(end.side) && end.end_turn(end.side.peer());
    }
}
