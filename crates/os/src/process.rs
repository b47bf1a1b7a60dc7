//! Processes and threads: ids, limits, liveness, yielding.
//! Owns: nothing shared; every answer is the kernel's at the time of the call.

use crate::check;
use crate::part::Part as _;
use crate::raw::{Errno, nr, syscall};
use sync::{AtomicPtr, AtomicU32, Ordering};

/// The process id.
pub fn pid() -> u32 {
    if crate::confined::withholds_id() {
        return CachedPid::here().0.load(Ordering::Relaxed);
    }
    // SAFETY: getpid has no arguments and no effect.
    unsafe { syscall!(nr::__NR_getpid) as u32 }
}

/// The process id, once it was asked; 0 before.
pub(crate) struct CachedPid(AtomicU32);

impl CachedPid {
    pub(crate) const fn new() -> Self {
        CachedPid(AtomicU32::new(0))
    }
}

/// The process id without a system call, once [`refresh_pid`] has run in this process.
#[inline(always)]
pub fn cached_pid() -> u32 {
    match CachedPid::here().0.load(Ordering::Relaxed) {
        0 => refresh_pid(),
        pid => pid,
    }
}

/// Asks the kernel again; fork children must.
#[inline(never)]
pub fn refresh_pid() -> u32 {
    let now = pid();
    CachedPid::here().0.store(now, Ordering::Relaxed);
    now
}

/// A number that differs between the threads of a process: the thread pointer, folded.
#[inline(always)]
pub fn thread_mark() -> u32 {
    let pointer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the ABI keeps the thread pointer itself at fs:0.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: tpidr_el0 is readable in user space.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    ((pointer >> 4) ^ (pointer >> 36)) as u32
}

/// The kernel thread id.
pub fn tid() -> u32 {
    // SAFETY: gettid has no arguments and no effect.
    unsafe { syscall!(nr::__NR_gettid) as u32 }
}

/// `__libc_single_threaded` of a libc that has it (glibc 2.32): not 0 while the process surely has one
/// thread.
static LIBC_IS_ALONE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// Installs that word's address, which stays readable, or null.
pub fn use_libc_is_alone(word: *mut u8) {
    LIBC_IS_ALONE.store(word, Ordering::Release);
}

/// Whether this process may have other threads than the calling one.
pub fn may_have_threads() -> bool {
    let word = LIBC_IS_ALONE.load(Ordering::Acquire);
    // SAFETY: libc's own byte, which it writes when the first thread begins; a byte is read whole.
    word.is_null() || unsafe { word.read_volatile() } == 0
}

/// Whether this process has the thread with that kernel id.
pub fn has_thread(id: u32) -> bool {
    if crate::confined::is_confined() {
        return true;
    }
    // SAFETY: signal 0 only asks.
    check(unsafe { syscall!(nr::__NR_tgkill, pid(), id, 0) }) != Err(Errno::ESRCH)
}

/// Whether a thread of this process makes no calls any more: it is gone, or on its way out of the kernel,
/// which lists it for a moment after pthread_join has returned.
pub fn is_thread_over(id: u32) -> bool {
    life(id).is_some_and(|life| life.is_ending) || !has_thread(id)
}

/// The effective user id.
pub fn euid() -> u32 {
    // SAFETY: geteuid has no arguments and no effect.
    unsafe { syscall!(nr::__NR_geteuid) as u32 }
}

