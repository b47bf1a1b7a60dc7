//! Mends of epoll sets: their members, records, answers and laps. Owns: the entries, in the order in which
//! they were found wanting.

use super::{Mend, Test, edit};

pub(super) const MENDS: &[Mend] = &[
    Mend {
        name: "asked-while-let-go",
        without: "nobody asks to be rung for a member of a set that is asked for something new",
        edits: &[edit(
            "crates/socket/src/sets/interest/set.rs",
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
            "crates/socket/src/calls/epoll/wait.rs",
            "if !answer.has_asked && is_kernel_due(set) {",
            "if is_kernel_due(set) {",
        )],
        test: Test::Unit("sim", "no_answer_tells_of_a_descriptor_twice"),
    },
    Mend {
        name: "told-while-asked",
        without: "what the kernel tells of a new question is told with the data of the old one",
        edits: &[edit(
            "crates/socket/src/calls/epoll/telling.rs",
            "if told.source != Source::Rings && registration.interest.is_being_asked() {",
            "if false {",
        )],
        test: Test::Unit("socket", "what_the_kernel_tells_of_a_question_waits_until_it_is_written_down"),
    },
    Mend {
        name: "which-set-was-changed",
        without: "who has a socket in two sets, one of which a child changes, is told of neither",
        edits: &[edit(
            "crates/socket/src/sets/records.rs",
            "os::epoll::has_record(epfd, fd, cookie) == Some(true)",
            "os::epoll::has_record(epfd, fd, cookie).is_none()",
        )],
        test: Test::Parity("setsfork.child_changes_another_set"),
    },
    Mend {
        name: "room-on-tcp-told-in-vain",
        without: "a writer whose reader rests for the second time is never told of the room on TCP",
        edits: &[edit(
            "crates/socket/src/calls/epoll/telling.rs",
            "            registration.lose_room_outside();\n",
            "",
        )],
        test: Test::Parity("stall.a_reader_that_rests_again"),
    },
    Mend {
        name: "asked-by-a-gone-number",
        without: "who asks a set by a number that another thread closes takes its next socket's record over",
        edits: &[edit(
            "crates/socket/src/calls/epoll/ctl.rs",
            "if !table::is_of(fd, conn.index()) {\n        return None;",
            "if false {\n        return None;",
        )],
        test: Test::Unit("socket", "who_waits_for_his_turn_while_the_number_goes_asks_its_next_socket"),
    },
    Mend {
        name: "told-bells-are-silent",
        without: "the kernel names each doorbell again whenever it is asked, though the rings tell of it",
        edits: &[edit(
            "crates/socket/src/calls/epoll/entries.rs",
            "if told.source == Source::Bell && !set.laps.are_on() {",
            "if false {",
        )],
        test: Test::Unit("sim", "what_the_rings_tell_of_the_kernel_names_once"),
    },
    Mend {
        name: "anothers-word-comes-first",
        without: "a process that keeps a connection which it has passed on reads what comes behind the word that it has arrived",
        edits: &[edit(
            "crates/socket/src/calls/epoll/wait.rs",
            "!self.answer.has_asked && found.iter().any(|member| is_anothers_too(*member))",
            "false && found.iter().any(|member| is_anothers_too(*member))",
        )],
        test: Test::Parity("setsfork.what_was_ready_before"),
    },
    Mend {
        name: "space-asked-for-again",
        without: "an edge-triggered writer sleeps beside an empty ring",
        edits: &[edit(
            "crates/socket/src/sets/interest/registration.rs",
            "        let seen = self.interest.seen();
        seen.events() & bits::ET != 0
            && seen.events() & WRITE_SIDE != 0",
            "        let seen = self.interest.seen();
        false && seen.events() & WRITE_SIDE != 0",
        )],
        test: Test::Parity("stall."),
    },
    Mend {
        name: "asked-of-a-set",
        without: "what is put into a set is not told while a connection there has bytes unread",
        edits: &[edit(
            "crates/socket/src/calls/epoll/ctl.rs",
            "        set.asked_kernel.store(0, Ordering::Relaxed);",
            "        let _ = set;",
        )],
        test: Test::Parity("epoll.others_beside_unread"),
    },
    Mend {
        name: "laps-of-full-answers",
        without: "an answer of epoll_wait that came out full does not go on behind it: the kernel's members starve",
        edits: &[edit(
            "crates/socket/src/calls/epoll/wait.rs",
            "if set.laps.are_on() && turns::deal(",
            "if set.laps.are_on() && false && turns::deal(",
        )],
        test: Test::Parity("full.connections_and_pipes"),
    },
    Mend {
        name: "marker-of-the-kernels-lap",
        without: "the kernel's lap ends nowhere, and what the rings have to tell waits for it",
        edits: &[edit(
            "crates/socket/src/calls/epoll/entries.rs",
            "self.notes.has_passed_marker |= is_marker;",
            "self.notes.has_passed_marker |= is_marker && false;",
        )],
        test: Test::Parity("full.connections_and_pipes"),
    },
    Mend {
        name: "full-answers-without-gaps",
        without: "what the kernel named for nothing leaves a gap in an answer",
        edits: &[edit(
            "crates/socket/src/calls/epoll/turns.rs",
            "FILLS_MOST.min(answer.told() + 1)",
            "1.min(answer.told() + 1)",
        )],
        test: Test::Parity("full.connections_and_pipes"),
    },
    Mend {
        name: "sharers-looked-after-in-epoll",
        without: "a sleeper is forgotten where a sharer was killed between a drained doorbell and the next question",
        edits: &[edit(
            "crates/socket/src/calls/epoll/rounds.rs",
            "-1 if self.0 => crate::wait::SHARED_SLICE_MS,",
            "-1 if self.0 && false => crate::wait::SHARED_SLICE_MS,",
        )],
        test: Test::Parity("sharer.drained_under_a_set"),
    },
    Mend {
        name: "a-set-asks-the-socket-and-not-its-old-number",
        without: "what a set tells of a socket whose number was closed is that of who has the number now",
        edits: &[edit(
            "crates/socket/src/sets/interest/registration.rs",
            "self.record().unwrap_or_else(|| other_number(self.entry()))",
            "if self.record().is_none() && other_number(self.entry()) == -2 { -1 } else { self.fd() }",
        )],
        test: Test::Parity("stale.number_is_anothers"),
    },
    Mend {
        name: "what-no-number-reaches-keeps-its-meaning",
        without: "a set is told nothing of a socket whose number was closed before it went back to TCP",
        edits: &[edit(
            "crates/socket/src/sets/records.rs",
            "return detach_bell(conn, registration, true);",
            "return _ = drop_registration(conn, registration, true);",
        )],
        test: Test::Parity("stale.goes_home"),
    },
    Mend {
        name: "who-closes-leaves-the-doorbell-to-a-child",
        without: "a child that waits on a set with edges hears nothing more once its parent has closed its copy",
        edits: &[edit(
            "crates/socket/src/sets/records.rs",
            "detach_bell(conn, gone, !may_be_shared && !gone.is_outright());",
            "detach_bell(conn, gone, !gone.is_outright());",
        )],
        test: Test::Parity("stale.child_waits_on_edge"),
    },
    Mend {
        name: "laps-with-the-turn",
        without: "of two threads at one set one takes a member out, and the other loses another one",
        edits: &[edit(
            "crates/socket/src/sets/interest/set/order.rs",
            "        let Some(_turn) = self.turn.take() else { return self.recent() };
        // (As of now: behind the recent ones stand those that have left the set.)
        let recent = self.recent.load(Ordering::Relaxed);
",
            "        let recent = self.recent();
        let Some(_turn) = self.turn.take() else { return recent };
",
        )],
        test: Test::Unit("socket", "laps_beside_members_that_come_and_go_lose_nobody"),
    },
    Mend {
        name: "pending-stays-young",
        without: "a level that has something to report is let go unarmed, and nobody is told of it",
        edits: &[edit(
            "crates/socket/src/sets/interest/set.rs",
            "            if self.arm_at(&mut position, &arm) {
                position += 1;
            }
",
            "            self.arm_at(&mut position, &|registration| arm(registration) && false);
",
        )],
        test: Test::Unit("socket", "who_has_something_to_report_is_not_let_go_when_all_are_armed_for_others"),
    },
    Mend {
        name: "asked-while-it-goes-home",
        without: "EPOLL_CTL_MOD is undone by a thread that takes the connection back to TCP",
        edits: &[edit(
            "crates/socket/src/calls/epoll/ctl.rs",
            "    drop(conn.interest.turn.take());
    Outcome::Forward",
            "    let _ = conn;
    Outcome::Forward",
        )],
        test: Test::Unit("sim", "threads_that_take_turns_get_every_byte_of_a_connection_that_goes_home"),
    },
    Mend {
        name: "a-childs-way-home",
        without: "a fork child that goes home undoes what its parent asks of their set",
        edits: &[edit(
            "crates/socket/src/sets/records.rs",
            "        } else if is_left_to_its_maker(registration) {",
            "        } else if false && is_left_to_its_maker(registration) {",
        )],
        test: Test::Unit("sim", "a_child_that_goes_home_leaves_its_parents_question_standing"),
    },
    Mend {
        name: "an-edge-of-another-set",
        without: "a set that drains a doorbell takes the edge from another one",
        edits: &[edit(
            "crates/socket/src/sets/interest/set.rs",
            "            set.promote_later(index, registration);
",
            "",
        )],
        test: Test::Parity("sets.edge_beside_a_set_with_nothing_to_tell"),
    },
    Mend {
        name: "room-told-before-the-verdict",
        without: "an edge-triggered set is told of a client's room again behind its first answer",
        edits: &[edit(
            "crates/socket/src/sets/records.rs",
            "            let told = if is_told { WRITE_SIDE } else { 0 };
",
            "            let told = if is_told && false { WRITE_SIDE } else { 0 };
",
        )],
        test: Test::Parity("early.first_answer_is_one_edge"),
    },
    Mend {
        name: "taken-back-in-steps",
        without: "a set tells of a socket that another thread is just taking out of it, or has been told of",
        edits: &[edit(
            "crates/socket/src/sets/interest/registration.rs",
            "(stands && !seen.is_none()).then_some((seen, data))",
            "stands.then_some((seen, data))",
        )],
        test: Test::Unit("socket", "a_question_that_was_taken_back_is_nobodys_to_answer"),
    },
];
