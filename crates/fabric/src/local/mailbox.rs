//! The local tier's carrier of the handshake: the mailbox of the slot. Owns: no byte of it enters the TCP
//! stream.

use super::Local;
use crate::door::{Carrier, Letter};
use crate::slot::SlotView;
use shm::layout::MAIL_LEN;
use wire::reason::Reason;

impl Carrier for Local {
    fn put(&self, view: &SlotView, _fd: i32, letter: Letter, message: &[u8]) -> Result<(), Reason> {
        let is_put = view.header().mail[letter as usize].put(message);
        if is_put { Ok(()) } else { Err(Reason::INTERR) }
    }

    fn take<'a>(
        &self,
        view: &SlotView,
        _fd: i32,
        letter: Letter,
        into: &'a mut [u8; MAIL_LEN],
    ) -> Result<&'a [u8], Reason> {
        Ok(view.header().mail[letter as usize].take(into))
    }
}
