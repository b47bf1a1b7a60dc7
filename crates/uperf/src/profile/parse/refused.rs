//! Tests: every sentence about a profile, and the place that it names.

use std::collections::BTreeMap;

use super::parse;
use super::variables::Variables;
use crate::profile::errors::Errors;

fn errors(text: &str) -> Errors {
    let environment = |name: &str| match name {
        "word" => Some("word".to_owned()),
        "many" => Some("size=1 sise=2".to_owned()),
        "empty" => Some(String::new()),
        _ => None,
    };
    let given = BTreeMap::new();
    let variables = Variables::new(&given, environment, &[]);
    parse("t", text, &variables).expect_err(text)
}

#[track_caller]
fn refused(text: &str, sentences: &[&str]) {
    let expected: Vec<String> = sentences.iter().map(|sentence| format!("t:{sentence}")).collect();
    assert_eq!(errors(text).to_string(), expected.join("\n"), "{text}");
}

/// The tags in a transaction that has a connection; they begin at 3:1.
#[track_caller]
fn refused_in_transaction(tags: &str, sentence: &str) {
    let before = "<profile><group nthreads=1>\n<transaction><flowop type=connect options='remotehost=h'/>\n";
    refused(&format!("{before}{tags}\n</transaction></group></profile>"), &[sentence]);
}

/// The options of a flowop; they begin at 3:27.
#[track_caller]
fn refused_option(options: &str, sentence: &str) {
    refused_in_transaction(
        &format!("<flowop type=nop options=\"{options}\"/>"),
        &format!("3:27: {sentence}"),
    );
}

const GROUP: &str = "<group nthreads=1><transaction/></group>\n";
const KNOWN_ELEMENTS: &str = "is no element of a profile: known are profile, group, transaction, flowop";
const KNOWN_OPTIONS: &str = "is no option of a flowop: known are size, rsize, count, repeat, batch_size, port, \
    protocol, conn, remotehost, localhost, wndsz, timeout, duration, nfiles, dir, cc, tcp_nodelay, busy, idle, \
    canfail, non_blocking";
const WANTED: &str = "give it a value in the environment or on the command line";

#[test]
fn unknown_elements() {
    refused(&format!("{GROUP}<page/>"), &[&format!("2:2: <page> {KNOWN_ELEMENTS}")]);
    refused(&format!("{GROUP}<>"), &[&format!("2:2: <> {KNOWN_ELEMENTS}")]);
    refused(
        &format!("{GROUP}</groups>"),
        &["2:3: <groups> is no element of a profile: did you mean `group`?"],
    );
}

/// A slip of the finger is one error, not one for all that would have been inside.
#[test]
fn a_misspelt_element_is_taken_for_what_was_meant() {
    let text = "<Profile>\n<goup nthreads=1>\n<transation>\n<flowop type=nop/></transaction></group>";
    let sentences = [
        "2:2: <goup> is no element of a profile: did you mean `group`?",
        "3:2: <transation> is no element of a profile: did you mean `transaction`?",
    ];
    refused(text, &sentences);
}

#[test]
fn elements_out_of_place() {
    refused(
        &format!("{GROUP}<transaction>\n<flowop type=nop/></transaction>"),
        &["2:2: a transaction belongs between <group ...> and </group>"],
    );
    refused(
        "<group nthreads=1>\n <flowop type=nop/>\n <flowop type=nop/>",
        &["2:3: a flowop belongs between <transaction ...> and </transaction>"],
    );
    refused(
        &format!("{GROUP}<flowop type=nop/>"),
        &["2:2: a flowop belongs between <transaction ...> and </transaction>"],
    );
    refused(
        &format!("{GROUP}loose ends"),
        &["2:1: `loose` stands outside of any tag: write <!-- loose --> if it is a comment"],
    );
}

