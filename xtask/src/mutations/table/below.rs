//! Mends of what lies below the calls, and beside them: shared memory, system calls, the fabric, the daemon.
//! Owns: the entries, in the order in which they were found wanting.

use super::{Mend, Test, edit};

const OFFER: &str = "crates/fabric/src/offer.rs";

pub(super) const MENDS: &[Mend] = &[
    Mend {
        name: "slot-lent-while-held",
        without: "bytes on an old descriptor reach another connection",
        edits: &[
            edit(
                "crates/fabric/src/unused.rs",
                "            && !self.members().has_any_living(view.header())\n",
                "",
            ),
            edit(
                OFFER,
                "        header.renew();
        !self.members().has_any_living(header)",
                "        header.renew();
        true",
            ),
            edit(
                "crates/socket/src/connection/conn/mod.rs",
                "self.view().is_some_and(|view| serves(view) != self.link.generation.load(Ordering::Relaxed))",
                "self.view().is_some_and(|view| serves(view) != self.link.generation.load(Ordering::Relaxed) && false)",
            ),
        ],
        test: Test::Parity("slots.reset_and_kept"),
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
            "if seals & needed == needed && is_plain_memory(fd)",
            "if (seals & needed == needed || true) && is_plain_memory(fd)",
        )],
        test: Test::Unit("os", "memory_that_can_still_shrink_or_be_sealed_is_not_believed"),
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
        name: "in-flight-when-ended",
        without: "what was unread is lost where a socket is passed on whose both streams have ended",
        edits: &[edit(
            "crates/fabric/src/unused.rs",
            "block.holders.load(Acquire) > 0 && is_unread",
            "false && is_unread",
        )],
        test: Test::Parity("passed.on_its_way_when_both_have_ended"),
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
        name: "passed-on-and-left",
        without: "who takes the last number lets go of memory that the receiver of a connection looks for",
        edits: &[edit(
            "crates/fabric/src/leaving.rs",
            "        self.keep_passed_on();
",
            "",
        )],
        test: Test::Parity("scarce.passed_unread_by_both"),
    },
    Mend {
        name: "one-network",
        without: "of two connections with the same addresses in two network namespaces one gets the other's bytes",
        edits: &[edit(
            "crates/os/src/diag.rs",
            "    known == 0 || known == crate::net::namespace(fd)\n",
            "    known == 0 || fd >= 0\n",
        )],
        test: Test::Parity("family.same_addresses"),
    },
    Mend {
        name: "odd-pieces",
        without: "a reader that takes a full buffer for more is told EAGAIN in the middle of a message",
        edits: &[edit("crates/shm/src/ring.rs", "pub const ODD: usize = 27;", "pub const ODD: usize = 0;")],
        test: Test::Parity("data.long_messages"),
    },
    Mend {
        name: "whole-calls",
        without: "a thread that is cancelled anywhere leaves a connection in the middle of a call, for a reset",
        edits: &[edit(
            "crates/preload/src/cancel.rs",
            "    Whole(is_anywhere() && put_off())\n",
            "    Whole(is_anywhere() && false && put_off())\n",
        )],
        test: Test::Parity("cancel.anywhere"),
    },
    Mend {
        name: "filter-is-asked",
        without: "behind a filter that refuses poll reads and writes fail, or wait for ever",
        edits: &[edit(
            "crates/preload/src/sandbox.rs",
            "        Some(filter) => confine::before_filter(left_by(filter)),\n",
            "        Some(filter) => confine::before_filter(Left { enough: true, ..left_by(filter) }),\n",
        )],
        test: Test::Parity("filter.own_without_poll"),
    },
    Mend {
        name: "who-we-are-is-not-asked",
        without: "behind a filter that kills for getpid the program is killed by its close, its shutdown or its end",
        edits: &[edit(
            "crates/socket/src/occasions/confine.rs",
            "    if !left.process_id {\n",
            "    if false && !left.process_id {\n",
        )],
        test: Test::Parity("filter.own_that_kills_for_getpid"),
    },
    Mend {
        name: "signals-wait-where-yields-last",
        without: "a crowd holds signals back at each of its yields, and loses a quarter of its rate",
        edits: &[edit(
            "crates/socket/src/ground/policy/waiter.rs",
            "        self.yielded > R::LONG_AWAY || self.habits.was_away_for_a_slice(now)\n",
            "        true\n",
        )],
        test: Test::Unit(
            "socket",
            "signals_are_held_back_beside_somebody_who_computes_and_hardly_ever_in_a_crowd",
        ),
    },
    Mend {
        name: "in-the-same-breath",
        without: "a server that sends a head and then a body asks TCP once for each answer",
        edits: &[edit(
            "crates/socket/src/connection/conn/mod.rs",
            "const SAME_BREATH: Cycles = Cycles::from_us(50);\n",
            "const SAME_BREATH: Cycles = Cycles::from_us(0);\n",
        )],
        test: Test::Unit("sim", "a_body_behind_its_head_asks_nobody"),
    },
    Mend {
        name: "passed-sets-are-tcps",
        without: "who waits on a set by a number that came by SCM_RIGHTS is told nothing of what is in it",
        edits: &[edit(
            "crates/socket/src/occasions/lend.rs",
            "        return crate::epoll::note_passed(fd);\n",
            "        return;\n",
        )],
        test: Test::Parity("setspassed.to_oneself"),
    },
    Mend {
        name: "io-uring-waits",
        without: "a server that waits by an io_uring and reads by libc stands still",
        edits: &[edit(
            "crates/socket/src/sets/unseen.rs",
            "            false => os::pipe::is_a_ring_of_the_kernel(number),\n",
            "            false => os::pipe::is_a_ring_of_the_kernel(-1),\n",
        )],
        test: Test::Parity("elsewhere.io_uring"),
    },
];
