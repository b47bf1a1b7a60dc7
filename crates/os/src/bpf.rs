//! bpf(2), as far as a loader library does not do it: tables for processes, links that are pinned, and what
//! lies in maps. For the host daemon; programs never make these calls. Owns: the layout of the arguments, and
//! that no buffer is shorter than the kernel takes it to be.

use crate::raw::{nr, syscall};
use crate::{Errno, Result, check};
use core::ffi::CStr;

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_NEXT: u32 = 4;
const OBJ_PIN: u32 = 6;
const OBJ_GET: u32 = 7;
const OBJ_INFO: u32 = 15;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const UPDATE_BATCH: u32 = 26;
const DELETE_BATCH: u32 = 27;
const LINK_CREATE: u32 = 28;
const LINK_UPDATE: u32 = 29;
const ARRAY: u32 = 2;
const MMAPABLE: u32 = 1 << 10;
const SOCK_OPS: u32 = 3;

/// `union bpf_attr` of `linux/bpf.h`, long enough for all of these.
type Arguments = [u32; 32];

fn address(of: *const u8) -> [u32; 2] {
    let address = of as u64;
    [address as u32, (address >> 32) as u32]
}

/// # Safety
/// Addresses in `arguments` are those of buffers that the call may use as it says.
unsafe fn call(command: u32, arguments: &mut Arguments) -> Result<usize> {
    // SAFETY: `arguments` is readable for its size; the rest is the caller's promise.
    check(unsafe { syscall!(nr::__NR_bpf, command, arguments.as_mut_ptr(), size_of::<Arguments>()) })
}

/// An array of `entries` values that a process can map; its descriptor.
pub fn new_table(entries: u32, value: u32) -> Result<i32> {
    let mut arguments = [0; 32];
    arguments[..5].copy_from_slice(&[ARRAY, 4, value, entries, MMAPABLE]);
    // SAFETY: no addresses.
    unsafe { call(MAP_CREATE, &mut arguments) }.map(|fd| fd as i32)
}

fn element(map: i32, key: &u32, value: *const u8) -> Arguments {
    let mut arguments = [0; 32];
    arguments[0] = map as u32;
    arguments[2..4].copy_from_slice(&address((&raw const *key).cast()));
    arguments[4..6].copy_from_slice(&address(value));
    arguments
}

/// Sets the value of `key` in a map from numbers to numbers, or to maps (whose value is a descriptor).
pub fn set(map: i32, key: u32, value: u32) -> Result<()> {
    let mut arguments = element(map, &key, (&raw const value).cast());
    // SAFETY: key and value are four bytes, as in the maps that this is for; a map with longer ones would
    // read beyond, into this frame, and harm nothing.
    unsafe { call(MAP_UPDATE, &mut arguments) }.map(drop)
}

/// The same where there is one. Error: ENOENT.
pub fn set_existing(map: i32, key: u32, value: u32) -> Result<()> {
    const EXIST: u32 = 2;
    let mut arguments = element(map, &key, (&raw const value).cast());
    arguments[6] = EXIST;
    // SAFETY: as for `set`.
    unsafe { call(MAP_UPDATE, &mut arguments) }.map(drop)
}

fn batch(map: i32, keys: &[u32], values: *const u8) -> Arguments {
    let mut arguments = [0; 32];
    arguments[4..6].copy_from_slice(&address(keys.as_ptr().cast()));
    arguments[6..8].copy_from_slice(&address(values));
    arguments[8..10].copy_from_slice(&[keys.len() as u32, map as u32]);
    arguments
}

/// Sets values of as many keys, in one go: in a map of maps the kernel waits once for all of them. Of keys
/// and values the shorter counts. After an error some may be set.
pub fn set_all(map: i32, keys: &[u32], values: &[u32]) -> Result<()> {
    let keys = &keys[..keys.len().min(values.len())];
    if keys.len() < 2 {
        return keys.iter().zip(values).try_for_each(|(key, value)| set(map, *key, *value));
    }
    let mut arguments = batch(map, keys, values.as_ptr().cast());
    // SAFETY: keys and values are four bytes each, and as many as is said.
    match unsafe { call(UPDATE_BATCH, &mut arguments) } {
        // (Kernels before 5.6, and maps of maps before 5.13.)
        Err(_) => keys.iter().zip(values).try_for_each(|(key, value)| set(map, *key, *value)),
        Ok(_) => Ok(()),
    }
}

/// Removes those of the keys that are there, in one go where the kernel can.
pub fn remove_all(map: i32, keys: &[u32]) {
    let mut left = keys;
    while left.len() > 1 {
        let mut arguments = batch(map, left, core::ptr::null());
        // SAFETY: keys are four bytes each, and as many as is said; the kernel writes the count.
        let done = unsafe { call(DELETE_BATCH, &mut arguments) };
        let count = (arguments[8] as usize).min(left.len());
        match done {
            Ok(_) => return,
            // The first one left is not there.
            Err(Errno::ENOENT) => left = &left[(count + 1).min(left.len())..],
            Err(_) => break,
        }
    }
    for key in left {
        let _ = remove(map, *key);
    }
}

