//! The page as a browser shows it: something is drawn, in both colour schemes, and the console stays silent. Where there
//! is no headless Chromium the test says so and passes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{emit, example};

/// Names under which distributions install it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// A screenshot takes two seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A drawing with letters has thousands of colours, since edges are smoothed; an empty page has one.
const COLOURS: usize = 100;

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    places.find(|program| program.is_file())
}

/// What the browser made of a page.
struct Shown {
    /// RGB of each pixel.
    pixels: Vec<[u8; 3]>,
    /// What it wrote to its console: errors of the page, and requests that the page's policy forbids.
    console: Vec<String>,
}

/// Shows `page` with `options` in a browser that has nothing but `folder`.
fn show(browser: &Path, folder: &Path, page: &str, options: &[&str]) -> Shown {
    let (file, shot, log) = (folder.join("page.html"), folder.join("shot.png"), folder.join("log"));
    fs::write(&file, page).expect("a page can be written");
    let mut command = Command::new(browser);
    command
        .args("--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-breakpad".split(' '));
    command.args(["--enable-logging=stderr", "--hide-scrollbars", "--window-size=1200,2400"]).args(options);
    command.arg(format!("--user-data-dir={}", folder.join("data").display()));
    command.arg(format!("--screenshot={}", shot.display())).arg(format!("file://{}", file.display()));
    for variable in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, folder);
    }
    command.env("DBUS_SESSION_BUS_ADDRESS", "disabled:").stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(&log).expect("a log can be written"));
    let mut child = command.spawn().expect("the browser starts");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("it is our child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("it still runs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = fs::read_to_string(&log).expect("a log");
    let pixels = pixels(&shot).unwrap_or_else(|| panic!("no screenshot: {log}"));
    let console = log.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    Shown { pixels, console }
}

fn pixels(file: &Path) -> Option<Vec<[u8; 3]>> {
    let mut reader =
        png::Decoder::new(std::io::BufReader::new(fs::File::open(file).ok()?)).read_info().ok()?;
    let mut bytes = vec![0; reader.output_buffer_size()?];
    let frame = reader.next_frame(&mut bytes).ok()?;
    let samples = frame.color_type.samples();
    Some(bytes[..frame.buffer_size()].chunks(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect())
}

#[test]
fn a_browser_draws_every_page_in_light_and_dark_and_has_nothing_to_complain_of() {
    let Some(browser) = chromium() else {
        eprintln!("no headless Chromium here: the pages were not looked at");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for tests");
    let schemes = [
        ("--blink-settings=preferredColorScheme=1", true),
        ("--blink-settings=preferredColorScheme=0", false),
    ];
    for (study, (scheme, is_light)) in [example::compared(), example::troubled()].iter().zip(schemes) {
        let shown = show(&browser, folder.path(), &emit(study).expect("a page"), &[scheme]);
        let colours: BTreeSet<&[u8; 3]> = shown.pixels.iter().collect();
        assert!(colours.len() > COLOURS, "{}: {} colours", study.title, colours.len());
        assert_eq!(shown.console, Vec::<String>::new(), "{}", study.title);
        let paper = shown.pixels[0];
        assert_eq!(paper.iter().all(|part| *part > 128), is_light, "paper is {paper:?}");
    }
    // What would be seen if a page asked for more than itself: this test can fail.
    let page = emit(&example::compared()).expect("a page");
    let asking = page.replace("<main>", "<main><img src=\"http://127.0.0.1:9/x.png\" alt=\"\">");
    let shown = show(&browser, folder.path(), &asking, &[]);
    assert!(shown.console.iter().any(|line| line.contains("Content Security Policy")), "{:?}", shown.console);
}
