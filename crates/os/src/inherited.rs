//! Descriptors of ours that the program before this one has left open over exec. Owns: that they are known as
//! ours before the program's first instruction, so that no close loop takes them, nor any other's.

use crate::part::Part as _;
use crate::{Errno, Result, fd, file, mem, pipe};
use core::ffi::CStr;
use sync::{AtomicBool, AtomicU32, Ordering};

/// Whether there are any, whether they were looked for, and how many words nobody has heard.
pub(crate) struct Inherited(AtomicBool, AtomicBool, AtomicU32);

impl Inherited {
    pub(crate) const fn new() -> Self {
        Inherited(AtomicBool::new(false), AtomicBool::new(false), AtomicU32::new(0))
    }
}

/// Under this name a program says something to the one that it becomes: [`mem::said_once`].
pub const WORD: &CStr = c"isthmus-word";

/// Marks as ours what lies open here, goes on over exec, and is a doorbell, memory of this `name`, or a
/// [`WORD`].
///
/// All are recognised by what no descriptor of a program is: an unnamed pipe that can be read
/// and written; a sealed memfd of our name. (What the peer wrote into that memory is not asked.)
pub fn take_over(name: &CStr) {
    Inherited::here().1.store(true, Ordering::Relaxed);
    let _ = file::each_own_descriptor(|number| {
        if fd::is_internal(number) || fd::is_cloexec(number) {
            return;
        }
        let is_word = is_word(number);
        if is_word {
            Inherited::here().2.fetch_add(1, Ordering::Relaxed);
        }
        if is_word || pipe::is_doorbell(number) || is_memory(number, name) {
            fd::mark_internal(number);
            Inherited::here().0.store(true, Ordering::Relaxed);
        }
    });
}

fn is_word(number: i32) -> bool {
    mem::was_said_once(number) && pipe::is_memory_named(number, WORD)
}

fn is_memory(number: i32, name: &CStr) -> bool {
    mem::is_sealed(number) && pipe::is_memory_named(number, name)
}

/// Opens memory that is one of these anew, at a high number and to write; what it is used for proves itself
/// by what lies in it. (Or could be one: of a program whose sockets were not known at its start.) EINVAL if
/// it is none.
pub fn open_memory(number: i32) -> Result<i32> {
    let is_elses = fd::is_internal(number) && !is_inherited(number);
    if is_elses || fd::is_cloexec(number) || !mem::is_plain_memory(number) {
        return Err(Errno::EINVAL);
    }
    pipe::open_link(b"self", number).and_then(fd::raise)
}

/// Whether the program before this one has said something that nobody has heard.
#[inline]
pub fn has_words() -> bool {
    Inherited::here().2.load(Ordering::Relaxed) != 0
}

/// What it has said is brought before `is_it`, one word after the other, until it is; returns its number as
/// well.
pub fn find_word<R>(mut is_it: impl FnMut(&[sync::AtomicU64]) -> Option<R>) -> Option<(i32, R)> {
    let mut found = None;
    let _ = file::each_own_descriptor(|number| {
        if found.is_none() && is_inherited(number) && is_word(number) {
            found = mem::hear(number, &mut is_it).ok().flatten().map(|it| (number, it));
        }
    });
    found
}

/// The word of this number was heard.
pub fn forget_word(number: i32) {
    Inherited::here().2.fetch_sub(1, Ordering::Relaxed);
    fd::close(number);
}

/// Whether this program has taken over what there is.
pub fn were_looked_for() -> bool {
    Inherited::here().1.load(Ordering::Relaxed)
}

/// Whether there are any still.
pub fn are_any() -> bool {
    Inherited::here().0.load(Ordering::Relaxed)
}

/// Whether `number` is one of these. (All others of ours are closed on exec.)
fn is_inherited(number: i32) -> bool {
    are_any() && fd::is_internal(number) && !fd::is_cloexec(number)
}

/// Closes them: no connection needs them any more. Whether there were any.
pub fn close_all() -> bool {
    let were_any = Inherited::here().0.swap(false, Ordering::Relaxed);
    if were_any {
        fd::close_internal(|number| !fd::is_cloexec(number));
    }
    were_any
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// A second number for `fd`, which goes on over exec and is nobody's.
    fn left_open(fd: i32) -> i32 {
        // SAFETY: no pointers.
        let number = unsafe { crate::raw::syscall!(crate::raw::nr::__NR_dup, fd) };
        i32::try_from(number).unwrap()
    }

    #[test]
    fn only_what_is_ours_is_taken_over() {
        let bell = pipe::create().unwrap();
        let memory = mem::sealed_memfd(c"inherited", 4096).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let of_another_name = mem::sealed_memfd(c"inherited-too", 4096).unwrap();
        let ours = [bell, memory].map(left_open);
        let others = [reader.as_raw_fd(), writer.as_raw_fd(), of_another_name].map(left_open);
        let kept = left_open(bell);
        fd::set_cloexec(kept, true).unwrap();

        take_over(c"inherited");
        assert!(ours.iter().all(|number| fd::is_internal(*number) && is_inherited(*number)));
        assert!(others.iter().chain([&kept]).all(|number| !fd::is_internal(*number)));
        let opened = open_memory(ours[1]).unwrap();
        assert_eq!(fd::identity(opened), fd::identity(memory));
        assert!(open_memory(ours[0]).is_err() && open_memory(memory).is_err() && open_memory(kept).is_err());

        assert!(close_all() && !close_all());
        // (Another test may have got one of these numbers since.)
        let is_what = |number: i32, it: i32| fd::identity(number) == fd::identity(it);
        assert!(!is_what(ours[0], bell) && !is_what(ours[1], memory));
        assert!(is_what(kept, bell) && is_what(opened, memory) && is_what(others[0], reader.as_raw_fd()));
        others.into_iter().chain([bell, memory, of_another_name, opened, kept]).for_each(fd::close);
    }
}
