//! Who has a socket, as `ss -p` writes it. Owns: that all are named whom /proc shows, and else whom the
//! registry knows.

use super::row::Row;
use crate::host::Host;

/// A process and its descriptor of the socket, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) fd: Option<u32>,
}

/// Every process that has the socket of `row`.
pub(super) fn of(row: &Row, host: Option<&Host>) -> Vec<User> {
    let holders = host.into_iter().flat_map(|host| host.holders(row.inode));
    let mut users: Vec<User> = holders
        .flat_map(|process| {
            let fds = process.sockets.iter().filter(|(_, inode)| *inode == row.inode);
            fds.map(|(fd, _)| User { name: process.name.clone(), pid: process.pid, fd: Some(*fd) })
        })
        .collect();
    users.sort_by_key(|user| (user.pid, user.fd));
    users.dedup();
    match (users.is_empty(), &row.program) {
        (true, Some(program)) => vec![User { name: program.name.clone(), pid: program.pid, fd: None }],
        _ => users,
    }
}

/// `users:(("nginx",pid=7,fd=3))`; empty for nobody.
pub(super) fn text(users: &[User]) -> String {
    let one = |user: &User| {
        let fd = user.fd.map_or_else(String::new, |fd| format!(",fd={fd}"));
        format!("(\"{}\",pid={}{fd})", user.name, user.pid)
    };
    match users {
        [] => String::new(),
        _ => format!("users:({})", users.iter().map(one).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::{User, of, text};
    use crate::host::{Host, Process};
    use crate::smcss::isthmus::blank;
    use crate::smcss::row::{Program, Row};

    #[test]
    fn all_holders_are_named() {
        let mut host = Host::over(vec![]);
        for (pid, fds) in [(8, &[(4, 77), (5, 77)][..]), (7, &[(3, 77), (9, 78)])] {
            host.add(Process {
                pid,
                name: "nginx".into(),
                sockets: fds.to_vec(),
                enabled_as: None,
                has_registry: false,
                lacks_room: false,
                is_filtered: false,
                is_between_users: false,
                memories: vec![],
            });
        }
        let row = |inode| Row { inode, program: Some(Program { pid: 1, name: "x".into() }), ..blank(0) };
        let seen = text(&of(&row(77), Some(&host)));
        assert_eq!(seen, "users:((\"nginx\",pid=7,fd=3),(\"nginx\",pid=8,fd=4),(\"nginx\",pid=8,fd=5))");
        assert_eq!(text(&of(&row(79), Some(&host))), "users:((\"x\",pid=1))", "the registry knows");
        assert_eq!((text(&[]), of(&blank(0), None)), (String::new(), Vec::<User>::new()));
    }
}
