//! Who may talk to whom, on which fabric, and how much of everything. Owns: what is decided about two
//! processes; [`mod@file`] owns how that is written down.

pub(crate) mod fault;
pub(crate) mod file;
mod glob;
pub(crate) mod place;
mod value;

use crate::who::{Payer, Who};
use globset::GlobSet;
use place::{Network, Place, Ports};
use std::path::PathBuf;

/// Where nothing else is said.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) daemon: Daemon,
    pub(crate) fabrics: Vec<Fabric>,
    pub(crate) projects: Vec<Project>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) user_quota: Quota,
    pub(crate) project_quota: Quota,
    /// Of single users.
    pub(crate) quotas: Vec<(u32, Quota)>,
}

/// The daemon itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    pub(crate) socket: PathBuf,
    pub(crate) metrics: Option<PathBuf>,
    /// Connections to its socket at one time.
    pub(crate) clients: u32,
    /// Folder of a BPF file system; none: connections are not marked.
    pub(crate) pins: Option<PathBuf>,
    /// Whose sockets' connections are; none: the root of the hierarchy.
    pub(crate) cgroup: Option<PathBuf>,
}

/// An ISM device's channel: only who is on the same one can talk.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub(crate) vchid: u16,
    pub(crate) name: String,
    /// Functions at one time.
    pub(crate) functions: u16,
    /// Connections of each function.
    pub(crate) connections: u32,
    pub(crate) pnet_id: String,
    /// Who may be on it; everybody if empty.
    pub(crate) members: Vec<Pattern>,
}

/// Containers that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) name: String,
    pub(crate) cgroup: GlobSet,
}

/// What a client, a server or a member must be, and (not a member) where. Everything that is given must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    pub(crate) uids: Vec<u32>,
    pub(crate) gids: Vec<u32>,
    pub(crate) cgroup: Option<GlobSet>,
    pub(crate) project: Option<String>,
    pub(crate) program: Option<GlobSet>,
    pub(crate) networks: Vec<Network>,
    pub(crate) ports: Vec<Ports>,
}

/// The first rule that fits decides.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) is_allowed: bool,
    pub(crate) client: Pattern,
    pub(crate) server: Pattern,
    pub(crate) vchid: Option<u16>,
}

/// One pair of places of a rule that has them: what the kernel looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) is_allowed: bool,
    pub(crate) client: Place,
    pub(crate) server: Place,
}

/// What is said of two processes: by where their connection is, and in all other places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    lines: Vec<Line>,
    otherwise: bool,
}

impl Ruling {
    /// Whether they may share memory over some connection.
    pub(crate) fn is_possible(&self) -> bool {
        self.otherwise || self.lines.iter().any(|line| line.is_allowed)
    }

    /// Whether whatever shared memory by an earlier ruling may go on.
    pub(crate) fn allows_all_of(&self, earlier: &Ruling) -> bool {
        self.is_possible()
            && (self == earlier || self.lines.iter().all(|line| line.is_allowed) && self.otherwise)
    }
}

/// What a user, or a project, may have at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Connections to the daemon's socket.
    pub(crate) clients: u32,
    pub(crate) segments: u32,
    pub(crate) bytes: u64,
    pub(crate) connections: u32,
    /// Functions: whoever makes namespaces of his own could take all of a fabric's.
    pub(crate) functions: u32,
}

impl Default for Quota {
    /// A gibibyte, slots for ten thousand connections with doorbells, and an eighth of a fabric's functions.
    fn default() -> Self {
        Quota { clients: 1024, segments: 4096, bytes: 1 << 30, connections: 10_000, functions: 32 }
    }
}

impl Policy {
    /// The project of a process, if it is in one.
    pub(crate) fn project_of(&self, who: &Who) -> Option<&str> {
        let found = self.projects.iter().find(|project| project.cgroup.is_match(&who.cgroup));
        found.map(|project| project.name.as_str())
    }

    /// The fabric for a process that wants `vchid`, or whichever it may be on (0).
    pub(crate) fn fabric_for(&self, who: &Who, vchid: u16) -> Option<&Fabric> {
        let project = self.project_of(who);
        let is_member = |fabric: &&Fabric| {
            fabric.members.is_empty() || fabric.members.iter().any(|member| member.fits(who, project))
        };
        let mut wanted = self.fabrics.iter().filter(|fabric| vchid == 0 || fabric.vchid == vchid);
        wanted.find(is_member)
    }

