//! Why a socket of an enabled program is on TCP: what its process wrote down, else what follows from its
//! other end. Owns: that conclusion. What does not follow from what is seen is [`UNKNOWN`]; nothing is
//! guessed.

use super::Known;
use crate::host::table::{Socket, state};
use crate::host::{Host, Process};
use fabric::Reason;
use fabric::observe::Verdict;
use std::net::SocketAddr;

/// As smcss of smc-tools prints a fallback for which the kernel gives no reason.
pub(super) const UNKNOWN: Reason = Reason(0);

/// What the conclusion is drawn from.
pub(super) struct Judge<'a> {
    pub(super) host: &'a Host,
    pub(super) known: &'a Known,
}

/// Who serves, or will serve, the other end.
enum Peer {
    /// A program with the library and the same registry.
    Enabled,
    /// A program without, or of another user, or none within reach of the library.
    NotEnabled,
    /// Gone, or of a process that we may not look at.
    Unknown,
}

impl Judge<'_> {
    /// What a registry says about the connection of `socket`, whichever end noted it: `Some(None)` while
    /// undecided.
    pub(super) fn verdict(&self, socket: &Socket) -> Option<Option<Verdict>> {
        let of = |inode: u64| self.known.verdicts.get(&inode).copied();
        of(socket.inode).or_else(|| of(self.host.peer(socket)?.inode))
    }

    /// What an end says of a connection whose row says TCP for `reason`. One that has not noted itself in the
    /// row never saw it: nothing was offered any more when it looked, unless it wrote another reason down.
    pub(super) fn by_verdict(&self, socket: &Socket, reason: Reason) -> Reason {
        let has_noted = self.known.verdicts.contains_key(&socket.inode);
        if has_noted { reason } else { self.refusal(socket).unwrap_or(Reason::PEERNOSMC) }
    }

    /// Why the listener of an enabled process has no row.
    pub(super) fn why_not_announced(&self, socket: &Socket, process: &Process) -> Reason {
        let lacking = || process.lacks_room.then_some(Reason::MEM);
        self.refusal(socket).or_else(|| self.fault(process)).or_else(lacking).unwrap_or(UNKNOWN)
    }

    /// Why the process itself cannot use shared memory, whoever is at the other end. A registry that it has
    /// mapped it goes on using, whatever becomes of the file.
    fn fault(&self, process: &Process) -> Option<Reason> {
        let user = process.enabled_as.filter(|_| !process.has_registry)?;
        if process.is_between_users {
            return Some(Reason::CNFERR);
        }
        let mismatch = || self.known.has_another_version(process).then_some(Reason::VERSMISMAT);
        self.known.faults.get(&user).copied().or_else(mismatch)
    }

    /// What the socket's own process has written down.
    fn refusal(&self, socket: &Socket) -> Option<Reason> {
        self.known.refusals.get(&socket.inode).copied()
    }

    /// What the process at the other end has written down: of its socket, or of the listener that the
    /// connection came to. One without descriptors could not, nor one that can use no registry.
    pub(super) fn refusal_of_peer(&self, socket: &Socket) -> Option<Reason> {
        let of_listener = || self.hidden(socket.namespace, socket.remote).find_map(|one| self.refusal(one));
        let of_peer = |peer: &Socket| {
            let lacking = |holder: &Process| holder.lacks_room.then_some(Reason::MEM);
            let unable = |holder| lacking(holder).or_else(|| self.fault(holder));
            self.refusal(peer).or_else(|| self.host.holders(peer.inode).find_map(unable))
        };
        self.host.peer(socket).and_then(of_peer).or_else(of_listener)
    }

    /// Why a connection of an enabled process has no row.
    pub(super) fn why_tcp(&self, socket: &Socket, process: &Process) -> Reason {
        let own = self.refusal(socket).or_else(|| self.refusal_of_listener(socket, process));
        if let Some(own) = own.or_else(|| self.fault(process)) {
            return own;
        }
        match self.peer(socket, process) {
            Peer::NotEnabled => Reason::PEERNOSMC,
            // It would have written down any other reason: when it looked, it found nobody.
            _ if process.has_registry => Reason::PEERNOSMC,
            _ if process.lacks_room => Reason::MEM,
            Peer::Enabled if self.refusal_of_peer(socket).is_some() => Reason::PEERNOSMC,
            Peer::Enabled if self.is_listener_hidden(socket) => Reason::PEERNOSMC,
            // It may not have looked at all.
            _ if process.is_filtered => UNKNOWN,
            // When it looked there was no registry, else it would have it.
            _ => Reason::PEERNOSMC,
        }
    }

    /// What a process wrote down of its listener, from which a connection was accepted: behind a filter of
    /// system calls it writes nothing of what it accepts.
    fn refusal_of_listener(&self, accepted: &Socket, process: &Process) -> Option<Reason> {
        let is_its = |one: &&Socket| process.sockets.iter().any(|(_, inode)| *inode == one.inode);
        let mut own = self.hidden(accepted.namespace, accepted.local).filter(is_its);
        own.find_map(|one| self.refusal(one))
    }

    /// The listeners at an address that no client finds. (One that is announced by now is refused no more.)
    fn hidden(&self, namespace: u64, at: SocketAddr) -> impl Iterator<Item = &Socket> {
        let all = self.host.listeners(namespace, at);
        all.filter(|one| !self.known.announced.contains(&one.inode))
    }

    fn peer(&self, socket: &Socket, process: &Process) -> Peer {
        let Some(peer) = self.host.peer(socket) else { return unseen(socket) };
        match (peer.inode, peer.state) {
            (0, state::ESTABLISHED | state::SYN_RECV | state::CLOSE_WAIT) => self.acceptor(peer, process),
            (0, _) => Peer::Unknown,
            _ => self.holder(peer, process),
        }
    }

    /// Of a connection that nobody has accepted yet: who listens there.
    fn acceptor(&self, pending: &Socket, process: &Process) -> Peer {
        let mut judged = Peer::Unknown;
        for listener in self.host.listeners(pending.namespace, pending.local) {
            judged = self.holder(listener, process);
            if matches!(judged, Peer::Enabled) {
                break;
            }
        }
        judged
    }

    fn holder(&self, socket: &Socket, process: &Process) -> Peer {
        let mut holders = self.host.holders(socket.inode).peekable();
        let is_seen = holders.peek().is_some();
        let uid = process.enabled_as;
        if holders.any(|holder| holder.enabled_as.is_some() && holder.enabled_as == uid) {
            return Peer::Enabled;
        }
        // Of other users' processes their sockets are all that an ordinary user sees; nobody holds those of
        // the kernel.
        let is_known = is_seen || Some(socket.uid) != uid || self.host.is_complete();
        if is_known { Peer::NotEnabled } else { Peer::Unknown }
    }

    /// Whether the listener behind a connection is one that no client finds.
    fn is_listener_hidden(&self, socket: &Socket) -> bool {
        let mut listeners = [socket.remote, socket.local]
            .into_iter()
            .map(|at| self.host.listeners(socket.namespace, at))
            .find(|found| found.clone().next().is_some())
            .into_iter()
            .flatten()
            .peekable();
        listeners.peek().is_some() && !listeners.any(|one| self.known.announced.contains(&one.inode))
    }
}

/// The peer has no socket in this namespace: it is elsewhere, or it was here and is gone.
fn unseen(socket: &Socket) -> Peer {
    let is_here = socket.remote.ip().is_loopback() || socket.remote.ip() == socket.local.ip();
    if is_here && socket.state != state::ESTABLISHED { Peer::Unknown } else { Peer::NotEnabled }
}
