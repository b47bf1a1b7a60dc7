//! Modules that look for functions in libc before they look here: loaded with RTLD_DEEPBIND (PHP loads all of
//! its extensions so), or handles of libc itself (Python's ctypes). Owns: that the names of our hooks lead
//! here from libc's own table of symbols before such a module or handle can be had; or that nothing is
//! shared in this process beside such a module.
//!
//! So the dynamic linker itself binds what it binds, in whatever order and however deep modules load each
//! other, and a definition that comes before libc's stays the module's. Programs that load no such thing pay
//! nothing.

use crate::real::next;
use crate::symbols::{LEN, Object, each_object};
use core::ffi::{CStr, c_char, c_int, c_void};
use sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const RTLD_DEEPBIND: c_int = 8;
const PAGE: usize = 4096;
const READ_WRITE: usize = 3;
const READ_ONLY: usize = 1;

/// What glibc consists of, before 2.34 and since.
const LIBC: [&[u8]; 3] = [b"libc.so.6", b"libpthread.so.0", b"libdl.so.2"];

/// Files by whose handle programs take libc's functions: these, and what Java has for it.
const HANDLES: [&[u8]; 3] = [b"libc.so", b"libpthread.so", b"libsyslookup.so"];

/// Whether libc's functions are all known, and its names may change.
static IS_READY: AtomicBool = AtomicBool::new(false);
/// Whether modules may have functions of libc that are hooked.
static IS_BYPASSED: AtomicBool = AtomicBool::new(false);
/// What came of it.
static DONE: AtomicU8 = AtomicU8::new(NOT_YET);
/// The process, and below it the thread, that is at it, or 0.
static TURN: AtomicU64 = AtomicU64::new(0);
const NOT_YET: u8 = 0;
const ALL: u8 = 1;
const NOT_ALL: u8 = 2;

/// The constructor has looked libc's functions up: nothing of ours asks for their names again.
pub(crate) fn ready() {
    IS_READY.store(true, Ordering::Release);
}

/// Whether a module was loaded that may read and write past us.
pub(crate) fn are_out_of_reach() -> bool {
    IS_BYPASSED.load(Ordering::Relaxed)
}

/// The program is about to call dlopen; whether a module gets past us so, the first one.
pub(crate) fn before_loading(file: *const c_char, flags: c_int) -> bool {
    let is_deep = flags & RTLD_DEEPBIND != 0;
    // (Behind a filter of system calls no connection becomes shared.)
    if DONE.load(Ordering::Acquire) == ALL || os::confined::is_confined() || !(is_deep || is_libc(file)) {
        return false;
    }
    if IS_READY.load(Ordering::Acquire) && DONE.load(Ordering::Acquire) == NOT_YET {
        let before = crate::hook::last();
        // (Whoever has the turn asks the dynamic linker nothing: another thread may load a module, and wait
        // for the turn in its constructor.)
        let plan = Plan::make();
        // (musl binds nothing deeply.)
        let is_musl = next(c"gnu_get_libc_version").is_null();
        if takes_turn() {
            let is_all = is_musl || plan.is_some_and(Plan::perform);
            let done = if is_all { ALL } else { NOT_ALL };
            DONE.store(done, Ordering::Release);
            TURN.store(0, Ordering::Release);
        }
        let _ = crate::hook::fail(before);
    }
    is_deep && DONE.load(Ordering::Relaxed) != ALL && !IS_BYPASSED.swap(true, Ordering::AcqRel)
}

/// Whether the calling thread is to do it; who is not has waited for who did. (A forked child does it in
/// place of a thread that it has not. A handler that has interrupted its own thread at it does not wait.)
fn takes_turn() -> bool {
    let own = u64::from(os::process::pid()) << 32 | u64::from(os::process::tid());
    while DONE.load(Ordering::Acquire) == NOT_YET {
        let has = TURN.load(Ordering::Acquire);
        if has == own {
            return false;
        }
        if has >> 32 == own >> 32 {
            os::confined::yield_now();
        } else if TURN.compare_exchange(has, own, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            let is_to_do = DONE.load(Ordering::Acquire) == NOT_YET;
            if !is_to_do {
                TURN.store(0, Ordering::Release);
            }
            return is_to_do;
        }
    }
    false
}

fn is_libc(file: *const c_char) -> bool {
    if file.is_null() {
        return false;
    }
    // SAFETY: dlopen's argument is a string, if it is not null.
    let file = unsafe { CStr::from_ptr(file) };
    let name = file.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    HANDLES.iter().any(|handle| name.starts_with(handle))
}

