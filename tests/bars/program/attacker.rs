//! Attackers: an enabled client, and an enabled server, that lie while they talk; and a client that talks to
//! such a server and to an honest one. Invariant: an attacker judges nothing and may end in any way; what the
//! honest connections saw is told line by line, as `hostile` tells it.

use crate::attack::Attack;
use crate::{connect, hostile, listen};
use isthmus_tests::sys;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::time::{Duration, Instant};
use testkit::Random;

/// Connections that an attacker keeps.
const KEPT: usize = 20;
/// How long it waits for its victim in one call.
const PATIENCE: Duration = Duration::from_millis(60);

/// Attacks of its own accord, in a thread.
fn begin(seed: u64, until: Instant) {
    let mut attack = Attack::new(seed);
    println!("{}", attack.plan());
    std::thread::spawn(move || {
        while Instant::now() < until {
            attack.step();
            std::thread::sleep(attack.pause);
        }
    });
}

/// Opens connections, lies before, between and behind its calls, and ends them in every way, for `ms`
/// milliseconds.
pub(crate) fn client(port: u16, ms: u64, seed: u64) -> Result<String, String> {
    sys::limit_fds(u64::MAX);
    let end = Instant::now() + Duration::from_millis(ms);
    begin(seed + 1, end);
    let (mut attack, mut random) = (Attack::new(seed), Random::new(!seed));
    println!("{}", attack.plan());
    let mut open = VecDeque::new();
    let mut tried = 0;
    while Instant::now() < end {
        let Ok(conn) = connect(port) else { continue };
        tried += 1;
        (0..random.below(4)).for_each(|_| attack.step());
        talk(&conn, &mut attack, &mut random);
        match random.below(4) {
            0 => drop(conn),
            1 => {
                let _ = sys::set_linger(conn.as_raw_fd(), true, 0);
            }
            2 => {
                // The kernel alone hears of this close.
                sys::close_unseen(conn.into_raw_fd());
            }
            _ => open.push_back(conn),
        }
        if open.len() > KEPT {
            open.pop_front();
        }
    }
    Ok(format!("{tried} connections"))
}

fn talk(mut conn: &TcpStream, attack: &mut Attack, random: &mut Random) {
    let _ = conn.set_read_timeout(Some(PATIENCE));
    let _ = conn.set_write_timeout(Some(PATIENCE));
    let mut buf = vec![7; 40_000];
    for _ in 0..random.below(6) {
        let n = random.size(buf.len());
        let done = if random.once_in(2) { conn.write(&buf[..n]) } else { conn.read(&mut buf[..n]) };
        attack.step();
        if done.is_err() && random.once_in(2) {
            return;
        }
    }
}

/// Accepts, echoes and lies.
pub(crate) fn server(port: u16, seed: u64) -> Result<String, String> {
    let listener = listen(port)?;
    begin(seed + 1, Instant::now() + Duration::from_secs(3600));
    for (conn, n) in listener.incoming().zip(0..) {
        let Ok(conn) = conn else { continue };
        std::thread::spawn(move || {
            let mut attack = Attack::new(seed + n % 7);
            (0..3).for_each(|_| attack.step());
            (0..20).for_each(|_| talk(&conn, &mut attack, &mut Random::new(seed + n)));
        });
    }
    Ok(String::new())
}

/// Talks to an honest server, as `hostile client` does, while it opens connections to the liar.
pub(crate) fn torn(port: u16, liar: u16, ms: u64, seed: u64) -> Result<String, String> {
    let honest = std::thread::spawn(move || hostile::client(port, ms, seed, 8_000));
    let opened = hostile::opener(liar, ms, seed + 1);
    let honest = honest.join().map_err(|_| "a thread panicked".to_string())??;
    Ok(format!("{honest}\nthe liar: {opened:?}"))
}

/// Echoes as `hostile server`, but looks at what it accepts some milliseconds later.
pub(crate) fn late(port: u16) -> Result<String, String> {
    for (conn, n) in listen(port)?.incoming().zip(0u64..) {
        let Ok(conn) = conn else { continue };
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(n % 7));
            hostile::echo(conn);
        });
    }
    Ok(String::new())
}
