//! Hosts made up by hand, and the codes that follow from them.

use super::{Known, rows_by};
use crate::host::table::{Socket, state};
use crate::host::{Host, Process};
use crate::smcss::isthmus::blank;
use crate::smcss::row::{Mode, Row, State};
use fabric::Reason;
use fabric::observe::Verdict;

const USER: u32 = 1000;
const CLIENT: u64 = 10;
const SERVER: u64 = 11;
const LISTENER: u64 = 12;

fn socket(state: u8, inode: u64, local: &str, remote: &str) -> Socket {
    let at = |text: &str| text.parse().expect("an address");
    Socket { namespace: 1, state, uid: USER, inode, interface: 3, local: at(local), remote: at(remote) }
}

fn client(state: u8) -> Socket {
    socket(state, CLIENT, "127.0.0.1:40000", "127.0.0.1:80")
}

fn server(state: u8) -> Socket {
    socket(state, SERVER, "127.0.0.1:80", "127.0.0.1:40000")
}

fn listener() -> Socket {
    socket(state::LISTEN, LISTENER, "0.0.0.0:80", "0.0.0.0:0")
}

fn connected() -> Vec<Socket> {
    vec![client(state::ESTABLISHED), server(state::ESTABLISHED), listener()]
}

fn process(pid: u32, enabled_as: Option<u32>, inodes: &[u64]) -> Process {
    let sockets = inodes.iter().map(|inode| (*inode as u32, *inode)).collect();
    let name = format!("prog{pid}");
    let is_between_users = false;
    Process {
        memories: vec![],
        pid,
        name,
        sockets,
        enabled_as,
        has_registry: false,
        lacks_room: false,
        is_filtered: false,
        is_between_users,
    }
}

/// A host where process 1 has the client and process 2 has the rest, each enabled as told.
fn host(sockets: Vec<Socket>, enabled: [Option<u32>; 2]) -> Host {
    let mut host = Host::over(sockets);
    host.add(process(1, enabled[0], &[CLIENT]));
    host.add(process(2, enabled[1], &[LISTENER, SERVER]));
    host
}

/// A registry that has the listener.
fn announced() -> Known {
    Known { announced: [LISTENER].into(), ..Known::default() }
}

/// Inode and code of every connection that is not shown yet.
fn codes(host: &Host, known: &Known) -> Vec<(u64, u32)> {
    let rows = rows_by(host, known, &[]);
    let code = |row: &Row| match row.mode {
        Mode::Tcp { reason, .. } => reason,
        _ => u32::MAX,
    };
    rows.iter().filter(|(_, row)| row.state != State::LISTEN).map(|(_, row)| (row.inode, code(row))).collect()
}

const NO_SMC: u32 = Reason::PEERNOSMC.0;

#[test]
fn a_row_tells_who_talks_to_whom() {
    let host = host(connected(), [Some(USER), None]);
    let rows = rows_by(&host, &announced(), &[]);
    let row = &rows[0].1;
    assert_eq!((rows.len(), row.state, row.uid, row.inode), (1, State::ACTIVE, USER, CLIENT));
    assert_eq!(row.interface, 3);
    assert_eq!((row.local.port, row.peer.port, row.peer.ip.to_string()), (40000, 80, "127.0.0.1".into()));
    assert_eq!(row.mode, Mode::Tcp { reason: NO_SMC, peer: 0 });
    assert_eq!(row.program.as_ref().map(|program| (program.pid, program.name.as_str())), Some((1, "prog1")));
}

#[test]
fn an_end_that_is_not_enabled_does_not_support_smc() {
    let of = |enabled| codes(&host(connected(), enabled), &announced());
    assert_eq!(of([Some(USER), None]), [(CLIENT, NO_SMC)]);
    assert_eq!(of([None, Some(USER)]), [(SERVER, NO_SMC)]);
    assert_eq!(of([None, None]), []);
    // Enabled by another user: not looked for.
    assert_eq!(of([Some(7), Some(USER)]), [(CLIENT, NO_SMC), (SERVER, NO_SMC)]);
}

#[test]
fn nobody_of_this_host_does_not_support_smc() {
    let elsewhere = vec![socket(state::CLOSE_WAIT, CLIENT, "10.0.0.1:40000", "10.0.0.2:80")];
    assert_eq!(codes(&host(elsewhere, [Some(USER), None]), &announced()), [(CLIENT, NO_SMC)]);
    // Through a NAT, or into another namespace by a loopback address.
    let nat = vec![client(state::ESTABLISHED)];
    assert_eq!(codes(&host(nat, [Some(USER), None]), &announced()), [(CLIENT, NO_SMC)]);
    let other_namespace =
        vec![client(state::ESTABLISHED), Socket { namespace: 2, ..server(state::ESTABLISHED) }];
    assert_eq!(codes(&host(other_namespace, [Some(USER), None]), &announced()), [(CLIENT, NO_SMC)]);
}

