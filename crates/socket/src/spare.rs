//! The program is short of descriptors. Owns: that it is not for ours which nobody needs.

use crate::here::fabric;

/// Gives up descriptors that no connection needs, if some of ours have numbers that the program could have;
/// whether it may try again.
#[cold]
pub fn give_back_descriptors() -> bool {
    let is_ours = !os::confined::is_confined() && os::fd::is_in_the_programs_way();
    if is_ours {
        fabric().spare_descriptors();
    }
    is_ours
}
