//! The bits of an epoll registration by what they ask for. Owns: what a registration counts for at its
//! connection.

use os::epoll::bits;
use shm::interest::Seen;

pub(crate) const FLAGS: u32 = bits::ET | bits::ONESHOT | bits::EXCLUSIVE | bits::WAKEUP;
/// What bytes are reported by.
pub(crate) const INPUT: u32 = bits::IN | bits::RDNORM;
pub(crate) const READ_SIDE: u32 = INPUT | bits::RDHUP;
pub(crate) const WRITE_SIDE: u32 = bits::OUT | bits::WRNORM | bits::WRBAND;

/// What `events` count for at the connection: data, space, edges. (Of an end TCP tells, whoever asks for that
/// alone: he is not to be rung for bytes.)
#[inline]
pub(crate) fn wishes(events: u32) -> [i32; 3] {
    let is_edge = events & bits::ET != 0;
    [!is_edge && events & INPUT != 0, !is_edge && events & WRITE_SIDE != 0, is_edge].map(i32::from)
}

/// How what a registration counts for changes, from what stood (nothing, if ONESHOT had taken it off) to what
/// is asked `to`.
#[inline]
pub(crate) fn change(from: Seen, to: u32) -> [i32; 3] {
    let (old, new) = (wishes(if from.is_fired() { 0 } else { from.events() }), wishes(to));
    [new[0] - old[0], new[1] - old[1], new[2] - old[2]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::interest::Interest;

    #[test]
    fn a_level_counts_by_direction_and_an_edge_for_both() {
        assert_eq!(wishes(bits::IN), [1, 0, 0]);
        assert_eq!(wishes(bits::RDNORM | bits::WRNORM), [1, 1, 0]);
        assert_eq!(wishes(bits::RDHUP), [0, 0, 0]);
        assert_eq!(wishes(bits::ET | bits::IN | bits::OUT), [0, 0, 1]);
        assert_eq!(wishes(bits::ET), [0, 0, 1]);
        assert_eq!(wishes(bits::PRI | bits::ERR | bits::ONESHOT), [0, 0, 0]);
    }

    #[test]
    fn whatever_is_asked_in_turn_the_sum_is_what_stands() {
        let interest = Interest::new();
        let mut sum = [0; 3];
        let asked =
            [bits::IN, bits::IN | bits::OUT, bits::ET | bits::IN, 0, bits::OUT, bits::IN | bits::ONESHOT];
        for events in asked {
            let by = change(interest.ask(events), events);
            sum = [sum[0] + by[0], sum[1] + by[1], sum[2] + by[2]];
            assert_eq!(sum, wishes(events), "{events:#x}");
        }
        // ONESHOT: what was taken off when it was told is not taken off again.
        assert!(interest.fire(interest.seen()));
        sum = [sum[0] - 1, sum[1], sum[2]];
        let by = change(interest.withdraw(), 0);
        assert_eq!([sum[0] + by[0], sum[1] + by[1], sum[2] + by[2]], [0; 3]);
    }
}
