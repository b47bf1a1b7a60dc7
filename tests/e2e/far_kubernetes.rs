//! Kubernetes: the manifest fits the schema, and two containers that got a device of the plugin, by a kubelet
//! that speaks gRPC's own library, exchange by memory.

use crate::containers::Image;
use crate::far::ALL_BY_MEMORY;
use crate::far_recipes::{COUNT, Recipe, SHOP, field, pair};
use crate::support::{LIMIT, python, script};
use isthmus_tests::dist::Dist;
use isthmus_tests::{Running, within};
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/kubernetes/isthmus.yaml");
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/systemd/ismd.service");

/// The kubelet's answer in the place of what the guide has put there.
const AS_AN_ENGINE_DOES: &str = r#"$answers[0][if $name == "server" then 0 else 1 end] as $answer
    | .process.env |= map(select(test("^(LD_PRELOAD|SMC_ISMD)=") | not))
        + [$answer.envs[] | .key + "=" + .value]
    | .mounts |= map(select(.destination | test("isthmus") | not))
        + [$answer.mounts[] | {source: .host_path, destination: .container_path, type: "bind",
            options: ["rbind", if .read_only then "ro" else "rw" end]}]"#;

/// Python with a module; `None`, and a word, without.
fn python_with(module: &str) -> Option<std::path::PathBuf> {
    let python = python()?;
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        println!("skipped: this needs Python's {module}");
        return None;
    }
    Some(python)
}

#[test]
fn the_manifest_for_kubernetes_fits_the_schema() {
    let Some(python) = python_with("kubernetes.client, yaml") else { return };
    let told =
        Command::new(python).arg(script("manifest.py")).args([MANIFEST, UNIT]).output().expect("it starts");
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success() && text == "fits\n", "{text}{}", String::from_utf8_lossy(&told.stderr));
}

#[test]
fn the_image_for_kubernetes_is_made_of_what_is_laid_out() {
    let text =
        std::fs::read_to_string(Path::new(MANIFEST).with_file_name("Containerfile")).expect("it is there");
    let copies = text.lines().filter_map(|line| line.strip_prefix("COPY "));
    let sources: Vec<_> = copies.flat_map(|line| line.rsplit(' ').skip(1)).collect();
    let library = Dist::find().unwrap_or_else(|error| panic!("{error}")).library();
    let root = library.ancestors().nth(2).expect("lib, and what it is in");
    assert!(sources.contains(&"bin/ismd") && sources.contains(&"bin/ismd-device-plugin"));
    for source in sources {
        assert!(root.join(source).is_file(), "{source} is not in {}", root.display());
    }
}

#[test]
fn containers_that_ask_a_kubelet_for_a_device_exchange_by_memory() {
    let Some(python) = python_with("grpc, google.protobuf") else { return };
    let Some((field, _groups)) = field("far-kubelet", SHOP, &["runc", "jq"]) else {
        return;
    };
    let specification =
        Command::new(field.dist.tool("ismd")).arg("--socket").arg(field.socket()).arg("--print-cdi").output();
    let specification = field.scratch.file("cdi.json", specification.expect("it starts").stdout);
    let folder = field.scratch.dir("plugins");
    let start = |program: &Path, arguments: &[&Path], name: &str| {
        Running::start(Command::new(program).args(arguments), field.scratch.path(), name)
    };
    let (cdi, at) = (Path::new("--cdi"), Path::new("--folder"));
    let plugin = start(&field.dist.tool("ismd-device-plugin"), &[cdi, &specification, at, &folder], "plugin");
    let kubelet = start(&python, &[&script("kubelet.py"), &folder, Path::new("2")], "kubelet");
    let answered = kubelet.finish(LIMIT);
    assert!(answered.ok(), "{answered}{}", plugin.output());
    field.scratch.file("answers.json", &answered.out);
    let image = Image::with_glibc(field.at("image"));
    let recipe = Recipe { edit: AS_AN_ENGINE_DOES, user: None };
    assert_eq!(pair(&field, &image, &recipe, "pods"), [ALL_BY_MEMORY(COUNT); 2]);
    plugin.signal(15);
    assert!(plugin.finish(LIMIT).ok());
    assert!(within(LIMIT, || !folder.join("isthmus-smc.sock").exists()), "it took its socket away");
}
