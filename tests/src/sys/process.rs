//! Processes, signals, cancellable threads, limits and network namespaces for tests. Invariant: fork is only
//! called while the calling process has one thread, or the child only makes libc calls.

use super::{Errno, Fd, Ret, ret32};
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Runs `child` in a forked process, which exits with its result; returns the pid.
pub fn fork(child: impl FnOnce() -> u8) -> i32 {
    // SAFETY: see the module's invariant.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
            exit_now(code)
        }
        pid if pid > 0 => pid,
        _ => panic!("fork: {}", super::errno()),
    }
}

/// `execl(3)` of `path` with ten arguments, more than fit into registers. Returns only if it failed.
pub fn execl(path: &CStr, args: [&CStr; 10]) {
    let [a, b, c, d, e, f, g, h, i, j] = args.map(CStr::as_ptr);
    let end = std::ptr::null::<libc::c_char>();
    // SAFETY: strings that outlive the call, and the null pointer that ends them.
    unsafe { libc::execl(path.as_ptr(), a, b, c, d, e, f, g, h, i, j, end) };
}

/// A descriptor to be closed by its owner, as std's process builder wants it.
pub fn owned(fd: super::Fd) -> std::os::fd::OwnedFd {
    // SAFETY: tests own the descriptors they make, and use this one no more.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}

/// `_exit(2)`: no destructors, no flush.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code.into()) }
}

/// Waits for a child: "exit 0" or "signal 9".
pub fn wait(pid: i32) -> String {
    let mut status = 0;
    // SAFETY: status outlives the call.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
        if super::errno() != Errno(libc::EINTR) {
            return super::errno().to_string();
        }
    }
    if libc::WIFEXITED(status) {
        format!("exit {}", libc::WEXITSTATUS(status))
    } else {
        format!("signal {}", libc::WTERMSIG(status))
    }
}

/// `kill(2)`.
pub fn kill(pid: i32, signal: c_int) -> Ret {
    // SAFETY: tests signal their own children or themselves.
    ret32(unsafe { libc::kill(pid, signal) })
}

/// The effective user id.
pub fn euid() -> u32 {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() }
}

/// The calling thread, for [`signal_thread`].
#[derive(Clone, Copy)]
pub struct ThreadId(libc::pthread_t);

/// The calling thread.
pub fn this_thread() -> ThreadId {
    // SAFETY: no pointers.
    ThreadId(unsafe { libc::pthread_self() })
}

/// `pthread_kill(3)`.
pub fn signal_thread(t: ThreadId, signal: c_int) {
    // SAFETY: callers keep the thread alive for the duration of the test.
    unsafe { libc::pthread_kill(t.0, signal) };
}

static HITS: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static HANDLER_FD: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(_: c_int) {
    HITS.fetch_add(1, Ordering::SeqCst);
    let fd = HANDLER_FD.load(Ordering::SeqCst);
    if fd >= 0 {
        let saved = super::errno();
        if super::write(fd, b"!") != Ok(1) {
            REFUSED.fetch_add(1, Ordering::SeqCst);
        }
        super::set_errno(saved.0);
    }
}

/// Installs a counting handler for `signal`.
pub fn catch(signal: c_int, restart: bool) {
    HITS.store(0, Ordering::SeqCst);
    // SAFETY: the handler only touches atomics and calls async-signal-safe write.
    unsafe {
        let mut a: libc::sigaction = zeroed();
        a.sa_sigaction = on_signal as *const () as usize;
        a.sa_flags = if restart { libc::SA_RESTART } else { 0 };
        libc::sigaction(signal, &a, null_mut());
    }
}

/// How often the handler ran since [`catch`].
pub fn hits() -> usize {
    HITS.load(Ordering::SeqCst)
}

/// SIGALRM comes in so many milliseconds, once.
pub fn alarm_in(ms: u64) {
    let once = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: ms as i64 / 1000, tv_usec: ms as i64 % 1000 * 1000 },
    };
    // SAFETY: the value outlives the call; the old one is not asked for.
    let told = unsafe { libc::setitimer(libc::ITIMER_REAL, &once, null_mut()) };
    assert_eq!(told, 0, "setitimer");
}

