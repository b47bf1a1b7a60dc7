//! A conversation with the kernel over netlink(7), whatever it is about: a request, then its answers.

use std::fmt::Debug;
use std::io::ErrorKind;

use anyhow::{Context, bail};
use netlink_packet_core::{
    NLM_F_REQUEST, NetlinkDeserializable, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// Of one protocol of netlink, in the network namespace that the calling thread is in when it begins.
pub(super) struct Netlink(Socket);

impl Netlink {
    pub(super) fn open(protocol: isize) -> anyhow::Result<Self> {
        let mut socket = Socket::new(protocol).context("cannot talk to the kernel over netlink")?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Sends `request` and returns all answers, which end with one that says so, or with an acknowledgement.
    pub(super) fn ask<M>(&mut self, request: M, flags: u16) -> anyhow::Result<Vec<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Debug,
        NetlinkPayload<M>: From<M>,
    {
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut all = vec![];
        while !read(&self.datagram()?, &mut all)? {}
        Ok(all)
    }

    fn datagram(&self) -> anyhow::Result<Vec<u8>> {
        loop {
            match self.0.recv_from_full() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => return Ok(outcome.context("the kernel does not answer over netlink")?.0),
            }
        }
    }
}

/// Adds the answers in a datagram to `all`; true after the last one.
fn read<M: NetlinkDeserializable + Debug>(mut bytes: &[u8], all: &mut Vec<M>) -> anyhow::Result<bool> {
    while !bytes.is_empty() {
        let answer = NetlinkMessage::<M>::deserialize(bytes)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => all.push(message),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io().into()),
            other => bail!("the kernel answered {other:?} over netlink"),
        }
        // Messages begin at multiples of four.
        let length = (answer.header.length as usize).next_multiple_of(4);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    Ok(false)
}
