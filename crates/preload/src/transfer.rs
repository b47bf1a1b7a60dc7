//! sendfile and splice with one of our sockets at an end: a file is read straight into the ring, a pipe's
//! bytes bounce through a buffer. Owns: the file's or pipe's position, which moves exactly by what the socket
//! took.

use crate::hook::{self, hooks};
use crate::real::forward;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::iter::once;
use os::net::msg;
use os::poll::bits;
use socket::buffer::{Piece, Sink, Supply};
use socket::stream::Across;
use socket::{Errno, Outcome, stream, told};
use sync::{AtomicBool, Ordering};

const BOUNCE: usize = 16 * 1024;

/// Buffers that splice borrows: programs call it on stacks smaller than one.
static BOUNCES: [Place; 4] =
    [const { Place { is_lent: AtomicBool::new(false), bytes: UnsafeCell::new([0; BOUNCE]) } }; 4];

struct Place {
    is_lent: AtomicBool,
    bytes: UnsafeCell<[u8; BOUNCE]>,
}

// SAFETY: the bytes are only touched by who has turned `is_lent` on.
unsafe impl Sync for Place {}

/// A buffer lent for one call: one of those, or a mapping if all are lent.
enum Bounce {
    Lent(&'static Place),
    Mapped(os::mem::Scratch),
}

impl Bounce {
    fn borrow() -> Option<Self> {
        let free = BOUNCES.iter().find(|place| !place.is_lent.swap(true, Ordering::Acquire));
        match free {
            Some(place) => Some(Bounce::Lent(place)),
            None => {
                os::mem::Scratch::for_poll(BOUNCE / size_of::<os::poll::PollFd>()).ok().map(Bounce::Mapped)
            }
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: lent to this value alone, see `borrow`.
            Bounce::Lent(place) => unsafe { &mut *place.bytes.get() },
            Bounce::Mapped(scratch) => scratch.bytes(),
        }
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        if let Bounce::Lent(place) = self {
            place.is_lent.store(false, Ordering::Release);
        }
    }
}
/// What the kernel moves in one call at most (MAX_RW_COUNT of linux/fs.h).
const MOST: usize = 0x7fff_f000;
const SPLICE_F_NONBLOCK: u32 = 2;
const SPLICE_F_MORE: u32 = 4;
/// Flags that the kernel knows (SPLICE_F_ALL of linux/splice.h): it refuses others, and so it is asked.
const SPLICE_F_ALL: u32 = 15;

/// A range of a file, read straight into the ring.
#[derive(Clone, Copy)]
struct FileRange<'a> {
    file: c_int,
    at: i64,
    len: usize,
    /// How it ended before its time: 0 at the end of the file, else an error number.
    end: &'a Cell<Option<Errno>>,
}

impl FileRange<'_> {
    /// Whether it has nothing: it begins at the end of the file, or cannot be read.
    #[cold]
    fn is_over(&self) -> bool {
        let mut byte = [0u8];
        self.copy_to(Sink::from(&mut byte[..])) == 0
    }
}

impl Piece for FileRange<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn after(&self, count: usize) -> Self {
        let count = count.min(self.len);
        FileRange { at: self.at.saturating_add_unsigned(count as u64), len: self.len - count, ..*self }
    }
}

impl Supply for FileRange<'_> {
    const IS_WHOLE: bool = false;

    fn first(&self, count: usize) -> Self {
        FileRange { len: self.len.min(count), ..*self }
    }

    /// (The position of the open file does not move.)
    fn copy_to(&self, room: Sink<'_>) -> usize {
        let len = room.len().min(self.len);
        if len == 0 {
            return 0;
        }
        let args = [self.file as usize, room.address().addr(), len, self.at as usize];
        // SAFETY: a Sink is writable for its length.
        let ret = unsafe { os::raw::call(os::raw::nr::__NR_pread64, &args) };
        match usize::try_from(ret) {
            Ok(0) => self.end.set(Some(Errno(0))),
            Ok(count) => return count,
            Err(_) => self.end.set(Some(Errno(-ret as i32))),
        }
        0
    }

    fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }
}

fn seek(file: c_int, to: i64, whence: usize) -> Result<i64, Errno> {
    // SAFETY: seeking touches no memory.
    let ret = unsafe { os::raw::call(os::raw::nr::__NR_lseek, &[file as usize, to as usize, whence]) };
    if ret < 0 { Err(Errno(-ret as i32)) } else { Ok(ret as i64) }
}