/// How many of the handler's writes did not succeed.
pub fn refused() -> usize {
    REFUSED.load(Ordering::SeqCst)
}

/// Makes the handler write one "!" to `fd` (or nothing, with -1).
pub fn write_in_handler(fd: Fd) {
    HANDLER_FD.store(fd, Ordering::SeqCst);
}

/// Sets a signal's disposition to ignore or default.
pub fn ignore(signal: c_int, ignored: bool) {
    // SAFETY: SIG_IGN and SIG_DFL are valid dispositions.
    unsafe { libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// Blocks or unblocks a signal for the calling thread.
pub fn block(signal: c_int, blocked: bool) {
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is a live local.
    unsafe {
        let mut s: libc::sigset_t = zeroed();
        libc::sigaddset(&mut s, signal);
        libc::pthread_sigmask(how, &s, null_mut());
    }
}

/// The blocking call a cancellable thread makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// `read(2)` of one byte.
    Read,
    /// `recv(2)` of one byte.
    Recv,
    /// `write(2)` in a loop until the buffers are full.
    Write,
    /// `poll(2)` for input, no timeout.
    Poll,
    /// `epoll_wait(2)` for input, no timeout.
    EpollWait,
    /// `select(2)` for input, no timeout.
    Select,
}

static CANCEL_FD: AtomicI32 = AtomicI32::new(-1);
static BLOCK: [u8; 65536] = [7; 65536];

// Cancellation unwinds these frames, so they own nothing that needs dropping.
extern "C-unwind" fn read_forever(_: *mut c_void) -> *mut c_void {
    let mut b = 0u8;
    // SAFETY: one byte of room.
    unsafe { libc::read(CANCEL_FD.load(Ordering::SeqCst), (&raw mut b).cast(), 1) };
    null_mut()
}

extern "C-unwind" fn recv_forever(_: *mut c_void) -> *mut c_void {
    let mut b = 0u8;
    // SAFETY: one byte of room.
    unsafe { libc::recv(CANCEL_FD.load(Ordering::SeqCst), (&raw mut b).cast(), 1, 0) };
    null_mut()
}

extern "C-unwind" fn write_forever(_: *mut c_void) -> *mut c_void {
    // SAFETY: BLOCK is a live static.
    while unsafe { libc::write(CANCEL_FD.load(Ordering::SeqCst), BLOCK.as_ptr().cast(), BLOCK.len()) } > 0 {}
    null_mut()
}

extern "C-unwind" fn poll_forever(_: *mut c_void) -> *mut c_void {
    let mut p = libc::pollfd { fd: CANCEL_FD.load(Ordering::SeqCst), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&mut p, 1, -1) };
    null_mut()
}

extern "C-unwind" fn select_forever(_: *mut c_void) -> *mut c_void {
    let fd = CANCEL_FD.load(Ordering::SeqCst);
    // SAFETY: a live set, with a descriptor below FD_SETSIZE.
    unsafe {
        let mut set: libc::fd_set = zeroed();
        libc::FD_SET(fd, &raw mut set);
        libc::select(fd + 1, &raw mut set, null_mut(), null_mut(), null_mut());
    }
    null_mut()
}

extern "C-unwind" fn epoll_forever(_: *mut c_void) -> *mut c_void {
    let mut ev = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: one entry.
    unsafe { libc::epoll_wait(CANCEL_FD.load(Ordering::SeqCst), &mut ev, 1, -1) };
    null_mut()
}

/// Starts a thread blocked in `what` on `fd` (an epoll set for EpollWait), cancels it after `ms`, and says
/// whether it ended as "cancelled", "returned", or not within five seconds ("stuck").
pub fn cancel_in(what: Blocking, fd: Fd, ms: u64) -> &'static str {
    CANCEL_FD.store(fd, Ordering::SeqCst);
    let f: extern "C-unwind" fn(*mut c_void) -> *mut c_void = match what {
        Blocking::Read => read_forever,
        Blocking::Recv => recv_forever,
        Blocking::Write => write_forever,
        Blocking::Poll => poll_forever,
        Blocking::EpollWait => epoll_forever,
        Blocking::Select => select_forever,
    };
    // SAFETY: "C" and "C-unwind" functions share one calling convention; the thread is joined or abandoned
    // below.
    unsafe {
        let f: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(f);
        let mut t: libc::pthread_t = zeroed();
        libc::pthread_create(&mut t, std::ptr::null(), f, null_mut());
        std::thread::sleep(std::time::Duration::from_millis(ms));
        libc::pthread_cancel(t);
        join_within(t, 5)
    }
}

