//! "Why is it not faster?" of docs/performance.md, claim by claim: what a claim says is provoked, over TCP
//! and over shared memory, and counted. Owns: that no claim stands there without a test of its name here.
//!
//! Counted are sleeps, seconds on a CPU, connections, full rings; never how long anything took. Bounds leave
//! room for a machine on which others are at work.

use crate::reasons::every_code_of_the_table_is_provoked;
use crate::support::{LIMIT, programs};
use isthmus_tests::{Bed, Mode, Running};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The claims in their order, and who holds each.
const CLAIMS: [(&str, fn()); 6] = [
    ("Is it shared memory at all?", every_code_of_the_table_is_provoked),
    ("Is the network what takes the time?", a_program_that_computes_gains_what_tcp_took),
    ("Does one end sleep most of the time?", who_sleeps_most_of_the_time_is_woken_as_over_tcp),
    ("Are writes tiny, or buffers small?", tiny_writes_and_small_buffers_cost),
    ("Are connections short?", short_connections_are_the_kernels_work_as_before),
    ("What spoils numbers", what_spoils_numbers_stands_in_the_report),
];

#[test]
fn every_claim_has_its_test() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let advice = text.split("## Advice: why is it not faster?").nth(1).expect("the advice");
    let numbered = advice.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let claims = numbered.filter_map(|line| line.split("**").nth(1));
    assert!(claims.eq(CLAIMS.iter().map(|(claim, _)| *claim)), "claims and tests differ:\n{advice}");
}

/// What one run of the benchmark counted, both ends together.
#[derive(Debug)]
struct Counted {
    transactions: f64,
    bytes: f64,
    cpu_ns: f64,
    sleeps: f64,
}

impl Counted {
    fn cpu(&self) -> f64 {
        self.cpu_ns / self.transactions
    }

    fn sleeps(&self) -> f64 {
        self.sleeps / self.transactions
    }

    fn cpu_per_byte(&self) -> f64 {
        self.cpu_ns / self.bytes
    }
}

/// One claim at a time: each of them takes the CPUs.
static ALONE: Mutex<()> = Mutex::new(());

fn bed() -> Option<(Bed, MutexGuard<'static, ()>)> {
    let is_wanted = Mode::wanted().contains(&Mode::Smc);
    is_wanted.then(|| {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        (Bed::new("advice", Mode::Smc), alone)
    })
}

fn benchmark(bed: &Bed, before: &[&str]) -> Command {
    let bench = bed.tool_command("smc_bench").expect("this bed has tools");
    let words: Vec<_> =
        before.iter().map(|word| (*word).into()).chain([bench.get_program().to_owned()]).collect();
    let mut command = bed.plain(&words[0]);
    command.args(&words[1..]);
    command
}

/// The numbers behind every `"name":`.
fn numbers(json: &str, name: &str) -> Vec<f64> {
    let name = format!("\"{name}\":");
    let behind = json.split(&name).skip(1);
    behind.filter_map(|rest| rest.split([',', '}']).next()?.trim().parse().ok()).collect()
}

/// Runs `profile` over `path` with what stands `before` its command line.
fn run(bed: &Bed, before: &[&str], path: &str, profile: &str) -> Counted {
    let mut command = benchmark(bed, before);
    command.args(["inner", "cell", "--path", path, "--profile", profile, "--seconds", "0.4"]);
    let handshakes = bed.handshakes();
    let run = bed.run(&mut command, path, LIMIT).must(profile).out;
    let sum = |name| numbers(&run, name).iter().sum::<f64>();
    // Of a very short run nobody sees the connections; what was set up is counted.
    let is_so = if path == "smc" { bed.handshakes() > handshakes } else { sum("smcd") == 0.0 };
    assert!(is_so, "{profile} over {path}: {run}");
    Counted {
        transactions: sum("transactions"),
        bytes: sum("bytes_sent") + sum("bytes_received"),
        cpu_ns: sum("cpu_ns"),
        sleeps: sum("voluntary_switches"),
    }
}

