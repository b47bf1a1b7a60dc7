//! Golden bytes of a real uperf, and properties: what is written is read again, and no bytes make anything panic.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The messages of testdata/golden.txt by their names.
fn golden() -> BTreeMap<&'static str, Vec<u8>> {
    let mut messages = BTreeMap::new();
    for paragraph in include_str!("testdata/golden.txt").split("\n\n").skip(1) {
        let mut lines = paragraph.lines().map(|line| line.split_once(' ').expect("two words a line"));
        let (name, size) = lines.next().expect("a name");
        let mut bytes = vec![0; size.parse().expect("a size")];
        for (offset, hex) in lines {
            let offset: usize = offset.parse().expect("an offset");
            for (i, pair) in hex.as_bytes().chunks(2).enumerate() {
                let pair = std::str::from_utf8(pair).expect("ASCII");
                bytes[offset + i] = u8::from_str_radix(pair, 16).expect("hex");
            }
        }
        messages.insert(name, bytes);
    }
    messages
}

/// The byte order of the machine that the golden bytes are from, seen from this one.
fn golden_order() -> Order {
    if cfg!(target_endian = "little") { Order::Native } else { Order::Swapped }
}

/// Decodes a golden message and expects that encoding it gives the same bytes.
fn both_ways<M: Message + std::fmt::Debug>(name: &str) -> M {
    let bytes = &golden()[name];
    assert_eq!(bytes.len(), M::SIZE, "{name}");
    let message = M::decode(bytes, golden_order()).expect(name);
    assert_eq!(&message.encode(golden_order()), bytes, "{name}: {message:?}");
    message
}

#[test]
fn hellos_are_those_of_uperf() {
    let (first, order) = Hello::read(&golden()["master_hello1"]).expect("a hello");
    assert_eq!(order, golden_order());
    assert_eq!(first, both_ways("master_hello1"));
    let tcp_only = [false, true, false, false, false, false, false, false];
    assert_eq!((first.phase, first.protocols, first.version.as_str()), (1, tcp_only, VERSION));
    let second: Hello = both_ways("master_hello2");
    assert_eq!((second.phase, second.slave_infos), (2, 2));
}

#[test]
fn work_orders_are_those_of_uperf() {
    let (group, order) = GroupHead::read(&golden()["master_group"]).expect("a group");
    assert_eq!(order, golden_order());
    assert_eq!(group, both_ways("master_group"));
    assert_eq!((group.strand_flags, group.strands, group.transactions), (4, 2, 3));
    let timed: TransactionHead = both_ways("master_txn1");
    assert_eq!((timed.flowops, timed.id, timed.rate), (5, 1, 100));
    assert_eq!((timed.iterations, timed.duration_ns), (1, 2_500_000_000));
    assert_eq!(both_ways::<TransactionHead>("master_txn0").iterations, 3);
}

#[test]
fn flowops_are_those_of_uperf() {
    let connect: RawFlowop = both_ways("master_txn0_flowop0");
    assert_eq!((connect.kind, connect.conn, connect.protocol, connect.flags), (3, 7, 1, 1 << 1));
    assert_eq!((connect.wndsz, connect.remotehost.as_str()), (200 << 10, "127.0.0.1"));
    let accept: RawFlowop = both_ways("master_txn0_flowop1");
    assert_eq!((accept.kind, accept.port, accept.cc.as_str()), (5, 30_001, "cubic"));
    let read: RawFlowop = both_ways("master_txn1_flowop0");
    assert_eq!((read.kind, read.size, read.rsize, read.count), (1, 400, 400, 5));
    let random: RawFlowop = both_ways("master_txn1_flowop1");
    assert_eq!((random.size_min, random.size_max, random.timeout_ns), (10, 1000, 5_000_000));
    assert_eq!(both_ways::<RawFlowop>("master_txn1_flowop2").duration_ns, 3000);
    assert_eq!(both_ways::<RawFlowop>("master_txn1_flowop4").repeat, 2);
}

#[test]
fn answers_and_goodbyes_are_those_of_uperf() {
    assert!(both_ways::<Ack>("slave_ack1").is_ok());
    let order: OrderAck = both_ways("slave_ack2");
    assert!(order.ack.is_ok());
    assert_eq!(order.slave_infos, 1);
    assert_eq!(both_ways::<SlaveInfo>("slave_ack2_slave_info0").ports[1], 30_001);
    assert_eq!(both_ways::<Ack>("slave_ack_end"), Ack::end());
    let goodbye: Goodbye = both_ways("slave_goodbye");
    assert_eq!((goodbye.verdict, goodbye.operations), (Verdict::Info, 4));
    assert_eq!((goodbye.message.as_str(), goodbye.detail.as_str()), ("Success", ""));
    assert_eq!(both_ways::<Command>("master_command"), Command::NextTransaction(0));
    assert_eq!(both_ways::<Command>("master_command_abort"), Command::Abort);
}

