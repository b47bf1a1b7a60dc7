//! Interfaces of the namespace that the calling thread is in, by rtnetlink(7): a bridge, veth pairs, addresses.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::super::netlink::Netlink;

/// A conversation with the kernel about one network namespace.
pub(super) struct Links(Netlink);

impl Links {
    /// For the namespace that the calling thread is in now.
    pub(super) fn open() -> anyhow::Result<Self> {
        Netlink::open(NETLINK_ROUTE).map(Self)
    }

    /// A new bridge. STP is off, so its ports forward at once.
    pub(super) fn bridge(&mut self, name: &str) -> anyhow::Result<()> {
        self.new_link(link(name, InfoKind::Bridge, None)).context("this kernel makes no bridge")
    }

    /// A cable from here (`name`) to the network namespace `to`, where its end is called `peer`.
    pub(super) fn veth(&mut self, name: &str, peer: &str, to: i32) -> anyhow::Result<()> {
        let mut end = LinkMessage::default();
        end.attributes = vec![LinkAttribute::IfName(peer.into()), LinkAttribute::NetNsFd(to)];
        let data = InfoData::Veth(InfoVeth::Peer(end));
        self.new_link(link(name, InfoKind::Veth, Some(data))).context("this kernel makes no veth pair")
    }

    /// Plugs `name` into `bridge`, and switches it on.
    pub(super) fn join(&mut self, name: &str, bridge: &str) -> anyhow::Result<()> {
        let mut message = existing(name)?;
        message.attributes.push(LinkAttribute::Controller(index(bridge)?));
        self.request(RouteNetlinkMessage::SetLink(message), 0)
            .context("cannot plug a cable into the bridge")?;
        self.up(name)
    }

    /// Switches `name` on.
    pub(super) fn up(&mut self, name: &str) -> anyhow::Result<()> {
        let mut message = existing(name)?;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(message), 0).context("cannot switch an interface on")
    }

    /// Gives `name` an address.
    pub(super) fn address(&mut self, name: &str, address: Ipv4Addr, prefix_bits: u8) -> anyhow::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix_bits;
        message.header.index = index(name)?;
        let address = IpAddr::V4(address);
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewAddress(message), flags).context("cannot give an address")
    }

    fn new_link(&mut self, message: LinkMessage) -> anyhow::Result<()> {
        self.request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    fn request(&mut self, request: RouteNetlinkMessage, flags: u16) -> anyhow::Result<()> {
        self.0.ask(request, NLM_F_ACK | flags).map(drop)
    }
}

fn link(name: &str, kind: InfoKind, data: Option<InfoData>) -> LinkMessage {
    let mut info = vec![LinkInfo::Kind(kind)];
    info.extend(data.map(LinkInfo::Data));
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(name.into()), LinkAttribute::LinkInfo(info)];
    message
}

fn existing(name: &str) -> anyhow::Result<LinkMessage> {
    let mut message = LinkMessage::default();
    message.header.index = index(name)?;
    Ok(message)
}

fn index(name: &str) -> anyhow::Result<u32> {
    nix::net::if_::if_nametoindex(name).with_context(|| format!("there is no interface {name}"))
}
