//! This process's line to the daemon: one question at a time. Owns: when the daemon is looked for, how long
//! it is waited for, that an answer belongs to its question, and that a fork child never speaks on its
//! parent's line. A daemon that was started anew is told again what this process offers.
//!
//! A question that is not answered in time is given up, and the line is kept: the kernel knows this process
//! by it. Nothing else is asked there before that answer has come.

use super::marks::Marks;
use super::offered::Offered;
use crate::turn::Turn;
use os::passing::{self, Packet};
use os::poll::{PollFd, bits};
use os::time::Cycles;
use os::{fd, poll};
use sync::Ordering::Relaxed;
use sync::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64};
use wire::host::{Function, MESSAGE_MAX, Message, SOCKET};
use wire::reason::Reason;

/// So long an answer is waited for: a daemon that is stopped, or has no core for that long, is none.
const PATIENCE_MS: u32 = 100;
/// So long nobody looks for the daemon again after it was not there, or did not answer.
const PAUSE: Cycles = Cycles::from_ms(1_000);
/// After so long the line is given up, too.
const LATE: Cycles = Cycles::from_ms(30_000);

/// The place that the daemon gave this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// By which others name this process's offers.
    pub client: u32,
    /// The fabric that its function is on.
    pub vchid: u16,
    /// The function.
    pub fid: u16,
}

/// The line.
pub struct Link {
    turn: Turn,
    /// Where the daemon's socket lies; the usual place if empty.
    path: [AtomicU8; passing::PATH_MAX],
    /// The fabric that is asked for.
    wanted: AtomicU32,
    /// Descriptor plus one.
    fd: AtomicI32,
    /// The process that has connected.
    pid: AtomicU32,
    client: AtomicU32,
    /// VCHID above, FID below.
    function: AtomicU32,
    tag: AtomicU32,
    failed_at: AtomicU64,
    /// Why: what the daemon said, or that there is none.
    failed_for: AtomicU32,
    /// When a question was given up whose answer has not come yet.
    unanswered_since: AtomicU64,
    /// When the daemon had no table for this process.
    refused_at: AtomicU64,
    /// That question was for a table.
    awaits_table: AtomicBool,
    /// 0 for nobody's telling, so that a line that was never used is all zero.
    patience_ms: AtomicU32,
    pub(super) offered: Offered,
    /// Memory that was passed to this process, by the descriptor that holds it.
    pub(super) held: Offered,
    pub(super) marks: Marks,
}

impl Link {
    pub(super) const fn new() -> Self {
        Link {
            turn: Turn::new(),
            path: [const { AtomicU8::new(0) }; passing::PATH_MAX],
            wanted: AtomicU32::new(0),
            fd: AtomicI32::new(0),
            pid: AtomicU32::new(0),
            client: AtomicU32::new(0),
            function: AtomicU32::new(0),
            tag: AtomicU32::new(0),
            failed_at: AtomicU64::new(0),
            failed_for: AtomicU32::new(0),
            unanswered_since: AtomicU64::new(0),
            refused_at: AtomicU64::new(0),
            awaits_table: AtomicBool::new(false),
            patience_ms: AtomicU32::new(0),
            offered: Offered::new(),
            held: Offered::new(),
            marks: Marks::new(),
        }
    }

    /// Another place for the socket, before it is first used; a path that is too long is ignored.
    pub fn set_socket(&self, path: &[u8]) {
        if path.len() < passing::PATH_MAX {
            self.path.iter().zip(path).for_each(|(cell, byte)| cell.store(*byte, Relaxed));
        }
    }

    /// How long an answer is waited for, in milliseconds (100 unless told): tests must not fail for a daemon
    /// that has no core.
    pub fn set_patience(&self, ms: u32) {
        self.patience_ms.store(ms, Relaxed);
    }

    fn patience_ns(&self) -> u64 {
        let told = self.patience_ms.load(Relaxed);
        u64::from(if told == 0 { PATIENCE_MS } else { told }) * 1_000_000
    }

