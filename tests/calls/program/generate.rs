//! A script from a seed. Invariant: every call has one result over TCP, so that another one is a fault.
//!
//! Not generated, for over TCP, too, chance decides: a full buffer (how much fits follows from sizes of
//! segments), what a write of several calls finds after the other end has gone (its reset comes in between),
//! bytes for who has shut both ways, a reset before accept, edges after one's own end (its acknowledgement is
//! one). What is held back (MSG_MORE, TCP_CORK) is let go by the same step, for it would come after 200 ms by
//! itself; what Nagle holds back has arrived before a reset, which overtakes it.
//!
//! Nor what LIMITATIONS has: sets of two processes, a reset that two processes ask for, the last close of
//! what was forked before its first use.

use crate::model::{Link, Side};
use crate::script::{Actor, Awaited, Call, End, Give, Look, Member, Step, Take};
use testkit::Random;

const GIVES: [Give; 11] = [
    Give::Write,
    Give::Send,
    Give::DontWait,
    Give::SendTo,
    Give::Vector,
    Give::Message,
    Give::Messages,
    Give::More,
    Give::Corked,
    Give::File,
    Give::Splice,
];
/// Of these, those that are one call, and those of one buffer: who waits may have a list's first piece alone.
const SINGLE_GIVES: usize = 6;
const WHOLE_GIVES: usize = 4;
const TAKES: [Take; 11] = [
    Take::Read,
    Take::Receive,
    Take::ReceiveFrom,
    Take::Vector,
    Take::Message,
    Take::DontWait,
    Take::Messages,
    Take::Peek,
    Take::Discard,
    Take::WaitAll,
    Take::Splice,
];
/// Of these, those that wait for the first byte, and those that never do.
const WAITING_TAKES: usize = 5;
const PATIENT_TAKES: std::ops::Range<usize> = 5..9;
const LOOKS: [Look; 10] = [
    Look::Poll,
    Look::PollPrecise,
    Look::Select,
    Look::SelectPrecise,
    Look::OwnSet,
    Look::Unread,
    Look::Error,
    Look::Flags,
    Look::Names,
    Look::Options,
];
/// Of these, those that can wait.
const WAITS: usize = 5;
const MEMBERS: [Member; 4] = [Member::Level, Member::LevelBoth, Member::Edge, Member::Once];
/// What arrives in one piece, whatever the segments.
const ONE_PIECE: usize = 4096;

/// Which seeds are for small buffers.
pub(crate) fn is_small(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

/// The script of a seed.
pub(crate) fn script(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed);
    let draws = 80 + script.random.below(240);
    (0..draws).for_each(|_| script.next());
    script.end();
    script.steps
}

struct Script {
    random: Random,
    is_small: bool,
    wanted: usize,
    links: Vec<Link>,
    /// Not yet accepted, oldest first.
    waiting: Vec<usize>,
    has_child: [bool; 2],
    steps: Vec<Step>,
}

impl Script {
    fn new(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let wanted = 1 + random.below(3);
        let (links, waiting, steps) = (vec![], vec![], vec![]);
        Script { random, is_small: is_small(seed), wanted, links, waiting, has_child: [false; 2], steps }
    }

    /// One more step, or none where what was drawn is not to be had.
    fn next(&mut self) {
        if self.links.len() < self.wanted && (self.links.is_empty() || self.random.once_in(8)) {
            return self.connect();
        }
        if !self.waiting.is_empty() && self.random.once_in(3) {
            return self.accept();
        }
        let by = self.actor();
        let link = self.random.below(self.links.len());
        let copies = self.links[link].copies(by);
        if copies.is_empty() || !self.links[link].may_act(by) {
            return;
        }
        let copy = copies[self.random.below(copies.len())];
        match self.random.below(100) {
            0..28 => self.give(by, link, copy),
            28..56 => self.take(by, link, copy),
            56..68 => self.look(by, link, copy),
            68..76 => self.await_something(by, link, copy),
            76..88 => self.kept_set(by, link),
            88..90 => self.non_blocking(by, link, copy),
            90..92 => self.duplicate(by, link),
            92..94 => self.fork(by),
            94..96 => self.shut(by, link, copy),
            _ => self.close(by, link, copy),
        }
    }

