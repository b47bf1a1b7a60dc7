//! Modules that look for functions in libc before they look anywhere else: loaded with RTLD_DEEPBIND, as PHP
//! loads all of its extensions, or taking libc's functions by its handle.

use crate::support::{LIMIT, output, programs, python, same_in_all_modes, script, serve};
use isthmus_tests::{Bed, Mode, free_port, scratch::Scratch};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What moves at least, both ways together.
const PAYLOAD: u64 = 2_000_000;

/// Compiles `source` of the programs as `name`.
fn compile(cc: &Path, dir: &Scratch, name: &str, source: &str, args: &[&str]) -> PathBuf {
    let built = dir.path().join(name);
    let mut command = Command::new(cc);
    command.args(["-O2", "-Wall", "-o"]).arg(&built).arg(script(source)).args(args).current_dir(dir.path());
    let out = command.output().expect("compiler");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    built
}

const MODULE: [&str; 2] = ["-shared", "-fPIC"];

/// The program, compiled, and what else is needed for it.
fn program() -> Option<(PathBuf, Scratch, PathBuf)> {
    let [cc] = programs(["cc"])?;
    let dir = Scratch::new("modules");
    let program = compile(&cc, &dir, "modules", "modules.c", &["-ldl"]);
    Some((cc, dir, program))
}

/// The program has `module` exchange its megabyte, loaded in each way, and gets `sum` from it.
fn exchanges(name: &str, program: &Path, module: &Path, sum: u64) {
    same_in_all_modes(name, |bed| {
        let port = free_port();
        let _server = serve(bed, bed.server(program).args(["serve", &port.to_string()]), port);
        for (how, when) in [("deep", "before"), ("deep", "after"), ("plain", "before"), ("plain", "after")] {
            bed.mark();
            let mut client = bed.client(program);
            client.arg(port.to_string()).arg(module).args([how, when]);
            let text = output(bed, &mut client, "client");
            assert_eq!(text, format!("hello, module {sum}\n"), "{how}, {when}, {:?}", bed.mode);
            bed.assert_carrier(PAYLOAD, &format!("{how}, {when}"));
        }
    });
}

#[test]
fn a_module_that_is_bound_deeply() {
    let Some((cc, dir, program)) = program() else { return };
    let lazy = compile(&cc, &dir, "lazy.so", "module.c", &[&MODULE[..], &["-Wl,-z,lazy"]].concat());
    exchanges("modules-lazy", &program, &lazy, 1_000_000);
    let now = compile(&cc, &dir, "now.so", "module.c", &[&MODULE[..], &["-Wl,-z,now,-z,relro"]].concat());
    exchanges("modules-now", &program, &now, 1_000_000);
}

#[test]
fn a_library_that_a_deeply_bound_module_brings_along() {
    let Some((cc, dir, program)) = program() else { return };
    compile(&cc, &dir, "libinner.so", "module.c", &[&MODULE[..], &["-DNAME=inner"]].concat());
    let args = ["-DOUTER", "-L.", "-linner", "-Wl,-rpath,$ORIGIN"];
    let outer = compile(&cc, &dir, "outer.so", "module.c", &[&MODULE[..], &args].concat());
    exchanges("modules-outer", &program, &outer, 1_000_000);
    // By its bare name it is found where the module says, which glibc asks of who called dlopen.
    let args = ["-DOPENS", "-ldl", "-Wl,-rpath,$ORIGIN"];
    let opens = compile(&cc, &dir, "opens.so", "module.c", &[&MODULE[..], &args].concat());
    exchanges("modules-opens", &program, &opens, 1_000_000);
}

/// A thousand calls of it are counted, however the module is loaded: with RTLD_DEEPBIND it is the module's,
/// without it is the library's, which stands before the module.
#[test]
fn a_send_of_the_modules_own() {
    let Some((cc, dir, program)) = program() else { return };
    let own = compile(&cc, &dir, "own.so", "module.c", &[&MODULE[..], &["-DOWN_SEND"]].concat());
    same_in_all_modes("modules-own", |bed| {
        let port = free_port();
        let _server = serve(bed, bed.server(&program).args(["serve", &port.to_string()]), port);
        bed.mark();
        let mut client = bed.client(&program);
        client.arg(port.to_string()).arg(&own).args(["deep", "before"]);
        let text = output(bed, &mut client, "client");
        assert_eq!(text, "hello, module 1001000\n", "{:?}", bed.mode);
        bed.assert_carrier(PAYLOAD, "");
    });
}

