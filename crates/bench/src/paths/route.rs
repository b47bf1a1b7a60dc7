//! What a path needs to be set up: where its ends run, what the profile is told, how its connections are counted.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

use crate::install::Install;

use super::launch::Place;
use super::net::{self, Net};
use super::sockets::Counted;
use super::sockmap::Sockmap;
use super::tier::Tier;

/// Where ends on one network meet.
const LOOPBACK: &str = "127.0.0.1";
/// AF_SMC of <linux/socket.h>.
const AF_SMC: u16 = 43;

/// How the connections of a path are counted, once the control port is known.
type Counting = fn(u16) -> Counted;

/// A path that is ready to be used.
#[derive(Clone)]
pub(super) struct Route {
    /// The profile's $h.
    pub(super) host: &'static str,
    /// The profile's $proto.
    pub(super) protocol: &'static str,
    /// Where the slave runs.
    pub(super) server: Place,
    /// Where the master runs.
    pub(super) client: Place,
    /// Which connections are the data's.
    pub(super) counting: Counting,
    /// Whether smcss has a say.
    pub(super) asks_smcss: bool,
    /// How many connections of a run that are not the data's smcd counts; None where it counts nothing.
    pub(super) control: Option<u32>,
    /// What must live as long as the route.
    _held: Option<Rc<dyn Any>>,
}

impl Route {
    /// TCP over loopback.
    pub(super) fn loopback() -> Self {
        Self {
            host: LOOPBACK,
            protocol: "tcp",
            server: Place::default(),
            client: Place::default(),
            counting: Counted::TcpExcept,
            asks_smcss: false,
            control: None,
            _held: None,
        }
    }

    /// AF_UNIX streams; the control connection is TCP over loopback.
    pub(super) fn unix() -> Self {
        Self { protocol: "unix", counting: |_| Counted::Unix, ..Self::loopback() }
    }

    /// TCP programs under our smc_run.
    pub(super) fn smc(install: &Install) -> anyhow::Result<Self> {
        let place = Place::with_smc(install)?;
        let (server, client, control) = (place.clone(), place, Some(1));
        Ok(Self { server, client, asks_smcss: true, control, ..Self::loopback() })
    }

    /// The same with the client alone under smc_run. smcss knows nothing of connections to a plain peer, and smcd counts
    /// none: what it counts all the same had no plain peer.
    pub(super) fn smc_client(install: &Install) -> anyhow::Result<Self> {
        Ok(Self { client: Place::with_smc(install)?, control: Some(0), ..Self::loopback() })
    }

    /// TCP between two namespaces.
    pub(super) fn veth(is_translated: bool) -> anyhow::Result<Self> {
        let net = Net::new(is_translated)?;
        let at = |namespaces| Place { namespaces: Some(namespaces), ..Place::default() };
        Ok(Self {
            host: if is_translated { net::ALIAS } else { net::SERVER },
            server: at(net.server()),
            client: at(net.client()),
            _held: Some(Rc::new(net)),
            ..Self::loopback()
        })
    }

    /// TCP programs under our smc_run in two namespaces, and a daemon of the host tier. (The control connection is
    /// shared as well.)
    pub(super) fn veth_smc(install: &Install, is_translated: bool) -> anyhow::Result<Self> {
        let ismd = install.ismd.as_deref().context("ismd is not here: `cargo xtask dist` makes it")?;
        let (plain, smc) = (Self::veth(is_translated)?, Place::with_smc(install)?);
        let (holder, tier) = Tier::start(ismd)?;
        let environment = BTreeMap::from([("SMC_ISMD".into(), tier.socket.to_string_lossy().into_owned())]);
        let at = |end: Place| {
            let (cgroup, environment) = (Some(tier.cgroup.clone()), environment.clone());
            Place { namespaces: end.namespaces, cgroup, environment, ..smc.clone() }
        };
        let held: Option<Rc<dyn Any>> = Some(Rc::new((plain._held.clone(), holder)));
        let (server, client) = (at(plain.server.clone()), at(plain.client.clone()));
        Ok(Self { server, client, asks_smcss: true, control: Some(1), _held: held, ..plain })
    }

    /// TCP over loopback, redirected.
    pub(super) fn sockmap() -> anyhow::Result<Self> {
        let sockmap = Sockmap::new()?;
        let place = Place { cgroup: Some(sockmap.cgroup.clone()), ..Place::default() };
        let held: Option<Rc<dyn Any>> = Some(Rc::new(sockmap));
        Ok(Self { server: place.clone(), client: place, _held: held, ..Self::loopback() })
    }

    /// TCP programs under the smc_run of smc-tools, on a kernel with SMC.
    pub(super) fn af_smc() -> anyhow::Result<Self> {
        probe_af_smc()?;
        let smc_run = foreign_smc_run().context(
            "this kernel has SMC, but the smc_run of smc-tools is not on the PATH (Debian package smc-tools)",
        )?;
        let place = Place { wrapper: vec![smc_run.into()], ..Place::default() };
        let counting: Counting = Counted::SmcExcept;
        Ok(Self { server: place.clone(), client: place, counting, asks_smcss: true, ..Self::loopback() })
    }
}

/// The kernel loads the module for it, if it has one.
fn probe_af_smc() -> anyhow::Result<()> {
    match rustix::net::socket(AddressFamily::from_raw(AF_SMC), SocketType::STREAM, None) {
        Ok(_) => Ok(()),
        Err(Errno::AFNOSUPPORT) => bail!("this kernel has no SMC (CONFIG_SMC)"),
        Err(error) => bail!("this kernel opens no SMC socket: {error}"),
    }
}

/// On the PATH, and not ours: it says so with -v.
fn foreign_smc_run() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("smc_run")).filter(|file| file.is_file()).find(
        |file| {
            let said = Command::new(file).arg("-v").stdin(Stdio::null()).stderr(Stdio::null()).output();
            said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("smc-tools"))
        },
    )
}
