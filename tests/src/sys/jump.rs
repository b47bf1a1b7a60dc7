//! Calls that a signal handler leaves for good, as by sigsetjmp and siglongjmp, which Rust cannot call: the
//! frames between are gone, and nothing in them is dropped.

use super::{Blocking, Fd};
use libc::{c_int, c_void};
use std::arch::naked_asm;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Where the jump leads: the stack pointer of the frame of `landing`; 0 while there is nowhere to jump to.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// Calls `f(arg)` from a place to which `jump` comes back: 0 if it returned, 1 if it was left.
///
/// # Safety
/// Whatever `f` calls owns nothing that needs dropping.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn landing(f: extern "C" fn(usize), arg: usize, place: *const AtomicUsize) -> c_int {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "pop rdx",
        "mov qword ptr [rdx], 0",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "xor eax, eax",
        "ret",
    )
}

/// # Safety
/// `landing` has not returned, in this thread.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn jump(place: usize) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "pop rdx",
        "mov qword ptr [rdx], 0",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "mov eax, 1",
        "ret",
    )
}

/// As on x86-64.
///
/// # Safety
/// As there.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn landing(f: extern "C" fn(usize), arg: usize, place: *const AtomicUsize) -> c_int {
    naked_asm!(
        "stp x29, x30, [sp, #-176]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "str x2, [sp, #96]",
        "stp d8, d9, [sp, #112]",
        "stp d10, d11, [sp, #128]",
        "stp d12, d13, [sp, #144]",
        "stp d14, d15, [sp, #160]",
        "mov x9, sp",
        "str x9, [x2]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "mov w0, #0",
        "2:",
        "ldr x2, [sp, #96]",
        "str xzr, [x2]",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #112]",
        "ldp d10, d11, [sp, #128]",
        "ldp d12, d13, [sp, #144]",
        "ldp d14, d15, [sp, #160]",
        "ldp x29, x30, [sp], #176",
        "ret",
    )
}

/// As on x86-64.
///
/// # Safety
/// As there.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn jump(place: usize) -> ! {
    naked_asm!(
        "mov sp, x0",
        "mov w0, #1",
        "ldr x2, [sp, #96]",
        "str xzr, [x2]",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #112]",
        "ldp d10, d11, [sp, #128]",
        "ldp d12, d13, [sp, #144]",
        "ldp d14, d15, [sp, #160]",
        "ldp x29, x30, [sp], #176",
        "ret",
    )
}

extern "C" fn on_alarm(_: c_int) {
    let place = PLACE.load(Ordering::SeqCst);
    if place != 0 {
        // SAFETY: the place is that of a `landing` in progress, and the signal is sent to its thread.
        unsafe { jump(place) }
    }
}

static FD: AtomicUsize = AtomicUsize::new(0);
static POLLED: AtomicUsize = AtomicUsize::new(0);

/// `poll(2)` of an array whose address and length are in statics.
extern "C" fn poll_many(count: usize) {
    let entries = POLLED.load(Ordering::SeqCst) as *mut libc::pollfd;
    // SAFETY: the array outlives the call; nothing here needs dropping.
    unsafe { libc::poll(entries, count as libc::nfds_t, -1) };
}

/// `write(2)` of [`POLLED`], again and again.
extern "C" fn write_much(fd: usize) {
    let bytes = POLLED.load(Ordering::SeqCst) as *const c_void;
    // SAFETY: the mapping outlives the call; nothing here needs dropping.
    while unsafe { libc::write(fd as Fd, bytes, MUCH) } > 0 {}
}

const MUCH: usize = 1 << 30;

/// As [`leave_by_jump`], from a write of memory that nobody has touched: it copies most of the time.
pub fn leave_copy_by_jump(fd: Fd, after_us: u64) -> bool {
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping, which nobody has any more when it goes.
    let bytes = unsafe { libc::mmap(null_mut(), MUCH, access, kind, -1, 0) };
    POLLED.store(bytes.addr(), Ordering::SeqCst);
    let was_left = leave(write_much, fd as usize, after_us);
    // SAFETY: as above.
    unsafe { libc::munmap(bytes, MUCH) };
    was_left
}

/// As [`leave_by_jump`], from a poll of all `fds` for input.
pub fn leave_poll_by_jump(fds: &[Fd], after_us: u64) -> bool {
    let mut entries: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    POLLED.store(entries.as_mut_ptr().addr(), Ordering::SeqCst);
    leave(poll_many, fds.len(), after_us)
}

extern "C" fn block(what: usize) {
    let (fd, mut byte) = (FD.load(Ordering::SeqCst) as Fd, 0u8);
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: live locals; nothing here needs dropping.
    unsafe {
        match what {
            0 => _ = libc::read(fd, (&raw mut byte).cast(), 1),
            1 => _ = libc::recv(fd, (&raw mut byte).cast(), 1, 0),
            2 => {
                static BLOCK: [u8; 65536] = [7; 65536];
                while libc::write(fd, BLOCK.as_ptr().cast(), BLOCK.len()) > 0 {}
            }
            3 => _ = libc::poll(&raw mut entry, 1, -1),
            4 => _ = libc::epoll_wait(fd, &raw mut event, 1, -1),
            _ => {
                let mut set: libc::fd_set = zeroed();
                libc::FD_SET(fd, &raw mut set);
                libc::select(fd + 1, &raw mut set, null_mut(), null_mut(), null_mut());
            }
        };
    }
}

/// Makes a blocking call on `fd` (an epoll set for EpollWait), which a handler of SIGALRM leaves `after_us`
/// later, at the earliest; whether that came to pass.
pub fn leave_by_jump(what: Blocking, fd: Fd, after_us: u64) -> bool {
    let what = match what {
        Blocking::Read => 0,
        Blocking::Recv => 1,
        Blocking::Write => 2,
        Blocking::Poll => 3,
        Blocking::EpollWait => 4,
        Blocking::Select => 5,
    };
    FD.store(fd as usize, Ordering::SeqCst);
    leave(block, what, after_us)
}

fn leave(call: extern "C" fn(usize), arg: usize, after_us: u64) -> bool {
    let is_over = AtomicBool::new(false);
    let me = super::this_thread();
    // SAFETY: an ordinary handler, which may interrupt itself: it never returns.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = on_alarm as *const () as usize;
        action.sa_flags = libc::SA_NODEFER;
        libc::sigaction(libc::SIGALRM, &raw const action, null_mut());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_micros(after_us));
            while !is_over.load(Ordering::SeqCst) {
                super::signal_thread(me, libc::SIGALRM);
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        // SAFETY: the calls above own nothing.
        let was_left = unsafe { landing(call, arg, &raw const PLACE) } == 1;
        is_over.store(true, Ordering::SeqCst);
        was_left
    })
}
