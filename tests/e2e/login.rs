//! sshd, whose child before the login limits its descriptors to one and installs a filter that kills for
//! every call it does not know: login, exit status, copies and forwarded ports.

use crate::support::{LIMIT, content, listening, output, programs, python, same_in_all_modes, serve, sum};
use isthmus_tests::{Bed, Mode, free_port, sys, within};
use std::path::{Path, PathBuf};
use std::process::Command;

const BODY: usize = 400_000;

/// Where sshd, as root, changes its root before a login. The service makes it.
struct Empty(Option<&'static Path>);

impl Empty {
    fn new() -> Empty {
        let place = Path::new("/run/sshd");
        let is_needed = sys::euid() == 0 && !place.is_dir();
        Empty((is_needed && std::fs::create_dir(place).is_ok()).then_some(place))
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            let _ = std::fs::remove_dir(place);
        }
    }
}

/// Whether this process's user has a shell to log in to; says so if not.
fn has_shell() -> bool {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uid = sys::euid().to_string();
    let own = users.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    let has = own.and_then(|line| line.rsplit(':').next()).is_some_and(|shell| shell.ends_with("sh"));
    if !has {
        println!("skipped: user {uid} has no shell to log in to");
    }
    has
}

/// Keys and configurations; returns the server's and the client's file.
fn configure(bed: &Bed, keygen: &Path, port: u16) -> (PathBuf, PathBuf) {
    let dir = bed.scratch.path().display();
    for name in ["host", "id"] {
        let mut make = bed.plain(keygen);
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(bed.scratch.path().join(name));
        output(bed, &mut make, "ssh-keygen");
    }
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {dir}/host\nPidFile none\nAuthorizedKeysFile {dir}/id.pub\n\
         StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n\
         PrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\n"
    );
    let client = format!(
        "Host *\nHostname 127.0.0.1\nPort {port}\nIdentityFile {dir}/id\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\n"
    );
    (bed.scratch.file("sshd_config", server), bed.scratch.file("ssh_config", client))
}

fn client(bed: &Bed, program: &Path, conf: &Path) -> Command {
    let mut command = bed.client(program);
    command.arg("-F").arg(conf);
    command
}

fn fetched(bed: &Bed, curl: &Path, through: &[&str], url: &str) -> u64 {
    let to = bed.scratch.path().join("fetched");
    let mut command = bed.client(curl);
    command.args(["-sS", "--fail", "--max-time", "30"]).args(through).arg("-o").arg(&to).arg(url);
    output(bed, &mut command, "curl");
    sum(&std::fs::read(to).expect("fetched file"))
}

#[test]
fn sshd_login_copies_and_forwarded_ports() {
    let names = ["sshd", "ssh", "scp", "sftp", "ssh-keygen", "curl", "sh"];
    let (Some(found), Some(python)) = (programs(names), python()) else { return };
    let [sshd, ssh, scp, sftp, keygen, curl, sh] = found;
    if !has_shell() {
        return;
    }
    let _empty = Empty::new();
    same_in_all_modes("sshd", |bed| {
        let port = free_port();
        let (at_server, at_client) = configure(bed, &keygen, port);
        let _sshd = serve(bed, bed.server(&sshd).args(["-D", "-e", "-f"]).arg(&at_server), port);
        bed.mark();
        let mut results = vec![];
        for n in 0..3 {
            let line = format!("echo hello {n}; exit {n}");
            let done = bed.run(client(bed, &ssh, &at_client).args(["x", &line]), "ssh", LIMIT);
            results.push(format!("{:?} {}", done.status.and_then(|status| status.code()), done.out));
        }
        let sent = bed.scratch.file("sent", content(BODY));
        let copy = |name: &str| bed.scratch.path().join(name);
        let piped = format!(
            "{} -F {} x cat < {} > {}",
            ssh.display(),
            at_client.display(),
            sent.display(),
            copy("piped").display()
        );
        output(bed, bed.client(&sh).args(["-c", &piped]), "pipe");
        let remote = |name: &str| format!("x:{}", copy(name).display());
        output(bed, client(bed, &scp, &at_client).arg(&sent).arg(remote("up")), "scp up");
        output(bed, client(bed, &scp, &at_client).arg(remote("up")).arg(copy("down")), "scp down");
        let batch = format!("put {} {}\nls {0}\n", sent.display(), copy("put").display());
        let batch = bed
            .scratch
            .file("batch", batch + &format!("get {} {}\n", copy("put").display(), copy("got").display()));
        output(bed, client(bed, &sftp, &at_client).arg("-b").arg(&batch).arg("x"), "sftp");
        let mut sums: Vec<u64> = ["piped", "up", "down", "put", "got"]
            .map(|name| sum(&std::fs::read(copy(name)).expect(name)))
            .into();

        let (web, local, back, socks) = (free_port(), free_port(), free_port(), free_port());
        let mut server = bed.server(&python);
        server.args(["-m", "http.server", "--bind", "127.0.0.1", &web.to_string()]);
        let _web = serve(bed, &mut server, web);
        let mut forward = client(bed, &ssh, &at_client);
        forward.args(["-N", "-o", "ExitOnForwardFailure=yes"]);
        forward.args(["-L", &format!("127.0.0.1:{local}:127.0.0.1:{web}")]);
        forward.args(["-R", &format!("127.0.0.1:{back}:127.0.0.1:{web}")]);
        forward.args(["-D", &format!("127.0.0.1:{socks}"), "x"]);
        let forwarding = bed.start(&mut forward, "forward");
        let ports = [local, back, socks];
        let are_up = within(LIMIT, || ports.into_iter().all(listening));
        assert!(are_up, "{:?}: ports are not forwarded: {}", bed.mode, forwarding.output());
        for _ in 0..2 {
            let direct = |port: u16| format!("http://127.0.0.1:{port}/sent");
            sums.push(fetched(bed, &curl, &[], &direct(local)));
            sums.push(fetched(bed, &curl, &[], &direct(back)));
            sums.push(fetched(bed, &curl, &["--socks5", &format!("127.0.0.1:{socks}")], &direct(web)));
        }
        // (With one end enabled, what it forwards has another enabled end.)
        if bed.mode == Mode::Smc {
            bed.assert_carrier((sums.len() * BODY) as u64, "");
        }
        assert!(sums.iter().all(|s| *s == sum(&content(BODY))), "{:?}: copies differ: {sums:?}", bed.mode);
        results
    });
}
