//! The recipe of `docs/containers.md` with what engines put around a container: images with glibc and with
//! musl, the default profile of system calls, user namespaces, little memory, no root on the host, podman.
//! Owns: each exchanges by memory where the policy lets it, and the same number of a user in two containers
//! is two users where it says nothing.
//!
//! Each skips itself with a word where a program or a privilege is missing.

use crate::containers::{Groups, Image, blocks, cgroup};
use crate::far::{ALL_BY_MEMORY, ALL_BY_TCP, Counts, Field, does, must};
use crate::support::LIMIT;
use isthmus_tests::{Running, installed};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The profile that podman and its kin give containers, of Debian's golang-github-containers-common.
const PROFILE: &str = "/usr/share/containers/seccomp.json";
/// It as runc wants it, for a container without capabilities.
const AS_RUNC_HAS_IT: &str = r#"{defaultAction, defaultErrnoRet,
    architectures: [.archMap[] | select(.architecture == "SCMP_ARCH_X86_64")
        | .architecture, .subArchitectures[]],
    syscalls: [.syscalls[] | select((.includes.caps // []) == []
        and (.includes.arches // ["amd64"] | index("amd64"))
        and ((.excludes.arches // []) | index("amd64") | not))
        | {names, action, errnoRet, args} | del(..|nulls)]}"#;
/// Containers of the field's cgroup belong together.
pub(crate) const SHOP: &str = "[[project]]\nname = \"shop\"\ncgroup = \"/isthmus-far*/**\"\n";
/// An ordinary user, who needs no entry anywhere.
const USER: u32 = 64_001;
/// Connections of a pair.
pub(crate) const COUNT: u32 = 6;

/// What is changed in a container's configuration that follows the guide; `$name` is the container's.
pub(crate) struct Recipe<'a> {
    pub(crate) edit: &'a str,
    /// Who runs runc.
    pub(crate) user: Option<u32>,
}

/// In a user namespace of its own, with the default profile, and 32 MiB.
const HARDENED: &str = r#"(if $name == "server" then 100000 else 200000 end) as $first
    | .linux.namespaces += [{type: "user"}]
    | .linux.uidMappings = [{containerID: 0, hostID: $first, size: 65536}]
    | .linux.gidMappings = .linux.uidMappings
    | .linux.resources.memory = {limit: 33554432}
    | .linux.seccomp = $profile[0]
    | .mounts |= map(select(.destination | startswith("/sys") | not))"#;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// (What starts without root stays in the cgroup in which it is started.)
fn join(field: &Field) -> String {
    let own = field.cgroup.join("own");
    format!("mkdir -p {0}; echo $$ > {0}/cgroup.procs", own.display())
}

/// What both ends say of themselves, the server's first.
fn said(field: &Field, guide: Running, what: &str) -> [Counts; 2] {
    let text = |name: &str| std::fs::read_to_string(field.at(name)).unwrap_or_default();
    let all = || format!("server: {}client: {}", text("server.said"), text("client.said"));
    let outcome = guide.finish(LIMIT);
    let daemon = field.daemon.as_ref().map(|daemon| daemon.output().err).unwrap_or_default();
    assert!(outcome.ok(), "{what}: {outcome}{}{daemon}", all());
    ["server.said", "client.said"].map(|name| {
        let text = text(name);
        let line = text
            .lines()
            .find(|line| line.starts_with("memory "))
            .unwrap_or_else(|| panic!("{what}: {}", all()));
        let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [memory, tcp, wrong] = numbers[..] else { panic!("{line}") };
        Counts { memory, tcp, wrong }
    })
}

/// A command in a shell with what the guide's blocks expect around it.
fn shell(field: &Field, image: &Image, text: &str) -> Command {
    let shim = field.scratch.dir("shim");
    let ismd = field.dist.tool("ismd");
    // (Where this daemon's socket is.)
    let asks = format!("#!/bin/sh\nexec {} --socket {} \"$@\"\n", ismd.display(), field.socket().display());
    std::fs::write(shim.join("ismd"), asks).expect("written");
    must(&format!("chmod +x {}/ismd", shim.display()));
    let netns = field.scratch.dir("netns");
    for (name, namespace) in ["server", "client"].iter().zip(&field.namespaces) {
        let _ = std::os::unix::fs::symlink(Path::new("/run/netns").join(namespace), netns.join(name));
    }
    let path = format!("{}:{}", shim.display(), std::env::var("PATH").unwrap_or_default());
    let program = if image.has_python { "python3 /ends.py" } else { "/ends" };
    let end = |role: &str| format!("{program} {role} 10.5.0.1 7000 {COUNT} n");
    let mut command = Command::new("sh");
    command.arg("-euc").arg(text).current_dir(field.scratch.path());
    command.env("PATH", path).env("IMAGE", &image.root).env("CGROUP", cgroup(field)).env("NETNS", &netns);
    command.env("SERVER", end("server")).env("CLIENT", end("client"));
    command.env("NAMESPACES", field.namespaces.join(" ")).env("SCRATCH", field.scratch.path());
    command.env_remove("LD_PRELOAD").env_remove("SMC_REGISTRY_DIR");
    command
}

/// What runc knows of two containers, by the beginning of a command and their names; it goes with the value.
struct Containers(String);

impl Drop for Containers {
    fn drop(&mut self) {
        does(&format!("{0}-server; {0}-client", self.0));
    }
}

/// Two containers that follow the guide, but for what is changed.
pub(crate) fn pair(field: &Field, image: &Image, recipe: &Recipe<'_>, what: &str) -> [Counts; 2] {
    let guide = blocks("sh");
    let (container, _) = guide.split_once("container server").expect("the function, then its use");
    let run = match recipe.user {
        None => "runc run --bundle $name $id-$name".to_string(),
        Some(user) => format!(
            "nsenter --net=/run/netns/$namespace setpriv --reuid {user} --regid {user} --clear-groups \
             env XDG_RUNTIME_DIR=$SCRATCH/home runc --root $SCRATCH/home run --bundle $name $id-$name"
        ),
    };
    let id = format!("isthmus{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let text = format!(
        r#"{container}
        jq '{AS_RUNC_HAS_IT}' {PROFILE} > profile.json 2> /dev/null || echo null > profile.json
        [ -e answers.json ] || echo null > answers.json
        mkdir -p home; rm -rf server client server.said client.said
        {owner}
        id={id}
        edited() {{
            container "$@"
            jq --slurpfile profile profile.json --slurpfile answers answers.json --arg name "$1" \
                --argjson user {user} "$PATIENT | $EDIT" "$1/config.json" > "$1/changed.json"
            mv "$1/changed.json" "$1/config.json"
        }}
        edited server $SERVER
        edited client $CLIENT
        set -- $NAMESPACES
        name=server namespace=$1
        {run} > server.said 2>&1 &
        until grep -q listens server.said; do sleep 0.1; kill -0 $!; done
        name=client namespace=$2
        {run} > client.said 2>&1
        wait $!
        "#,
        owner = recipe
            .user
            .map_or(String::new(), |user| { format!("{}; chown {user}:{user} home .", join(field)) }),
        user = recipe.user.unwrap_or(0),
    );
    let home = field.at("home");
    let root = recipe.user.map_or(String::new(), |_| format!("--root {}", home.display()));
    let _containers = Containers(format!("runc {root} delete --force {id}"));
    let mut command = shell(field, image, &text);
    command.env("EDIT", recipe.edit).env("PATIENT", r#".process.env += ["SMC_ISMD_PATIENCE=20000"]"#);
    said(field, Running::start(&mut command, field.scratch.path(), "recipe"), what)
}

/// A field, and a guard of what is left of its containers; `None`, and a word, where something is missing.
pub(crate) fn field(name: &str, policy: &'static str, needed: &[&str]) -> Option<(Field, Groups)> {
    let missing: Vec<_> = needed.iter().filter(|program| installed(&[program]).is_none()).collect();
    if !missing.is_empty() {
        println!("skipped: {missing:?} not installed");
        return None;
    }
    let field = Field::new(name, policy)?;
    let groups = Groups(cgroup(&field));
    Some((field, groups))
}

fn has_profile() -> bool {
    let has = cfg!(target_arch = "x86_64") && Path::new(PROFILE).exists();
    if !has {
        println!("without the default profile of system calls: no {PROFILE}");
    }
    has
}

#[test]
fn a_hardened_container_exchanges_by_memory_with_glibc_and_with_musl() {
    let Some((field, _groups)) = field("far-hard", SHOP, &["runc", "jq"]) else { return };
    has_profile();
    let recipe = Recipe { edit: HARDENED, user: None };
    let glibc = Image::with_glibc(field.at("glibc"));
    assert_eq!(pair(&field, &glibc, &recipe, "glibc"), [ALL_BY_MEMORY(COUNT); 2]);
    let Some(musl) = Image::with_musl(field.at("musl")) else { return };
    assert_eq!(pair(&field, &musl, &recipe, "musl"), [ALL_BY_MEMORY(COUNT); 2]);
}

#[test]
fn the_same_number_in_two_containers_is_two_users_unless_the_policy_says_otherwise() {
    let Some((field, _groups)) = field("far-number", "", &["runc", "jq"]) else { return };
    let image = Image::with_glibc(field.at("image"));
    // (In two user namespaces the kernel counts two users, too: the same one of the host's is shown here.)
    let same = HARDENED.replace("then 100000 else 200000", "then 100000 else 100000");
    for (edit, what) in [(".", "one user namespace"), (HARDENED, "two"), (&same, "two of the same numbers")] {
        let counts = pair(&field, &image, &Recipe { edit, user: None }, what);
        assert_eq!(counts, [ALL_BY_TCP(COUNT); 2], "{what}");
    }
}

#[test]
fn containers_of_a_user_who_is_not_root_exchange_by_memory() {
    let Some((field, _groups)) = field("far-rootless", SHOP, &["runc", "jq", "setpriv", "nsenter"]) else {
        return;
    };
    let edit = blocks("jq");
    let recipe = Recipe { edit: &edit, user: Some(USER) };
    let glibc = Image::with_glibc(field.at("glibc"));
    assert_eq!(pair(&field, &glibc, &recipe, "glibc"), [ALL_BY_MEMORY(COUNT); 2]);
}

/// Two containers by podman, which knows the specification, with storage and a /etc of their own.
fn by_podman(field: &Field, image: &Image, user: Option<u32>) -> [Counts; 2] {
    let (engine, more) = match user {
        None => (String::new(), "--user 1000 --pids-limit 16 --memory 48m --cgroup-parent $CGROUP"),
        Some(user) => (format!("setpriv --reuid {user} --regid {user} --clear-groups"), ""),
    };
    let text = format!(
        r#"mkdir -p etc home
        mount -t tmpfs isthmus etc
        mkdir etc/upper etc/work
        mount -t overlay isthmus -o lowerdir=/etc,upperdir=$SCRATCH/etc/upper,workdir=$SCRATCH/etc/work /etc
        mkdir -p /etc/cdi
        ismd --print-cdi > /etc/cdi/isthmus.json
        {joined}
        find home "$IMAGE" -path "$IMAGE/usr" -prune -o -exec chown -h {user}:{user} {{}} +
        run() {{
            namespace=$1
            shift
            nsenter --net=/run/netns/$namespace {engine} \
                env HOME=$SCRATCH/home XDG_RUNTIME_DIR=$SCRATCH/home \
                podman --runtime runc --root $SCRATCH/home/storage --runroot $SCRATCH/home/run \
                --tmpdir $SCRATCH/home/tmp --cgroup-manager cgroupfs --events-backend none \
                run --rm --device isthmus/smc=host --network host --read-only --cap-drop all \
                --security-opt no-new-privileges --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 {more} \
                --env SMC_ISMD_PATIENCE=20000 --rootfs "$IMAGE" "$@"
        }}
        set -- $NAMESPACES
        run $1 $SERVER > server.said 2>&1 &
        until grep -q listens server.said; do sleep 0.1; kill -0 $!; done
        run $2 $CLIENT > client.said 2>&1
        wait $!
        "#,
        joined = join(field),
        user = user.unwrap_or(0),
    );
    let inner = shell(field, image, &text);
    // (What is mounted goes with the shell.)
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(inner.get_program()).args(inner.get_args());
    command.current_dir(field.scratch.path());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    said(field, Running::start(&mut command, field.scratch.path(), "podman"), "podman")
}

#[test]
fn podman_as_root_exchanges_by_memory() {
    let Some((field, _groups)) = field("far-podman", SHOP, &["podman", "runc", "nsenter"]) else { return };
    let image = Image::with_glibc(field.at("image"));
    assert_eq!(by_podman(&field, &image, None), [ALL_BY_MEMORY(COUNT); 2]);
}

#[test]
fn podman_without_root_exchanges_by_memory() {
    let needed = ["podman", "runc", "nsenter", "setpriv"];
    let Some((field, _groups)) = field("far-podless", SHOP, &needed) else { return };
    let image = Image::with_glibc(field.at("image"));
    assert_eq!(by_podman(&field, &image, Some(USER)), [ALL_BY_MEMORY(COUNT); 2]);
}
