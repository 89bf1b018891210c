//! Folders of files, and a Strata server over one.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use strata::config::Config;
use strata::handlers;
use strata::server::Server;
use strata::static_files::{Content, Options, Response, Site};
use strata_harness::{State, ThreadClock, memory_directory, temporary_directory};
use tempfile::TempDir;

use crate::prepared::Ours;
use crate::served;

/// The length of each file.
pub const FILE_BYTES: u64 = 1024;

/// Extensions, used in turn, and their media types.
pub const EXTENSIONS: [(&str, &str); 10] = [
    ("html", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("woff2", "font/woff2"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("mp4", "video/mp4"),
];

/// A folder and what was loaded from it.
pub struct Files {
    pub site: Site,
    paths: Vec<String>,
    folder: TempDir,
}

impl State for Files {}

impl Files {
    /// This many files in one folder, with an index beside it.
    pub fn with(files: u64) -> Self {
        Self::write((0..files).map(|number| format!("assets/{}", name(number))))
    }

    /// This many files in a deep folder, with names that have to be encoded.
    pub fn deep(files: u64) -> Self {
        Self::write((0..files).map(|number| format!("a folder/of/some/depth/{}", name(number).replace('-', " "))))
    }

    /// Files whose names differ only in their extensions.
    pub fn of_one_name() -> Self {
        Self::write(EXTENSIONS.iter().map(|(extension, _)| format!("same.{extension}")))
    }

    /// The same as [`Files::with`] on a memory file system, for a server that reads a file on each request.
    pub fn in_memory(files: u64) -> Self {
        let folder = memory_directory().unwrap_or_else(temporary_directory);
        Self::write_to(folder, (0..files).map(|number| format!("assets/{}", name(number))))
    }

    fn write(paths: impl Iterator<Item = String>) -> Self {
        Self::write_to(temporary_directory(), paths)
    }

    fn write_to(folder: TempDir, paths: impl Iterator<Item = String>) -> Self {
        let paths = paths.collect::<Vec<_>>();
        for (number, path) in paths.iter().map(String::as_str).chain(["index.html"]).enumerate() {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("an empty folder");
            fs::write(path, content(number as u64)).expect("a disk with space");
        }
        let site = Site::load(folder.path(), &Options::default()).expect("files that were just written");
        Self { site, paths, folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The paths of the files, as a client requests them.
    pub fn uris(&self) -> Vec<Uri> {
        self.paths.iter().map(|path| uri(&format!("/{}", path.replace(' ', "%20")))).collect()
    }
}

/// The state of the files of [`Files::in_memory`], in the facts.
pub fn where_in_memory() -> &'static str {
    if memory_directory().is_some() { "files on a memory file system" } else { "files on disk, cached by the system" }
}

/// The name of a file.
pub fn name(number: u64) -> String {
    format!("file-{number}.{}", EXTENSIONS[(number % EXTENSIONS.len() as u64) as usize].0)
}

/// The content of a file: text that differs for each number.
pub fn content(number: u64) -> Vec<u8> {
    format!("{number:>15}\n").repeat(FILE_BYTES as usize / 16).into_bytes()
}

pub fn uri(path: &str) -> Uri {
    path.parse().expect("a path")
}

/// The bytes of a response from memory.
pub fn bytes(response: Option<handlers::Result<Response>>) -> Bytes {
    match response.expect("a file has this path").expect("it can be read").into_body() {
        Content::Memory(bytes) => bytes,
        Content::Disk(_) => panic!("all files are in memory"),
    }
}

/// A Strata server over a folder, and over a store that is not used.
pub struct Served {
    server: Server,
    clock: ThreadClock,
    _files: Files,
    _store: Ours,
}

impl Served {
    pub fn start(files: u64) -> Self {
        let (files, store) = (Files::with(files), Ours::copy(0, 1));
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config { listen, workers: 1, ..Config::default() };
        config.static_files.directory = Some(files.path().to_owned());
        let server = Server::over(store.database.clone(), &config).expect("a free port");
        Self { server, clock: served::clock(), _files: files, _store: store }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.url().trim_start_matches("http://").parse().expect("the server's own address")
    }
}

impl State for Served {
    fn cpu(&self) -> Option<Duration> {
        Some(self.clock.read())
    }
}