    fn actor(&mut self) -> Actor {
        let end = if self.random.once_in(2) { End::Here } else { End::There };
        Actor { end, is_child: self.has_child[end as usize] && self.random.once_in(3) }
    }

    fn push(&mut self, by: Actor, link: usize, copy: usize, first: Vec<Awaited>, call: Call) {
        let is_acceptor = self.links[link].connector != by.end;
        let does_look = match call {
            Call::Give(..) | Call::Take(..) | Call::Await(_) => true,
            Call::Look(look) => LOOKS[..WAITS].contains(&look),
            _ => false,
        };
        self.links[link].is_looked_at |= is_acceptor && does_look;
        self.steps.push(Step { by, link, copy, first, call, meanwhile: None });
    }

    fn connect(&mut self) {
        let end = if self.random.once_in(2) { End::Here } else { End::There };
        let link = self.links.len();
        self.links.push(Link::new(end, self.is_small));
        self.waiting.push(link);
        self.push(Actor { end, is_child: false }, link, 0, vec![], Call::Connect);
    }

    /// The oldest of one of the ends, for listeners hand out in order.
    fn accept(&mut self) {
        let link = self.waiting.remove(0);
        self.links[link].accept();
        let by = Actor { end: self.links[link].connector.other(), is_child: false };
        self.push(by, link, 0, vec![], Call::Accept);
    }

    fn side(&self, by: Actor, link: usize) -> &Side {
        self.links[link].side(by.end)
    }

    fn first(&mut self, by: Actor, link: usize, copy: usize, bytes: bool) -> Vec<Awaited> {
        self.links[link].awaited(by.end, link, copy, bytes)
    }

    fn give(&mut self, by: Actor, link: usize, copy: usize) {
        let (room, offset) = (self.links[link].room(by.end), self.links[link].offset(by.end));
        let peer = self.links[link].side(by.end.other());
        if peer.shut_read && peer.shut_write && !peer.is_gone {
            return;
        }
        let does_arrive = self.links[link].does_arrive(by.end);
        let (ways, most) =
            if does_arrive { (GIVES.len(), room) } else { (SINGLE_GIVES, ONE_PIECE.min(room.max(1))) };
        let way = GIVES[self.random.below(ways)];
        let count = if self.random.once_in(40) { 0 } else { self.random.size(most.max(1)) };
        let is_several = matches!(way, Give::Messages | Give::More | Give::Corked);
        if most == 0 || (is_several && count < 4) || (count == 0 && matches!(way, Give::File | Give::Splice))
        {
            return;
        }
        let first = if does_arrive { vec![] } else { self.first(by, link, copy, true) };
        self.links[link].send(by.end, count);
        self.push(by, link, copy, first, Call::Give(way, count, offset));
    }

    fn take(&mut self, by: Actor, link: usize, copy: usize) {
        let has_ended = self.links[link].has_ended(by.end);
        let side = self.side(by, link);
        let (unread, offset, may_wait) = (side.unread, side.read, !side.is_nonblocking);
        let is_there = unread > 0 || has_ended || side.shut_read;
        let is_reset = side.is_reset;
        let way = match may_wait && !is_there {
            true => TAKES[PATIENT_TAKES.start + self.random.below(PATIENT_TAKES.len())],
            false => TAKES[self.random.below(TAKES.len())],
        };
        let most = if self.random.once_in(2) { unread.max(1) } else { unread + 1000 };
        let count = match way {
            Take::WaitAll | Take::Splice if unread == 0 => return,
            // (It is told of a reset first, or not if that has been told before.)
            Take::Messages if is_reset => return,
            Take::WaitAll | Take::Splice => self.random.size(unread),
            Take::Messages => self.random.size(most).next_multiple_of(3),
            _ if self.random.once_in(40) => 0,
            _ => self.random.size(most),
        };
        let first = self.first(by, link, copy, true);
        if way != Take::Peek {
            self.links[link].take(by.end, count);
        }
        self.push(by, link, copy, first, Call::Take(way, count, offset));
    }

