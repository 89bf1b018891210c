//! Files beside a scenario: what is uploaded and no text.

use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Those of the built-in scenarios.
const BUILT_IN: [(&str, &[u8]); 2] = [
    ("logo-2000.png", include_bytes!("../../scenarios/logo-2000.png")),
    ("photograph-12mp.jpg", include_bytes!("../../scenarios/photograph-12mp.jpg")),
];

/// The folder of the built-in scenarios.
const BUILT_IN_FOLDER: &str = "load/scenarios";

/// A file beside a scenario. A result has its name alone.
#[derive(Clone, Debug)]
pub struct File {
    name: String,
    /// The content; nothing until it is read.
    pub bytes: Bytes,
}

impl File {
    /// Reads it from the folder of a scenario.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&mut self, scenario: &Path) -> Result<(), String> {
        let folder = scenario.parent().unwrap_or(Path::new(""));
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == self.name && folder == Path::new(BUILT_IN_FOLDER));
        if self.name.contains(['/', '\0']) || self.name.is_empty() {
            return Err("must be the name of a file beside the scenario".to_owned());
        }
        self.bytes = match (std::fs::read(folder.join(&self.name)), built_in) {
            (Ok(bytes), _) => bytes.into(),
            (Err(_), Some((_, bytes))) => Bytes::from_static(bytes),
            (Err(error), None) => return Err(format!("{}: {error}", self.name)),
        };
        Ok(())
    }
}

impl PartialEq for File {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Serialize for File {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { name: String::deserialize(deserializer)?, bytes: Bytes::new() })
    }
}
