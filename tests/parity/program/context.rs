//! What a case works with: its own end of the connection as a bare descriptor, and the other end as a puppet
//! in another process. Invariant: a puppet's answer arrives after its call returned, so cases need no sleeps
//! to order the two ends.

use isthmus_tests::sys::{self, Fd, Ret};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// One named case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Data must have moved through shared memory when both ends are enabled.
    pub(crate) shm: bool,
    pub(crate) run: fn(&mut Cx),
}

/// Which end of the connection the case itself is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A connection: our descriptor and the puppet's name for its end.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) fd: Fd,
    pub(crate) id: u32,
}

pub(crate) struct Cx {
    pub(crate) role: Role,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    listener: Option<(Fd, u16)>,
    peer_port: Option<u16>,
    next: u32,
    watched: Option<Fd>,
    /// The server's end looks at a connection before the client writes: that goes by TCP.
    is_looked_at: bool,
    /// What the watched connection's client wrote before the server's end looked.
    early: usize,
}

/// A line of the transcript.
macro_rules! say {
    ($($arg:tt)*) => { println!($($arg)*) };
}
pub(crate) use say;

/// The program of the other end: in a network of its own, with another registry, where the settings name one.
fn puppet() -> Command {
    let setting = |name| std::env::var(name).ok();
    let own = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(&own);
    if let Some(network) = setting("PARITY_PEER_NETWORK") {
        let registry = setting("PARITY_PEER_REGISTRY").unwrap_or_default();
        let library = setting("PARITY_PEER_PRELOAD").unwrap_or_default();
        command = Command::new("nsenter");
        command.arg(format!("--net={network}")).arg("env").arg(format!("SMC_REGISTRY_DIR={registry}"));
        command.arg(format!("LD_PRELOAD={library}")).arg(own).env_remove("LD_PRELOAD");
        return command;
    }
    match setting("PARITY_PEER_PRELOAD") {
        Some(library) if library.is_empty() => drop(command.env_remove("LD_PRELOAD")),
        Some(library) => drop(command.env("LD_PRELOAD", library)),
        None => {}
    }
    command
}

impl Cx {
    pub(crate) fn start(role: Role, is_looked_at: bool) -> Cx {
        let mut child = puppet()
            .arg("--peer")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the peer");
        let to = child.stdin.take().expect("peer stdin");
        let from = BufReader::new(child.stdout.take().expect("peer stdout"));
        Cx {
            role,
            child,
            to,
            from,
            listener: None,
            peer_port: None,
            next: 0,
            watched: None,
            is_looked_at,
            early: 0,
        }
    }

    /// Has the puppet do something; its answer is not part of the transcript.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    /// Sends a command without waiting for its answer, for calls that block until we act.
    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.to, "{command}").and_then(|()| self.to.flush()).expect("peer is gone");
    }

    /// The answer to an earlier [`Cx::tell`].
    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("read from the peer");
        line.trim_end().to_string()
    }

    /// Has the puppet do something and writes command and answer to the transcript.
    pub(crate) fn peer(&mut self, command: &str) -> String {
        let answer = self.ask(command);
        say!("peer {command} -> {answer}");
        answer
    }

    pub(crate) fn peer_pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// A connection between this process and the puppet, in the direction the role says.
    pub(crate) fn pair(&mut self) -> Pair {
        let id = self.next;
        self.next += 1;
        let fd = match self.role {
            Role::Client => self.connect_to_peer(id),
            Role::Server => {
                let (l, port) = self.listen();
                assert_eq!(self.ask(&format!("connect {id} {port}")), "0");
                sys::accept(l).expect("accept") as Fd
            }
        };
        self.watched = Some(fd);
        match self.role {
            _ if !self.is_looked_at => {}
            Role::Client => drop(self.ask(&format!("poll {id} {} 0", libc::POLLIN))),
            Role::Server => drop(sys::poll1(fd, libc::POLLIN, 0)),
        }
        Pair { fd, id }
    }

    /// A pair that has already exchanged sixteen bytes each way.
    pub(crate) fn warm(&mut self) -> Pair {
        const HELLO: &[u8; 16] = b"sixteen-bytes-ok";
        let p = self.pair();
        self.ask(&format!("send {} sixteen-bytes-ok", p.id));
        assert_eq!(sys::recv(p.fd, &mut [0; 16], libc::MSG_WAITALL), Ok(16));
        assert_eq!(sys::write(p.fd, HELLO), Ok(16));
        assert_eq!(self.ask(&format!("recvn {} 16", p.id)), "'sixteen-bytes-ok'");
        p
    }

    fn connect_to_peer(&mut self, id: u32) -> Fd {
        let port = self.listening_peer();
        let fd = sys::tcp(libc::SOCK_CLOEXEC);
        sys::connect(fd, port).expect("connect");
        assert_eq!(self.ask(&format!("accept {id}")), "0");
        fd
    }

    /// The puppet's listening port.
    pub(crate) fn listening_peer(&mut self) -> u16 {
        if self.peer_port.is_none() {
            self.peer_port = Some(self.ask("listen").parse().expect("port"));
        }
        self.peer_port.expect("set above")
    }

    /// Our own listening socket and port.
    pub(crate) fn listen(&mut self) -> (Fd, u16) {
        *self.listener.get_or_insert_with(sys::listener)
    }

    /// Takes `fd` as the connection whose kernel byte counters are reported at the end.
    pub(crate) fn watch(&mut self, fd: Fd) {
        self.watched = Some(fd);
    }

    /// The client of the watched connection has written so much before the server's end looked.
    pub(crate) fn wrote_early(&mut self, bytes: usize) {
        self.early = bytes;
    }

    /// Ends the puppet and reports, as a remark, what the kernel's TCP carried.
    pub(crate) fn finish(self) {
        if let Some((received, acked)) = self.watched.and_then(sys::tcp_bytes) {
            println!("#tcp received={received} acked={acked} early={}", self.early);
        }
        println!("done");
        self.end_quietly();
    }

    /// Has the puppet end itself, and waits until it has.
    pub(crate) fn end_by(&mut self, command: &str) {
        self.tell(command);
        until("end of the puppet", || matches!(self.child.try_wait(), Ok(Some(_))));
    }

    /// Waits until the puppet, which was told to, has ended itself.
    pub(crate) fn until_ended(&mut self) {
        until("end of the puppet", || matches!(self.child.try_wait(), Ok(Some(_))));
    }

    /// Ends the puppet.
    pub(crate) fn end_quietly(mut self) {
        let _ = writeln!(self.to, "quit");
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Test data of length `n`: every length has its own bytes.
pub(crate) fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 + (i >> 8) * 17 + n * 7 + 3) as u8).collect()
}

