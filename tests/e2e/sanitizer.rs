//! Programs built with AddressSanitizer, whose runtime wants to come first.

use isthmus_tests::{Bed, Mode, installed};
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = r#"
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    bind(l, (struct sockaddr *)&at, len);
    listen(l, 1);
    getsockname(l, (struct sockaddr *)&at, &len);
    connect(c, (struct sockaddr *)&at, len);
    int s = accept(l, 0, 0);
    char text[6] = "";
    if (write(c, "hello", 6) != 6 || read(s, text, 6) != 6) return 1;
    puts(text);
    return 0;
}
"#;

#[test]
fn a_program_with_address_sanitizer_starts_and_shares_memory() {
    let compiler = installed(&["gcc"]);
    let (Some(compiler), true) = (compiler, Mode::wanted().contains(&Mode::Smc)) else {
        println!("skipped: no gcc, or plain TCP alone is tested");
        return;
    };
    let bed = Bed::new("sanitizer", Mode::Smc);
    let (source, program) = (bed.scratch.file("program.c", PROGRAM), bed.scratch.path().join("program"));
    let built =
        Command::new(compiler).arg("-fsanitize=address").arg("-o").arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: gcc has no sanitizer here");
        return;
    }
    // (Leaks are looked for by tracing the process, which a container may refuse.)
    let mut command = bed.server(&program);
    let outcome = bed.run(command.env("ASAN_OPTIONS", "detect_leaks=0"), "program", Duration::from_secs(30));
    assert_eq!(outcome.must("a sanitized program").out, "hello\n");
    assert!(bed.handshakes() > 0, "not over shared memory: {}", bed.connections());
}
