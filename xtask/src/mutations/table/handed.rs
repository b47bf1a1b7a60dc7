//! Mends of what goes on elsewhere: in the next program, in a child, in a call that is interrupted. Owns: the
//! entries, in the order in which they were found wanting.

use super::{Mend, Test, edit};

const EXEC: &str = "crates/socket/src/occasions/exec.rs";

pub(super) const MENDS: &[Mend] = &[
    Mend {
        name: "no-word-over-exec",
        without: "what was unread is lost to the program that a process becomes which has changed its user",
        edits: &[edit(
            EXEC,
            "        if is_unfindable {\n            handover::leave_word",
            "        if is_unfindable && held.phase() == Phase::Free {\n            handover::leave_word",
        )],
        test: Test::Parity("handed.by_another_user_alone"),
    },
    Mend {
        name: "word-heard-by-both",
        without: "a program that forks before it has read reads what was left to it twice",
        edits: &[edit(
            "crates/socket/src/calls/server.rs",
            "    if was_said {\n        let _ = crate::decide::in_use(fd);\n    }\n",
            "",
        )],
        test: Test::Parity("handed.and_forked"),
    },
    Mend {
        name: "word-is-moved",
        without: "who had the socket beside the next program resets the connection as it ends",
        edits: &[edit(
            "crates/socket/src/decisions/handover.rs",
            "    let moved = if hold.moves { unread } else { 0 };",
            "    let moved = if hold.moves { unread.min(0) } else { 0 };",
        )],
        test: Test::Parity("handed.to_a_shell"),
    },
    Mend {
        name: "no-numbers-over-exec",
        without: "a program that may have few descriptors is handed a connection that it cannot take up",
        edits: &[edit(
            "crates/socket/src/decisions/handover.rs",
            "            || !os::limits::has_room_for(NEEDED)\n",
            "",
        )],
        test: Test::Parity("handed.with_few_numbers"),
    },
    Mend {
        name: "another-registry",
        without: "a program that sees another /dev/shm than the one before it hangs with its connection",
        edits: &[edit(
            "crates/socket/src/decisions/handover.rs",
            "            || !fabric().tier().is_to_be_found()\n",
            "",
        )],
        test: Test::Parity("handed.into_another_mount"),
    },
    Mend {
        name: "spawned-with-memory",
        without: "programs that both ends start, and whose starters end, find no memory",
        edits: &[edit("crates/preload/src/spawn.rs", "        socket::lend::keep_for_spawned(true);\n", "")],
        test: Test::Parity("handed.by_both_by_spawn"),
    },
    Mend {
        name: "unused-and-lent",
        without: "a connection that nobody has used yet is reset when its maker closes it beside a program it started",
        edits: &[edit(
            "crates/socket/src/occasions/lend.rs",
            "matches!(conn.phase(), Phase::Smc | Phase::Intent)",
            "matches!(conn.phase(), Phase::Smc)",
        )],
        test: Test::Parity("fork.vfork_unused_then_close"),
    },
    Mend {
        name: "signals-between-sleeps",
        without: "a signal that comes while a rung reader looks after its number ends nothing",
        edits: &[edit("crates/os/src/held_back.rs", "if crate::poll::has_masks() {", "if false {")],
        test: Test::Parity("signal.after_a_dup_over_a_read"),
    },
    Mend {
        name: "left-and-forked",
        without: "a child of a process that has left the registry counts itself anew with every call",
        edits: &[edit(
            "crates/fabric/src/local/registry.rs",
            "if self.map.get().is_some() || self.not_inherited.get().is_some() {",
            "if self.map.get().is_some() {",
        )],
        test: Test::Unit("fabric", "a_child_of_one_that_has_left_counts_itself_once"),
    },
    Mend {
        name: "word-read-past",
        without: "a thread that reads while another one fails to become a program loses what was unread",
        edits: &[
            edit(
                "crates/socket/src/decisions/detour.rs",
                "if !end.incoming.is_at_end() || end.view.has_word() {",
                "if !end.incoming.is_at_end() {",
            ),
            edit(
                "crates/socket/src/connection/end.rs",
                "let is_so = || self.incoming.is_at_end() && !self.view.has_word();",
                "let is_so = || self.incoming.is_at_end();",
            ),
        ],
        test: Test::Parity("handed.beside_a_reader"),
    },
    Mend {
        name: "leaves-what-is-used",
        without: "of two threads that take the library's last numbers at once, one lets the other's memory go",
        edits: &[edit(
            "crates/fabric/src/leaving.rs",
            "view.is_used() || self.kept.has(index)",
            "self.kept.has(index)",
        )],
        test: Test::Unit("fabric", "what_is_used_stays_however_many_leave_at_once"),
    },
    Mend {
        name: "sleeps-at-a-point",
        without: "a thread is cancelled in a call that is no cancellation point",
        edits: &[edit(
            "crates/preload/src/cancel.rs",
            "    let before = set(&SET_STATE, DISABLE);",
            "    let before = set(&SET_STATE, 0);",
        )],
        test: Test::Parity("cancel.while_it_sleeps"),
    },
    Mend {
        name: "cookie-before-a-wait",
        without: "a program that waits by the system call instruction is told our cookies",
        edits: &[edit(
            "crates/socket/src/calls/epoll/ctl.rs",
            "    } else {\n        unseen::begin(set, registration);\n    }\n",
            "    }\n",
        )],
        test: Test::Parity("elsewhere.client_level"),
    },
    Mend {
        name: "waits-elsewhere-client",
        without: "such a program's own connection goes through memory, and it stands still",
        edits: &[edit(
            "crates/socket/src/decisions/decide.rs",
            "        true if is_after_a_wait => refuse_unseen(&held, fd),\n        true => Phase::Intent,\n",
            "        true if !is_after_a_wait => Phase::Intent,\n        true => pay(&held, fd),\n",
        )],
        test: Test::Parity("elsewhere.client"),
    },
    Mend {
        name: "waits-elsewhere-server",
        without: "what such a program accepts goes through memory, and it stands still",
        edits: &[
            edit(
                "crates/socket/src/calls/server.rs",
                "if crate::unseen::has_accepted_unseen(listener) {",
                "if crate::unseen::has_accepted_unseen(listener) && is_nonblocking && fd < 0 {",
            ),
            edit(
                "crates/socket/src/sets/unseen.rs",
                "    !is_known && is_in_a_set_elsewhere(conn, fd)\n",
                "    !is_known && is_in_a_set_elsewhere(conn, -1)\n",
            ),
        ],
        test: Test::Parity("elsewhere.server"),
    },
    Mend {
        name: "waits-elsewhere-afterwards",
        without: "a program that connects in a blocking call, and then waits so, stands still",
        edits: &[edit(
            "crates/socket/src/sets/unseen.rs",
            "    !is_known && is_in_a_set_elsewhere(conn, fd)\n",
            "    !is_known && is_in_a_set_elsewhere(conn, -1)\n",
        )],
        test: Test::Parity("elsewhere.after_a_blocking_connect"),
    },
    Mend {
        name: "first-wait-takes-up",
        without: "what was asked of a set before the first wait is not told of what comes through memory",
        edits: &[edit(
            "crates/socket/src/calls/epoll/wait.rs",
            "    unseen::note_wait(set);\n",
            "    let _ = unseen::note_wait;\n",
        )],
        test: Test::Parity("elsewhere.first_wait"),
    },
    Mend {
        name: "own-share-given-up",
        without: "who has a connection under two numbers, and leaves it to a child, resets it as it ends",
        edits: &[edit(
            "crates/socket/src/uses/release.rs",
            ".saturating_sub(u32::from(!conn.has(flag::LEFT)))",
            ".saturating_sub(1)",
        )],
        test: Test::Parity("fork.daemon_by__exit"),
    },
    Mend {
        name: "inherited-is-taken-up",
        without: "a program that never touched what it got by exec leaves the next one nothing of what was unread",
        edits: &[edit(
            "crates/socket/src/calls/server.rs",
            "            if is_inherited {
                take_up_shared(fd);
",
            "            if is_inherited && false {
                take_up_shared(fd);
",
        )],
        test: Test::Parity("handed.through_another_short"),
    },
    Mend {
        name: "handed-on-by-an-heir",
        without: "what came by exec goes on by another only among the standard files",
        edits: &[edit(
            "crates/socket/src/decisions/handover.rs",
            "    let is_others = release::has_known_holders(conn, &end);",
            "    let is_others = release::has_other_holders(conn, &end);",
        )],
        test: Test::Parity("handed.through_another_namespace"),
    },
];
