//! `smc_bench inner sockmap`: loads and attaches the programs, sees that they work, says so, and holds them until
//! standard input ends. The kernel detaches and frees them when their descriptors close.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, bail};
use aya::Ebpf;
use aya::maps::{PerCpuArray, SockHash};
use aya::programs::{CgroupAttachMode, SkMsg, SockOps};

use super::super::cgroup::Cgroup;
use super::super::holder;

// Of bpf/sockmap.bpf.c.
const SOCKETS: &str = "sockets";
const REDIRECTED: &str = "redirected";
const REMEMBER: &str = "remember";
const REDIRECT: &str = "redirect";

#[cfg(have_sockmap)]
const OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sockmap.bpf.o")));
#[cfg(not(have_sockmap))]
const OBJECT: Option<&[u8]> = None;

/// Loads, says, waits.
pub(crate) fn hold() -> anyhow::Result<()> {
    holder::hold(Held::new(), |held| held.cgroup.folder.clone())
}

/// Programs first: without them the rest of the processes in the cgroup talk TCP.
struct Held {
    programs: Ebpf,
    cgroup: Cgroup,
}

impl Held {
    fn new() -> anyhow::Result<Self> {
        let object = OBJECT.context("smc_bench was built where there was no clang")?;
        let cgroup = Cgroup::new()?;
        let programs = Ebpf::load(object).context("this host lets us load no BPF programs: run as root")?;
        let mut held = Self { programs, cgroup };
        held.attach()?;
        held.cgroup.inside(talk)?;
        let Some(1..) = held.redirected()? else {
            bail!("this kernel loads the BPF programs but redirects nothing")
        };
        Ok(held)
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        let sockets: SockHash<_, [u8; 16]> =
            self.programs.map(SOCKETS).context("no map of sockets")?.try_into()?;
        let sockets = sockets.fd().try_clone()?;
        let redirect: &mut SkMsg = self.programs.program_mut(REDIRECT).context("no program")?.try_into()?;
        redirect.load().context("this kernel refuses to redirect messages")?;
        redirect.attach(&sockets).context("this kernel refuses to watch a map of sockets")?;
        let remember: &mut SockOps = self.programs.program_mut(REMEMBER).context("no program")?.try_into()?;
        remember.load().context("this kernel refuses to watch connections")?;
        let folder = File::open(&self.cgroup.folder).context("cannot open the cgroup")?;
        remember
            .attach(folder, CgroupAttachMode::default())
            .context("this kernel refuses to watch a cgroup")?;
        Ok(())
    }

    /// Messages so far.
    fn redirected(&self) -> anyhow::Result<Option<u64>> {
        let counter: PerCpuArray<_, u64> = self.programs.map(REDIRECTED).context("no counter")?.try_into()?;
        Ok(Some(counter.get(&0, 0)?.iter().sum()))
    }
}

/// One byte there and one back, so that both ends are known before the second.
fn talk() -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free at 127.0.0.1")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let mut byte = [7];
    client.write_all(&byte)?;
    server.read_exact(&mut byte)?;
    server.write_all(&byte)?;
    client.read_exact(&mut byte).context("a byte that was redirected did not come")
}
