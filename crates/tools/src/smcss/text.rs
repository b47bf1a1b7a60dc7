//! The table of smcss(8). Owns: headers, column formats, and after which column a row ends (smc-tools 1.8.5).

use super::address;
use super::options::Wanted;
use super::row::{Cursor, Details, Dmb, Link, Mode, Row, State};
use super::users::{self, User};

const PROGRAM: &str = "PID     Program         ";
const HEADER: &str =
    "State          UID   Inode   Local Address           Peer Address            Intf Mode ";
const HEADER_DETAILS: &str = "Shutd Token    Sndbuf   Rcvbuf   Peerbuf  rxprod-Cursor rxcons-Cursor rxFlags \
                              txprod-Cursor txcons-Cursor txFlags txprep-Cursor txsent-Cursor txfin-Cursor  ";
const HEADER_SMCR: &str =
    "Role IB-device       Port Linkid GID                                      Peer-GID";
const HEADER_REASONS: &str = "  Reason";
const HEADER_PROCESSES: &str = "  Process";
const HEADER_SMCD: &str = "GID              Token            Peer-GID         Peer-Token       Linkid";

/// Header and rows; `users` tells who has a socket.
pub(super) fn list(rows: &[Row], wanted: &Wanted, users: &dyn Fn(&Row) -> Vec<User>) -> String {
    let lines = rows.iter().map(|row| line(row, wanted) + &behind_row(row, wanted, users));
    std::iter::once(header(wanted)).chain(lines).map(|line| line + "\n").collect()
}

/// Our own columns come last: those of smc-tools stay where they are.
fn behind_row(row: &Row, wanted: &Wanted, users: &dyn Fn(&Row) -> Vec<User>) -> String {
    let mut text = String::new();
    if wanted.reasons
        && let Some(words) = row.reason_words()
    {
        text += &format!("  {words}");
    }
    if wanted.processes {
        text += &format!("  {}", users::text(&users(row)));
    }
    text
}

fn header(wanted: &Wanted) -> String {
    let pieces = [
        (wanted.program, PROGRAM),
        (true, HEADER),
        (wanted.details, HEADER_DETAILS),
        (wanted.smcr, HEADER_SMCR),
        (wanted.smcd, HEADER_SMCD),
        (wanted.reasons, HEADER_REASONS),
        (wanted.processes, HEADER_PROCESSES),
    ];
    pieces.iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, piece)| *piece).collect()
}

fn line(row: &Row, wanted: &Wanted) -> String {
    let mut line = String::new();
    if wanted.program {
        let (pid, name) =
            row.program.as_ref().map_or((0, "-"), |program| (program.pid, program.name.as_str()));
        line += &format!("{pid:<7} {name:<15} ");
    }
    line += &format!("{:<14} {:05} {:07} ", row.state.name(), row.uid, row.inode);
    if row.state == State::INIT {
        return line;
    }
    line += &format!("{:<1$} ", address::text(&row.local, wanted.wide), address::WIDTH);
    if row.state == State::LISTEN && !row.is_unannounced() {
        return line;
    }
    line += &format!("{:<1$} {2:04x} ", address::text(&row.peer, wanted.wide), address::WIDTH, row.interface);
    if row.state == State::CLOSED {
        return line;
    }
    match row.mode {
        Mode::Tcp { reason, peer: 0 } => return line + &format!("TCP {reason:#010x}"),
        Mode::Tcp { reason, peer } => return line + &format!("TCP {reason:#010x}/{peer:#010x}"),
        Mode::Smcd => line += "SMCD ",
        Mode::Smcr => line += "SMCR ",
    }
    line + &behind_mode(row, wanted)
}

fn behind_mode(row: &Row, wanted: &Wanted) -> String {
    let mut text = String::new();
    if wanted.details {
        let read = if row.shutdown & 1 != 0 { 'R' } else { '<' };
        let write = if row.shutdown & 2 != 0 { 'W' } else { '>' };
        text += &format!(" {read}-{write}  ");
        text += &row.details.as_ref().map(details).unwrap_or_default();
    }
    if wanted.smcr {
        text += &row.link.as_ref().map(link).unwrap_or_default();
    }
    if wanted.smcd {
        text += &row.dmb.as_ref().map(dmb).unwrap_or_default();
    }
    text
}

fn details(from: &Details) -> String {
    let cursor = |cursor: Cursor| format!("{:04x}:{:08x} ", cursor.wrap, cursor.count);
    let flags = |flags: [u8; 2]| format!("{:02x}:{:02x}   ", flags[0], flags[1]);
    let sizes = [from.token, from.sndbuf, from.rcvbuf, from.peerbuf].map(|word| format!("{word:08x} "));
    let rx = [cursor(from.rx_prod), cursor(from.rx_cons), flags(from.rx_flags)];
    let tx = [cursor(from.tx_prod), cursor(from.tx_cons), flags(from.tx_flags)];
    let sending = [from.tx_prep, from.tx_sent, from.tx_fin].map(cursor);
    sizes.concat() + &rx.concat() + &tx.concat() + &sending.concat()
}

fn link(from: &Link) -> String {
    let role = if from.is_server { "SERV" } else { "CLNT" };
    let Link { device, port, link_id, gid, peer_gid, .. } = from;
    format!("{role:>4} {device:<15} {port:02x}   {link_id:02x}     {gid:<40} {peer_gid}")
}

fn dmb(from: &Dmb) -> String {
    let words = [from.gid, from.token, from.peer_gid, from.peer_token].map(|word| format!("{word:016x} "));
    words.concat() + &format!("{:08x} ", from.link_id)
}

#[cfg(test)]
mod tests;