fn send_file(out: c_int, file: c_int, offset: *mut i64, count: usize) -> Outcome {
    if !offset.is_null()
        && let Err(errno) = crate::pointers::writable(offset, size_of::<i64>())
    {
        return Outcome::Fail(errno);
    }
    // SAFETY: a non-null offset is the program's to read and write.
    let given = unsafe { offset.as_ref() }.copied();
    let start = match given.map_or_else(|| seek(file, 0, 1), Ok) {
        Ok(start) => start,
        // Not a file: the kernel's answer for a source it cannot map.
        Err(Errno::ESPIPE) => return Outcome::Fail(Errno::EINVAL),
        Err(errno) => return Outcome::Fail(errno),
    };
    let end = Cell::new(None);
    let range = FileRange { file, at: start, len: count.min(MOST), end: &end };
    let outcome = match stream::may_refuse(out) && range.is_over() {
        // (The kernel reads the file first. Where that has nothing, the socket is asked for nothing.)
        true => Outcome::Done(0),
        false => stream::transmit(out, once(range), range.len, 0),
    };
    let Outcome::Done(sent) = outcome else { return outcome };
    // (A call that waits goes on in the kernel until that is told of a reset, and says how much went before.)
    if (1..range.len).contains(&sent) && end.get().is_none() && !os::fd::is_nonblocking(out) {
        told::take_error(out);
    }
    let now_at = start + sent as i64;
    match given {
        // SAFETY: as above.
        Some(_) => unsafe { *offset = now_at },
        None => {
            let _ = seek(file, now_at, 0);
        }
    }
    match end.get() {
        Some(errno @ Errno(1..)) if sent == 0 => Outcome::Fail(errno),
        _ => outcome,
    }
}

/// What a pipe surely takes without waiting once it says that it can be written to (PIPE_BUF).
const PIPE_STEP: usize = 4096;

/// Socket to pipe. (SO_PEEK_OFF is for the program's own looks; the kernel's splice leaves it alone.)
fn splice_out(from: &Across, to: c_int, len: usize, flags: u32) -> Outcome {
    let Some(offset) = stream::peek_offset(from.number()) else {
        return move_out(from, to, len, flags, || ());
    };
    let outcome = move_out(from, to, len, flags, || os::net::set_peek_offset(from.number(), 0));
    os::net::set_peek_offset(from.number(), offset);
    outcome
}

/// sendfile from a socket, which the kernel does as splice where it goes into a pipe, and refuses elsewhere.
#[cold]
fn send_to_pipe(out: c_int, from: c_int, count: usize) -> Outcome {
    if !os::fd::is_pipe(out) || !os::fd::is_for_writing(out) {
        return Outcome::Forward;
    }
    let flags = if os::fd::is_nonblocking(from) { SPLICE_F_NONBLOCK } else { 0 };
    match Across::begin(from) {
        Some(from) => splice_out(&from, out, count, flags),
        None => Outcome::Forward,
    }
}

/// Looks at the bytes, writes what the pipe takes, and only then frees them. `before_look` is called before
/// each look.
fn move_out(from: &Across, to: c_int, len: usize, flags: u32, before_look: impl Fn()) -> Outcome {
    let Some(mut lent) = Bounce::borrow() else { return Outcome::Fail(Errno::ENOMEM) };
    let bounce = lent.bytes();
    // (The flag is the pipe's alone: each has an O_NONBLOCK, too.)
    let may_wait_for_room = flags & SPLICE_F_NONBLOCK == 0 && !os::fd::is_nonblocking(to);
    let mut moved = 0;
    while moved < len {
        // (A look for more that finds the end may take an error with it, which is told once.)
        if moved > 0 && (!from.is_shared() || from.readable_bytes() == 0) {
            break;
        }
        if os::poll::peek(to, bits::OUT) == 0 {
            let longest_ms = if may_wait_for_room && moved == 0 { -1 } else { 0 };
            if let Err(errno) = from.aside(|| wait_for_room(to, longest_ms)) {
                return if moved > 0 { Outcome::Done(moved) } else { Outcome::Fail(errno) };
            }
        }
        let wait = if moved == 0 { 0 } else { msg::DONTWAIT };
        let step = (len - moved).min(PIPE_STEP);
        before_look();
        let seen = match from.receive(&mut bounce[..step], msg::PEEK | wait) {
            Outcome::Done(seen @ 1..) => seen,
            Outcome::Fail(errno) if moved > 0 => {
                // The next call is to be told.
                told::tell_again(from.number(), errno);
                return Outcome::Done(moved);
            }
            other => return if moved > 0 { Outcome::Done(moved) } else { other },
        };
        let bytes = &mut bounce[..seen];
        // SAFETY: the bytes are filled and stay; the pipe end is not ours, so this is libc's write.
        let wrote = from.aside(|| unsafe { forward::write(to, bytes.as_mut_ptr().cast(), bytes.len()) });
        if wrote < 0 {
            return if moved > 0 { Outcome::Done(moved) } else { Outcome::Fail(hook::last()) };
        }
        take_all(from, &mut bounce[..wrote as usize]);
        moved += wrote as usize;
    }
    Outcome::Done(moved)
}

