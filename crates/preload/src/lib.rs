//! `libsmc-preload.so`: the ABI edge, third of the three unsafe rooms.
//!
//! Owns: the C signatures, errno, and the promise that a call which is not ours reaches libc's own function
//! unchanged (so cancellation, other preloads and libc's quirks survive). Hooks never allocate, never take a
//! lock that a fork child could inherit locked, never resolve symbols lazily; before the constructor has run
//! they make the raw system call. Does not own: any decision about a connection (`socket`).
//!
//! Files: `real` (libc's functions), `errno`, `hook` (the macros), one file per group of symbols, `start`
//! (constructor).
#![no_std]
#![allow(
    clippy::missing_safety_doc,
    reason = "every exported function has the contract of the libc function it stands for"
)]
#![allow(unreachable_pub, reason = "exported to C, not to Rust")]
#![allow(missing_docs, reason = "documented by the C library's manual")]

mod agreed;
mod cancel;
mod credentials;
mod data;
mod epoll;
mod errno;
mod hook;
mod lifecycle;
mod message;
mod modules;
mod options;
mod parted;
mod passed_on;
mod pointers;
mod poll;
mod process;
mod raw_syscall;
mod real;
mod sandbox;
mod scarce;
mod spawn;
mod start;
mod stdio;
mod symbols;
mod transfer;

/// A bug of ours: end the process as abort() would, without libc.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    os::process::abort()
}

// The precompiled `core` names an unwinding personality. Rust frames here have nothing to clean up, so a
// forced unwind (pthread cancellation) passes through: _URC_CONTINUE_UNWIND. Hidden, or Rust programs would
// find this one for their own.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, @function",
    "rust_eh_personality:",
    "mov eax, 8",
    "ret",
);
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, %function",
    "rust_eh_personality:",
    "mov w0, #8",
    "ret",
);
