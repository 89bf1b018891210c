//! The highest rate at which a scenario meets its objectives, as a bracket: each probe is a run in an open loop, stored like any other.

use crate::result::{Outcome, Run, Validity};
use crate::scenario::{Bound, Scenario};
use crate::schedule::Schedule;
use crate::search::{self, Bracket};

/// The ends of a bracket are within this share of each other.
pub const WIDTH: f64 = 0.05;

/// The result of a search.
#[derive(Debug)]
pub struct Capacity {
    /// Rates in requests a second.
    pub bracket: Bracket,
    /// True if the client was the bottleneck at the lowest rate that was not good.
    pub client_bound: bool,
    /// All probes, as they were run.
    pub probes: Vec<Run>,
}

/// Searches from a first rate on. A probe is carried out by `probe`, as long as the scenario's own arrivals.
pub fn search(
    scenario: &Scenario,
    first: f64,
    mut probe: impl FnMut(&Scenario) -> Result<Run, String>,
) -> Result<Capacity, String> {
    let breaks_at_a_high_rate = |bound: &Bound| matches!(bound, Bound::Response { .. } | Bound::FailuresAtMost(_));
    let objectives = || scenario.objectives.iter().map(|objective| &objective.bound);
    if objectives().any(|bound| matches!(bound, Bound::ThroughputAtLeast(_)))
        || !objectives().any(breaks_at_a_high_rate)
    {
        return Err(format!(
            "{}: a capacity is the highest rate that meets objectives on response times or failures; a least throughput is \
             met at no low rate",
            scenario.name
        ));
    }
    let load = &scenario.load;
    let seconds = load.schedule.as_ref().map(Schedule::seconds).or(load.seconds);
    let seconds = seconds.ok_or("a probe has a length: load.seconds, or --test-duration-secs")?;
    let (mut probes, mut client_bound) = (Vec::new(), false);
    let bracket = search::highest(first, WIDTH, |rate| {
        let mut scenario = scenario.clone();
        (scenario.load.seconds, scenario.load.requests) = (None, None);
        scenario.load.schedule = Some(Schedule::Constant { rate, seconds });
        if let Some((key, reason)) = scenario.fault() {
            return Err(format!("at {rate:.0}/s: {key}: {reason}"));
        }
        let run = probe(&scenario)?;
        let passed = run.objectives.iter().all(|judged| judged.outcome == Outcome::Pass);
        let (validity, no_data) =
            (run.validity, run.objectives.iter().find(|judged| judged.outcome == Outcome::NoData));
        let (id, broken) = (run.id.clone(), run.broken.join("; "));
        let blocked = run.objectives.iter().any(|judged| judged.outcome == Outcome::Blocked);
        let no_data = no_data.map(|judged| format!("{:?}", judged.objective.bound));
        probes.push(run);
        match (validity, no_data) {
            (Validity::Invalid, _) => Err(format!("{id} is invalid: {broken}")),
            (Validity::QuotaNotBinding, _) => Err(format!("{id}: a server with a part of a processor is not searched")),
            (Validity::Inconclusive, _) => Err(format!("{id} was interrupted")),
            (_, Some(bound)) => Err(format!("{id} is too short to say anything of {bound}")),
            (Validity::Valid | Validity::ClientBound, None) => {
                // What is not good is tried at lower rates from then on: the last of these is the bracket's.
                client_bound = if passed { client_bound } else { validity == Validity::ClientBound && blocked };
                Ok(passed)
            }
        }
    })?;
    Ok(Capacity { bracket, client_bound, probes })
}

impl Capacity {
    /// Returns the result in words: "at least" where the client was the bottleneck of what failed.
    pub fn text(&self) -> String {
        let probes = self.probes.len();
        match (self.bracket.good, self.bracket.bad) {
            (Some(good), Some(bad)) if self.client_bound => {
                format!("capacity >= {good:.0}/s; at {bad:.0}/s the client was the bottleneck ({probes} probes)")
            }
            (Some(good), Some(bad)) => format!("capacity {good:.0}/s to {bad:.0}/s ({probes} probes)"),
            (Some(good), None) => format!("capacity >= {good:.0}/s ({probes} probes)"),
            (None, Some(bad)) => format!("capacity < {bad:.0}/s ({probes} probes)"),
            (None, None) => "capacity not run".to_owned(),
        }
    }
}
