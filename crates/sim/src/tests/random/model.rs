//! A model of TCP, against which each result of each call is held: bytes come whole and in order, an end
//! comes after them and for a reason, a reset is told once. Owns: the rules; it knows what programs did, and
//! nothing of how.

use crate::kernel::world::{Life, Pid, World};
use os::Errno;

/// What goes from one end to the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// With what a call under way may have sent.
    pub(crate) attempted: u64,
    /// What calls said they sent.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// A call that may wait for the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    Else,
    Reading,
    Writing,
}

#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Processes that hold it, and whether each has begun to let go.
    holders: Vec<(Pid, bool)>,
    /// Children that are about to hold it.
    pending: u32,
    is_write_shut: bool,
    is_read_shut: bool,
    resets: bool,
    /// Nobody ever held it yet.
    is_new: bool,
    /// Who held it was killed while it made a child: whether that lives is not known.
    is_uncertain: bool,
    resets_told: u32,
    /// Somebody who held it was killed.
    is_killed: bool,
    /// Who holds it has become another program.
    has_execed: bool,
    doing: (Doing, Pid),
}

impl End {
    fn new() -> Self {
        End {
            holders: vec![],
            pending: 0,
            is_write_shut: false,
            is_read_shut: false,
            resets: false,
            is_new: true,
            is_uncertain: false,
            resets_told: 0,
            is_killed: false,
            has_execed: false,
            doing: (Doing::Else, 0),
        }
    }

    /// All who hold it have begun to let go.
    fn may_be_gone(&self) -> bool {
        self.is_uncertain || (self.pending == 0 && self.holders.iter().all(|(_, lets_go)| *lets_go))
    }

    /// Nobody holds it, for sure.
    fn is_gone(&self, world: &World) -> bool {
        let is_dead = |pid: Pid| {
            world.processes.get(&pid).is_none_or(|process| matches!(process.life, Life::Zombie | Life::Gone))
        };
        !self.is_new && self.pending == 0 && self.holders.iter().all(|(pid, _)| is_dead(*pid))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Conn {
    ends: [End; 2],
    /// From each end.
    pub(crate) flows: [Flow; 2],
    pub(crate) was_shared: bool,
}

/// One end of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub(crate) conn: usize,
    pub(crate) end: usize,
}

pub(crate) struct Model {
    pub(crate) conns: Vec<Conn>,
    /// Who listens; none any more.
    pub(crate) listener: Option<Pid>,
    pub(crate) has_listened: bool,
}

type Judged = Result<(), String>;

impl Model {
    pub(crate) fn new(conns: usize) -> Self {
        let conn = || Conn { ends: [End::new(), End::new()], flows: [Flow::default(); 2], was_shared: false };
        Model { conns: (0..conns).map(|_| conn()).collect(), listener: None, has_listened: false }
    }

    fn end(&mut self, who: Who) -> &mut End {
        &mut self.conns[who.conn].ends[who.end]
    }

    fn peer(&self, who: Who) -> &End {
        &self.conns[who.conn].ends[1 - who.end]
    }

    pub(crate) fn incoming(&self, who: Who) -> Flow {
        self.conns[who.conn].flows[1 - who.end]
    }

    pub(crate) fn outgoing(&self, who: Who) -> Flow {
        self.conns[who.conn].flows[who.end]
    }

    pub(crate) fn holds(&mut self, who: Who, pid: Pid) {
        let end = self.end(who);
        (end.is_new, end.is_write_shut, end.is_read_shut) = (false, end.is_write_shut, end.is_read_shut);
        end.holders.push((pid, false));
    }

    pub(crate) fn makes_child(&mut self, who: Who) {
        self.end(who).pending += 1;
    }

    pub(crate) fn is_child(&mut self, who: Who, pid: Pid) {
        self.end(who).pending -= 1;
        self.end(who).holders.push((pid, false));
    }

