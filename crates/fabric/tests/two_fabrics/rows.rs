//! The directory of the local tier, as one process after the other grows into it and out of it. Owns: that
//! rows are found wherever they lie, and that who changes its credentials waits for who uses them, and no
//! longer than it says.

use super::{Pair, RING, Scratch};
use fabric::door::{Directory, Life};
use fabric::local::Local;
use fabric::process::ProcessId;
use fabric::rows::{Intent, RowId};
use fabric::slot::SlotView;
use fabric::verdict::Verdict;
use os::net::Endpoint;
use shm::Side;
use shm::registry::{FIRST_BUCKETS, ROWS};

/// More connections than the first buckets hold.
const MANY: u64 = 3000;
const FIRST: u32 = (FIRST_BUCKETS * ROWS) as u32;

impl Pair<Local> {
    /// Two that have mapped the registry in `folder`, and a slot of the client's.
    fn joined(folder: &Scratch) -> (Self, ProcessId, &'static SlotView) {
        let pair = Pair::new(Local::new);
        for fabric in [pair.client, pair.server] {
            fabric.set(b"SMC_REGISTRY_DIR", folder.0.as_os_str().as_encoded_bytes());
        }
        let map = pair.server.tier().existing_or_new().expect("room for a registry");
        let server = pair.server.tier().me(map).expect("a row");
        let map = pair.client.tier().existing().expect("it is there");
        let client = pair.client.tier().me(map).expect("a row");
        let view = pair.client.offer(server, RING, 7).expect("a slot").view;
        (pair, client, view)
    }

    fn publish(&self, process: ProcessId, cookie: u64, view: &SlotView) -> RowId {
        let intent =
            Intent { cookie, process, memfd: 1, nonce: 1, target: Endpoint::default(), inode: cookie as u32 };
        self.client.rows().publish(&intent, view).expect("room for a row")
    }
}

/// Whether every process has this row mapped.
fn is_first(row: RowId) -> bool {
    (row.word() as u32) < FIRST
}

#[test]
fn connections_that_find_no_room_among_the_first_are_found_behind_them() {
    let folder = Scratch::new("more");
    let (pair, client, view) = Pair::joined(&folder);
    let rows: Vec<RowId> = (1..=MANY).map(|cookie| pair.publish(client, cookie, view)).collect();
    let first = rows.iter().filter(|row| is_first(**row)).count();
    assert!(first > FIRST as usize / 2 && first < rows.len(), "{first}");
    for (cookie, row) in (1..).zip(&rows) {
        assert_eq!(pair.server.rows().find(cookie), Some(*row));
        assert_eq!(pair.server.rows().decide(*row, Side::Server, Verdict::Smc), Verdict::Smc);
        assert_eq!(pair.client.rows().verdict(*row), Some(Verdict::Smc));
    }
    for (cookie, row) in (1..).zip(&rows) {
        pair.client.rows().close_side(*row, cookie, Side::Client);
        assert_eq!(pair.server.rows().find(cookie), None);
    }
    assert!((1..=64).all(|cookie| is_first(pair.publish(client, cookie, view))), "they are free again");
}

#[test]
fn what_the_dead_leave_among_the_first_is_taken_again() {
    let folder = Scratch::new("dead");
    let (pair, client, view) = Pair::joined(&folder);
    let dead = ProcessId { row: client.row + 9, generation: 1 };
    let _: Vec<RowId> = (1..=MANY).map(|cookie| pair.publish(dead, cookie, view)).collect();
    let taken = (1..=MANY).filter(|cookie| is_first(pair.publish(client, MANY + cookie, view))).count();
    assert!(taken > FIRST as usize / 2, "{taken}");
}

#[test]
fn who_has_left_the_registry_finds_nothing_behind_the_first_rows_either() {
    let folder = Scratch::new("left");
    let (pair, client, view) = Pair::joined(&folder);
    let rows: Vec<RowId> = (1..=MANY).map(|cookie| pair.publish(client, cookie, view)).collect();
    let of_registry = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        maps.lines().filter(|line| line.contains(&*folder.0.to_string_lossy())).count()
    };
    assert!(pair.server.rows().find(MANY).is_some());
    let before = of_registry();
    pair.client.tier().leave();
    assert_eq!(of_registry(), before / 2, "the server's");
    assert!(rows.iter().all(|row| pair.client.rows().row(*row).is_none()));
}

#[test]
fn a_change_waits_for_who_uses_the_directory_and_not_for_ever() {
    let folder = Scratch::new("change");
    let (pair, ..) = Pair::joined(&folder);
    let fabric = pair.client;
    let using = fabric.using().expect("nobody changes anything");
    assert!(!fabric.tier().begin_change(), "this very thread would have to go on");
    assert!(fabric.using().is_none());
    fabric.tier().end_change();
    drop(using);
    // Another thread that ends its use once it cannot begin a new one.
    let (is_using, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let using = fabric.using().expect("nobody changes anything");
            is_using.send(()).expect("somebody waits");
            while fabric.using().is_some() {
                std::thread::yield_now();
            }
            drop(using);
        });
        wait.recv().expect("it uses the directory");
        assert!(fabric.tier().begin_change());
    });
    fabric.tier().end_change();
    assert!(fabric.using().is_some());
}
