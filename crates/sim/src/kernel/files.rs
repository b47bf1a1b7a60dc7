//! Files, pipes, names, locks of bytes, and /proc as far as it is looked at. Owns: that a lock lives as long
//! as its open file, and that a file opened anew through /proc is another open file of the same thing.

use super::world::{Fd, Held, Inode, Kind, Life, Pid, Pipe, World};
use os::poll::bits;
use os::raw::nr;
use os::sim::{Backing, FileAbout, Lock};
use os::{Errno, Result};

const PIPEFS_MAGIC: usize = 0x5049_5045;
const TMPFS_MAGIC: usize = 0x0102_1994;
const SOCKFS_MAGIC: usize = 0x534F_434B;
const F_GETPIPE_SZ: u32 = 1032;
const F_SETPIPE_SZ: u32 = 1031;
const F_ADD_SEALS: u32 = 1033;
const F_GET_SEALS: u32 = 1034;

impl World {
    pub(crate) fn fcntl(&mut self, pid: Pid, fd: i32, command: u32, argument: usize) -> Result<usize> {
        let file = self.file_of(pid, fd)?;
        let kind = self.file(file).kind;
        match command {
            nr::F_DUPFD | nr::F_DUPFD_CLOEXEC => {
                let is_cloexec = command == nr::F_DUPFD_CLOEXEC;
                self.add_fd(pid, file, argument as i32, is_cloexec).map(|fd| fd as usize)
            }
            nr::F_GETFD => Ok(usize::from(self.process(pid).fds[&fd].is_cloexec)),
            nr::F_SETFD => {
                let number = self.process_mut(pid).fds.get_mut(&fd).ok_or(Errno::EBADF)?;
                number.is_cloexec = argument & 1 != 0;
                Ok(0)
            }
            nr::F_GETFL => Ok(self.file(file).flags as usize),
            nr::F_SETFL => {
                let flags = &mut self.file_mut(file).flags;
                *flags = *flags & !nr::O_NONBLOCK | argument as u32 & nr::O_NONBLOCK;
                Ok(0)
            }
            F_SETPIPE_SZ | F_GETPIPE_SZ => match kind {
                Kind::Pipe(pipe) if command == F_SETPIPE_SZ => {
                    self.pipes[pipe].room = argument.max(4096);
                    Ok(argument)
                }
                Kind::Pipe(pipe) => Ok(self.pipes[pipe].room),
                _ => Err(Errno::EBADF),
            },
            F_ADD_SEALS | F_GET_SEALS => {
                let Kind::File(inode) = kind else { return Err(Errno::EINVAL) };
                let inode = self.inodes.get_mut(&inode).ok_or(Errno::EINVAL)?;
                if command == F_ADD_SEALS {
                    inode.seals |= argument as u32;
                    return Ok(0);
                }
                Ok(inode.seals as usize)
            }
            _ => Ok(0),
        }
    }

    /// dup2(2) and dup3(2).
    pub(crate) fn replace(&mut self, pid: Pid, old: i32, new: i32, is_cloexec: bool) -> Result<usize> {
        let file = self.file_of(pid, old)?;
        if old == new {
            return Ok(new as usize);
        }
        if new as u64 >= self.process(pid).limit[0] {
            return Err(Errno::EBADF);
        }
        self.file_mut(file).refs += 1;
        let _ = self.close_fd(pid, new);
        self.process_mut(pid).fds.insert(new, Fd { file, is_cloexec });
        Ok(new as usize)
    }

    pub(crate) fn close_range(&mut self, pid: Pid, first: u32, last: u32, flags: u32) -> Result<usize> {
        const ONLY_CLOEXEC: u32 = 4;
        let range = first as i32..=last.min(i32::MAX as u32) as i32;
        let fds: Vec<i32> = self.process(pid).fds.range(range).map(|(fd, _)| *fd).collect();
        for fd in fds {
            if flags & ONLY_CLOEXEC == 0 {
                self.close_fd(pid, fd)?;
            } else if let Some(number) = self.process_mut(pid).fds.get_mut(&fd) {
                number.is_cloexec = true;
            }
        }
        Ok(0)
    }

