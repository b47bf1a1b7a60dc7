//! The local tier's keys: cookies of the kernel's sockets. Owns: that only the kernel says which socket is at
//! the other end.

use super::Local;
use crate::door::{ClientSocket, Key};
use os::net::Endpoint;
use os::{Errno, diag, net};
use wire::reason::Reason;

impl Key for Local {
    fn own(&self, fd: i32) -> Result<u64, Errno> {
        net::cookie(fd)
    }

    fn carry(&self, _fd: i32, _key: u64) -> Result<(), Reason> {
        // The server asks the kernel for the cookie itself.
        Ok(())
    }

    fn of_client(&self, fd: i32, local: Endpoint, peer: Endpoint) -> Result<ClientSocket, Errno> {
        let found = diag::lookup_beside(fd, peer, local)?;
        // (Of a socket without a descriptor older kernels tell no owner.)
        let uid = (found.inode != 0).then_some(found.uid);
        Ok(ClientSocket { key: found.cookie, uid })
    }
}