unsafe extern "C" {
    fn pthread_timedjoin_np(t: libc::pthread_t, r: *mut *mut c_void, until: *const libc::timespec) -> c_int;
}

/// # Safety
/// `t` must be a joinable thread that nobody else joins.
pub(super) unsafe fn join_within(t: libc::pthread_t, seconds: i64) -> &'static str {
    let mut result = null_mut();
    // SAFETY: the deadline and result are live locals; `t` is joinable.
    unsafe {
        let mut until: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut until);
        until.tv_sec += seconds;
        if pthread_timedjoin_np(t, &mut result, &until) != 0 {
            return "stuck";
        }
    }
    if result as isize == -1 { "cancelled" } else { "returned" }
}

/// Sets the soft limit of open descriptors.
pub fn limit_fds(n: u64) {
    // SAFETY: the limit is a live local.
    unsafe {
        let mut l: libc::rlimit = zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut l);
        l.rlim_cur = n.min(l.rlim_max);
        libc::setrlimit(libc::RLIMIT_NOFILE, &l);
    }
}

/// Ties the calling thread to the first CPU it may run on. With a `priority` it is SCHED_FIFO from then on,
/// which an ordinary user may not ask for (EPERM).
pub fn on_one_cpu(priority: Option<i32>) -> Ret {
    // SAFETY: the sets and the parameter are live locals.
    unsafe {
        let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = (zeroed(), zeroed());
        ret32(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut all))?;
        let first = (0..1024).find(|cpu| libc::CPU_ISSET(*cpu, &all)).unwrap_or(0);
        libc::CPU_SET(first, &mut one);
        ret32(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one))?;
        let Some(sched_priority) = priority else { return Ok(0) };
        ret32(libc::sched_setscheduler(0, libc::SCHED_FIFO, &libc::sched_param { sched_priority }))
    }
}

/// CPU time of the calling thread in milliseconds.
pub fn thread_cpu_ms() -> u64 {
    // SAFETY: the timespec is a live local.
    unsafe {
        let mut spent: libc::timespec = zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut spent);
        (spent.tv_sec * 1000 + spent.tv_nsec / 1_000_000) as u64
    }
}

/// Whether libc can tell the time.
pub fn has_clock() -> bool {
    // SAFETY: the timespec is a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut zeroed()) == 0 }
}

/// Closes this process to others of its user, as one is that changed its ids.
pub fn make_undumpable() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// mlockall(2) of what is mapped and what will be.
pub fn lock_memory() -> Ret {
    // SAFETY: touches no memory but to bring it in.
    unsafe { ret32(libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE)) }
}

/// How many bytes the calling process may lock.
pub fn lock_memory_limit() -> u64 {
    if euid() == 0 {
        return u64::MAX;
    }
    // SAFETY: the limit is a live local.
    unsafe {
        let mut l: libc::rlimit = zeroed();
        libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut l);
        l.rlim_cur
    }
}

/// dup(2) past libc and whatever stands before it.
pub fn raw_dup(fd: super::Fd) -> Ret {
    let made: isize;
    // SAFETY: the instruction clobbers these registers, and no memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_dup as isize => made, in("rdi") fd as isize,
            lateout("rcx") _, lateout("r11") _);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("svc 0", in("x8") libc::SYS_dup, inlateout("x0") fd as isize => made);
    }
    if made < 0 { Err(super::Errno(-made as i32)) } else { Ok(made as usize) }
}

/// To how many descriptors this process may raise its limit.
pub fn most_fds() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a live local.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_max
}

