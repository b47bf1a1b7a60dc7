//! Constructor and destructor. Owns: the order of things before the program's main: environment, symbols,
//! hooks live.
//!
//! Cost for a program that never opens a socket: symbol look-ups and two page protections, no descriptor, no
//! mapping.

use crate::{hook, lifecycle, modules, process, real, stdio};
use core::ffi::{CStr, c_char};
use os::poll::{PollFd, bits};
use socket::config;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

extern "C" fn constructor() {
    each_variable(config::set);
    if config::is_debug() {
        each_variable(tell_what_is_misread);
    }
    real::resolve();
    process::resolve();
    crate::cancel::resolve();
    crate::passed_on::resolve();
    crate::spawn::resolve();
    crate::credentials::resolve();
    if config::is_disabled() {
        if config::is_debug() {
            os::process::tell(b"libsmc-preload: switched off by SMC_DISABLE\n");
        }
        return;
    }
    os::process::refresh_pid();
    os::poll::use_libc(real::forward_poll(), real::forward_ppoll(), hook::errno_location);
    os::select::use_libc(real::forward_pselect());
    os::process::use_libc_is_alone(real::next(c"__libc_single_threaded").cast());
    if let Some(clock) = real::kernel_clock() {
        os::time::use_kernel_clock(clock);
    }
    if !real::global(c"__tsan_init").is_null() {
        // ThreadSanitizer's runtime: it has a memcpy of its own.
        socket::copy_unseen();
    }
    process::prepare();
    stdio::patch();
    modules::ready();
    lifecycle::activate();
    adopt_inherited();
    if modules::are_out_of_reach() && lifecycle::has_sockets() {
        // (Loaded by a constructor before ours.)
        socket::confine::before_parting();
    }
}

/// Sockets inherited over exec: inetd children, a shell's redirections, servers that restart themselves. One
/// poll tells which of the first thousand descriptors are open; where the kernel counts more, /proc tells
/// which. A socket nobody knows costs one system call more.
fn adopt_inherited() {
    const MOST: usize = 1024;
    // (Not on the stack: a library may be loaded by a thread that has little of it.)
    let most = os::limits::descriptor_limit();
    os::poll::note_descriptor_limit(most as u64);
    let most = most.min(MOST);
    let Ok(mut scratch) = os::mem::Scratch::for_poll(MOST) else { return };
    let fds = scratch.poll_entries();
    (0..).zip(&mut *fds).for_each(|(fd, entry)| *entry = PollFd { fd, events: 0, revents: 0 });
    if os::poll::wait_raw(&mut fds[..most], 0).is_err() {
        return;
    }
    let mut found = 0;
    for entry in fds[..most].iter().filter(|entry| entry.revents & bits::NVAL == 0) {
        found += 1;
        socket::server::adopt_inherited(entry.fd);
    }
    if os::file::own_descriptors().is_none_or(|all| all > found) {
        let _ = os::file::each_own_descriptor(|fd| {
            if fd as usize >= most {
                socket::server::adopt_inherited(fd);
            }
        });
    }
}

extern "C" fn destructor() {
    if lifecycle::has_sockets() {
        socket::exit::at_exit();
    }
}

fn tell_what_is_misread(name: &[u8], value: &[u8]) {
    if config::is_misread(name, value) {
        for piece in [&b"libsmc-preload: "[..], name, b" is no number, and passed over: ", value, b"\n"] {
            os::process::tell(piece);
        }
    }
}

/// Our variables, and what they say. musl passes nothing to constructors, so the environment is found by its
/// symbol in both libcs.
fn each_variable(what: fn(&[u8], &[u8])) {
    let place = real::global(c"environ").cast::<*const *const c_char>();
    if place.is_null() {
        return;
    }
    // SAFETY: `environ` is a NULL-terminated array of strings; constructors run before threads.
    let mut entry = unsafe { *place };
    // SAFETY: as above.
    while !entry.is_null() && !unsafe { *entry }.is_null() {
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(*entry) }.to_bytes();
        if text.starts_with(b"SMC_")
            && let Some(at) = text.iter().position(|byte| *byte == b'=')
        {
            what(&text[..at], &text[at + 1..]);
        }
        // SAFETY: not past the terminating NULL.
        entry = unsafe { entry.add(1) };
    }
}