    pub(crate) fn stat(&self, pid: Pid, fd: i32) -> Result<FileAbout> {
        let (uid, file) = (self.process(pid).uid, self.file(self.file_of(pid, fd)?));
        let about = |device, inode, mode, len| FileAbout { device, inode, mode, uid, len };
        Ok(match file.kind {
            Kind::File(number) => {
                let inode = &self.inodes[&number];
                FileAbout { device: 1, inode: number, mode: inode.mode, uid: inode.uid, len: inode.len }
            }
            Kind::Pipe(pipe) => about(2, pipe as u64 + 1, 0o010_600, 0),
            Kind::Socket(socket) => about(3, self.socket(socket).inode, 0o140_777, 0),
            Kind::Link(mode) => about(4, 0, 0o120_000 | mode, 0),
            Kind::Epoll(_) | Kind::Diag | Kind::Text => about(5, 0, 0o600, 0),
        })
    }

    pub(crate) fn file_system(&self, pid: Pid, fd: i32) -> Result<usize> {
        Ok(match self.kind_of(pid, fd)? {
            Kind::File(_) => TMPFS_MAGIC,
            Kind::Pipe(_) => PIPEFS_MAGIC,
            Kind::Socket(_) => SOCKFS_MAGIC,
            _ => 0,
        })
    }

    fn make_file(&mut self, mode: u32, uid: u32) -> u64 {
        let number = self.number();
        let inode = Inode { backing: Backing::new(), len: 0, seals: 0, mode, uid, locks: vec![] };
        self.inodes.insert(number, inode);
        number
    }

    pub(crate) fn memfd(&mut self, pid: Pid) -> Result<usize> {
        let inode = self.make_file(0o100_777, self.process(pid).uid);
        self.open_as(pid, Kind::File(inode), nr::O_RDWR | nr::O_CLOEXEC)
    }

