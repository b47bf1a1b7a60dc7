//! smcss: lists SMC sockets, those of Isthmus, those that Isthmus left on TCP, and those of a kernel that has SMC. Owns: which rows a user wants to see.

mod address;
mod isthmus;
mod json;
mod kernel;
mod options;
mod plain;
pub(crate) mod row;
mod text;

use crate::host::Host;
use crate::{output, registry};
use options::{Action, Wanted};
use row::Row;
use std::ffi::OsString;

/// Runs the applet.
pub(crate) fn main(args: &[OsString]) -> u8 {
    match options::parse(args) {
        Ok(Action::Help) => output::print(options::USAGE),
        Ok(Action::Version) => output::print(&format!("smcss utility, {}\n", crate::VERSION)),
        Ok(Action::List(wanted)) => return list(&wanted),
        Err(message) => {
            output::complain(&message);
            output::complain(options::USAGE);
            return 1;
        }
    }
    0
}

fn list(wanted: &Wanted) -> u8 {
    // First the sockets, then the registries: see `host`. Of other modes than SMC-D and SMC-R only.
    let folder = registry::folder();
    let host = (!wanted.smcd && !wanted.smcr).then(|| Host::look(&folder));
    let (registries, mut complaints) = registry::all();
    let mut rows: Vec<Row> = registries.iter().flat_map(isthmus::rows).collect();
    if let Some(host) = &host {
        rows.extend(plain::rows(host, &registries, &folder, &rows));
        // Nothing failed, so it is no complaint, and only told to those who look into details.
        output::complain(&if wanted.details { plain::hidden(host, &registries) } else { String::new() });
    }
    match kernel::rows() {
        Ok(of_kernel) => rows.extend(of_kernel),
        Err(why) => complaints.push(why),
    }
    rows.retain(|row| wanted.takes(row));
    output::print(&if wanted.json { json::list(&rows) } else { text::list(&rows, wanted) });
    output::complain(&complaints.concat());
    u8::from(!complaints.is_empty())
}
