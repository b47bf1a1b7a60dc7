//! What the torture needs beyond the other tests: words shared by all its processes, and the rougher ways to
//! leave, replace and start processes. Invariant: the shared words are atomics in a mapping that is never
//! removed.

use super::{Fd, Ret, ret32};
use libc::c_int;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU64;

/// Maps the first `words` words of a file that several processes share; the file grows to hold them.
pub fn shared_words(path: &Path, words: usize) -> std::io::Result<&'static [AtomicU64]> {
    let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let bytes = words * 8;
    if (file.metadata()?.len() as usize) < bytes {
        file.set_len(bytes as u64)?;
    }
    // SAFETY: a new shared mapping of a file that is at least that long and that nobody shortens; it is never
    // unmapped.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts(at.cast::<AtomicU64>(), words))
    }
}

/// Milliseconds of the clock that all processes share.
pub fn now_ms() -> u64 {
    let mut t = super::timespec(0);
    // SAFETY: the result is a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

/// `execv(3)`: returns only if it failed.
pub fn execv(path: &str, args: &[String]) -> super::Errno {
    let c = |s: &str| CString::new(s).expect("no NUL");
    let (path, args) = (c(path), args.iter().map(|a| c(a)).collect::<Vec<_>>());
    let mut list: Vec<_> = args.iter().map(|a| a.as_ptr()).collect();
    list.push(null());
    // SAFETY: strings that outlive the call, and the null pointer that ends the list.
    unsafe { libc::execv(path.as_ptr(), list.as_ptr()) };
    super::errno()
}

/// `exit(3)`: with the handlers.
pub fn exit(code: u8) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::exit(code.into()) }
}

/// `abort(3)`, without a core file.
pub fn abort_now() -> ! {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a live local; ends the process.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::abort()
    }
}

/// A child that has ended, and its wait status; `None` while all of them run or if there is none. -1 asks for
/// any.
pub fn reap(pid: i32, options: c_int) -> Option<(i32, c_int)> {
    let mut status = 0;
    loop {
        // SAFETY: the status is a live local.
        match unsafe { libc::waitpid(pid, &mut status, options) } {
            n if n > 0 => return Some((n, status)),
            -1 if super::errno() == super::Errno(libc::EINTR) => {}
            _ => return None,
        }
    }
}

/// "exit 0" or "signal 9".
pub fn show_status(status: c_int) -> String {
    if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("exit {}", libc::WEXITSTATUS(status))
    }
}

/// Whether SIGKILL ended it.
pub fn is_killed(status: c_int) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL
}

/// Makes the calling process the one that adopts orphans below it.
pub fn adopt_orphans() -> Ret {
    // SAFETY: no pointers.
    ret32(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// The calling thread's id, as in /proc/PID/task.
pub fn thread_id() -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::gettid() }
}

/// Raises the soft limit of open descriptors to the hard one.
pub fn all_fds() {
    super::limit_fds(u64::MAX);
}

/// Size of the pipe behind a descriptor.
pub fn pipe_size(fd: Fd) -> usize {
    super::fcntl(fd, libc::F_GETPIPE_SZ, 0).unwrap_or(4096)
}
