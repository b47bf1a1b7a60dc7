//! What a call answers: its result, or errno, by its symbolic name.

use std::fmt;

/// An errno value; prints as its symbolic name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What a call returned: its non-negative result, or errno.
pub type Ret = Result<usize, Errno>;

const NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EINTR, "EINTR"),
    (libc::EBADF, "EBADF"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EEXIST, "EEXIST"),
    (libc::EINVAL, "EINVAL"),
    (libc::EMFILE, "EMFILE"),
    (libc::EDOM, "EDOM"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ESPIPE, "ESPIPE"),
    (libc::EPIPE, "EPIPE"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ELOOP, "ELOOP"),
    (libc::ENOTSOCK, "ENOTSOCK"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::EISCONN, "EISCONN"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::EALREADY, "EALREADY"),
    (libc::EINPROGRESS, "EINPROGRESS"),
];

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(n, _)| *n == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

/// The calling thread's errno.
pub fn errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Sets the calling thread's errno, to see whether a successful call leaves it alone.
pub fn set_errno(value: i32) {
    // SAFETY: __errno_location returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = value }
}

/// Turns a C result into [`Ret`].
pub(crate) fn ret(n: isize) -> Ret {
    if n < 0 { Err(errno()) } else { Ok(n as usize) }
}

/// Turns a C `int` result into [`Ret`].
pub(crate) fn ret32(n: i32) -> Ret {
    ret(n as isize)
}

/// "5" or "EAGAIN".
pub fn show(r: Ret) -> String {
    match r {
        Ok(n) => n.to_string(),
        Err(e) => e.to_string(),
    }
}