    /// The fabric to be on, before the first use; 0 for whichever the daemon gives.
    pub fn set_fabric(&self, vchid: u16) {
        self.wanted.store(u32::from(vchid), Relaxed);
    }

    /// This process's place with the daemon that runs now, asked for if it has none; else it costs a look
    /// whether that daemon still has the line. Reasons: NOSMCDDEV where there is no daemon, or
    /// none that lets this process take part; MAX_DMB; MEM.
    pub fn place(&self) -> Result<Place, Reason> {
        let _turn = self.turn.take().ok_or(Reason::SYNCERR)?;
        self.connected_to_who_lives().map(|_| self.known())
    }

    /// As [`place`](Self::place), with a table of marks of this process's own. Reason: NOSMCDDEV also where
    /// the daemon marks nothing.
    pub(super) fn marked(&self) -> Result<(), Reason> {
        let _turn = self.turn.take().ok_or(Reason::SYNCERR)?;
        let line = self.connected_to_who_lives()?;
        let refused_at = Cycles::load(&self.refused_at);
        let was_refused = refused_at != Cycles::NONE && Cycles::now().since(refused_at) < PAUSE;
        if !self.marks.is_own() && !was_refused {
            self.register(line);
        }
        if self.marks.is_own() { Ok(()) } else { Err(Reason::NOSMCDDEV) }
    }

    /// Whoever only accepts asks for nothing once the kernel does not know it any more, for nothing arrives:
    /// its line is given up, or it could not have a table again.
    pub(super) fn come_back(&self) {
        if self.marks.was_given() && (self.fd.load(Relaxed) <= 0 || !self.marks.is_own()) {
            let _ = self.marked();
        }
    }

    fn connected_to_who_lives(&self) -> Result<i32, Reason> {
        if self.line().is_some_and(|line| poll::peek(line, 0) & bits::HUP != 0) {
            self.hang_up();
        }
        self.connected()
    }

    /// Each function that the daemon lets this process see; then whether it marks connections. For a tool: no
    /// function is taken for it.
    pub fn each_function(&self, mut each: impl FnMut(Function)) -> Result<bool, Unheard> {
        let _turn = self.turn.take().ok_or(Unheard::Refused(Reason::SYNCERR))?;
        let line = match self.line() {
            Some(line) => line,
            // (It has no room for who asks.)
            None => self.dial().map_err(|errno| match errno {
                os::Errno::EAGAIN => Unheard::Silent,
                errno => Unheard::Away(errno),
            })?,
        };
        let mut after = 0;
        loop {
            match self.exchange(line, &Message::List { after }, None) {
                Ok((Message::Function(function), None)) => each(function),
                Ok((Message::Refused(Reason::NOSMCDDEV), None)) => return Ok(false),
                Ok((Message::Refused(reason), None)) => return Err(Unheard::Refused(reason)),
                Ok(_) => return Ok(true),
                Err(_) => return Err(Unheard::Silent),
            }
            after += 1;
        }
    }

    /// Takes a function away, or gives it back: for root and the daemon's own user. Reasons: NOSMCDDEV where
    /// there is no daemon, CNFERR for others, SYNCERR if there is no such function.
    pub fn enable_function(&self, uid: u32, is_enabled: bool) -> Result<(), Reason> {
        let _turn = self.turn.take().ok_or(Reason::SYNCERR)?;
        let line = match self.line() {
            Some(line) => line,
            None => self.dial().map_err(reason_for)?,
        };
        answer(self.exchange(line, &Message::Enable { uid, is_enabled }, None)).map(drop)
    }

    /// Hangs up: what this process offered is offered no more. (Who has it keeps it.)
    pub fn leave(&self) {
        let Some(_turn) = self.turn.take() else { return };
        self.hang_up();
        self.offered.forget();
    }

    fn known(&self) -> Place {
        let function = self.function.load(Relaxed);
        Place { client: self.client.load(Relaxed), vchid: (function >> 16) as u16, fid: function as u16 }
    }

