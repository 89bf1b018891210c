//! Whose files are whose: what the binary creates is its user's alone, and a data directory that is somebody else's is left as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use strata::config::Config;
use strata::server::Server;

use super::client::{ask, schema};
use super::process::{Running, assert_refused, output};

/// Every path below a folder, the folder too, with its mode.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    let mut found = vec![(folder.to_owned(), mode(folder))];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(modes(&path)) } else { found.push((path.clone(), mode(&path))) }
    }
    found.sort();
    found
}

#[test]
fn what_is_created_is_for_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("copies")).unwrap();
    let (log, copies) = (path("access.log"), path("copies"));
    let options = ["--access-log", &log, "--checkpoint-dir", &copies];
    let mut server = Running::start_with(folder.path(), &options);
    assert!(server.line().contains("listening"), "nothing to warn of");
    assert_eq!(ask(&server.url, "PUT", "/Photo/1", "{}").status, 201);
    assert_eq!(ask(&server.url, "PUT", "/Photo/1/picture", &"1".repeat(100_000)).status, 201);
    assert_eq!(ask(&server.url, "POST", "/_checkpoint?name=first", "").status, 201);
    let private = |names: &[&str]| {
        for (path, mode) in names.iter().flat_map(|name| modes(Path::new(&path(name)))) {
            assert_eq!(mode & 0o077, 0, "{} has the mode {mode:o}", path.display());
        }
    };
    private(&["data", "copies/first"]);
    for file in ["ready", "access.log"] {
        assert_eq!(fs::metadata(path(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let (data, backup, restored) = (path("data"), path("backup"), path("restored"));
    for arguments in [
        ["backup", &backup, "--data-dir", &data].as_slice(),
        &["restore", &backup, "--data-dir", &restored],
        &["compact", "--data-dir", &restored],
    ] {
        let done = output(arguments);
        assert!(done.status.success(), "{done:?}");
    }
    private(&["data", "backup", "restored"]);
}

#[test]
fn a_data_directory_that_others_may_enter_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (mode, is_open) in [(0o755, true), (0o710, true), (0o701, true), (0o700, false), (0o744, false)] {
        fs::create_dir_all(&data).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
        let mut server = Running::start(folder.path());
        let said = server.line();
        assert_eq!(said.starts_with("strata: warning: ") && said.contains("chmod 700"), is_open, "{mode:o}: {said}");
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, mode, "it is the operator's");
    }
}

#[test]
fn a_directory_of_somebody_else_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let schema = schema();
    for name in [
        "notes.txt",
        ".hidden",
        "access.log",
        "photo.sst",
        "LOG.txt",
        "folder/file",
        "archive/file",
        "CURRENT.old",
        "tls.pem",
    ] {
        let file = data.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "mine").unwrap();
        let before = modes(&data);
        let ready = folder.path().join("ready");
        let line = ["serve", "--listen", "127.0.0.1:0", "--tls", "self-signed", "--schema", schema.to_str().unwrap()];
        let more = ["--ready-file", ready.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
        let first = name.split('/').next().unwrap();
        assert_refused(&output(&[&line[..], &more].concat()), &["holds no store", first]);
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            schema: Some(schema.clone()),
            data_dir: data.clone(),
            ..Config::default()
        };
        assert!(Server::start(&config).err().unwrap().to_string().contains("holds no store"));
        assert_eq!(modes(&data), before, "{name}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        fs::remove_dir_all(&data).unwrap();
    }
}

/// A directory of its own file system, a certificate from before, and what a start leaves that is killed before there is a store.
#[test]
fn what_may_stand_there_before_a_store_does_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("lost+found")).unwrap();
    let start = || {
        let mut server = Running::start(folder.path());
        assert_eq!(ask(&server.url, "POST", "/Product", r#"{"name":"Lamp"}"#).status, 201);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
    };
    start();
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir_all(data.join("tls")).unwrap();
    fs::create_dir(data.join("archive")).unwrap();
    for name in
        ["LOCK", "LOG", "LOG.old.1769860800000000", "IDENTITY", "MANIFEST-000001", "000001.dbtmp", "tls/key.pem"]
    {
        fs::write(data.join(name), "").unwrap();
    }
    start();
    start();
    // Into such a directory a backup is restored, too.
    let (backup, restored) = (folder.path().join("backup"), folder.path().join("restored"));
    assert!(output(&["backup", backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]).status.success());
    fs::create_dir_all(restored.join("lost+found")).unwrap();
    let done = output(&["restore", backup.to_str().unwrap(), "--data-dir", restored.to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
}
