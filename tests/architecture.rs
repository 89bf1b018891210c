//! The shape of the code, as a test: which layer may name which, who alone may name the engine and a socket, and that no
//! files import each other in a circle.
//!
//! The rules stand in ARCHITECTURE.md as sentences; here they are functions from the text of files to violations, so that the
//! checker itself can be shown to find what it looks for.

mod circles;

use std::fs;
use std::path::Path;

/// A file: its path from the root of the repository, with `/`, and its text.
type File = (String, String);

/// The layers, lowest first: the modules of `src/lib.rs`, whose order is the rule.
struct Layers<'f>(Vec<&'f str>);

impl<'f> Layers<'f> {
    fn of(files: &'f [File]) -> Self {
        let text = files.iter().find(|(path, _)| path == "src/lib.rs").map_or("", |(_, text)| text);
        Self(text.lines().filter_map(module_of).collect())
    }

    /// The layer that a file of `src` belongs to, and its place among them; none for `lib.rs` and `main.rs`.
    fn of_file<'p>(&self, path: &'p str) -> Option<(&'p str, usize)> {
        let name = path.strip_prefix("src/")?.split('/').next()?.trim_end_matches(".rs");
        self.place(name).map(|place| (name, place))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|layer| *layer == name)
    }
}

/// Every rule that the files break, one line each.
fn violations(files: &[File]) -> Vec<String> {
    let (layers, mut found) = (Layers::of(files), Vec::new());
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let code = without_comments(text);
        found.extend(names_of_files(path));
        if path.starts_with("src/") {
            found.extend(header(path, text));
            found.extend(imports(&layers, path, &code));
            found.extend(names_kept_to_layers(&layers, path, &code));
        }
        if path.starts_with("benches/harness/") {
            let named = ["strata::", "rocksdb"].into_iter().filter(|word| code.to_lowercase().contains(word));
            found.extend(named.map(|word| format!("{path}: the harness names {word}")));
        }
    }
    found.extend(benches(files));
    found.extend(files_without_a_module(files));
    found.extend(circles::circles(files));
    found
}

/// The name in `mod name;`, with or without visibility.
fn module_of(line: &str) -> Option<&str> {
    let (visibility, name) = line.trim().split_once("mod ")?;
    name.strip_suffix(';').filter(|_| visibility.is_empty() || visibility.starts_with("pub"))
}

/// A layer imports only layers below itself.
fn imports(layers: &Layers<'_>, path: &str, code: &str) -> Vec<String> {
    let Some((layer, own)) = layers.of_file(path) else {
        return Vec::new();
    };
    let mut named: Vec<&str> = Vec::new();
    for start in ["crate::", "super::"] {
        for (position, _) in code.match_indices(start) {
            named.extend(branches(&code[position + start.len()..]).into_iter().map(first_word));
        }
    }
    let above = |name: &&str| layers.place(name).is_some_and(|other| other > own);
    named.into_iter().filter(above).map(|name| format!("{path}: {layer} names {name}, which is above it")).collect()
}

/// What a path goes on with: the text from one name on, or from each first name of a group in braces.
fn branches(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else {
        return vec![rest];
    };
    let (mut depth, mut branches, mut fresh) = (0, Vec::new(), true);
    for (position, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && !character.is_whitespace() => {
                branches.push(&group[position..]);
                fresh = false;
            }
            _ => {}
        }
    }
    branches
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Engines are named in `storage` alone, sockets in `ingress` and `server`, brokers in `multicast`, pictures in `pictures`.
fn names_kept_to_layers(layers: &Layers<'_>, path: &str, code: &str) -> Vec<String> {
    let rules: [(&[&str], &[&str]); 4] = [
        (&["rust_rocksdb", "rocksdb::", "tokio_postgres", "tikv_client"], &["storage"]),
        (&["TcpListener", "TcpStream", "tokio::net"], &["ingress", "server"]),
        (&["async_nats", "redis::"], &["multicast"]),
        (&["fast_image_resize", "jpeg_decoder", "jpeg_encoder", "image_webp", "gif::", "png::"], &["pictures"]),
    ];
    let layer = layers.of_file(path).map_or("", |(layer, _)| layer);
    let broken = rules.iter().filter(|(_, allowed)| !allowed.contains(&layer));
    let words = broken.flat_map(|(words, allowed)| words.iter().map(move |word| (word, allowed)));
    let named = words.filter(|(word, _)| code.contains(*word));
    named.map(|(word, allowed)| format!("{path}: names {word}, which belongs to {}", allowed.join(" and "))).collect()
}

