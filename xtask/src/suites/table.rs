//! Every suite: where it comes from, how it is run, how its output is read, and what is known of it. A suite
//! more is an entry more. Scripts run in bash, in the suite's source folder, with `$PART` and, for one case
//! alone, `$CASE`.

use super::verdicts::{self, Reader};

/// Where a suite's sources come from.
pub(super) enum Source {
    /// A package that is installed has them.
    Installed,
    /// `apt-get source`.
    Debian(&'static str),
    /// Installed into a virtual environment, `venv`.
    PyPi(&'static str),
    /// A crate and its version, from crates.io.
    Crate(&'static str, &'static str),
}

/// One suite.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// Debian packages that it needs.
    pub(super) packages: &'static [&'static str],
    pub(super) source: Source,
    /// Once, after the sources are there.
    pub(super) build: &'static str,
    /// Prints which versions are tested.
    pub(super) version: &'static str,
    /// Run one after the other, each plain and then enabled.
    pub(super) parts: &'static [&'static str],
    /// So many of them, the first ones, are for CI.
    pub(super) short: usize,
    pub(super) run: &'static str,
    /// One case alone; empty where the runner cannot.
    pub(super) again: &'static str,
    pub(super) reader: Reader,
    /// Seconds that a part may take.
    pub(super) limit: u64,
    /// Cases that differ, by a piece of their names, and what LIMITATIONS.md says of them.
    pub(super) known: &'static [(&'static str, &'static str)],
    /// The least share of connections through shared memory, in percent, and why it is not
    /// [`super::carrier::BAR`].
    pub(super) floor: Option<(u64, &'static str)>,
}

/// What most suites have.
const PLAIN: Suite = Suite {
    name: "",
    packages: &[],
    source: Source::Installed,
    build: "",
    version: "",
    parts: &["all"],
    short: 0,
    run: "",
    again: "",
    reader: verdicts::tap,
    limit: 600,
    known: &[],
    floor: None,
};

const LIBEVENT: &str = "case $PART in epoll) export EVENT_NOPOLL=1 EVENT_NOSELECT=1;; poll) export EVENT_NOEPOLL=1 \
     EVENT_NOSELECT=1;; select) export EVENT_NOEPOLL=1 EVENT_NOPOLL=1;; esac; cd build; exec bin/regress";

