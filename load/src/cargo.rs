//! Cargo, called from a program that Cargo may have started.

use std::process::Command;

/// Returns a call of Cargo in the environment in which a person calls it. Cargo tells the programs that it runs which package is theirs;
/// build scripts that read this would run again, and what they belong to would be compiled again, by the next command of the person, too.
pub fn cargo() -> Command {
    let named = std::env::var_os("CARGO").filter(|named| !named.is_empty());
    let mut cargo = Command::new(named.unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|told| name.to_string_lossy().starts_with(told)) {
            cargo.env_remove(name);
        }
    }
    cargo
}
