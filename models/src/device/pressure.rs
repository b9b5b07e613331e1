//! Whether main memory is about to run out, for this process and everybody else.
//!
//! A system that has no memory left kills a process without warning. There are signs before that: on Linux the available
//! memory and the share of time in which all processes wait for memory (PSI), on macOS a level of pressure, from which its
//! notifications are sent. Deliberately absent: the memory of a GPU, which fails with an error of its own, and what to do.

use std::time::{Duration, Instant};

use super::memory::host;

#[cfg(any(target_os = "linux", test))]
use std::path::Path;

/// How often the system is asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Memory that is still scarce after so long will not come back by itself.
const LASTING: Duration = Duration::from_secs(10);
/// Who holds less than this share of all memory can't make it plenty by giving up some.
const OWN_SHARE: f64 = 0.1;
/// Less than this share of all memory available is scarce.
#[cfg(any(target_os = "linux", test))]
const SCARCE_SHARE: f64 = 0.03;
/// Everybody waiting for memory for more than this share of the last ten seconds is pressure, in percent.
#[cfg(any(target_os = "linux", test))]
const STALLED_PERCENT: f64 = 20.0;

/// Memory is scarce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scarce {
    /// By which figures.
    pub message: String,
    /// Whether it stayed so after unused memory was given back.
    pub is_lasting: bool,
}

/// Asks again and again.
#[derive(Debug, Default)]
pub struct PressureWatch {
    looked: Option<Instant>,
    scarce_since: Option<Instant>,
}

impl PressureWatch {
    /// What there is to say now: once when memory becomes scarce, and once when it stayed so. Costs nothing if asked more
    /// often than once a second.
    pub fn look(&mut self) -> Option<Scarce> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return None;
        }
        self.looked = Some(now);
        let message = scarce();
        let own = message.as_ref().and_then(|_| host().ok());
        let is_ours =
            own.is_none_or(|own| own.used_bytes as f64 > own.total_bytes as f64 * OWN_SHARE);
        self.after(message, is_ours, now)
    }

    fn after(&mut self, message: Option<String>, is_ours: bool, now: Instant) -> Option<Scarce> {
        let Some(message) = message else {
            self.scarce_since = None;
            return None;
        };
        let is_lasting = match self.scarce_since {
            None => false,
            // What others hold is not ours to give up.
            Some(since) if is_ours && now - since >= LASTING => true,
            Some(_) => return None,
        };
        // Whoever is told twice has given back what it can; then the count begins anew.
        self.scarce_since = (!is_lasting).then_some(now);
        Some(Scarce {
            message,
            is_lasting,
        })
    }
}

/// How many processes the system has ended because no memory was left, where it counts them (Linux).
pub fn oom_kills() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let group = number_after(&read(&own_group().join("memory.events")), "oom_kill ");
        let machine = number_after(&read(Path::new("/proc/vmstat")), "oom_kill ");
        group.or(machine).map(|count| count as u64)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn scarce() -> Option<String> {
    scarce_in(Path::new("/proc"), &own_group())
}

/// The folder of this process's control group, in version 2 of the interface.
#[cfg(target_os = "linux")]
fn own_group() -> std::path::PathBuf {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Path::new("/sys/fs/cgroup").join(own.unwrap_or_default())
}

/// What the kernel's files say (Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v2.rst).
#[cfg(any(target_os = "linux", test))]
fn scarce_in(proc: &Path, group: &Path) -> Option<String> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let meminfo = read(&proc.join("meminfo"));
    let kibibytes = |name: &str| number_after(&meminfo, name).map(|it| it * 1024.0);
    let machine = kibibytes("MemAvailable:").zip(kibibytes("MemTotal:"));
    // Of a group's memory, what files are cached in can be taken back.
    let limit = read(&group.join("memory.max")).trim().parse().ok();
    let current: Option<f64> = read(&group.join("memory.current")).trim().parse().ok();
    let stat = read(&group.join("memory.stat"));
    let cached = ["inactive_file", "active_file"];
    let cached: f64 = cached
        .iter()
        .filter_map(|name| number_after(&stat, name))
        .sum();
    let container = limit
        .zip(current)
        .map(|(limit, current): (f64, f64)| (limit - current + cached, limit));
    for (available, total) in [machine, container].into_iter().flatten() {
        if available < total * SCARCE_SHARE {
            let (available, total) = (available / 1e6, total / 1e6);
            return Some(format!("{available:.0} of {total:.0} MB are available"));
        }
    }
    let stalls = [proc.join("pressure/memory"), group.join("memory.pressure")];
    stalls.iter().find_map(|path| {
        let text = read(path);
        let full = text.lines().find(|line| line.starts_with("full "))?;
        let percent: f64 = full
            .split("avg10=")
            .nth(1)?
            .split(' ')
            .next()?
            .parse()
            .ok()?;
        (percent > STALLED_PERCENT)
            .then(|| format!("everything waited for memory {percent:.0} % of the last 10 s"))
    })
}

