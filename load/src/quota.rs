//! A part of the processors for one process, without containers: what a small machine would do with the server.
//!
//! The process is put into a control group of its own, version 2 or else 1; where neither may be made, systemd is asked for a scope.
//! Without any of them whole processors are had by affinity, which is said, because it is something else; all else is refused with
//! the reasons.
//!
//! The group is taken away by a helper that waits until the end of a pipe, which the kernel closes however this program ends: so
//! nothing is left of it after a crash either, and there is one way of cleaning up.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Over which the kernel gives a group its share, once each; microseconds.
pub const PERIOD_US: u64 = 100_000;

/// The script that runs when the pipe ends: processes go back to where they were, and the group is removed.
const TAKE_AWAY: &str = r#"
trap '' INT TERM HUP
read -r _
for try in $(seq 300); do
    for process in $(cat "$1/cgroup.procs"); do echo "$process" > "$2/cgroup.procs"; done
    rmdir "$1" && exit 0
    sleep 0.1
done
"#;

/// A mechanism that gives a process so many processors, or why it cannot.
type Mechanism = fn(u32, f64) -> Result<Quota, String>;

/// A part of the processors, until it is dropped.
#[derive(Debug)]
pub struct Quota {
    /// By what it is held.
    pub mechanism: &'static str,
    group: Option<Group>,
}

/// A control group and its helper.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    helper: Child,
}

