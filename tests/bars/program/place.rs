//! Place: another user, who sits on a name that the registry would have.

use isthmus_tests::sys;

/// Takes a name in a folder that everybody may write to, as `kind` says, and keeps it until this process is
/// killed.
pub(crate) fn squat(kind: &str) -> Result<String, String> {
    let path = std::env::var("BAR_PATH").map_err(|e| format!("BAR_PATH: {e}"))?;
    let made = match kind {
        "link" => std::os::unix::fs::symlink("/dev/zero", &path).map_err(|e| e.to_string()),
        "folder" => std::fs::create_dir(&path).map_err(|e| e.to_string()),
        "fifo" => sys::mkfifo(&path).map(drop).map_err(|e| e.to_string()),
        _ => std::fs::write(&path, [0; 4096]).map_err(|e| e.to_string()),
    };
    made.map_err(|e| format!("{kind}: {e}"))?;
    let lease =
        (kind == "lease").then(|| sys::lease(&path).map_err(|e| format!("lease: {e}"))).transpose()?;
    println!("squatting");
    std::thread::sleep(std::time::Duration::from_secs(600));
    drop(lease);
    Ok(String::new())
}