    fn inode_of(&mut self, pid: Pid, fd: i32) -> Result<&mut Inode> {
        match self.kind_of(pid, fd)? {
            Kind::File(number) => self.inodes.get_mut(&number).ok_or(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn resize(&mut self, pid: Pid, fd: i32, len: u64) -> Result<usize> {
        const SHRINK: u32 = 2;
        const GROW: u32 = 4;
        let inode = self.inode_of(pid, fd)?;
        let seal = if len < inode.len { SHRINK } else { GROW };
        if len != inode.len && inode.seals & seal != 0 {
            return Err(Errno::EPERM);
        }
        inode.backing.resize(len);
        inode.len = len;
        Ok(0)
    }

    pub(crate) fn backing(&mut self, pid: Pid, fd: i32) -> Result<usize> {
        self.inode_of(pid, fd).map(|inode| inode.backing.number() as usize)
    }

    fn in_the_way(&self, pid: Pid, fd: i32, lock: Lock) -> Result<(u64, Option<Held>)> {
        let file = self.file_of(pid, fd)?;
        let Kind::File(number) = self.file(file).kind else { return Err(Errno::EINVAL) };
        let end = if lock.len == 0 { u64::MAX } else { lock.start + lock.len };
        let is_exclusive = lock.kind == 1;
        let held = self.inodes[&number].locks.iter().copied().find(|held| {
            held.file != file
                && held.start < end
                && lock.start < held.end
                && (is_exclusive || held.is_exclusive)
        });
        Ok((number, held))
    }

    pub(crate) fn lock(&mut self, pid: Pid, fd: i32, lock: Lock) -> Result<usize> {
        const UNLOCK: i16 = 2;
        let (number, held) = self.in_the_way(pid, fd, lock)?;
        let file = self.file_of(pid, fd)?;
        let inode = self.inodes.get_mut(&number).ok_or(Errno::EBADF)?;
        let end = if lock.len == 0 { u64::MAX } else { lock.start + lock.len };
        if lock.kind == UNLOCK {
            inode.locks.retain(|held| held.file != file || held.start >= end || held.end <= lock.start);
            return Ok(0);
        }
        if held.is_some() {
            return Err(Errno::EAGAIN);
        }
        inode.locks.push(Held { file, start: lock.start, end, is_exclusive: lock.kind == 1 });
        Ok(0)
    }

    pub(crate) fn ask_lock(&self, pid: Pid, fd: i32, lock: &mut Lock) -> Result<usize> {
        let (_, held) = self.in_the_way(pid, fd, *lock)?;
        lock.kind = held.map_or(2, |held| i16::from(held.is_exclusive));
        Ok(0)
    }

    pub(crate) fn open(&mut self, pid: Pid, path: &[u8], flags: u32) -> Result<usize> {
        match path.strip_prefix(b"/proc/") {
            Some(rest) => self.open_in_proc(pid, rest, flags),
            None => self.open_by_name(pid, path, flags),
        }
    }

    fn open_by_name(&mut self, pid: Pid, path: &[u8], flags: u32) -> Result<usize> {
        if flags & nr::O_DIRECTORY != 0 {
            let prefix = [path, b"/"].concat();
            let names: Vec<_> =
                self.names.keys().filter_map(|name| Some(name.strip_prefix(&*prefix)?.to_vec())).collect();
            return self.open_names(pid, &names);
        }
        let known = self.names.get(path).copied();
        let is_new = flags & nr::O_CREAT != 0;
        let inode = match known {
            Some(_) if is_new && flags & nr::O_EXCL != 0 => return Err(Errno::EEXIST),
            Some(inode) => inode,
            None if is_new => {
                let inode = self.make_file(0o100_600, self.process(pid).uid);
                self.names.insert(path.to_vec(), inode);
                inode
            }
            None => return Err(Errno::ENOENT),
        };
        let fd = self.open_as(pid, Kind::File(inode), flags)?;
        self.note_name(pid, fd, flags);
        Ok(fd)
    }

    fn note_name(&mut self, pid: Pid, fd: usize, flags: u32) {
        if let Ok(file) = self.file_of(pid, fd as i32) {
            self.file_mut(file).is_name = flags & nr::O_PATH != 0;
        }
    }

    /// `PID/stat`, `PID/fd` or `PID/fd/N`.
    fn open_in_proc(&mut self, pid: Pid, path: &[u8], flags: u32) -> Result<usize> {
        let text = core::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
        let mut parts = text.split('/');
        let whose = match parts.next() {
            Some("self") => pid,
            Some(number) => number.parse().map_err(|_| Errno::ENOENT)?,
            None => return Err(Errno::ENOENT),
        };
        let process = self.processes.get(&whose).filter(|process| process.life != Life::Gone);
        let process = process.ok_or(Errno::ENOENT)?;
        match (parts.next(), parts.next()) {
            (Some("stat"), _) => {
                let text = stat_line(whose, process.life, process.started);
                self.open_text(pid, text.as_bytes())
            }
            (Some("fd"), None) => {
                let names: Vec<_> = process.fds.keys().map(|fd| fd.to_string().into_bytes()).collect();
                self.open_names(pid, &names)
            }
            (Some("fd"), Some(number)) => {
                let fd: i32 = number.parse().map_err(|_| Errno::ENOENT)?;
                let file = process.fds.get(&fd).ok_or(Errno::ENOENT)?.file;
                self.open_again(pid, file, flags)
            }
            _ => Err(Errno::ENOENT),
        }
    }

    fn open_again(&mut self, pid: Pid, file: usize, flags: u32) -> Result<usize> {
        let target = self.file(file);
        let (kind, access) = (target.kind, target.flags & 3);
        if flags & (nr::O_PATH | nr::O_NOFOLLOW) == nr::O_PATH | nr::O_NOFOLLOW {
            let mode = [0o500, 0o300, 0o700][access.min(2) as usize];
            return self.open_as(pid, Kind::Link(mode), flags);
        }
        if flags & nr::O_PATH == 0 {
            match kind {
                Kind::Pipe(pipe) => self.count_pipe(pipe, flags, true),
                Kind::File(_) => {}
                _ => return Err(Errno(6)),
            }
        }
        let fd = self.open_as(pid, kind, flags)?;
        self.note_name(pid, fd, flags);
        Ok(fd)
    }

    fn open_text(&mut self, pid: Pid, text: &[u8]) -> Result<usize> {
        let fd = self.open_as(pid, Kind::Text, nr::O_CLOEXEC)?;
        let file = self.file_of(pid, fd as i32)?;
        self.file_mut(file).answer.extend(text);
        Ok(fd)
    }

    /// A folder: the records that getdents64(2) gives.
    fn open_names(&mut self, pid: Pid, names: &[Vec<u8>]) -> Result<usize> {
        let records: Vec<u8> = names.iter().flat_map(|name| record(name)).collect();
        self.open_text(pid, &records)
    }

    /// Whole records only.
    pub(crate) fn names(&mut self, pid: Pid, fd: i32, into: &mut [u8]) -> Result<usize> {
        let file = self.file_of(pid, fd)?;
        let answer = &mut self.file_mut(file).answer;
        let mut count = 0;
        while let (Some(low), Some(high)) = (answer.get(16), answer.get(17)) {
            let len = usize::from(u16::from_ne_bytes([*low, *high]));
            if count + len > into.len() {
                break;
            }
            for (place, byte) in into[count..].iter_mut().zip(answer.drain(..len)) {
                *place = byte;
            }
            count += len;
        }
        Ok(count)
    }

    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<usize> {
        if self.names.contains_key(to) {
            return Err(Errno::EEXIST);
        }
        let inode = self.names.remove(from).ok_or(Errno::ENOENT)?;
        self.names.insert(to.to_vec(), inode);
        Ok(0)
    }

    pub(crate) fn pipe(&mut self, pid: Pid, ends: &mut [i32; 2]) -> Result<usize> {
        self.pipes.push(Pipe { room: 65_536, ..Pipe::default() });
        let pipe = self.pipes.len() - 1;
        let common = nr::O_NONBLOCK | nr::O_CLOEXEC;
        for (end, access) in ends.iter_mut().zip([nr::O_RDONLY, nr::O_WRONLY]) {
            self.count_pipe(pipe, access, true);
            *end = self.open_as(pid, Kind::Pipe(pipe), access | common)? as i32;
        }
        Ok(0)
    }

    /// An open file of a pipe comes, or goes.
    pub(crate) fn count_pipe(&mut self, pipe: usize, flags: u32, comes: bool) {
        let pipe = &mut self.pipes[pipe];
        let change = |count: &mut u32| *count = count.wrapping_add(if comes { 1 } else { u32::MAX });
        if flags & 3 != nr::O_WRONLY {
            change(&mut pipe.readers);
        }
        if flags & 3 != nr::O_RDONLY {
            change(&mut pipe.writers);
        }
        pipe.version += u64::from(!comes);
    }

    pub(crate) fn pipe_level(&self, pipe: usize, flags: u32) -> u32 {
        let pipe = &self.pipes[pipe];
        let mut level = 0;
        if flags & 3 != nr::O_WRONLY {
            level |= if pipe.bytes.is_empty() { 0 } else { bits::IN | bits::RDNORM };
            level |= if pipe.writers == 0 { bits::HUP } else { 0 };
        }
        if flags & 3 != nr::O_RDONLY {
            level |= if pipe.bytes.len() < pipe.room { bits::OUT | bits::WRNORM } else { 0 };
            level |= if pipe.readers == 0 { bits::ERR } else { 0 };
        }
        u32::from(level as u16)
    }

    pub(crate) fn read(&mut self, pid: Pid, fd: i32, into: &mut [u8]) -> Result<usize> {
        let file = self.file_of(pid, fd)?;
        match self.file(file).kind {
            Kind::Socket(socket) => self.receive_tcp(socket, into, 0),
            Kind::Pipe(pipe) => {
                let pipe = &mut self.pipes[pipe];
                if pipe.bytes.is_empty() {
                    return if pipe.writers == 0 { Ok(0) } else { Err(Errno::EAGAIN) };
                }
                let was_full = pipe.bytes.len() == pipe.room;
                let count = into.len().min(pipe.bytes.len());
                into.iter_mut().zip(pipe.bytes.drain(..count)).for_each(|(place, byte)| *place = byte);
                pipe.version += u64::from(was_full);
                Ok(count)
            }
            Kind::Text => {
                let answer = &mut self.file_mut(file).answer;
                let count = into.len().min(answer.len());
                into.iter_mut().zip(answer.drain(..count)).for_each(|(place, byte)| *place = byte);
                Ok(count)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn write(&mut self, pid: Pid, fd: i32, from: &[u8]) -> Result<usize> {
        let file = self.file_of(pid, fd)?;
        match self.file(file).kind {
            Kind::Socket(socket) => self.send_tcp(socket, from),
            Kind::Pipe(pipe) => {
                let pipe = &mut self.pipes[pipe];
                if pipe.readers == 0 {
                    return Err(Errno::EPIPE);
                }
                let count = from.len().min(pipe.room - pipe.bytes.len());
                if count == 0 {
                    return Err(Errno::EAGAIN);
                }
                pipe.bytes.extend(&from[..count]);
                pipe.version += 1;
                Ok(count)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// proc_pid_stat(5), as far as it is read.
fn stat_line(pid: Pid, life: Life, started: u64) -> String {
    let letter = if life == Life::Zombie { 'Z' } else { 'S' };
    let flags = if life == Life::Running { 0 } else { 4 };
    format!("{pid} (program) {letter} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0\n")
}

/// `struct linux_dirent64`.
fn record(name: &[u8]) -> Vec<u8> {
    let len = (19 + name.len() + 1).next_multiple_of(8);
    let mut record = vec![0; len];
    record[16..18].copy_from_slice(&(len as u16).to_ne_bytes());
    record[19..19 + name.len()].copy_from_slice(name);
    record
}
