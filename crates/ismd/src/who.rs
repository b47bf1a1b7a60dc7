//! Who is at the other end of a unix socket, by the kernel's word alone. Owns: what counts as the same user:
//! the same number as the daemon counts, in the same user namespace and the same process namespace. (A
//! container's root is another user than the host's, and than another container's.) And who pays for what a
//! process takes: whoever makes user namespaces, and has 65536 users there, pays for all of them.

use anyhow::{Context, bail, ensure};
use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// A user somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct User {
    /// As the daemon counts.
    pub(crate) uid: u32,
    /// Inode of its user namespace.
    pub(crate) user_namespace: u64,
    /// Inode of its process namespace.
    pub(crate) process_namespace: u64,
}

/// Who is counted together, whatever users they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Payer {
    /// A user of the host, with all that is in user namespaces that he made.
    User(u32),
    /// A user namespace that root made for others, as engines do, with all that is below it; its inode.
    Namespace(u64),
    /// All of those of whom the daemon is not told.
    Unknown,
}

/// A process, as it was when it said hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) user: User,
    pub(crate) payer: Payer,
    pub(crate) pid: u32,
    pub(crate) gid: u32,
    /// Path of its cgroup (version 2) from the root of the daemon's view.
    pub(crate) cgroup: String,
    /// Number of that cgroup; 0 where the kernel does not tell.
    pub(crate) cgroup_id: u64,
    /// File name of its program, as /proc shows it.
    pub(crate) program: String,
}

/// What SO_PEERCRED or SCM_CREDENTIALS say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Asks about the process that connected `socket`. Errors: it has ended, it is between two users, or the
/// daemon may not look at it.
pub(crate) fn ask(socket: impl AsFd, credentials: Credentials) -> anyhow::Result<Who> {
    let pidfd = getsockopt(&socket, PeerPidfd).context("SO_PEERPIDFD")?;
    look(&pidfd, credentials)
}

/// A process that an earlier daemon knew, as it is now. Errors: as for [`ask`].
pub(crate) fn look_at(pid: u32) -> anyhow::Result<Who> {
    let pidfd = open(pid)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let one = |name| of_status(&status, name).map(|[real, ..]| real).context("/proc shows no users");
    look(&pidfd, Credentials { pid, uid: one("Uid:")?, gid: one("Gid:")? })
}

/// A process by its number. Error: there is none.
pub(crate) fn open(pid: u32) -> anyhow::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let number = Pid::from_raw(pid.cast_signed()).context("no process id")?;
    pidfd_open(number, PidfdFlags::empty()).context("pidfd_open")
}

fn look(pidfd: &OwnedFd, credentials: Credentials) -> anyhow::Result<Who> {
    let pid = credentials.pid;
    let cgroup_id = told(pidfd, credentials)?;
    let namespace = |name: &str| {
        let path = format!("/proc/{pid}/ns/{name}");
        rustix::fs::stat(&path).map(|about| about.st_ino).with_context(|| format!("cannot look at {path}"))
    };
    let user = User {
        uid: credentials.uid,
        user_namespace: namespace("user")?,
        process_namespace: namespace("pid")?,
    };
    let payer = payer_of(pid, credentials.uid)?;
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).context("its cgroup")?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).context("its program")?;
    let program = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // All of this was asked by a number, which is another's once the process has ended.
    ensure!(is_alive(pidfd), "process {pid} has ended");
    let (gid, cgroup) = (credentials.gid, cgroup_of(&cgroup));
    Ok(Who { user, payer, pid, gid, cgroup, cgroup_id, program })
}

/// Who pays for a connection, before its process has said anything. (By its number alone: one that has ended
/// says nothing, and its connection lasts a moment, whoever has the number now.)
pub(crate) fn payer(credentials: Credentials) -> Payer {
    payer_of(credentials.pid, credentials.uid).unwrap_or(Payer::Unknown)
}

fn own_namespace() -> anyhow::Result<u64> {
    static OWN: OnceLock<u64> = OnceLock::new();
    match OWN.get() {
        Some(own) => Ok(*own),
        None => Ok(*OWN.get_or_init({
            let own = rustix::fs::stat("/proc/self/ns/user")?.st_ino;
            move || own
        })),
    }
}

/// By the outermost user namespace below the daemon's own. (One that root made without giving it users is
/// root's: a container's root makes no payers.) Errors: the daemon may not look at the process.
fn payer_of(pid: u32, uid: u32) -> anyhow::Result<Payer> {
    /// As deep as the kernel lets them lie in each other.
    const DEPTH: usize = 33;
    let own = own_namespace()?;
    let path = format!("/proc/{pid}/ns/user");
    if rustix::fs::stat(&path)?.st_ino == own {
        return Ok(Payer::User(uid));
    }
    let mut inner = File::open(&path)?;
    for _ in 0..DEPTH {
        // (One that is not below the daemon's own: the kernel does not tell more of it than the user.)
        let Ok(outer) = os::namespace::parent(inner.as_raw_fd()) else { return Ok(Payer::User(uid)) };
        let opened = File::open(format!("/proc/self/fd/{outer}"));
        os::fd::close(outer);
        let outer = opened?;
        if outer.metadata()?.ino() == own {
            let owner = os::namespace::owner(inner.as_raw_fd()).ok().context("whose namespace it is")?;
            let is_given = owner == 0 && uid != 0;
            return Ok(if is_given { Payer::Namespace(inner.metadata()?.ino()) } else { Payer::User(owner) });
        }
        inner = outer;
    }
    bail!("process {pid} is in too many namespaces")
}

