//! At which scale a bench runs.

use serde::Serialize;

/// The size of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// As published: `--bench` is among the arguments, as `cargo bench` and the runner pass it.
    Full,
    /// Small enough for a test: does it run, is the answer right?
    Smoke,
}
