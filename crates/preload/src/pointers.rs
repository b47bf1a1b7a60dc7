//! The program's pointers: whether the kernel would answer EFAULT. Owns: the numbers of pages that were found
//! in order.
//!
//! An address outside of the user's half, or a range that wraps, is a comparison. Whether a page is there is
//! the kernel's to say, by a call that does nothing (`os::futex`); the answer is kept, so that small
//! structures, which lie on the same few pages again and again, cost a look at a table. (A page that was in
//! order and is not any more is a SIGSEGV.)

use core::ffi::c_void;
use os::Errno;
use sync::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// Where the user's half ends with four levels of page tables, a page before the address space does
/// (TASK_SIZE_MAX). (With five, addresses above are had only by who asks for them.)
const END: usize = (1 << 47) - PAGE;
/// What the kernel moves in one call at most (MAX_RW_COUNT of linux/fs.h).
pub(crate) const MOST: usize = 0x7fff_f000;

/// Pages seen in order, each at the place of its number.
struct Pages([AtomicUsize; 64]);

static READABLE: Pages = Pages([const { AtomicUsize::new(usize::MAX) }; 64]);
static WRITABLE: Pages = Pages([const { AtomicUsize::new(usize::MAX) }; 64]);

impl Pages {
    #[inline]
    fn place(&self, page: usize) -> &AtomicUsize {
        &self.0[page % 64]
    }

    #[inline]
    fn has(&self, page: usize) -> bool {
        self.place(page).load(Ordering::Relaxed) == page
    }

    /// Whether the first and the last page of a range are in order.
    #[inline]
    fn has_all(&self, at: usize, len: usize, ask: fn(usize) -> bool) -> bool {
        let last = at.wrapping_add(len.wrapping_sub(1));
        (self.has(at / PAGE) && self.has(last / PAGE) && at <= last) || self.ask_for(at, len, ask)
    }

    #[cold]
    fn ask_for(&self, at: usize, len: usize, ask: fn(usize) -> bool) -> bool {
        if len == 0 {
            return true;
        }
        if is_outside(at, len) {
            return false;
        }
        [at, at + len - 1].into_iter().all(|byte| {
            let is_there = ask(byte & !3);
            if is_there {
                self.place(byte / PAGE).store(byte / PAGE, Ordering::Relaxed);
            }
            is_there
        })
    }
}

/// Whether `len` bytes at `at` begin on the null page, leave the user's half or wrap. (Says yes to an empty
/// range there, too.)
#[inline]
pub(crate) fn is_outside(at: usize, len: usize) -> bool {
    at.wrapping_sub(PAGE) > (END - PAGE).saturating_sub(len)
}

/// Whether such a range is one in the user's half.
pub(crate) fn is_near_null(at: usize, len: usize) -> bool {
    at < PAGE && len < END
}

/// Whether no buffer can be there, not even an empty one: the kernel says so before it looks at the socket.
#[inline]
pub(crate) fn is_beyond(at: usize, len: usize) -> bool {
    is_outside(at, len) && !is_near_null(at, len)
}

/// Whether no buffer of so many bytes can be there.
#[inline]
pub(crate) fn is_nowhere(at: usize, len: usize) -> bool {
    is_outside(at, len) && (len != 0 || at >= PAGE)
}

/// EFAULT unless the program's structure can be read.
#[inline]
pub(crate) fn readable<T>(at: *const T, len: usize) -> Result<(), Errno> {
    if READABLE.has_all(at.addr(), len, os::futex::is_readable) { Ok(()) } else { Err(Errno::EFAULT) }
}

/// EFAULT unless the program's structure can be written to.
#[inline]
pub(crate) fn writable<T>(at: *const T, len: usize) -> Result<(), Errno> {
    if WRITABLE.has_all(at.addr(), len, os::futex::is_writable) { Ok(()) } else { Err(Errno::EFAULT) }
}

/// A time limit: EFAULT, or EINVAL for one that the kernel does not take.
pub(crate) fn time(at: crate::real::Time) -> Result<Option<[i64; 2]>, Errno> {
    if at.is_null() {
        return Ok(None);
    }
    readable(at, 16)?;
    // SAFETY: readable, as just seen.
    let [seconds, nanoseconds] = unsafe { *at };
    if seconds < 0 || !(0..1_000_000_000).contains(&nanoseconds) {
        return Err(Errno::EINVAL);
    }
    Ok(Some([seconds, nanoseconds]))
}

/// A signal mask, which may be missing.
pub(crate) fn mask(at: *const c_void) -> Result<(), Errno> {
    if at.is_null() { Ok(()) } else { readable(at, 8) }
}

/// TCP ignores the address of a connected socket, but the kernel reads it.
pub(crate) fn address(addr: *mut c_void, addr_len: u32) -> Result<(), Errno> {
    /// `struct sockaddr_storage`.
    const LONGEST: u32 = 128;
    match (addr.is_null(), addr_len) {
        (true, _) | (_, 0) => Ok(()),
        (false, 1..=LONGEST) => readable(addr, addr_len as usize),
        _ => Err(Errno::EINVAL),
    }
}
