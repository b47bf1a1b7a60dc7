//! How much stack a call takes: it runs in a thread whose stack is painted, and the paint is looked at
//! afterwards.

use std::ffi::c_void;

const PAINT: u8 = 0xa5;
const SIZE: usize = 256 * 1024;
/// What painter and measurer need for themselves.
const MARGIN: usize = 256;

struct Job<'a> {
    act: &'a mut dyn FnMut(),
    low: *mut u8,
    depth: usize,
}

extern "C" fn run(job: *mut c_void) -> *mut c_void {
    // SAFETY: `depth_of` passes its own job and waits for this thread.
    let job = unsafe { &mut *job.cast::<Job<'_>>() };
    let here = (&raw const job).addr();
    let below = here - MARGIN - job.low.addr();
    for at in 0..below {
        // SAFETY: below everything this thread has in use, inside its stack.
        unsafe { job.low.add(at).write_volatile(PAINT) };
    }
    (job.act)();
    // SAFETY: as above.
    let clean = (0..below).find(|at| unsafe { job.low.add(*at).read_volatile() } != PAINT);
    job.depth = below - clean.unwrap_or(below) + MARGIN;
    std::ptr::null_mut()
}

/// Bytes of stack that `act` takes, a few hundred of its own included.
pub fn depth_of(act: &mut dyn FnMut()) -> usize {
    // SAFETY: the mapping outlives the thread, which is waited for; attributes are live locals.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let low = libc::mmap(std::ptr::null_mut(), SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(low, libc::MAP_FAILED);
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstack(&mut attributes, low, SIZE);
        let mut job = Job { act, low: low.cast(), depth: 0 };
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let made = libc::pthread_create(&mut thread, &attributes, run, (&raw mut job).cast());
        assert_eq!(made, 0);
        libc::pthread_join(thread, std::ptr::null_mut());
        libc::munmap(low, SIZE);
        job.depth
    }
}
