//! Names in folders, and what makes others wait who open them.
//! Invariant: nothing here waits itself.

use super::{Ret, ret32};

/// `mkfifo(3)`, for everybody to open.
pub fn mkfifo(path: &str) -> Ret {
    let path = std::ffi::CString::new(path).expect("no NUL");
    // SAFETY: the path is NUL terminated.
    unsafe {
        let made = ret32(libc::mkfifo(path.as_ptr(), 0o666));
        made.and_then(|_| ret32(libc::chmod(path.as_ptr(), 0o666)))
    }
}

/// Takes a write lease on a file of this user's, and breaks it for nobody: whoever opens the file meanwhile
/// waits.
pub fn lease(path: &str) -> Result<std::fs::File, super::Errno> {
    use std::os::fd::AsRawFd;
    super::ignore(libc::SIGIO, true);
    let file = std::fs::File::options().read(true).write(true).open(path).map_err(|_| super::errno())?;
    // SAFETY: a descriptor and a number.
    ret32(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) }).map(|_| file)
}
