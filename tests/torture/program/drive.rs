//! Drives one end of a connection to its end with threads of its own. Invariant: after this the end is said
//! to be over on the board, by this process or by the one that went on with it.

use crate::connection::{Connection, FINALE, Flow};
use crate::style::Waiter;

/// From wherever the board says it stands.
pub(crate) fn to_the_end(c: &Connection) {
    Waiter::prepare(c.plan().wait, c.fd());
    let flow = match (c.plan().lanes.len(), c.plan().threads) {
        (1, _) => lists(c, &[0]),
        (_, false) => lists(c, &[0, 1]),
        (_, true) => in_two_threads(c),
    };
    let flow = if flow == Flow::Finished { lists(c, &[FINALE]) } else { flow };
    if flow != Flow::Gone {
        c.finish();
    }
}

fn in_two_threads(c: &Connection) -> Flow {
    std::thread::scope(|s| {
        let other = s.spawn(|| lists(c, &[1]));
        let first = lists(c, &[0]);
        let second = other.join().expect("a lane");
        if first == Flow::Finished { second } else { first }
    })
}

/// Lists of steps at once, waiting where all of them must.
pub(crate) fn lists(c: &Connection, lists: &[usize]) -> Flow {
    let mut waiter = Waiter::new(c.plan().wait, c.fd());
    loop {
        let mut wanted = None;
        let mut moved = false;
        for list in lists {
            match c.advance(*list) {
                Flow::Finished => {}
                Flow::Wait(want) => wanted = Some(wanted.map_or(want, |w: crate::style::Want| w.and(want))),
                Flow::Moved => moved = true,
                over => return over,
            }
        }
        match wanted {
            _ if moved => {
                drop(waiter);
                waiter = Waiter::new(c.plan().wait, c.fd());
            }
            None => return Flow::Finished,
            Some(want) => waiter.wait(want),
        }
    }
}