/// Frees bytes that were looked at. Some may be in the ring and others on TCP, and a read ends where the
/// first of them do.
fn take_all(from: &Across, bytes: &mut [u8]) {
    let mut taken = 0;
    while taken < bytes.len() {
        let rest = &mut bytes[taken..];
        match from.receive(rest, msg::DONTWAIT) {
            Outcome::Done(count @ 1..) => taken += count,
            Outcome::Fail(Errno::EINTR) => {}
            // The direction has moved to TCP for good since.
            Outcome::Forward => {
                let fd = from.number();
                // SAFETY: `rest` is writable for its length; the kernel's own socket.
                let count = unsafe { forward::recv(fd, rest.as_mut_ptr().cast(), rest.len(), msg::DONTWAIT) };
                match usize::try_from(count) {
                    Ok(count @ 1..) => taken += count,
                    _ => break,
                }
            }
            // Another thread has taken them, and written them into its pipe.
            _ => break,
        }
    }
}

/// Waits until `fd`, a pipe or a socket, can be written to: EAGAIN after `longest_ms` (-1: never). (A pipe
/// without readers says so when written to.) EINTR is a handler's without SA_RESTART: poll says it of any.
fn wait_for_room(fd: c_int, longest_ms: c_int) -> Result<(), Errno> {
    loop {
        match crate::poll::poll_one(fd, bits::OUT, longest_ms) {
            0 => return Err(Errno::EAGAIN),
            1.. => return Ok(()),
            _ if longest_ms < 0 && hook::last() == Errno::EINTR && os::process::all_handlers_restart() => {}
            _ => return Err(hook::last()),
        }
    }
}

/// Pipe to socket: all that is in the pipe, as the kernel moves it; it waits for the pipe only while it has
/// moved nothing, and for the socket at any time.
fn splice_in(from: c_int, fd: c_int, mut to: Across, len: usize, flags: u32) -> Outcome {
    let Some(mut lent) = Bounce::borrow() else { return Outcome::Fail(Errno::ENOMEM) };
    let may_wait = flags & SPLICE_F_NONBLOCK == 0;
    if !may_wait && os::poll::peek(from, bits::IN | bits::HUP) == 0 {
        return Outcome::Fail(Errno::EAGAIN);
    }
    // What a send of nothing says: whether the socket can be written to at all. (The kernel sends, and raises
    // SIGPIPE, when the pipe has something.)
    let is_empty = os::poll::peek(from, bits::IN) & bits::IN == 0;
    match to.transmit(&[], if is_empty { msg::NOSIGNAL } else { 0 }) {
        Outcome::Done(_) => {}
        other => return other,
    }
    let mut moved = 0;
    while moved < len {
        if moved > 0 && (!to.is_shared() || os::poll::peek(from, bits::IN) & bits::IN == 0) {
            break;
        }
        if to.space(len - moved) == 0 {
            let socket = os::fd::identity(to.number());
            drop(to);
            let next = with_room(fd);
            // (The number may be another's by now.)
            let is_the_same = os::fd::identity(fd) == socket;
            to = match if is_the_same { next } else { Err(Outcome::Fail(Errno::EBADF)) } {
                Ok(to) => to,
                Err(_) if moved > 0 => break,
                Err(outcome) => return outcome,
            };
        }
        match move_in(from, &to, len - moved, flags, lent.bytes()) {
            Outcome::Done(0) => break,
            Outcome::Done(count) => moved += count,
            other => return if moved > 0 { Outcome::Done(moved) } else { other },
        }
    }
    Outcome::Done(moved)
}