impl Quota {
    /// Gives a process so many processors, a part of one or several.
    ///
    /// # Errors
    /// Why no mechanism can, each with its reason.
    pub fn set(process: u32, cpus: f64) -> Result<Self, String> {
        let mechanisms: [Mechanism; 4] = [version_2, version_1, scope, affinity];
        let mut reasons = Vec::new();
        for mechanism in mechanisms {
            match mechanism(process, cpus) {
                Ok(quota) => return Ok(quota),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("; "))
    }

    /// In how many periods the process had used up its share; none where nobody counts.
    pub fn throttled_periods(&self) -> Option<u64> {
        let text = fs::read_to_string(self.group.as_ref()?.folder.join("cpu.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse().ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its standard input is the pipe: at its end it takes the group away.
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}

impl Group {
    /// A new group below another one, with a process in it, which goes back to its home in the end. The helper is there before the process is, so that a crash leaves nothing.
    fn below(
        parent: &Path,
        home: &Path,
        process: u32,
        set: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<Self, String> {
        let folder = parent.join(format!("strata-load-{process}"));
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(failed)?;
        let mut helper = Command::new("sh");
        helper.arg("-c").arg(TAKE_AWAY).arg("sh").arg(&folder).arg(home);
        let helper = spawn_helper(&mut helper).inspect_err(|_| drop(fs::remove_dir(&folder))).map_err(failed)?;
        let group = Self { folder: folder.clone(), helper };
        set(&folder).map_err(failed)?;
        fs::write(folder.join("cgroup.procs"), process.to_string()).map_err(failed)?;
        Ok(group)
    }
}

/// Starts a helper that waits for the end of a pipe, in a process group of its own: Ctrl-C is not for it.
pub fn spawn_helper(helper: &mut Command) -> std::io::Result<Child> {
    helper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

fn quota_us(cpus: f64) -> u64 {
    (cpus * PERIOD_US as f64).round() as u64
}

/// Where a hierarchy is mounted, and where in it the process is.
fn place(process: u32, kind: &str, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let has = controller
            .is_none_or(|name| fields.get(3).is_some_and(|options| options.split(',').any(|one| one == name)));
        (fields.get(2) == Some(&kind) && has).then(|| PathBuf::from(fields[1]))
    })?;
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let has = controller.map_or(controllers.is_empty(), |name| controllers.split(',').any(|one| one == name));
        has.then(|| path.trim_start_matches('/').to_owned())
    })?;
    let group = mount.join(path);
    Some((mount, group))
}

/// `cpu.max`. A group with processes in it gives no share to groups below, so the new one may have to stand beside it or higher.
fn version_2(process: u32, cpus: f64) -> Result<Quota, String> {
    let (mount, group) = place(process, "cgroup2", None).ok_or("cgroup v2: not mounted")?;
    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|name| name == "cpu") {
        return Err("cgroup v2: without the controller of processors".to_owned());
    }
    let limit = format!("{} {PERIOD_US}", quota_us(cpus));
    let mut reason = String::new();
    for parent in group.ancestors().take_while(|parent| parent.starts_with(&mount)) {
        // It may be there already, or not be ours to give; then the limit below fails, and says why.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+cpu");
        match Group::below(parent, &group, process, |folder| write_existing(&folder.join("cpu.max"), &limit)) {
            Ok(group) => return Ok(Quota { mechanism: "cgroup v2", group: Some(group) }),
            Err(why) => reason = why,
        }
    }
    Err(format!("cgroup v2: {reason}"))
}

/// `cpu.cfs_quota_us`.
fn version_1(process: u32, cpus: f64) -> Result<Quota, String> {
    let (_, parent) = place(process, "cgroup", Some("cpu")).ok_or("cgroup v1: not mounted")?;
    let group = Group::below(&parent, &parent, process, |folder| {
        write_existing(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
        write_existing(&folder.join("cpu.cfs_quota_us"), &quota_us(cpus).to_string())
    });
    group.map(|group| Quota { mechanism: "cgroup v1", group: Some(group) }).map_err(|why| format!("cgroup v1: {why}"))
}

/// Files of the kernel are there or not; none is made.
fn write_existing(file: &Path, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// A scope of systemd around the process, which ends with it.
fn scope(process: u32, cpus: f64) -> Result<Quota, String> {
    let own = if rustix::process::geteuid().is_root() { "--system" } else { "--user" };
    let share_us = quota_us(cpus) * 1_000_000 / PERIOD_US;
    let object = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"];
    let mut ask = Command::new("busctl");
    ask.args([own, "call"]).args(object).args(["StartTransientUnit", "ssa(sv)a(sa(sv))"]);
    ask.args([&format!("strata-load-{process}.scope"), "fail", "2", "PIDs", "au", "1", &process.to_string()]);
    ask.args(["CPUQuotaPerSecUSec", "t", &share_us.to_string(), "0"]);
    match ask.output() {
        Ok(said) if said.status.success() => Ok(Quota { mechanism: "systemd", group: None }),
        Ok(said) => Err(format!("systemd: {}", String::from_utf8_lossy(&said.stderr).trim())),
        Err(error) => Err(format!("systemd: {error}")),
    }
}

/// Whole processors, the last of those that the process may use.
fn affinity(process: u32, cpus: f64) -> Result<Quota, String> {
    let failed = |error: rustix::io::Errno| format!("affinity: {error}");
    if cpus.fract() != 0.0 {
        return Err(format!("affinity: {cpus} is no number of whole processors"));
    }
    let allowed = sched_getaffinity(Pid::from_raw(process as i32)).map_err(failed)?;
    let mut chosen = CpuSet::new();
    let processors = (0..CpuSet::MAX_CPU).rev().filter(|processor| allowed.is_set(*processor));
    processors.take(cpus as usize).for_each(|processor| chosen.set(processor));
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_err(|error| format!("affinity: {error}"))?;
    for thread in threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()) {
        sched_setaffinity(Pid::from_raw(thread), &chosen).map_err(failed)?;
    }
    Ok(Quota { mechanism: "affinity, whole processors", group: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nobody may make groups there is nothing to try; the reason is there then.
    fn quota(process: u32, cpus: f64) -> Option<Quota> {
        let set = Quota::set(process, cpus);
        if let Err(reason) = &set {
            assert!(reason.contains("cgroup v2: ") && reason.contains("cgroup v1: ") && reason.contains("affinity: "));
        }
        set.ok()
    }

    fn spinning() -> Child {
        Command::new("sh").arg("-c").arg("while :; do :; done").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_share_is_held_and_its_group_is_taken_away() {
        let child = spinning();
        let Some(quota) = quota(child.id(), 0.1) else { return end(child) };
        let Some(folder) = quota.group.as_ref().map(|group| group.folder.clone()) else { return end(child) };
        assert!(fs::read_to_string(folder.join("cgroup.procs")).unwrap().contains(&child.id().to_string()));
        // It wants all of a processor, so it is held back sooner or later.
        while quota.throttled_periods().unwrap() == 0 {
            std::thread::yield_now();
        }
        drop(quota);
        assert!(!folder.exists());
        assert!(Path::new(&format!("/proc/{}", child.id())).exists(), "the process lives on");
        end(child);
    }

    const PROCESS: &str = "STRATA_LOAD_TEST_PROCESS";

    #[test]
    #[ignore = "it is the other process of the next test"]
    fn one_that_crashes() {
        let process = std::env::var(PROCESS).unwrap().parse().unwrap();
        let _quota = Quota::set(process, 0.1);
        std::process::abort();
    }

    #[test]
    fn after_a_crash_nothing_is_left() {
        let child = spinning();
        let Some(set) = quota(child.id(), 0.1) else { return end(child) };
        let Some(folder) = set.group.as_ref().map(|group| group.folder.clone()) else { return end(child) };
        drop(set);
        let name = "quota::tests::one_that_crashes";
        let mut crash = Command::new(std::env::current_exe().unwrap());
        crash.args(["--exact", name, "--ignored"]).env(PROCESS, child.id().to_string()).stdout(Stdio::null());
        assert!(!crash.stderr(Stdio::null()).status().unwrap().success());
        // The helper is on its way.
        while folder.exists() {
            std::thread::yield_now();
        }
        assert!(!fs::read_to_string(folder.parent().unwrap().join("cgroup.procs")).unwrap().is_empty());
        end(child);
    }
}
