//! The policy file: TOML. Owns: its keys, what each may be, and that nothing in it is passed over in silence:
//! an unknown key, a number out of its range and a name that nothing has are faults with line and column.

use super::fault::Fault;
use super::glob;
use super::place::{Network, Ports};
use super::value::{Value, Values};
use super::{Daemon, Fabric, Pattern, Policy, Project, Quota, Rule};
use globset::GlobSet;
use serde::Deserialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use wire::limits::{EMULATED_CHID_FIRST, LOOPBACK_CHID};

/// Fabrics of a host: the ISM devices of a machine have 32 VCHIDs.
const FABRICS: usize = 32;
/// Functions of a fabric.
const FUNCTIONS: u16 = 255;
/// Connections of a function.
const CONNECTIONS: u32 = 1920;
/// What the kernel looks at for a connection, at most: `RULES` of the mark's program.
pub(crate) const LINES: usize = 128;
/// Bytes of a policy: some ten thousand rules, far more than may be.
pub(crate) const LONGEST: usize = 1 << 20;
pub(crate) const PINS: &str = "/sys/fs/bpf";
/// (Not in the folder of the programs' socket, which containers are given.)
const METRICS: &str = "/run/isthmus.private/metrics.sock";

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    daemon: DaemonTable,
    quota: QuotaTable,
    fabric: Vec<FabricTable>,
    project: Vec<ProjectTable>,
    rule: Vec<Spanned<RuleTable>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct DaemonTable {
    socket: Option<Spanned<PathBuf>>,
    metrics: Option<Spanned<String>>,
    clients: Option<Spanned<Value>>,
    pins: Option<String>,
    cgroup: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct QuotaTable {
    user: Amounts,
    project: Amounts,
    special: Vec<Special>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Amounts {
    clients: Option<Spanned<Value>>,
    segments: Option<Spanned<Value>>,
    /// 4096, "64K", "16M", "2G".
    bytes: Option<Spanned<Value>>,
    connections: Option<Spanned<Value>>,
    functions: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Special {
    uid: Spanned<Value>,
    clients: Option<Spanned<Value>>,
    segments: Option<Spanned<Value>>,
    /// 4096, "64K", "16M", "2G".
    bytes: Option<Spanned<Value>>,
    connections: Option<Spanned<Value>>,
    functions: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricTable {
    vchid: Spanned<Value>,
    name: Spanned<String>,
    functions: Option<Spanned<Value>>,
    connections: Option<Spanned<Value>>,
    #[serde(rename = "pnet-id")]
    pnet_id: Option<Spanned<String>>,
    #[serde(default)]
    members: Vec<PatternTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectTable {
    name: Spanned<String>,
    cgroup: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    allow: bool,
    #[serde(default)]
    client: PatternTable,
    #[serde(default)]
    server: PatternTable,
    fabric: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct PatternTable {
    uid: Option<Spanned<Values>>,
    gid: Option<Spanned<Values>>,
    cgroup: Option<Spanned<String>>,
    project: Option<Spanned<String>>,
    program: Option<Spanned<String>>,
    address: Option<Spanned<Values>>,
    port: Option<Spanned<Values>>,
}

/// 7000, "7000", "7000-7999".
fn ports(value: &Value) -> Result<Ports, String> {
    match value {
        Value::Text(text) => Ports::parse(text),
        other => Ports::parse(&other.to_string()),
    }
}

fn network(value: &Value) -> Result<Network, String> {
    match value {
        Value::Text(text) => Network::parse(text),
        other => Err(format!("{other} is no text, as an address is")),
    }
}

/// A file's bytes as text. `path` is what faults call it.
pub(crate) fn text_of(path: &str, bytes: Vec<u8>) -> Result<String, Box<Fault>> {
    if bytes.len() > LONGEST {
        let what = format!("a policy of more than {LONGEST} bytes");
        return Err(Box::new(Fault::new(path, "", 0..0, what)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        Box::new(Fault::new(path, &text, at..at + 1, "this is no UTF-8"))
    })
}

/// Reads a policy. `path` is what faults call it.
pub(crate) fn parse(path: &str, text: &str) -> Result<Policy, Box<Fault>> {
    let file: File = toml::from_str(text).map_err(|error| {
        let message = error.message().lines().next().unwrap_or("not TOML").to_string();
        Box::new(Fault::new(path, text, error.span().unwrap_or(0..0), message))
    })?;
    Reading { path, text }.policy(file)
}

/// The file that is read: where faults point into.
struct Reading<'a> {
    path: &'a str,
    text: &'a str,
}

type Read<T> = Result<T, Box<Fault>>;

impl Reading<'_> {
    fn fault<V>(&self, at: &Spanned<V>, what: impl Into<String>) -> Box<Fault> {
        Box::new(Fault::new(self.path, self.text, at.span(), what))
    }

    fn policy(&self, file: File) -> Read<Policy> {
        let projects = self.projects(file.project)?;
        let names: Vec<String> = projects.iter().map(|project: &Project| project.name.clone()).collect();
        let fabrics = self.fabrics(file.fabric, &names)?;
        let user_quota = self.amounts(file.quota.user, Quota::default())?;
        let rules = self.rules(file.rule, &fabrics, &names)?;
        Ok(Policy {
            daemon: self.daemon(file.daemon)?,
            rules,
            fabrics,
            project_quota: self.amounts(file.quota.project, Quota::default())?,
            quotas: self.specials(file.quota.special, user_quota)?,
            user_quota,
            projects,
        })
    }

    fn all<A, B>(&self, tables: Vec<A>, read: impl Fn(&Self, A) -> Read<B>) -> Read<Vec<B>> {
        tables.into_iter().map(|table| read(self, table)).collect()
    }

    fn daemon(&self, table: DaemonTable) -> Read<Daemon> {
        let socket = match table.socket {
            Some(path) if !path.get_ref().is_absolute() => {
                return Err(self.fault(&path, "the socket's path must begin with /"));
            }
            Some(path) if table.metrics.is_none() && *path.get_ref() == Path::new(METRICS) => {
                return Err(
                    self.fault(&path, "scrapes are answered at this path, unless another one is given")
                );
            }
            Some(path) => self.socket(path)?,
            None => wire::host::SOCKET.into(),
        };
        let metrics = match table.metrics {
            Some(path) if Path::new(path.get_ref()) == socket => {
                return Err(
                    self.fault(&path, "programs are served at this path, with another kind of socket")
                );
            }
            Some(path) => self.socket(path)?,
            None => METRICS.into(),
        };
        let clients = match table.clients {
            Some(clients) => self.within(&clients, 1, 1 << 20)? as u32,
            None => 8192,
        };
        let path = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
        let pins = path(table.pins.unwrap_or_else(|| PINS.into()));
        Ok(Daemon { socket, metrics: path(metrics), clients, pins, cgroup: table.cgroup })
    }

    /// What the kernel takes for the path of a socket (unix(7)).
    fn socket<P: AsRef<Path>>(&self, path: Spanned<P>) -> Read<P> {
        const LONGEST: usize = os::passing::PATH_MAX - 1;
        let bytes = path.get_ref().as_ref().as_os_str().as_bytes();
        if bytes.len() > LONGEST || bytes.contains(&0) {
            let what = format!(
                "a socket's path has {LONGEST} bytes at most, and no NUL: this one has {}",
                bytes.len()
            );
            return Err(self.fault(&path, what));
        }
        Ok(path.into_inner())
    }

    fn within(&self, value: &Spanned<Value>, low: u64, high: u64) -> Read<u64> {
        value.get_ref().within(low, high).map_err(|what| self.fault(value, what))
    }

    fn fabrics(&self, tables: Vec<FabricTable>, projects: &[String]) -> Read<Vec<Fabric>> {
        let mut fabrics: Vec<Fabric> = vec![];
        for table in tables {
            let at = (table.vchid.clone(), table.name.clone());
            let fabric = self.fabric(table, projects)?;
            if fabrics.len() == FABRICS {
                return Err(self.fault(&at.0, format!("a host has {FABRICS} fabrics at most")));
            }
            if fabrics.iter().any(|other| other.vchid == fabric.vchid) {
                return Err(self.fault(&at.0, format!("{:#06x} is another fabric's", fabric.vchid)));
            }
            if fabrics.iter().any(|other| other.name == fabric.name) {
                return Err(self.fault(&at.1, "another fabric has this name"));
            }
            fabrics.push(fabric);
        }
        if fabrics.is_empty() {
            fabrics.push(Fabric {
                vchid: EMULATED_CHID_FIRST,
                name: "host".into(),
                functions: FUNCTIONS,
                connections: CONNECTIONS,
                pnet_id: String::new(),
                members: vec![],
            });
        }
        Ok(fabrics)
    }

    fn fabric(&self, table: FabricTable, projects: &[String]) -> Read<Fabric> {
        let (first, last) = (EMULATED_CHID_FIRST.into(), u64::from(LOOPBACK_CHID) - 1);
        let within = |value: Option<_>, high, or| value.map_or(Ok(or), |value| self.within(&value, 1, high));
        let vchid = self.within(&table.vchid, first, last)? as u16;
        let functions = within(table.functions, FUNCTIONS.into(), FUNCTIONS.into())? as u16;
        let connections = within(table.connections, 1 << 16, CONNECTIONS.into())? as u32;
        let pnet_id = table.pnet_id.map_or(Ok(String::new()), |id| self.pnet_id(id))?;
        let members = self.all(table.members, |reading, member| reading.member(member, projects))?;
        Ok(Fabric { vchid, name: self.name(table.name)?, functions, connections, pnet_id, members })
    }

    fn name(&self, name: Spanned<String>) -> Read<String> {
        let is_one = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let text = name.get_ref();
        if text.is_empty() || text.len() > 32 || !text.chars().all(is_one) {
            return Err(self.fault(&name, "a name has 1 to 32 letters, digits, '-', '_' or '.'"));
        }
        Ok(name.into_inner())
    }

    /// As smc_pnet(8) has it.
    fn pnet_id(&self, id: Spanned<String>) -> Read<String> {
        let text = id.get_ref();
        if text.len() > 16 || !text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) {
            return Err(self.fault(&id, "a PNET ID has at most 16 of A-Z and 0-9"));
        }
        Ok(id.into_inner())
    }

    fn projects(&self, tables: Vec<ProjectTable>) -> Read<Vec<Project>> {
        let mut projects: Vec<Project> = vec![];
        for table in tables {
            let at = table.name.clone();
            let project =
                Project { name: self.name(table.name)?, cgroup: self.glob(&table.cgroup, glob::of_cgroup)? };
            if projects.iter().any(|other| other.name == project.name) {
                return Err(self.fault(&at, "another project has this name (a pattern may be {one,other})"));
            }
            projects.push(project);
        }
        Ok(projects)
    }

    /// In their order, and so many that the kernel can look at them.
    fn rules(
        &self,
        tables: Vec<Spanned<RuleTable>>,
        fabrics: &[Fabric],
        projects: &[String],
    ) -> Read<Vec<Rule>> {
        let (mut rules, mut lines) = (vec![], 0);
        for table in tables {
            let at = table.span();
            let rule = self.rule(table.into_inner(), fabrics, projects)?;
            lines = rule.lines_len().saturating_add(lines);
            if lines > LINES {
                let what =
                    format!("{lines} rules are more than {LINES} (one for each pair of addresses and ports)");
                return Err(Box::new(Fault::new(self.path, self.text, at, what)));
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn rule(&self, table: RuleTable, fabrics: &[Fabric], projects: &[String]) -> Read<Rule> {
        let vchid = match table.fabric {
            None => None,
            Some(name) => {
                let found = fabrics.iter().find(|fabric| fabric.name == *name.get_ref());
                let unknown = || self.fault(&name, "there is no fabric of this name");
                Some(found.ok_or_else(unknown)?.vchid)
            }
        };
        Ok(Rule {
            is_allowed: table.allow,
            client: self.pattern(table.client, projects)?,
            server: self.pattern(table.server, projects)?,
            vchid,
        })
    }

    /// Who is on a fabric is there wherever he connects to.
    fn member(&self, table: PatternTable, projects: &[String]) -> Read<Pattern> {
        let what = "a rule's client and server have an address and ports, a member has none";
        match (&table.address, &table.port) {
            (Some(address), _) => Err(self.fault(address, what)),
            (_, Some(port)) => Err(self.fault(port, what)),
            _ => self.pattern(table, projects),
        }
    }

    /// What is left out is all there is: a list of nothing could only be meant otherwise.
    fn list<B>(
        &self,
        all: Option<Spanned<Values>>,
        read: impl Fn(&Value) -> Result<B, String>,
    ) -> Read<Vec<B>> {
        let Some(all) = all else { return Ok(vec![]) };
        if all.get_ref().0.is_empty() {
            return Err(self.fault(&all, "a list of nothing: for everything, leave it out"));
        }
        let each = all.get_ref().0.iter().map(read);
        each.collect::<Result<_, _>>().map_err(|what| self.fault(&all, what))
    }

    fn pattern(&self, table: PatternTable, projects: &[String]) -> Read<Pattern> {
        if let Some(name) = table.project.as_ref().filter(|name| !projects.contains(name.get_ref())) {
            return Err(self.fault(name, "there is no project of this name"));
        }
        Ok(Pattern {
            uids: self.list(table.uid, Value::id)?,
            gids: self.list(table.gid, Value::id)?,
            cgroup: table.cgroup.map(|text| self.glob(&text, glob::of_cgroup)).transpose()?,
            project: table.project.map(Spanned::into_inner),
            program: table.program.map(|text| self.glob(&text, glob::of_program)).transpose()?,
            networks: self.list(table.address, network)?,
            ports: self.list(table.port, ports)?,
        })
    }

    fn glob(&self, text: &Spanned<String>, read: fn(&str) -> Result<GlobSet, String>) -> Read<GlobSet> {
        read(text.get_ref()).map_err(|what| self.fault(text, what))
    }

    fn specials(&self, tables: Vec<Special>, of_everybody: Quota) -> Read<Vec<(u32, Quota)>> {
        let mut specials: Vec<(u32, Quota)> = vec![];
        for table in tables {
            let at = table.uid.clone();
            let special = self.special(table, of_everybody)?;
            if specials.iter().any(|(other, _)| *other == special.0) {
                return Err(self.fault(&at, "this user has a quota of its own already"));
            }
            specials.push(special);
        }
        Ok(specials)
    }

    fn special(&self, one: Special, of_everybody: Quota) -> Read<(u32, Quota)> {
        let Special { uid, clients, segments, bytes, connections, functions } = one;
        let amounts = Amounts { clients, segments, bytes, connections, functions };
        let id = uid.get_ref().id().map_err(|what| self.fault(&uid, what))?;
        Ok((id, self.amounts(amounts, of_everybody)?))
    }

    fn amounts(&self, table: Amounts, or: Quota) -> Read<Quota> {
        let amount = |value: Option<Spanned<Value>>, or: u32| {
            let read = |value| self.within(&value, 0, u32::MAX.into()).map(|number| number as u32);
            value.map_or(Ok(or), read)
        };
        Ok(Quota {
            clients: amount(table.clients, or.clients)?,
            segments: amount(table.segments, or.segments)?,
            bytes: table.bytes.map_or(Ok(or.bytes), |bytes| self.bytes(&bytes))?,
            connections: amount(table.connections, or.connections)?,
            functions: amount(table.functions, or.functions)?,
        })
    }

    fn bytes(&self, bytes: &Spanned<Value>) -> Read<u64> {
        let Value::Text(text) = bytes.get_ref() else { return self.within(bytes, 0, u64::MAX) };
        let digits = text.trim_end_matches(['K', 'M', 'G']);
        let shift = match &text[digits.len()..] {
            "" => Some(0),
            "K" => Some(10),
            "M" => Some(20),
            "G" => Some(30),
            _ => None,
        };
        let number = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
        number.ok_or_else(|| self.fault(bytes, "an amount is a number, and K, M or G after it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_one_fabric_for_the_host() {
        let policy = parse("p", "").unwrap_or_else(|fault| panic!("{fault}"));
        let [fabric] = &policy.fabrics[..] else { panic!("one fabric") };
        assert_eq!((fabric.vchid, fabric.functions, fabric.connections), (0xFF00, 255, 1920));
        assert_eq!(policy.daemon.socket.to_str(), Some(wire::host::SOCKET));
        assert!(policy.rules.is_empty() && policy.daemon.metrics.is_some());
    }

    #[test]
    fn every_fault_is_told_with_its_place() {
        for (text, place, what) in [
            ("[daemon\n", (1, 8), ""),
            ("[daemon]\nsockt = \"/x\"\n", (2, 1), "unknown field"),
            ("[daemon]\nsocket = \"x\"\n", (2, 10), "must begin with /"),
            ("[daemon]\nclients = 0\n", (2, 11), "between 1 and"),
            ("[[fabric]]\nname = \"a\"\nvchid = 7\n", (3, 9), "between 65280 and 65534"),
            ("[[fabric]]\nname = \"a b\"\nvchid = 0xFF01\n", (2, 8), "letters"),
            ("[[fabric]]\nname = \"a\"\nvchid = 0xFF01\npnet-id = \"net\"\n", (4, 11), "PNET ID"),
            (
                "[[fabric]]\nname = \"a\"\nvchid = 0xFF01\n[[fabric]]\nname = \"b\"\nvchid = 0xFF01\n",
                (6, 9),
                "another fabric's",
            ),
            ("[[rule]]\nallow = true\nfabric = \"a\"\n", (3, 10), "no fabric"),
            ("[[rule]]\nallow = true\nclient = { project = \"w\" }\n", (3, 22), "no project"),
            ("[[rule]]\nallow = true\nclient = { cgroup = \"[\" }\n", (3, 21), "unclosed"),
            ("[[rule]]\nallow = true\nserver = { port = 70000 }\n", (3, 19), "no port from 1 to 65535"),
            ("[[rule]]\nallow = true\nserver = { port = [1, \"9-8\"] }\n", (3, 19), "\"9-8\" is no port"),
            ("[[rule]]\nallow = true\nclient = { address = \"10.0.0.1/8\" }\n", (3, 22), "bits beyond"),
            ("[[rule]]\nallow = true\nclient = { address = [\"::1\", \"x\"] }\n", (3, 22), "\"x\" is no IP"),
            (
                "[[fabric]]\nname = \"a\"\nvchid = 0xFF01\nmembers = [{ uid = 1 }, { port = 5 }]\n",
                (4, 34),
                "a member has none",
            ),
            ("[quota.user]\nbytes = \"12Q\"\n", (2, 9), "K, M or G"),
            ("[[quota.special]]\nuid = 5\n[[quota.special]]\nuid = 5\n", (4, 7), "already"),
            ("[[project]]\nname = \"a\"\ncgroup = \"\"\n", (3, 10), "begins with /"),
            ("[[project]]\nname = \"a\"\ncgroup = \"x\"\n", (3, 10), "begins with /"),
            (
                "[[project]]\nname = \"a\"\ncgroup = \"/a\"\n[[project]]\nname = \"a\"\ncgroup = \"/b\"\n",
                (5, 8),
                "another project",
            ),
            ("[daemon]\nsocket = \"/s\"\nmetrics = \"//s\"\n", (3, 11), "another kind"),
            ("[[rule]]\nallow = true\nclient = { uid = [] }\n", (3, 18), "leave it out"),
            ("[[rule]]\nallow = true\nserver = { port = [] }\n", (3, 19), "leave it out"),
            ("[daemon]\nsocket = \"/run/isthmus.private/metrics.sock\"\n", (2, 10), "scrapes"),
            ("[daemon]\nmetrics = \"/a\\u0000b\"\n", (2, 11), "no NUL"),
            ("[quota.user]\nbytes = \"99999999999G\"\n", (2, 9), "K, M or G"),
            ("[quota.user]\nbytes = -1\n", (2, 9), ": -1 is not between 0 and 18446744073709551615"),
            ("[quota.user]\nclients = 4294967296\n", (2, 11), "between 0 and 4294967295"),
            ("[daemon]\nclients = \"x\"\n", (2, 11), "\"x\" is no number between 1 and 1048576"),
            ("[daemon]\nclients = [1]\n", (2, 11), "expected a number or a text"),
            ("[[fabric]]\nname = \"a\"\nvchid = 70000\n", (3, 9), "70000 is not between 65280 and 65534"),
            ("[[quota.special]]\nuid = 4294967295\n", (2, 7), "between 0 and 4294967294"),
            (
                "[[rule]]\nallow = true\nclient = { uid = -1 }\n",
                (3, 18),
                ": -1 is not between 0 and 4294967294",
            ),
            ("[[rule]]\nallow = true\nclient = { uid = [1, 4294967296] }\n", (3, 18), ": 4294967296 is not"),
            ("[[rule]]\nallow = true\nclient = { gid = 4294967295 }\n", (3, 18), ": 4294967295 is not"),
            ("[[rule]]\nallow = true\nclient = { gid = true }\n", (3, 18), "true is no number between 0 and"),
            ("[[rule]]\nallow = true\nclient = { uid = { a = 1 } }\n", (3, 18), "a list of them"),
            ("[[rule]]\nallow = true\nserver = { port = 1.5 }\n", (3, 19), "no port from 1"),
            ("[[rule]]\nallow = true\nserver = { address = 5 }\n", (3, 22), "5 is no text"),
        ] {
            let fault = parse("p.toml", text).expect_err(text);
            assert_eq!(fault.line_and_column(), place, "{fault}");
            let shown = fault.to_string();
            assert!(shown.contains(what), "{shown}");
            assert!(shown.contains(&format!("p.toml:{}:{}: ", place.0, place.1)), "{shown}");
        }
    }

    #[test]
    fn there_are_no_more_rules_than_the_kernel_looks_at() {
        let ports = |count: usize| {
            let all: Vec<String> = (1..=count).map(|port| port.to_string()).collect();
            format!("[[rule]]\nallow = false\nserver = {{ port = [{}] }}\n", all.join(", "))
        };
        assert!(parse("p", &ports(LINES)).is_ok());
        let fault = parse("p", &(ports(LINES) + "[[rule]]\nallow = true\n")).expect_err("one too many");
        assert_eq!(fault.line_and_column().0, 4, "{fault}");
    }

    #[test]
    fn what_is_too_long_is_told_with_its_place() {
        for (before, text, after) in [
            ("[daemon]\nsocket = ", "/".to_string() + &"x".repeat(300), "\n"),
            ("[daemon]\nmetrics = ", "/".to_string() + &"x".repeat(107), "\n"),
            ("[[rule]]\nallow = true\nclient = { program = ", "*".repeat(100_000), " }\n"),
            ("[[rule]]\nallow = true\nclient = { program = ", "a".repeat(500_000), " }\n"),
            ("[[rule]]\nallow = true\nserver = { cgroup = ", "/".to_string() + &"a".repeat(4096), " }\n"),
        ] {
            let fault = parse("p", &format!("{before}\"{text}\"{after}")).expect_err(before);
            let lines: Vec<&str> = before.lines().collect();
            assert_eq!(fault.line_and_column(), (lines.len(), lines[lines.len() - 1].len() + 1), "{before}");
            assert!(fault.to_string().len() < 2_000, "{} bytes", fault.to_string().len());
        }
        let many: Vec<String> = (1..9_000).map(|port| port.to_string()).collect();
        let many = format!("{{ port = [{}] }}", many.join(","));
        let fault = parse("p", &format!("[[rule]]\nallow = true\nclient = {many}\nserver = {many}\n"));
        assert_eq!(fault.expect_err("81 million lines").line_and_column().0, 1);
    }

    #[test]
    fn a_file_that_is_no_text_or_has_no_end_is_at_fault() {
        let fault = text_of("p", b"[daemon]\nx = \xFF".to_vec()).expect_err("no text");
        assert_eq!(fault.line_and_column(), (2, 5), "{fault}");
        assert!(fault.to_string().contains("no UTF-8"));
        assert!(text_of("p", vec![b'#'; LONGEST]).is_ok() && text_of("p", vec![b'#'; LONGEST + 1]).is_err());
    }

    #[test]
    fn a_host_has_thirty_two_fabrics() {
        let one = |n: u16| format!("[[fabric]]\nname = \"f{n}\"\nvchid = {}\n", 0xFF00 + n);
        let text: String = (0..32).map(one).collect();
        assert_eq!(parse("p", &text).map_or(0, |policy| policy.fabrics.len()), 32);
        assert!(parse("p", &(text + &one(32))).is_err());
    }
}
