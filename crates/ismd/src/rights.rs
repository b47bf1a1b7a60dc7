//! What the kernel is told so that it decides about connections itself: the lines of the policy, and of
//! each process which of them are about it. Owns: the layout of both (`struct rule` and `struct rights`
//! of `bpf/mark.bpf.c`), and that there are two halves, of which the program looks at one while the
//! daemon writes the other: no connection is judged by half a policy.

use crate::policy::place::Place;
use crate::policy::{Line, Policy};
use crate::who::Who;

/// Lines of each half.
pub(crate) const LINES: usize = crate::policy::file::LINES;
const WORDS: usize = LINES / 64;
/// Bytes of a line.
pub(crate) const LINE: usize = 2 * PLACE + 4;
const PLACE: usize = 36;
/// Bytes of what is said of a process: who it is, and by each half what it may.
pub(crate) const RIGHTS: usize = HEAD + 2 * PART;
const HEAD: usize = 16;
const PART: usize = 8 + 2 * 8 * WORDS;

/// Of one process, by one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    uid: u32,
    user_namespace: u32,
    process_namespace: u32,
    vchid: u32,
    part: [u8; PART],
}

impl Rights {
    /// What `policy` says of a process with a function on this fabric.
    pub(crate) fn of(who: &Who, vchid: u16, policy: &Policy) -> Rights {
        let (clients, servers) = policy.lines_of(who, vchid);
        let mut part = [0; PART];
        part[..8].copy_from_slice(&policy.project_of(who).map_or(0, number).to_ne_bytes());
        for (at, all) in [(8, clients), (8 + 8 * WORDS, servers)] {
            for (word, bits) in all.chunks(64).enumerate() {
                let bits = bits.iter().enumerate().fold(0u64, |word, (at, bit)| word | u64::from(*bit) << at);
                part[at + 8 * word..][..8].copy_from_slice(&bits.to_ne_bytes());
            }
        }
        // (Inodes of namespaces have 32 bits.)
        let [user_namespace, process_namespace] =
            [who.user.user_namespace, who.user.process_namespace].map(|inode| inode as u32);
        Rights { uid: who.user.uid, user_namespace, process_namespace, vchid: vchid.into(), part }
    }

    /// Into what the kernel has, as what counts in `half`; in both, if it is a process that it did not know.
    pub(crate) fn write(&self, half: u32, known: &mut Option<[u8; RIGHTS]>) -> [u8; RIGHTS] {
        let words = [self.uid, self.user_namespace, self.process_namespace, self.vchid];
        let mut bytes = known.unwrap_or([0; RIGHTS]);
        for (to, word) in bytes.chunks_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        for other in [0, 1] {
            if other == half || known.is_none() {
                bytes[HEAD + other as usize * PART..][..PART].copy_from_slice(&self.part);
            }
        }
        *known = Some(bytes);
        bytes
    }
}

/// The fabric that is said of a process.
pub(crate) fn vchid_in(rights: &[u8; RIGHTS]) -> u16 {
    u16::from_ne_bytes([rights[12], rights[13]])
}

/// A project by a number that is the same for every daemon, and not 0 (FNV-1a).
fn number(name: &str) -> u64 {
    let add = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    name.bytes().fold(0xCBF2_9CE4_8422_2325, add).max(1)
}

/// The lines of a policy.
pub(crate) fn lines(policy: &Policy) -> Vec<[u8; LINE]> {
    policy.lines().map(|(_, line)| line_of(&line)).collect()
}

fn line_of(line: &Line) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    bytes[..PLACE].copy_from_slice(&place(&line.client));
    bytes[PLACE..2 * PLACE].copy_from_slice(&place(&line.server));
    bytes[2 * PLACE..].copy_from_slice(&u32::from(line.is_allowed).to_ne_bytes());
    bytes
}

fn place(place: &Place) -> [u8; PLACE] {
    let mut bytes = [0; PLACE];
    bytes[..16].copy_from_slice(&place.network.address.to_be_bytes());
    bytes[16..32].copy_from_slice(&place.network.mask.to_be_bytes());
    bytes[32..34].copy_from_slice(&place.ports.low.to_ne_bytes());
    bytes[34..].copy_from_slice(&place.ports.high.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::file::parse;
    use crate::who::User;

    fn policy(text: &str) -> Policy {
        parse("test", text).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn process(uid: u32) -> Who {
        let user = User { uid, user_namespace: 8, process_namespace: 9 };
        let payer = crate::who::Payer::User(uid);
        Who { user, payer, pid: 1, gid: 1, cgroup: "/a".into(), cgroup_id: 1, program: "p".into() }
    }

    #[test]
    fn a_line_lies_as_the_program_reads_it() {
        let text = "[[rule]]\nallow = true\nserver = { address = \"10.5.0.0/16\", port = 258 }\n";
        let line = lines(&policy(text))[0];
        let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 5, 0, 0];
        assert_eq!(line[36..52], v4);
        assert_eq!((line[64..68].to_vec(), line[68] | line[70]), (vec![0xFF, 0xFF, 0, 0], 2));
        assert_eq!(line[..32], [0; 32], "any client");
        assert_eq!(line[72..], 1u32.to_ne_bytes());
    }

    #[test]
    fn what_counts_is_written_beside_what_counted() {
        let first = policy("[[rule]]\nallow = true\nclient = { uid = 5 }\n");
        let second = policy("[[project]]\nname = \"a\"\ncgroup = \"/a\"\n");
        let mut known = None;
        let begun = Rights::of(&process(5), 0xFF00, &first).write(1, &mut known);
        let (at, bit) = (|half: usize| HEAD + half * PART, |on: u64| on.to_ne_bytes());
        assert_eq!(begun[..4], 5u32.to_ne_bytes());
        assert_eq!(vchid_in(&begun), 0xFF00);
        assert_eq!((&begun[at(0) + 8..][..8], &begun[at(1) + 8..][..8]), (&bit(1)[..], &bit(1)[..]));
        let next = Rights::of(&process(5), 0xFF00, &second).write(0, &mut known);
        assert_eq!((&next[at(0) + 8..][..8], &next[at(1) + 8..][..8]), (&bit(0)[..], &bit(1)[..]));
        assert_ne!(next[at(0)..][..8], [0; 8], "in a project");
        assert_eq!(next[at(1)..][..8], [0; 8], "in none");
    }

    #[test]
    fn of_the_128_lines_each_has_a_bit() {
        let ports: Vec<String> = (1..=LINES).map(|port| port.to_string()).collect();
        let text = format!("[[rule]]\nallow = false\nserver = {{ uid = 7, port = [{}] }}\n", ports.join(","));
        let rights = Rights::of(&process(6), 1, &policy(&text));
        assert_eq!(rights.part[8..8 + 8 * WORDS], [0xFF; 8 * WORDS]);
        assert_eq!(rights.part[8 + 8 * WORDS..], [0; 8 * WORDS]);
    }
}
