//! Tests: what profiles say is what the values are, in uperf's notation and in what is taken beyond it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::parse;
use super::variables::Variables;
use crate::profile::model::{Flowop, FlowopKind, Group, Place, Profile, StrandKind, Transaction, Until};
use crate::profile::options::{Options, Protocol, Size};

fn environment(name: &str) -> Option<String> {
    let value = match name {
        "h" => "Host.Example",
        "proto" => "UDP",
        "port" => "5000",
        "size" => "8k",
        "nothing" => "",
        "opts" => "count=16  size=$size canfail",
        _ => return None,
    };
    Some(value.into())
}

#[track_caller]
fn profile(text: &str) -> Profile {
    let given = BTreeMap::new();
    let variables = Variables::new(&given, environment, &[]);
    parse("test", text, &variables).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The options of a flowop that needs none.
#[track_caller]
fn options(options: &str) -> Options {
    let text = format!("<group nthreads='1'><transaction><flowop type=nop options=\"{options}\"/>");
    profile(&text).groups.remove(0).transactions.remove(0).flowops.remove(0).options
}

#[track_caller]
fn transaction(attributes: &str) -> Transaction {
    let text = format!("<group nthreads='1'><transaction {attributes}><flowop type='nop'/>");
    profile(&text).groups.remove(0).transactions.remove(0)
}

fn flowop(line: u32, column: u32, kind: FlowopKind, options: Options) -> Flowop {
    Flowop { kind, options, place: Place { line, column } }
}

fn plain_transaction(name: &str, until: Until, flowops: Vec<Flowop>) -> Transaction {
    Transaction { name: name.into(), until, rate: None, flowops }
}

fn sized(size: u32, count: u64) -> Options {
    Options { size: Some(Size::Fixed(size)), count, ..Options::default() }
}

/// The shape in which IBM measures requests and responses.
#[test]
fn a_request_response_profile_of_fifty_processes() {
    let text = r#"<?xml version="1.0"?>
<profile name="RR1C">
  <group nprocs="50">
    <!-- or: --><!--group nthreads="50"-->
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=10.1.2.3
              protocol=tcp tcp_nodelay" />
    </transaction>
    <transaction duration="300">
      <flowop type="write" options="size=200"/>
      <flowop type="read" options="size=1000"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect" />
    </transaction>
  </group>
</profile>"#;
    let connect = Options { remotehost: Some("10.1.2.3".into()), tcp_nodelay: true, ..Options::default() };
    let write = flowop(10, 8, FlowopKind::Write, sized(200, 1));
    let read = flowop(11, 8, FlowopKind::Read, sized(1000, 1));
    let disconnect = flowop(14, 8, FlowopKind::Disconnect, Options::default());
    let (once, long) = (Until::Iterations(1), Until::Duration(Duration::from_secs(300)));
    let transactions = vec![
        plain_transaction("Txn0", once, vec![flowop(6, 8, FlowopKind::Connect, connect)]),
        plain_transaction("Txn1", long, vec![write, read]),
        plain_transaction("Txn2", once, vec![disconnect]),
    ];
    let group = Group { name: "Group0".into(), strands: 50, kind: StrandKind::Processes, transactions };
    assert_eq!(profile(text), Profile { name: "rr1c".into(), groups: vec![group] });
}

#[test]
fn groups_count_from_zero_and_have_names() {
    let group = |attributes: &str| format!("<group {attributes}><transaction/></group>\n");
    let text = group("nthreads='1k'") + &group("NPROCS=2 name='Readers'") + &group("nthreads=3");
    let groups = profile(&text).groups;
    let groups: Vec<_> = groups.iter().map(|g| (g.name.as_str(), g.kind, g.strands)).collect();
    let (threads, processes) = (StrandKind::Threads, StrandKind::Processes);
    assert_eq!(groups, [("Group0", threads, 1024), ("readers", processes, 2), ("Group2", threads, 3)]);
}

#[test]
fn transactions_end_after_iterations_or_a_duration() {
    let seconds = |s| Until::Duration(Duration::from_secs(s));
    let table = [
        ("", Until::Iterations(1)),
        ("iterations='10'", Until::Iterations(10)),
        ("iterations='10k'", Until::Iterations(10_240)),
        ("iterations=1 iterations=2 iterations=3", Until::Iterations(3)),
        ("duration='300'", seconds(300)),
        ("duration='60s'", seconds(60)),
        ("duration='1.5s'", Until::Duration(Duration::from_millis(1500))),
        ("duration=500ms", Until::Duration(Duration::from_millis(500))),
    ];
    for (attributes, until) in table {
        assert_eq!(transaction(attributes).until, until, "{attributes}");
    }
}

#[test]
fn rates_and_names_belong_to_transactions() {
    let measured = transaction("name='Measured' rate='1k' duration='1s'");
    assert_eq!((measured.name.as_str(), measured.rate), ("measured", NonZeroU32::new(1024)));
    assert_eq!(transaction("rate=0").rate, None);
}

#[test]
fn transactions_of_nothing_are_left_out_and_the_others_keep_their_names() {
    let text = "<group nthreads=1>
        <transaction duration=0s><flowop type=read options='size=1'/></transaction>
        <transaction iterations=0></transaction>
        <transaction iterations=2></transaction></group>";
    let transactions = profile(text).groups.remove(0).transactions;
    assert_eq!(transactions, [plain_transaction("Txn2", Until::Iterations(2), vec![])]);
}

#[test]
fn every_flowop_is_known_in_either_case() {
    let text = |kind: &str| {
        let connect = "<flowop type='connect' options='remotehost=h'/>";
        let all = "remotehost=h size=1 duration=1ns dir=/";
        format!("<group nthreads=1><transaction>{connect}<flowop type='{kind}' options='{all}'/>")
    };
    use clap::ValueEnum;
    for &kind in FlowopKind::value_variants() {
        for name in [kind.to_string(), kind.to_string().to_uppercase()] {
            assert_eq!(profile(&text(&name)).groups[0].transactions[0].flowops[1].kind, kind);
        }
    }
}

#[test]
fn options_have_the_values_that_are_written() {
    let all = options(
        "size=64k rsize=128k count=3 repeat=4 batch_size=5 port=6 protocol=UDP conn=7 remotehost=There \
         localhost=Here wndsz=50k timeout=2s duration=30ms nfiles=8 dir=/Some/Where cc=Cubic busy TCP_nodelay \
         canfail non_blocking",
    );
    let expected = Options {
        size: Some(Size::Fixed(65_536)),
        rsize: Some(131_072),
        count: 3,
        repeat: 4,
        batch_size: 5,
        port: Some(6),
        protocol: Protocol::Udp,
        conn: NonZeroU32::new(7),
        remotehost: Some("there".into()),
        localhost: Some("here".into()),
        wndsz: Some(51_200),
        timeout: Some(Duration::from_secs(2)),
        duration: Some(Duration::from_millis(30)),
        nfiles: 8,
        dir: Some("/Some/Where".into()),
        cc: Some("cubic".into()),
        busy: true,
        tcp_nodelay: true,
        canfail: true,
        non_blocking: true,
    };
    assert_eq!(all, expected);
}

#[test]
fn options_that_say_nothing_are_the_defaults() {
    let table = ["", " \n\t", ",", "idle", "rsize=0 wndsz=0 port=0", "protocol=tcp count=1", "cc=$nothing"];
    for text in table {
        assert_eq!(options(text), Options::default(), "{text}");
    }
}

#[test]
fn options_of_other_systems_and_protocols_do_nothing() {
    let text = "stack=rack bblog=1 encaps=9899 engine=x cipher=y method=tls sctp_nodelay sctp_unordered sctp_rto_min=1 \
                sctp_rto_max=1 sctp_rto_initial=1 sctp_sack_delay=1 sctp_sack_frequency=1 sctp_max_burst_size=1 \
                sctp_max_fragment_size=1 sctp_hb_interval=1 sctp_path_mtu=1 sctp_in_streams=1 sctp_out_streams=1 \
                sctp_stream_id=1 sctp_pr_value=1 sctp_pr_policy=rtt";
    assert_eq!(options(text), Options::default());
}

#[test]
fn sizes_may_be_random() {
    let random = |min, max| Some(Size::Random { min, max });
    let table = [
        ("size=rand(1,8k)", random(1, 8192)),
        ("size=RAND(5,5)", random(5, 5)),
        ("size=rand( 1 ,\n8k )", random(1, 8192)),
        ("size=rand(1,$size)", random(1, 8192)),
        ("size=$size", Some(Size::Fixed(8192))),
        ("size=1 size=2", Some(Size::Fixed(2))),
    ];
    for (text, size) in table {
        assert_eq!(options(text).size, size, "{text}");
    }
}

#[test]
fn protocols_are_tcp_udp_and_unix() {
    for (name, protocol) in [("tcp", Protocol::Tcp), ("$proto", Protocol::Udp), ("unix", Protocol::Unix)] {
        assert_eq!(options(&format!("protocol={name}")).protocol, protocol);
    }
}

#[test]
fn variables_stand_for_attributes_options_and_lists_of_options() {
    assert_eq!(options("port=$PORT remotehost=$H").port, Some(5000));
    assert_eq!(options("$opts"), Options { canfail: true, ..sized(8192, 16) });
    assert_eq!(options("count=2 $opts").count, 16);
    assert_eq!(transaction("iterations='$size'").until, Until::Iterations(8192));
    assert_eq!(transaction("name=$H").name, "host.example");
}

#[test]
fn connections_have_numbers() {
    let text = "<group nthreads=1><transaction>
        <flowop type=connect options='remotehost=$h'/> <flowop type=accept options='conn=3 remotehost=$h'/>
        <flowop type=write options='size=1 conn=3'/> <flowop type=read options='size=1'/>
        <flowop type=write options='size=1 conn=4 canfail'/> <flowop type=disconnect options='conn=9'/>";
    let flowops = &profile(text).groups[0].transactions[0].flowops;
    let numbers: Vec<_> = flowops.iter().map(|flowop| flowop.options.conn.map(u32::from)).collect();
    assert_eq!(numbers, [None, Some(3), Some(3), None, Some(4), Some(9)]);
}

/// uperf reads all of these as one and the same profile.
#[test]
fn a_text_that_closes_nothing_is_read() {
    let whole = "<profile name=p> <group nthreads=1> <transaction> <flowop type=nop/> </transaction> \
                 <transaction duration=1s> <flowop type=nop/> </transaction> </group> </profile>";
    let table = [
        "<Profile name=p> <GROUP nthreads=1> <transaction> <flowop type=nop/> <transaction duration=1s> <flowop type=nop>",
        "<profile name=p> <group nthreads=1 <transaction <flowop type=nop <transaction duration=1s <flowop type=nop",
        "< profile name=p> < group nthreads=1> <transaction> <flowop type=nop> </flowop> </transaction> \
         <transaction duration=1s> <flowop type=nop/> </transaction> </group> </profile",
    ];
    let values = |text| {
        let mut profile = profile(text);
        let transactions = profile.groups.iter_mut().flat_map(|group| &mut group.transactions);
        let flowops = transactions.flat_map(|transaction| &mut transaction.flowops);
        flowops.for_each(|flowop| flowop.place = Place { line: 1, column: 1 });
        profile
    };
    for text in table {
        assert_eq!(values(text), values(whole), "{text}");
    }
}

#[test]
fn limits_are_inside() {
    let groups = "<group nthreads=65535><transaction/></group>".repeat(1024);
    assert_eq!(profile(&groups).groups.len(), 1024);
    assert_eq!(options(&"size=1 ".repeat(100)).size, Some(Size::Fixed(1)));
}