/// Real, effective and saved user id of the calling thread.
pub fn users() -> [u32; 3] {
    let mut ids = [0u32; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: three words are writable.
    unsafe { syscall!(nr::__NR_getresuid, &raw mut *real, &raw mut *effective, &raw mut *saved) };
    ids
}

/// Real, effective and saved group id of the calling thread.
pub fn groups() -> [u32; 3] {
    let mut ids = [0u32; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: three words are writable.
    unsafe { syscall!(nr::__NR_getresgid, &raw mut *real, &raw mut *effective, &raw mut *saved) };
    ids
}

/// Effective and permitted capabilities of the calling thread, a bit each.
pub fn capabilities() -> (u64, u64) {
    /// _LINUX_CAPABILITY_VERSION_3.
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    // Effective, permitted, inheritable; lower halves first.
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: the header is readable, and the sets are writable for this version.
    unsafe { syscall!(nr::__NR_capget, header.as_ptr(), sets.as_mut_ptr()) };
    let whole = |which: usize| u64::from(sets[1][which]) << 32 | u64::from(sets[0][which]);
    (whole(0), whole(1))
}

/// Whether thread or process `id` exists (it may belong to another user).
pub fn exists(id: u32) -> bool {
    if crate::confined::is_confined() {
        return true;
    }
    // SAFETY: signal 0 only asks.
    check(unsafe { syscall!(nr::__NR_kill, id, 0) }) != Err(Errno::ESRCH)
}

/// Whether two numbers of this process may lead to one open file (kcmp(2), KCMP_FILE): the kernel may not
/// say.
pub fn may_be_one_file(one: i32, other: i32) -> bool {
    const KCMP_FILE: usize = 0;
    // SAFETY: kcmp has no pointers.
    let order = check(unsafe { syscall!(nr::__NR_kcmp, pid(), pid(), KCMP_FILE, one, other) });
    order.map_or(true, |order| order == 0)
}

/// Whether process `id` runs in the memory of this one (kcmp(2), KCMP_VM). Where the kernel does not say: as
/// long as there is such a process.
pub fn shares_memory(id: u32) -> bool {
    const KCMP_VM: usize = 1;
    if crate::confined::is_confined() {
        return false;
    }
    // SAFETY: numbers alone; the call only asks.
    match check(unsafe { syscall!(nr::__NR_kcmp, pid(), id, KCMP_VM, 0, 0) }) {
        Ok(order) => order == 0,
        Err(Errno::ESRCH) => false,
        Err(_) => exists(id),
    }
}

/// What `/proc/PID/stat` says of a process (proc_pid_stat(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// When it started, in clock ticks since boot: another process with this id has another start.
    pub started: u64,
    /// It has ended, and nobody has waited for it yet.
    pub is_zombie: bool,
    /// It is on its way there (PF_EXITING of include/linux/sched.h): it loses its descriptors first, and its
    /// locks a moment later.
    pub is_ending: bool,
    /// It cannot go on until somebody lets it: stopped by a signal or by a debugger.
    pub is_stopped: bool,
    /// It is in the kernel and not to be disturbed: waiting for a disk, say.
    pub is_in_kernel: bool,
}

/// The life of process `pid`; `None` if there is no such process, or nobody may look (nor this one, behind a
/// filter of calls).
#[inline(never)]
pub fn life(pid: u32) -> Option<Life> {
    if crate::confined::is_confined() {
        return None;
    }
    const PATH_LEN: usize = "/proc/4294967295/stat\0".len();
    let mut place = [0u8; PATH_LEN];
    let path = path(pid, b"/stat", &mut place)?;
    // (What is read here ends within 350 bytes, be each number as long as it can; writers with small stacks
    // wait behind this.)
    let mut text = [0u8; 384];
    parse_stat(crate::file::read_start(path, &mut text).ok()?)
}

/// Whether no thread of process `pid` would run if it had a core: all sleep, or are stopped. The calling
/// thread does not count. Not known, so `false`, of one with many threads, and where nobody may look.
#[inline(never)]
pub fn is_asleep(pid: u32) -> bool {
    const MANY: u64 = 16;
    const PATH_LEN: usize = "/proc/4294967295/stat\0".len();
    if crate::confined::is_confined() {
        return false;
    }
    let mut place = [0u8; PATH_LEN];
    let threads = path(pid, b"/stat", &mut place).and_then(|path| {
        let mut text = [0u8; 256];
        let stat = crate::file::read_start(path, &mut text).ok()?;
        Some((state(stat)?, number(after_name(stat)?.split(|byte| *byte == b' ').nth(17)?)?))
    });
    match threads {
        Some((state, 1)) => is_at_rest(state) || pid == cached_pid(),
        Some((_, 2..=MANY)) => are_threads_asleep(pid),
        _ => false,
    }
}

#[inline(never)]
fn are_threads_asleep(pid: u32) -> bool {
    const PATH_LEN: usize = "/proc/4294967295/task\0".len();
    let (mut place, mut entries) = ([0u8; PATH_LEN], [0u8; 256]);
    let Some(folder) = path(pid, b"/task", &mut place) else { return false };
    let (me, mut is_asleep) = (tid(), true);
    let looked = crate::file::names_by(folder, &mut entries, &mut |name| {
        let thread = number(name).and_then(|id| u32::try_from(id).ok());
        is_asleep &= thread.is_none_or(|id| id == me || is_thread_asleep(id));
    });
    looked.is_ok() && is_asleep
}

/// (`/proc/TID` is there for each thread, though no list names it.)
#[inline(never)]
fn is_thread_asleep(id: u32) -> bool {
    const PATH_LEN: usize = "/proc/4294967295/stat\0".len();
    let (mut place, mut text) = ([0u8; PATH_LEN], [0u8; 64]);
    let stat = path(id, b"/stat", &mut place).and_then(|path| crate::file::read_start(path, &mut text).ok());
    stat.and_then(state).is_some_and(is_at_rest)
}

fn is_at_rest(state: u8) -> bool {
    matches!(state, b'S' | b'T' | b't' | b'Z' | b'X')
}

/// Whether process `pid` is in the freezer of its control group, where it looks asleep.
pub fn is_frozen(pid: u32) -> bool {
    const PATH_LEN: usize = "/proc/4294967295/wchan\0".len();
    let mut place = [0u8; PATH_LEN];
    let mut text = [0u8; 64];
    let waits_in =
        path(pid, b"/wchan", &mut place).and_then(|path| crate::file::read_start(path, &mut text).ok());
    waits_in.is_some_and(|text| [&b"freezer"[..], b"refrigerator"].iter().any(|name| has(text, name)))
}

fn has(text: &[u8], name: &[u8]) -> bool {
    text.windows(name.len()).any(|window| window == name)
}

/// `/proc/PID` and `rest`, in `place`.
fn path<'a>(pid: u32, rest: &[u8], place: &'a mut [u8]) -> Option<&'a core::ffi::CStr> {
    let mut digits = [0u8; 10];
    let parts: [&[u8]; 3] = [b"/proc/", crate::decimal::decimal(pid, &mut digits), rest];
    for (byte, from) in place.iter_mut().zip(parts.into_iter().flatten()) {
        *byte = *from;
    }
    core::ffi::CStr::from_bytes_until_nul(place).ok()
}

