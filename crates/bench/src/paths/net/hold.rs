//! `smc_bench inner net`: makes the namespaces, connects them, says so, and holds them until standard input ends.
//!
//! One thread only: a user namespace can be entered by no other kind of process.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use nix::sched::CloneFlags;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::super::holder;
use super::links::Links;
use super::{ALIAS, CLIENT, Ends, SERVER};

/// Both ends' network.
const PREFIX_BITS: u8 = 24;
/// Name of either end's interface.
const INTERFACE: &str = "eth0";

/// How to make them.
#[derive(Args)]
pub(crate) struct Options {
    /// Use a user namespace even where it is not needed
    #[arg(long)]
    user: bool,
    /// Translate another address to the server's
    #[arg(long)]
    dnat: bool,
}

/// Makes, says, waits.
pub(crate) fn hold(options: &Options) -> anyhow::Result<()> {
    holder::hold(make(options), |held| Ends {
        user: held.user,
        client: held.client.as_raw_fd(),
        server: held.server.as_raw_fd(),
    })
}

/// All three namespaces: without the one of the bridge the cables would be gone, and their far ends with them.
struct Held {
    user: bool,
    _hub: File,
    client: File,
    server: File,
}

fn make(options: &Options) -> anyhow::Result<Held> {
    let user = unshare(options.user)?;
    let hub = own_network()?;
    let client = another_network()?;
    let server = another_network()?;
    enter(&hub)?;
    connect(&client, &server)?;
    for (end, address) in [(&client, CLIENT), (&server, SERVER)] {
        enter(end)?;
        let mut links = Links::open()?;
        links.address(INTERFACE, address.parse::<Ipv4Addr>()?, PREFIX_BITS)?;
        links.up(INTERFACE)?;
        reuse_ports();
    }
    if options.dnat {
        enter(&client)?;
        translate()?;
    }
    Ok(Held { user, _hub: hub, client, server })
}

/// Lets short connections have their ports again as a host does over loopback without being asked (tcp_tw_reuse is 2 there):
/// a second of them uses up all ports, and connect() would search (8 thousand connections a second instead of 25).
fn reuse_ports() {
    if let Err(error) = std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1") {
        uperf::say(format_args!(
            "tcp-veth cannot take its ports again ({error}): more than 14 000 short connections over it are too slow"
        ));
    }
}

/// In the namespace that we are in.
fn translate() -> anyhow::Result<()> {
    let rules = format!(
        "add table ip nat; add chain ip nat output {{ type nat hook output priority -100; }};
         add rule ip nat output ip daddr {ALIAS} dnat to {SERVER}"
    );
    let nft = Command::new("nft")
        .arg(rules)
        .stderr(Stdio::null())
        .status()
        .context("nft (nftables) is not here")?;
    if nft.success() { Ok(()) } else { bail!("this kernel translates no addresses") }
}

/// A bridge here, and from each namespace a cable to it.
fn connect(client: &File, server: &File) -> anyhow::Result<()> {
    let mut links = Links::open()?;
    links.bridge("bridge")?;
    for (port, end) in [("client", client), ("server", server)] {
        links.veth(port, INTERFACE, end.as_raw_fd())?;
        links.join(port, "bridge")?;
    }
    links.up("bridge")
}

/// A network namespace; where that takes privileges that we lack, in a user namespace of our own. True for the latter.
fn unshare(always_user: bool) -> anyhow::Result<bool> {
    if !always_user && nix::sched::unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return Ok(false);
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if let Err(error) = nix::sched::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET) {
        bail!("this host allows no network namespace, not even in a user namespace ({})", error.desc());
    }
    let map = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .context("this host allows user namespaces but no identities in them")
    };
    map("setgroups", "deny".into())?;
    map("uid_map", format!("{user} {user} 1"))?;
    map("gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

fn another_network() -> anyhow::Result<File> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNET).context("this host allows no further network namespace")?;
    own_network()
}

fn own_network() -> anyhow::Result<File> {
    File::open("/proc/self/ns/net").context("cannot open a network namespace in /proc")
}

fn enter(network: &File) -> anyhow::Result<()> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .context("cannot enter a network namespace of our own")
}