#[test]
fn elements_that_do_nothing() {
    let no_group = " there is no <group> in this profile: nothing would be done";
    refused("", &[no_group]);
    refused("<profile name=p>\n</profile>", &[no_group]);
    let nothing = "the group does nothing: give it a transaction with iterations or a duration above 0";
    refused(&format!("{GROUP}<group nthreads=1>\n</group>"), &[&format!("2:2: {nothing}")]);
    refused(
        "<group nprocs=2><transaction duration=0/><transaction iterations=0/>\n<group nprocs=2>",
        &[&format!("1:2: {nothing}"), &format!("2:2: {nothing}")],
    );
    let idle = "the transaction has a duration but no flowop: give it one, such as a think";
    refused("<group nthreads=1>\n<transaction duration=1s>\n<transaction>", &[&format!("2:2: {idle}")]);
}

#[test]
fn strands() {
    let table = [
        ("", "2: the group has no strands: give it nthreads= or nprocs="),
        (
            "nthreads=1 nprocs=1",
            "2: a group has either nthreads= or nprocs=, not both: make two groups of it",
        ),
        ("nthreads=0", "17: 0 strands do nothing: at least 1 is wanted"),
        ("nprocs=65536", "15: `65536` is too large: 65535 strands are the most"),
        ("nprocs=-1", "15: `-1` is no number: write digits, and K, M or G if you like, such as 30k"),
        ("nprocs=''", "16: `` is no number: write digits, and K, M or G if you like, such as 30k"),
        ("nprocs='$word'", "16: `word` is no number: write digits, and K, M or G if you like, such as 30k"),
        ("nprocs='$none'", &format!("16: `$none` is not set: {WANTED}")),
        ("nprocs='$empty'", &format!("16: `$empty` is empty: {WANTED}")),
        ("nprocs='$'", "16: a `$` needs the name of a variable behind it"),
    ];
    for (attributes, sentence) in table {
        refused(&format!("<group {attributes}><transaction/>"), &[&format!("1:{sentence}")]);
    }
}

#[test]
fn attributes_of_transactions() {
    let table = [
        ("iterations=ten", "25: `ten` is no number: write digits, and K, M or G if you like, such as 30k"),
        ("iterations=3g", "25: `3g` is too large: 2147483647 is the largest number"),
        ("rate='fast'", "20: `fast` is no number: write digits, and K, M or G if you like, such as 30k"),
        (
            "duration='1h'",
            "24: `1h` is no time: write digits, and s, ms, us or ns if you like, such as 500ms",
        ),
        ("duration=5min", "23: `5min` would be milliseconds for uperf: write minutes as seconds"),
        (
            "duration=1e30",
            "23: `1e30` is no time: write digits, and s, ms, us or ns if you like, such as 500ms",
        ),
    ];
    for (attribute, sentence) in table {
        let text = format!("<group nthreads=1>\n<transaction {attribute}><flowop type=nop/>");
        refused(&text, &[&format!("2:{sentence}")]);
    }
}

#[test]
fn attributes_of_other_elements() {
    let table = [
        (
            "<transaction nthreads=2>",
            "14: `nthreads` is no attribute of <transaction>: it belongs to <group>",
        ),
        (
            "<flowop type=nop duration=1s/>",
            "18: `duration` is no attribute of <flowop>: write it inside of options=\"...\"",
        ),
        (
            "<flowop type=nop tcp_nodelay=1/>",
            "18: `tcp_nodelay` is no attribute of <flowop>: write it inside of options=\"...\"",
        ),
        (
            "<flowop type=nop iterations=1/>",
            "18: `iterations` is no attribute of <flowop>: it belongs to <transaction>",
        ),
        (
            "<flowop type=nop optoins=''/>",
            "18: `optoins` is no attribute of <flowop>: did you mean `options`?",
        ),
        (
            "<flowop type=nop xmlns=x/>",
            "18: `xmlns` is no attribute of <flowop>: known are name, type, options",
        ),
        ("<flowop type=nop busy/>", "18: `busy` has no value: write busy=\"...\""),
        ("<flowop/>", "2: the flowop has no type: write type=\"read\", for example"),
        ("<flowop type=raed/>", "14: `raed` is no flowop: did you mean `read`?"),
        (
            "<flowop type=$word/>",
            "14: `word` is no flowop: known are read, write, connect, disconnect, accept, nop, think, send, recv, \
             sendfile, sendfilev",
        ),
    ];
    for (tag, sentence) in table {
        refused_in_transaction(tag, &format!("3:{sentence}"));
    }
}