/// Short text as it is, long data as length and checksum.
pub(crate) fn digest(bytes: &[u8]) -> String {
    if bytes.len() <= 24 && bytes.iter().all(|b| b.is_ascii_graphic()) {
        return format!("'{}'", String::from_utf8_lossy(bytes));
    }
    let h =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("{} bytes #{h:016x}", bytes.len())
}

/// Result and data of one receiving call.
pub(crate) fn got(r: Ret, buf: &[u8]) -> String {
    match r {
        Ok(n) => format!("{n} {}", digest(&buf[..n])),
        Err(e) => e.to_string(),
    }
}

/// Waits until FIONREAD says `n` bytes are there.
pub(crate) fn until_queued(fd: Fd, n: i32) {
    until("queued bytes", || sys::queued(fd) >= n);
}

/// Waits until poll reports all of `events`.
pub(crate) fn until_ready(fd: Fd, events: i16) {
    until("readiness", || {
        let (_, v) = sys::poll(&[(fd, events)], 100);
        v[0] & events == events
    });
}

/// Waits for a condition, five seconds at most.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !done() {
        if Instant::now() > end {
            say!("no {what} within 5 s");
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A pause long enough for anything under way on loopback to arrive.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(40));
}

/// Until this process's thread of that name has slept for as long as [`settle`] takes: on a busy machine it
/// may not have begun by then.
pub(crate) fn until_asleep(name: &str) {
    let is_it = |stat: &String| stat.contains(&format!("({name}) "));
    let stats = || {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
    };
    until("sleep", || stats().find(is_it).is_some_and(|stat| stat.contains(&format!("({name}) S "))));
    settle();
}

/// Reads until `n` bytes, EOF or an error; says how it ended.
pub(crate) fn read_all(fd: Fd, n: usize) -> String {
    let (mut all, mut buf) = (Vec::new(), vec![0u8; 65536]);
    while all.len() < n {
        let want = buf.len().min(n - all.len());
        match sys::read(fd, &mut buf[..want]) {
            Ok(0) => return format!("{} then EOF", digest(&all)),
            Ok(k) => all.extend_from_slice(&buf[..k]),
            Err(e) => return format!("{} then {e}", digest(&all)),
        }
    }
    digest(&all)
}

/// Writes everything; says how it ended.
pub(crate) fn write_all(fd: Fd, bytes: &[u8]) -> String {
    let mut at = 0;
    while at < bytes.len() {
        match sys::write(fd, &bytes[at..]) {
            Ok(n) => at += n,
            Err(e) => return format!("failed: {e}"),
        }
    }
    format!("{at} written")
}

/// Makes a descriptor's sending direction full. (TCP has room again when the peer's delayed acknowledgement
/// comes, 40 ms later.)
pub(crate) fn fill(fd: Fd) -> usize {
    let (block, mut total) = (vec![9u8; 65536], 0);
    let mut idle = 0;
    while idle < 7 {
        match sys::send(fd, &block, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(n) => (total, idle) = (total + n, 0),
            Err(_) => {
                idle += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    total
}