/// State is the first field after the name, which ends at the last parenthesis; the flags are the 7th, the
/// number of threads is the 18th, the start the 20th.
fn parse_stat(text: &[u8]) -> Option<Life> {
    let mut fields = after_name(text)?.split(|byte| *byte == b' ');
    let state = fields.next()?.first().copied()?;
    const PF_EXITING: u64 = 4;
    let is_ending = number(fields.nth(5)?)? & PF_EXITING != 0;
    let threads = number(fields.nth(10)?)?;
    let started = number(fields.nth(1)?)?;
    // The first thread of a process may have ended before others: only the last one's end is the process's.
    Some(Life {
        started,
        is_zombie: matches!(state, b'Z' | b'X') && threads <= 1,
        is_ending,
        is_stopped: matches!(state, b'T' | b't'),
        is_in_kernel: state == b'D',
    })
}

/// The fields of `/proc/PID/stat` behind the name.
fn after_name(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2..)
}

fn state(text: &[u8]) -> Option<u8> {
    after_name(text)?.first().copied()
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Sends `signal` to the calling thread only (SIGPIPE belongs to the thread that wrote), as the kernel does
/// it for a call; not behind a filter of calls.
pub fn raise_on_self(signal: u32) {
    if crate::confined::is_confined() {
        return;
    }
    // SAFETY: it touches no memory.
    let user = unsafe { syscall!(nr::__NR_getuid) } as u32;
    // `siginfo_t` (asm-generic/siginfo.h): signal, errno, SI_USER, padding, process, user.
    let mut info = [0u32; 32];
    (info[0], info[4], info[5]) = (signal, pid(), user);
    // SAFETY: signalling oneself touches no memory but the siginfo, which is whole.
    unsafe {
        if syscall!(nr::__NR_rt_tgsigqueueinfo, pid(), tid(), signal, info.as_ptr()) < 0 {
            syscall!(nr::__NR_tgkill, pid(), tid(), signal);
        }
    }
}

pub use crate::confined::yield_now;

/// The CPU this thread runs on at the moment; 0 if it cannot be told.
#[inline]
pub fn current_cpu() -> u32 {
    #[cfg(feature = "sim")]
    if crate::seat::taken().is_some() {
        return 0;
    }
    unsafe extern "C" {
        // In every libc; a read of the thread's own memory where the kernel keeps it up to date (rseq), else
        // vDSO.
        safe fn sched_getcpu() -> i32;
    }
    u32::try_from(sched_getcpu()).unwrap_or(0)
}

/// Number of CPUs this thread may run on; 1 if the kernel will not say.
pub fn allowed_cpus() -> u32 {
    let mut mask = [0u64; 128];
    // SAFETY: the mask is writable for its size.
    let got =
        check(unsafe { syscall!(nr::__NR_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) });
    let words = got.unwrap_or(0) / 8;
    mask.iter().take(words).map(|word| word.count_ones()).sum::<u32>().max(1)
}

/// 16 bytes of kernel randomness; falls back to address and time bits if the call is refused.
pub fn random_u64() -> u64 {
    let mut value = 0u64;
    // SAFETY: `value` is writable for 8 bytes.
    let got = check(unsafe { syscall!(nr::__NR_getrandom, &raw mut value, 8, nr::GRND_NONBLOCK) });
    if got == Ok(8) {
        value
    } else {
        crate::time::monotonic_ns() ^ ((pid() as u64) << 40) ^ (&raw const value as u64)
    }
}

/// The thread's command name (`/proc/self/comm`), NUL padded.
pub fn comm() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { syscall!(nr::__NR_prctl, linux_raw_sys_prctl::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

mod linux_raw_sys_prctl {
    /// `linux/prctl.h`.
    pub(super) const PR_GET_NAME: u32 = 16;
}

/// Whether every signal handler installed has SA_RESTART.
///
/// poll(2) fails with EINTR whatever the handler said; a blocking read or write would have gone on. The
/// kernel does not tell which handler ran, so one without SA_RESTART makes its program responsible for EINTR
/// everywhere but in a call that has lasted ([`crate::apart`]). Signals that the thread's own faults raise
/// do not count: they cannot arrive while it sleeps. Neither do libc's own (older glibc installs the one for
/// cancellation in every threaded program).
pub fn all_handlers_restart() -> bool {
    if crate::confined::is_confined() {
        return crate::confined::handlers_restart();
    }
    crate::signals::all_handlers_restart()
}

/// Ends the process by SIGABRT without running any handler of libc.
pub fn abort() -> ! {
    const SIGABRT: u32 = 6;
    loop {
        raise_on_self(SIGABRT);
        exit_group(134);
    }
}

/// Ends the process at once.
pub fn exit_group(status: i32) {
    // SAFETY: the call does not return.
    unsafe { syscall!(nr::__NR_exit_group, status) };
}

/// Writes a line to stderr, for SMC_DEBUG; failure is nobody's concern.
pub fn tell(text: &[u8]) {
    // SAFETY: a slice is readable for its length.
    unsafe { syscall!(nr::__NR_write, 2, text.as_ptr(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_is_a_zombie() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let alive = life(child.id()).unwrap();
        assert!(!alive.is_zombie && !alive.is_ending && alive.started >= life(pid()).unwrap().started);
        child.kill().unwrap();
        let zombie = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            life(child.id()).filter(|life| life.is_zombie)
        });
        assert_eq!(zombie.map(|life| life.started), Some(alive.started));
        child.wait().unwrap();
        assert_eq!(life(child.id()), None);
    }

    #[test]
    fn a_thread_that_was_joined_is_over_though_the_kernel_lists_it_yet() {
        let is_over = |_| {
            let thread = std::thread::spawn(tid);
            is_thread_over(thread.join().expect("its id"))
        };
        assert!((0..500).all(is_over));
        assert!(!is_thread_over(tid()));
    }

    #[test]
    fn a_process_is_asleep_if_all_of_its_other_threads_are() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (told, tell) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            told.send(tid()).expect("a listener");
            receiver.recv()
        });
        let sleeper_id = tell.recv().expect("an id");
        while !is_thread_asleep(sleeper_id) {
            std::thread::yield_now();
        }
        assert!(!is_thread_asleep(tid()), "who asks runs");
        drop(sender);
        let _ = sleeper.join();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        while !is_asleep(child.id()) {
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(!is_asleep(child.id()), "of nobody nothing is known");
        let mut child = std::process::Command::new("yes").stdout(std::process::Stdio::null()).spawn();
        let child = child.as_mut().expect("a child");
        while is_asleep(child.id()) {
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
    }

    #[test]
    fn names_with_blanks_and_parentheses_are_skipped() {
        let line = b"7 (a) R (b) Z 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let life = parse_stat(line).unwrap();
        assert_eq!(
            (life.started, life.is_zombie, life.is_ending, life.is_stopped),
            (4711, true, true, false)
        );
        assert_eq!(parse_stat(b"7 (x) Z 1"), None);
    }
}