/// The first number after a name, in lines like `MemTotal:  24 kB`.
#[cfg(any(target_os = "linux", test))]
fn number_after(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(target_os = "macos")]
fn scarce() -> Option<String> {
    /// The last level before the system ends processes: `DISPATCH_MEMORYPRESSURE_CRITICAL`.
    const CRITICAL: libc::c_int = 4;
    let mut level: libc::c_int = 0;
    let mut size = size_of_val(&level);
    // SAFETY: the name ends with a zero byte, and the value and its size are those of an int, as this name has it.
    let failed = unsafe {
        libc::sysctlbyname(
            c"kern.memorystatus_vm_pressure_level".as_ptr(),
            (&raw mut level).cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    (failed == 0 && level >= CRITICAL).then(|| "the system calls it critical".to_owned())
}

/// Windows writes to its page file and refuses when that is full, which is then said by the allocation that failed.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn scarce() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn little_available_and_everybody_waiting_is_scarce_and_cached_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, group) = (folder.path().join("proc"), folder.path().join("group"));
        fs::create_dir_all(proc.join("pressure")).unwrap();
        fs::create_dir_all(&group).unwrap();
        let said = |available: &str, stalled: &str, current: &str| {
            let meminfo =
                format!("MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n");
            fs::write(proc.join("meminfo"), meminfo).unwrap();
            let some = "some avg10=90.00 avg60=0.00 avg300=0.00 total=1";
            let pressure = format!("{some}\nfull avg10={stalled} avg60=0.00 avg300=0.00 total=1\n");
            fs::write(proc.join("pressure/memory"), pressure).unwrap();
            fs::write(group.join("memory.max"), "1000000\n").unwrap();
            fs::write(group.join("memory.current"), current).unwrap();
            fs::write(
                group.join("memory.stat"),
                "anon 5\ninactive_file 300000\nactive_file 100000\n",
            )
            .unwrap();
            scarce_in(&proc, &group)
        };
        assert_eq!(said("500000", "0.00", "999000"), None);
        assert_eq!(
            said("20000", "0.00", "5").unwrap(),
            "20 of 1024 MB are available"
        );
        assert_eq!(
            said("500000", "0.00", "1390000").unwrap(),
            "0 of 1 MB are available"
        );
        assert_eq!(
            said("500000", "45.10", "5").unwrap(),
            "everything waited for memory 45 % of the last 10 s"
        );
        // A system without these files says nothing.
        assert_eq!(scarce_in(Path::new("/none"), Path::new("/none")), None);
    }

    #[test]
    fn scarce_memory_is_said_once_and_again_when_it_lasts() {
        let mut watch = PressureWatch::default();
        let start = Instant::now();
        let mut at = |seconds, is_scarce: bool, is_ours: bool| {
            let message = is_scarce.then(|| "little".to_owned());
            let said = watch.after(message, is_ours, start + Duration::from_secs(seconds));
            said.map(|it| it.is_lasting)
        };
        assert_eq!(at(0, false, true), None);
        assert_eq!(at(1, true, true), Some(false));
        assert_eq!(at(5, true, true), None);
        assert_eq!(at(6, false, true), None);
        assert_eq!(at(7, true, true), Some(false));
        assert_eq!(at(18, true, true), Some(true));
        // What others hold can't be given up.
        assert_eq!(at(19, true, false), Some(false));
        assert_eq!(at(40, true, false), None);
    }
}
