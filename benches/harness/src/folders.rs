//! Folders for stores: on a real file system, gone when they are dropped, and gone also after a kill.
//!
//! A store on a memory file system measures memory: it is used only if `STRATA_BENCH_DIR` asks for it by name. A killed process
//! cannot remove its folders, so their names say whose they are (PID namespace, since containers may share a folder; process id; start
//! time, because ids are used again), and every process first sweeps those whose owner no longer lives; so does the runner
//! (`run_benches/scratch.py`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, io, process};

use tempfile::TempDir;

const PREFIX: &str = "strata-bench";

/// A fresh folder for a store. Panics with one clear line if there is no place for it.
pub fn temporary_directory() -> TempDir {
    let root = root().unwrap_or_else(|reason| panic!("no place for stores: {reason}"));
    made_in(root).unwrap_or_else(|error| panic!("no folder for a store in {}: {error}", root.display()))
}

/// A fresh folder on the memory file system that Linux has for programs, if available. The runner removes it after a kill.
pub fn memory_directory() -> Option<TempDir> {
    made_in(Path::new("/dev/shm")).ok()
}

fn made_in(root: &Path) -> io::Result<TempDir> {
    let (pid, started) = (process::id(), started(process::id()).unwrap_or(0));
    tempfile::Builder::new().prefix(&format!("{PREFIX}-{}-{pid}-{started}-", namespace())).tempdir_in(root)
}

/// Bytes of the files in a directory, as their lengths say.
///
/// # Panics
/// If the directory cannot be read.
pub fn size_on_disk(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).and_then(|files| files.map(|file| Ok(file?.metadata()?.len())).sum());
    files.unwrap_or_else(|error: io::Error| panic!("{}: {error}", directory.display()))
}

/// Where stores lie. The first call in a process sweeps it.
pub(crate) fn root() -> Result<&'static Path, &'static str> {
    static ROOT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || find_root().inspect(|root| sweep(root));
    ROOT.get_or_init(find).as_ref().map(PathBuf::as_path).map_err(String::as_str)
}

fn find_root() -> Result<PathBuf, String> {
    let asked = env::var_os("STRATA_BENCH_DIR").map(PathBuf::from);
    if let Some(root) = asked.or_else(|| Some(env::temp_dir()).filter(|system| !in_memory(system))) {
        return Ok(root);
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let root = cache.ok_or("the system's folder is in memory and there is no home; set STRATA_BENCH_DIR")?.join(PREFIX);
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}; set STRATA_BENCH_DIR", root.display()))?;
    if in_memory(&root) {
        return Err(format!("{} is in memory like the system's folder; set STRATA_BENCH_DIR", root.display()));
    }
    Ok(root)
}

fn in_memory(path: &Path) -> bool {
    matches!(file_system(path).as_deref(), Some("tmpfs" | "ramfs"))
}

/// The type of the file system on which `path` lies, as the kernel calls it.
pub(crate) fn file_system(path: &Path) -> Option<String> {
    file_system_in(&fs::read_to_string("/proc/self/mountinfo").ok()?, &path.canonicalize().ok()?)
}

/// Looks `path` up in the lines of `mountinfo` (proc(5)): the deepest mount point above it counts, and of equals the last.
fn file_system_in(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let point = PathBuf::from(place.split(' ').nth(4)?.replace("\\040", " "));
        Some((point, kind.split(' ').next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    above.max_by_key(|(point, _)| point.components().count()).map(|(_, kind)| kind.to_owned())
}

/// Removes the folders of processes that no longer live. What cannot be removed now is left for the next.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let owner = owner(&entry.file_name()).filter(|(owners, ..)| *owners == namespace());
        if owner.is_some_and(|(_, pid, start)| started(pid) != Some(start)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// PID namespace, process id and start time in the name of a folder, if it is one of ours.
fn owner(name: &OsStr) -> Option<(u64, u32, u64)> {
    let mut parts = name.to_str()?.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The number of our PID namespace, in which process ids are valid (namespaces(7)); 0 where it is not known.
fn namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_str().and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()).unwrap_or(0)
}

/// When a process started, in clock ticks since boot: field 22 of its `stat` (proc(5)). `None` = it does not live.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name, in parentheses, and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_what_dead_processes_left() {
        let root = tempfile::tempdir().unwrap();
        let (ours, start) = (process::id(), started(process::id()).unwrap());
        let make = |name: String| {
            let folder = root.path().join(name);
            fs::create_dir_all(folder.join("store")).unwrap();
            folder
        };
        let here = namespace();
        assert_ne!(here, 0);
        let alive = make(format!("{PREFIX}-{here}-{ours}-{start}-a"));
        let reused = make(format!("{PREFIX}-{here}-{ours}-{}-b", start - 1));
        let dead = make(format!("{PREFIX}-{here}-{}-5-c", u32::MAX));
        let elsewhere = make(format!("{PREFIX}-{}-{}-5-d", here + 1, u32::MAX));
        let foreign = make("something-else-1-2-3".to_owned());
        sweep(root.path());
        assert!(alive.exists() && foreign.exists() && elsewhere.exists());
        assert!(!reused.exists() && !dead.exists());
    }

    #[test]
    fn a_folder_goes_when_it_is_dropped() {
        let folder = temporary_directory();
        let path = folder.path().to_owned();
        assert!(owner(path.file_name().unwrap()).is_some());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn the_deepest_mount_counts() {
        let mountinfo = "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n\
                         30 22 0:25 / /tmp rw,nosuid shared:5 - tmpfs tmpfs rw\n\
                         31 22 0:26 / /mnt/two\\040words rw - xfs /dev/sdb rw\n";
        let of = |path: &str| file_system_in(mountinfo, Path::new(path));
        assert_eq!(of("/tmp/store").as_deref(), Some("tmpfs"));
        assert_eq!(of("/tmporary").as_deref(), Some("ext4"));
        assert_eq!(of("/mnt/two words/store").as_deref(), Some("xfs"));
    }
}
