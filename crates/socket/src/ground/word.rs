//! What is said of a connection to the next program (`handover`), as the program before it has it. Owns: that
//! nothing of that is left when the slot serves another connection.

use fabric::slot::SlotView;

/// Nothing is said of a slot any more; how many bytes were nowhere else.
pub(crate) fn forget(view: &SlotView) -> usize {
    let Some((word, moved)) = view.take_word() else { return 0 };
    if os::fd::is_internal(word) || crate::borrower::is_one() {
        os::fd::close(word);
    }
    moved
}
