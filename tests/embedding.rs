//! docs/embedding.md: typed in its order into a new package, it is a program that compiles and runs.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::fs;
use std::path::Path;
use std::process::Command;

use super::cargo::cargo;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The fenced blocks of a language in a document, in order.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let document = fs::read_to_string(Path::new(ROOT).join(document)).unwrap();
    let after = document.split(&format!("\n```{language}\n")).skip(1).map(str::to_owned).collect::<Vec<_>>();
    after.iter().map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// The manifest of a new package with what the document adds. It has the profile of this workspace: with another, RocksDB would be compiled
/// again.
fn manifest() -> String {
    let workspace = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let profile = &workspace[workspace.find("[profile.release]").unwrap()..];
    assert!(profile.lines().all(|line| !line.starts_with('[') || line.starts_with("[profile.")), "{profile}");
    let dependencies = blocks("docs/embedding.md", "toml").concat();
    assert!(dependencies.contains("\"../strata\""), "{dependencies}");
    let dependencies = dependencies.replace("../strata", ROOT);
    format!(
        "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{dependencies}\n\n[workspace]\n\n{profile}\n\
         [profile.release.package.strata]\ndebug = \"line-tables-only\"\n"
    )
}

#[test]
fn the_document_is_a_program() {
    let (folder, program) = (tempfile::tempdir().unwrap(), blocks("docs/embedding.md", "rust"));
    assert!(program.len() > 10);
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/main.rs"), program.join("\n")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), manifest()).unwrap();
    fs::copy(Path::new(ROOT).join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();

    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    // In the folder of this workspace, whose flags it takes from `.cargo`.
    let built = cargo()
        .args(["build", "--release", "--quiet", "--offline", "--manifest-path"])
        .arg(folder.path().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env_remove("CARGO_BUILD_TARGET")
        .current_dir(ROOT)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success() && !said.contains("warning"), "{said}");
    let ran = Command::new(target.join("release/shop")).current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(folder.path().join("shop-data/CURRENT").exists());
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