/// libc's function where the dynamic linker shows us none: glibc's dlopen before 2.34, for a module that
/// brought libdl along into a program without. Null where there is none.
pub(crate) fn elsewhere(name: &CStr) -> *const c_void {
    let (walk, mut place) = (next(c"dl_iterate_phdr"), 0);
    if !walk.is_null() {
        // SAFETY: dlsym returned dl_iterate_phdr.
        unsafe {
            each_object(walk, |object_name, object| {
                if LIBC.contains(&object_name) {
                    object.each_address(name, |address| place = address);
                }
            });
        }
    }
    place as *const c_void
}

/// glibc's objects, and this one.
#[derive(Default)]
struct Found {
    own: Option<Object>,
    libc: [Option<Object>; LIBC.len()],
}

impl Found {
    fn note(&mut self, name: &[u8], object: Object) {
        if object.contains((&raw const DONE).addr()) {
            self.own = Some(object);
        } else if let Some(place) = LIBC.iter().position(|known| *known == name) {
            self.libc[place] = Some(object);
        }
    }

    fn libc(&self) -> impl Iterator<Item = &Object> {
        self.libc.iter().flatten()
    }
}

/// A bit for each of our hooks, in the order of our own table.
#[derive(Default)]
struct Names([u64; 4]);

impl Names {
    /// Whether there is room for one more.
    fn set(&mut self, place: usize) -> bool {
        self.0.get_mut(place / 64).map(|bits| *bits |= 1 << (place % 64)).is_some()
    }

    fn has(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0)
    }
}

/// What is to be done, as the dynamic linker tells it.
struct Plan {
    own: Object,
    found: Found,
    names: Names,
    is_all: bool,
}

impl Plan {
    /// Nothing where it cannot be told.
    fn make() -> Option<Self> {
        let walk = next(c"dl_iterate_phdr");
        // A libpthread that comes with the module has functions of its own.
        if walk.is_null() || next(c"pthread_create").is_null() {
            return None;
        }
        let mut found = Found::default();
        // SAFETY: dlsym returned dl_iterate_phdr.
        unsafe { each_object(walk, |name, object| found.note(name, object)) };
        let own = found.own?;
        let (names, is_all) = ours_to_lead(&own, &found);
        Some(Plan { own, found, names, is_all })
    }

    /// Makes our hooks of the functions that glibc's objects export by their names; whether all of them are.
    fn perform(self) -> bool {
        let mut is_all = self.is_all;
        // (libdl, which a module may have brought and take away again, has nothing more to lead here.)
        for object in self.found.libc.iter().take(2).flatten() {
            is_all &= redirect_all(&self.own, &self.names, object);
        }
        is_all
    }
}

/// The hooks behind which stands libc itself, and whether these are all. Where another library's function is
/// next, it may look libc's up yet: it would find us, who call it.
fn ours_to_lead(own: &Object, found: &Found) -> (Names, bool) {
    let (mut names, mut is_all, mut place) = (Names::default(), true, 0);
    own.each_export(|name, _| {
        let next = next(name).addr();
        // (What this libc has not, or has for a module alone, `elsewhere` looks for.)
        if next != 0 {
            // (A forked child finds what a thread of its parent had begun.)
            let is_libcs = own.contains(next) || found.libc().any(|object| object.contains(next));
            let is_plain = found.libc().all(|object| object.has_functions_alone(name));
            is_all &= is_libcs && is_plain && names.set(place);
        }
        place += 1;
    });
    (names, is_all)
}

/// The same in one object. Its symbols are written in pages that hold nothing but its tables of names:
/// nobody runs there while they are writable.
fn redirect_all(own: &Object, names: &Names, object: &Object) -> bool {
    let (mut from, mut to) = (usize::MAX, 0);
    each_of(own, names, |name, address| {
        object.each_other(name, address, |at| (from, to) = (from.min(at), to.max(at + LEN)));
    });
    if from > to {
        return true;
    }
    let start = from & !(PAGE - 1);
    let len = to.next_multiple_of(PAGE) - start;
    if !object.is_apart() || !protect(start, len, READ_WRITE) {
        return false;
    }
    each_of(own, names, |name, address| {
        // SAFETY: all symbols of these names lie in the pages that were just made writable, and our function
        // is libc's to whoever calls it, as it is to all who are bound to it from the start.
        unsafe { object.redirect(name, address) };
    });
    protect(start, len, READ_ONLY);
    true
}

fn each_of(own: &Object, names: &Names, mut look: impl FnMut(&CStr, usize)) {
    let mut place = 0;
    own.each_export(|name, address| {
        if names.has(place) {
            look(name, address);
        }
        place += 1;
    });
}

fn protect(start: usize, len: usize, how: usize) -> bool {
    // SAFETY: whole pages of libc's read-only tables; a refusal (sealed memory) leaves everything as it was.
    unsafe { os::raw::call(os::raw::nr::__NR_mprotect, &[start, len, how]) == 0 }
}
