//! Thin wrappers over the C library's socket calls, one symbol each, so that a test says exactly which call
//! it makes and the preload library sees exactly that call. Invariant: this folder holds all unsafe code of
//! the black-box tests, and every wrapper returns the call's own result and errno, unretried and
//! untranslated.

mod aliens;
mod by_name;
mod cancel;
mod clone;
mod credentials;
mod errno;
mod handlers;
mod io;
mod jump;
mod messages;
mod names;
mod pointers;
mod process;
mod ready;
mod sock;
mod stack;
mod stdio;
mod torture;
mod transfer;
mod unseen;
mod vfork;

pub use aliens::*;
pub use by_name::*;
pub use cancel::*;
pub use clone::*;
pub use credentials::*;
pub use errno::*;
pub use handlers::*;
pub use io::*;
pub use jump::*;
pub use messages::*;
pub use names::*;
pub use pointers::*;
pub use process::*;
pub use ready::*;
pub use sock::*;
pub use stack::*;
pub use stdio::*;
pub use torture::*;
pub use transfer::*;
pub use unseen::*;
pub use vfork::*;

/// A file descriptor number, as the program under test sees it.
pub type Fd = i32;
