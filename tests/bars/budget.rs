//! Where memory is short, what is beyond the budget stays on TCP, with the code that says so, and nobody is
//! killed: neither by the cgroup's limit, nor because the program finds no memory for itself.

use crate::{LIMIT, PROGRAM, good, load, serve, server};
use isthmus_tests::{Bed, Mode, free_port, sys};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Rings of so many connections, all of them used, take 230 MB.
const COUNT: u64 = 450;

/// A cgroup with a limit of memory; gone when dropped.
struct Group(PathBuf);

impl Group {
    /// `None` where none can be made: by an ordinary user, or where nobody has mounted a hierarchy.
    fn new(bytes: u64) -> Option<Group> {
        let lines = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let mine = |controller: &str| {
            lines.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let is_it = fields.next()?.split(',').any(|one| one == controller);
                if is_it { Some(fields.next()?.trim_start_matches('/').to_string()) } else { None }
            })
        };
        let (folder, limit) = match mine("memory") {
            Some(path) => (PathBuf::from("/sys/fs/cgroup/memory").join(path), "memory.limit_in_bytes"),
            None => (PathBuf::from("/sys/fs/cgroup").join(mine("")?), "memory.max"),
        };
        let group = Group(folder.join(format!("isthmus-bar-{}-{bytes}", std::process::id())));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join(limit), bytes.to_string()).ok().map(|()| group)
    }

    fn kills(&self) -> u64 {
        let read = |file: &str| std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
        let counts = read("memory.oom_control") + &read("memory.events");
        let kills = counts.lines().filter_map(|line| line.strip_prefix("oom_kill ")?.parse::<u64>().ok());
        kills.sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The command with a shell before it that does `first`.
fn after(command: &Command, first: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{first} && exec \"$@\""), "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => _ = shell.env(name, value),
            None => _ = shell.env_remove(name),
        }
    }
    shell.current_dir(command.get_current_dir().expect("a bed's"));
    shell
}

/// Both ends after `first`; how many connections were shared.
fn fill(bed: &Bed, count: u64, first: &str, environment: &[(&str, &str)]) -> u64 {
    let numbers = [u64::from(free_port()), count];
    let before = bed.handshakes();
    let mut s = after(&load(bed.server(PROGRAM), &["full", "server"], &numbers), first);
    let s = server(bed, s.envs(environment.iter().copied()), numbers[0], "server");
    let mut c = after(&load(bed.client(PROGRAM), &["full", "client"], &numbers), first);
    good(bed, first, bed.run(c.envs(environment.iter().copied()), "client", LIMIT));
    good(bed, first, s.finish(Duration::from_secs(20)));
    bed.handshakes() - before
}

fn assert_out_of_memory_counted(bed: &Bed) {
    let stats = bed.tool("smcd", &["-d", "stats"]);
    assert!(stats.lines().any(|line| line.split_whitespace().next() == Some("MEMORY")), "{stats}");
}

#[test]
fn a_small_cgroup_is_not_exceeded() {
    let Some(group) = Group::new(64 << 20) else {
        println!("no cgroup can be made here");
        return;
    };
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted().contains(m)) {
        let bed = Bed::new("cgroup", mode);
        let enter = format!("echo $$ > {}", group.0.join("cgroup.procs").display());
        let shared = fill(&bed, COUNT, &enter, &[]);
        assert_eq!(group.kills(), 0);
        if mode == Mode::Smc {
            assert!((10..100).contains(&shared), "{shared} connections were shared");
            assert_out_of_memory_counted(&bed);
        }
    }
}

/// Of this the registry alone would be a third.
#[test]
fn a_tiny_cgroup_has_nothing_of_ours() {
    let Some(group) = Group::new(14 << 20) else {
        println!("no cgroup can be made here");
        return;
    };
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted().contains(m)) {
        let bed = Bed::new("tiny", mode);
        let enter = format!("echo $$ > {}", group.0.join("cgroup.procs").display());
        assert_eq!((fill(&bed, 5, &enter, &[]), group.kills()), (0, 0));
    }
}

#[test]
fn who_may_have_little_address_space_has_most_of_it_for_himself() {
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted().contains(m)) {
        let bed = Bed::new("space", mode);
        let shared = fill(&bed, 100, "ulimit -v 60000", &[]);
        assert_eq!(shared > 0 && shared < 50, mode == Mode::Smc, "{shared} connections were shared");
    }
}

#[test]
fn what_is_asked_for_is_the_budget() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new("budget", Mode::Smc);
    assert_eq!(fill(&bed, 20, "true", &[("SMC_MEMORY", "0")]), 0);
    assert_out_of_memory_counted(&bed);
    // (Two slots of a bit more than half a megabyte each.)
    for name in ["SMC_MEMORY", "SMC_USER_MEMORY"] {
        assert_eq!(fill(&bed, 20, "true", &[(name, "2m")]), 2, "{name}");
    }
    assert_eq!(fill(&bed, 20, "true", &[("SMC_MEMORY", "1g")]), 20);
    let mut info = bed.tool_command("smcd").expect("tools");
    let info = info.arg("info").env("SMC_MEMORY", "3m").output().expect("smcd").stdout;
    let info = String::from_utf8_lossy(&info);
    let said = |label: &str| info.lines().find_map(|line| Some(line.strip_prefix(label)?.trim().to_string()));
    assert_eq!(
        (said("Set aside:"), said("Of a process:")),
        (Some("0 MiB".into()), Some("3 MiB".into())),
        "{info}"
    );
}

/// The number of KiB behind a name.
fn kib(line: &str, name: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|word| *word != name).skip(1);
    words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name}: {line}"))
}

