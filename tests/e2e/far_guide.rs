//! `docs/containers.md`, followed by a script: what it says of runc word for word, in its order. Owns: that a
//! platform engineer who copies it gets two containers that exchange by memory, behind DNAT, with a read-only
//! root, no new privileges, another user than root and few processes.
//!
//! What the script adds is an image (a Python, out of this host's), and where things are.

use crate::containers::{Groups, Image, blocks, cgroup};
use crate::far::{Field, does, must};
use crate::support::{LIMIT, programs};
use isthmus_tests::{Running, within};
use std::path::Path;
use std::process::Command;

/// Who says it twice begins anew.
const AGAIN: &str = "container server $SERVER\n";
/// What the guide says of connections that the daemon does not know of, as root of the host.
const INSIDE: &str =
    "SMC_REGISTRY_DIR=/proc/$(runc state shop-server | jq .pid)/root/dev/shm \"$SMCSS\" -ar 2>&1";

/// The containers; they end with the value.
struct Shop<'a>(&'a Image);

impl Drop for Shop<'_> {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.root.join("stop"), "");
        does("runc delete --force shop-server; runc delete --force shop-client");
    }
}

#[test]
fn the_guide_to_containers_is_followed_word_for_word() {
    let policy = "[[project]]\nname = \"shop\"\ncgroup = \"/isthmus-far*/*\"\n";
    let Some(field) = Field::new("far-guide", policy) else { return };
    if programs(["runc", "jq"]).is_none() {
        return;
    }
    let checked = field.scratch.file("checked.toml", blocks("toml"));
    let ismd = field.dist.tool("ismd");
    must(&format!("{} --check {}", ismd.display(), checked.display()));
    let cgroup = cgroup(&field);
    let _groups = Groups(cgroup.clone());
    let image = Image::with_glibc(field.at("image"));
    let _shop = Shop(&image);
    let netns = field.scratch.dir("netns");
    for (name, namespace) in ["server", "client"].iter().zip(&field.namespaces) {
        std::os::unix::fs::symlink(Path::new("/run/netns").join(namespace), netns.join(name))
            .expect("a link");
    }
    // (Where this daemon's socket is.)
    let asks = format!("#!/bin/sh\nexec {} --socket {} \"$@\"\n", ismd.display(), field.socket().display());
    let shim = field.scratch.dir("shim");
    std::fs::write(shim.join("ismd"), asks).expect("written");
    must(&format!("chmod +x {}/ismd", shim.display()));
    let bin = ismd.parent().expect("a folder").display().to_string();
    let path = format!("{}:{bin}:{}", shim.display(), std::env::var("PATH").unwrap_or_default());
    let ends = "env SMC_ISMD_PATIENCE=20000 python3 /ends.py";
    let mut command = Command::new("sh");
    command.arg("-euc").arg(blocks("sh") + AGAIN + "echo shown\nwait\n").current_dir(field.scratch.path());
    command.env("PATH", path).env("IMAGE", &image.root).env("CGROUP", &cgroup).env("NETNS", &netns);
    command.env("SERVER", format!("{ends} answering 10.5.0.1 7000 2 n"));
    command.env("CLIENT", format!("{ends} talking 10.5.0.1 9000 2 n /stop"));
    command.env_remove("LD_PRELOAD").env_remove("SMC_REGISTRY_DIR");
    let mut guide = Running::start(&mut command, field.scratch.path(), "guide");
    let said = |name: &str| std::fs::read_to_string(field.at(name)).unwrap_or_default();
    let all = |guide: &Running| format!("{}{}{}", guide.output(), said("server.said"), said("client.said"));
    assert!(within(LIMIT, || !guide.alive() || guide.output().out.contains("shown")), "{}", all(&guide));
    let rows = || {
        let text = Command::new(field.dist.tool("smcss")).arg("-a").env_remove("SMC_REGISTRY_DIR").output();
        let text = String::from_utf8_lossy(&text.expect("smcss").stdout).into_owned();
        let of_theirs = text.lines().filter(|line| line.contains(" 01000 ") && line.contains(" SMCD"));
        let ports = [":7000", ":9000"];
        ports.map(|port| of_theirs.clone().filter(|line| line.contains(port)).count())
    };
    assert!(within(LIMIT, || rows() == [2, 2]), "{:?}: {}", rows(), all(&guide));
    let inside = Command::new("sh").args(["-c", INSIDE]).env("SMCSS", field.dist.tool("smcss")).output();
    let inside = String::from_utf8_lossy(&inside.expect("a shell").stdout).into_owned();
    assert!(
        inside.lines().any(|line| line.starts_with("LISTEN") && line.contains("10.5.0.1:7000")),
        "{inside}"
    );
    std::fs::write(image.root.join("stop"), "").expect("a file");
    assert!(guide.finish(LIMIT).ok(), "{}{}", said("server.said"), said("client.said"));
    for name in ["server.said", "client.said"] {
        assert!(said(name).contains("memory 2 tcp 0 wrong 0"), "{name}: {}", said(name));
    }
}
