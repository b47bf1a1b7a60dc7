//! What the numbers were measured on. Read once, at the start; whatever cannot be read is left out, not guessed.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// This host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// As /proc/cpuinfo calls it.
    pub(crate) cpu: Option<String>,
    /// CPUs that this process may use.
    pub(crate) cpus: usize,
    /// CPUs online.
    pub(crate) cpus_online: Option<usize>,
    /// Name of the hypervisor or "yes"; None on bare metal, or where nobody can tell.
    pub(crate) virtualised: Option<String>,
    /// Release of the kernel.
    pub(crate) kernel: Option<String>,
    /// Name of the distribution.
    pub(crate) system: Option<String>,
    /// Bytes of memory.
    pub(crate) memory_bytes: Option<u64>,
    /// Frequency governor of the first CPU.
    pub(crate) governor: Option<String>,
    /// Whether a battery is being used up.
    #[serde(default)]
    pub(crate) on_battery: bool,
    /// Load averages of 1, 5 and 15 minutes at the start.
    pub(crate) load: Option<[f64; 3]>,
}

impl Machine {
    /// Looks at this one.
    pub(crate) fn read() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cpus, ..Self::read_under(Path::new("/")) }
    }

    fn read_under(root: &Path) -> Self {
        let file = |name: &str| std::fs::read_to_string(root.join(name)).ok();
        let line = |name: &str| file(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let cpuinfo = file("proc/cpuinfo").unwrap_or_default();
        let supplies = std::fs::read_dir(root.join("sys/class/power_supply")).into_iter().flatten().flatten();
        let is_used_up = |file| std::fs::read_to_string(file).is_ok_and(|text| text.trim() == "Discharging");
        Self {
            cpu: cpu(&cpuinfo),
            cpus: 0,
            cpus_online: file("proc/stat").and_then(|text| online(&text)),
            virtualised: hypervisor(&cpuinfo, &line),
            kernel: line("proc/sys/kernel/osrelease"),
            system: file("etc/os-release").and_then(|text| system(&text)),
            memory_bytes: file("proc/meminfo").and_then(|text| memory(&text)),
            governor: line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            on_battery: supplies.map(|supply| supply.path().join("status")).any(is_used_up),
            load: file("proc/loadavg").and_then(|text| load(&text)),
        }
    }

    /// In a sentence's length.
    pub(crate) fn sentence(&self) -> String {
        let unknown = || "an unknown CPU".to_owned();
        let mut parts = vec![format!("{} x {}", self.cpus, self.cpu.clone().unwrap_or_else(unknown))];
        if let Some(online) = self.cpus_online.filter(|online| *online != self.cpus) {
            parts.push(format!("{online} CPUs online"));
        }
        parts.push(match self.virtualised.as_deref() {
            Some("yes") => "virtual machine".into(),
            Some(name) => format!("virtual machine ({name})"),
            None => "no hypervisor seen".into(),
        });
        parts
            .extend(self.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)));
        parts.extend(self.kernel.as_ref().map(|kernel| format!("Linux {kernel}")));
        parts.extend(self.system.clone());
        parts.extend(self.governor.as_ref().map(|governor| format!("governor {governor}")));
        parts.extend(self.on_battery.then(|| "on battery".into()));
        parts.extend(
            self.load.map(|[one, five, fifteen]| format!("load {one} {five} {fifteen} at the start")),
        );
        parts.join(", ")
    }
}

/// The value of `key: value` in one of the tables of /proc.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// x86 says "model name", s390 "vendor_id" and a machine type per processor; arm64 numbers only.
fn cpu(cpuinfo: &str) -> Option<String> {
    if let Some(name) = value(cpuinfo, "model name").or_else(|| value(cpuinfo, "Model")) {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let processor = value(cpuinfo, "processor 0")?;
    let machine = processor.split(',').find_map(|part| part.trim().strip_prefix("machine = "))?;
    Some(format!("{} machine {machine}", value(cpuinfo, "vendor_id").unwrap_or("IBM/S390")))
}

fn hypervisor(cpuinfo: &str, line: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let flags = value(cpuinfo, "flags").unwrap_or_default();
    let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let product = || line("sys/class/dmi/id/product_name").filter(|_| is_virtual);
    let s390 = || {
        let sysinfo = line("proc/sysinfo")?;
        value(&sysinfo, "VM00 Control Program").map(str::to_owned)
    };
    line("sys/hypervisor/type").or_else(product).or_else(s390).or_else(|| is_virtual.then(|| "yes".into()))
}

/// A line of their sum, then one of each that is online.
fn online(stat: &str) -> Option<usize> {
    stat.lines().filter(|line| line.starts_with("cpu")).count().checked_sub(1)
}

fn system(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn memory(meminfo: &str) -> Option<u64> {
    let kib: u64 = value(meminfo, "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn load(loadavg: &str) -> Option<[f64; 3]> {
    let numbers: Vec<f64> = loadavg.split_whitespace().take(3).filter_map(|text| text.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Machine {
        let root = tempfile::tempdir().expect("a folder for tests");
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        Machine::read_under(root.path())
    }

    #[test]
    fn a_virtual_pc_describes_itself() {
        let pc = machine(&[
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD  EPYC\nflags\t\t: fpu hypervisor lm\n"),
            ("sys/class/dmi/id/product_name", "KVM Virtual Machine\n"),
            ("proc/sys/kernel/osrelease", "6.18.5\n"),
            ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n"),
            ("proc/stat", "cpu  5 0\ncpu0 1 0\ncpu1 1 0\ncpu2 1 0\ncpu3 1 0\ncpu8 1 0\nintr 7\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/class/power_supply/BAT0/status", "Discharging\n"),
            ("proc/loadavg", "0.10 0.20 0.30 1/100 4711\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
        ]);
        assert_eq!(
            Machine { cpus: 4, ..pc }.sentence(),
            "4 x AMD EPYC, 5 CPUs online, virtual machine (KVM Virtual Machine), 8.0 GiB, Linux 6.18.5, \
             Debian GNU/Linux 12, governor performance, on battery, load 0.1 0.2 0.3 at the start"
        );
    }

    #[test]
    fn a_mainframe_guest_describes_itself() {
        let z = machine(&[
            (
                "proc/cpuinfo",
                "vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 1,  machine = 3931\n",
            ),
            ("proc/sysinfo", "Manufacturer: IBM\nVM00 Control Program: z/VM    7.3.0\n"),
        ]);
        assert_eq!(z.cpu.as_deref(), Some("IBM/S390 machine 3931"));
        assert_eq!(z.virtualised.as_deref(), Some("z/VM    7.3.0"));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(machine(&[]), Machine::default());
        let sentence = Machine { cpus: 2, ..Machine::default() }.sentence();
        assert_eq!(sentence, "2 x an unknown CPU, no hypervisor seen");
    }

    #[test]
    fn this_machine_has_cpus_and_a_kernel() {
        let here = Machine::read();
        assert!(here.cpus > 0 && here.kernel.is_some());
    }
}
