//! The events of a stream: appended before a run, and counted by its watermarks.

use serde::Deserialize;

use super::{Client, accepted, quoted};

/// Partitions that a stream has at most.
const MOST_PARTITIONS: usize = 1024;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Place {
    partition: u64,
    offset: u64,
}

/// The answer to an append of several events.
#[derive(Deserialize)]
struct Appended {
    offsets: Vec<Place>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watermarks {
    high_watermark: u64,
}

impl Client {
    /// The high watermark of each partition of a stream: how many events it has had.
    ///
    /// # Errors
    /// The stream is not there, or the server does not tell.
    pub fn high_watermarks(&self, stream: &str) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        while found.len() < MOST_PARTITIONS {
            let answer = self.ask("GET", &format!("/{stream}?partition={}&limit=0", found.len()), String::new())?;
            match serde_json::from_slice::<Watermarks>(&answer.body) {
                Ok(told) if answer.status == 200 => found.push(told.high_watermark),
                // The partition behind the last one.
                _ if answer.status == 400 && !found.is_empty() => break,
                _ => {
                    let told = quoted(answer.status.as_u16(), &answer.body);
                    return Err(format!("the server does not tell the watermarks of {stream}: {told}"));
                }
            }
        }
        Ok(found)
    }

    /// Appends events numbered from `first` on, of which number n has to stand in partition n % `partitions`, at offset n / `partitions`.
    pub(super) fn append(&self, stream: &str, partitions: u64, first: u64, events: &[String]) -> Result<(), String> {
        let body = format!("{{\"records\":[{}]}}", events.join(","));
        let answer = self.ask("POST", &format!("/{stream}/bulk"), body)?;
        accepted(&answer, 202)?;
        let told =
            serde_json::from_slice::<Appended>(&answer.body).map_err(|error| format!("{stream}/bulk: {error}"))?;
        let expected = (first..first + events.len() as u64)
            .map(|number| Place { partition: number % partitions, offset: number / partitions });
        let wrong = told.offsets.iter().zip(expected).find(|(found, expected)| *found != expected);
        match (wrong, told.offsets.len() == events.len()) {
            (None, true) => Ok(()),
            (None, false) => Err(format!("{stream}/bulk: {} offsets for {} events", told.offsets.len(), events.len())),
            (Some((found, expected)), _) => Err(format!(
                "{stream}: event n has to stand in partition n % {partitions} at offset n / {partitions}, so one at {expected:?}; it is at \
                 {found:?}: data.row"
            )),
        }
    }
}
