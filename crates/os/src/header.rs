//! What sendmsg(2) and recvmsg(2) are told. Owns: the layout, which is the kernel's.

/// `struct iovec`.
#[repr(C)]
pub(crate) struct Piece {
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
}

/// `struct msghdr`.
#[repr(C)]
pub(crate) struct Head {
    pub(crate) name: *const u8,
    pub(crate) name_len: u32,
    pub(crate) pieces: *mut Piece,
    pub(crate) pieces_len: usize,
    pub(crate) control: *mut u8,
    pub(crate) control_len: usize,
    pub(crate) flags: u32,
}
