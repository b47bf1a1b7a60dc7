//! Calls of a thread that was asked to end before it made them. Invariant: the thread's frames own nothing
//! that needs dropping, for cancellation unwinds them.

use super::Fd;
use super::process::join_within;
use libc::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::{from_mut, null, null_mut};

/// A call at which a thread may be cancelled; by number, and as a FILE is closed, it may not.
#[allow(missing_docs, reason = "each is the call of its name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    Read,
    Readv,
    Recv,
    Recvfrom,
    Recvmsg,
    Recvmmsg,
    RecvByNumber,
    Write,
    Writev,
    Send,
    Sendto,
    Sendmsg,
    Sendmmsg,
    Poll,
    Ppoll,
    Select,
    Pselect,
    EpollWait,
    EpollPwait,
    Close,
    Fclose,
    Connect,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 22] = {
        use Point::*;
        [
            Read,
            Readv,
            Recv,
            Recvfrom,
            Recvmsg,
            Recvmmsg,
            RecvByNumber,
            Write,
            Writev,
            Send,
            Sendto,
            Sendmsg,
            Sendmmsg,
            Poll,
            Ppoll,
            Select,
            Pselect,
            EpollWait,
            EpollPwait,
            Close,
            Fclose,
            Connect,
        ]
    };
}

/// What the thread does.
struct Wanted {
    point: Point,
    fd: Fd,
    port: u16,
    /// Cancellation is off when it makes the call.
    is_off: bool,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcanceltype(to: c_int, before: *mut c_int) -> c_int;
}

const ENABLE: c_int = 0;
const ANYWHERE: c_int = 1;
const DISABLE: c_int = 1;

extern "C-unwind" fn ask_and_call(wanted: *mut c_void) -> *mut c_void {
    let mut state = 0;
    // SAFETY: the caller's local, which outlives this thread.
    let wanted = unsafe { &*wanted.cast::<Wanted>() };
    // SAFETY: a live local; the thread itself.
    unsafe {
        pthread_setcancelstate(DISABLE, &raw mut state);
        libc::pthread_cancel(libc::pthread_self());
        if !wanted.is_off {
            pthread_setcancelstate(ENABLE, &raw mut state);
        }
        make(wanted);
        pthread_setcancelstate(DISABLE, &raw mut state);
    }
    null_mut()
}

/// Moves three bytes, or waits for no time.
///
/// # Safety
/// The descriptors are the caller's.
unsafe fn make(wanted: &Wanted) {
    let (fd, mut bytes) = (wanted.fd, [b'c'; 3]);
    let at = from_mut(&mut bytes).cast::<c_void>();
    let mut vector = libc::iovec { iov_base: at, iov_len: 3 };
    let vectors = &raw mut vector;
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: every pointer is to a live local of the length that goes with it.
    unsafe {
        let mut message: libc::mmsghdr = zeroed();
        message.msg_hdr.msg_iov = vectors;
        message.msg_hdr.msg_iovlen = 1;
        let mut set: libc::fd_set = zeroed();
        libc::FD_SET(fd, &raw mut set);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        match wanted.point {
            Point::Read => _ = libc::read(fd, at, 3),
            Point::Readv => _ = libc::readv(fd, vectors, 1),
            Point::Recv => _ = libc::recv(fd, at, 3, 0),
            Point::Recvfrom => _ = libc::recvfrom(fd, at, 3, 0, null_mut(), null_mut()),
            Point::Recvmsg => _ = libc::recvmsg(fd, &raw mut message.msg_hdr, 0),
            Point::Recvmmsg => _ = libc::recvmmsg(fd, &raw mut message, 1, 0, null_mut()),
            Point::RecvByNumber => _ = libc::syscall(libc::SYS_recvfrom, fd, at, 3usize, 0, 0usize, 0usize),
            Point::Write => _ = libc::write(fd, at, 3),
            Point::Writev => _ = libc::writev(fd, vectors, 1),
            Point::Send => _ = libc::send(fd, at, 3, libc::MSG_NOSIGNAL),
            Point::Sendto => _ = libc::sendto(fd, at, 3, libc::MSG_NOSIGNAL, null(), 0),
            Point::Sendmsg => _ = libc::sendmsg(fd, &raw const message.msg_hdr, libc::MSG_NOSIGNAL),
            Point::Sendmmsg => _ = libc::sendmmsg(fd, &raw mut message, 1, libc::MSG_NOSIGNAL),
            Point::Poll => _ = libc::poll(&raw mut poll, 1, 0),
            Point::Ppoll => _ = libc::ppoll(&raw mut poll, 1, &raw const time, null()),
            Point::Select => {
                let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
                libc::select(fd + 1, &raw mut set, null_mut(), null_mut(), &raw mut time);
            }
            Point::Pselect => {
                libc::pselect(fd + 1, &raw mut set, null_mut(), null_mut(), &raw mut time, null());
            }
            Point::EpollWait => _ = libc::epoll_wait(fd, &raw mut event, 1, 0),
            Point::EpollPwait => _ = libc::epoll_pwait(fd, &raw mut event, 1, 0, null()),
            Point::Close => _ = libc::close(fd),
            Point::Fclose => _ = libc::fclose(libc::fdopen(fd, c"r".as_ptr())),
            Point::Connect => {
                let mut to: libc::sockaddr_in = zeroed();
                to.sin_family = libc::AF_INET as _;
                to.sin_port = wanted.port.to_be();
                to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
                libc::connect(fd, (&raw const to).cast(), size_of::<libc::sockaddr_in>() as u32);
            }
        }
    }
}

