//! A strand's connections, and what one end moved beyond the last pass that both ends did.

use std::sync::Arc;

use socket2::Socket;

use super::control::Control;
use super::steps::Call;

/// A strand's connections by their slots. Those of one name lie upon each other: the last one opened is used and closed.
pub(crate) struct Connections {
    slots: Vec<Vec<Connection>>,
    /// Slots whose last connection was made beyond the last common turn: the next transaction's first.
    made_ahead: Vec<usize>,
    next_id: u64,
}

/// One of them.
pub(super) struct Connection {
    pub(super) socket: Arc<Socket>,
    id: u64,
    /// Bytes that came beyond the last common pass: the next transaction's first.
    pub(super) read_ahead: u64,
    /// Bytes that went beyond it.
    pub(super) written_ahead: u64,
}

impl Connection {
    /// How many of the `size` bytes of a call have been moved already, in the transaction before.
    pub(super) fn take_ahead(&mut self, call: Call, size: usize) -> usize {
        let ahead = if call.reads() { &mut self.read_ahead } else { &mut self.written_ahead };
        if *ahead == 0 {
            return 0;
        }
        let taken = usize::try_from(*ahead).unwrap_or(usize::MAX).min(size);
        *ahead -= taken as u64;
        taken
    }
}

impl Connections {
    /// None yet.
    pub(crate) fn new(slots: usize) -> Self {
        let slots = std::iter::repeat_with(Vec::new).take(slots).collect();
        Self { slots, made_ahead: vec![], next_id: 0 }
    }

    /// One more in `slot`.
    pub(super) fn open(&mut self, slot: usize, socket: Socket, control: &Control) {
        let (id, socket) = (self.next_id, Arc::new(socket));
        self.next_id += 1;
        control.opened(id, socket.clone());
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.push(Connection { socket, id, read_ahead: 0, written_ahead: 0 });
        }
    }

    /// False if there was none in `slot`.
    pub(super) fn close(&mut self, slot: usize, control: &Control) -> bool {
        let Some(connection) = self.slots.get_mut(slot).and_then(Vec::pop) else { return false };
        control.closed(connection.id);
        true
    }

    /// All of them.
    pub(super) fn close_all(&mut self, control: &Control) {
        for slot in 0..self.slots.len() {
            while self.close(slot, control) {}
        }
    }

    /// The last one in `slot` is for the next transaction.
    pub(super) fn made_ahead(&mut self, slot: usize) {
        self.made_ahead.push(slot);
    }

    /// Whether the last one in `slot` was made for this transaction already. It is so once.
    pub(super) fn take_made(&mut self, slot: usize) -> bool {
        let place = self.made_ahead.iter().position(|&made| made == slot);
        place.map(|place| self.made_ahead.swap_remove(place)).is_some()
    }

    /// The one in `slot` that is used.
    pub(super) fn last(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.last_mut()
    }
}

/// How many of the first `turns` turns belong to a step with `count` turns a pass, `earlier` turns into a pass of `pass`.
pub(super) fn turns_of_step(turns: u64, pass: u64, earlier: u64, count: u64) -> u64 {
    let (passes, rest) = (turns / pass.max(1), turns % pass.max(1));
    passes * count + rest.saturating_sub(earlier).min(count)
}

#[cfg(test)]
mod tests {
    use super::turns_of_step;

    #[test]
    fn turns_are_shared_out_among_the_steps_of_a_pass() {
        // Three turns of the first step, one of the second.
        for turns in 0..40 {
            let order: Vec<usize> = [0, 0, 0, 1].into_iter().cycle().take(turns).collect();
            let counted = |step| order.iter().filter(|&&taken| taken == step).count() as u64;
            assert_eq!(turns_of_step(turns as u64, 4, 0, 3), counted(0), "{turns}");
            assert_eq!(turns_of_step(turns as u64, 4, 3, 1), counted(1), "{turns}");
        }
    }
}