/// Waits for room in the socket. (By its number, and nothing is held meanwhile.)
fn with_room(fd: c_int) -> Result<Across, Outcome> {
    if os::fd::is_nonblocking(fd) {
        return Err(Outcome::Fail(Errno::EAGAIN));
    }
    wait_for_room(fd, stream::send_limit_ms(fd)).map_err(Outcome::Fail)?;
    Across::begin(fd).ok_or(Outcome::Forward)
}

/// Takes from the pipe no more than the ring has room for.
fn move_in(from: c_int, to: &Across, len: usize, flags: u32, bounce: &mut [u8]) -> Outcome {
    let room = to.space(len.min(BOUNCE)).max(1);
    let bytes = &mut bounce[..room];
    // SAFETY: the bytes are writable; the pipe end is not ours.
    let got = to.aside(|| unsafe { forward::read(from, bytes.as_mut_ptr().cast(), bytes.len()) });
    if got <= 0 {
        return if got == 0 { Outcome::Done(0) } else { Outcome::Fail(hook::last()) };
    }
    let more = if flags & SPLICE_F_MORE != 0 { msg::MORE } else { 0 };
    deliver(to, &mut bounce[..got as usize], more)
}

/// Sends what is out of the pipe already: it must not be lost, whatever becomes of the connection meanwhile.
fn deliver(to: &Across, bytes: &mut [u8], flags: c_int) -> Outcome {
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &mut bytes[sent..];
        match to.transmit(rest, flags) {
            Outcome::Done(count) => sent += count,
            Outcome::Fail(Errno::EAGAIN | Errno::EINTR) => os::process::yield_now(),
            // It is TCP now.
            Outcome::Forward => {
                let fd = to.number();
                // SAFETY: `rest` is filled and stays where it is.
                let wrote = unsafe { forward::write(fd, rest.as_mut_ptr().cast(), rest.len()) };
                match (usize::try_from(wrote), sent) {
                    (Ok(count), _) => sent += count,
                    (Err(_), _) if hook::last() == Errno::EAGAIN => {
                        let mut fds = [os::poll::PollFd { fd, events: bits::OUT, revents: 0 }];
                        let _ = to.aside(|| os::poll::wait_raw(&mut fds, -1));
                    }
                    (Err(_), 0) => return Outcome::Fail(hook::last()),
                    _ => break,
                }
            }
            other => return if sent > 0 { Outcome::Done(sent) } else { other },
        }
    }
    Outcome::Done(sent)
}

hooks! {
    fn sendfile [sendfile64] (out: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
        // (The kernel refuses a length below zero, whatever the descriptors are.)
        if count > isize::MAX as usize {
            Outcome::Forward
        } else if offset.is_null() && count > 0 && stream::is_shared(from) {
            crate::cancel::without_points(|| send_to_pipe(out, from, count))
        } else if count == 0 || !stream::is_shared(out) {
            // (Of nothing the kernel sends nothing, and asks the socket for nothing.)
            Outcome::Forward
        } else {
            crate::cancel::without_points(|| send_file(out, from, offset, count))
        }
    }
    fn splice [] (from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, len: usize, flags: u32) -> isize {
        crate::cancel::point();
        // (Neither a pipe nor a socket has positions, and no length is below zero.)
        let is_refused = flags & !SPLICE_F_ALL != 0 || !from_at.is_null() || !to_at.is_null();
        if len == 0 || len > isize::MAX as usize || is_refused {
            Outcome::Forward
        } else if stream::is_shared(from) && os::fd::is_pipe(to) {
            match if os::fd::is_for_writing(to) { Across::begin(from) } else { None } {
                Some(from) => splice_out(&from, to, len, flags),
                None => Outcome::Forward,
            }
        } else if stream::is_shared(to) && os::fd::is_pipe(from) {
            match if os::fd::is_for_reading(from) { Across::begin(to) } else { None } {
                Some(across) => splice_in(from, to, across, len, flags),
                None => Outcome::Forward,
            }
        } else {
            Outcome::Forward
        }
    }
}
