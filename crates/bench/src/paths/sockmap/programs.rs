//! The two programs. When a TCP connection over 127.0.0.1 of the cgroup opens, [`remember`] puts each end into a map by
//! its addresses; when an end sends, [`redirect`] looks for the other one and hands it the bytes.
//!
//! Offsets are those of `struct bpf_sock_ops` and `struct sk_msg_md`, numbers of helpers those of `enum bpf_func_id`,
//! all of <linux/bpf.h>: its binary interface.

use super::assembler::{Code, Map, R0, R1, R2, R3, R4, R6, R10, Register, object};

/// Map of sockets, by local address and port, remote address and port.
pub(super) const SOCKETS: &str = "sockets";
/// Counter of redirected messages, one per processor.
pub(super) const REDIRECTED: &str = "redirected";
/// Program for the cgroup.
pub(super) const REMEMBER: &str = "sockops";
/// Program for the map.
pub(super) const REDIRECT: &str = "sk_msg";

/// BPF_MAP_TYPE_SOCKHASH; more connections than a comparison has.
const SOCKET_MAP: Map = Map { name: SOCKETS, definition: [18, 16, 4, 65_536] };
/// BPF_MAP_TYPE_PERCPU_ARRAY.
const COUNTER_MAP: Map = Map { name: REDIRECTED, definition: [6, 4, 8, 1] };

/// BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB and BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB.
const ESTABLISHED: [i32; 2] = [4, 5];
/// BPF_F_INGRESS.
const TO_RECEIVE_QUEUE: i32 = 1;
const LOOKUP: i32 = 1;
const SOCK_HASH_UPDATE: i32 = 70;
const MSG_REDIRECT_HASH: i32 = 71;
/// SK_PASS, and what a cgroup's program returns to let things go on.
const PASS: i32 = 1;

/// Where the key is built, from the frame pointer: four words.
const KEY: i16 = -16;
/// Where the counter's key is built.
const INDEX: i16 = -20;

/// Offsets of a context's fields.
struct Fields {
    remote_address: i16,
    local_address: i16,
    remote_port: i16,
    local_port: i16,
}

const OF_SOCK_OPS: Fields = Fields { remote_address: 24, local_address: 28, remote_port: 64, local_port: 68 };
const OF_MSG: Fields = Fields { remote_address: 20, local_address: 24, remote_port: 60, local_port: 64 };

/// Both, as an object file.
pub(super) fn assemble() -> object::write::Result<Vec<u8>> {
    object(&[SOCKET_MAP, COUNTER_MAP], vec![(REMEMBER, remember()), (REDIRECT, redirect())])
}

fn remember() -> Code {
    let mut code = Code::default();
    code.copy(R6, R1);
    code.load(R2, R6, 0);
    code.skip_if(R2, ESTABLISHED[0], 1);
    code.end_unless(R2, ESTABLISHED[1]);
    code.load(R2, R6, OF_SOCK_OPS.local_address);
    code.end_unless(R2, i32::from_ne_bytes([127, 0, 0, 1]));
    let Fields { remote_address, local_address, remote_port, local_port } = OF_SOCK_OPS;
    word(&mut code, 0, local_address);
    word(&mut code, 1, local_port);
    word(&mut code, 2, remote_address);
    swapped_word(&mut code, 3, remote_port);
    with_key(&mut code, SOCK_HASH_UPDATE, 0);
    code.finish(PASS)
}

/// The other end's key is ours with the ends exchanged. A message that cannot be redirected goes over TCP.
fn redirect() -> Code {
    let mut code = Code::default();
    code.copy(R6, R1);
    let Fields { remote_address, local_address, remote_port, local_port } = OF_MSG;
    word(&mut code, 0, remote_address);
    swapped_word(&mut code, 1, remote_port);
    word(&mut code, 2, local_address);
    word(&mut code, 3, local_port);
    with_key(&mut code, MSG_REDIRECT_HASH, TO_RECEIVE_QUEUE);
    code.end_unless(R0, PASS);
    count(&mut code);
    code.finish(PASS)
}

/// The key's word `i` is the context's field at `offset`. Addresses are in network order, local ports in the host's.
fn word(code: &mut Code, i: i16, offset: i16) {
    code.load(R2, R6, offset);
    code.store(R10, KEY + 4 * i, R2);
}

/// For remote ports, which are in network order and in the upper half.
fn swapped_word(code: &mut Code, i: i16, offset: i16) {
    code.load(R2, R6, offset);
    code.make_big_endian(R2);
    code.store(R10, KEY + 4 * i, R2);
}

/// helper(context, sockets, key, flags)
fn with_key(code: &mut Code, helper: i32, flags: i32) {
    code.copy(R1, R6);
    code.map(R2, SOCKETS);
    address(code, R3, KEY);
    code.set(R4, flags);
    code.call(helper);
}

fn count(code: &mut Code) {
    code.set(R2, 0);
    code.store(R10, INDEX, R2);
    code.map(R1, REDIRECTED);
    address(code, R2, INDEX);
    code.call(LOOKUP);
    code.end_if(R0, 0);
    code.set(R1, 1);
    code.add_at(R0, 0, R1);
}

/// to = the frame's address at `offset`
fn address(code: &mut Code, to: Register, offset: i16) {
    code.copy(to, R10);
    code.add(to, offset.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object as _, ObjectSection as _};

    #[test]
    fn both_programs_use_the_map_of_sockets() {
        let bytes = assemble().expect("an object");
        let file = object::File::parse(&*bytes).expect("is read back");
        for (section, maps) in [(REMEMBER, 1), (REDIRECT, 2)] {
            let section = file.section_by_name(section).expect("a program");
            assert_eq!(section.relocations().count(), maps);
            assert!(section.size() % 8 == 0 && section.size() < 8 * 64);
        }
        assert_eq!(file.section_by_name("maps").map(|maps| maps.size()), Some(2 * 20));
    }
}
