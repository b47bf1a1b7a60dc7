//! Sockets of a kernel that has SMC, by sock_diag (smc.h, smc_diag.h). Owns: what of its answers is an error.
//! A kernel without SMC is no error: it has no sockets to show.

mod message;

use super::row::Row;
use crate::netlink::{self, Failure};
use nix::errno::Errno;

/// The kernel's SMC sockets; the error is a sentence for stderr.
pub(super) fn rows() -> Result<Vec<Row>, String> {
    let mut rows = vec![];
    match netlink::dump(message::request().to_vec(), &mut |payload| rows.extend(message::row(payload))) {
        // Without netlink nothing is known about the kernel's sockets; Isthmus' own are shown all the same.
        Ok(()) | Err(Failure::Unavailable) => Ok(rows),
        Err(Failure::Refused(errno)) if rows.is_empty() && is_absence(errno) => Ok(rows),
        Err(failure) => Err(format!("{failure}\n")),
    }
}

/// What kernels answer that do not know the family.
fn is_absence(errno: Errno) -> bool {
    [Errno::ENOENT, Errno::EOPNOTSUPP, Errno::EINVAL, Errno::EAFNOSUPPORT, Errno::EPROTONOSUPPORT]
        .contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn any_kernel_can_be_asked() {
        // With SMC the answer is a list, without it is empty; never an error.
        let rows = rows().expect("an answer");
        assert!(rows.iter().all(|row| row.is_kernels));
    }
}