    /// Asks, with a descriptor; the answer, and the descriptor that came with it. Reasons: as
    /// [`place`](Self::place), and what the daemon refuses with.
    pub fn ask(&self, question: &Message, passed: Option<i32>) -> Result<(Message, Option<i32>), Reason> {
        let _turn = self.turn.take().ok_or(Reason::SYNCERR)?;
        self.ask_with_turn(question, passed)
    }

    fn ask_with_turn(
        &self,
        question: &Message,
        passed: Option<i32>,
    ) -> Result<(Message, Option<i32>), Reason> {
        let had_line = self.line().is_some();
        let line = self.connected()?;
        match self.exchange(line, question, passed) {
            // The daemon has been started anew since we last asked.
            Err(Silence::Broken) if had_line => {
                let line = self.connected()?;
                answer(self.exchange(line, question, passed))
            }
            told => answer(told),
        }
    }

    /// Memory is offered no more. (It is said later where it cannot be said now: else the daemon would keep
    /// it, and take the next one of that number for it.)
    pub(super) fn withdraw(&self, number: i32) {
        let Some(_turn) = self.turn.take() else { return };
        if self.ask_with_turn(&Message::Withdraw { number: number as u32 }, None).is_err() {
            self.owe(number);
        }
    }

    fn owe(&self, number: i32) {
        if self.line().is_some() && !self.offered.owe(number) {
            self.hang_up();
        }
    }

    /// In a fork child: what was offered is the parent's, also where it has no line now.
    pub(super) fn after_fork(&self) {
        if self.line().is_none() {
            self.offered.forget();
        }
    }

    /// In a fork child: the line is the parent's.
    fn line(&self) -> Option<i32> {
        let fd = self.fd.load(Relaxed).checked_sub(1).filter(|fd| *fd >= 0)?;
        if self.pid.load(Relaxed) == os::process::cached_pid() {
            return Some(fd);
        }
        self.close(fd);
        self.offered.forget();
        None
    }

    fn close(&self, line: i32) {
        self.fd.store(0, Relaxed);
        Cycles::NONE.store(&self.unanswered_since);
        self.awaits_table.store(false, Relaxed);
        fd::close(line);
    }

    fn is_unanswered(&self) -> bool {
        Cycles::load(&self.unanswered_since) != Cycles::NONE
    }

    fn connected(&self) -> Result<i32, Reason> {
        if os::confined::is_confined() {
            return Err(Reason::NOSMCDDEV);
        }
        let line = self.line();
        if let Some(line) = line.filter(|_| !self.is_unanswered()) {
            return self.settled(line);
        }
        let failed_at = Cycles::load(&self.failed_at);
        if failed_at != Cycles::NONE && Cycles::now().since(failed_at) < PAUSE {
            let told = Reason(self.failed_for.load(Relaxed));
            return Err(if told == Reason(0) { Reason::NOSMCDDEV } else { told });
        }
        match line.map_or(Late::Gone, |line| self.catch_up(line)) {
            Late::Heard(line) => return self.settled(line),
            Late::Awaited => return Err(Reason::NOSMCDDEV),
            Late::Gone => {}
        }
        let opened = self.open();
        opened.inspect_err(|reason| self.fail_for(*reason))
    }

    /// For a while the daemon is not asked.
    fn fail_for(&self, reason: Reason) {
        self.failed_for.store(reason.0, Relaxed);
        Cycles::now().store(&self.failed_at);
    }

    /// Takes the answer to what was given up, if it has come. What it says is not wanted any more.
    fn catch_up(&self, line: i32) -> Late {
        let last = self.tag.load(Relaxed).wrapping_sub(1);
        match hear(line) {
            Heard::Answer(tag, message, passed) if tag == last => {
                Cycles::NONE.store(&self.unanswered_since);
                let is_table = self.awaits_table.swap(false, Relaxed);
                match (message, passed) {
                    // (Wanted still: the next one would be as late.)
                    (Message::Passed { .. }, Some(table)) if is_table => self.take_table(line, table),
                    (_, passed) => passed.into_iter().for_each(fd::close),
                }
                return if self.is_unanswered() { Late::Awaited } else { Late::Heard(line) };
            }
            Heard::Nothing if Cycles::now().since(Cycles::load(&self.unanswered_since)) < LATE => {
                return Late::Awaited;
            }
            Heard::Answer(_, _, passed) => passed.into_iter().for_each(fd::close),
            Heard::Nothing | Heard::End => {}
        }
        self.hang_up();
        Late::Gone
    }

