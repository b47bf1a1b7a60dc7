//! The mends that can be taken out: what each is for, where it stands, what stands there without it, and the
//! test that fails then. Invariant: each `old` is found exactly once, so that who changes the place is told.

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail};

/// A test of the ladder.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// Cases whose titles contain this.
    Parity(&'static str),
    /// Scripts of random calls: seeds, as `tests/calls` takes them.
    Calls(&'static str),
    /// A test of `tests/bars`.
    Bars(&'static str),
    /// A unit test of a package.
    Unit(&'static str, &'static str),
    /// A model of `shm` under loom.
    Loom(&'static str),
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Parity(name) => write!(f, "parity {name}"),
            Test::Calls(seeds) => write!(f, "calls {seeds}"),
            Test::Bars(name) => write!(f, "bars {name}"),
            Test::Unit(package, name) => write!(f, "{package} {name}"),
            Test::Loom(name) => write!(f, "loom {name}"),
        }
    }
}

/// A replacement.
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
}

/// One mend.
pub(super) struct Mend {
    pub(super) name: &'static str,
    /// What happens without it.
    pub(super) without: &'static str,
    pub(super) edits: &'static [Edit],
    pub(super) test: Test,
}

impl Mend {
    /// The edits with the text of their files; fails where one does not find its place.
    pub(super) fn places(&self, root: &Path) -> anyhow::Result<Vec<(&'static Edit, String)>> {
        let place = |edit: &'static Edit| {
            let text = std::fs::read_to_string(root.join(edit.file))
                .with_context(|| format!("mutations: {}: no {}", self.name, edit.file))?;
            match text.matches(edit.old).count() {
                1 => Ok((edit, text)),
                count => bail!(
                    "mutations: {}: found {count} times in {}:\n{}\n   How to fix it: follow the change in \
                     xtask/src/mutations/table.rs; what stands there now is to be taken out",
                    self.name,
                    edit.file,
                    edit.old
                ),
            }
        };
        self.edits.iter().map(place).collect()
    }
}

const fn edit(file: &'static str, old: &'static str, new: &'static str) -> Edit {
    Edit { file, old, new }
}

const OFFER: &str = "crates/fabric/src/offer.rs";
const READY: &str = "crates/socket/src/ready.rs";
const EXEC: &str = "crates/socket/src/exec.rs";

