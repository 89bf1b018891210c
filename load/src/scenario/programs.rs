//! The other programs of a scenario: those that run beside its load, and those that check afterwards what came of it.
//!
//! A scenario names a program, and who runs it says where that is (`--program NAME=PATH`): a scenario is the same on each machine.

use serde::{Deserialize, Serialize};

/// Stands in a name for one of `sweep.programs`.
pub const PROGRAM: &str = "{program}";

/// A program that runs from the warm-up to the end of the drain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Its name.
    pub program: String,
    /// Its arguments, in which `{url}` is the server's URL, and `{folder}` a folder of the run, which goes with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The number of times that it is ended by SIGKILL, and started again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kills: u32,
    /// The time from each start to the kill; none without kills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<f64>,
}

/// A program that says whether what came of a run is right: by exit code 0, and a JSON object on its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The name of what is checked.
    pub name: String,
    /// The name of the program.
    pub program: String,
    /// Its arguments, as those of [`Beside`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(kills: &u32) -> bool {
    *kills == 0
}