/// All of them, cheap ones first.
pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "cpython",
        packages: &["python3", "libpython3.11-testsuite"],
        version: "dpkg-query -W -f 'CPython ${Version}' libpython3.11-testsuite",
        parts: CPYTHON,
        short: 14,
        // (VSOCK connects to itself and waits for ever where a hypervisor has no loopback for it, in plain as
        // well.)
        run: "exec /usr/bin/python3 -m test -v -u network,-urlfetch --timeout 1150 -i '*VSOCK*' $PART",
        again: "exec /usr/bin/python3 -m test -v -u network,-urlfetch --timeout 100 -m \"$CASE\" $PART",
        reader: verdicts::unittest,
        limit: 1200,
        ..PLAIN
    },
    Suite {
        name: "libuv",
        packages: &["cmake", "ninja-build", "gcc"],
        source: Source::Debian("libuv1"),
        build: "mkdir build && cd build && cmake -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo .. && ninja uv_run_tests",
        version: "head -1 debian/changelog | sed 's/;.*//'",
        run: "UV_RUN_AS_ROOT=1 exec build/uv_run_tests",
        again: "UV_RUN_AS_ROOT=1 build/uv_run_tests $CASE && echo ok 1 - $CASE || echo not ok 1 - $CASE",
        ..PLAIN
    },
    Suite {
        name: "libevent",
        packages: &["cmake", "ninja-build", "gcc", "libssl-dev", "python3"],
        source: Source::Debian("libevent"),
        build: "mkdir build && cd build && cmake -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEVENT__DISABLE_MBEDTLS=ON .. \
                && ninja regress",
        version: "head -1 debian/changelog | sed 's/;.*//'",
        parts: &["epoll", "poll", "select"],
        run: LIBEVENT,
        again: "export CASE; case $PART in epoll) export EVENT_NOPOLL=1 EVENT_NOSELECT=1;; poll) export EVENT_NOEPOLL=1 \
                EVENT_NOSELECT=1;; select) export EVENT_NOEPOLL=1 EVENT_NOPOLL=1;; esac; cd build; exec bin/regress $CASE",
        reader: verdicts::tinytest,
        ..PLAIN
    },
    Suite {
        name: "tornado",
        packages: &["python3-venv"],
        source: Source::PyPi("tornado"),
        version: "venv/bin/pip freeze | grep tornado",
        parts: &[
            "iostream_test",
            "httpserver_test",
            "websocket_test",
            "httpclient_test",
            "netutil_test",
            "process_test",
            "simple_httpclient_test",
            "tcpclient_test",
            "tcpserver_test",
            "testing_test",
            "web_test",
            "ioloop_test",
            "asyncio_test",
            "http1connection_test",
            "queues_test",
            "wsgi_test",
        ],
        short: 3,
        run: "ASYNC_TEST_TIMEOUT=60 exec venv/bin/python -m tornado.test.runtests --verbose tornado.test.$PART",
        again: "ASYNC_TEST_TIMEOUT=60 exec venv/bin/python -m tornado.test.runtests --verbose $CASE",
        reader: verdicts::unittest,
        limit: 300,
        ..PLAIN
    },
    Suite {
        name: "twisted",
        packages: &["python3-venv"],
        source: Source::PyPi("twisted pyopenssl service_identity pyhamcrest hypothesis"),
        version: "venv/bin/pip freeze | grep -i twisted",
        parts: &["twisted.internet", "twisted.protocols", "twisted.web", "twisted.conch", "twisted.test"],
        run: "mkdir -p $TMPDIR/t && exec venv/bin/trial --temp-directory=$TMPDIR/t/trial --reporter=verbose $PART",
        again: "mkdir -p $TMPDIR/t && exec venv/bin/trial --temp-directory=$TMPDIR/t/trial --reporter=verbose ${CASE/.py./.}",
        reader: verdicts::trial,
        ..PLAIN
    },
    Suite {
        name: "gevent",
        packages: &["python3-venv"],
        source: Source::PyPi("gevent"),
        version: "venv/bin/pip freeze | grep gevent",
        parts: &[
            "socket",
            "socket_close",
            "socket_errors",
            "socket_ex",
            "socket_send_memoryview",
            "socket_ssl",
            "server",
            "server_pywsgi",
            "pywsgi",
            "select",
            "selectors",
            "ssl",
            "subprocess",
            "signal",
            "os",
            "fileobject",
            "makefile_ref",
            "socketpair",
            "close_backend_fd",
            "ares_host_result",
            "backdoor",
            "greenio",
            "smtpd",
            "httplib",
        ],
        run: "case $PART in smtpd|httplib) m=test__example_echoserver;; *) m=test__$PART;; esac; \
              exec venv/bin/python -m gevent.tests.$m -v",
        reader: verdicts::unittest,
        limit: 200,
        ..PLAIN
    },
    Suite {
        name: "uvloop",
        packages: &["python3-venv", "python3-dev", "gcc"],
        source: Source::PyPi("uvloop aiohttp pyopenssl psutil setuptools cython"),
        build: "venv/bin/pip download -q --no-deps --no-binary uvloop uvloop && tar xf uvloop-*.tar.gz && mv uvloop-*/tests tests",
        version: "venv/bin/pip freeze | grep uvloop",
        parts: &[
            "tests.test_sockets",
            "tests.test_tcp",
            "tests.test_dns",
            "tests.test_pipes",
            "tests.test_process",
            "tests.test_signals",
            "tests.test_unix",
            "tests.test_aiohttp",
            "tests.test_base",
            "tests.test_executors",
            "tests.test_cython",
        ],
        short: 1,
        run: "exec venv/bin/python -m unittest -v $PART",
        again: "exec venv/bin/python -m unittest -v $CASE",
        reader: verdicts::unittest,
        ..PLAIN
    },
    Suite {
        name: "mio",
        source: Source::Crate("mio", "1.2.4"),
        version: "grep -m1 '^version' Cargo.toml",
        build: "cargo test -q --no-run --features os-poll,net,os-ext",
        run: "exec cargo test --features os-poll,net,os-ext -- --test-threads 2",
        reader: verdicts::cargo,
        ..PLAIN
    },
    Suite {
        name: "tokio",
        source: Source::Crate("tokio", "1.54.1"),
        version: "grep -m1 '^version' Cargo.toml",
        // (What it tests with is built on it, and takes another tokio if nobody says so. Linked without
        // symbols: forty programs.)
        build: "rm -f Cargo.lock && printf '\n[patch.crates-io]\ntokio = { path = \".\" }\n' >> Cargo.toml && CARGO_PROFILE_TEST_DEBUG=0 cargo test -q --no-run --features full --test 'tcp_*' --test 'io_*' --test 'net_*' \
                --test buffered --test no_rt --test 'rt_*' --test udp --test 'uds_*' --test unix_shutdown",
        parts: &["tcp_*", "io_*", "net_*", "buffered", "no_rt", "rt_*", "udp", "uds_*", "unix_shutdown"],
        run: "CARGO_PROFILE_TEST_DEBUG=0 exec cargo test --no-fail-fast --features full --test \"$PART\" -- --test-threads 2",
        reader: verdicts::cargo,
        ..PLAIN
    },
    Suite {
        name: "memcached",
        packages: &["gcc", "make", "libevent-dev", "libssl-dev", "perl", "libio-socket-ssl-perl"],
        source: Source::Debian("memcached"),
        // (With UNIX sockets its tests would use nothing else.)
        build: "./configure -q --enable-tls --disable-unix-socket && make -s -j2 memcached memcached-debug sizes testapp timedrun",
        version: "head -1 debian/changelog | sed 's/;.*//'",
        parts: &["tcp", "tls"],
        run: "[ $PART = tcp ] || export SSL_TEST=1; exec prove -j 4 t/",
        again: "[ $PART = tcp ] || export SSL_TEST=1; exec prove $CASE",
        // (A file is a case: how many lines it prints is chance in some.)
        reader: verdicts::prove,
        limit: 1800,
        floor: Some((
            10,
            "maxconns.t opens 2,050 connections to a server whose hard limit is 1,024 descriptors: all but some 200 are TCP",
        )),
        ..PLAIN
    },
    Suite {
        name: "redis",
        packages: &["redis-server", "redis-tools", "tcl"],
        source: Source::Debian("redis"),
        build: "for p in server cli benchmark check-aof check-rdb sentinel; do ln -s /usr/bin/redis-$p src/redis-$p; done",
        version: "head -1 debian/changelog | sed 's/;.*//'",
        parts: &[
            "unit/protocol",
            "unit/auth",
            "unit/networking",
            "unit/pubsub",
            "unit/multi",
            "unit/quit",
            "unit/limits",
            "unit/introspection",
            "unit/obuf-limits",
            "unit/type/list",
            "unit/type/stream",
            "unit/querybuf",
            "unit/wait",
            "unit/shutdown",
            "unit/client-eviction",
            "integration/replication",
            "integration/block-repl",
            "integration/redis-cli",
            "integration/redis-benchmark",
        ],
        short: 2,
        run: "exec tclsh tests/test_helper.tcl --single $PART --clients 1",
        reader: verdicts::redis,
        limit: 300,
        ..PLAIN
    },
    Suite {
        name: "ruby",
        packages: &["ruby", "ruby-dev"],
        source: Source::Debian("ruby3.1"),
        version: "ruby --version",
        parts: &[
            "test/socket",
            "test/net/http",
            "test/net/protocol",
            "test/openssl",
            "test/ruby/test_io.rb",
            "test/ruby/test_process.rb",
            "test/ruby/test_io_buffer.rb",
            "test/fiber",
            "test/drb",
            "test/io/wait",
            "test/io/nonblock",
        ],
        run: "[ -e $PART ] || exit 0; exec ruby -Itool/lib -Itest/lib -Itest tool/test/runner.rb -v $PART",
        again: "exec ruby -Itool/lib -Itest/lib -Itest tool/test/runner.rb -v $PART -n \"${CASE#*#}\"",
        reader: verdicts::ruby,
        ..PLAIN
    },
    Suite {
        name: "perl",
        packages: &["perl"],
        source: Source::Debian("perl"),
        version: "perl -e 'print \"Perl $^V\"'",
        parts: &[
            "dist/IO/t",
            "cpan/Socket/t",
            "cpan/IO-Socket-IP/t",
            "cpan/libnet/t",
            "cpan/HTTP-Tiny/t",
            "dist/Net-Ping/t",
        ],
        run: "d=${PART%/t}; cd $d && exec prove -v -r ./t",
        limit: 300,
        ..PLAIN
    },
    Suite {
        name: "node",
        packages: &["nodejs"],
        source: Source::Debian("nodejs"),
        version: "node --version",
        parts: &[
            "test-net-*",
            "test-http-[a-m]*",
            "test-http-[n-z]*",
            "test-tls-*",
            "test-cluster-*",
            "test-child-process-*",
        ],
        // Each file is a program, whose status is its verdict. The installed node may be newer than the
        // suite; plain shows it.
        run: "for f in test/parallel/$PART.js; do timeout 30 node $f >/dev/null 2>&1 && echo \"ok 1 - $f\" || echo \"not ok 1 - $f\"; done",
        again: "timeout 30 node $CASE && echo \"ok 1 - $CASE\" || echo \"not ok 1 - $CASE\"",
        limit: 1200,
        ..PLAIN
    },
    Suite {
        name: "openjdk",
        packages: &["openjdk-17-jdk-headless", "jtreg7"],
        source: Source::Debian("openjdk-17"),
        // (A gigabyte of which a tenth is needed.)
        build: "find . -mindepth 1 -maxdepth 1 ! -name test ! -name debian -exec rm -rf {} +",
        version: "head -1 debian/changelog | sed 's/;.*//'; java -version 2>&1 | head -1",
        parts: &[
            "java/nio/channels/SocketChannel",
            "java/nio/channels/ServerSocketChannel",
            "java/nio/channels/Selector",
            "java/nio/channels/AsynchronousSocketChannel",
            "java/nio/channels/AsynchronousServerSocketChannel",
            "java/nio/channels/AsynchronousChannelGroup",
            "java/nio/channels/Channels",
            "java/net/Socket",
            "java/net/ServerSocket",
            "java/net/SocketInputStream",
            "java/net/InetSocketAddress",
            "java/net/URLConnection",
            "com/sun/net/httpserver",
        ],
        run: "export JT_JAVA=$(dirname $(dirname $(readlink -f /usr/bin/javac))) && \
              exec jtreg -agentvm -a -ignore:quiet -e:LD_PRELOAD -e:SMC_REGISTRY_DIR -w:$TMPDIR/w -r:$TMPDIR/r -v:summary \
              -jdk:$JT_JAVA test/jdk/$PART",
        again: "export JT_JAVA=$(dirname $(dirname $(readlink -f /usr/bin/javac))) && \
              exec jtreg -agentvm -a -e:LD_PRELOAD -e:SMC_REGISTRY_DIR -w:$TMPDIR/w -r:$TMPDIR/r -v:summary \
              -jdk:$JT_JAVA \"test/jdk/$CASE\"",
        reader: verdicts::jtreg,
        limit: 1200,
        ..PLAIN
    },
    Suite {
        name: "php",
        packages: &["php-cli", "php-curl"],
        source: Source::Debian("php8.2"),
        version: "php -r 'echo \"PHP \", PHP_VERSION;'",
        parts: &[
            "ext/standard/tests/streams",
            "ext/standard/tests/network",
            "ext/standard/tests/http",
            "ext/sockets/tests",
            "ext/openssl/tests",
            "sapi/cli/tests",
            "ext/standard/tests/file/stream*.phpt",
        ],
        run: "TEST_PHP_EXECUTABLE=/usr/bin/php TEST_PHP_CGI_EXECUTABLE= exec php run-tests.php -q --offline --no-color --no-progress $PART",
        again: "TEST_PHP_EXECUTABLE=/usr/bin/php exec php run-tests.php -q --offline --no-color --no-progress $CASE",
        reader: verdicts::php,
        ..PLAIN
    },
];

const CPYTHON: &[&str] = &[
    "test_socket",
    "test_selectors",
    "test_poll",
    "test_epoll",
    "test_socketserver",
    "test_ssl",
    "test_ftplib",
    "test_smtplib",
    "test_poplib",
    "test_imaplib",
    "test_httplib",
    "test_httpservers",
    "test_xmlrpc",
    "test_asyncore",
    "test_select",
    "test_nntplib",
    "test_telnetlib",
    "test_http_cookiejar",
    "test_urllib2_localnet",
    "test_wsgiref",
    "test_asynchat",
    "test_smtpd",
    "test_signal",
    "test_fork1",
    "test_eintr",
    "test_subprocess",
    "test_asyncio.test_base_events",
    "test_asyncio.test_buffered_proto",
    "test_asyncio.test_events",
    "test_asyncio.test_selector_events",
    "test_asyncio.test_sendfile",
    "test_asyncio.test_server",
    "test_asyncio.test_sock_lowlevel",
    "test_asyncio.test_ssl",
    "test_asyncio.test_sslproto",
    "test_asyncio.test_streams",
    "test_asyncio.test_subprocess",
    "test_asyncio.test_unix_events",
    "test_concurrent_futures",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_spawn",
];
