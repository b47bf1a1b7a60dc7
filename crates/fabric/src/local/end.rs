//! The local tier's end of a connection: the kernel lists neither of its sockets. Owns: only the kernel's own
//! "no" counts.

use super::Local;
use crate::door::End;
use crate::slot::SlotView;
use os::{Errno, diag};
use sync::Ordering::Relaxed;

/// Of net/tcp_states.h.
const LISTEN: u8 = 10;

impl End for Local {
    fn is_told_by_tcp(&self, _view: &SlotView) -> bool {
        true
    }

    fn is_over(&self, view: &SlotView) -> bool {
        let (client, server) = view.addresses();
        if client.port == 0 || server.port == 0 {
            return false;
        }
        let header = view.header();
        // An end that has not signed yet may be anybody's. (But not whoever listens there, of whom the kernel
        // tells where it knows no such connection.)
        let is_open = |local, remote, cookie: u64| match diag::lookup(local, remote) {
            Ok(found) if found.state == LISTEN => false,
            Ok(found) => (found.cookie == cookie || cookie == 0) && found.inode != 0,
            Err(errno) => errno != Errno::ENOENT,
        };
        !is_open(client, server, header.client_cookie.load(Relaxed))
            && !is_open(server, client, header.server_cookie.load(Relaxed))
    }
}
