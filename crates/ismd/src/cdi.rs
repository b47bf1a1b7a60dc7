//! What a container needs of the host, as a specification of the Container Device Interface, which engines
//! read: the folder with the daemon's socket, the library, and two variables. Owns: that it is complete, and
//! that nothing else of the host is mounted. (cncf-tags/container-device-interface, SPEC.md)
//!
//! The folder is mounted and not the socket, so that a daemon that was started anew is found. Everything is
//! read-only, and needs no privilege in the container.

use crate::policy::Daemon;
use anyhow::{Context, bail, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The oldest version that knows all that is said.
const VERSION: &str = "0.3.0";
const KIND: &str = "isthmus/smc";
const DEVICE: &str = "host";
/// Where the socket's folder and the library are in the container.
const SOCKETS: &str = "/run/isthmus";
const LIBRARY: &str = "/opt/isthmus/libsmc-preload.so";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: &'static str,
    container_edits: Edits,
}

#[derive(Serialize)]
struct Edits {
    env: Vec<String>,
    mounts: Vec<Mount>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: String,
    container_path: &'static str,
    options: [&'static str; 5],
}

/// What containers would reach that is not for them.
pub(crate) fn fault(daemon: &Daemon) -> Option<String> {
    let folder = daemon.socket.parent()?;
    let metrics = daemon.metrics.as_ref().filter(|metrics| metrics.starts_with(folder))?;
    let [folder, metrics] = [folder, metrics].map(Path::display);
    Some(format!("containers get {folder}: scrapes are not to be answered there ({metrics})"))
}

/// The specification, for a daemon with its sockets and `library`, or the library that is installed beside
/// this program. Errors: no such library, a path that cannot be written down, or one by which containers
/// could scrape.
pub(crate) fn text(daemon: &Daemon, library: Option<&Path>) -> anyhow::Result<String> {
    let socket = &daemon.socket;
    let library = match library {
        Some(path) => path.to_path_buf(),
        None => beside_this_program()?,
    };
    let library = library.canonicalize().with_context(|| format!("no library {}", library.display()))?;
    let folder = socket.parent().context("the socket lies in no folder")?;
    let name = socket.file_name().and_then(|name| name.to_str()).context("the socket has no plain name")?;
    ensure!(folder.parent().is_some(), "the socket lies in /, which is not for containers");
    if let Some(fault) = fault(daemon) {
        bail!(fault);
    }
    let spec = Spec {
        cdi_version: VERSION,
        kind: KIND,
        devices: vec![Device {
            name: DEVICE,
            container_edits: Edits {
                env: vec![format!("LD_PRELOAD={LIBRARY}"), format!("SMC_ISMD={SOCKETS}/{name}")],
                mounts: vec![
                    mount(folder, SOCKETS, "noexec")?,
                    // (Code is mapped out of it.)
                    mount(&library, LIBRARY, "exec")?,
                ],
            },
        }],
    };
    Ok(serde_json::to_string_pretty(&spec)? + "\n")
}

fn mount(from: &Path, to: &'static str, exec: &'static str) -> anyhow::Result<Mount> {
    let host_path = from.to_str().with_context(|| format!("{} is no text", from.display()))?.to_string();
    Ok(Mount { host_path, container_path: to, options: ["bind", "ro", "nosuid", "nodev", exec] })
}

fn beside_this_program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program lies")?;
    let root = own.parent().and_then(Path::parent).context("where this program lies")?;
    Ok(root.join("lib/libsmc-preload.so"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn daemon(socket: &str) -> Daemon {
        let metrics = Some("/run/x.private/m".into());
        Daemon { socket: socket.into(), metrics, clients: 1, pins: None, cgroup: None }
    }

    fn spec() -> Value {
        let own = std::env::current_exe().expect("this program");
        let text = text(&daemon("/run/x/s.sock"), Some(&own)).expect("written");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Whether an object has these keys and no others.
    fn has_only(value: &Value, keys: &[&str]) -> bool {
        let object = value.as_object().expect("an object");
        object.len() == keys.len() && keys.iter().all(|key| object.contains_key(*key))
    }

    fn is_name(text: &str, more: &str) -> bool {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    }

    /// As SPEC.md and the schema of version 0.3.0 have it.
    #[test]
    fn it_is_as_the_interface_wants_it() {
        let spec = spec();
        assert!(has_only(&spec, &["cdiVersion", "kind", "devices"]));
        let version = spec["cdiVersion"].as_str().expect("text");
        assert!(version.split('.').count() == 3 && version.split('.').all(|n| n.parse::<u8>().is_ok()));
        let (vendor, class) = spec["kind"].as_str().and_then(|kind| kind.split_once('/')).expect("a kind");
        assert!(is_name(vendor, "_-.") && is_name(class, "_-"));
        for device in spec["devices"].as_array().expect("devices") {
            assert!(has_only(device, &["name", "containerEdits"]));
            assert!(is_name(device["name"].as_str().expect("a name"), "_-.:"));
            let edits = &device["containerEdits"];
            assert!(has_only(edits, &["env", "mounts"]));
            for variable in edits["env"].as_array().expect("variables") {
                assert!(
                    variable
                        .as_str()
                        .and_then(|text| text.split_once('='))
                        .is_some_and(|(n, _)| !n.is_empty())
                );
            }
            for mount in edits["mounts"].as_array().expect("mounts") {
                assert!(has_only(mount, &["hostPath", "containerPath", "options"]));
                let is_absolute = |key: &str| mount[key].as_str().is_some_and(|path| path.starts_with('/'));
                assert!(is_absolute("hostPath") && is_absolute("containerPath"), "{mount}");
                assert!(mount["options"].as_array().is_some_and(|all| all.iter().all(Value::is_string)));
            }
        }
    }

    #[test]
    fn the_folder_of_the_socket_is_mounted_and_nothing_that_can_be_written() {
        let edits = &spec()["devices"][0]["containerEdits"];
        assert_eq!(edits["env"][1], "SMC_ISMD=/run/isthmus/s.sock");
        assert_eq!(edits["mounts"][0]["hostPath"], "/run/x");
        for mount in edits["mounts"].as_array().expect("mounts") {
            assert!(mount["options"].as_array().is_some_and(|all| all.contains(&"ro".into())));
        }
        assert!(text(&daemon("/s"), None).is_err(), "all of the host");
        assert!(text(&daemon("/run/x/s"), Some(Path::new("/nowhere/l.so"))).is_err());
        let own = std::env::current_exe().expect("this program");
        let faulty = text(&daemon("/run/x.private/s"), Some(&own)).expect_err("containers could scrape");
        assert!(faulty.to_string().contains("/run/x.private/m"), "{faulty}");
    }
}