/// The client has no registry: there was none when it looked, and whoever was there does not matter.
#[test]
fn a_client_that_found_no_registry_found_nobody() {
    let gone = || vec![client(state::CLOSE_WAIT), listener()];
    assert_eq!(codes(&host(gone(), [Some(USER), None]), &announced()), [(CLIENT, NO_SMC)]);
    let closing = vec![client(state::CLOSE_WAIT), Socket { inode: 0, ..server(5) }];
    assert_eq!(codes(&host(closing, [Some(USER), None]), &announced()), [(CLIENT, NO_SMC)]);
    assert_eq!(
        codes(&host(connected(), [Some(USER); 2]), &announced()),
        [(CLIENT, NO_SMC), (SERVER, NO_SMC)]
    );
    // Behind a filter of system calls it may not have looked.
    let mut filtered = Host::over(gone());
    filtered.add(Process { is_filtered: true, ..process(1, Some(USER), &[CLIENT]) });
    assert_eq!(codes(&filtered, &announced()), [(CLIENT, 0)]);
}

#[test]
fn a_process_that_wrote_nothing_down_found_nobody() {
    let mut host = Host::over(vec![client(state::CLOSE_WAIT), listener()]);
    host.add(Process { has_registry: true, ..process(1, Some(USER), &[CLIENT]) });
    assert_eq!(codes(&host, &announced()), [(CLIENT, NO_SMC)], "whoever was there is gone");
}

#[test]
fn a_registry_that_cannot_be_used_is_the_reason() {
    let host = host(connected(), [Some(USER); 2]);
    let known = Known { faults: [(USER, Reason::NOSMCDDEV)].into(), ..Known::default() };
    let rows = rows_by(&host, &known, &[]);
    let wanted = Mode::Tcp { reason: Reason::NOSMCDDEV.0, peer: 0 };
    assert_eq!(rows.iter().map(|(_, row)| row.mode).collect::<Vec<_>>(), [wanted; 3]);
    assert_eq!(rows[0].1.state, State::LISTEN);
    // Whoever has mapped it before goes on using it.
    let mut theirs = Host::over(connected());
    theirs.add(Process { has_registry: true, ..process(1, Some(USER), &[CLIENT]) });
    theirs.add(process(2, Some(USER), &[LISTENER, SERVER]));
    assert_eq!(codes(&theirs, &known), [(CLIENT, NO_SMC), (SERVER, Reason::NOSMCDDEV.0)]);
}

#[test]
fn what_a_process_wrote_down_is_shown_at_both_ends() {
    let host = host(connected(), [Some(USER); 2]);
    let modes = |inode: u64, reason: Reason| {
        let known = Known { refusals: [(inode, reason)].into(), ..Known::default() };
        rows_by(&host, &known, &[]).into_iter().map(|(_, row)| (row.inode, row.mode)).collect::<Vec<_>>()
    };
    let tcp = |reason: u32, peer: u32| Mode::Tcp { reason, peer };
    let (option, limit) = (Reason::OPTUNSUPP, Reason::MAX_DMB);
    assert_eq!(modes(CLIENT, option)[1..], [(CLIENT, tcp(option.0, 0)), (SERVER, tcp(NO_SMC, option.0))]);
    assert_eq!(modes(SERVER, limit)[1..], [(CLIENT, tcp(NO_SMC, limit.0)), (SERVER, tcp(limit.0, 0))]);
    let of_listener = modes(LISTENER, limit);
    // What it accepts has the same reason.
    let all = [(LISTENER, tcp(limit.0, 0)), (CLIENT, tcp(NO_SMC, limit.0)), (SERVER, tcp(limit.0, 0))];
    assert_eq!(of_listener, all);
}

#[test]
fn a_program_of_another_version_than_the_registry_cannot_use_it() {
    let known = || Known { unread: [USER].into(), of_another_version: [USER].into(), ..Known::default() };
    let ours = host(connected(), [Some(USER), None]);
    assert_eq!(codes(&ours, &known()), [(CLIENT, Reason::VERSMISMAT.0)]);
    let mut theirs = Host::over(connected());
    theirs.add(Process { has_registry: true, ..process(1, Some(USER), &[CLIENT]) });
    assert_eq!(codes(&theirs, &known()), [], "nothing is known of them");
}

#[test]
fn a_process_without_room_has_no_memory() {
    let mut host = Host::over(connected());
    host.add(Process { lacks_room: true, ..process(1, Some(USER), &[CLIENT]) });
    host.add(process(2, Some(USER), &[LISTENER, SERVER]));
    assert_eq!(codes(&host, &announced()), [(CLIENT, Reason::MEM.0), (SERVER, NO_SMC)]);
}

