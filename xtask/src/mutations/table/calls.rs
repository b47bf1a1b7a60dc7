//! Mends of what a program calls: `preload` and `socket`. Owns: the entries, in the order in which they were
//! found wanting.

use super::{Mend, Test, edit};

const READY: &str = "crates/socket/src/uses/ready.rs";
const EXEC: &str = "crates/socket/src/occasions/exec.rs";

pub(super) const MENDS: &[Mend] = &[
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
            "crates/socket/src/ground/policy/habits.rs",
            "let kept = if is_enough {",
            "let kept = if sum > R::TOO_MANY - R::LONG_YIELD_WEIGHT {",
        )],
        test: Test::Unit("socket", "long_yields_among_too_few_short_ones_add_up"),
    },
    Mend {
        name: "what-a-borrower-has",
        without: "a child by vfork writes into its parent's connection where it has a file of its own",
        edits: &[edit(
            "crates/socket/src/ground/table.rs",
            "cell.fetch_or(ELSEWHERE, Ordering::AcqRel);",
            "cell.fetch_or(0, Ordering::AcqRel);",
        )],
        test: Test::Parity("family.vfork_child_at_work"),
    },
    Mend {
        name: "two-flags-at-once",
        without: "the second of two flags stays down where the first is up",
        edits: &[edit(
            "crates/socket/src/connection/conn/mod.rs",
            "if !self.flags().has_all(flags) {",
            "if !self.flags().has_any(flags) {",
        )],
        test: Test::Unit("socket", "a_mark_of_two_bits_is_not_content_with_one"),
    },
    Mend {
        name: "exec-under-another-number",
        without: "a connection that goes on over exec under a number that nobody saw is reset",
        edits: &[edit(
            EXEC,
            "in low_ones_that_go_on(|fd| table::get(fd) == Entry::Empty)",
            "in low_ones_that_go_on(|_| false)",
        )],
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
            "crates/socket/src/decisions/handover.rs",
            "fabric().keep_attached_over_exec(view, on);",
            "fabric().keep_attached_over_exec(view, on && false);",
        )],
        test: Test::Parity("exec.alone_when_the_peer_is_killed"),
    },
    Mend {
        name: "home-under-a-kept-call",
        without: "a blocked call whose number was closed fails when its connection goes back to TCP",
        edits: &[edit(
            "crates/socket/src/calls/stream/behind.rs",
            "(self.conn.phase() == Phase::Plain || self.end.is_read_by_libc()) && self.may_wait()",
            "self.conn.phase() == Phase::Plain && self.may_wait()",
        )],
        test: Test::Parity("kept.reader_goes_home"),
    },
    Mend {
        name: "what-is-left-of-its-time",
        without: "a call that has waited waits for its whole time once more when its connection goes back to TCP",
        edits: &[edit(
            "crates/socket/src/calls/stream/behind.rs",
            "limit.is_some_and(|limit| !limit.is_never()) || is_nonblocking(conn, fd)",
            "is_nonblocking(conn, fd)",
        )],
        test: Test::Parity("operator.time_left_to_a_receive"),
    },
    Mend {
        name: "handlers-run-when-they-are-due",
        without: "a handler with SA_RESTART runs when the call ends that its signal came in",
        edits: &[edit(
            "crates/os/src/apart.rs",
            "crate::held_back::let_through(blocked)?;",
            "let _ = blocked;",
        )],
        test: Test::Parity("signal.restarted_read_beside_another_handler"),
    },
    Mend {
        name: "gone-under-who-asks",
        without: "a number goes while somebody asks the kernel's set by it",
        edits: &[edit("crates/socket/src/calls/close.rs", "    drop(held.interest.turn.take());\n", "")],
        test: Test::Unit("socket", "a_number_goes_once_whoever_asks_by_it_has_done"),
    },
    Mend {
        name: "large-writes-wait-for-a-look",
        without: "all of a client's first large write goes over TCP, and the rest of it slowly",
        edits: &[edit(
            "crates/socket/src/calls/stream/begin.rs",
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
            "crates/socket/src/calls/stream/overflow.rs",
            "if self.sent + piece.len() < until { msg::MORE } else { 0 }",
            "0",
        )],
        test: Test::Parity("early.pieces_are_one_write"),
    },
    Mend {
        name: "closed-within-one-write",
        without: "a write whose peer has closed is cut where TCP says so",
        edits: &[edit(
            "crates/socket/src/calls/stream.rs",
            "        if self.is_refused {",
            "        if false && self.is_refused {",
        )],
        test: Test::Parity("early.pieces_to_a_closed_end"),
    },
    Mend {
        name: "small-buffers-catch-up",
        without: "an upload that a small SO_SNDBUF bounds stays on TCP, where that stops for seconds",
        edits: &[edit(
            "crates/socket/src/calls/stream.rs",
            "        if self.is_tcp_full
            && let Some",
            "        if false
            && let Some",
        )],
        test: Test::Parity("early.small_buffers_and_a_late_look"),
    },
    Mend {
        name: "an-end-is-none-of-ours",
        without: "a blocking write is cut short when a server that speaks TCP shuts its own end down",
        edits: &[edit(
            "crates/socket/src/calls/stream.rs",
            "        if is_early && self.conn.has(flag::TCP_ENDED) {",
            "        if false && self.conn.has(flag::TCP_ENDED) {",
        )],
        test: Test::Parity("early.an_end_within_a_large_write"),
    },
    Mend {
        name: "confined-readers-count",
        without: "a connection of which a confined process reads the first bytes stays on TCP",
        edits: &[edit(
            "crates/socket/src/connection/end.rs",
            "(os::confined::is_strict() || self.incoming.has_ended_for_good())",
            "(os::confined::is_confined() || self.incoming.has_ended_for_good())",
        )],
        test: Test::Parity("filter.early_bytes"),
    },
    Mend {
        name: "queued-once",
        without: "SIOCOUTQ counts twice what is on TCP and not acknowledged",
        edits: &[edit(
            "crates/socket/src/calls/queue.rs",
            "held + outside.max(begun.saturating_sub(taken))",
            "held + outside + begun.saturating_sub(taken)",
        )],
        test: Test::Parity("early.no_byte_is_queued_twice"),
    },
    Mend {
        name: "connecting-is-decided",
        without: "what a server sends to a program that took its last descriptor while it connected is lost",
        edits: &[edit(
            "crates/socket/src/occasions/credentials.rs",
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
            "crates/socket/src/calls/stream.rs",
            "            detour::push(self.conn, self.fd);",
            "            let _ = detour::push;",
        )],
        test: Test::Parity("early.a_corked_write_waits_for_a_look"),
    },
    Mend {
        name: "small-buffers-go-on",
        without: "a client with a small SO_SNDBUF and a server with SO_RCVLOWAT wait for each other",
        edits: &[edit(
            "crates/socket/src/calls/stream/overflow.rs",
            "            _ if is_there && self.conn.has(flag::LIMITED) => usize::MAX,\n",
            "",
        )],
        test: Test::Parity("early.low_water_and_a_small_buffer"),
    },
    Mend {
        name: "strict-processes-go-home",
        without: "a process that may only read and write never hears of the end of a stream",
        edits: &[edit(
            "crates/socket/src/occasions/confine.rs",
            "                let _ = home::send(&held, &end, Reason::OPTUNSUPP);",
            "                let _ = (home::send, &end);",
        )],
        test: Test::Parity("filter.strict_end"),
    },
    Mend {
        name: "all-parts-of-a-list",
        without: "a read of several buffers stops after the first where a reset stands behind the bytes",
        edits: &[edit(
            "crates/socket/src/decisions/detour.rs",
            "        false => net::readable_bytes(fd) > 0,",
            "        false => poll::peek(fd, poll::bits::IN) == poll::bits::IN,",
        )],
        test: Test::Calls("154"),
    },
    Mend {
        name: "poll-asks-the-kernel",
        without: "a poll in which some socket is always ready never hears of a killed peer",
        edits: &[edit(
            "crates/socket/src/calls/poll.rs",
            "let is_due = since > ASKED_EVERY.1 || (since > ASKED_EVERY.0 && polls >= POLLS);",
            "let is_due = since > ASKED_EVERY.1 && polls > 2 * POLLS;",
        )],
        test: Test::Parity("poll.dead_among_ready"),
    },
    Mend {
        name: "poll-asks-for-others",
        without: "a poll of a ready socket beside others forgets what the kernel has told of these",
        edits: &[edit(
            "crates/socket/src/calls/poll.rs",
            "    entries.zip(asked).for_each(|((_, entry), told)| entry.revents = told.revents);",
            "    let _ = (entries, asked);",
        )],
        test: Test::Parity("poll.mixed_set"),
    },
    Mend {
        name: "held-bytes-come-out",
        without: "a reader sleeps beside bytes that were sent with MSG_MORE and nothing behind them",
        edits: &[edit(
            "crates/socket/src/uses/push.rs",
            "    if end.incoming.is_holding() {
        watch::note_held();
    }",
            "    let _ = (end, watch::note_held as fn());",
        )],
        test: Test::Parity("push.held_long_enough"),
    },
    Mend {
        name: "nothing-of-root-stays",
        without: "a worker that gave up its user keeps the registry of its former user",
        edits: &[edit("crates/socket/src/occasions/credentials.rs", "    fabric().leave();\n", "")],
        test: Test::Bars("whoever_gives_its_user_up_keeps_its_own_connections_only"),
    },
    Mend {
        name: "closed-client-missed",
        without: "a program after exec loses what is in the ring if the kernel does not find the closed client",
        edits: &[edit(
            "crates/socket/src/decisions/claim.rs",
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
            "crates/socket/src/calls/close.rs",
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
                "crates/socket/src/calls/stream.rs",
                "let slept = wait::sleep(self.conn, &self.end, fd, wish, limit, call);",
                "let slept = wait::sleep(self.conn, &self.end, fd, wish, limit, call);
        self.stay.end(self.conn, fd);",
            ),
            edit("crates/socket/src/calls/close.rs", "Cycles::from_us(2_000)", "Cycles::from_us(0)"),
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
        name: "ended-before-exec",
        without: "a program after exec loses what was sent before both ends had ended",
        edits: &[edit(
            "crates/socket/src/calls/server.rs",
            "net::peer(fd).is_err() && !was_said && !claim::has_ended(fd)",
            "net::peer(fd).is_err()",
        )],
        test: Test::Unit("sim", "a_program_after_exec_reads_what_was_sent_though_both_ends_have_ended"),
    },
    Mend {
        name: "dissolved-is-not-found",
        without: "a socket that was dissolved and connected again is reset by the next program after exec",
        edits: &[edit(
            "crates/socket/src/calls/close.rs",
            "        fabric().rows().dissolve_side(conn.row(), conn.cookie(), end.side);\n",
            "",
        )],
        test: Test::Unit(
            "sim",
            "a_socket_that_was_dissolved_and_connected_again_is_its_new_connection_after_exec",
        ),
    },
    Mend {
        name: "latecomers-of-a-fork",
        without: "a child's new pipe reads bytes of a connection that its parent's other thread accepted",
        edits: &[edit(
            "crates/socket/src/occasions/fork.rs",
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
            "level |= if closed & ClosedBy::WRITE != 0 { bits::HUP | told_by_kernel(conn, fd) } else { 0 };",
            "level |= 0;",
        )],
        test: Test::Calls("1..200"),
    },
    Mend {
        name: "no-events-of-a-call-that-a-signal-ended",
        without: "poll leaves the program's old revents where a signal ends it, as if they were told",
        edits: &[edit(
            "crates/socket/src/calls/poll.rs",
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
        name: "all-notes-forgotten",
        without: "every fork child is given 64 pages in which no call is written down",
        edits: &[edit(
            "crates/socket/src/ground/callers.rs",
            "filter(move |(block, _)| used & 1 << block != 0)",
            "filter(move |(block, _)| used & 1 << block != 0 || block.is_multiple_of(1))",
        )],
        test: Test::Bars("a_fork_child_is_given_few_pages_for_the_library"),
    },
    Mend {
        name: "who-has-not-looked-closes-without-a-word",
        without: "a client is told EAGAIN for a while after its server has closed without a look",
        edits: &[edit("crates/socket/src/calls/stream.rs", "!= 0 || self.conn.is(Phase::Intent);", "!= 0;")],
        test: Test::Parity("early.closed_without_a_look"),
    },
    Mend {
        name: "poll-says-of-a-set-what-it-has-to-tell",
        without: "poll calls a set readable whose bytes have been read",
        edits: &[edit(
            "crates/socket/src/calls/poll.rs",
            "let is_vain = told & bits::IN != 0 && !epoll::has_something(fd);",
            "let is_vain = told & bits::IN != 0 && !epoll::has_something(fd) && false;",
        )],
        test: Test::Parity("poll.set_that_is_asked_after_its_owner_looked"),
    },
    Mend {
        name: "own-shutdown-is-an-edge",
        without: "an edge-triggered set is not told anew after the program's own shutdown(SHUT_WR)",
        edits: &[edit(
            "crates/socket/src/calls/close.rs",
            "if how == SHUT_WR && !conn.has(flag::TCP_ENDED) {",
            "if how == SHUT_WR && false {",
        )],
        test: Test::Parity("epoll.own_shutdown_is_an_edge"),
    },
    Mend {
        name: "low-water-is-an-edge",
        without: "an edge-triggered set is not told of unread bytes that a lower SO_RCVLOWAT makes enough",
        edits: &[edit(
            "crates/socket/src/calls/stream/asked.rs",
            "if conn.is(Phase::Smc) && ready::has_data(&conn, &end) {",
            "if false && ready::has_data(&conn, &end) {",
        )],
        test: Test::Parity("epoll.low_water_is_an_edge"),
    },
    Mend {
        name: "cancelled-before-a-call",
        without: "a thread that was asked to end goes on with calls that need not wait",
        edits: &[edit(
            "crates/preload/src/cancel.rs",
            "    if WAS_ASKED.load(Ordering::Relaxed) {\n        act();",
            "    if false {\n        act();",
        )],
        test: Test::Parity("cancel.before_a_call"),
    },
    Mend {
        name: "why-it-was-reset",
        without: "a connection whose time limit for unread bytes is over tells ECONNRESET",
        edits: &[edit(
            "crates/socket/src/calls/told.rs",
            "    Outcome::Fail(kernels.filter(|errno| *errno != Errno::EPIPE).unwrap_or(Errno::ECONNRESET))",
            "    Outcome::Fail(kernels.filter(|_| false).unwrap_or(Errno::ECONNRESET))",
        )],
        test: Test::Parity("told.unread_for_too_long_by_write"),
    },
    Mend {
        name: "unread-at-a-close-that-was-the-last",
        without: "who was thought to share a connection closes it with bytes unread, and the other end reads its end",
        edits: &[edit(
            "crates/socket/src/uses/release.rs",
            "        if closing::is_reset(end.is_drained(), conn.flags()) {
            end.mine().closed.fetch_or(closing::unread_unawares(said), Shared::Relaxed);",
            "        if false {
            end.mine().closed.fetch_or(closing::unread_unawares(said), Shared::Relaxed);",
        )],
        test: Test::Parity("passed.copy_closed_then_closed_unread"),
    },
    Mend {
        name: "passed-to-oneself",
        without: "a copy that comes back by a message is another connection, of which no set knows",
        edits: &[edit(
            "crates/socket/src/occasions/lend.rs",
            "            held.role.inode.store(inode, Ordering::Relaxed);",
            "            let _ = inode;",
        )],
        test: Test::Parity("passed.to_oneself"),
    },
    Mend {
        name: "urgent-mark-behind-the-ring",
        without: "a read that waits for all reads across an urgent mark right behind the ring",
        edits: &[edit(
            "crates/socket/src/calls/stream/behind.rs",
            "            if !goes_on || net::is_at_mark(self.fd) {",
            "            if !goes_on {",
        )],
        test: Test::Parity("move.urgent_within_a_read_for_all"),
    },
    Mend {
        name: "agreed-replace",
        without: "dup2 onto a number beyond the limit, which the kernel refuses, ends the connection there",
        edits: &[edit(
            "crates/preload/src/lifecycle.rs",
            "let agrees = || agreed::to_replace(agreed::DUP2, old, new, 0);",
            "let agrees = || true;",
        )],
        test: Test::Parity("agreed.dup_beyond_the_limit"),
    },
    Mend {
        name: "agreed-range",
        without: "close_range with a flag that the kernel refuses closes connections",
        edits: &[edit(
            "crates/preload/src/lifecycle.rs",
            "first > last || is_nothing_ours || !agreed::to_close_range(flags)",
            "first > last || is_nothing_ours",
        )],
        test: Test::Parity("agreed.range_with_a_strange_flag"),
    },
    Mend {
        name: "agreed-shutdown",
        without: "a shutdown that the program's own filter refuses ends the stream",
        edits: &[edit(
            "crates/preload/src/lifecycle.rs",
            "is_known && !is_borrowed() && agreed::to_shutdown(how)",
            "is_known && !is_borrowed()",
        )],
        test: Test::Parity("agreed.filter_of_its_own"),
    },
    Mend {
        name: "clone-files",
        without: "a child that shares descriptors alone closes its parent's, and who gets the number next reads the old bytes",
        edits: &[edit(
            "crates/preload/src/process.rs",
            "let parts = if files { !thread } else { memory && !waits };",
            "let parts = !files && memory && !waits;",
        )],
        test: Test::Parity("clone.closes_its_parents"),
    },
    Mend {
        name: "filter-without-network",
        without: "a program without TCP is killed by its own filter for calls of ours",
        edits: &[edit(
            "crates/socket/src/occasions/confine.rs",
            "confined::is_confined() && !crate::held::has_been_any()",
            "false",
        )],
        test: Test::Parity("filter.without_network"),
    },
    Mend {
        name: "one-read-goes-on",
        without: "a reader that takes a short read for drained never hears of what is on TCP behind the ring",
        edits: &[edit(
            "crates/socket/src/decisions/detour.rs",
            "if os::confined::is_strict() || !goes_on(end, fd) {",
            "if !os::confined::is_strict() || !goes_on(end, fd) {",
        )],
        test: Test::Parity("onward.short_reads_by_edges"),
    },
    Mend {
        name: "let-go-when-the-kernel-has",
        without: "a connect() that fails throws away what is unread of a connection that is over",
        edits: &[edit("crates/socket/src/calls/client.rs", "|| is_kept() {", "|| is_kept() && false {")],
        test: Test::Parity("dissolve.not_by_what_fails"),
    },
    Mend {
        name: "room-where-nobody-reads",
        without: "poll tells of room that TCP has not, once the peer has shut both ways",
        edits: &[edit(
            "crates/socket/src/uses/ready.rs",
            "        || resting::is_known(end)
        || is_peer_gone(conn, end)
",
            "        || resting::is_known(end)
",
        )],
        test: Test::Parity("stall.reads_no_more_but_what_came"),
    },
    Mend {
        name: "who-was-killed-is-asked-for",
        without: "a blocked write to a reader that was killed hears of it a second later",
        edits: &[edit(
            "crates/socket/src/decisions/wait/sleep.rs",
            "asks_for_peer(end, wish) || fds[0].revents == 0 && is_reader_killed(end, wish);",
            "asks_for_peer(end, wish) || false && is_reader_killed(end, wish);",
        )],
        test: Test::Parity("stall.killed_behind_its_own_bytes"),
    },
];
