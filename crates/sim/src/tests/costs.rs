//! What a connection costs beside what the program itself asks for. Owns: how many calls of the kernel the
//! library may make for one (instructions are counted by `tests/counts`).

use super::harness::{greet, read_all, say};
use super::{PORT, connect, listen};
use crate::program::{Program, simulate, spawn};
use os::epoll::{Event, Op, bits};
use os::poll::{PollFd, bits as poll};
use socket::Outcome;
use std::sync::{Arc, Mutex};

/// Connections before the count begins, and counted ones.
const WARM: usize = 16;
const COUNTED: usize = 32;

/// The calls that the library has made at the end of each connection.
type Calls = Arc<Mutex<Vec<u64>>>;

fn each(calls: &Calls) -> u64 {
    let so_far = calls.lock().unwrap();
    (so_far[WARM + COUNTED - 1] - so_far[WARM - 1]) / COUNTED as u64
}

fn take(program: &Program, listener: i32, set: i32) {
    let fd = program.accept(listener, true).unwrap();
    program.epoll_ctl(set, Op::Add, fd, bits::IN | bits::RDHUP | bits::ET, fd as u64).unwrap();
}

/// Whether there was a request.
fn answer(program: &Program, fd: i32) -> bool {
    let is_asked = program.recv(fd, &mut [0; 64], 0).is_ok();
    if is_asked {
        program.send(fd, b"answer", 0).unwrap();
        program.close(fd).unwrap();
    }
    is_asked
}

/// Takes a connection for each request, as servers with an event loop do.
fn serve(program: &Program, calls: &Calls) {
    let listener = listen(program);
    let set = program.epoll_create().unwrap();
    program.epoll_ctl(set, Op::Add, listener, bits::IN, 0).unwrap();
    let mut events = [Event { events: 0, data: 0 }; 8];
    while calls.lock().unwrap().len() < WARM + COUNTED {
        let count = program.epoll_wait(set, &mut events, None).unwrap();
        for event in &events[..count] {
            let data = event.data;
            match data {
                0 => take(program, listener, set),
                fd if answer(program, fd as i32) => calls.lock().unwrap().push(program.calls()),
                _ => {}
            }
        }
    }
}

fn ask(program: &Program, calls: &Calls) {
    for _ in 0..WARM + COUNTED {
        let fd = connect(program);
        program.send(fd, b"request", 0).unwrap();
        read_all(program, fd, &mut vec![]);
        program.close(fd).unwrap();
        calls.lock().unwrap().push(program.calls());
    }
}

/// As load generators and proxies connect.
fn ask_by_events(program: &Program, calls: &Calls) {
    let set = program.epoll_create().unwrap();
    let mut events = [Event { events: 0, data: 0 }; 8];
    for _ in 0..WARM + COUNTED {
        let fd = program.socket().unwrap();
        program.set_nonblocking(fd, true).unwrap();
        let _ = program.connect(fd, PORT);
        program.epoll_ctl(set, Op::Add, fd, bits::IN | bits::OUT, 0).unwrap();
        assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
        program.send(fd, b"request", 0).unwrap();
        program.epoll_ctl(set, Op::Mod, fd, bits::IN, 0).unwrap();
        loop {
            assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
            if program.recv(fd, &mut [0; 64], 0) == Ok(0) {
                break;
            }
        }
        program.close(fd).unwrap();
        calls.lock().unwrap().push(program.calls());
    }
}

#[test]
fn a_connection_for_each_request_costs_few_calls() {
    let [of_server, of_client] = [Calls::default(), Calls::default()];
    let [server, client] = [of_server.clone(), of_client.clone()];
    simulate(0, move |machine| {
        spawn(machine, true, move |program| serve(&program, &server));
        spawn(machine, true, move |program| ask(&program, &client));
    });
    assert_eq!((each(&of_server), each(&of_client)), (12, 16));
}

#[test]
fn a_client_with_an_event_loop_costs_few_calls() {
    let [of_server, of_client] = [Calls::default(), Calls::default()];
    let [server, client] = [of_server.clone(), of_client.clone()];
    simulate(0, move |machine| {
        spawn(machine, true, move |program| serve(&program, &server));
        spawn(machine, true, move |program| {
            program.nap(1_000_000);
            ask_by_events(&program, &client);
        });
    });
    assert_eq!((each(&of_server), each(&of_client)), (12, 24));
}

/// Calls for a poll of a connection with room, whose directions are asked for in so many entries, beside a
/// listener.
fn poll_named(program: &Program, fd: i32, listener: i32, asked: &[i16]) -> u64 {
    let mut fds: Vec<PollFd> =
        asked.iter().map(|events| PollFd { fd, events: *events, revents: 0 }).collect();
    fds.push(PollFd { fd: listener, events: poll::IN, revents: 0 });
    let before = program.calls();
    assert_eq!(program.poll(&mut fds, None), Ok(1));
    program.calls() - before
}