/// Every file says first what it is.
fn header(path: &str, text: &str) -> Option<String> {
    (!text.starts_with("//! ")).then(|| format!("{path}: does not open with //!"))
}

/// Files are found by the name of their module, and a module is named for what it is.
fn names_of_files(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    match name {
        "mod" => Some(format!("{path}: foo.rs beside foo/, not foo/mod.rs")),
        "util" | "utils" | "helpers" | "common" => Some(format!("{path}: a name that says nothing")),
        _ => None,
    }
}

/// Every file of the library and of the tests is a module of another one, or a target: else nobody compiles it, and no test in it runs.
fn files_without_a_module(files: &[File]) -> Vec<String> {
    let text_of = |path: &str| files.iter().find(|(other, _)| other == path).map_or("", |(_, text)| text);
    let parents = |folder: &str| match folder {
        "src" => vec!["src/lib.rs".to_owned(), "src/main.rs".to_owned()],
        "tests" => vec!["tests/main.rs".to_owned()],
        folder => vec![format!("{folder}.rs")],
    };
    let paths = files.iter().filter_map(|(path, _)| Some((path, path.strip_suffix(".rs")?.rsplit_once('/')?)));
    let lost = paths.filter(|(path, (folder, name))| {
        let parents = if *name == "mod" { return false } else { parents(folder) };
        let ours = path.starts_with("src/") || path.starts_with("tests/");
        let named = |parent: &String| text_of(parent).lines().any(|line| module_of(line) == Some(name));
        let target = || text_of("Cargo.toml").contains(&format!("path = \"{path}\""));
        ours && !parents.contains(path) && !parents.iter().any(named) && !target()
    });
    lost.map(|(path, _)| format!("{path}: no module of its parent")).collect()
}

/// Every file of `benches` is built: as a target of its own harness, or as a module of one.
fn benches(files: &[File]) -> Vec<String> {
    let manifest = files.iter().find(|(path, _)| path == "Cargo.toml").map_or("", |(_, text)| text);
    let manifest: toml::Table = manifest.parse().unwrap_or_default();
    let stanzas = manifest.get("bench").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let bench_files = || files.iter().filter_map(|(path, text)| Some((path.strip_prefix("benches/")?, text)));
    let names = bench_files().filter_map(|(name, _)| name.strip_suffix(".rs")).filter(|name| !name.contains('/'));
    let without = names.filter(|name| {
        let stanza = stanzas.iter().find(|stanza| stanza.get("name").and_then(toml::Value::as_str) == Some(name));
        let own_harness = stanza.and_then(|stanza| stanza.get("harness")).and_then(toml::Value::as_bool);
        let is_module = bench_files().any(|(_, text)| text.lines().any(|line| module_of(line) == Some(name)));
        own_harness != Some(false) && !is_module
    });
    without.map(|name| format!("benches/{name}.rs: no [[bench]] with harness = false, and no module of one")).collect()
}

/// The text without what stands after `//`; addresses (`://`) are no comments.
fn without_comments(text: &str) -> String {
    let line = |line: &str| {
        let comment = line.match_indices("//").find(|(position, _)| !line[..*position].ends_with(':'));
        comment.map_or(line.len(), |(position, _)| position)
    };
    text.lines().flat_map(|text| [&text[..line(text)], "\n"]).collect()
}

fn collect(root: &Path, folder: &str, files: &mut Vec<File>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries {
        let entry = entry.expect("the folder is readable");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().expect("the entry is readable").is_dir() {
            true if !path.ends_with("/target") => collect(root, &path, files),
            false if path.ends_with(".rs") => {
                files.push((path, fs::read_to_string(entry.path()).expect("the file is text")));
            }
            _ => {}
        }
    }
}

#[test]
fn the_code_has_its_shape() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("there is a manifest");
    let mut files = vec![("Cargo.toml".to_owned(), manifest)];
    for folder in ["src", "benches", "tests", "load", "examples"] {
        collect(root, folder, &mut files);
    }
    assert!(files.iter().any(|(path, _)| path == "src/storage/rocks.rs"), "the files were not found");
    assert!(Layers::of(&files).place("server") > Layers::of(&files).place("storage"), "the layers were not found");
    let imports = circles::imports(&files);
    assert!(imports["src/query/run.rs"].contains_key("src/storage.rs"), "the imports were not found");
    assert_eq!(violations(&files), Vec::<String>::new());
}

