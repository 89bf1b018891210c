//! The ready file: it contains the URL of a server while that is ready, so whoever starts a server waits for it.
//!
//! It is the operator's path and opened as a shell's `>` would: a link is followed, a device or a FIFO is written to. Only a regular file
//! is replaced, in one step, so that nobody reads half of a URL. One that an earlier server left behind is withdrawn before the start, which
//! may fail; but not that of a server that is running.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::storage;

/// Writes the URL.
///
/// # Errors
/// `Storage` if it cannot be written.
pub(super) fn write(path: &Path, url: &str) -> Result<()> {
    let text = format!("{url}\n");
    let replaced =
        if is_regular_or_missing(path) { replace(path, &text) } else { Err(io::ErrorKind::Unsupported.into()) };
    // A regular file cannot be replaced where it is mounted by itself, or its folder is read-only.
    replaced
        .or_else(|_| overwrite(path, &text))
        .map_err(|error| Error::storage(format!("cannot write the ready file {}", path.display()), error))
}

/// Removes what an earlier server left, unless a server is running over the data directory.
pub(super) fn withdraw(path: &Path, data: &Path) {
    // While it is held, no server starts there.
    if let Ok(_held) = storage::hold(data) {
        remove(path);
    }
}

/// Removes the file; empties the regular file that a link leads to.
pub(super) fn remove(path: &Path) {
    let Ok(found) = path.symlink_metadata() else { return };
    let is_left = match found.is_symlink() {
        true => fs::metadata(path).is_ok_and(|target| target.is_file()),
        false => found.is_file() && fs::remove_file(path).is_err(),
    };
    if is_left {
        let _ = overwrite(path, "");
    }
}

fn is_regular_or_missing(path: &Path) -> bool {
    path.symlink_metadata().map_or(true, |found| found.is_file())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let replaced = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    replaced.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Without waiting for the reader of a FIFO.
fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).custom_flags(nonblocking).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_regular_file_is_replaced_and_a_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, dangling) =
            (folder.path().join("file"), folder.path().join("link"), folder.path().join("dangling"));
        symlink("file", &link).unwrap();
        symlink("later", &dangling).unwrap();
        for path in [&file, &link, &dangling] {
            write(path, "http://127.0.0.1:1").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "http://127.0.0.1:1\n");
            remove(path);
        }
        assert!(link.is_symlink() && dangling.is_symlink());
        assert!(!file.exists() || fs::read(&file).unwrap().is_empty());
        assert_eq!(fs::read(folder.path().join("later")).unwrap(), b"");
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        write(&fifo, "x").expect_err("nobody reads it");
        let mut reader =
            std::process::Command::new("cat").arg(&fifo).stdout(std::process::Stdio::piped()).spawn().unwrap();
        while write(&fifo, "http://127.0.0.1:1").is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut text = String::new();
        io::Read::read_to_string(&mut reader.stdout.take().unwrap(), &mut text).unwrap();
        reader.wait().unwrap();
        assert_eq!(text, "http://127.0.0.1:1\n");
        write(Path::new("/dev/null"), "x").unwrap();
        remove(&fifo);
        remove(Path::new("/dev/null"));
        assert!(fifo.exists() && !fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_running_servers_file_stays() {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("ready");
        let store = storage::Store::open(data.path(), &storage::Options::default()).unwrap();
        write(&path, "x").unwrap();
        withdraw(&path, data.path());
        assert!(path.exists());
        drop(store);
        withdraw(&path, data.path());
        assert!(!path.exists());
        write(&path, "x").unwrap();
        withdraw(&path, &data.path().join("not there yet"));
        assert!(!path.exists());
    }
}