/// Lets this process have no more than so many bytes of private memory, or (`None`) as many as it may.
pub fn limit_data(most: Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit of this process, in a local.
    unsafe {
        libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit);
        limit.rlim_cur = most.unwrap_or(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_DATA, &raw const limit);
    }
}

/// Limits this process to `n` descriptors, and those it starts.
pub fn limit_fds_for_good(n: u64) {
    // SAFETY: the limit is a live local.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: n, rlim_max: n }) };
}

/// Gives the calling thread a table of descriptors of its own.
pub fn own_table() -> Ret {
    // SAFETY: an integer alone; numbers that it closes are closed for this thread.
    ret32(unsafe { libc::unshare(libc::CLONE_FILES) })
}

/// Gives the calling process a user namespace of its own.
pub fn own_users() -> Ret {
    // SAFETY: an integer alone.
    ret32(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
}

/// Gives the calling process a mount namespace of its own in which `folder` is empty. Fails with EPERM for an
/// ordinary user.
pub fn mount_over(folder: &CStr) -> Ret {
    // SAFETY: strings, and null for what these calls do not read.
    unsafe {
        ret32(libc::unshare(libc::CLONE_NEWNS))?;
        let none = std::ptr::null();
        ret32(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
        ret32(libc::mount(c"tmpfs".as_ptr(), folder.as_ptr(), c"tmpfs".as_ptr(), 0, none.cast()))
    }
}

/// Gives the calling thread, and the processes it starts, a network namespace of their own with loopback up.
/// Fails with EPERM for an ordinary user.
pub fn own_network() -> Ret {
    // SAFETY: affects only the calling thread; the request is a live local.
    unsafe {
        ret32(libc::unshare(libc::CLONE_NEWNET))?;
        let s = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut req: libc::ifreq = zeroed();
        req.ifr_name[0] = b'l' as libc::c_char;
        req.ifr_name[1] = b'o' as libc::c_char;
        req.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
        let r = ret32(libc::ioctl(s, libc::SIOCSIFFLAGS as _, &req));
        libc::close(s);
        r
    }
}

/// The network namespace of the calling thread, to come back to.
pub fn this_network() -> std::io::Result<std::fs::File> {
    std::fs::File::open("/proc/thread-self/ns/net")
}

/// The calling thread goes into such a namespace. Fails with EPERM for an ordinary user.
pub fn enter_network(network: &std::fs::File) -> Ret {
    // SAFETY: affects only the calling thread.
    ret32(unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(network), libc::CLONE_NEWNET) })
}

/// A file system in memory with hardly any room, seen by the calling thread and the processes it starts only.
#[derive(Debug)]
pub struct SmallFolder(std::ffi::CString);

impl Drop for SmallFolder {
    fn drop(&mut self) {
        // SAFETY: a NUL-terminated path.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Mounts one over `folder`, in a mount namespace of the calling thread. Fails with EPERM for an ordinary
/// user.
pub fn own_small_folder(folder: &std::path::Path) -> Result<SmallFolder, super::Errno> {
    let path = std::ffi::CString::new(folder.to_string_lossy().into_owned()).map_err(|_| super::Errno(0))?;
    let (none, options) = (std::ptr::null(), c"size=64k,mode=1777".as_ptr().cast());
    // SAFETY: affects only the calling thread; all strings are NUL terminated and live.
    unsafe {
        ret32(libc::unshare(libc::CLONE_NEWNS))?;
        ret32(libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            none,
            libc::MS_REC | libc::MS_PRIVATE,
            none.cast(),
        ))?;
        ret32(libc::mount(c"small".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, options))?;
    }
    Ok(SmallFolder(path))
}

/// Starts `command` with `prepare` run in the forked child before exec; returns its trimmed stdout.
pub fn run_in_child(
    mut command: std::process::Command,
    prepare: impl Fn() + Send + Sync + 'static,
) -> String {
    use std::os::unix::process::CommandExt;
    // SAFETY: `prepare` makes async-signal-safe calls only.
    unsafe {
        command.pre_exec(move || {
            prepare();
            Ok(())
        });
    }
    let out = command.stdout(std::process::Stdio::piped()).output();
    out.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stdout).trim().to_string())
}

