//! `ismd-device-plugin`: the command line. Owns: exit status 0 after SIGTERM or SIGINT, 1 if it cannot serve,
//! 2 for a faulty command line.
#![forbid(unsafe_code)]

use clap::{Parser, value_parser};
use device_plugin::allocation::Allocation;
use device_plugin::plugin::Plugin;
use device_plugin::{api, kubelet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing::info;

/// Tells the kubelet of this node which containers can take part in the host tier, and what they need.
#[derive(Parser, Debug)]
#[command(name = "ismd-device-plugin", version, about)]
struct Arguments {
    /// What a container gets, as `ismd --print-cdi` has written it
    #[arg(long, value_name = "FILE", default_value = "/etc/cdi/isthmus.json")]
    cdi: PathBuf,
    /// The folder with the kubelet's socket
    #[arg(long, value_name = "PATH", default_value = api::FOLDER)]
    folder: PathBuf,
    /// Containers of this node that can take part at one time: as many as a fabric has functions
    #[arg(long, value_name = "N", default_value_t = 255, value_parser = value_parser!(u16).range(1..=4096))]
    devices: u16,
    /// Name the device to the container engine instead of listing mounts and variables: it must read /etc/cdi
    #[arg(long)]
    by_name: bool,
    /// How much to log, on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: tracing::Level,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "ismd-device-plugin: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt().with_max_level(arguments.log_level).with_ansi(false);
    // (A line that cannot be written is lost: nobody is to die of it.)
    lines.with_writer(std::io::stderr).with_target(false).log_internal_errors(false).init();
    let allocation = Allocation::read(&arguments.cdi)?;
    info!(resource = allocation.resource, devices = arguments.devices, "serves");
    let plugin = Plugin::new(arguments.cdi.clone(), arguments.by_name, arguments.devices);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(kubelet::run(arguments.folder, arguments.cdi, plugin))
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
        assert!(Arguments::try_parse_from(["ismd-device-plugin", "--devices", "0"]).is_err());
    }
}
