//! Strands over pairs of sockets that a test gives them: what both ends move is what the plan says, however it ends.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::control::{Control, End};
use super::network::Network;
use super::plan::{Detail, Peer, Plan, Role};
use super::report::StrandReport;
use super::state::Strand;
use crate::profile::model::{Flowop, FlowopKind, Place, Transaction, Until};
use crate::profile::options::{Options, Size};

/// Has one connection to give.
struct Once(Option<Socket>);

impl Network for Once {
    fn connect(&mut self, _: &Options) -> io::Result<Socket> {
        self.0.take().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    fn accept(&mut self, _: &Options) -> io::Result<Option<Socket>> {
        Ok(self.0.take())
    }
}

/// With so little room that a call moves less than it was asked for.
fn pair() -> (Once, Once) {
    let (near, far) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
    for end in [&near, &far] {
        end.set_send_buffer_size(1).expect("the least that there is");
    }
    (Once(Some(near)), Once(Some(far)))
}

fn flowop(kind: FlowopKind, size: u32, count: u64) -> Flowop {
    let options = Options { size: Some(Size::Fixed(size)), count, ..Options::default() };
    Flowop { kind, options, place: Place { line: 1, column: 1 } }
}

fn transaction(until: Until, flowops: Vec<Flowop>) -> Transaction {
    Transaction { name: "t".into(), until, rate: None, flowops }
}

const ONCE: Until = Until::Iterations(1);

fn opening() -> Transaction {
    transaction(ONCE, vec![flowop(FlowopKind::Connect, 1, 1)])
}

fn closing() -> Transaction {
    transaction(ONCE, vec![flowop(FlowopKind::Disconnect, 1, 1)])
}

/// A strand in a thread.
struct Runner {
    control: Arc<Control>,
    /// Turns that were taken, gate by gate.
    gates: Receiver<u64>,
    thread: std::thread::JoinHandle<StrandReport>,
}

impl Runner {
    fn start(role: Role, transactions: Vec<Transaction>, network: Once) -> Self {
        let plan = Arc::new(Plan { role, peer: Peer::Ours, transactions, detail: Detail::default() });
        let (control, (passed, gates)) = (Arc::new(Control::default()), channel());
        let strand = Strand::new(plan, control.clone(), network);
        // Nobody waits at the last gates.
        let thread =
            std::thread::spawn(move || strand.run(|_, turns| passed.send(turns).unwrap_or_default()));
        Self { control, gates, thread }
    }
}

/// Runs both ends of `transactions` as a master and a slave do; their reports.
fn both_ends(transactions: &[Transaction]) -> (StrandReport, StrandReport) {
    let (near, far) = pair();
    let opposite = |transaction: &Transaction| {
        let flowops = transaction.flowops.iter();
        let flowops = flowops.map(|flowop| Flowop { kind: flowop.kind.opposite(), ..flowop.clone() });
        Transaction { flowops: flowops.collect(), ..transaction.clone() }
    };
    let master = Runner::start(Role::Master, transactions.to_vec(), near);
    let slave = Runner::start(Role::Slave, transactions.iter().map(opposite).collect(), far);
    for number in 0..transactions.len() {
        let turns = master.gates.recv().expect("it comes there");
        if number > 0 {
            slave.control.end(number - 1, End::After(turns));
        }
        let now = super::clock::now_ns();
        slave.control.release(number, now);
        master.control.release(number, now);
    }
    (master.thread.join().expect("no panic"), slave.thread.join().expect("no panic"))
}

fn rr(until: Until) -> Transaction {
    transaction(until, vec![flowop(FlowopKind::Write, 200, 1), flowop(FlowopKind::Read, 1000, 1)])
}

const SHORT: Until = Until::Duration(Duration::from_millis(20));

#[test]
fn after_a_duration_both_ends_go_on_at_the_same_byte() {
    let odd = transaction(
        Until::Iterations(3),
        vec![flowop(FlowopKind::Write, 64, 3), flowop(FlowopKind::Read, 33, 2)],
    );
    let plans = [
        rr(SHORT),
        transaction(SHORT, vec![flowop(FlowopKind::Write, 30_000, 64)]),
        transaction(SHORT, vec![flowop(FlowopKind::Recv, 30, 40)]),
    ];
    for timed in plans {
        let (master, slave) = both_ends(&[opening(), timed.clone(), odd.clone(), rr(SHORT), closing()]);
        assert_eq!((&master.failure, &slave.failure), (&None, &None), "{timed:?}");
        let (m, s) = (master.counts(), slave.counts());
        assert!(m.sent > 0);
        // What the master wrote has come to the last byte; what it did not read may have been written.
        assert_eq!(m.sent, s.received, "{timed:?}");
        assert!(s.sent >= m.received, "{timed:?}");
        assert_eq!(master.transactions.len(), 5);
    }
}

#[test]
fn a_master_tells_that_the_other_end_has_closed() {
    let (near, far) = pair();
    let master = Runner::start(Role::Master, vec![opening(), rr(SHORT)], near);
    master.control.release(0, 0);
    master.gates.iter().nth(1);
    drop(far);
    master.control.release(1, super::clock::now_ns());
    let report = master.thread.join().expect("no panic");
    let failure = report.failure.expect("it failed");
    assert!(failure.starts_with("write at 1:1: "), "{failure}");
}

#[test]
fn a_slave_ends_where_the_master_closes() {
    let (near, far) = pair();
    let slave = Runner::start(Role::Slave, vec![opening(), rr(Until::Iterations(9))], far);
    slave.control.release(0, 0);
    slave.control.release(1, 0);
    slave.gates.iter().nth(1);
    drop(near);
    assert_eq!(slave.thread.join().expect("no panic").failure, None);
}

#[test]
fn a_stopped_strand_ends_though_it_is_blocked() {
    let (near, _far) = pair();
    let master = Runner::start(Role::Master, vec![opening(), rr(Until::Iterations(1))], near);
    master.control.release(1, 0);
    master.gates.iter().nth(1);
    master.control.stop();
    master.control.shut();
    assert_eq!(master.thread.join().expect("no panic").failure, None);
}

#[test]
fn a_rate_is_not_exceeded() {
    let mut rated = rr(Until::Duration(Duration::from_millis(50)));
    rated.rate = std::num::NonZeroU32::new(100);
    let (master, _) = both_ends(&[opening(), rated, closing()]);
    // Fewer on a machine that was busy with something else.
    assert!((1..=5).contains(&master.transactions[1].passes.count));
}