/// As netcat does.
#[test]
fn who_names_a_socket_twice_in_a_poll_does_not_ring_himself() {
    simulate(0, |machine| {
        spawn(machine, true, |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            read_some(&program, fd);
            // (Urgent bytes are none of the rings' business.)
            let once = poll_named(&program, fd, listener, &[poll::IN | poll::OUT | poll::PRI]);
            let apart = poll_named(&program, fd, listener, &[poll::IN, poll::OUT | poll::PRI]);
            let twice = poll_named(&program, fd, listener, &[poll::OUT, poll::IN, poll::IN | poll::PRI]);
            assert!(program.is_shared(fd));
            // (What each entry is looked at for; rung by himself he made 13 for the last.)
            assert_eq!((once, apart, twice), (2, 5, 7));
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            program.send(fd, b"request", 0).unwrap();
            read_all(&program, fd, &mut vec![]);
        });
    });
}

#[test]
fn a_poll_of_a_ready_socket_beside_others_is_one_call_of_the_program_s_own() {
    simulate(0, |machine| {
        spawn(machine, true, |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            for _ in 0..2 {
                read_some(&program, fd);
                program.send(fd, b"answer", 0).unwrap();
            }
            // (The first of some time asks after the peer as well.)
            let _ = poll_named(&program, fd, listener, &[poll::OUT]);
            // (That for the listener is the program's, and not counted.)
            assert_eq!(poll_named(&program, fd, listener, &[poll::OUT]), 0);
            assert!(program.is_shared(fd));
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            for _ in 0..2 {
                program.send(fd, b"request", 0).unwrap();
                read_some(&program, fd);
            }
            read_all(&program, fd, &mut vec![]);
        });
    });
}

fn read_some(program: &Program, fd: i32) {
    program.recv(fd, &mut [0; 64], 0).unwrap();
    program.send(fd, b"answer", 0).unwrap();
}

/// What follows an answer's first piece at once asks nobody after the peer: most servers send a head, and
/// then a body. (nginx asked once for each of its answers.)
#[test]
fn a_body_behind_its_head_asks_nobody() {
    const ROUNDS: u64 = 40;
    let asked = Arc::new(Mutex::new(0));
    let told = asked.clone();
    simulate(0, move |machine| {
        spawn(machine, true, move |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, false).unwrap();
            for _ in 0..ROUNDS {
                program.recv(fd, &mut [0; 64], 0).unwrap();
                // (So that nobody believes any more what TCP said while that waited.)
                program.nap(1_000_000);
                program.send(fd, b"answer", 0).unwrap();
                let before = program.calls();
                program.send(fd, b"body", 0).unwrap();
                *told.lock().unwrap() += program.calls() - before;
            }
            assert!(program.is_shared(fd));
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            for _ in 0..ROUNDS {
                program.send(fd, b"request", 0).unwrap();
                let mut came = 0;
                while came < b"answerbody".len() {
                    came += program.recv(fd, &mut [0; 64], 0).unwrap();
                }
            }
        });
    });
    // (Before the client has what it sent first, that is on TCP.)
    assert!(*asked.lock().unwrap() < ROUNDS / 4, "{} calls", asked.lock().unwrap());
}

/// A doorbell that was rung is named by the kernel whenever that is asked, for as long as there is something
/// to tell: what the rings tell of anyway is not to cost a record each time. (A server of fifty connections
/// that always have a request took 92 ns for each event, and takes 29.)
#[test]
fn what_the_rings_tell_of_the_kernel_names_once() {
    const ROUNDS: u32 = 80;
    let asked = Arc::new(Mutex::new(0));
    let told = asked.clone();
    simulate(0, move |machine| {
        spawn(machine, true, move |program| {
            let listener = listen(&program);
            let fd = program.accept(listener, true).unwrap();
            let set = program.epoll_create().unwrap();
            program.epoll_ctl(set, Op::Add, fd, bits::IN, 1).unwrap();
            greet(&program, fd);
            let mut events = [Event { events: 0, data: 0 }; 4];
            // (Rung out of its sleep.)
            assert_eq!(program.epoll_wait(set, &mut events, None), Ok(1));
            for _ in 0..ROUNDS {
                program.nap(30_000);
                let count = || *told.lock().unwrap() += 1;
                assert_eq!(program.epoll_wait_and_meanwhile(set, &mut events, count), Outcome::Done(1));
            }
            assert!(program.is_shared(fd));
        });
        spawn(machine, true, |program| {
            let fd = connect(&program);
            greet(&program, fd);
            program.nap(1_000_000);
            say(&program, fd, "unread");
            program.nap(100 * 1_000_000);
        });
    });
    // (Who has nothing to say is asked eight times less often.)
    assert!(*asked.lock().unwrap() < ROUNDS / 3, "{} times", asked.lock().unwrap());
}
