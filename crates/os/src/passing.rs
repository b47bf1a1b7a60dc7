//! Packets with a descriptor, over a unix socket (SOCK_SEQPACKET, SCM_RIGHTS). Owns: nothing waits, nothing
//! signals, and every descriptor that arrives is either returned or closed.

use crate::header::{Head, Piece};
use crate::raw::{Errno, nr, syscall};
use crate::{Result, check};

const AF_UNIX: i32 = 1;
const SOCK_SEQPACKET: u32 = 5;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SCM_CREDENTIALS: i32 = 2;
const MSG_PEEK: u32 = 0x2;
const MSG_CTRUNC: u32 = 0x8;
const MSG_TRUNC: u32 = 0x20;
const MSG_DONTWAIT: u32 = 0x40;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;
/// Longest path of a unix socket, its NUL included (`linux/un.h`).
pub const PATH_MAX: usize = 108;

/// `struct sockaddr_un`.
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; PATH_MAX],
}

/// A `struct cmsghdr` with room for one descriptor, padded as CMSG_SPACE does.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    fd: i32,
    padding: i32,
}

/// What `len` says for one descriptor (CMSG_LEN).
const ONE: usize = CONTROL_HEAD + size_of::<i32>();
/// Length, level and kind of a control message.
const CONTROL_HEAD: usize = size_of::<usize>() + 2 * size_of::<i32>();
/// Room for the sender's credentials (CMSG_SPACE of `struct ucred`).
const OF_SENDER: usize = CONTROL_HEAD + 4 * size_of::<i32>();
/// Room for those and for one descriptor, and for no second one: two would fit into CMSG_SPACE of one.
const OF_ONE: usize = OF_SENDER + ONE;
const CONTROLS: usize = OF_ONE.div_ceil(8);

/// A packet that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Bytes; 0 where the other end has closed.
    pub len: usize,
    /// The descriptor that came with it, close-on-exec.
    pub passed: Option<i32>,
    /// Who sent it, if the socket asks for that (SO_PASSCRED).
    pub sender: Option<Sender>,
}

/// Who sent a packet, as the receiver counts; pid 0: a process that the receiver cannot see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    /// Process.
    pub pid: u32,
    /// Its user when it sent.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Connects to the socket at `path`, without waiting, at a high number. Errors: EAGAIN if its backlog is
/// full; ENOENT, ECONNREFUSED, EACCES and the like.
pub fn connect(path: &[u8]) -> Result<i32> {
    let mut address = Address { family: AF_UNIX as u16, path: [0; PATH_MAX] };
    if path.len() >= PATH_MAX {
        return Err(Errno::EINVAL);
    }
    address.path[..path.len()].copy_from_slice(path);
    let kind = SOCK_SEQPACKET | nr::O_CLOEXEC | nr::O_NONBLOCK;
    // SAFETY: makes a descriptor, touches no memory.
    let low = check(unsafe { syscall!(nr::__NR_socket, AF_UNIX, kind, 0) })?;
    let fd = crate::fd::raise(low as i32)?;
    // SAFETY: `address` is readable for its size.
    let connected =
        check(unsafe { syscall!(nr::__NR_connect, fd, &raw const address, size_of::<Address>()) });
    connected.map(|_| fd).inspect_err(|_| crate::fd::close(fd))
}

/// Sends a packet, and with it a descriptor. Errors: EAGAIN, EPIPE and the like; nothing was sent then.
pub fn send(fd: i32, packet: &[u8], passed: Option<i32>) -> Result<()> {
    let mut piece = Piece { at: packet.as_ptr().cast_mut(), len: packet.len() };
    let mut control =
        Control { len: ONE, level: SOL_SOCKET, kind: SCM_RIGHTS, fd: passed.unwrap_or(-1), padding: 0 };
    let head = Head {
        name: core::ptr::null(),
        name_len: 0,
        pieces: &raw mut piece,
        pieces_len: 1,
        control: if passed.is_some() { (&raw mut control).cast() } else { core::ptr::null_mut() },
        control_len: if passed.is_some() { size_of::<Control>() } else { 0 },
        flags: 0,
    };
    // SAFETY: the kernel reads the head, the packet and the control message, all of which outlive the call.
    let sent =
        check(unsafe { syscall!(nr::__NR_sendmsg, fd, &raw const head, MSG_DONTWAIT | MSG_NOSIGNAL) })?;
    if sent == packet.len() { Ok(()) } else { Err(Errno::EMSGSIZE) }
}