/// What [`deny`] can refuse to the calling process and its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A system call by number.
    Call(i64),
    /// `socket(2)` of one address family.
    Socket(i32),
}

/// Makes the kernel answer EPERM to some system calls from here on, as sandboxes do (seccomp, strict BPF
/// filter).
pub fn deny(list: &[Denied]) -> Ret {
    deny_with(list, libc::EPERM)
}

/// The same with another error.
pub fn deny_with(list: &[Denied], errno: c_int) -> Ret {
    answer(list, 0x0005_0000 | errno as u32)
}

/// The process is killed by such a call.
pub fn kill_for(call: i64) -> Ret {
    answer(&[Denied::Call(call)], 0x8000_0000)
}

fn answer(list: &[Denied], action: u32) -> Ret {
    let stmt = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let equal = |k: u32, jf: u8| libc::sock_filter { code: 0x15, jt: 0, jf, k };
    let refuse = stmt(0x06, action);
    let mut program = Vec::new();
    for d in list {
        program.push(stmt(0x20, 0));
        match *d {
            Denied::Call(n) => program.extend([equal(n as u32, 1), refuse]),
            Denied::Socket(family) => program.extend([
                equal(libc::SYS_socket as u32, 3),
                stmt(0x20, 16),
                equal(family as u32, 1),
                refuse,
            ]),
        }
    }
    program.push(stmt(0x06, 0x7fff_0000));
    let fprog = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is a live local that the kernel copies.
    unsafe {
        ret32(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        ret32(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const fprog))
    }
}

/// From now on this thread, and those it starts, run on the core it is on.
pub fn stay_on_one_core() {
    // SAFETY: an all-zero set is valid and empty; the core's number is the kernel's own.
    unsafe {
        let mut cores: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut cores);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cores);
    }
}

/// Processor time this process has used, in milliseconds.
pub fn cpu_ms() -> u64 {
    // SAFETY: the result is a live local.
    unsafe {
        let mut u: libc::rusage = zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut u);
        let ms = |t: libc::timeval| (t.tv_sec * 1000 + t.tv_usec / 1000) as u64;
        ms(u.ru_utime) + ms(u.ru_stime)
    }
}

/// Locks one byte of a file for its open file description, as the library marks a living process.
pub fn lock_byte(file: &std::fs::File, at: i64) -> Ret {
    use std::os::fd::AsRawFd;
    // SAFETY: all-zero bytes are a valid `flock`.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as i16, at, 1);
    // SAFETY: the lock is a live local.
    super::ret32(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) })
}

/// By which function a program becomes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exec {
    /// `execve(2)`.
    Execve,
    /// `execv(3)`.
    Execv,
    /// `execvp(3)`.
    Execvp,
    /// `fexecve(3)`.
    Fexecve,
    /// `syscall(SYS_execve)`.
    Syscall,
    /// `syscall(SYS_execveat)`.
    SyscallAt,
}

/// Becomes `path`, with this process's environment. Returns only if that failed: why.
pub fn exec(how: Exec, path: &str, args: &[&str]) -> String {
    let text = |word: &&str| std::ffi::CString::new(*word).expect("no NUL");
    let (path, args) = (text(&path), args.iter().map(text).collect::<Vec<_>>());
    let argv: Vec<*const libc::c_char> =
        args.iter().map(|arg| arg.as_ptr()).chain([std::ptr::null()]).collect();
    let (path, argv) = (path.as_ptr(), argv.as_ptr());
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: strings and lists that end in null and outlive the calls; tests change no environment while
    // they exec.
    unsafe {
        match how {
            Exec::Execve => libc::execve(path, argv, environ),
            Exec::Execv => libc::execv(path, argv),
            Exec::Execvp => libc::execvp(path, argv),
            Exec::Fexecve => {
                let fd = libc::open(path, libc::O_PATH | libc::O_CLOEXEC);
                if fd >= 0 { libc::fexecve(fd, argv, environ) } else { -1 }
            }
            Exec::Syscall => libc::syscall(libc::SYS_execve, path, argv, environ) as c_int,
            Exec::SyscallAt => {
                libc::syscall(libc::SYS_execveat, libc::AT_FDCWD, path, argv, environ, 0) as c_int
            }
        };
    }
    super::errno().to_string()
}

