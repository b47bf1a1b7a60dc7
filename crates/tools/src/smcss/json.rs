//! smcss --json: an array with one object per socket. Owns: its keys.

use super::options::Wanted;
use super::row::{Address, Cursor, Details, Dmb, Link, Mode, Row, State, reason_text};
use super::users::User;
use crate::json::Object;
use wire::Reason;

/// All rows, one per line; `users` tells who has a socket.
pub(super) fn list(rows: &[Row], wanted: &Wanted, users: &dyn Fn(&Row) -> Vec<User>) -> String {
    let with_users = |row: &Row| match wanted.processes {
        true => object(row).value("users", list_of(&users(row))),
        false => object(row),
    };
    let lines: Vec<String> = rows.iter().map(|row| format!("  {}", with_users(row))).collect();
    match lines.is_empty() {
        true => "[]\n".to_string(),
        false => format!("[\n{}\n]\n", lines.join(",\n")),
    }
}

fn list_of(users: &[User]) -> String {
    let user = |user: &User| {
        let object = Object::default().text("program", &user.name).value("pid", user.pid);
        match user.fd {
            Some(fd) => object.value("fd", fd).to_string(),
            None => object.to_string(),
        }
    };
    format!("[{}]", users.iter().map(user).collect::<Vec<_>>().join(", "))
}

fn object(row: &Row) -> Object {
    let object = Object::default()
        .text("source", if row.is_kernels { "kernel" } else { "isthmus" })
        .text("state", &row.state.name())
        .value("uid", row.uid)
        .value("inode", row.inode)
        .object("local", Some(address(&row.local)));
    let object = match row.state {
        State::LISTEN if row.is_unannounced() => mode(object, row),
        State::LISTEN => object,
        _ => mode(object.object("peer", Some(address(&row.peer))).value("interface", row.interface), row),
    };
    match &row.program {
        Some(program) => object.value("pid", program.pid).text("program", &program.name),
        None => object,
    }
}

fn address(from: &Address) -> Object {
    Object::default().text("address", &from.ip.to_string()).value("port", from.port)
}

fn mode(object: Object, row: &Row) -> Object {
    if row.state == State::INIT {
        return object;
    }
    match row.mode {
        Mode::Tcp { reason, peer } => fallback(object.text("mode", "TCP"), reason, peer),
        Mode::Smcd => behind_mode(object.text("mode", "SMCD"), row),
        Mode::Smcr => behind_mode(object.text("mode", "SMCR"), row),
    }
}

fn fallback(object: Object, reason: u32, peer: u32) -> Object {
    let object = object.text("reason", &Reason(reason).to_string()).text("reason_text", reason_text(reason));
    match peer {
        0 => object,
        _ => {
            object.text("peer_reason", &Reason(peer).to_string()).text("peer_reason_text", reason_text(peer))
        }
    }
}

fn behind_mode(object: Object, row: &Row) -> Object {
    object
        .value("shutdown_read", row.shutdown & 1 != 0)
        .value("shutdown_write", row.shutdown & 2 != 0)
        .object("details", row.details.as_ref().map(details))
        .object("dmb", row.dmb.as_ref().map(dmb))
        .object("link", row.link.as_ref().map(link))
}

fn details(from: &Details) -> Object {
    let cursors = [
        ("rx_prod", from.rx_prod),
        ("rx_cons", from.rx_cons),
        ("tx_prod", from.tx_prod),
        ("tx_cons", from.tx_cons),
        ("tx_prep", from.tx_prep),
        ("tx_sent", from.tx_sent),
        ("tx_fin", from.tx_fin),
    ];
    let object = Object::default()
        .value("token", from.token)
        .value("sndbuf", from.sndbuf)
        .value("rcvbuf", from.rcvbuf)
        .value("peerbuf", from.peerbuf)
        .value("rx_flags", format!("[{}, {}]", from.rx_flags[0], from.rx_flags[1]))
        .value("tx_flags", format!("[{}, {}]", from.tx_flags[0], from.tx_flags[1]));
    cursors.iter().fold(object, |object, (name, at)| object.object(name, Some(cursor(*at))))
}

