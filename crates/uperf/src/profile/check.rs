//! What a profile says that could not be run: a read of no size, a write before there is a connection. Only what uperf
//! would fail at, too (with a failed assertion, or in the middle of the run), is refused.

use std::num::NonZeroU32;

use super::errors::Errors;
use super::model::{Flowop, FlowopKind, Group, Profile};
use super::options::Protocol;

/// Adds a sentence for everything that could not be run.
pub(super) fn check(profile: &Profile, errors: &mut Errors) {
    for group in &profile.groups {
        check_group(group, errors);
    }
}

/// Refuses what this program, or this kernel, cannot do: what is to be run is known to run before anything is.
pub(super) fn here(name: &str, profile: &Profile) -> Result<(), Errors> {
    let mut errors = Errors::none(name);
    let flowops = || profile.groups.iter().flat_map(|group| &group.transactions).flat_map(|one| &one.flowops);
    if flowops().next().is_none() {
        errors.add(None, "there is no <flowop> in this profile: nothing would be done");
    }
    for flowop in flowops().filter(|flowop| flowop.kind.opens()) {
        if flowop.options.protocol == Protocol::Udp {
            errors.add(flowop.place, "`protocol=udp` cannot be run here: use tcp or unix");
        }
        if let Some(cc) = &flowop.options.cc
            && let Err(error) = has_congestion_control(cc)
        {
            errors.add(flowop.place, format!("`cc={cc}` cannot be had from this kernel: {error}"));
        }
    }
    errors.or(())
}

fn has_congestion_control(name: &str) -> std::io::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_tcp_congestion(name.as_bytes())
}

fn check_group(group: &Group, errors: &mut Errors) {
    // Connections that were made at some time; when they end depends on how the run goes.
    let mut made: Vec<Option<NonZeroU32>> = Vec::new();
    for flowop in group.transactions.iter().flat_map(|transaction| &transaction.flowops) {
        if let Some(sentence) = missing_option(flowop) {
            errors.add(flowop.place, sentence);
        }
        if flowop.kind.opens() {
            made.push(flowop.options.conn);
        } else if let Some(sentence) = missing_connection(flowop, &made) {
            errors.add(flowop.place, sentence);
        }
    }
}

fn missing_option(flowop: &Flowop) -> Option<String> {
    let (kind, options) = (flowop.kind, &flowop.options);
    let wanted = match kind {
        FlowopKind::Read | FlowopKind::Write | FlowopKind::Send | FlowopKind::Recv => {
            options.size.is_none().then_some("size=, how many bytes, such as size=200")
        }
        FlowopKind::Connect | FlowopKind::Accept => {
            options.remotehost.is_none().then_some("remotehost=, where the slave is, such as remotehost=$h")
        }
        FlowopKind::Think => {
            options.duration.is_none().then_some("duration=, how long, such as duration=10ms")
        }
        FlowopKind::Sendfile | FlowopKind::Sendfilev => {
            options.dir.is_none().then_some("dir=, where the files are")
        }
        FlowopKind::Disconnect | FlowopKind::Nop => None,
    };
    wanted.map(|wanted| format!("{kind} needs {wanted}"))
}

/// A flowop that may fail does no harm if it does.
fn missing_connection(flowop: &Flowop, made: &[Option<NonZeroU32>]) -> Option<String> {
    let (kind, conn) = (flowop.kind, flowop.options.conn);
    if !kind.moves_bytes() || flowop.options.canfail || made.contains(&conn) {
        return None;
    }
    Some(match (conn, made.first()) {
        (Some(conn), _) => {
            format!("there is no connection {conn} for this {kind}: put a connect with conn={conn} before it")
        }
        (None, Some(Some(first))) => {
            format!("all connections before this {kind} have numbers: say which it is, such as conn={first}")
        }
        (None, _) => format!("there is no connection for this {kind}: put a connect or an accept before it"),
    })
}
