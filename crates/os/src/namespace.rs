//! User namespaces, by descriptors of /proc/PID/ns/user: what lies around one, and whose it is
//! (`linux/nsfs.h`). Owns: nothing of the caller's changes by asking.

use crate::raw::{nr, syscall};
use crate::{Result, check};

/// `_IO(0xb7, 2)` and `_IO(0xb7, 4)`.
const GET_PARENT: u32 = 0xB702;
const GET_OWNER_UID: u32 = 0xB704;

/// The user namespace around one, as a descriptor of its own. Errors: EPERM if that is none of the caller's,
/// nor below it; EINVAL for what is no such namespace.
pub fn parent(user_namespace: i32) -> Result<i32> {
    // SAFETY: makes a descriptor (close-on-exec), touches no memory.
    check(unsafe { syscall!(nr::__NR_ioctl, user_namespace, GET_PARENT, 0) }).map(|fd| fd as i32)
}

/// The user who made it, as the caller counts. Errors: EINVAL for what is no user namespace.
pub fn owner(user_namespace: i32) -> Result<u32> {
    let mut uid = 0u32;
    // SAFETY: `uid` is writable for the number that the kernel writes.
    check(unsafe { syscall!(nr::__NR_ioctl, user_namespace, GET_OWNER_UID, &raw mut uid) })?;
    Ok(uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_first_user_namespace_has_none_around_it_and_a_file_is_none() {
        let own = std::fs::File::open("/proc/self/ns/user").unwrap();
        // (The tests may run in one of somebody's: what is around that is not theirs to see.)
        assert_eq!(parent(own.as_raw_fd()), Err(crate::Errno::EPERM));
        assert!(owner(own.as_raw_fd()).is_ok());
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert!(parent(file.as_raw_fd()).is_err() && owner(file.as_raw_fd()).is_err());
    }
}