#[test]
fn messages_of_a_slave_are_told_apart_by_their_first_bytes() {
    let messages = golden();
    for name in ["master_command", "slave_goodbye"] {
        let bytes = &messages[name];
        assert_eq!(FromSlave::size(&bytes[..MAGIC_SIZE]), Ok(bytes.len()), "{name}");
    }
    assert!(FromSlave::size(b"HTTP/1.1 400 Bad Request").is_err());
}

#[test]
fn a_stranger_says_no_hello() {
    assert!(Hello::read(&[b'y'; Hello::SIZE]).is_err());
    let mut bytes = golden()["master_hello1"].clone();
    bytes[32..36].fill(7);
    assert!(Hello::read(&bytes).is_err());
}

#[test]
fn text_after_the_message_of_a_goodbye_survives_and_too_long_text_is_cut() {
    let mut goodbye: Goodbye = both_ways("slave_goodbye");
    goodbye.detail = "{\"cpu_ns\":1}".into();
    let bytes = goodbye.encode(Order::Native);
    assert_eq!(Goodbye::decode(&bytes, Order::Native).as_ref(), Ok(&goodbye));
    goodbye.detail = "x".repeat(9999);
    assert_eq!(goodbye.encode(Order::Native).len(), Goodbye::SIZE);
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Native), Just(Order::Swapped)]
}

prop_compose! {
    fn flowops()(
        numbers in any::<[u32; 8]>(), long in any::<[u64; 6]>(), texts in ["[a-z0-9.]{0,31}", "[ -~]{0,127}"],
        hosts in ["[a-z.]{0,255}", "[0-9a-f:]{0,255}"], kind in any::<u32>(), conn in any::<u32>(),
    ) -> RawFlowop {
        let [size, size_min, size_max, rsize, protocol, port, flags, nfiles] = numbers;
        let [duration_ns, wndsz, count, repeat, batch_size, timeout_ns] = long;
        let [cc, dir] = texts;
        let [remotehost, localhost] = hosts;
        RawFlowop {
            size, size_min, size_max, rsize, protocol, port, flags, nfiles, duration_ns, wndsz, count, repeat,
            batch_size, timeout_ns, cc, dir, remotehost, localhost, kind, conn,
        }
    }
}

fn comes_back<M: Message + PartialEq + std::fmt::Debug>(
    message: &M,
    order: Order,
) -> Result<(), TestCaseError> {
    let bytes = message.encode(order);
    prop_assert_eq!(bytes.len(), M::SIZE);
    let read = M::decode(&bytes, order);
    prop_assert_eq!(read.as_ref(), Ok(message));
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        flowop in flowops(), order in orders(), a in any::<u32>(), b in any::<u64>(), ports in any::<[u16; 8]>(),
        protocols in any::<[bool; 8]>(), text in "[ -~]{0,100}",
    ) {
        comes_back(&flowop, order)?;
        comes_back(&GroupHead { strand_flags: a, strands: a ^ 1, transactions: a ^ 2 }, order)?;
        let head = TransactionHead {
            flowops: a, id: a ^ 1, rate: a ^ 2, iterations: b, duration_ns: b ^ 1, rate_text: text.clone(),
        };
        comes_back(&head, order)?;
        comes_back(&SlaveInfo { ports: ports.map(u32::from) }, order)?;
        comes_back(&OrderAck { ack: Ack::refuse(&text), slave_infos: a }, order)?;
        comes_back(&Command::SendStats(a), order)?;
        let hello = Hello { phase: a, slave_infos: a, protocols, version: VERSION.into(), host: text.clone() };
        comes_back(&hello, order)?;
        let read = Hello::read(&hello.encode(order));
        prop_assert_eq!(read, Ok((hello, order)));
        let goodbye = Goodbye {
            verdict: Verdict::Warning, elapsed_ns: b, errors: b ^ 1, bytes: b ^ 2, operations: b ^ 3,
            message: text.clone(), detail: text,
        };
        comes_back(&goodbye, order)?;
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..1000), order in orders()) {
        // Whatever comes out is fine, as long as something does.
        let _ = (Hello::read(&bytes), GroupHead::read(&bytes), TransactionHead::decode(&bytes, order));
        let _ = (RawFlowop::decode(&bytes, order), SlaveInfo::decode(&bytes, order));
        let _ = (OrderAck::decode(&bytes, order), Command::decode(&bytes, order), Goodbye::decode(&bytes, order));
        let _ = (FromSlave::size(&bytes), FromSlave::decode(&bytes));
    }
}