    fn look(&mut self, by: Actor, link: usize, copy: usize) {
        let look = LOOKS[self.random.below(LOOKS.len())];
        let first = self.first(by, link, copy, true);
        self.push(by, link, copy, first, Call::Look(look));
    }

    /// A call that waits for what the other end does meanwhile: bytes in one piece, or the end.
    fn await_something(&mut self, by: Actor, link: usize, copy: usize) {
        let call = self.random.below(2 * WAITS);
        let side = self.side(by, link);
        let is_quiet = side.unread == 0 && !side.shut_read && !self.links[link].has_ended(by.end);
        if !is_quiet || !self.links[link].is_accepted || (call >= WAITS && side.is_nonblocking) {
            return;
        }
        let other = Actor { end: by.end.other(), is_child: false };
        let copies = self.links[link].copies(other);
        let Some(&other_copy) = copies.first() else { return };
        if self.links[link].side(by.end).shut_write && self.random.once_in(2) {
            return;
        }
        let offset = self.links[link].offset(other.end);
        let (ending, count) = (self.random.once_in(8), self.random.size(ONE_PIECE));
        let theirs = match ending {
            true => Call::Shut(libc::SHUT_WR),
            false => Call::Give(GIVES[self.random.below(WHOLE_GIVES)], count, offset),
        };
        if !ending && !self.links[link].does_arrive(other.end) {
            return;
        }
        match ending {
            true => self.links[link].side_mut(other.end).shut_write = true,
            false => self.links[link].send(other.end, count),
        }
        let size = self.random.size(ONE_PIECE);
        let own = match call {
            0..WAITS => Call::Await(LOOKS[call]),
            _ => Call::Take(TAKES[self.random.below(WAITING_TAKES)], size, offset),
        };
        if let Call::Take(..) = own {
            self.links[link].take(by.end, size);
        }
        let theirs = Step { by: other, link, copy: other_copy, first: vec![], call: theirs, meanwhile: None };
        let meanwhile = Some(Box::new(theirs));
        self.steps.push(Step { by, link, copy, first: vec![], call: own, meanwhile });
    }

    /// Something with the set that each process keeps. (Its child leaves it alone: a set of two processes
    /// goes by TCP, and tells one of them less; LIMITATIONS has it.)
    fn kept_set(&mut self, by: Actor, link: usize) {
        let by = Actor { is_child: false, ..by };
        if !self.links[link].copies(by).contains(&0) || !self.links[link].may_act(by) {
            return;
        }
        match (self.side(by, link).member, self.random.below(6)) {
            (member, 0) | (member @ None, 1..3) => {
                let how = MEMBERS[self.random.below(MEMBERS.len())];
                let first = self.first(by, link, 0, true);
                self.links[link].side_mut(by.end).member = Some(how);
                self.push(by, link, 0, first, Call::Join(how, member.is_some()));
            }
            (Some(_), 1) => self.leave(by, link),
            _ => self.wait_set(by),
        }
    }

    fn leave(&mut self, by: Actor, link: usize) {
        self.links[link].side_mut(by.end).member = None;
        self.push(by, link, 0, vec![], Call::Leave);
    }

    fn wait_set(&mut self, by: Actor) {
        let mut first = vec![];
        for link in 0..self.links.len() {
            if let Some(member) = self.side(by, link).member {
                // (The acknowledgement of our own end is an edge, too, and comes when it will; of a reset an
                // edge too many may come, which whoever asks for edges endures.)
                let side = self.side(by, link);
                let is_chance = member == Member::Edge && (side.shut_write || side.is_reset);
                if is_chance || !self.links[link].may_act(by) {
                    return;
                }
                first.extend(self.first(by, link, 0, true));
            }
        }
        self.push(by, 0, 0, first, Call::WaitSet);
    }

    fn non_blocking(&mut self, by: Actor, link: usize, copy: usize) {
        let on = !self.side(by, link).is_nonblocking;
        self.links[link].side_mut(by.end).is_nonblocking = on;
        self.push(by, link, copy, vec![], Call::NonBlocking(on));
    }

    fn duplicate(&mut self, by: Actor, link: usize) {
        if self.links[link].copies(by).as_slice() == [0] {
            self.links[link].side_mut(by.end).held[usize::from(by.is_child)][1] = true;
            self.push(by, link, 0, vec![], Call::Duplicate);
        }
    }

