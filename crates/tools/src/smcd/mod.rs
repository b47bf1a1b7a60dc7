//! smcd: what there is of SMC-D: capabilities, link groups, devices, statistics, EIDs. Owns: its exit codes.

mod abbreviation;
mod cache;
mod counts;
mod device;
mod eid;
mod info;
mod linkgroup;
mod stats;
mod syntax;

use crate::{output, registry};
use registry::Registry;
use std::ffi::OsString;
pub(crate) use syntax::TOOL;
use syntax::{Command, Request};

/// What `exit(-1)` of the original becomes.
const MINUS_ONE: u8 = 255;

/// Runs the applet.
pub(crate) fn main(args: &[OsString]) -> u8 {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match syntax::parse(&args) {
        Ok(request) => answer(&request),
        Err(refusal) => {
            output::complain(&refusal.text);
            refusal.code
        }
    }
}

fn answer(request: &Request) -> u8 {
    if let Some(refusal) = eid::refusal(&request.command) {
        output::complain(refusal);
        return MINUS_ONE;
    }
    if let Command::Enable(uid, is_enabled) = request.command {
        return match device::enable(uid, is_enabled) {
            Ok(()) => 0,
            Err(why) => {
                output::complain(&why);
                1
            }
        };
    }
    let (registries, complaints) = registry::all();
    if !complaints.is_empty() {
        output::complain(&complaints.concat());
        return 1;
    }
    if let Command::Stats(action) = request.command {
        let (text, is_done) = stats::text(&registries, action, request);
        output::print(&text);
        output::complain(&missing(&registry::folder()));
        return if is_done { 0 } else { MINUS_ONE };
    }
    if let Command::Devices = request.command {
        let told = device::ask();
        output::print(&device::text(&linkgroup::read(&registries), &told.functions));
        output::complain(&told.note);
        return u8::from(told.is_missing);
    }
    output::print(&text(request, &registries));
    0
}

/// Programs that can have no registry count nowhere: a sentence about that for this user.
fn missing(folder: &std::path::Path) -> String {
    let note = |why: wire::Reason| {
        format!("Note: programs of this user cannot use {}: {why}, {}\n", folder.display(), why.text())
    };
    registry::fault(folder, os::process::euid()).map_or_else(String::new, note)
}

fn text(request: &Request, registries: &[Registry]) -> String {
    match &request.command {
        Command::Info => info::text(&info::hostname(), &info::Memory::now(registries)),
        Command::LinkGroups(id) => linkgroup::text(&linkgroup::read(registries), *id, request.details),
        Command::ShowUeid => eid::ueid_text(),
        Command::ShowSeid => eid::seid_text(),
        // Refused, or done, before.
        Command::Devices | Command::Stats(_) | Command::Enable(..) => String::new(),
        Command::ChangeUeid | Command::ChangeSeid => String::new(),
    }
}