/// Takes a packet. Errors: EAGAIN if there is none; EMSGSIZE if it was longer than `into`, or brought more
/// than one descriptor: those are closed.
pub fn receive(fd: i32, into: &mut [u8]) -> Result<Packet> {
    receive_by(fd, into, 0, crate::fd::close)
}

/// The same for who may not wait: to close what somebody passed may take long (a socket that lingers, a file
/// of a slow file system). Not even the kernel closes any of it here, and few of them ever get a number: the
/// packet is looked at first, and with EMSGSIZE it stays in the socket, for whoever closes that. What has a
/// number then goes to `others`.
pub fn receive_whole(fd: i32, into: &mut [u8], others: impl FnMut(i32)) -> Result<Packet> {
    let packet = receive_by(fd, into, MSG_PEEK, others)?;
    if packet != (Packet { len: 0, passed: None, sender: None }) {
        // (Nobody else reads here. What it brought has been given a number already, so this closes nothing.)
        take(fd, &mut [], &mut [], 0)?;
    }
    Ok(packet)
}

/// Takes packets out that brought no descriptors, `most` at most; whether there is nothing left, and nothing
/// can come any more. (For a socket that is shut down, and asks for senders.)
pub fn drain(fd: i32, most: usize) -> bool {
    for _ in 0..most {
        let mut control = [0; OF_SENDER / 8];
        match take(fd, &mut [], &mut control, MSG_PEEK) {
            Err(_) => return false,
            Ok(taken) if taken.flags & MSG_CTRUNC != 0 => return false,
            Ok(taken) if taken.len == 0 && taken.control_len == 0 => return true,
            Ok(_) => _ = take(fd, &mut [], &mut [], 0),
        }
    }
    false
}

/// What recvmsg() says.
struct Taken {
    len: usize,
    control_len: usize,
    flags: u32,
}

fn take(fd: i32, into: &mut [u8], control: &mut [u64], flags: u32) -> Result<Taken> {
    let mut piece = Piece { at: into.as_mut_ptr(), len: into.len() };
    let mut head = Head {
        name: core::ptr::null(),
        name_len: 0,
        pieces: &raw mut piece,
        pieces_len: 1,
        control: control.as_mut_ptr().cast(),
        control_len: size_of_val(control).min(OF_ONE),
        flags: 0,
    };
    let flags = flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    // SAFETY: `into` is writable for its length, `control` for its own, and both outlive the call.
    let len = check(unsafe { syscall!(nr::__NR_recvmsg, fd, &raw mut head, flags) })?;
    Ok(Taken { len, control_len: head.control_len, flags: head.flags })
}

fn receive_by(fd: i32, into: &mut [u8], flags: u32, mut others: impl FnMut(i32)) -> Result<Packet> {
    let mut control = [0; CONTROLS];
    let Taken { len, control_len, flags } = take(fd, into, &mut control, flags)?;
    let (mut packet, mut count) = (Packet { len, passed: None, sender: None }, 0);
    each_control(&control[..control_len.div_ceil(8).min(CONTROLS)], |kind, data| match kind {
        SCM_RIGHTS => data.for_each(|word| {
            count += 1;
            if let Some(more) = packet.passed.replace(word as i32) {
                others(more);
            }
        }),
        SCM_CREDENTIALS => {
            let ids = data.next().zip(data.next()).zip(data.next());
            packet.sender = ids.map(|((pid, uid), gid)| Sender { pid, uid, gid });
        }
        _ => {}
    });
    if flags & (MSG_CTRUNC | MSG_TRUNC) == 0 && count <= 1 {
        return Ok(packet);
    }
    packet.passed.into_iter().for_each(others);
    Err(Errno::EMSGSIZE)
}

/// The 32-bit words of a control buffer.
fn words(control: &[u64]) -> impl Iterator<Item = u32> {
    let halves = |word: u64| {
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
    };
    control.iter().flat_map(move |word| halves(*word))
}

/// Kind and data of each control message of a socket's.
fn each_control(mut rest: &[u64], mut each: impl FnMut(i32, &mut dyn Iterator<Item = u32>)) {
    while let Some((head, _)) = rest.split_at_checked(CONTROL_HEAD / 8) {
        let len = head[0] as usize;
        let mut kinds = words(&head[1..]).map(|word| word as i32);
        let (level, kind) = (kinds.next(), kinds.next());
        let Some(data) = len.checked_sub(CONTROL_HEAD) else { return };
        let padded = len.div_ceil(8);
        let Some(own) = rest.get(CONTROL_HEAD / 8..padded) else { return };
        if let (Some(SOL_SOCKET), Some(kind)) = (level, kind) {
            each(kind, &mut words(own).take(data / 4));
        }
        rest = rest.get(padded..).unwrap_or_default();
    }
}