/// The value of `key` in such a map. Error: ENOENT.
pub fn get(map: i32, key: u32) -> Result<u32> {
    // (Room for a value of another map's.)
    let mut value = [0u32; 64];
    let mut arguments = element(map, &key, value.as_mut_ptr().cast());
    // SAFETY: `value` is writable, and longer than the values of the maps that this is for.
    unsafe { call(MAP_LOOKUP, &mut arguments) }?;
    Ok(value[0])
}

/// Bytes of a value in a map whose keys are numbers (`struct bpf_map_info`).
fn value_len(map: i32) -> Result<usize> {
    let mut info = [0u32; 20];
    let mut arguments = [0; 32];
    arguments[..2].copy_from_slice(&[map as u32, size_of_val(&info) as u32]);
    arguments[2..4].copy_from_slice(&address(info.as_mut_ptr().cast()));
    // SAFETY: `info` is writable for the length that was said.
    unsafe { call(OBJ_INFO, &mut arguments) }?;
    match info[2] {
        4 => Ok(info[3] as usize),
        _ => Err(Errno::EINVAL),
    }
}

/// Sets the value of `key` in a map from numbers to structures. Error: EINVAL if those have another size.
pub fn put(map: i32, key: u32, value: &[u8]) -> Result<()> {
    if value_len(map)? != value.len() {
        return Err(Errno::EINVAL);
    }
    let mut arguments = element(map, &key, value.as_ptr());
    // SAFETY: the key is four bytes, and the value as long as the kernel said.
    unsafe { call(MAP_UPDATE, &mut arguments) }.map(drop)
}

/// Reads the value of `key` in such a map. Errors: ENOENT, EINVAL.
pub fn read(map: i32, key: u32, into: &mut [u8]) -> Result<()> {
    if value_len(map)? != into.len() {
        return Err(Errno::EINVAL);
    }
    let mut arguments = element(map, &key, into.as_mut_ptr());
    // SAFETY: the key is four bytes, and `into` writable for as many bytes as the kernel said.
    unsafe { call(MAP_LOOKUP, &mut arguments) }.map(drop)
}

/// Removes `key`. Error: ENOENT.
pub fn remove(map: i32, key: u32) -> Result<()> {
    let mut arguments = element(map, &key, core::ptr::null());
    // SAFETY: the key is four bytes, as in the maps that this is for.
    unsafe { call(MAP_DELETE, &mut arguments) }.map(drop)
}

/// The key behind `after`, or the first. Error: ENOENT behind the last.
pub fn next_key(map: i32, after: Option<u32>) -> Result<u32> {
    let (key, mut next) = (after.unwrap_or(0), [0u32; 16]);
    let mut arguments = element(map, &key, next.as_mut_ptr().cast());
    if after.is_none() {
        arguments[2..4].fill(0);
    }
    // SAFETY: `next` is writable, and longer than the keys of the maps that this is for.
    unsafe { call(MAP_NEXT, &mut arguments) }.map(|_| next[0])
}

/// What is pinned at `path`. Error: ENOENT.
pub fn pinned(path: &CStr) -> Result<i32> {
    let mut arguments = [0; 32];
    arguments[..2].copy_from_slice(&address(path.as_ptr().cast()));
    // SAFETY: the path is a string that outlives the call.
    unsafe { call(OBJ_GET, &mut arguments) }.map(|fd| fd as i32)
}

/// Runs a sockops program for the sockets of a cgroup as long as the link lives, which is pinned at `path`.
pub fn link_sock_ops(program: i32, cgroup: i32, path: &CStr) -> Result<()> {
    let mut arguments = [0; 32];
    arguments[..3].copy_from_slice(&[program as u32, cgroup as u32, SOCK_OPS]);
    // SAFETY: no addresses.
    let link = unsafe { call(LINK_CREATE, &mut arguments) }? as i32;
    pin(link, path)
}

fn pin(link: i32, path: &CStr) -> Result<()> {
    let mut arguments = [0; 32];
    arguments[..2].copy_from_slice(&address(path.as_ptr().cast()));
    arguments[2] = link as u32;
    // SAFETY: the path is a string that outlives the call.
    let pinned = unsafe { call(OBJ_PIN, &mut arguments) };
    crate::fd::close(link);
    pinned.map(drop)
}

/// Runs a program at a raw tracepoint as long as the link lives, which is pinned at `path`.
pub fn link_tracepoint(program: i32, tracepoint: &CStr, path: &CStr) -> Result<()> {
    let mut arguments = [0; 32];
    arguments[..2].copy_from_slice(&address(tracepoint.as_ptr().cast()));
    arguments[2] = program as u32;
    // SAFETY: the name is a string that outlives the call.
    let link = unsafe { call(RAW_TRACEPOINT_OPEN, &mut arguments) }? as i32;
    pin(link, path)
}

/// Lets a pinned link run another program, without a moment in which none runs. Errors: ENOENT; ENOLINK,
/// EINVAL where its cgroup is gone.
pub fn relink(path: &CStr, program: i32) -> Result<()> {
    let link = pinned(path)?;
    let mut arguments = [0; 32];
    arguments[..2].copy_from_slice(&[link as u32, program as u32]);
    // SAFETY: no addresses.
    let done = unsafe { call(LINK_UPDATE, &mut arguments) };
    crate::fd::close(link);
    done.map(drop)
}
