//! smcss: lists SMC sockets, those of Isthmus, those that Isthmus left on TCP, and those of a kernel that has
//! SMC. Owns: which rows a user wants to see.

mod address;
mod isthmus;
mod json;
mod kernel;
mod options;
mod plain;
pub(crate) mod row;
mod text;
mod users;

use crate::host::Host;
use crate::{far, output, registry};
pub(crate) use options::TOOL;
use options::{Action, Wanted};
use row::Row;
use std::ffi::OsString;

/// Runs the applet.
pub(crate) fn main(args: &[OsString]) -> u8 {
    match options::parse(args) {
        Ok(Action::Help) => output::print(&options::usage()),
        Ok(Action::Version) => output::print(&format!("smcss utility, {}\n", crate::VERSION)),
        Ok(Action::List(wanted)) => return list(&wanted),
        Err(message) => {
            output::complain(&message);
            output::complain(&options::usage());
            return 1;
        }
    }
    0
}

fn list(wanted: &Wanted) -> u8 {
    // First the sockets, then the registries: see `host`.
    let folder = registry::folder();
    let is_plain_wanted = !wanted.smcd && !wanted.smcr;
    let host = Host::look(&folder);
    let (registries, mut complaints) = registry::all();
    let far = far::connections(&host);
    let mut rows: Vec<Row> = registries.iter().flat_map(isthmus::rows).collect();
    rows.extend(isthmus::far_rows(&far));
    if is_plain_wanted {
        rows.extend(plain::rows(&host, (&registries, &far), &folder, &rows));
        // Nothing failed, so it is no complaint, and only told to those who look into details.
        output::complain(&if wanted.details { plain::hidden(&host, &registries) } else { String::new() });
    }
    match kernel::rows() {
        Ok(of_kernel) => rows.extend(of_kernel),
        Err(why) => complaints.push(why),
    }
    rows.retain(|row| wanted.takes(row));
    let users = |row: &Row| users::of(row, Some(&host));
    output::print(&match wanted.json {
        true => json::list(&rows, wanted, &users),
        false => text::list(&rows, wanted, &users),
    });
    output::complain(&complaints.concat());
    u8::from(!complaints.is_empty())
}
