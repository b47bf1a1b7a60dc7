//! What is counted: N equal operations in one thread, which is both ends of its connections, so that nothing
//! waits and a run executes the same instructions every time.
//!
//! `count-load exchange|stream|epoll|interest|poll|setup|pipe N`

use isthmus_tests::sys::{self, Fd};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count: usize = args.get(1).and_then(|n| n.parse().ok()).expect("a count");
    match args.first().map(String::as_str) {
        Some("exchange") => exchange(count),
        Some("stream") => stream(count),
        Some("epoll") => epoll(count),
        Some("interest") => interest(count),
        Some("poll") => poll(count),
        Some("setup") => setup(count),
        Some("pipe") => pipe(count),
        _ => panic!("usage: count-load exchange|stream|epoll|interest|poll|setup|pipe N"),
    }
}

/// Both ends of a connection to ourselves.
fn pair(listener: Fd, port: u16) -> (Fd, Fd) {
    let client = sys::tcp(libc::SOCK_CLOEXEC);
    sys::connect(client, port).expect("connect");
    let server = sys::accept(listener).expect("accept") as Fd;
    (client, server)
}

fn connected() -> (Fd, Fd) {
    let (listener, port) = sys::listener();
    let (client, server) = pair(listener, port);
    transaction(client, server, &mut || ());
    (client, server)
}

/// 200 bytes there, 1000 back.
fn transaction(client: Fd, server: Fd, before_read: &mut impl FnMut()) {
    let (request, response) = ([1u8; 200], [2u8; 1000]);
    let mut buffer = [0u8; 1000];
    assert_eq!(sys::write(client, &request), Ok(200));
    before_read();
    assert_eq!(sys::read(server, &mut buffer[..200]), Ok(200));
    assert_eq!(sys::write(server, &response), Ok(1000));
    assert_eq!(sys::read(client, &mut buffer), Ok(1000));
}

fn exchange(count: usize) {
    let (client, server) = connected();
    for _ in 0..count {
        transaction(client, server, &mut || ());
    }
}

fn stream(count: usize) {
    let (client, server) = connected();
    let (data, mut buffer) = (vec![1u8; 30 * 1024], vec![0u8; 30 * 1024]);
    for _ in 0..count {
        assert_eq!(sys::write(client, &data), Ok(30 * 1024));
        assert_eq!(sys::read(server, &mut buffer), Ok(30 * 1024));
    }
}

fn epoll(count: usize) {
    let (client, server) = connected();
    let set = sys::epoll();
    sys::ep_add(set, server, libc::EPOLLIN, 1).expect("add");
    for _ in 0..count {
        transaction(client, server, &mut || assert_eq!(sys::ep_wait(set, -1).map(|v| v.len()), Ok(1)));
    }
}

/// As redis-benchmark does it: in for output, then for input, then out again with every request.
fn interest(count: usize) {
    let (client, server) = connected();
    let set = sys::epoll();
    for _ in 0..count {
        sys::ep_add(set, server, libc::EPOLLOUT, 1).expect("add");
        assert_eq!(sys::ep_wait(set, -1).map(|v| v.len()), Ok(1));
        sys::ep_mod(set, server, libc::EPOLLIN, 2).expect("mod");
        transaction(client, server, &mut || assert_eq!(sys::ep_wait(set, -1).map(|v| v.len()), Ok(1)));
        sys::ep_del(set, server).expect("del");
    }
}

fn poll(count: usize) {
    let (client, server) = connected();
    for _ in 0..count {
        transaction(client, server, &mut || assert_eq!(sys::poll1(server, libc::POLLIN, -1), "IN"));
    }
}

fn setup(count: usize) {
    let (listener, port) = sys::listener();
    for _ in 0..count {
        let (client, server) = pair(listener, port);
        transaction(client, server, &mut || ());
        sys::close(client).expect("close");
        sys::close(server).expect("close");
    }
}

/// Descriptors that are none of the library's business.
fn pipe(count: usize) {
    let (from, to) = sys::pipe(0);
    let mut buffer = [0u8; 64];
    for _ in 0..count {
        assert_eq!(sys::write(to, &[1; 64]), Ok(64));
        assert_eq!(sys::read(from, &mut buffer), Ok(64));
    }
}