/// Address space is used as it is needed: next to none by sets, listeners and vain connects, at most 2 MiB by
/// all with the first connection; and a connection that is used keeps no more than 40 KiB resident.
#[test]
fn nothing_is_mapped_before_it_is_needed() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    const COUNT: u64 = 100;
    let bed = Bed::new("space", Mode::Smc);
    let numbers = [u64::from(free_port()), COUNT];
    let s = serve(&bed, &["space", "server"], &numbers, "server");
    let c = bed.run(&mut load(bed.client(PROGRAM), &["space", "client"], &numbers), "client", LIMIT);
    let c = good(&bed, "client", c);
    let s = good(&bed, "server", s.finish(Duration::from_secs(20)));
    assert_eq!(bed.handshakes(), COUNT + 1);
    println!("server: {s}client: {c}");
    assert!(kib(&s, "epoll") <= 64 && kib(&s, "listen") <= 512 && kib(&c, "failed") <= 512, "{s}{c}");
    let before = kib(&s, "epoll") + kib(&s, "listen");
    assert!(before + kib(&s, "first") <= 2048 && kib(&c, "failed") + kib(&c, "first") <= 2048, "{s}{c}");
    assert!(kib(&s, "used") <= 40 && kib(&c, "used") <= 40, "{s}{c}");
}

/// Where little may be mapped, or locked, the program has what it has without the library.
#[test]
fn what_a_program_may_map_or_lock_is_its_own() {
    // (Root may lock what it likes, but for this.)
    let unprivileged = if sys::euid() == 0 {
        " && set -- setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\""
    } else {
        ""
    };
    let locked = format!("ulimit -l 8192{unprivileged}");
    for (first, name) in [("ulimit -v 14000", "BAR_ALL"), (&locked, "BAR_LOCKED")] {
        // (Of what may be locked less than the first segment takes may be left.)
        for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted().contains(m)) {
            let bed = Bed::new("hungry", mode);
            let (numbers, before) = ([u64::from(free_port()), 20], bed.handshakes());
            let run = |command: Command, end: &str| {
                let mut command = after(&load(command, &["space", end], &numbers), first);
                command.env(name, "1").env("BAR_HUNGRY", "100");
                command
            };
            let s = server(&bed, &mut run(bed.server(PROGRAM), "server"), numbers[0], "server");
            let c = bed.run(&mut run(bed.client(PROGRAM), "client"), "client", LIMIT);
            println!("{first} {mode:?}: {}", good(&bed, first, c));
            good(&bed, first, s.finish(Duration::from_secs(20)));
            let is_shared = bed.handshakes() > before;
            assert!(is_shared == (mode == Mode::Smc) || first == locked, "{first}");
        }
    }
}

/// What a flood of connections took goes back but for a few slots' pages.
#[test]
fn pages_of_slots_that_nobody_uses_go_back() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    let bed = Bed::new("ebb", Mode::Smc);
    let port = u64::from(free_port());
    let s = server(&bed, &mut load(bed.server(PROGRAM), &["ebb", "server"], &[port]), port, "server");
    let c = bed.run(&mut load(bed.client(PROGRAM), &["ebb", "client"], &[port, 60]), "client", LIMIT);
    let line = good(&bed, "client", c);
    drop(s);
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [flood, ebb] = numbers[..] else { panic!("{line}") };
    assert!(flood > 60 * 300 && ebb < flood / 2, "{line}");
}

/// Who is limited for good to a number of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limited {
    Server,
    Client,
    Both,
}

/// Connections that a client and a server of one loop reach, and how many of them were shared.
fn most(mode: Mode, who: Limited, limit: u64) -> (u64, u64) {
    let bed = Bed::new("most", mode);
    let port = u64::from(free_port());
    let of = |is_limited: bool| if is_limited { limit } else { 0 };
    let s = serve(&bed, &["most", "server"], &[port, of(who != Limited::Client)], "server");
    let words = &["most", "client"];
    let c =
        bed.run(&mut load(bed.client(PROGRAM), words, &[port, of(who != Limited::Server)]), "client", LIMIT);
    let line = good(&bed, "client", c);
    good(&bed, "server", s.finish(Duration::from_secs(20)));
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

/// At its limit a program has all the numbers that it would have without the library: what was shared goes
/// back to TCP, and on, for all bytes arrive.
#[test]
fn a_limit_of_descriptors_is_the_programs() {
    if !Mode::wanted().contains(&Mode::Smc) {
        return;
    }
    for limit in [32, 64, 256, 1024, 4096].into_iter().filter(|limit| 2 * limit <= sys::most_fds()) {
        for who in [Limited::Server, Limited::Client, Limited::Both] {
            let (plain, (reached, shared)) = (most(Mode::Plain, who, limit).0, most(Mode::Smc, who, limit));
            assert_eq!(reached, plain, "{who:?} limited to {limit}");
            assert_eq!(shared > 0, limit > 128, "{who:?} limited to {limit}: {shared} were shared");
        }
    }
}

#[test]
fn a_program_may_lock_all_its_memory() {
    if sys::lock_memory_limit() < 128 << 20 {
        println!("this user may not lock so much");
        return;
    }
    for mode in [Mode::Plain, Mode::Smc].into_iter().filter(|m| Mode::wanted().contains(m)) {
        let bed = Bed::new("locked", mode);
        let shared = fill(&bed, 20, "true", &[("BAR_LOCKED", "1")]);
        assert_eq!(shared, if mode == Mode::Smc { 20 } else { 0 });
    }
}