    /// Before anything else is asked: what could not be said.
    fn settled(&self, line: i32) -> Result<i32, Reason> {
        let say = |number| self.exchange(line, &Message::Withdraw { number }, None).is_ok();
        if self.offered.pay(say) { Ok(line) } else { Err(Reason::NOSMCDDEV) }
    }

    /// A line on which nothing was said yet.
    fn dial(&self) -> os::Result<i32> {
        let mut path = [0; passing::PATH_MAX];
        let len = self.socket(&mut path);
        let line = dial_for(&path[..len], self.patience_ns())?;
        self.pid.store(os::process::cached_pid(), Relaxed);
        self.fd.store(line + 1, Relaxed);
        Ok(line)
    }

    fn open(&self) -> Result<i32, Reason> {
        let line = self.dial().map_err(reason_for)?;
        let hello = Message::Hello { vchid: self.wanted.load(Relaxed) as u16 };
        match answer(self.exchange(line, &hello, None)) {
            Ok((Message::Welcome { client, vchid, fid, .. }, None)) => {
                self.client.store(client, Relaxed);
                self.function.store(u32::from(vchid) << 16 | u32::from(fid), Relaxed);
                self.offered.forgive();
                self.offered.tell(|message, fd| answer(self.exchange(line, &message, Some(fd))).is_ok());
                // (A new daemon is to know whose table goes when.)
                if self.marks.is_own() && !self.is_unanswered() {
                    self.register(line);
                }
                // (It may not know all of it.)
                if self.is_unanswered() {
                    self.hang_up();
                }
                self.line().ok_or(Reason::NOSMCDDEV)
            }
            refused => {
                self.hang_up();
                Err(refused.err().unwrap_or(Reason::NOSMCDDEV))
            }
        }
    }

    /// Asks for a table of marks. (Without one this process is passed memory, and marks nothing.)
    fn register(&self, line: i32) {
        let has_table = self.marks.is_own();
        match self.exchange(line, &Message::Register { has_table, proof: 0 }, None) {
            Ok((Message::Done, None)) => {}
            Ok((Message::Passed { .. }, Some(table))) => self.take_table(line, table),
            _ => {
                self.marks.disown();
                Cycles::now().store(&self.refused_at);
                self.awaits_table.store(self.is_unanswered() && !has_table, Relaxed);
            }
        }
    }

    fn take_table(&self, line: i32, table: i32) {
        let is_mapped = self.marks.adopt(table);
        fd::close(table);
        if !is_mapped || !self.is_proven(line) {
            self.marks.disown();
            Cycles::now().store(&self.refused_at);
        }
    }

    /// The kernel believes a table only once whom it was given to has answered: the question may be older
    /// than the program that runs.
    fn is_proven(&self, line: i32) -> bool {
        let proven = Message::Register { has_table: true, proof: self.marks.proof() };
        let told = self.exchange(line, &proven, None);
        if let Ok((_, Some(table))) = told {
            fd::close(table);
        }
        matches!(told, Ok((Message::Done, None)))
    }

    fn socket(&self, path: &mut [u8; passing::PATH_MAX]) -> usize {
        path.iter_mut().zip(&self.path).for_each(|(byte, cell)| *byte = cell.load(Relaxed));
        if path[0] == 0 {
            path[..SOCKET.len()].copy_from_slice(SOCKET.as_bytes());
        }
        path.iter().position(|byte| *byte == 0).unwrap_or(path.len())
    }

    fn hang_up(&self) {
        if let Some(line) = self.line() {
            self.close(line);
        }
    }

