//! docs/embedding.md: typed in its order into a new package, it is a program that compiles and runs over the crate as it is packed; and the
//! list of what the Rust API has.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod examples;
mod front;
mod refused;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo::cargo;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The fenced blocks of a language in a document, in order.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let document = fs::read_to_string(Path::new(ROOT).join(document)).unwrap();
    let after = document.split(&format!("\n```{language}\n")).skip(1).map(str::to_owned).collect::<Vec<_>>();
    after.iter().map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// The manifest of a new package with what the document adds. It has the profile of this workspace, for which RocksDB was compiled.
fn manifest(strata: &Path) -> String {
    let workspace = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let profile = &workspace[workspace.find("[profile.release]").unwrap()..];
    assert!(profile.lines().all(|line| !line.starts_with('[') || line.starts_with("[profile.")), "{profile}");
    let dependencies = blocks("docs/embedding.md", "toml").concat();
    assert!(dependencies.contains("\"../strata\", default-features = false"), "{dependencies}");
    let dependencies = dependencies.replace("../strata", strata.to_str().unwrap());
    format!(
        "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{dependencies}\n\n[workspace]\n\n{profile}\n"
    )
}

/// The folder of this build.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// What tells the build script of RocksDB's binding to link the library that this build has compiled, instead of compiling it.
fn linked() -> Vec<(&'static str, PathBuf)> {
    let scripts = fs::read_dir(target().join("release/build")).unwrap().map(|script| script.unwrap().path());
    let compiled = scripts.filter(|script| script.join("out/librocksdb.a").exists());
    let newest = compiled.max_by_key(|script| script.join("output").metadata().unwrap().modified().unwrap()).unwrap();
    let said = fs::read_to_string(newest.join("output")).unwrap();
    let include = said.lines().find_map(|line| line.strip_prefix("cargo::metadata=include=")).unwrap();
    vec![
        ("ROCKSDB_LIB_DIR", newest.join("out")),
        ("ROCKSDB_INCLUDE_DIR", include.into()),
        ("ROCKSDB_STATIC", "1".into()),
    ]
}

/// Runs a command to its end; returns what it prints.
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Packs the crate as it would be published, and unpacks it into a folder.
fn packed(folder: &Path) -> PathBuf {
    let packing = folder.join("packing");
    run(cargo()
        .args([
            "package",
            "--package",
            "strata",
            "--quiet",
            "--offline",
            "--no-verify",
            "--allow-dirty",
            "--target-dir",
        ])
        .arg(&packing)
        .current_dir(ROOT));
    let file = packing.join("package/strata-0.1.0.crate");
    assert!(file.metadata().unwrap().len() <= 2 << 20, "the package has at most 2 MiB");
    // Files in a package have one old date, by which a change would not be noticed.
    run(Command::new("tar").arg("-xzmf").arg(&file).arg("-C").arg(folder));
    folder.join("strata-0.1.0")
}

#[test]
fn the_document_is_a_program_over_the_packed_crate_without_the_server() {
    let (embedding, program) = (target().join("embedding"), blocks("docs/embedding.md", "rust"));
    assert!(program.len() > 8);
    // It is built anew each time, since what it was packed from may differ.
    let _ = fs::remove_dir_all(embedding.join("strata-0.1.0"));
    fs::create_dir_all(&embedding).unwrap();
    let (strata, shop) = (packed(&embedding), embedding.join("shop"));
    fs::create_dir_all(shop.join("src")).unwrap();
    fs::write(shop.join("src/main.rs"), program.join("\n")).unwrap();
    fs::write(shop.join("Cargo.toml"), manifest(&strata)).unwrap();
    fs::copy(Path::new(ROOT).join("Cargo.lock"), shop.join("Cargo.lock")).unwrap();

    // In the folder of this workspace, whose flags it takes from `.cargo`.
    let build = |arguments: &[&str]| {
        let mut build = cargo();
        build.args(arguments).args(["--offline", "--manifest-path"]).arg(shop.join("Cargo.toml")).current_dir(ROOT);
        build.env_remove("CARGO_BUILD_TARGET").env("CARGO_TARGET_DIR", &embedding).envs(linked());
        build
    };
    let built = build(&["build", "--release", "--quiet"]).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success() && !said.contains("warning"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(embedding.join("release/shop")).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success() && said.is_empty(), "it prints nothing by itself: {said}");
    assert!(folder.path().join("shop-data/CURRENT").exists() && folder.path().join("shop-copy/CURRENT").exists());

    let tree = run(&mut build(&["tree", "--prefix", "none", "--edges", "normal", "--format", "{p}"]));
    let crates: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(
        crates.contains("shop") && crates.contains("strata") && crates.len() <= 2 + 60,
        "{}: {crates:?}",
        crates.len()
    );
    let of_the_server = ["async-graphql", "axum", "clap", "hyper", "ring", "rustls", "tokio", "tracing-subscriber"]
        .map(|name| crates.contains(name));
    assert_eq!(of_the_server, [false; 8], "{crates:?}");
}

#[test]
fn what_the_readme_shows_stands_in_the_document() {
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let program = lines(&blocks("docs/embedding.md", "rust").join("\n"));
    let shown = blocks("README.md", "rust");
    assert!(!shown.is_empty());
    for piece in shown {
        let piece_lines = lines(&piece);
        assert!(program.windows(piece_lines.len()).any(|part| part == piece_lines), "{piece}");
    }
}
