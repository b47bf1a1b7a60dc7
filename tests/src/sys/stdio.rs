//! The C library's FILE streams on a socket: glibc's stdio never calls an interposable read or write.

use super::{Fd, Ret, ret32};
use std::ffi::CString;

/// An open FILE stream; `fclose` is explicit because its result is part of the test.
pub struct Stream(*mut libc::FILE);

impl Stream {
    /// `fdopen(3)`.
    pub fn open(fd: Fd, mode: &str) -> Stream {
        let mode = CString::new(mode).expect("mode");
        // SAFETY: the mode string is NUL-terminated.
        let f = unsafe { libc::fdopen(fd, mode.as_ptr()) };
        assert!(!f.is_null(), "fdopen: {}", super::errno());
        Stream(f)
    }

    /// `fputs(3)` and, if asked, `fflush(3)`.
    pub fn put(&mut self, text: &str, flush: bool) -> Ret {
        let text = CString::new(text).expect("text");
        // SAFETY: the stream is open until `close` consumes it.
        unsafe {
            if libc::fputs(text.as_ptr(), self.0) < 0 {
                return Err(super::errno());
            }
            ret32(if flush { libc::fflush(self.0) } else { 0 })
        }
    }

    /// `fgets(3)`: a line without its newline, or None at end of file.
    pub fn line(&mut self) -> Option<String> {
        let mut buf = [0u8; 256];
        // SAFETY: buffer and size match; the stream is open.
        let p = unsafe { libc::fgets(buf.as_mut_ptr().cast(), buf.len() as i32, self.0) };
        if p.is_null() {
            return None;
        }
        let end = buf.iter().position(|&b| b == 0).unwrap_or(0);
        Some(String::from_utf8_lossy(&buf[..end]).trim_end().to_string())
    }

    /// `fread(3)` of up to `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut buf = vec![0u8; n];
        // SAFETY: buffer and size match; the stream is open.
        let k = unsafe { libc::fread(buf.as_mut_ptr().cast(), 1, n, self.0) };
        buf.truncate(k);
        buf
    }

    /// `fclose(3)`.
    pub fn close(self) -> Ret {
        // SAFETY: the stream is open and consumed here.
        ret32(unsafe { libc::fclose(self.0) })
    }
}

unsafe extern "C" {
    #[link_name = "dprintf"]
    fn c_dprintf(fd: libc::c_int, format: *const libc::c_char, ...) -> libc::c_int;
}

/// `dprintf(3)` of one string.
pub fn dprintf(fd: Fd, text: &str) -> Ret {
    let text = CString::new(text).expect("text");
    // SAFETY: format and argument are NUL-terminated and match.
    ret32(unsafe { c_dprintf(fd, c"%s".as_ptr(), text.as_ptr()) })
}

unsafe extern "C" {
    fn herror(text: *const libc::c_char);
    fn psiginfo(info: *const libc::siginfo_t, text: *const libc::c_char);
    #[link_name = "backtrace_symbols_fd"]
    fn c_backtrace_symbols_fd(addresses: *const *mut libc::c_void, count: libc::c_int, fd: libc::c_int);
}

/// What libc says of errors by itself, on descriptor 2: `perror` of ENOENT, `herror`, `psiginfo` of SIGUSR1;
/// and, on `fd`, `backtrace_symbols_fd` of two addresses where nothing is.
pub fn libcs_own_messages(nth: usize, fd: Fd) {
    // SAFETY: texts are NUL-terminated; siginfo_t is plain data; two addresses are there.
    unsafe {
        match nth {
            0 => {
                *libc::__errno_location() = libc::ENOENT;
                libc::perror(c"perror".as_ptr());
            }
            1 => herror(c"herror".as_ptr()),
            2 => {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                info.si_signo = libc::SIGUSR1;
                psiginfo(&info, c"psiginfo".as_ptr());
            }
            _ => c_backtrace_symbols_fd([8, 16].map(std::ptr::without_provenance_mut).as_ptr(), 2, fd),
        }
    }
}