/// Whether a thread that was asked to end ends at `point` ("cancelled"), or makes the call ("returned"). A
/// connect goes to `port`.
pub fn cancelled_before(point: Point, fd: Fd, port: u16, is_off: bool) -> &'static str {
    let mut wanted = Wanted { point, fd, port, is_off };
    // SAFETY: "C" and "C-unwind" functions share one calling convention; the thread is joined before its
    // argument goes, or the case has failed.
    unsafe {
        let run: extern "C-unwind" fn(*mut c_void) -> *mut c_void = ask_and_call;
        let run: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(run);
        let mut thread: libc::pthread_t = zeroed();
        libc::pthread_create(&raw mut thread, null(), run, from_mut(&mut wanted).cast());
        join_within(thread, 5)
    }
}

/// A call that a thread sleeps in.
#[allow(missing_docs, reason = "each is the call of its name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    Recv,
    RecvByNumber,
    Sendfile,
}

/// Bytes that a sleeper in sendfile sends: more than TCP and a ring take without a reader.
pub const FILE: usize = 24 << 20;

/// A thread that sleeps in a call.
pub struct Sleeper {
    thread: libc::pthread_t,
    file: Fd,
    /// (The thread reads it.)
    _wanted: Box<(Sleep, Fd, Fd)>,
}

/// Starts a thread that sleeps in `call` on `fd`.
pub fn sleep_in(call: Sleep, fd: Fd) -> Sleeper {
    let file = super::memfile(if call == Sleep::Sendfile { &[7; FILE] } else { &[] });
    let mut wanted = Box::new((call, fd, file));
    // SAFETY: "C" and "C-unwind" functions share one calling convention; the argument lives as long as the
    // thread, or the case has failed.
    unsafe {
        let run: extern "C-unwind" fn(*mut c_void) -> *mut c_void = sleep;
        let run: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(run);
        let mut thread: libc::pthread_t = zeroed();
        libc::pthread_create(&raw mut thread, null(), run, from_mut(&mut *wanted).cast());
        Sleeper { thread, file, _wanted: wanted }
    }
}

extern "C-unwind" fn sleep(wanted: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's, which outlives this thread.
    let (call, fd, file) = unsafe { *wanted.cast::<(Sleep, Fd, Fd)>() };
    let (mut bytes, mut state) = ([0u8; 3], 0);
    let at = from_mut(&mut bytes).cast::<c_void>();
    // SAFETY: every pointer is to a live local of the length that goes with it.
    unsafe {
        match call {
            Sleep::Recv => _ = libc::recv(fd, at, 3, 0),
            Sleep::RecvByNumber => _ = libc::syscall(libc::SYS_recvfrom, fd, at, 3usize, 0, 0usize, 0usize),
            Sleep::Sendfile => {
                let mut offset = 0;
                libc::sendfile(fd, file, &raw mut offset, FILE);
            }
        }
        pthread_setcancelstate(DISABLE, &raw mut state);
    }
    null_mut()
}

impl Sleeper {
    /// Asks the thread to end.
    pub fn cancel(&self) {
        // SAFETY: the thread has not been joined.
        unsafe { libc::pthread_cancel(self.thread) };
    }

    /// Whether it has ended in its call ("cancelled"), or the call has returned.
    pub fn join(self) -> &'static str {
        // SAFETY: it is joined once.
        let end = unsafe { join_within(self.thread, 5) };
        let _ = super::close(self.file);
        end
    }
}

/// A thread that may be cancelled at any instruction looks at `fd` over and over, is cancelled in one of its
/// looks, and is "cancelled" then.
pub fn cancelled_anywhere(fd: Fd) -> &'static str {
    let mut fd = fd;
    // SAFETY: "C" and "C-unwind" functions share one calling convention; the thread is joined before its
    // argument goes, or the case has failed.
    unsafe {
        let run: extern "C-unwind" fn(*mut c_void) -> *mut c_void = look_for_ever;
        let run: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(run);
        let mut thread: libc::pthread_t = zeroed();
        libc::pthread_create(&raw mut thread, null(), run, from_mut(&mut fd).cast());
        libc::usleep(1000);
        libc::pthread_cancel(thread);
        join_within(thread, 5)
    }
}

extern "C-unwind" fn look_for_ever(fd: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's, which outlives this thread.
    let fd = unsafe { *fd.cast::<Fd>() };
    let mut byte = 0u8;
    // SAFETY: every pointer is to a live local of the length that goes with it.
    unsafe {
        pthread_setcanceltype(ANYWHERE, null_mut());
        loop {
            libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT | libc::MSG_PEEK);
        }
    }
}
