//! Model of the slab's free list: no number is held by two, none is lost, whatever the schedule. Run by
//! `cargo xtask loom`.

use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU32, Ordering};

use crate::free_list::FreeList;

struct Numbers {
    free: FreeList,
    below: [AtomicU32; 2],
    held: [AtomicU32; 2],
}

impl Numbers {
    fn take(&self) -> Option<u32> {
        let number = self.free.pop(|number| self.below.get(number as usize))?;
        assert_eq!(self.held[number as usize].fetch_add(1, Ordering::Relaxed), 0, "held by two");
        Some(number)
    }

    fn give_back(&self, number: u32) {
        self.held[number as usize].fetch_sub(1, Ordering::Relaxed);
        self.free.push(number, &self.below[number as usize]);
    }
}

/// The one that takes both and gives back the upper makes the top the same again while the other is between
/// its look and its exchange.
#[test]
fn a_number_is_never_held_by_two() {
    loom::model(|| {
        let zeros = || [AtomicU32::new(0), AtomicU32::new(0)];
        let numbers = Arc::new(Numbers { free: FreeList::new(), below: zeros(), held: zeros() });
        (0..2).for_each(|number| numbers.free.push(number, &numbers.below[number as usize]));
        let other = {
            let numbers = numbers.clone();
            thread::spawn(move || numbers.take())
        };
        let (first, second) = (numbers.take(), numbers.take());
        if let (Some(first), Some(_)) = (first, second) {
            numbers.give_back(first);
        }
        let theirs = other.join().expect("no panic");
        let rest: Vec<u32> = std::iter::from_fn(|| numbers.take()).collect();
        let kept = if first.is_some() && second.is_some() { second } else { first.or(second) };
        assert_eq!(theirs.iter().chain(&kept).count() + rest.len(), 2, "none is lost");
    });
}