/// All else is read as it was meant.
#[test]
fn a_forgotten_quote() {
    let closed = "the quote that opens here is never closed";
    let group = "<group nthreads=1><transaction>\n";
    let table = [
        ("<flowop type=nop options=\"idle/>\n<flowop type=\"nop\"/>", "2:26"),
        ("<flowop type=\"nop/>\n<flowop type=\"nop\" options=\"idle\"/>", "2:14"),
    ];
    for (tags, place) in table {
        refused(&format!("{group}{tags}"), &[&format!("{place}: {closed}")]);
    }
}

#[test]
fn options_that_are_none() {
    let table = [
        ("sise=1", "`sise` is no option of a flowop: did you mean `size`?"),
        ("tcp_nodeley", "`tcp_nodeley` is no option of a flowop: did you mean `tcp_nodelay`?"),
        ("async", &format!("`async` {KNOWN_OPTIONS}")),
        ("5", &format!("`5` {KNOWN_OPTIONS}")),
        ("_size=5", "`_size` is no option of a flowop: did you mean `size`?"),
        ("size", "`size` has no value: write size=..."),
        ("size=", "`size=` has no value: it follows the `=` without a space"),
        ("busy=1", "`busy` takes no value: write busy alone"),
        ("$none", &format!("`$none` is not set: {WANTED}")),
        ("$empty", &format!("`$empty` is empty: {WANTED}")),
        ("$many", "`sise` is no option of a flowop: did you mean `size`?"),
        ("remotehost=$empty", &format!("`$empty` is empty: {WANTED}")),
        ("cc=$none", &format!("`$none` is not set: {WANTED}")),
    ];
    for (options, sentence) in table {
        refused_option(options, sentence);
    }
}

#[test]
fn options_whose_values_are_wrong() {
    let no_size = "is no size: write digits, and K, M or G if you like, such as 30k";
    let table = [
        ("size=big", &*format!("`big` {no_size}")),
        ("size=-1", &format!("`-1` {no_size}")),
        ("size=$word", &format!("`word` {no_size} (from $word)")),
        ("size=2g", "`2g` is too large: 2147483647 is the largest size"),
        ("size=0", "`size=0` moves nothing: a size is at least 1"),
        ("size=rand(1,x)", &format!("`x` {no_size}")),
        ("size=rand(0,5)", "`rand(0,5)` begins at 0: a size is at least 1"),
        ("size=rand(9,5)", "`rand(9,5)` begins above its end: write rand(5,9)"),
        ("size=rand(9)", "`rand(9)` is no size: write rand(min,max), such as rand(1,8k)"),
        ("size=random(1,2)", "`random(1,2)` is no size: write rand(min,max), such as rand(1,8k)"),
        ("size=rand(1,2", "`rand(1,2` is no size: write rand(min,max), such as rand(1,8k)"),
        ("size=rand(1,$none)", &format!("`$none` is not set: {WANTED}")),
        ("rsize=x", &format!("`x` {no_size}")),
        ("wndsz=x", &format!("`x` {no_size}")),
        ("count=0", "`count=0` would do nothing: at least 1 is wanted"),
        ("count=1k", "`1k` is no plain number: digits alone are wanted"),
        ("repeat=0", "`repeat=0` would do nothing: at least 1 is wanted"),
        ("batch_size=0", "`batch_size=0` would do nothing: at least 1 is wanted"),
        ("batch_size=4294967296", "`batch_size=4294967296` is too large: 4294967295 is the most"),
        ("nfiles=0", "`nfiles=0` would do nothing: at least 1 is wanted"),
        ("port=65536", "`port=65536` is too large: 65535 is the most"),
        ("port=http", "`http` is no plain number: digits alone are wanted"),
        ("conn=0", "`conn=0` would do nothing: at least 1 is wanted"),
        ("timeout=0", "`timeout=0` is no time at all: leave it out"),
        ("duration=0ms", "`duration=0ms` is no time at all: leave it out"),
        ("timeout=1h", "`1h` is no time: write digits, and s, ms, us or ns if you like, such as 500ms"),
        ("protocol=quic", "`quic` is no protocol: use tcp, udp or unix"),
    ];
    for (options, sentence) in table {
        refused_option(options, sentence);
    }
    for protocol in ["rds", "sctp", "SSL", "vsock"] {
        let lower = protocol.to_lowercase();
        let sentence =
            format!("`{lower}` is a protocol of uperf that is not measured here: use tcp, udp or unix");
        refused_option(&format!("protocol={protocol}"), &sentence);
    }
}

