//! sock_diag: who owns a pair of addresses. Owns: the layout of the question and of the answer.

use super::world::{Kind, Pid, World};
use os::net::{AF_INET, Endpoint};
use os::{Errno, Result};

const FAMILY: usize = 16;
const ID: usize = 24;
const ID_LEN: usize = 48;

fn number(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl World {
    /// The answer waits in the socket that was asked.
    pub(crate) fn ask_diag(&mut self, pid: Pid, fd: i32, question: &[u8]) -> Result<usize> {
        let file = self.file_of(pid, fd)?;
        if self.file(file).kind != Kind::Diag || question.len() < ID + ID_LEN {
            return Err(Errno::EINVAL);
        }
        let id = &question[ID..ID + ID_LEN];
        let end = |port: u16, addr: &[u8]| {
            let mut endpoint = Endpoint { family: AF_INET, port, ..Endpoint::default() };
            endpoint.addr.copy_from_slice(addr);
            endpoint
        };
        let local = end(number(id, 0), &id[4..20]);
        let remote = end(number(id, 2), &id[20..36]);
        let is_known = question[FAMILY] == AF_INET as u8;
        let answer = match self.find(local, remote).filter(|_| is_known) {
            Some(found) => told(id, found),
            None => refused(Errno::ENOENT),
        };
        self.file_mut(file).answer = answer.into();
        Ok(question.len())
    }

    pub(crate) fn take_answer(&mut self, file: usize, into: &mut [u8]) -> Result<usize> {
        let answer = core::mem::take(&mut self.file_mut(file).answer);
        let count = into.len().min(answer.len());
        into.iter_mut().zip(answer).for_each(|(place, byte)| *place = byte);
        if count == 0 { Err(Errno::EAGAIN) } else { Ok(count) }
    }
}

fn header(kind: u16, len: usize) -> Vec<u8> {
    let mut answer = vec![0; len];
    answer[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    answer[4..6].copy_from_slice(&kind.to_ne_bytes());
    answer
}

/// `struct inet_diag_msg`.
fn told(id: &[u8], (cookie, uid, inode, state): (u64, u32, u64, u8)) -> Vec<u8> {
    const BY_FAMILY: u16 = 20;
    let mut answer = header(BY_FAMILY, 88);
    (answer[16], answer[17]) = (AF_INET as u8, state);
    answer[20..20 + ID_LEN].copy_from_slice(id);
    answer[60..68].copy_from_slice(&cookie.to_ne_bytes());
    answer[80..84].copy_from_slice(&uid.to_ne_bytes());
    answer[84..88].copy_from_slice(&(inode as u32).to_ne_bytes());
    answer
}

/// `struct nlmsgerr`.
fn refused(Errno(errno): Errno) -> Vec<u8> {
    let mut answer = header(2, 36);
    answer[16..20].copy_from_slice(&(-errno).to_ne_bytes());
    answer
}
