//! Programs built with AddressSanitizer, whose runtime wants to come first, and with ThreadSanitizer, whose
//! runtime looks at every copy that libc makes.

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

/// A thread for each connection, and all of them by the same slot, one after the other.
const THREADS: &str = r#"
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static void *serve(void *fd) {
    char text[256];
    ssize_t got;
    while ((got = read((int)(long)fd, text, sizeof text)) > 0) write((int)(long)fd, text, got);
    close((int)(long)fd);
    return 0;
}
int main(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    bind(l, (struct sockaddr *)&at, len);
    listen(l, 1);
    getsockname(l, (struct sockaddr *)&at, &len);
    pid_t client = fork();
    for (int i = 0; i < 20 && client == 0; i++) {
        char text[256] = "";
        int c = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c, (struct sockaddr *)&at, len)) _exit(1);
        for (int k = 0; k < 20; k++)
            if (write(c, text, 256) != 256 || recv(c, text, 256, MSG_WAITALL) != 256) _exit(2);
        close(c);
    }
    if (client == 0) _exit(0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, serve, (void *)(long)accept(l, 0, 0));
        pthread_detach(thread);
    }
    int status;
    waitpid(client, &status, 0);
    printf("client %d\n", status);
    return 0;
}
"#;

#[test]
fn a_program_with_thread_sanitizer_is_told_of_no_race_of_ours() {
    let compiler = installed(&["gcc"]);
    let (Some(compiler), true) = (compiler, Mode::wanted().contains(&Mode::Smc)) else {
        println!("skipped: no gcc, or plain TCP alone is tested");
        return;
    };
    let bed = Bed::new("threads", Mode::Smc);
    let (source, program) = (bed.scratch.file("program.c", THREADS), bed.scratch.path().join("program"));
    let mut build = Command::new(compiler);
    build.args(["-fsanitize=thread", "-pthread", "-w", "-o"]).arg(&program).arg(&source);
    // (Its runtime wants addresses of its own, which not every kernel leaves free.)
    let runs = build.status().is_ok_and(|status| status.success())
        && Command::new(&program).output().is_ok_and(|output| output.status.success());
    if !runs {
        println!("skipped: gcc has no such sanitizer here");
        return;
    }
    let outcome = bed.run(&mut bed.server(&program), "program", Duration::from_secs(60));
    assert_eq!(outcome.must("a sanitized program").out, "client 0\n");
    assert!(bed.handshakes() > 0, "not over shared memory: {}", bed.connections());
}
