//! stdio on sockets: glibc's FILE layer jumps straight to its internal read, write and close, past every
//! hook.
//!
//! Owns: three slots in each of the exported tables `_IO_file_jumps` and `_IO_wfile_jumps`. A slot is
//! replaced only if it holds exactly the exported function it should; otherwise nothing is touched. musl has
//! no such tables.

use crate::real::next;
use core::ffi::{c_int, c_void};
use socket::table::{self, Entry};
use sync::{AtomicPtr, Ordering};

type Move = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, isize) -> isize;
type Close = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// Slots in a jump table (glibc libio/libioP.h, `struct _IO_jump_t`), counted in words.
const SLOTS: usize = 21;
const PAGE: usize = 4096;
const READ_WRITE: usize = 3;
const READ_ONLY: usize = 1;

static READ: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static WRITE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static CLOSE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static FILENO: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Replaces the slots where they are what they should be.
pub(crate) fn patch() {
    FILENO.store(next(c"fileno"), Ordering::Relaxed);
    READ.store(next(c"_IO_file_read"), Ordering::Relaxed);
    WRITE.store(next(c"_IO_file_write"), Ordering::Relaxed);
    CLOSE.store(next(c"_IO_file_close"), Ordering::Relaxed);
    let known = [&READ, &WRITE, &CLOSE, &FILENO].iter().all(|slot| !slot.load(Ordering::Relaxed).is_null());
    if !known {
        return;
    }
    for name in [c"_IO_file_jumps", c"_IO_wfile_jumps"] {
        let jumps = next(name).cast::<*mut c_void>();
        if !jumps.is_null() {
            patch_table(jumps);
        }
    }
}

fn patch_table(jumps: *mut *mut c_void) {
    let pairs: [(*mut c_void, *mut c_void); 3] = [
        (READ.load(Ordering::Relaxed), read as Move as *mut c_void),
        (WRITE.load(Ordering::Relaxed), write as Move as *mut c_void),
        (CLOSE.load(Ordering::Relaxed), close as Close as *mut c_void),
    ];
    let start = jumps.addr() & !(PAGE - 1);
    let len = (jumps.addr() + SLOTS * size_of::<usize>()).next_multiple_of(PAGE) - start;
    if !protect(start, len, READ_WRITE) {
        return;
    }
    for slot in 0..SLOTS {
        // SAFETY: the table has this many words and was just made writable; nobody else runs yet
        // (constructor).
        let place = unsafe { jumps.add(slot) };
        for (old, new) in pairs {
            // SAFETY: as above.
            unsafe {
                if *place == old {
                    *place = new;
                }
            }
        }
    }
    protect(start, len, READ_ONLY);
}

fn protect(start: usize, len: usize, how: usize) -> bool {
    // SAFETY: whole pages of libc's relocated read-only data; a refusal (SELinux) leaves everything as it
    // was.
    unsafe { os::raw::call(os::raw::nr::__NR_mprotect, &[start, len, how]) == 0 }
}

/// The descriptor of a FILE if it is one of ours.
unsafe fn known(file: *mut c_void) -> Option<c_int> {
    // SAFETY: `patch` stored libc's fileno before any slot was replaced.
    let fileno = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> c_int>(
            FILENO.load(Ordering::Relaxed),
        )
    };
    // SAFETY: stdio calls its slots with a valid FILE.
    let fd = unsafe { fileno(file) };
    (table::get(fd) != Entry::Empty).then_some(fd)
}

unsafe extern "C-unwind" fn read(file: *mut c_void, buf: *mut c_void, len: isize) -> isize {
    // SAFETY: stdio's own arguments, to our hook or to the function the slot held.
    unsafe {
        match known(file) {
            Some(fd) => crate::data::read(fd, buf, len as usize),
            None => core::mem::transmute::<*mut c_void, Move>(READ.load(Ordering::Relaxed))(file, buf, len),
        }
    }
}

unsafe extern "C-unwind" fn write(file: *mut c_void, buf: *mut c_void, len: isize) -> isize {
    // SAFETY: as in `read`.
    unsafe {
        match known(file) {
            Some(fd) => write_all(fd, buf, len),
            None => core::mem::transmute::<*mut c_void, Move>(WRITE.load(Ordering::Relaxed))(file, buf, len),
        }
    }
}

/// stdio expects this slot to write everything or report how far it got.
unsafe fn write_all(fd: c_int, buf: *mut c_void, len: isize) -> isize {
    let mut done = 0;
    while done < len {
        // SAFETY: the rest of stdio's buffer.
        let count = unsafe { crate::data::write(fd, buf.byte_offset(done), (len - done) as usize) };
        if count < 0 {
            break;
        }
        done += count;
    }
    done
}

unsafe extern "C-unwind" fn close(file: *mut c_void) -> c_int {
    // SAFETY: as in `read`.
    unsafe {
        match known(file) {
            // (As in glibc no thread is cancelled here: it would leave the FILE half closed.)
            Some(fd) => crate::cancel::without_points(|| crate::lifecycle::close(fd)),
            None => core::mem::transmute::<*mut c_void, Close>(CLOSE.load(Ordering::Relaxed))(file),
        }
    }
}