/// Loaded by a library's constructor, before ours has run: nothing can be done about it any more.
#[test]
fn a_module_that_comes_first() {
    let Some((cc, dir, program)) = program() else { return };
    if !Mode::wanted().contains(&Mode::Smc) {
        return println!("skipped: plain TCP alone is tested");
    }
    let module = compile(&cc, &dir, "module.so", "module.c", &MODULE);
    compile(&cc, &dir, "libfirst.so", "first.c", &[&MODULE[..], &["-ldl"]].concat());
    let args = ["-Wl,--no-as-needed", "-L.", "-lfirst", "-Wl,-rpath,$ORIGIN", "-ldl"];
    let early = compile(&cc, &dir, "early", "modules.c", &args);
    let bed = Bed::new("modules-first", Mode::Smc);
    let port = free_port();
    let _server = serve(&bed, bed.server(&program).args(["serve", &port.to_string()]), port);
    for (first, is_shared) in [(Some(&module), false), (None, true)] {
        let before = bed.handshakes();
        let mut client = bed.client(&early);
        client.arg(port.to_string()).arg(&module).args(["plain", "before"]);
        first.map(|first| client.env("FIRST", first));
        let text = output(&bed, &mut client, "client");
        assert_eq!(text, "hello, module 1000000\n");
        assert_eq!(bed.handshakes() > before, is_shared, "{}", bed.connections());
    }
}

/// Another library's send() stands behind ours and may look libc's up at any time: it has to find that, and
/// nothing is shared beside modules that call it past us.
#[test]
fn another_library_behind_this_one() {
    let Some((cc, dir, program)) = program() else { return };
    if !Mode::wanted().contains(&Mode::Smc) {
        return println!("skipped: plain TCP alone is tested");
    }
    let behind = compile(&cc, &dir, "behind.so", "behind.c", &[&MODULE[..], &["-ldl"]].concat());
    let module = compile(&cc, &dir, "module.so", "module.c", &MODULE);
    let mut bed = Bed::new("modules-behind", Mode::Smc);
    let preload = format!("{}:{}", bed.library().expect("enabled").display(), behind.display());
    let port = free_port();
    let _server = serve(&bed, bed.server(&program).args(["serve", &port.to_string()]), port);
    let ways = [("deep", "before", false), ("deep", "after", true), ("plain", "before", true)];
    for (how, when, is_shared) in ways {
        bed.mark();
        let before = bed.handshakes();
        let mut client = bed.plain(&program);
        client.env("LD_PRELOAD", &preload).arg(port.to_string()).arg(&module).args([how, when]);
        let text = bed.run(&mut client, "client", LIMIT).must(how).out;
        assert_eq!(text, "hello, module 1000000\n", "{how}, {when}");
        assert_eq!(bed.handshakes() > before, is_shared, "{how}, {when}: {}", bed.connections());
        // Loaded afterwards, the module finds the connection on TCP again.
        let crossed = bed.crossed().unwrap_or(PAYLOAD);
        assert!(how == "plain" || crossed >= PAYLOAD, "{how}, {when}: {crossed}");
    }
}

#[test]
fn functions_by_the_handle_of_libc() {
    let (Some((_cc, _dir, program)), Some(python)) = (program(), python()) else { return };
    same_in_all_modes("by-handle", |bed| {
        let port = free_port();
        let _server = serve(bed, bed.server(&program).args(["serve", &port.to_string()]), port);
        bed.mark();
        let text =
            output(bed, bed.client(&python).arg(script("by_handle.py")).arg(port.to_string()), "python");
        bed.assert_carrier(PAYLOAD, "");
        text
    });
}

#[test]
fn php_and_one_of_its_extensions() {
    let (Some((_cc, _dir, program)), Some([php])) = (program(), programs(["php"])) else { return };
    let modules = Command::new(&php).arg("-m").output().expect("php");
    if !String::from_utf8_lossy(&modules.stdout).lines().any(|line| line == "sockets") {
        return println!("skipped: php has no extension of sockets");
    }
    same_in_all_modes("php-imported", |bed| {
        let port = free_port();
        let _server = serve(bed, bed.server(&program).args(["serve", &port.to_string()]), port);
        bed.mark();
        let text = output(bed, bed.client(&php).arg(script("imported.php")).arg(port.to_string()), "php");
        bed.assert_carrier(PAYLOAD, "");
        text
    });
}
