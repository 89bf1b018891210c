//! Cargo, called from a test.

use std::process::Command;

/// Returns a call of Cargo in the environment in which a person calls it. Cargo tells the tests that it runs which package is theirs; build
/// scripts that read this would run again, and what they belong to would be compiled again, by the next command of the person, too.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let told = std::env::vars_os().map(|(name, _)| name);
    let of_the_package = told.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    });
    of_the_package.for_each(|name| drop(cargo.env_remove(name)));
    cargo
}
