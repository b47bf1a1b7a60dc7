//! Programs that hand sockets to shells and children: socat, bash's /dev/tcp, and iperf3's threads.

use crate::support::{
    LIMIT, assert_shown, content, output, programs, python, same_in_all_modes, script, serve, sum, watch,
};
use isthmus_tests::free_port;

const BODY: usize = 400_000;

/// socat forks per connection and relays to a child.
#[test]
fn socat_fork() {
    let Some([socat, sh]) = programs(["socat", "sh"]) else { return };
    for child in ["PIPE", "EXEC:cat", "SYSTEM:cat"] {
        same_in_all_modes("socat", |bed| {
            let port = free_port();
            let mut s = bed.server(&socat);
            s.arg(format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork")).arg(child);
            let _server = serve(bed, &mut s, port);
            let sent = bed.scratch.file("sent", content(BODY));
            bed.mark();
            let sums: Vec<u64> = (0..2)
                .map(|n| {
                    let back = bed.scratch.path().join(format!("back{n}"));
                    // (What is written before the server looks goes over TCP: one byte, until it is back.)
                    let line = format!(
                        "{{ head -c 1 {sent}; until test -s {back}; do sleep 0.01; done; tail -c +2 {sent}; }} \
                         | {} -t 10 - TCP:127.0.0.1:{port} > {back}",
                        socat.display(),
                        sent = sent.display(),
                        back = back.display()
                    );
                    output(bed, bed.client(&sh).args(["-c", &line]), "client");
                    sum(&std::fs::read(back).expect("back"))
                })
                .collect();
            bed.assert_carrier(2 * 2 * BODY as u64, "");
            assert_eq!(sums[0], sum(&content(BODY)), "{:?} {child}: the echo differs", bed.mode);
            sums
        });
    }
}

fn bash_client(name: &str, text: &str, payload: Option<u64>) {
    let (Some([bash]), Some(python)) = (programs(["bash"]), python()) else { return };
    same_in_all_modes(name, |bed| {
        let port = free_port();
        let _server =
            serve(bed, bed.server(&python).arg(script("line_server.py")).arg(port.to_string()), port);
        bed.mark();
        let line = text.replace("PORT", &port.to_string());
        let out = bed.run(bed.client(&bash).args(["-c", &line]), "client", LIMIT).must(name).out;
        if let Some(payload) = payload {
            bed.assert_carrier(payload, "");
        }
        out
    });
}

/// bash reads and writes the connection by its own builtins, through stdio.
#[test]
fn bash_dev_tcp() {
    let text = "exec 3<>/dev/tcp/127.0.0.1/PORT; s=$(printf 'x%.0s' {1..2000}); for i in {1..40}; do echo $i $s >&3; \
                read -r a b c <&3; echo $a $b ${#c}; done; echo bye >&3; read -r l <&3; echo $l; \
                read -r l <&3 || echo end";
    bash_client("bash", text, Some(2 * 40 * 2000));
}

/// The usual idiom: a child reads the connection that bash wrote to.
#[test]
fn bash_dev_tcp_with_cat() {
    let text =
        "exec 3<>/dev/tcp/127.0.0.1/PORT; for i in {1..40}; do echo line $i >&3; done; echo bye >&3; cat <&3";
    bash_client("bash-cat", text, None);
}

/// A child writes to it before bash does.
#[test]
fn bash_dev_tcp_child_first() {
    let text = "exec 3<>/dev/tcp/127.0.0.1/PORT; /bin/echo from a child >&3; read -r l <&3; echo $l; echo bye >&3; cat <&3";
    bash_client("bash-child", text, None);
}

#[test]
fn iperf3_both_directions() {
    let Some([iperf]) = programs(["iperf3"]) else { return };
    same_in_all_modes("iperf3", |bed| {
        let port = free_port();
        let number = port.to_string();
        let _server = serve(bed, bed.server(&iperf).args(["-s", "-B", "127.0.0.1", "-p", &number]), port);
        // The end that stops counts bytes still under way, so less than asked for may cross.
        let runs: [(&[&str], u64); 4] = [
            (&["-n", "64M"], 48 << 20),
            (&["-n", "64M", "-R"], 48 << 20),
            (&["-n", "32M", "-P", "3"], 16 << 20),
            (&["-t", "1", "--bidir"], 1 << 20),
        ];
        runs.map(|(args, payload)| {
            bed.mark();
            let mut c = bed.client(&iperf);
            c.args(["-c", "127.0.0.1", "-p", &number, "-J"]).args(args);
            let (outcome, seen) = watch(bed, &mut c, "client");
            let text = outcome.must("iperf3").out;
            bed.assert_carrier(payload, &seen);
            // The others are over before anybody can look.
            if args[0] == "-t" {
                assert_shown(bed, &seen);
            }
            (text.contains("\"sum_received\""), text.contains("\"error\""))
        })
    });
}