/// dup2 by the system call instruction, as some runtimes make it.
pub fn dup2_unseen(fd: Fd, new: Fd) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: dup3 touches no memory.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_dup3 => _, in("rdi") fd, in("rsi") new, in("rdx") 0,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = super::dup2(fd, new);
}

/// shutdown for writing by the system call instruction.
pub fn shutdown_unseen(fd: Fd) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: shutdown touches no memory.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_shutdown => _, in("rdi") fd, in("rsi") libc::SHUT_WR,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = super::shutdown(fd, libc::SHUT_WR);
}

/// close by the system call instruction: whatever has the number, nobody is told.
pub fn close_unseen(fd: Fd) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: close touches no memory; the tests that use it want the number gone from under its owner.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_close => _, in("rdi") fd,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = super::close(fd);
}

/// The open descriptors that are not closed on exec.
pub fn inheritable() -> Vec<Fd> {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut all: Vec<Fd> = names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    all.retain(|fd| super::fcntl(*fd, libc::F_GETFD, 0) == Ok(0));
    all.sort_unstable();
    all
}

/// The ways a process can end itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `exit(3)`, as a return from main.
    Exit,
    /// `_exit(2)`.
    Immediately,
    /// `quick_exit(3)`.
    Quickly,
    /// `syscall(SYS_exit_group)`.
    Syscall,
    /// `abort(3)`.
    Abort,
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
    /// `execv(3)`.
    Exec,
}

impl Way {
    /// The way with this name.
    pub fn named(name: &str) -> Way {
        let all = [
            Way::Exit,
            Way::Immediately,
            Way::Quickly,
            Way::Syscall,
            Way::Abort,
            Way::Term,
            Way::Kill,
            Way::Exec,
        ];
        all.into_iter().find(|way| format!("{way:?}") == name).expect("a way to end")
    }
}

unsafe extern "C" {
    fn quick_exit(status: c_int) -> !;
}

/// Ends this process.
pub fn end(way: Way) -> ! {
    // SAFETY: none of these touches memory that anybody will look at again.
    unsafe {
        match way {
            Way::Exit => libc::exit(0),
            Way::Immediately => libc::_exit(0),
            Way::Quickly => quick_exit(0),
            Way::Syscall => libc::syscall(libc::SYS_exit_group, 0),
            Way::Abort => {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &none);
                libc::abort()
            }
            Way::Term => libc::kill(libc::getpid(), libc::SIGTERM).into(),
            Way::Kill => libc::kill(libc::getpid(), libc::SIGKILL).into(),
            Way::Exec => {
                let argv = [c"true".as_ptr(), std::ptr::null()];
                libc::execv(c"/bin/true".as_ptr(), argv.as_ptr()).into()
            }
        };
    }
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

/// Kills the process for every system call but those of `allowed` from here on, as the strictest sandboxes
/// do.
pub fn allow_only(allowed: &[i64], by_prctl: bool) -> Ret {
    let stmt = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = vec![stmt(0x20, 0)];
    for number in allowed {
        program.push(libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: *number as u32 });
        program.push(stmt(0x06, 0x7fff_0000));
    }
    program.push(stmt(0x06, 0x8000_0000));
    let fprog = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is a live local that the kernel copies.
    unsafe {
        ret32(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        if by_prctl {
            ret32(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const fprog))
        } else {
            ret32(libc::syscall(libc::SYS_seccomp, 1, 0, &raw const fprog) as i32)
        }
    }
}

/// Asks for SECCOMP_MODE_STRICT: read, write and the end of a thread are all that is left.
pub fn allow_read_and_write() -> Ret {
    // SAFETY: no pointers.
    ret32(unsafe { libc::prctl(libc::PR_SET_SECCOMP, 1) })
}

/// Ends the calling thread, and a process that has no other.
pub fn end_thread() -> ! {
    loop {
        // SAFETY: ends the thread without touching its memory.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}