#[test]
fn a_process_between_two_users_takes_no_registry() {
    let mut host = Host::over(connected());
    host.add(Process { is_between_users: true, ..process(1, Some(USER), &[CLIENT]) });
    host.add(Process { is_between_users: true, has_registry: true, ..process(2, Some(USER), &[SERVER]) });
    assert_eq!(codes(&host, &announced()), [(CLIENT, Reason::CNFERR.0), (SERVER, NO_SMC)]);
}

#[test]
fn nothing_is_said_about_a_registry_that_could_not_be_read() {
    let unread = Known { unread: [USER].into(), ..announced() };
    assert_eq!(codes(&host(connected(), [Some(USER), None]), &unread), []);
}

#[test]
fn before_accept_the_listener_counts() {
    let waiting =
        || vec![client(state::ESTABLISHED), Socket { inode: 0, ..server(state::ESTABLISHED) }, listener()];
    assert_eq!(codes(&host(waiting(), [Some(USER), None]), &announced()), [(CLIENT, NO_SMC)]);
    let mut filtered = Host::over(waiting());
    filtered.add(Process { is_filtered: true, ..process(1, Some(USER), &[CLIENT]) });
    filtered.add(process(2, Some(USER), &[LISTENER]));
    assert_eq!(codes(&filtered, &announced()), [(CLIENT, 0)]);
}

#[test]
fn an_ordinary_user_judges_strangers_by_the_owner_of_their_sockets() {
    let seen = |uid| {
        let mut host =
            Host::over(vec![client(state::ESTABLISHED), Socket { uid, ..server(state::ESTABLISHED) }]);
        host.add(Process { is_filtered: true, ..process(1, Some(USER), &[CLIENT]) });
        host.hide(2);
        codes(&host, &announced())
    };
    assert_eq!(seen(USER + 1), [(CLIENT, NO_SMC)]);
    assert_eq!(seen(USER), [(CLIENT, 0)], "it may have the library for all we know");
}

#[test]
fn what_the_registry_says_goes_before_what_is_concluded() {
    let say = |inode, verdict| Known { verdicts: [(inode, verdict)].into(), ..announced() };
    let host = host(connected(), [Some(USER); 2]);
    let states = |known: &Known, shown: &[Row]| -> Vec<(u64, State)> {
        let rows = rows_by(&host, known, shown);
        let rows = rows.iter().map(|(_, row)| row).filter(|row| row.inode != LISTENER);
        rows.map(|row| (row.inode, row.state)).collect()
    };
    // The server has not noted its end: what the client's row says holds for it.
    let shown = [Row { inode: CLIENT, ..blank(USER) }];
    assert_eq!(states(&say(CLIENT, None), &shown), [(SERVER, State::INIT)]);
    assert_eq!(states(&say(CLIENT, Some(Verdict::Smc)), &shown), []);
    let plain = say(CLIENT, Some(Verdict::Plain(Reason::MAX_DMB)));
    assert_eq!(codes(&host, &plain), [(CLIENT, Reason::MAX_DMB.0), (SERVER, NO_SMC)], "it never saw the row");
    let both = Known { refusals: [(SERVER, Reason::MAX_DMB)].into(), ..plain };
    assert_eq!(codes(&host, &both), [(CLIENT, Reason::MAX_DMB.0), (SERVER, Reason::MAX_DMB.0)]);
}

#[test]
fn listeners_are_shown_if_no_client_finds_them() {
    let host = host(connected(), [None, Some(USER)]);
    let rows = |shown: &[Row]| rows_by(&host, &announced(), shown);
    let first = &rows(&[])[0].1;
    assert_eq!(
        (first.state, first.inode, first.mode),
        (State::LISTEN, LISTENER, Mode::Tcp { reason: 0, peer: 0 })
    );
    let shown = [Row { inode: LISTENER, ..blank(USER) }];
    assert_eq!(rows(&shown).len(), 1, "the connection alone");
}

#[test]
fn a_socket_in_many_hands_has_one_row() {
    let mut host = host(connected(), [Some(USER), None]);
    host.add(process(3, Some(USER), &[CLIENT, CLIENT]));
    host.add(process(4, None, &[CLIENT]));
    assert_eq!(codes(&host, &announced()), [(CLIENT, NO_SMC)]);
}

#[test]
fn a_connection_that_is_being_made_is_undecided() {
    let host = host(vec![client(state::SYN_SENT)], [Some(USER), None]);
    assert_eq!(rows_by(&host, &announced(), &[])[0].1.state, State::INIT);
}