    /// Whether `client` may offer memory to `server` on a fabric that both are on.
    pub(crate) fn ruling(&self, client: &Who, server: &Who, vchid: u16) -> Ruling {
        let (from, to) = (self.project_of(client), self.project_of(server));
        let mut lines = vec![];
        for rule in &self.rules {
            if !rule.is_for(vchid) || !rule.client.fits(client, from) || !rule.server.fits(server, to) {
                continue;
            }
            if !rule.is_by_place() {
                return Ruling { lines, otherwise: rule.is_allowed };
            }
            lines.extend(rule.lines());
        }
        Ruling { lines, otherwise: client.user == server.user || (from.is_some() && from == to) }
    }

    /// All rules as the kernel looks at them, in order, each with the one that it is of.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&Rule, Line)> {
        self.rules.iter().flat_map(|rule| rule.lines().into_iter().map(move |line| (rule, line)))
    }

    /// Which lines a process on a fabric is a client for, and which a server.
    pub(crate) fn lines_of(&self, who: &Who, vchid: u16) -> (Vec<bool>, Vec<bool>) {
        let project = self.project_of(who);
        let fits = |(rule, _): (&Rule, Line)| {
            let is_for = rule.is_for(vchid);
            (is_for && rule.client.fits(who, project), is_for && rule.server.fits(who, project))
        };
        self.lines().map(fits).unzip()
    }

    /// What a user may have.
    pub(crate) fn quota_of(&self, payer: Payer) -> Quota {
        self.own_quota(payer).unwrap_or(self.user_quota)
    }

    /// Whether an operator has thought of this very user: then he may have that much of what there is.
    pub(crate) fn has_own_quota(&self, payer: Payer) -> bool {
        self.own_quota(payer).is_some()
    }

    fn own_quota(&self, payer: Payer) -> Option<Quota> {
        self.quotas.iter().find(|(uid, _)| Payer::User(*uid) == payer).map(|(_, quota)| *quota)
    }
}

impl Rule {
    fn is_for(&self, vchid: u16) -> bool {
        self.vchid.is_none_or(|only| only == vchid)
    }

    fn is_by_place(&self) -> bool {
        let is_somewhere = |end: &Pattern| !end.networks.is_empty() || !end.ports.is_empty();
        is_somewhere(&self.client) || is_somewhere(&self.server)
    }

    /// How many [`Rule::lines`] are, without making them.
    fn lines_len(&self) -> usize {
        let ends = [&self.client, &self.server];
        let counts = ends.into_iter().flat_map(|end| [end.networks.len(), end.ports.len()]);
        counts.fold(1, |all, count| all.saturating_mul(count.max(1)))
    }

    fn lines(&self) -> Vec<Line> {
        let places = |end: &Pattern| Place::all(&end.networks, &end.ports);
        let (clients, servers) = (places(&self.client), places(&self.server));
        let is_allowed = self.is_allowed;
        let with = |client| servers.iter().map(move |server| Line { is_allowed, client, server: *server });
        clients.into_iter().flat_map(with).collect()
    }
}