/// In the order in which they were found wanting.
pub(super) const MENDS: &[Mend] = &[
    Mend {
        name: "slot-lent-while-held",
        without: "bytes on an old descriptor reach another connection",
        edits: &[
            edit(
                "crates/fabric/src/unused.rs",
                "self.tier.is_over(view) && !self.members().has_any_living(view.header())",
                "self.tier.is_over(view)",
            ),
            edit(
                OFFER,
                "        header.renew();
        !self.members().has_any_living(header)",
                "        header.renew();
        true",
            ),
            edit(
                "crates/socket/src/conn/mod.rs",
                "self.view().is_some_and(|view| serves(view) != self.link.generation.load(Ordering::Relaxed))",
                "self.view().is_some_and(|view| serves(view) != self.link.generation.load(Ordering::Relaxed) && false)",
            ),
        ],
        test: Test::Parity("slots.reset_and_kept"),
    },
    Mend {
        name: "asked-while-let-go",
        without: "nobody asks to be rung for a member of a set that is asked for something new",
        edits: &[edit(
            "crates/socket/src/interest/set.rs",
            "        if registration.age.load(Ordering::Relaxed) == 0 {
            self.recent.store(recent, Ordering::Relaxed);
        }
",
            "",
        )],
        test: Test::Unit("socket", "nobody_is_let_go_unseen_by_who_asks_anew"),
    },
    Mend {
        name: "told-once-in-an-answer",
        without: "one answer of epoll_wait tells of a descriptor twice",
        edits: &[edit(
            "crates/socket/src/epoll/wait.rs",
            "if !is_owed && is_kernel_due(set) {",
            "if is_kernel_due(set) {",
        )],
        test: Test::Unit("sim", "no_answer_tells_of_a_descriptor_twice"),
    },
    Mend {
        name: "both-directions-shut",
        without: "who writes to a peer that shut both directions waits for ever",
        edits: &[edit(READY, "    has_shut_both_ways(said) || is_peer_closed", "    is_peer_closed")],
        test: Test::Parity("ends.shut_rdwr"),
    },
    Mend {
        name: "killed-after-half-close",
        without: "who writes to a peer that half closed and was killed waits for ever",
        edits: &[edit(
            READY,
            "if is_doubtful && peer_socket_is_gone(conn, fd) {",
            "if is_doubtful && peer_socket_is_gone(conn, fd) && false {",
        )],
        test: Test::Parity("ends.shut_wr_die"),
    },
    Mend {
        name: "long-yields-add-up",
        without: "who yields beside a program of low priority goes on with it, at a fraction of TCP's rate",
        edits: &[edit(
            "crates/socket/src/policy/habits.rs",
            "let kept = if is_enough {",
            "let kept = if sum > R::TOO_MANY - R::LONG_YIELD_WEIGHT {",
        )],
        test: Test::Unit("socket", "long_yields_among_too_few_short_ones_add_up"),
    },
    Mend {
        name: "what-a-borrower-has",
        without: "a child by vfork writes into its parent's connection where it has a file of its own",
        edits: &[edit(
            "crates/socket/src/table.rs",
            "cell.fetch_or(ELSEWHERE, Ordering::AcqRel);",
            "cell.fetch_or(0, Ordering::AcqRel);",
        )],
        test: Test::Parity("family.vfork_child_at_work"),
    },
    Mend {
        name: "two-flags-at-once",
        without: "the second of two flags stays down where the first is up",
        edits: &[edit(
            "crates/socket/src/conn/mod.rs",
            "if !self.flags().has_all(flags) {",
            "if !self.flags().has_any(flags) {",
        )],
        test: Test::Unit("socket", "a_mark_of_two_bits_is_not_content_with_one"),
    },
    Mend {
        name: "exec-under-another-number",
        without: "a connection that goes on over exec under a number that nobody saw is reset",
        edits: &[edit(EXEC, "in (0..UNSEEN).filter(is_unseen)", "in (0..0).filter(is_unseen)")],
        test: Test::Parity("exec.duplicate_behind_our_back"),
    },
    Mend {
        name: "failed-exec",
        without: "an exec that fails leaves the connections it tried to hand on",
        edits: &[edit(
            EXEC,
            "        if held.has(flag::LEFT) {
            held.unmark(flag::LEFT);
            copied_of(&held, &end, 1);
        }",
            "",
        )],
        test: Test::Parity("exec.failed"),
    },
    Mend {
        name: "memory-over-exec",
        without: "what a killed client had written is lost to the program that its server becomes",
        edits: &[edit(
            EXEC,
            "fabric().keep_attached_over_exec(view, on);",
            "fabric().keep_attached_over_exec(view, on && false);",
        )],
        test: Test::Parity("exec.alone_when_the_peer_is_killed"),
    },
    Mend {
        name: "poll-below-the-limit",
        without: "a wait fails where the descriptor limit forbids to name a doorbell (sshd's sandbox)",
        edits: &[edit(
            "crates/os/src/poll.rs",
            "        Err(Errno::EINVAL) => {
            let timeout_ns",
            "        Err(Errno::EINVAL) if false => {
            let timeout_ns",
        )],
        test: Test::Parity("limit.one_reads"),
    },
    Mend {
        name: "one-answer-per-question",
        without: "threads that take turns at a set sleep beside a request (Java's channels)",
        edits: &[edit(
            "crates/shm/src/interest.rs",
            "        let fired = self.word.compare_exchange(seen.0, seen.0 | FIRED,",
            "        let now = self.word.load(Ordering::Acquire);
        let fired = self.word.compare_exchange(now, now | FIRED,",
        )],
        test: Test::Loom("loom_bell"),
    },
    Mend {
        name: "wishes-after-the-drain",
        without: "who drains a doorbell overlooks who has asked meanwhile",
        edits: &[edit(
            "crates/shm/src/bell.rs",
            "        let was_rung = self.may_have_rung(words);
        if was_rung {
            self.0.store(0, Ordering::Relaxed);
            pipe.drain();
        }
        let (data, space) = wanted();",
            "        let (data, space) = wanted();
        let was_rung = self.may_have_rung(words);
        if was_rung {
            self.0.store(0, Ordering::Relaxed);
            pipe.drain();
        }",
        )],
        test: Test::Loom("loom_bell"),
    },
    Mend {
        name: "space-asked-for-again",
        without: "an edge-triggered writer sleeps beside an empty ring",
        edits: &[edit(
            "crates/socket/src/interest/registration.rs",
            "        let seen = self.interest.seen();
        seen.events() & bits::ET != 0
            && seen.events() & WRITE_SIDE != 0",
            "        let seen = self.interest.seen();
        false && seen.events() & WRITE_SIDE != 0",
        )],
        test: Test::Parity("stall."),
    },
    Mend {
        name: "a-client-begins-on-tcp",
        without: "what a client writes before the server's first look waits for that look",
        edits: &[edit(
            "crates/shm/src/layout.rs",
            "        self.rings[Side::Client as usize].begin_on_tcp();\n",
            "",
        )],
        test: Test::Parity("early.a_write_that_may_not_wait"),
    },
    Mend {
        name: "large-writes-wait-for-a-look",
        without: "all of a client's first large write goes over TCP, and the rest of it slowly",
        edits: &[edit(
            "crates/socket/src/stream/begin.rs",
            "        self.is_to_pause = most < total - self.sent;
        most",
            "        let _ = most;
        usize::MAX",
        )],
        test: Test::Parity("early.a_large_write_waits_for_a_look"),
    },
    Mend {
        name: "one-call-is-one-write",
        without: "each piece of a call is a segment, and with small buffers they stop for seconds",
        edits: &[edit(
            "crates/socket/src/stream/overflow.rs",
            "if self.sent + piece.len() < until { msg::MORE } else { 0 }",
            "0",
        )],
        test: Test::Parity("early.pieces_are_one_write"),
    },
    Mend {
        name: "closed-within-one-write",
        without: "a write whose peer has closed is cut where TCP says so",
        edits: &[edit(
            "crates/socket/src/stream.rs",
            "        if self.is_refused {",
            "        if false && self.is_refused {",
        )],
        test: Test::Parity("early.pieces_to_a_closed_end"),
    },
    Mend {
        name: "small-buffers-catch-up",
        without: "an upload that a small SO_SNDBUF bounds stays on TCP, where that stops for seconds",
        edits: &[edit(
            "crates/socket/src/stream.rs",
            "        if self.is_tcp_full
            && let Some",
            "        if false
            && let Some",
        )],
        test: Test::Parity("early.small_buffers_and_a_late_look"),
    },
    Mend {
        name: "asked-of-a-set",
        without: "what is put into a set is not told while a connection there has bytes unread",
        edits: &[edit(
            "crates/socket/src/epoll/ctl.rs",
            "        set.asked_kernel.store(0, Ordering::Relaxed);",
            "        let _ = set;",
        )],
        test: Test::Parity("epoll.others_beside_unread"),
    },
    Mend {
        name: "an-end-is-none-of-ours",
        without: "a blocking write is cut short when a server that speaks TCP shuts its own end down",
        edits: &[edit(
            "crates/socket/src/stream.rs",
            "        if is_early && self.conn.has(flag::TCP_ENDED) {",
            "        if false && self.conn.has(flag::TCP_ENDED) {",
        )],
        test: Test::Parity("early.an_end_within_a_large_write"),
    },
    Mend {
        name: "confined-readers-count",
        without: "a connection of which a confined process reads the first bytes stays on TCP",
        edits: &[edit(
            "crates/socket/src/end.rs",
            "(os::confined::is_strict() || self.incoming.has_ended_for_good())",
            "(os::confined::is_confined() || self.incoming.has_ended_for_good())",
        )],
        test: Test::Parity("filter.early_bytes"),
    },
    Mend {
        name: "queued-once",
        without: "SIOCOUTQ counts twice what is on TCP and not acknowledged",
        edits: &[edit(
            "crates/socket/src/queue.rs",
            "held + outside.max(begun.saturating_sub(taken))",
            "held + outside + begun.saturating_sub(taken)",
        )],
        test: Test::Parity("early.no_byte_is_queued_twice"),
    },
    Mend {
        name: "connecting-is-decided",
        without: "what a server sends to a program that took its last descriptor while it connected is lost",
        edits: &[edit(
            "crates/socket/src/credentials.rs",
            "            Phase::Intent => {
                answer::retract(&held, fd, Reason::MEM);",
            "            Phase::Intent if held.has(crate::flag::ESTABLISHED) => {
                answer::retract(&held, fd, Reason::MEM);",
        )],
        test: Test::Parity("scarce.connect_under_way"),
    },
    Mend {
        name: "held-back-is-sent-first",
        without: "a corked upload stays on TCP to its end",
        edits: &[edit(
            "crates/socket/src/stream.rs",
            "            detour::push(self.conn, self.fd);",
            "            let _ = detour::push;",
        )],
        test: Test::Parity("early.a_corked_write_waits_for_a_look"),
    },
    Mend {
        name: "small-buffers-go-on",
        without: "a client with a small SO_SNDBUF and a server with SO_RCVLOWAT wait for each other",
        edits: &[edit(
            "crates/socket/src/stream/overflow.rs",
            "            _ if is_there && self.conn.has(flag::LIMITED) => usize::MAX,\n",
            "",
        )],
        test: Test::Parity("early.low_water_and_a_small_buffer"),
    },
    Mend {
        name: "strict-processes-go-home",
        without: "a process that may only read and write never hears of the end of a stream",
        edits: &[edit(
            "crates/socket/src/confine.rs",
            "                let _ = home::send(&held, &end, Reason::OPTUNSUPP);",
            "                let _ = (home::send, &end);",
        )],
        test: Test::Parity("filter.strict_end"),
    },
    Mend {
        name: "all-parts-of-a-list",
        without: "a read of several buffers stops after the first where a reset stands behind the bytes",
        edits: &[edit(
            "crates/socket/src/detour.rs",
            "        false => net::readable_bytes(fd) > 0,",
            "        false => poll::peek(fd, poll::bits::IN) == poll::bits::IN,",
        )],
        test: Test::Calls("154"),
    },
    Mend {
        name: "handler-within-a-write",
        without: "a signal handler that writes within its thread's write waits for itself",
        edits: &[edit(
            "crates/shm/src/lock.rs",
            "            if held == me.0 {
                return if patience.may_be_interrupted() { Err(Denied::Reentered) } else { Ok(Guard(self)) };
            }\n",
            "",
        )],
        test: Test::Parity("locks.handler_within_a_write"),
    },
    Mend {
        name: "poll-asks-the-kernel",
        without: "a poll in which some socket is always ready never hears of a killed peer",
        edits: &[edit(
            "crates/socket/src/poll.rs",
            "let is_due = since > ASKED_EVERY.1 || (since > ASKED_EVERY.0 && polls >= POLLS);",
            "let is_due = since > ASKED_EVERY.1 && polls > 2 * POLLS;",
        )],
        test: Test::Parity("poll.dead_among_ready"),
    },
    Mend {
        name: "fence-before-the-ring",
        without: "a sleeper that arms while its peer publishes is not rung",
        edits: &[edit(
            "crates/shm/src/wait.rs",
            "    pub fn take_ring(&self) -> Asked {
        fence(Ordering::SeqCst);",
            "    pub fn take_ring(&self) -> Asked {",
        )],
        test: Test::Loom("loom_tests"),
    },
    Mend {
        name: "change-is-counted",
        without: "two connections get one object of a slab",
        edits: &[edit(
            "crates/shm/src/free_list.rs",
            "((before >> 32).wrapping_add(1) << 32)",
            "((before >> 32) << 32)",
        )],
        test: Test::Loom("loom_slab"),
    },
    Mend {
        name: "held-bytes-come-out",
        without: "a reader sleeps beside bytes that were sent with MSG_MORE and nothing behind them",
        edits: &[edit(
            "crates/socket/src/push.rs",
            "    if end.incoming.is_holding() {
        watch::note_held();
    }",
            "    let _ = (end, watch::note_held as fn());",
        )],
        test: Test::Parity("push.held_long_enough"),
    },
    Mend {
        name: "cursors-are-clamped",
        without: "a peer's cursors lead out of the ring",
        edits: &[edit(
            "crates/shm/src/ring.rs",
            "if bytes > self.size { Err(PeerMisbehaved) } else { Ok(bytes as usize) }",
            "Ok(bytes as usize)",
        )],
        test: Test::Unit("shm", "ring_tests"),
    },
    Mend {
        name: "verdict-has-a-generation",
        without: "a late look at a row reads the verdict of its next connection",
        edits: &[edit(
            "crates/fabric/src/verdict.rs",
            "if word.generation() == generation { said_by(word) } else { Some(LOST) }",
            "if word.generation() == generation || true { said_by(word) } else { Some(LOST) }",
        )],
        test: Test::Unit("fabric", "a_late_swap_does_not_hit_the_next_connection"),
    },
    Mend {
        name: "undecided-when-memory-is-taken-back",
        without: "a server that answers a moment later shares what was just taken away",
        edits: &[edit(
            "crates/fabric/src/revoke.rs",
            "    let made = verdict::decide(&row.verdict, generation, Side::Server, Verdict::Plain(reason));\n",
            "    let made = Ok(verdict::read(&row.verdict, generation).unwrap_or(Verdict::Plain(reason)));\n",
        )],
        test: Test::Unit("fabric", "what_is_shared_goes_home_and_what_is_undecided_never_is_shared"),
    },
    Mend {
        name: "memory-of-a-domain-whose-process-has-gone",
        without: "a function is taken away, and what a claimant without a line has of it is not",
        edits: &[edit(
            "crates/ismd/src/broker.rs",
            "|| offer.bound_to.as_ref().is_some_and(is_taken) {\n",
            "|| (false && offer.bound_to.as_ref().is_some_and(is_taken)) {\n",
        )],
        test: Test::Unit(
            "ismd",
            "after_a_change_memory_is_taken_back_from_those_who_may_not_share_it_any_more",
        ),
    },
    Mend {
        name: "numbers-of-doorbells",
        without: "a number that a peer wrote leads to a pipe of the program's own",
        edits: &[edit(
            "crates/os/src/pipe.rs",
            "if about.mode & 0o600 == 0o600 { Ok(()) } else { Err(Errno::EINVAL) }",
            "if about.mode & 0o600 == 0o600 || true { Ok(()) } else { Err(Errno::EINVAL) }",
        )],
        test: Test::Unit("os", "nothing_but_a_doorbell_is_opened_as_one"),
    },
    Mend {
        name: "memory-cannot-shrink",
        without: "a peer that cuts its memory short ends its victim by SIGBUS",
        edits: &[edit(
            "crates/os/src/mem.rs",
            "if seals & F_SEAL_SHRINK != 0 && is_plain_memory(fd)",
            "if (seals & F_SEAL_SHRINK != 0 || true) && is_plain_memory(fd)",
        )],
        test: Test::Bars("whoever_lies_harms_nobody_else"),
    },
    Mend {
        name: "memory-of-ordinary-pages",
        without: "a peer that offers huge pages which are not there ends its victim by SIGBUS",
        edits: &[edit(
            "crates/os/src/mem.rs",
            "        && crate::file::file_system(fd) == Ok(TMPFS_MAGIC)\n",
            "        && crate::file::file_system(fd).is_ok_and(|_| TMPFS_MAGIC != 0)\n",
        )],
        test: Test::Unit("os", "only_ordinary_pages_that_cannot_shrink_are_believed"),
    },
    Mend {
        name: "nothing-of-root-stays",
        without: "a worker that gave up its user keeps the registry of its former user",
        edits: &[edit("crates/socket/src/credentials.rs", "    fabric().leave();\n", "")],
        test: Test::Bars("whoever_gives_its_user_up_keeps_its_own_connections_only"),
    },
    Mend {
        name: "doubted-ports",
        without: "each connection to a port with both kinds of listener waits for an answer",
        edits: &[edit(
            "crates/fabric/src/local/listener.rs",
            "if doubt::is_doubted(map, target, owner) { Err(Reason::PEERNOSMC) } else { Ok(owner) }",
            "Ok(owner)",
        )],
        test: Test::Bars("a_port_with_both_kinds_of_listener_is_not_waited_for_every_time"),
    },
    Mend {
        name: "closed-client-missed",
        without: "a program after exec loses what is in the ring if the kernel does not find the closed client",
        edits: &[edit(
            "crates/socket/src/claim.rs",
            "            return find_served(fd, at);\n",
            "            return Err(Reason::PEERNOSMC);\n",
        )],
        test: Test::Unit(
            "sim",
            "a_program_reads_on_after_exec_though_the_kernel_misses_the_client_that_has_closed",
        ),
    },
    Mend {
        name: "call-keeps-its-socket",
        without: "a call whose number another thread closes is told EBADF, or what another socket says",
        edits: &[edit(
            "crates/socket/src/close.rs",
            "let is_to_be_kept = end.is_some() && is_in_a_call_by(held, fd);",
            "let is_to_be_kept = end.is_some() && is_in_a_call_by(held, fd) && false;",
        )],
        test: Test::Parity("kept.reader_hears_the_end"),
    },
    Mend {
        name: "call-noted-until-it-returns",
        without: "such a call is told so where it does not sleep just then",
        edits: &[
            edit(
                "crates/socket/src/stream.rs",
                "let slept = wait::sleep(self.conn, &self.end, fd, wish, limit, call);",
                "let slept = wait::sleep(self.conn, &self.end, fd, wish, limit, call);
        self.stay.end(self.conn, fd);",
            ),
            edit("crates/socket/src/close.rs", "Cycles::from_us(2_000)", "Cycles::from_us(0)"),
        ],
        test: Test::Parity("kept.reader_in_the_middle_of_a_copy"),
    },
    Mend {
        name: "said-before-a-connect",
        without: "what the kernel said of a socket that was not connected ends the connection",
        edits: &[edit(
            READY,
            "let may_be = conn.has(flag::EARLY) && is_in_the_table(conn, fd);",
            "let may_be = conn.has(flag::EARLY) && is_in_the_table(conn, fd) && false;",
        )],
        test: Test::Unit("sim", "what_was_said_before_a_connect_is_not_believed_after_it"),
    },
    Mend {
        name: "laps-of-full-answers",
        without: "an answer of epoll_wait that came out full does not go on behind it: the kernel's members starve",
        edits: &[edit(
            "crates/socket/src/epoll/wait.rs",
            "if set.laps.are_on() && turns::deal(",
            "if set.laps.are_on() && false && turns::deal(",
        )],
        test: Test::Parity("full.connections_and_pipes"),
    },
    Mend {
        name: "marker-of-the-kernels-lap",
        without: "the kernel's lap ends nowhere, and what the rings have to tell waits for it",
        edits: &[edit(
            "crates/socket/src/epoll/turns.rs",
            "notes.has_passed_marker |= is_marker;",
            "notes.has_passed_marker |= is_marker && false;",
        )],
        test: Test::Parity("full.connections_and_pipes"),
    },
    Mend {
        name: "full-answers-without-gaps",
        without: "what the kernel named for nothing leaves a gap in an answer",
        edits: &[edit(
            "crates/socket/src/epoll/turns.rs",
            "FILLS_MOST.min(answer.kept + 1)",
            "1.min(answer.kept + 1)",
        )],
        test: Test::Parity("full.connections_and_pipes"),
    },
    Mend {
        name: "buffers-beyond-the-users-half",
        without: "a buffer that cannot be anybody's is no error where nothing is copied, or comes after EPIPE",
        edits: &[
            edit(
                "crates/preload/src/data.rs",
                "flags & msg::TRUNC == 0 || is_beyond(at, len)",
                "flags & msg::TRUNC == 0",
            ),
            edit(
                "crates/preload/src/data.rs",
                "true if is_beyond(at, len) =>",
                "true if is_beyond(at, len) && false =>",
            ),
        ],
        test: Test::Parity("pointers."),
    },
    Mend {
        name: "splice-in-the-wrong-direction",
        without: "splice into a pipe's reading end waits for room there",
        edits: &[edit(
            "crates/preload/src/transfer.rs",
            "if os::fd::is_for_writing(to) {",
            "if os::fd::is_for_writing(to) || true {",
        )],
        test: Test::Parity("move.splice_is_refused"),
    },
    Mend {
        name: "sharers-looked-after-in-epoll",
        without: "a sleeper is forgotten where a sharer was killed between a drained doorbell and the next question",
        edits: &[edit(
            "crates/socket/src/epoll/wait.rs",
            "-1 if self.0 => crate::wait::SHARED_SLICE_MS,",
            "-1 if self.0 && false => crate::wait::SHARED_SLICE_MS,",
        )],
        test: Test::Parity("sharer.drained_under_a_set"),
    },
    Mend {
        name: "ended-before-exec",
        without: "a program after exec loses what was sent before both ends had ended",
        edits: &[edit(
            "crates/socket/src/server.rs",
            "net::peer(fd).is_err() && !claim::has_ended(fd)",
            "net::peer(fd).is_err()",
        )],
        test: Test::Unit("sim", "a_program_after_exec_reads_what_was_sent_though_both_ends_have_ended"),
    },
    Mend {
        name: "dissolved-is-not-found",
        without: "a socket that was dissolved and connected again is reset by the next program after exec",
        edits: &[edit(
            "crates/socket/src/close.rs",
            "        fabric().rows().dissolve_side(conn.row(), conn.cookie(), end.side);\n",
            "",
        )],
        test: Test::Unit(
            "sim",
            "a_socket_that_was_dissolved_and_connected_again_is_its_new_connection_after_exec",
        ),
    },
    Mend {
        name: "port-given-back",
        without: "a socket that the kernel is just closing is taken for none, and its bytes are not found",
        edits: &[edit(
            "crates/os/src/diag.rs",
            "[0, 0] => answer.id.dport_be == request.id.dport_be,",
            "[0, 0] => false,",
        )],
        test: Test::Unit("os", "a_socket_that_is_being_closed_is_itself_or_none"),
    },
    Mend {
        name: "home-stays-home",
        without: "who gets the descriptor of a connection that is back on TCP meets EPIPE",
        edits: &[edit(
            "crates/fabric/src/rows.rs",
            "        let bit = 1 << side as u32;\n",
            "        let bit = (1 | DISSOLVED) << side as u32;\n",
        )],
        test: Test::Parity("operator.passed_on_afterwards"),
    },
    Mend {
        name: "latecomers-of-a-fork",
        without: "a child's new pipe reads bytes of a connection that its parent's other thread accepted",
        edits: &[edit(
            "crates/socket/src/fork.rs",
            "inherited::may_have_latecomers() && !os::confined::is_confined()",
            "inherited::may_have_latecomers() && false",
        )],
        test: Test::Parity("fork.beside_one_who_duplicates"),
    },
    Mend {
        name: "single-buffer-is-cut",
        without: "a list of one buffer that ends beyond the address space is EFAULT, where TCP moves bytes",
        edits: &[edit(
            "crates/preload/src/data.rs",
            "let is_cut = (MOST..=isize::MAX as usize).contains(&len);",
            "let is_cut = (MOST..=isize::MAX as usize).contains(&len) && false;",
        )],
        test: Test::Parity("pointers.longer_than_the_address_space"),
    },
    Mend {
        name: "both-ends-hang-up",
        without: "a set that asks once is not told EPOLLHUP by who has shut both ways himself",
        edits: &[edit(
            READY,
            "level |= if closed & ClosedBy::WRITE != 0 { bits::HUP } else { 0 };",
            "level |= 0;",
        )],
        test: Test::Calls("1..200"),
    },
    Mend {
        name: "no-events-of-a-call-that-a-signal-ended",
        without: "poll leaves the program's old revents where a signal ends it, as if they were told",
        edits: &[edit(
            "crates/socket/src/poll.rs",
            "if slept == Err(Errno::EINTR) {",
            "if slept == Err(Errno::EINTR) && false {",
        )],
        test: Test::Parity("poll.what_a_call_leaves_that_fails"),
    },
    Mend {
        name: "sendfile-takes-its-reset",
        without: "a sendfile that a reset cuts short leaves the reset to the next call, where TCP has EPIPE",
        edits: &[edit(
            "crates/preload/src/transfer.rs",
            "&& end.get().is_none() && !os::fd::is_nonblocking(out) {",
            "&& end.get().is_none() && false {",
        )],
        test: Test::Parity("move.sendfile_into_a_reset"),
    },
    Mend {
        name: "log-without-bound",
        without: "lines that nobody takes fill the daemon's memory",
        edits: &[edit(
            "crates/ismd/src/log.rs",
            "if state.bytes + line.len() > ROOM {",
            "if state.bytes > usize::MAX / 2 {",
        )],
        test: Test::Unit("ismd", "who_speaks_waits_for_no_reader_and_what_finds_no_room_is_counted"),
    },
    Mend {
        name: "all-notes-forgotten",
        without: "every fork child is given 64 pages in which no call is written down",
        edits: &[edit(
            "crates/socket/src/calls.rs",
            "filter(move |(block, _)| used & 1 << block != 0)",
            "filter(move |(block, _)| used & 1 << block != 0 || block.is_multiple_of(1))",
        )],
        test: Test::Bars("a_fork_child_is_given_few_pages_for_the_library"),
    },
    Mend {
        name: "pattern-of-any-length",
        without: "a long pattern of the policy is compiled for as long as it takes",
        edits: &[edit(
            "crates/ismd/src/policy/glob.rs",
            "if text.len() > LONGEST {",
            "if text.len() > usize::MAX / 2 {",
        )],
        test: Test::Unit("ismd", "no_text_ends_the_daemon"),
    },
    Mend {
        name: "stall-counted-by-all",
        without: "a server that stalled once with ten connections waiting stays on TCP for 512 seconds",
        edits: &[edit(
            "crates/fabric/src/doubt.rs",
            "if is_known && short(before) != seen {",
            "if is_known && before == u64::MAX && seen != 0 {",
        )],
        test: Test::Bars("one_stall_counts_once_for_all_who_waited"),
    },
    Mend {
        name: "packet-taken-unseen",
        without: "a client's descriptors become the daemon's, 253 with each message",
        edits: &[edit(
            "crates/os/src/passing.rs",
            "receive_by(fd, into, MSG_PEEK, others)?",
            "receive_by(fd, into, 0, others)?",
        )],
        test: Test::Unit("os", "who_may_not_wait_gets_one_descriptor_and_what_is_too_much_stays_where_it_is"),
    },
    Mend {
        name: "a-set-asks-the-socket-and-not-its-old-number",
        without: "what a set tells of a socket whose number was closed is that of who has the number now",
        edits: &[edit(
            "crates/socket/src/interest/registration.rs",
            "self.record().unwrap_or_else(|| other_number(self.entry()))",
            "if self.record().is_none() && other_number(self.entry()) == -2 { -1 } else { self.fd() }",
        )],
        test: Test::Parity("stale.number_is_closed"),
    },
    Mend {
        name: "what-no-number-reaches-keeps-its-meaning",
        without: "a set is told nothing of a socket whose number was closed before it went back to TCP",
        edits: &[edit(
            "crates/socket/src/records.rs",
            "return detach_bell(conn, registration, true);",
            "return _ = drop_registration(conn, registration, true);",
        )],
        test: Test::Parity("stale.goes_home"),
    },
    Mend {
        name: "who-has-not-looked-closes-without-a-word",
        without: "a client is told EAGAIN for a while after its server has closed without a look",
        edits: &[edit("crates/socket/src/stream.rs", "!= 0 || self.conn.is(Phase::Intent);", "!= 0;")],
        test: Test::Parity("early.closed_without_a_look"),
    },
    Mend {
        name: "poll-says-of-a-set-what-it-has-to-tell",
        without: "poll calls a set readable whose bytes have been read",
        edits: &[edit(
            "crates/socket/src/poll.rs",
            "let is_vain = told & bits::IN != 0 && !epoll::has_something(fd);",
            "let is_vain = told & bits::IN != 0 && !epoll::has_something(fd) && false;",
        )],
        test: Test::Parity("poll.set_that_is_asked_after_its_owner_looked"),
    },
    Mend {
        name: "own-shutdown-is-an-edge",
        without: "an edge-triggered set is not told anew after the program's own shutdown(SHUT_WR)",
        edits: &[edit(
            "crates/socket/src/close.rs",
            "if how == SHUT_WR && !conn.has(flag::TCP_ENDED) {",
            "if how == SHUT_WR && false {",
        )],
        test: Test::Parity("epoll.own_shutdown_is_an_edge"),
    },
    Mend {
        name: "low-water-is-an-edge",
        without: "an edge-triggered set is not told of unread bytes that a lower SO_RCVLOWAT makes enough",
        edits: &[edit(
            "crates/socket/src/stream/asked.rs",
            "if conn.is(Phase::Smc) && ready::has_data(&conn, &end) {",
            "if false && ready::has_data(&conn, &end) {",
        )],
        test: Test::Parity("epoll.low_water_is_an_edge"),
    },
    Mend {
        name: "who-closes-leaves-the-doorbell-to-a-child",
        without: "a child that waits on a set with edges hears nothing more once its parent has closed its copy",
        edits: &[edit(
            "crates/socket/src/records.rs",
            "detach_bell(conn, gone, !may_be_shared && !gone.is_outright());",
            "detach_bell(conn, gone, !gone.is_outright());",
        )],
        test: Test::Parity("stale.child_waits_on_edge"),
    },
];