/// From now on packets say who sent them.
pub fn ask_for_senders(fd: i32) -> Result<()> {
    const SO_PASSCRED: i32 = 16;
    crate::net::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &1i32)
}

/// What the kernel says of a process by its pidfd: by what it is, not by a number that may be another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Process id, as the caller counts.
    pub pid: u32,
    /// Real, effective, saved user, as the caller counts.
    pub users: [u32; 3],
    /// Real group.
    pub group: u32,
    /// Number of its cgroup (version 2): that of the directory, and of what BPF is told.
    pub cgroup: u64,
}

/// Asks a pidfd. Errors: ENOTTY and EINVAL where the kernel is older than 6.13; ESRCH if the process has
/// ended.
pub fn ask(pidfd: i32) -> Result<Told> {
    /// `struct pidfd_info` of `linux/pidfd.h`, in its first form.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        pid: u32,
        tgid: u32,
        ppid: u32,
        /// Real user and group, then effective, saved, and those of the file system.
        ids: [u32; 8],
        exit_code: i32,
    }
    const CREDS: u64 = 1 << 1;
    const CGROUP: u64 = 1 << 2;
    const GET_INFO: u32 = 0xC000_0000 | (size_of::<Info>() as u32) << 16 | 0xFF << 8 | 11;
    let mut info = Info { mask: CREDS | CGROUP, ..Info::default() };
    // SAFETY: `info` is writable for the size that the request number says.
    check(unsafe { syscall!(nr::__NR_ioctl, pidfd, GET_INFO, &raw mut info) })?;
    if info.mask & (CREDS | CGROUP) != CREDS | CGROUP {
        return Err(Errno::EOPNOTSUPP);
    }
    let [ruid, rgid, euid, _, suid, ..] = info.ids;
    Ok(Told { pid: info.tgid, users: [ruid, euid, suid], group: rgid, cgroup: info.cgroup })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// Two ends of a stream between which packets go.
    fn pair() -> [i32; 2] {
        let mut ends = [0i32; 2];
        // SAFETY: `ends` is writable for two descriptors.
        check(unsafe { syscall!(nr::__NR_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, ends.as_mut_ptr()) })
            .unwrap();
        ends
    }

    fn bare(len: usize) -> Packet {
        Packet { len, passed: None, sender: None }
    }

    #[test]
    fn packets_arrive_whole_with_what_was_passed() {
        let [one, other] = pair();
        let mut bytes = [0; 8];
        assert_eq!(receive(other, &mut bytes), Err(Errno::EAGAIN));
        let memory = crate::mem::sealed_memfd(c"test", 4096).unwrap();
        send(one, b"abc", Some(memory)).unwrap();
        send(one, b"defg", None).unwrap();
        let packet = receive(other, &mut bytes).unwrap();
        let passed = packet.passed.expect("one was passed");
        assert_eq!(crate::fd::identity(passed), crate::fd::identity(memory));
        assert_eq!((&bytes[..packet.len], packet.sender), (&b"abc"[..], None));
        assert!(crate::fd::is_cloexec(passed));
        assert_eq!(receive(other, &mut bytes), Ok(bare(4)));
        crate::fd::close(one);
        assert_eq!(receive(other, &mut bytes), Ok(bare(0)));
        assert!(send(other, b"x", None).is_err());
        [other, passed, memory].into_iter().for_each(crate::fd::close);
    }

    #[test]
    fn who_asks_is_told_who_sent_a_packet() {
        let [one, other] = pair();
        ask_for_senders(other).unwrap();
        send(one, b"a", Some(one)).unwrap();
        let packet = receive(other, &mut [0; 8]).unwrap();
        let (me, users, groups) = (crate::process::pid(), crate::process::users(), crate::process::groups());
        assert_eq!(packet.sender, Some(Sender { pid: me, uid: users[0], gid: groups[0] }));
        packet.passed.into_iter().chain([one, other]).for_each(crate::fd::close);
    }

    #[test]
    fn what_is_too_much_is_refused_and_closed() {
        let [one, other] = pair();
        // (A pipe's end tells whether anybody has the other one.)
        let (reader, writer) = std::io::pipe().unwrap();
        send(one, &[1; 9], Some(writer.as_raw_fd())).unwrap();
        drop(writer);
        assert_eq!(receive(other, &mut [0; 8]), Err(Errno::EMSGSIZE));
        assert!(crate::poll::peek(reader.as_raw_fd(), 0) & crate::poll::bits::HUP != 0);
        send(one, b"a", None).unwrap();
        assert_eq!(receive(other, &mut [0; 8]), Ok(bare(1)), "and the next one is heard");
        [one, other].into_iter().for_each(crate::fd::close);
    }

    /// A packet with so many copies of a descriptor.
    fn send_many(line: i32, passed: i32, count: usize) {
        const MOST: usize = 253;
        #[repr(C, align(8))]
        struct Many {
            len: usize,
            level: i32,
            kind: i32,
            fds: [i32; MOST],
        }
        let len = CONTROL_HEAD + count * size_of::<i32>();
        let mut control = Many { len, level: SOL_SOCKET, kind: SCM_RIGHTS, fds: [passed; MOST] };
        let mut piece = Piece { at: b"x".as_ptr().cast_mut(), len: 1 };
        let head = Head {
            name: core::ptr::null(),
            name_len: 0,
            pieces: &raw mut piece,
            pieces_len: 1,
            control: (&raw mut control).cast(),
            control_len: len.next_multiple_of(8),
            flags: 0,
        };
        // SAFETY: as in `send`.
        check(unsafe { syscall!(nr::__NR_sendmsg, line, &raw const head, MSG_DONTWAIT) }).unwrap();
    }

    #[test]
    fn who_may_not_wait_gets_one_descriptor_and_what_is_too_much_stays_where_it_is() {
        let [one, other] = pair();
        ask_for_senders(other).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let is_held = || crate::poll::peek(reader.as_raw_fd(), 0) & crate::poll::bits::HUP == 0;
        send(one, b"a", Some(writer.as_raw_fd())).unwrap();
        let mut others = vec![];
        let packet = receive_whole(other, &mut [0; 8], |more| others.push(more)).unwrap();
        assert!(packet.passed.is_some() && packet.sender.is_some() && others.is_empty());
        assert_eq!(receive_whole(other, &mut [0; 8], |_| ()), Err(Errno::EAGAIN), "it was taken");
        packet.passed.into_iter().for_each(crate::fd::close);
        send_many(one, writer.as_raw_fd(), 253);
        drop(writer);
        for _ in 0..3 {
            assert_eq!(receive_whole(other, &mut [0; 8], |more| others.push(more)), Err(Errno::EMSGSIZE));
        }
        assert_eq!(others.len(), 3, "one for each look");
        others.into_iter().for_each(crate::fd::close);
        assert!(is_held());
        crate::fd::close(other);
        assert!(!is_held());
        crate::fd::close(one);
    }

    #[test]
    fn what_brought_no_descriptors_is_drained() {
        let [one, other] = pair();
        ask_for_senders(other).unwrap();
        assert!(!drain(other, 9), "something may come yet");
        for packet in [&b"abc"[..], b"", b"d"] {
            send(one, packet, None).unwrap();
        }
        crate::fd::close(one);
        assert!(!drain(other, 2) && drain(other, 9));
        crate::fd::close(other);
        let [one, other] = pair();
        ask_for_senders(other).unwrap();
        send(one, b"a", Some(one)).unwrap();
        crate::fd::close(one);
        assert!(!drain(other, 9));
        crate::fd::close(other);
    }

    #[test]
    fn a_pidfd_tells_of_its_process() {
        let me = crate::process::pid();
        // SAFETY: makes a descriptor, touches no memory.
        let pidfd = check(unsafe { syscall!(nr::__NR_pidfd_open, me, 0) }).unwrap() as i32;
        match ask(pidfd) {
            Ok(told) => {
                assert_eq!((told.pid, told.users), (me, crate::process::users()));
                assert!(told.cgroup != 0);
            }
            Err(errno) => {
                assert!(matches!(errno, Errno::ENOTTY | Errno::EINVAL | Errno::EOPNOTSUPP), "{errno:?}");
            }
        }
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert!(ask(file.as_raw_fd()).is_err());
        crate::fd::close(pidfd);
    }

    #[test]
    fn nobody_there_is_an_error_at_once() {
        assert_eq!(connect(b"/nonexistent/ismd.sock"), Err(Errno::ENOENT));
        assert_eq!(connect(&[b'x'; PATH_MAX]), Err(Errno::EINVAL));
    }
}
