//! How a listener is announced, and a peer found.
//!
//! One kernel: a row by the listening socket's cookie; who listens at an address is asked of the kernel
//! (sock_diag). Containers, guests, hosts: a mark on the listening socket, after which the kernel's answer to
//! the SYN says it in a TCP option, after connect(). There [`owner_of`](Rendezvous::owner_of) names the
//! domain that the offered memory would go to and not a process; where nobody turns out to have been marked,
//! the offer ends as TCP. Owns: a "yes" may prove wrong, a "no" is believed, so that a connection to somebody
//! without the library costs nothing.

use crate::process::ProcessId;
use os::net::Endpoint;
use wire::reason::Reason;

/// Listeners and who has them.
pub trait Rendezvous {
    /// Announces the listening socket `fd`, again if it was, unless another process that lives has. The key
    /// under which it stands (its kernel cookie). Reasons: those of the directory; MAX_DMB if there is no
    /// room.
    fn announce(&self, fd: i32) -> Result<u64, Reason>;

    /// Withdraws a listener after its last close in the announcing process, unless another process still
    /// holds the socket.
    fn withdraw(&self, key: u64, at: Endpoint);

    /// Whether a listener at `port` is announced, by whichever process.
    fn is_announced(&self, key: u64, port: u16) -> bool;

    /// Whether it is found for a process that lives: such a one may have announced it.
    fn is_kept(&self, key: u64, port: u16) -> bool {
        self.is_announced(key, port)
    }

    /// Withdraws the listener `fd`, which stays open.
    fn forget(&self, key: u64, fd: i32);

    /// Who would get a connection of the socket `fd` to `target`. Reasons: PEERNOSMC (a plain listener, or
    /// none), or those of the directory.
    fn owner_of(&self, fd: i32, target: Endpoint) -> Result<ProcessId, Reason>;
}