#[cfg(test)]
mod tests {
    use super::{MENDS, Test};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// All files of a folder, as one text.
    fn texts(folder: &str) -> String {
        let walk = ignore::WalkBuilder::new(root().join(folder)).build();
        walk.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect()
    }

    #[test]
    fn every_mend_is_where_the_table_says() {
        let lost: Vec<String> = MENDS
            .iter()
            .filter_map(|mend| mend.places(&root()).err())
            .map(|error| format!("{error:#}"))
            .collect();
        assert!(lost.is_empty(), "{}", lost.join("\n"));
    }

    #[test]
    fn every_mend_has_a_name_of_its_own_and_a_test_that_exists() {
        for (n, mend) in MENDS.iter().enumerate() {
            assert!(MENDS[..n].iter().all(|other| other.name != mend.name), "{} twice", mend.name);
            assert!(mend.edits.iter().all(|edit| edit.old != edit.new), "{} changes nothing", mend.name);
            let exists = match mend.test {
                Test::Parity(name) => texts("tests/parity/program").contains(&format!("\"{name}")),
                Test::Bars(name) => texts("tests/bars").contains(&format!("fn {name}(")),
                Test::Unit(package, name) => {
                    let text = texts(&format!("crates/{package}/src"));
                    text.contains(&format!("fn {name}(")) || text.contains(&format!("mod {name};"))
                }
                Test::Calls(seeds) => seeds.split("..").all(|seed| seed.parse::<u64>().is_ok()),
                Test::Loom(name) => texts("crates/shm/src").contains(&format!("mod {name};")),
            };
            assert!(exists, "{}: no {}", mend.name, mend.test);
        }
    }
}