fn cursor(at: Cursor) -> Object {
    Object::default().value("wrap", at.wrap).value("count", at.count)
}

/// GIDs and tokens do not fit the numbers of every JSON reader, so they are texts.
fn dmb(from: &Dmb) -> Object {
    Object::default()
        .text("gid", &format!("{:016x}", from.gid))
        .text("token", &format!("{:016x}", from.token))
        .text("peer_gid", &format!("{:016x}", from.peer_gid))
        .text("peer_token", &format!("{:016x}", from.peer_token))
        .text("link_group", &format!("{:08x}", from.link_id))
}

fn link(from: &Link) -> Object {
    Object::default()
        .text("role", if from.is_server { "SERV" } else { "CLNT" })
        .text("device", &from.device)
        .value("port", from.port)
        .value("link_id", from.link_id)
        .text("gid", &from.gid)
        .text("peer_gid", &from.peer_gid)
}

#[cfg(test)]
mod tests {
    use super::super::options::Wanted;
    use super::User;
    use crate::smcss::row::{Address, Dmb, Mode, Program, Row, State};

    fn row() -> Row {
        let local = Address { ip: "::1".parse().expect("an address"), port: 80 };
        let peer = Address { ip: "::1".parse().expect("an address"), port: 81 };
        Row {
            is_kernels: false,
            state: State::ACTIVE,
            uid: 1,
            inode: 2,
            local,
            peer,
            interface: 0,
            mode: Mode::Tcp { reason: 0x0301_0000, peer: 0 },
            shutdown: 0,
            details: None,
            dmb: None,
            link: None,
            program: None,
        }
    }

    fn list(rows: &[Row]) -> String {
        super::list(rows, &Wanted::default(), &|_| vec![])
    }

    #[test]
    fn processes_are_listed_if_wanted() {
        let users = |_: &Row| vec![User { name: "x".into(), pid: 7, fd: Some(3) }];
        let text = super::list(&[row()], &Wanted { processes: true, ..Wanted::default() }, &users);
        assert!(text.ends_with(", \"users\": [{\"program\": \"x\", \"pid\": 7, \"fd\": 3}]}\n]\n"), "{text}");
    }

    #[test]
    fn an_empty_list_is_an_empty_array() {
        assert_eq!(list(&[]), "[]\n");
    }

    #[test]
    fn a_fallback_comes_with_its_text() {
        assert_eq!(
            list(&[row()]),
            "[\n  {\"source\": \"isthmus\", \"state\": \"ACTIVE\", \"uid\": 1, \"inode\": 2, \
             \"local\": {\"address\": \"::1\", \"port\": 80}, \"peer\": {\"address\": \"::1\", \"port\": 81}, \
             \"interface\": 0, \"mode\": \"TCP\", \"reason\": \"0x03010000\", \
             \"reason_text\": \"Peer does not support SMC\"}\n]\n"
        );
    }

    #[test]
    fn a_connection_and_a_listener() {
        let dmb = Some(Dmb { gid: 1, token: 2, peer_gid: 3, peer_token: 4, link_id: 0x100 });
        let smcd = Row { mode: Mode::Smcd, dmb, shutdown: 1, ..row() };
        let program = Some(Program { pid: 9, name: "x\"y".into() });
        let listener = Row { state: State::LISTEN, mode: Mode::Smcd, program, ..row() };
        let text = list(&[smcd, listener]);
        assert!(
            text.contains(
                "\"mode\": \"SMCD\", \"shutdown_read\": true, \"shutdown_write\": false, \"dmb\": {"
            )
        );
        assert!(text.contains("\"token\": \"0000000000000002\""));
        assert!(text.ends_with("\"port\": 80}, \"pid\": 9, \"program\": \"x\\\"y\"}\n]\n"), "{text}");
    }

    #[test]
    fn a_listener_that_no_client_finds_has_a_code() {
        let listener = Row { state: State::LISTEN, mode: Mode::Tcp { reason: 0, peer: 0 }, ..row() };
        let wanted = "\"port\": 80}, \"mode\": \"TCP\", \"reason\": \"0x00000000\", \"reason_text\": \"Reason not known\"}\n]\n";
        assert!(list(&[listener]).ends_with(wanted));
    }
}