/// The same over TCP and over shared memory.
fn both(bed: &Bed, before: &[&str], profile: &str) -> [Counted; 2] {
    ["tcp-loopback", "smc"].map(|path| run(bed, before, path, profile))
}

/// Holds what is `so` of numbers that `counted` brings. A neighbour may spoil a run (others take the CPU, a
/// pair is parted): what is claimed shows in one of a few, what is not in none.
fn shows<T: std::fmt::Debug>(claim: &str, mut counted: impl FnMut() -> T, so: impl Fn(&T) -> bool) {
    const TRIES: u64 = 8;
    let mut seen = vec![];
    for turn in 0..TRIES {
        std::thread::sleep(std::time::Duration::from_millis(300 * turn));
        let numbers = counted();
        if so(&numbers) {
            return;
        }
        seen.push(numbers);
    }
    panic!("{claim}: {seen:#?}");
}

/// A profile of our own: 200 bytes there, 1000 back, and then what `more` says.
fn profile(bed: &Bed, name: &str, until: &str, more: &str) -> String {
    let text = format!(
        r#"<?xml version="1.0"?>
<profile name="{name}">
  <group nprocs="$nprocs">
    <transaction iterations="1"><flowop type="connect" options="remotehost=$h protocol=$proto tcp_nodelay"/></transaction>
    <transaction name="measured" {until}>
      <flowop type="write" options="size=200"/><flowop type="read" options="size=1000"/>{more}
    </transaction>
    <transaction iterations="1"><flowop type="disconnect"/></transaction>
  </group>
</profile>
"#
    );
    bed.scratch.file(&format!("{name}.xml"), text).display().to_string()
}

/// Half a millisecond of computing at each end for a request that TCP carries in some hundredths of that.
#[test]
fn a_program_that_computes_gains_what_tcp_took() {
    let Some((bed, _alone)) = bed() else { return };
    let computes = profile(
        &bed,
        "computes",
        "iterations=\"400\"",
        r#"<flowop type="think" options="busy duration=500us"/>"#,
    );
    let beside = |[tcp, smc]: &[Counted; 2]| smc.cpu() / tcp.cpu();
    shows("CPU of both alike", || both(&bed, &[], &computes), |both| (0.75..=1.25).contains(&beside(both)));
    let alone = || both(&bed, &[], "rr1c-200x1000");
    shows("without the computing most is gained", alone, |both| beside(both) < 0.7);
}

#[test]
fn who_sleeps_most_of_the_time_is_woken_as_over_tcp() {
    let Some((bed, _alone)) = bed() else { return };
    // Both ends rest between two requests.
    let rests =
        profile(&bed, "rests", "iterations=\"60\"", r#"<flowop type="think" options="idle duration=5ms"/>"#);
    shows(
        "as many sleeps as over TCP, and no long spinning before them",
        || both(&bed, &[], &rests),
        |[tcp, smc]| (0.6..=1.5).contains(&(smc.sleeps() / tcp.sleeps())) && smc.cpu() < 2.0 * tcp.cpu(),
    );
    // Beside somebody who computes it sleeps oftener.
    let sleeps = |before: &[&str]| run(&bed, before, "smc", "rr1c-200x1000").sleeps();
    let counted = || [sleeps(&[]), sleeps(&["env", "SMC_SPIN=0"])];
    shows("where it pays there is no sleep", counted, |[as_is, unspun]| *as_is < 0.7 * unspun);
    // On one CPU every look is taken from the other end: there it yields.
    let Some([taskset]) = programs(["taskset"]) else { return };
    let (taskset, first) = (taskset.display().to_string(), first_cpu());
    let on_one = || both(&bed, &[&taskset, "-c", &first], "rr1c-200x1000");
    shows("the gain is CPU time", on_one, |[tcp, smc]| smc.cpu() < 0.8 * tcp.cpu());
}

/// One that this process may use.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    list.trim().split([',', '-']).next().expect("a CPU").to_owned()
}

/// What `smcd stats` counts of writes that found their ring full.
fn full_rings(bed: &Bed) -> f64 {
    numbers(&bed.tool("smcd", &["-d", "stats", "json"]), "SMC_INT_TX_BUF_FULL_CNT").iter().sum()
}