impl Pattern {
    /// Whether a process is meant, wherever it is.
    fn fits(&self, who: &Who, project: Option<&str>) -> bool {
        (self.uids.is_empty() || self.uids.contains(&who.user.uid))
            && (self.gids.is_empty() || self.gids.contains(&who.gid))
            && self.cgroup.as_ref().is_none_or(|cgroup| cgroup.is_match(&who.cgroup))
            && self.project.as_deref().is_none_or(|name| project == Some(name))
            && self.program.as_ref().is_none_or(|program| program.is_match(&who.program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::User;

    pub(super) fn process(uid: u32, namespace: u64, cgroup: &str) -> Who {
        let user = User { uid, user_namespace: 1, process_namespace: namespace };
        let (cgroup, program) = (cgroup.to_string(), "redis-server".to_string());
        Who { user, payer: Payer::User(uid), pid: 1, gid: uid, cgroup, cgroup_id: 1, program }
    }

    fn policy(text: &str) -> Policy {
        file::parse("test", text).unwrap_or_else(|fault| panic!("{fault}"))
    }

    impl Policy {
        fn lets_talk(&self, client: &Who, server: &Who, vchid: u16) -> bool {
            self.ruling(client, server, vchid).is_possible()
        }
    }

    #[test]
    fn what_a_rule_says_of_places_leaves_two_processes_the_others() {
        let denied = "[[rule]]\nallow = false\nserver = { port = 7001 }\n";
        let allowed = "[[rule]]\nallow = true\nclient = { uid = 1, address = \"10.0.0.0/8\" }\n";
        let never = "[[rule]]\nallow = false\n";
        let [one, two] = [process(1, 1, "/"), process(2, 1, "/")];
        let ruling = |text: &str, client, server| policy(text).ruling(client, server, 0xFF00);
        assert!(ruling(denied, &one, &one).is_possible() && !ruling(denied, &one, &two).is_possible());
        assert!(ruling(allowed, &one, &two).is_possible() && !ruling(allowed, &two, &one).is_possible());
        assert!(ruling(&(allowed.to_string() + never), &one, &two).is_possible());
        assert!(!ruling(&(never.to_string() + allowed), &one, &two).is_possible());
        let everything = ruling("", &one, &one);
        assert!(everything.allows_all_of(&ruling(denied, &one, &one)));
        assert!(!ruling(denied, &one, &one).allows_all_of(&everything));
        assert!(ruling(denied, &one, &one).allows_all_of(&ruling(denied, &one, &one)));
    }

    #[test]
    fn the_kernel_sees_a_rule_once_for_each_pair_of_its_places() {
        let policy = policy(
            "[[rule]]\nallow = false\nserver = { port = [7000, \"8000-8010\"], address = [\"10.0.0.1\", \"::1\"] }\n\
             [[rule]]\nallow = true\nclient = { uid = 7 }\n",
        );
        let lines: Vec<Line> = policy.lines().map(|(_, line)| line).collect();
        let ports: Vec<u16> = lines.iter().map(|line| line.server.ports.low).collect();
        assert_eq!(ports, [7000, 8000, 7000, 8000, 0]);
        let (clients, servers) = policy.lines_of(&process(8, 1, "/"), 0xFF00);
        assert_eq!((clients, servers), (vec![true, true, true, true, false], vec![true; 5]));
    }

    #[test]
    fn by_default_only_the_same_user_in_the_same_place_talks() {
        let policy = policy("");
        let vchid = policy.fabrics[0].vchid;
        let one = process(1000, 1, "/a");
        assert!(policy.lets_talk(&one, &process(1000, 1, "/b"), vchid));
        assert!(!policy.lets_talk(&one, &process(1001, 1, "/a"), vchid));
        assert!(!policy.lets_talk(&one, &process(1000, 2, "/a"), vchid), "another container's");
        assert!(policy.project_of(&one).is_none());
    }

    #[test]
    fn containers_of_one_project_talk_whoever_runs_in_them() {
        let policy = policy("[[project]]\nname = \"web\"\ncgroup = \"/machine/web-*\"\n");
        let vchid = policy.fabrics[0].vchid;
        let [front, back] = [process(0, 1, "/machine/web-front"), process(999, 2, "/machine/web-back")];
        assert!(policy.lets_talk(&front, &back, vchid));
        assert!(!policy.lets_talk(&front, &process(999, 2, "/machine/mail"), vchid));
        assert!(
            !policy.lets_talk(&front, &process(999, 2, "/machine/web-a/b"), vchid),
            "a star stays within a name"
        );
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = policy(
            "[[rule]]\nallow = false\nserver = { program = \"redis*\" }\nclient = { uid = 7 }\n\
             [[rule]]\nallow = true\nclient = { uid = [7, 8] }\n",
        );
        let server = process(1, 1, "/");
        assert!(!policy.lets_talk(&process(7, 1, "/"), &server, 0xFF00));
        assert!(policy.lets_talk(&process(8, 1, "/"), &server, 0xFF00));
        assert!(!policy.lets_talk(&server, &process(8, 1, "/"), 0xFF00), "a rule has a direction");
    }

    #[test]
    fn tenants_have_fabrics_of_their_own() {
        let policy = policy(
            "[[fabric]]\nvchid = 0xFF01\nname = \"a\"\nmembers = [{ cgroup = \"/a/**\" }]\n\
             [[fabric]]\nvchid = 0xFF02\nname = \"b\"\nmembers = [{ cgroup = \"/b/**\" }]\n",
        );
        let on =
            |cgroup, wanted| policy.fabric_for(&process(0, 1, cgroup), wanted).map(|fabric| fabric.vchid);
        assert_eq!([on("/a/x/y", 0), on("/b/x", 0), on("/c", 0)], [Some(0xFF01), Some(0xFF02), None]);
        assert_eq!([on("/a/x", 0xFF02), on("/a/x", 0xFF01)], [None, Some(0xFF01)]);
    }

    #[test]
    fn quotas_are_those_of_the_user_or_everybodys() {
        let policy = policy("[quota.user]\nsegments = 3\n[[quota.special]]\nuid = 5\nbytes = \"2M\"\n");
        assert_eq!(policy.quota_of(Payer::User(4)).segments, 3);
        assert_eq!(
            policy.quota_of(Payer::User(5)),
            Quota { segments: 3, bytes: 2 << 20, ..Quota::default() }
        );
    }
}