    /// Begins to close.
    pub(crate) fn lets_go(&mut self, who: Who, pid: Pid) {
        let held = self.end(who).holders.iter_mut().find(|(holder, _)| *holder == pid);
        held.into_iter().for_each(|held| held.1 = true);
    }

    /// Has closed.
    pub(crate) fn has_let_go(&mut self, who: Who, pid: Pid) {
        self.end(who).holders.retain(|(holder, _)| *holder != pid);
    }

    /// Whatever the process holds.
    pub(crate) fn is_killed(&mut self, pid: Pid) {
        if self.listener == Some(pid) {
            self.listener = None;
        }
        for end in self.conns.iter_mut().flat_map(|conn| &mut conn.ends) {
            for held in end.holders.iter_mut().filter(|(holder, _)| *holder == pid) {
                held.1 = true;
                end.is_killed = true;
                end.is_uncertain |= end.pending > 0;
            }
        }
    }

    pub(crate) fn shuts(&mut self, who: Who, how: i32) {
        let end = self.end(who);
        end.is_read_shut |= how != 1;
        end.is_write_shut |= how != 0;
    }

    pub(crate) fn will_reset(&mut self, who: Who) {
        self.end(who).resets = true;
    }

    pub(crate) fn holder(&self, who: Who) -> Option<Pid> {
        self.conns[who.conn].ends[who.end].holders.first().map(|(pid, _)| *pid)
    }

    pub(crate) fn does(&mut self, who: Who, doing: Doing, pid: Pid) {
        self.end(who).doing = (doing, pid);
    }

    /// The other end takes nothing any more, or may not.
    fn may_refuse(&self, who: Who) -> bool {
        let peer = self.peer(who);
        peer.may_be_gone() || peer.is_read_shut && peer.is_write_shut
    }

    /// A reset may have come.
    fn may_be_reset(&self, who: Who) -> bool {
        let (own, outgoing) = (&self.conns[who.conn].ends[who.end], self.outgoing(who));
        let is_unread = outgoing.attempted > outgoing.received;
        self.may_refuse(who) && (is_unread || self.peer(who).resets)
            || own.is_read_shut && own.is_write_shut
            || self.peer(who).is_new && self.listener.is_none()
    }

    /// What LIMITATIONS names: what a client wrote before its server looked goes with it where it is killed.
    fn may_have_lost_bytes(&self, who: Who, incoming: Flow) -> bool {
        const EARLY_MOST: u64 = 16 << 10;
        who.end == 1 && self.peer(who).is_killed && incoming.received == 0 && incoming.sent <= EARLY_MOST
    }

    /// Of a connection that is not in shared memory (yet), the first bytes may be between the two ways.
    fn may_be_on_their_way(&self, who: Who) -> bool {
        !self.conns[who.conn].was_shared
    }

    pub(crate) fn execs(&mut self, who: Who) {
        self.end(who).has_execed = true;
    }

    pub(crate) fn begins_to_send(&mut self, who: Who, len: usize) {
        self.conns[who.conn].flows[who.end].attempted += len as u64;
    }

    pub(crate) fn has_sent(
        &mut self,
        who: Who,
        len: usize,
        waits: bool,
        result: Result<usize, Errno>,
    ) -> Judged {
        let before = self.outgoing(who);
        let is_refused = self.may_refuse(who) || self.may_be_reset(who);
        let is_shut = self.conns[who.conn].ends[who.end].is_write_shut;
        let judged = match result {
            Ok(count) if count == len || !waits && count > 0 || count > 0 && is_refused => Ok(()),
            Err(Errno::EPIPE) if is_shut || is_refused => Ok(()),
            Err(Errno::ECONNRESET) if is_refused => Ok(()),
            Err(Errno::EAGAIN) if !waits && before.sent > 0 => Ok(()),
            _ => Err(format!("send of {len} gave {result:?}, after {before:?}")),
        };
        let flow = &mut self.conns[who.conn].flows[who.end];
        flow.sent += result.unwrap_or(0) as u64;
        flow.attempted = flow.sent;
        if flow.received > flow.attempted {
            return Err(format!("more was received than sent: {flow:?}"));
        }
        judged
    }

