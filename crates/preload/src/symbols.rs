//! The symbol table of a loaded object, as the dynamic linker has it in memory. Owns: how it is read, and
//! that a symbol's value changes by one store, since other threads may be looking names up meanwhile.

use core::ffi::{CStr, c_char, c_int, c_void};
use sync::{AtomicU64, Ordering};

/// `struct dl_phdr_info`, as far as every libc has it.
#[repr(C)]
struct Info {
    base: usize,
    name: *const c_char,
    headers: *const Header,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    at: usize,
    physical: u64,
    file_len: u64,
    len: usize,
    align: u64,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: AtomicU64,
    len: u64,
}

impl Symbol {
    fn is_function(&self) -> bool {
        self.info & 0xf == STT_FUNC
    }
}

const STT_FUNC: u8 = 2;
const PF_X: u32 = 1;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: usize = 0;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;

/// An object whose symbols are found by a table of hashes in GNU's form. It stays while dl_iterate_phdr
/// shows it, libc and this library for ever.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    base: usize,
    /// What it occupies.
    from: usize,
    to: usize,
    /// Where its symbols lie nothing runs.
    is_apart: bool,
    symbols: *const Symbol,
    names: *const c_char,
    hashes: *const u32,
}

/// Shows `look` the objects of this namespace, with the last parts of their names. Nothing loads or unloads
/// meanwhile; `look` may therefore ask the dynamic linker nothing.
///
/// # Safety
/// `walk` is libc's dl_iterate_phdr.
pub(crate) unsafe fn each_object(walk: *mut c_void, mut look: impl FnMut(&[u8], Object)) {
    type Look<'a> = &'a mut dyn FnMut(&[u8], Object);
    unsafe extern "C" fn one(info: *const Info, _: usize, look: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes an object that stays during the call, and the pointer it was given.
        let (info, look) = unsafe { (&*info, &mut *look.cast::<Look<'_>>()) };
        if !info.name.is_null()
            // SAFETY: as above.
            && let Some(object) = unsafe { Object::of(info) }
        {
            // SAFETY: the name is a string.
            let name = unsafe { CStr::from_ptr(info.name) };
            look(name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default(), object);
        }
        0
    }
    type Walk = unsafe extern "C" fn(
        unsafe extern "C" fn(*const Info, usize, *mut c_void) -> c_int,
        *mut c_void,
    ) -> c_int;
    let mut look: Look<'_> = &mut look;
    // SAFETY: the caller's word; the closure outlives the call.
    unsafe { core::mem::transmute::<*mut c_void, Walk>(walk)(one, (&raw mut look).cast()) };
}

impl Object {
    /// # Safety
    /// `info` describes an object that is loaded.
    unsafe fn of(info: &Info) -> Option<Object> {
        // SAFETY: so many headers are there.
        let headers = unsafe { core::slice::from_raw_parts(info.headers, info.count.into()) };
        let parts = || headers.iter().filter(|header| header.kind == PT_LOAD);
        let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC)?;
        let mut object = Object {
            base: info.base,
            from: info.base.wrapping_add(parts().map(|part| part.at).min()?),
            to: info.base.wrapping_add(parts().map(|part| part.at + part.len).max()?),
            is_apart: false,
            symbols: core::ptr::null(),
            names: core::ptr::null(),
            hashes: core::ptr::null(),
        };
        let mut entry = info.base.wrapping_add(dynamic.at) as *const [usize; 2];
        loop {
            // SAFETY: the dynamic section is mapped, and ends with DT_NULL.
            let [tag, value] = unsafe { *entry };
            // (glibc has made addresses of most offsets.)
            let at = if value < info.base { info.base.wrapping_add(value) } else { value };
            match tag {
                DT_NULL => break,
                DT_STRTAB => object.names = at as _,
                DT_SYMTAB => object.symbols = at as _,
                DT_GNU_HASH => object.hashes = at as _,
                _ => {}
            }
            // SAFETY: not past DT_NULL.
            entry = unsafe { entry.add(1) };
        }
        let at = object.symbols.addr().wrapping_sub(info.base);
        object.is_apart = parts()
            .find(|part| (part.at..part.at + part.len).contains(&at))
            .is_some_and(|part| part.flags & PF_X == 0);
        let is_whole =
            !object.names.is_null() && !object.symbols.is_null() && object.contains(object.hashes.addr());
        is_whole.then_some(object)
    }

    /// Whether pages of its symbols hold no code.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        (self.from..self.to).contains(&address)
    }

    /// The buckets, the chains that begin there, and the first symbol that has a place in a chain.
    fn chains(&self) -> (&'static [u32], *const u32, u32) {
        // SAFETY: the table begins with four words; then come `words` of 64 bits, the buckets, the chains.
        unsafe {
            let [buckets, first, words, _] = *self.hashes.cast::<[u32; 4]>();
            let at = self.hashes.add(4 + 2 * words as usize);
            (core::slice::from_raw_parts(at, buckets as usize), at.add(buckets as usize), first)
        }
    }

    /// Follows the chain of a bucket: the symbols in it with their hashes, but for the lowest bit.
    fn follow(&self, bucket: u32, mut look: impl FnMut(&'static Symbol, u32)) {
        let (_, chains, first) = self.chains();
        let mut number = bucket;
        while number >= first && number != 0 {
            // SAFETY: a chain names symbols of the table, and its last word has the lowest bit.
            let (symbol, hash) =
                unsafe { (&*self.symbols.add(number as usize), *chains.add((number - first) as usize)) };
            look(symbol, hash | 1);
            if hash & 1 != 0 {
                break;
            }
            number += 1;
        }
    }

    fn name(&self, symbol: &Symbol) -> &'static CStr {
        // SAFETY: symbols name strings of the table.
        unsafe { CStr::from_ptr(self.names.add(symbol.name as usize)) }
    }

    /// The functions that it exports, by name and address.
    pub(crate) fn each_export(&self, mut look: impl FnMut(&'static CStr, usize)) {
        for bucket in self.chains().0 {
            self.follow(*bucket, |symbol, _| {
                let value = symbol.value.load(Ordering::Relaxed) as usize;
                if symbol.section != 0 && symbol.is_function() {
                    look(self.name(symbol), self.base.wrapping_add(value));
                }
            });
        }
    }

    /// All versions of a function that it exports.
    fn each_version(&self, name: &CStr, mut look: impl FnMut(&'static Symbol)) {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let buckets = self.chains().0;
        if buckets.is_empty() {
            return;
        }
        self.follow(buckets[hash as usize % buckets.len()], |symbol, found| {
            if found == hash | 1 && symbol.section != 0 && self.name(symbol) == name {
                look(symbol);
            }
        });
    }

    /// Whether all that it has of this name are functions, and none is one that chooses a function (IFUNC).
    pub(crate) fn has_functions_alone(&self, name: &CStr) -> bool {
        let mut are_all = true;
        self.each_version(name, |symbol| are_all &= symbol.is_function());
        are_all
    }

    /// Where its functions of this name are.
    pub(crate) fn each_address(&self, name: &CStr, mut look: impl FnMut(usize)) {
        self.each_version(name, |symbol| {
            look(self.base.wrapping_add(symbol.value.load(Ordering::Relaxed) as usize));
        });
    }

    /// Where the symbols stand that have to change for `name` to mean `address`.
    pub(crate) fn each_other(&self, name: &CStr, address: usize, mut look: impl FnMut(usize)) {
        let value = address.wrapping_sub(self.base) as u64;
        self.each_version(name, |symbol| {
            if symbol.value.load(Ordering::Relaxed) != value {
                look(core::ptr::from_ref(symbol).addr());
            }
        });
    }

    /// From now on `name` means `address` to whoever looks it up here.
    ///
    /// # Safety
    /// The symbols are writable, and the function there serves whoever means this one.
    pub(crate) unsafe fn redirect(&self, name: &CStr, address: usize) {
        let value = address.wrapping_sub(self.base) as u64;
        self.each_version(name, |symbol| symbol.value.store(value, Ordering::Release));
    }
}

/// The length of a symbol in a table.
pub(crate) const LEN: usize = size_of::<Symbol>();