#[test]
fn tiny_writes_and_small_buffers_cost() {
    let Some((bed, _alone)) = bed() else { return };
    let of_size = |size| {
        let write = format!(r#"<flowop type="write" options="size={size}"/>"#);
        run(&bed, &[], "smc", &profile(&bed, "writes", r#"duration="$duration""#, &write.repeat(20)))
    };
    let counted = || [of_size(10), of_size(65_536)];
    shows("CPU of a byte", counted, |[tiny, large]| tiny.cpu_per_byte() > 5.0 * large.cpu_per_byte());
    // Twenty writes of 64 KiB fill a ring of 16 KiB with each, one of a mebibyte once or twice.
    let blocks = r#"<flowop type="write" options="size=65536"/>"#.repeat(20);
    let blocks = profile(&bed, "blocks", "iterations=\"100\"", &blocks);
    let full = |size: &str| {
        let (before, size) = (full_rings(&bed), [format!("SMC_SNDBUF={size}"), format!("SMC_RCVBUF={size}")]);
        run(&bed, &["env", &size[0], &size[1]], "smc", &blocks);
        full_rings(&bed) - before
    };
    let counted = || [full("16384"), full("1048576")];
    shows("full rings", counted, |[small, large]| *small > 2.0 * large.max(1.0));
}

/// SYNs that were sent in this network.
fn opened() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let line = table.lines().filter(|line| line.starts_with("Tcp:")).nth(1);
    line.and_then(|line| line.split_whitespace().nth(5)?.parse().ok()).expect("the kernel's count")
}

#[test]
fn short_connections_are_the_kernels_work_as_before() {
    let Some((bed, _alone)) = bed() else { return };
    let counted = |path| {
        let before = opened();
        let run = run(&bed, &[], path, "crr-200x1000");
        assert!(
            (opened() - before) as f64 >= run.transactions,
            "{path}: each is opened by the kernel: {run:?}"
        );
        run
    };
    let both = || [counted("tcp-loopback"), counted("smc")];
    shows("CPU of both alike", both, |[tcp, smc]| (0.5..=2.5).contains(&(smc.cpu() / tcp.cpu())));
}

/// Computes until it is dropped.
fn busy(bed: &Bed) -> Running {
    bed.start(bed.plain("sh").args(["-c", "while :; do :; done"]), "busy")
}

/// What stands in each line of the advice's last claim.
#[test]
fn what_spoils_numbers_stands_in_the_report() {
    let Some((bed, _alone)) = bed() else { return };
    let report = |before: &[&str]| {
        let mut command = benchmark(&bed, before);
        let args = "compare --profile rr1c-200x1000 --paths tcp-loopback --conns 4 --rounds 2 --seconds 0.3";
        bed.run(command.args(args.split(' ')), "report", LIMIT).must("a comparison").out
    };
    let others: Vec<Running> = (0..2).map(|_| busy(&bed)).collect();
    let is_told = |text: &String| text.starts_with("no verdict: ") && text.contains("used by others");
    shows("others use the CPUs", || report(&[]), is_told);
    let disturbed = report(&[]);
    drop(others);
    if let Some([taskset]) = programs(["taskset"]) {
        let narrow = report(&[&taskset.display().to_string(), "-c", &first_cpu()]);
        assert!(narrow.contains("\nmachine: 1 x "), "four connections between eight processes: {narrow}");
    }
    assert!(disturbed.contains("; runs of 0.30 s, "), "{disturbed}");
    assert!(!disturbed.contains("debug build"), "what is laid out is none: {disturbed}");
    // A loop that looks again and again against one that sleeps: as many transactions, and the CPU tells.
    let thinking = |how: &str| {
        let think = format!(r#"<flowop type="think" options="{how} duration=2ms"/>"#);
        run(&bed, &[], "tcp-loopback", &profile(&bed, how, "iterations=\"100\"", &think))
    };
    let counted = || ["busy", "idle"].map(thinking);
    shows("who looks without pause", counted, |[loops, sleeps]| loops.cpu() > 3.0 * sleeps.cpu());
}