    fn fork(&mut self, by: Actor) {
        if self.has_child[by.end as usize] {
            return self.child_exits(by.end);
        }
        self.has_child[by.end as usize] = true;
        self.links.iter_mut().for_each(|link| link.fork(by.end));
        self.push(by, 0, 0, vec![], Call::Fork);
    }

    fn child_exits(&mut self, end: End) {
        let is_last =
            |link: &Link| link.side(end).held[0] == [false; 2] && link.side(end).held[1] != [false; 2];
        for link in 0..self.links.len() {
            if is_last(&self.links[link]) && !self.links[link].may_close(end) {
                return;
            }
            if is_last(&self.links[link]) && !self.arrives_before_reset(end, link, false) {
                return;
            }
        }
        self.has_child[end as usize] = false;
        self.links.iter_mut().for_each(|link| link.child_exits(end));
        self.push(Actor { end, is_child: false }, 0, 0, vec![], Call::ChildExits);
    }

    fn shut(&mut self, by: Actor, link: usize, copy: usize) {
        let how = [libc::SHUT_WR, libc::SHUT_WR, libc::SHUT_RD, libc::SHUT_RDWR][self.random.below(4)];
        let first = self.first(by, link, copy, true);
        let side = self.links[link].side_mut(by.end);
        side.shut_write |= how != libc::SHUT_RD;
        side.shut_read |= how != libc::SHUT_WR;
        self.push(by, link, copy, first, Call::Shut(how));
    }

    /// A reset overtakes what Nagle holds back: all has arrived before it is sent. False if nobody can tell.
    fn arrives_before_reset(&mut self, end: End, link: usize, is_abort: bool) -> bool {
        if !self.links[link].would_reset(end, is_abort) {
            return true;
        }
        let whoever = [false, true].map(|is_child| Actor { end: end.other(), is_child });
        let there = whoever.into_iter().find_map(|by| Some((by, *self.links[link].copies(by).first()?)));
        let Some((by, copy)) = there else { return false };
        let first = self.first(by, link, copy, true);
        self.push(by, link, copy, first, Call::Look(Look::Unread));
        true
    }

    /// A set keeps who has another descriptor: it is taken out first, for the number may be another's then.
    fn close(&mut self, by: Actor, link: usize, copy: usize) {
        let side = self.side(by, link);
        let is_member = side.member.is_some() && copy == 0 && !by.is_child;
        let held = side.held.iter().flatten().filter(|is_held| **is_held).count();
        let may_abort = held == 1 && self.links[link].is_accepted && self.random.once_in(4);
        if !self.links[link].may_close(by.end) {
            return;
        }
        if held == 1 && !self.arrives_before_reset(by.end, link, may_abort) {
            return;
        }
        if is_member && (held > 1 || self.random.once_in(2)) {
            self.leave(by, link);
        }
        let first = self.first(by, link, copy, true);
        if copy == 0 && !by.is_child {
            self.links[link].side_mut(by.end).member = None;
        }
        self.links[link].close(by, copy, may_abort);
        self.push(by, link, copy, first, if may_abort { Call::Abort } else { Call::Close });
    }

    /// Whatever is under way is read to its end, and all is closed.
    fn end(&mut self) {
        while !self.waiting.is_empty() {
            self.accept();
        }
        for (end, is_child) in
            [(End::Here, true), (End::There, true), (End::Here, false), (End::There, false)]
        {
            for link in 0..self.links.len() {
                self.end_link(Actor { end, is_child }, link);
            }
            if is_child && self.has_child[end as usize] {
                self.child_exits(end);
            }
        }
    }

    fn end_link(&mut self, by: Actor, link: usize) {
        for copy in self.links[link].copies(by) {
            if self.links[link].may_act(by) {
                let (unread, offset) = (self.side(by, link).unread, self.side(by, link).read);
                let first = self.first(by, link, copy, true);
                self.links[link].take(by.end, unread);
                self.push(by, link, copy, first, Call::Take(Take::DontWait, unread + 1, offset));
            }
            self.links[link].close(by, copy, false);
            self.push(by, link, copy, vec![], Call::Close);
        }
    }
}
