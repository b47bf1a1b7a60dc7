//! What a container gets: the specification that `ismd --print-cdi` has written, in the words of the kubelet.
//! Owns: that nothing is left out. What the specification says and the kubelet cannot be told is an error.

use crate::api::{CdiDevice, ContainerResponse, Mount};
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The variable with the daemon's socket.
const SOCKET: &str = "SMC_ISMD";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    kind: String,
    devices: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edits {
    env: Vec<String>,
    mounts: Vec<Bind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Bind {
    host_path: String,
    container_path: String,
    options: Vec<String>,
}

/// What every container gets, for any number of devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// What containers ask for.
    pub resource: String,
    /// The daemon's socket on the host.
    pub socket: PathBuf,
    /// Mounts and variables.
    pub in_full: ContainerResponse,
    /// The same by its name alone.
    pub by_name: ContainerResponse,
}

impl Allocation {
    /// Reads a specification. Errors: it is not there, or not one that `ismd` writes.
    pub fn read(path: &Path) -> anyhow::Result<Allocation> {
        let name = path.display();
        let hint = || format!("cannot read {name}: `ismd --print-cdi > {name}` writes it");
        let text = std::fs::read_to_string(path).with_context(hint)?;
        parse(&text).with_context(|| format!("{name} is not what `ismd --print-cdi` writes"))
    }
}

fn parse(text: &str) -> anyhow::Result<Allocation> {
    let mut spec: Spec = serde_json::from_str(text)?;
    let device = spec.devices.pop().context("no device")?;
    ensure!(spec.devices.is_empty(), "more than one device");
    let Edits { env, mounts } = device.container_edits;
    let assigned = |line: &String| line.split_once('=').map(|(name, value)| (name.into(), value.into()));
    let in_full = ContainerResponse {
        envs: env.iter().map(assigned).collect::<Option<_>>().context("a variable without a value")?,
        mounts: mounts.into_iter().map(told).collect(),
        cdi_devices: vec![],
    };
    let name = format!("{}={}", spec.kind, device.name);
    let by_name = ContainerResponse { cdi_devices: vec![CdiDevice { name }], ..Default::default() };
    let socket = socket(&in_full).context("no mount has the socket that SMC_ISMD names")?;
    Ok(Allocation { resource: spec.kind, socket, in_full, by_name })
}

/// (Of the options the kubelet takes one; an engine's own are nosuid, nodev, and exec.)
fn told(bind: Bind) -> Mount {
    Mount {
        container_path: bind.container_path,
        host_path: bind.host_path,
        read_only: bind.options.iter().any(|option| option == "ro"),
    }
}

/// Where a container's socket lies on the host.
fn socket(container: &ContainerResponse) -> Option<PathBuf> {
    let inside = Path::new(container.envs.get(SOCKET)?);
    container.mounts.iter().find_map(|mount| {
        let below = inside.strip_prefix(&mount.container_path).ok()?;
        Some(Path::new(&mount.host_path).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{"cdiVersion": "0.3.0", "kind": "a/b", "devices": [{"name": "c", "containerEdits": {
        "env": ["LD_PRELOAD=/l.so", "SMC_ISMD=/run/x/s"],
        "mounts": [{"hostPath": "/h", "containerPath": "/run/x", "options": ["bind", "ro"]}]}}]}"#;

    #[test]
    fn what_the_specification_says_is_what_a_container_gets() {
        let read = parse(SPEC).expect("a specification");
        assert_eq!((read.resource.as_str(), read.socket.as_path()), ("a/b", Path::new("/h/s")));
        assert_eq!(read.in_full.envs["LD_PRELOAD"], "/l.so");
        let mount = Mount { container_path: "/run/x".into(), host_path: "/h".into(), read_only: true };
        assert_eq!(read.in_full.mounts, [mount]);
        assert_eq!(read.by_name.cdi_devices, [CdiDevice { name: "a/b=c".into() }]);
    }

    #[test]
    fn what_a_kubelet_cannot_be_told_is_an_error() {
        let more = SPEC.replace("\"mounts\":", "\"hooks\": [], \"mounts\":");
        let without_socket = SPEC.replace("/run/x\",", "/run/y\",");
        for wrong in [more.as_str(), &without_socket, "", "{}"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