    /// `before` is what there was when the call began; `is_right` whether the bytes are those that come next.
    pub(crate) fn has_received(
        &mut self,
        who: Who,
        (before, takes): (Flow, bool),
        result: Result<usize, Errno>,
        is_right: bool,
    ) -> Judged {
        let (own, now) = (&self.conns[who.conn].ends[who.end], self.incoming(who));
        // (Another program does not know what the one before it was told.)
        let was_told = own.resets_told > 0 && !own.has_execed;
        let may_be_reset = self.may_be_reset(who);
        let is_read_shut = own.is_read_shut;
        match result {
            Ok(0) if is_read_shut || may_be_reset || was_told => Ok(()),
            Ok(0) if !(self.peer(who).is_write_shut || self.peer(who).may_be_gone()) => {
                Err(format!("an end that nobody made, after {now:?}"))
            }
            Ok(0) if now.received < now.sent && !self.may_have_lost_bytes(who, now) => {
                Err(format!("an end before all bytes: {now:?}"))
            }
            Ok(0) => Ok(()),
            Ok(_) if !is_right => Err(format!("wrong bytes after {now:?}")),
            Ok(count) if now.received + count as u64 > now.attempted => {
                Err(format!("{count} bytes that nobody sent, after {now:?}"))
            }
            Ok(count) => {
                self.conns[who.conn].flows[1 - who.end].received += if takes { count as u64 } else { 0 };
                Ok(())
            }
            Err(Errno::ECONNRESET) if may_be_reset && !was_told => {
                self.end(who).resets_told += 1;
                Ok(())
            }
            Err(Errno::EAGAIN) if before.sent <= before.received || self.may_be_on_their_way(who) => Ok(()),
            _ => Err(format!("recv gave {result:?}, after {before:?}, now {now:?}, reset told: {was_told}")),
        }
    }

    /// What poll said: bytes that are there are told, and nothing is told without a reason.
    pub(crate) fn has_polled(&self, who: Who, before: Flow, is_readable: bool) -> Judged {
        let (own, now) = (&self.conns[who.conn].ends[who.end], self.incoming(who));
        let may_have_ended = own.is_read_shut
            || self.peer(who).is_write_shut
            || self.peer(who).may_be_gone()
            || self.may_be_reset(who);
        match is_readable {
            false if before.sent > before.received && !self.may_be_on_their_way(who) => {
                Err(format!("bytes are there, and poll is silent: {before:?}"))
            }
            true if now.attempted <= now.received && !may_have_ended => {
                Err(format!("poll tells bytes, and none were sent: {now:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Everybody waits. The process that is to be killed, so that it goes on; or who waits in vain.
    pub(crate) fn whom_to_kill(&self, world: &World) -> Result<Option<Pid>, String> {
        let all = (0..self.conns.len()).flat_map(|conn| [Who { conn, end: 0 }, Who { conn, end: 1 }]);
        let mut waiting = None;
        for who in all {
            let end = &self.conns[who.conn].ends[who.end];
            let (doing, pid) = end.doing;
            if doing == Doing::Else || !world.is_alive(pid) || world.process(pid).is_stopped {
                continue;
            }
            let (peer, flow) = (self.peer(who), self.incoming(who));
            let is_left_alone = peer.is_gone(world) || peer.is_new && self.listener.is_none();
            let is_in_vain = match doing {
                Doing::Reading => {
                    is_left_alone || peer.is_write_shut || flow.sent > flow.received || end.is_read_shut
                }
                _ => is_left_alone || peer.doing.0 == Doing::Reading && world.is_alive(peer.doing.1),
            };
            if is_in_vain {
                return Err(format!("{who:?} waits in vain ({doing:?}): {:?}", self.conns[who.conn]));
            }
            waiting = Some(pid);
        }
        Ok(waiting.or(self.listener))
    }
}