    /// One question and its answer. After anything else the line is gone, or nothing is asked there until the
    /// answer has come.
    fn exchange(
        &self,
        line: i32,
        question: &Message,
        passed: Option<i32>,
    ) -> Result<(Message, Option<i32>), Silence> {
        let tag = self.tag.fetch_add(1, Relaxed);
        let mut packet = [0; MESSAGE_MAX];
        let is_said = question
            .emit(tag, &mut packet)
            .is_ok_and(|len| passing::send(line, &packet[..len], passed).is_ok());
        let told = match is_said {
            true => await_answer(line, tag, self.patience_ns()),
            false => Err(Silence::Broken),
        };
        told.inspect_err(|silence| match silence {
            Silence::Broken => self.hang_up(),
            Silence::Late => self.give_up(question),
        })
    }

    fn give_up(&self, question: &Message) {
        self.fail_for(Reason::NOSMCDDEV);
        Cycles::now().store(&self.unanswered_since);
        // (The daemon will have taken it by then.)
        if let Message::Offer { number, .. } = question {
            self.owe(*number as i32);
        }
    }
}

/// Why a tool hears nothing of the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unheard {
    /// There is none at the socket, or it cannot be reached.
    Away(os::Errno),
    /// It does not answer, or hangs up.
    Silent,
    /// It will not say.
    Refused(Reason),
}

/// There is no line.
fn reason_for(errno: os::Errno) -> Reason {
    if errno.is_shortage() { Reason::MEM } else { Reason::NOSMCDDEV }
}

/// There is no answer.
#[derive(Clone, Copy, Debug)]
enum Silence {
    /// The line is gone.
    Broken,
    /// It may come yet.
    Late,
}

/// What became of an answer that was late.
enum Late {
    /// It has come, by this line.
    Heard(i32),
    Awaited,
    /// There is no line to hear it by.
    Gone,
}

/// What lies in the line.
enum Heard {
    /// The tag of its question, and the descriptor that came with it.
    Answer(u32, Message, Option<i32>),
    Nothing,
    End,
}

fn answer(told: Result<(Message, Option<i32>), Silence>) -> Result<(Message, Option<i32>), Reason> {
    match told {
        Ok((Message::Refused(reason), _)) => Err(reason),
        Ok(answer) => Ok(answer),
        Err(_) => Err(Reason::NOSMCDDEV),
    }
}

/// Where others have filled the daemon's queue there is room in it again and again, for a moment.
fn dial_for(path: &[u8], patience_ns: u64) -> os::Result<i32> {
    const AGAIN_MS: i32 = 1;
    let end = os::time::monotonic_ns() + patience_ns;
    loop {
        match passing::connect(path) {
            Err(os::Errno::EAGAIN) if os::time::monotonic_ns() < end => _ = poll::wait(&mut [], AGAIN_MS),
            told => return told,
        }
    }
}

fn hear(line: i32) -> Heard {
    let mut packet = [0; MESSAGE_MAX];
    let (len, passed) = match passing::receive(line, &mut packet) {
        Ok(Packet { len, passed, .. }) => (len, passed),
        Err(os::Errno::EAGAIN | os::Errno::EINTR) => return Heard::Nothing,
        Err(_) => return Heard::End,
    };
    match Message::parse(&packet[..len]) {
        Ok((tag, message)) if message.has_descriptor() == passed.is_some() => {
            Heard::Answer(tag, message, passed)
        }
        _ => {
            passed.into_iter().for_each(fd::close);
            Heard::End
        }
    }
}

fn await_answer(line: i32, tag: u32, patience_ns: u64) -> Result<(Message, Option<i32>), Silence> {
    let end = os::time::monotonic_ns() + patience_ns;
    loop {
        match hear(line) {
            Heard::Answer(said, message, passed) if said == tag => return Ok((message, passed)),
            Heard::Answer(_, _, passed) => {
                passed.into_iter().for_each(fd::close);
                return Err(Silence::Broken);
            }
            Heard::End => return Err(Silence::Broken),
            Heard::Nothing => {}
        }
        let left = end.saturating_sub(os::time::monotonic_ns()).div_ceil(1_000_000);
        if left == 0 {
            return Err(Silence::Late);
        }
        let _ = poll::wait(&mut [PollFd { fd: line, events: bits::IN, revents: 0 }], left as i32);
    }
}