/// The daemon itself, as a user.
pub(crate) fn daemon() -> anyhow::Result<User> {
    let namespace = |name: &str| rustix::fs::stat(format!("/proc/self/ns/{name}")).map(|about| about.st_ino);
    Ok(User {
        uid: rustix::process::geteuid().as_raw(),
        user_namespace: namespace("user")?,
        process_namespace: namespace("pid")?,
    })
}

/// The cgroup's number; the users of the process must be those that connected.
fn told(pidfd: &OwnedFd, credentials: Credentials) -> anyhow::Result<u64> {
    match os::passing::ask(pidfd.as_raw_fd()) {
        Ok(told) if told.pid != credentials.pid => bail!("another process connected the socket"),
        Ok(told) if told.users != [credentials.uid; 3] => {
            bail!("process {} is between the users {:?}", told.pid, told.users)
        }
        Ok(told) => Ok(told.cgroup),
        Err(_) => {
            let status = std::fs::read_to_string(format!("/proc/{}/status", credentials.pid))?;
            let users = of_status(&status, "Uid:").context("/proc shows no users")?;
            ensure!(users == [credentials.uid; 3], "process {} is between users", credentials.pid);
            Ok(0)
        }
    }
}

/// Real, effective and saved user, or group, of /proc/PID/status.
fn of_status(status: &str, name: &str) -> Option<[u32; 3]> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let mut users = line.split_ascii_whitespace().map(|word| word.parse().ok());
    Some([users.next()??, users.next()??, users.next()??])
}

/// The unified hierarchy's line of /proc/PID/cgroup.
fn cgroup_of(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_string()
}

/// A pidfd is readable once its process has ended.
fn is_alive(pidfd: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut one = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_tells_of_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = rustix::net::sockopt::socket_peercred(&one).expect("credentials");
        let credentials = Credentials {
            pid: peer.pid.as_raw_nonzero().get() as u32,
            uid: peer.uid.as_raw(),
            gid: peer.gid.as_raw(),
        };
        let who = ask(&one, credentials).expect("told");
        assert_eq!(who.pid, std::process::id());
        assert!(who.program.starts_with("ismd"), "{}", who.program);
        assert!(who.user.user_namespace != 0 && who.user.process_namespace != 0);
        let another = Credentials { uid: credentials.uid + 1, ..credentials };
        assert!(ask(&one, another).is_err(), "a worker that gave its user up is nobody's");
        assert_eq!(look_at(credentials.pid).expect("it lives"), who, "by its number alone");
    }

    /// Calls `look` while a process lives in two user namespaces, one in the other, that `uid` made.
    fn in_namespaces(uid: Option<u32>, look: impl FnOnce(u32)) {
        use std::io::{Read, Write};
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "unshare", "--user", "cat"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        uid.into_iter().for_each(|uid| _ = command.uid(uid).gid(uid));
        let Ok(mut child) = command.spawn() else { return println!("skipped: no unshare") };
        let (mut input, mut output) =
            (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        // (Once it answers, it is where it is to be.)
        match input.write_all(b"x").and_then(|()| output.read_exact(&mut [0])) {
            Ok(()) => look(child.id()),
            Err(_) => println!("skipped: no user namespaces for this user"),
        }
        drop(input);
        let _ = child.wait();
    }

    #[test]
    fn whoever_makes_user_namespaces_pays_for_all_users_in_them() {
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(payer_of(std::process::id(), me).ok(), Some(Payer::User(me)));
        in_namespaces(None, |pid| {
            assert_eq!(payer_of(pid, me).ok(), Some(Payer::User(me)));
            let subordinate = payer_of(pid, 100_007).ok();
            match me {
                // What root gives others is theirs, however deep they dig.
                0 => assert!(matches!(subordinate, Some(Payer::Namespace(inode)) if inode != 0)),
                _ => assert_eq!(subordinate, Some(Payer::User(me))),
            }
        });
        if me == 0 {
            let nobody = Some(Payer::User(65534));
            in_namespaces(Some(65534), |pid| assert_eq!(payer_of(pid, 100_007).ok(), nobody));
        }
    }

    #[test]
    fn proc_is_read_as_proc_5_has_it() {
        assert_eq!(of_status("Name:\tx\nUid:\t1\t2\t3\t4\n", "Uid:"), Some([1, 2, 3]));
        assert_eq!(of_status("Name:\tx\n", "Gid:"), None);
        assert_eq!(cgroup_of("3:cpu:/a\n0::/b/c\n"), "/b/c");
        assert_eq!(cgroup_of("3:cpu:/a\n"), "");
    }
}