#[test]
fn the_checker_finds_what_is_planted() {
    let around = [
        ("Cargo.toml", "[[bench]]\nname = \"storage\"\n[[bench]]\nname = \"ladder\"\nharness = false\n"),
        (
            "src/lib.rs",
            "//! L.\nmod error;\nmod storage;\nmod locking;\nmod indexes;\nmod handlers;\nmod config;\nmod server;\n",
        ),
        ("src/storage.rs", "//! S.\nmod scan;\n"),
        ("src/indexes.rs", "//! I.\nmod helpers;\n"),
        ("tests/main.rs", "//! M.\nmod common;\n"),
    ];
    let planted: [(&str, &str, &str); 20] = [
        ("src/storage.rs", "//! S.\nuse crate::indexes::Matches;\n", "storage names indexes"),
        ("src/storage/scan.rs", "//! S.\nfn f() { crate::handlers::run() }\n", "storage names handlers"),
        ("src/storage.rs", "//! S.\nuse crate::{error::{self, Error},\n    indexes};\n", "storage names indexes"),
        ("src/locking.rs", "//! L.\nuse super::server;\n", "locking names server"),
        ("src/indexes.rs", "//! I.\nuse rust_rocksdb as engine;\n", "names rust_rocksdb"),
        ("src/main.rs", "//! M.\nfn f(_: rocksdb::DB) {}\n", "names rocksdb::"),
        ("src/handlers.rs", "//! H.\nuse std::net::TcpStream;\n", "names TcpStream"),
        ("src/config.rs", "//! C.\nuse tokio::net::UnixStream;\n", "names tokio::net"),
        ("src/handlers.rs", "//! H.\nuse async_nats::Client;\n", "names async_nats"),
        ("src/handlers.rs", "//! H.\nuse jpeg_decoder::Decoder;\n", "names jpeg_decoder"),
        ("src/error.rs", "// An error.\n", "does not open with //!"),
        ("src/storage/mod.rs", "//! S.\n", "not foo/mod.rs"),
        ("src/indexes/helpers.rs", "//! H.\n", "says nothing"),
        ("tests/common.rs", "//! C.\n", "says nothing"),
        ("benches/encoding.rs", "//! E.\nfn main() {}\n", "no [[bench]]"),
        ("benches/harness/src/row.rs", "//! R.\nuse strata::storage::Store;\n", "names strata::"),
        ("benches/harness/src/lib.rs", "//! L.\nuse rust_rocksdb::DB;\n", "names rocksdb"),
        ("benches/storage.rs", "//! S.\n", "no [[bench]]"),
        ("src/indexes/tests.rs", "//! T.\n", "no module of its parent"),
        ("tests/http.rs", "//! H.\n", "no module of its parent"),
    ];
    for (path, text, expected) in planted {
        let kept = around.into_iter().filter(|(other, _)| *other != path);
        let files = kept.chain([(path, text)]).map(|(path, text)| (path.to_owned(), text.to_owned()));
        let files: Vec<File> = files.collect();
        let found = violations(&files);
        assert!(found.len() == 1 && found[0].contains(expected), "{path}: {expected}: {found:?}");
    }
}

#[test]
fn the_checker_lets_pass_what_is_right() {
    let right = [
        ("src/lib.rs", "//! L.\npub mod error;\npub mod storage;\npub mod server;\n"),
        ("src/storage.rs", "//! S.\npub(super) mod engine;\n"),
        ("src/storage/engine.rs", "//! E: see crate::server.\nuse rust_rocksdb as rocksdb; // not crate::server\n"),
        ("src/server.rs", "//! S.\nuse crate::storage;\nuse tokio::net::TcpListener;\n"),
        ("benches/ladder.rs", "//! L.\nmod floor;\nfn main() {}\n"),
        ("benches/floor.rs", "//! F.\nuse rust_rocksdb::DB;\n"),
        ("benches/harness/src/lib.rs", "//! Neither strata:: nor rocksdb.\nuse strata_harness::row;\n"),
        ("Cargo.toml", "[[bench]]\nname = \"ladder\"\nharness = false\n"),
    ];
    let files: Vec<File> = right.map(|(path, text)| (path.to_owned(), text.to_owned())).to_vec();
    assert_eq!(violations(&files), Vec::<String>::new());
}