#[test]
fn an_option_is_named_where_it_stands() {
    refused_in_transaction(
        "<flowop type=nop options='idle\n\tcount=2 sise=5'/>",
        "4:10: `sise` is no option of a flowop: did you mean `size`?",
    );
    let text = "<group nthreads=1><transaction><flowop type=nop options='sise=1 conut=2'/>";
    refused(
        text,
        &[
            "1:58: `sise` is no option of a flowop: did you mean `size`?",
            "1:65: `conut` is no option of a flowop: did you mean `count`?",
        ],
    );
}

#[test]
fn flowops_that_lack_an_option() {
    let table = [
        ("read", "read needs size=, how many bytes, such as size=200"),
        ("write", "write needs size=, how many bytes, such as size=200"),
        ("send", "send needs size=, how many bytes, such as size=200"),
        ("recv", "recv needs size=, how many bytes, such as size=200"),
        ("connect", "connect needs remotehost=, where the slave is, such as remotehost=$h"),
        ("accept", "accept needs remotehost=, where the slave is, such as remotehost=$h"),
        ("think", "think needs duration=, how long, such as duration=10ms"),
        ("sendfile", "sendfile needs dir=, where the files are"),
        ("sendfilev", "sendfilev needs dir=, where the files are"),
    ];
    for (kind, sentence) in table {
        refused_in_transaction(&format!("<flowop type={kind}>"), &format!("3:2: {sentence}"));
    }
}

#[test]
fn flowops_that_lack_a_connection() {
    let connect = "<flowop type=connect options='remotehost=h'>";
    let numbered = "<flowop type=accept options='remotehost=h conn=7'>";
    let read = "<flowop type=read options='size=1'>";
    let none = "there is no connection for this read: put a connect or an accept before it";
    let table = [
        (format!("{read}\n{connect}"), format!("1:34: {none}")),
        (format!("<flowop type=disconnect/>\n{read}"), format!("2:2: {none}")),
        (
            format!("{numbered}\n{read}"),
            "2:2: all connections before this read have numbers: say which it is, such as conn=7".to_owned(),
        ),
        (
            format!("{connect}{numbered}\n<flowop type=sendfile options='conn=8 dir=/'>"),
            "2:2: there is no connection 8 for this sendfile: put a connect with conn=8 before it".to_owned(),
        ),
    ];
    for (flowops, sentence) in table {
        refused(&format!("<group nthreads=1><transaction >{flowops}"), &[&sentence]);
    }
}

/// A transaction that is left out makes no connection, either.
#[test]
fn flowops_whose_connection_is_left_out() {
    let connect = "<transaction iterations=0><flowop type=connect options='remotehost=h'/>";
    let write = "<transaction>\n<flowop type=write options='size=1'/>";
    let sentence = "2:2: there is no connection for this write: put a connect or an accept before it";
    refused(&format!("<group nthreads=1>{connect}{write}"), &[sentence]);
}

#[test]
fn limits() {
    let groups = "<group nthreads=1><transaction/></group>\n".repeat(1025);
    refused(&groups, &["1025:2: this is one group too many: 1024 are the most"]);
    refused_option(&"size=1 ".repeat(101), "101 options are too many: 100 are the most");
}

#[test]
fn errors_end_at_a_hundred() {
    let errors = errors(&"<x/>\n".repeat(150));
    assert_eq!((errors.problems.len(), errors.more), (100, true));
    assert!(errors.to_string().ends_with("\nt: more than 100 errors; the rest is not shown"));
}

#[test]
fn errors_come_in_the_order_of_the_file() {
    let text = "<group nthreads=x y>\n<transaction duration=z>\n<flowop type=nop options='a=b'>\n<flowop type=no y=z>";
    let places: Vec<String> =
        errors(text).problems.iter().map(|problem| problem.place.unwrap().to_string()).collect();
    assert_eq!(places, ["1:17", "1:19", "2:23", "3:27", "4:14", "4:17"]);
}
