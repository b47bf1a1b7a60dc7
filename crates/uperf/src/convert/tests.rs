//! Groups that go over the wire come back as the slave must see them, and orders out of bounds are refused.

use clap::ValueEnum;
use proptest::prelude::*;
use proptest::sample::select;

use super::from_wire::MAX_SIZE;
use super::*;
use crate::profile::model::Place;
use crate::profile::options::Options;
use std::time::Duration;

fn raw(kind: u32) -> RawFlowop {
    RawFlowop {
        kind,
        size: 100,
        count: 1,
        repeat: 1,
        batch_size: 1,
        nfiles: 1,
        duration_ns: 5,
        ..RawFlowop::default()
    }
}

fn order(flowops: Vec<RawFlowop>) -> WorkOrder {
    let head = TransactionHead {
        flowops: count(&flowops),
        id: 0,
        rate: 0,
        iterations: 3,
        duration_ns: 0,
        rate_text: String::new(),
    };
    let group = GroupHead { strand_flags: THREADS, strands: 2, transactions: 1 };
    WorkOrder { head: group, transactions: vec![(head, flowops)] }
}

fn refusal(order: &WorkOrder) -> String {
    format!("{:#}", from_wire(order, "10.0.0.1").expect_err("it is out of bounds"))
}

fn flowops() -> impl Strategy<Value = Flowop> {
    let size = prop_oneof![
        (1..=MAX_SIZE).prop_map(Size::Fixed),
        (1..=1000u32, 1000..=2000u32).prop_map(|(min, max)| Size::Random { min, max }),
    ];
    let flags = any::<[bool; 4]>();
    (
        select(FlowopKind::value_variants()),
        size,
        flags,
        1..u64::MAX,
        any::<u16>(),
        any::<Option<NonZeroU32>>(),
    )
        .prop_map(|(kind, size, [busy, tcp_nodelay, canfail, non_blocking], count, port, conn)| {
            let options = Options {
                size: Some(size),
                count,
                port: (port > 0).then_some(port),
                conn,
                duration: Some(Duration::from_nanos(count)),
                protocol: if kind.opens() && busy { Protocol::Unix } else { Protocol::Tcp },
                remotehost: Some("10.0.0.1".into()),
                busy,
                tcp_nodelay,
                canfail,
                non_blocking,
                ..Options::default()
            };
            Flowop { kind, options, place: Place { line: 1, column: 1 } }
        })
}

proptest! {
    #[test]
    fn a_group_comes_back(flowop in flowops(), strands in 1..50u32, seconds in 0..3u64, rate in any::<Option<NonZeroU32>>()) {
        let until = if seconds > 0 { Until::Duration(Duration::from_secs(seconds)) } else { Until::Iterations(7) };
        let transaction = Transaction { name: "Txn0".into(), until, rate, flowops: vec![flowop] };
        let group =
            Group { name: "Group0".into(), strands, kind: StrandKind::Processes, transactions: vec![transaction] };
        let back = from_wire(&to_wire(&group, "10.0.0.1"), "10.0.0.1");
        prop_assert_eq!(back.map_err(|error| error.to_string()), Ok(group));
    }
}

#[test]
fn flowops_for_other_hosts_do_nothing() {
    let mut flowop =
        from_wire(&order(vec![RawFlowop { protocol: 1, ..raw(3) }]), "a").expect("a connect").transactions[0]
            .flowops[0]
            .clone();
    assert_eq!(flowop_to_wire(&flowop, "a").kind, 3);
    assert_eq!(flowop_to_wire(&flowop, "b").kind, 6);
    flowop.options.remotehost = None;
    assert_eq!(flowop_to_wire(&flowop, "b").kind, 3);
}

#[test]
fn the_masters_own_address_is_the_slaves_remote_one() {
    let connect = RawFlowop { localhost: "m".into(), remotehost: "s".into(), protocol: 1, ..raw(3) };
    let group = from_wire(&order(vec![connect]), "10.0.0.1").expect("a connect");
    let options = &group.transactions[0].flowops[0].options;
    assert_eq!((options.remotehost.as_deref(), options.localhost.as_deref()), (Some("m"), Some("s")));
}

#[test]
fn a_flowop_done_zero_times_is_none() {
    let group = from_wire(&order(vec![RawFlowop { count: 0, ..raw(1) }]), "m").expect("it can be run");
    assert_eq!(group.transactions[0].flowops[0].kind, FlowopKind::Nop);
}

#[test]
fn orders_out_of_bounds_are_refused_with_a_reason() {
    let head = |strands, transactions| WorkOrder {
        head: GroupHead { strand_flags: 0, strands, transactions },
        transactions: vec![],
    };
    assert!(refusal(&head(0, 1)).contains("0 strands"));
    assert!(refusal(&head(u32::MAX, 1)).contains("strands"));
    assert!(refusal(&head(1, 101)).contains("transactions"));
    for (flowop, reason) in [
        (raw(0), "flowop 0"),
        (raw(12), "flowop 12"),
        (RawFlowop { size: 0, ..raw(1) }, "size"),
        (RawFlowop { size: MAX_SIZE + 1, ..raw(1) }, "possible"),
        (RawFlowop { flags: RANDOM_SIZE, size_min: 5, size_max: 4, ..raw(1) }, "from 5 to 4"),
        (RawFlowop { duration_ns: 0, ..raw(7) }, "duration"),
        (RawFlowop { port: 65_536, protocol: 1, ..raw(5) }, "port"),
        (RawFlowop { protocol: 3, ..raw(5) }, "udp"),
        (RawFlowop { protocol: 6, ..raw(5) }, "protocol 6"),
        (raw(5), "protocol 0"),
    ] {
        let refused = refusal(&order(vec![flowop.clone()]));
        assert!(refused.contains(reason), "{flowop:?}: {refused}");
    }
    let mut many = order(vec![RawFlowop { size: MAX_SIZE, ..raw(1) }]);
    many.head.strands = 65;
    assert!(refusal(&many).contains("buffers"));
}
