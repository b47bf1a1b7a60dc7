//! Signals: handlers that run on a thread in the middle of whatever it does. Owns: that one interrupts at a
//! point (a system call, a look at the counter) and nowhere else, so that equal seeds give equal runs.

use std::cell::{Cell, RefCell};

/// A handler of a signal.
pub(crate) type Handler = Box<dyn FnOnce()>;

std::thread_local! {
    /// What interrupts this thread, after so many points more.
    static SIGNAL: RefCell<Option<(u32, Handler)>> = const { RefCell::new(None) };
    static IS_IN_A_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// A signal interrupts the calling thread at the `points`th point from now on, wherever it is then.
pub(crate) fn interrupt_after(points: u32, handler: impl FnOnce() + 'static) {
    SIGNAL.set(Some((points, Box::new(handler))));
}

/// The signal will not come any more, if it has not come yet.
pub(crate) fn withdraw() {
    SIGNAL.take();
}

/// The handler that is to run now.
pub(super) fn due() -> Option<Handler> {
    SIGNAL.with_borrow_mut(|signal| {
        let (left, _) = signal.as_mut()?;
        *left = left.saturating_sub(1);
        if *left == 0 { signal.take().map(|(_, handler)| handler) } else { None }
    })
}

pub(super) fn handle(handler: Handler) {
    IS_IN_A_HANDLER.set(true);
    handler();
    IS_IN_A_HANDLER.set(false);
}

pub(super) fn is_in_a_handler() -> bool {
    IS_IN_A_HANDLER.get()
}
