//! The parameters that are varied from run to run: the mix, the connections, the servers over one database, the server's processors, the
//! targets of a message, the slot, the programs, or one operation at a time; and how often each is run.
//!
//! Each variant is a scenario of its own, with a name of its own, so that a result says what was run without its siblings. Where a
//! mix leaves a kind of work out, its operations are gone, not there with a weight of 0: what never runs is no operation.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::template::Template;

use super::faults::{MOST_CONNECTIONS, MOST_SERVERS, is_program, is_share};
use super::programs::PROGRAM;
use super::{Bound, Class, Operation, Scenario, Slot, Steps};

/// The parameters that are varied; each combination is a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sweep {
    /// Shares of kinds of work, in place of the weights' own.
    pub mixes: Vec<Mix>,
    /// Connections.
    pub connections: Vec<usize>,
    /// Requests a second, in place of the schedule's own.
    pub rates: Vec<f64>,
    /// Servers over one database.
    pub servers: Vec<usize>,
    /// Processors that the server may use, as parts of one.
    pub server_cpus: Vec<f64>,
    /// The values that stand for `{fan_out}` in operations and effects.
    pub fan_out: Vec<u64>,
    /// Where registrations are, and over what messages come.
    pub slots: Vec<Slot>,
    /// The values that stand for `{program}` in the names of programs.
    pub programs: Vec<String>,
    /// True if each operation runs alone.
    pub apart: bool,
    /// The number of runs of all of it, each with a server of its own: figures of one process say nothing of the spread between processes.
    pub repeats: Option<NonZeroU32>,
}

/// Shares of kinds of work: `80/20` of reads, lists included, and writes, or `60/35/5` of reads of one, lists and writes. Operations of a
/// kind share what it has by their weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix(Vec<f64>);

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shares: Vec<f64> = text.split('/').map_while(|share| share.parse().ok()).collect();
        let whole = matches!(shares.len(), 2 | 3) && shares.len() == text.split('/').count();
        match whole && shares.iter().all(|share| *share >= 0.0) && (shares.iter().sum::<f64>() - 100.0).abs() < 1e-6 {
            true => Ok(Self(shares)),
            false => Err(format!("{text}: reads/writes (80/20) or reads of one/lists/writes (60/35/5), together 100")),
        }
    }
}

impl TryFrom<String> for Mix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.iter().map(f64::to_string).collect::<Vec<_>>().join("/"))
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> Self {
        mix.to_string()
    }
}

impl Mix {
    /// Which share the work of a kind is in.
    fn part(&self, class: Class) -> usize {
        match class {
            Class::Read => 0,
            Class::List => self.0.len() - 2,
            Class::Write => self.0.len() - 1,
        }
    }
}

impl Sweep {
    /// Returns true if nothing is varied.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn fault(&self, scenario: &Scenario) -> Option<(String, String)> {
        let fault = |key: &str, reason: String| Some((format!("sweep.{key}"), reason));
        if !self.connections.iter().all(|number| (scenario.load.threads..=MOST_CONNECTIONS).contains(number)) {
            return fault("connections", "at least one for each thread, and at most 65535".to_owned());
        }
        if !self.rates.is_empty() && !scenario.load.is_open() {
            return fault("rates", "a closed loop has no rate: load.schedule".to_owned());
        }
        if let Some((_, reason)) = self.rates.iter().find_map(|rate| scenario.load.at_rate(*rate)?.fault()) {
            return fault("rates", reason.to_owned());
        }
        if !self.servers.iter().all(|number| (1..=MOST_SERVERS).contains(number)) {
            return fault("servers", "from 1 to 64".to_owned());
        }
        if !self.server_cpus.iter().all(|cpus| is_share(*cpus)) {
            return fault("server_cpus", "from a hundredth to a thousand".to_owned());
        }
        if !self.programs.iter().all(|name| is_program(name)) {
            return fault("programs", "names of letters, digits, - and _".to_owned());
        }
        if !self.programs.is_empty() && !scenario.programs().any(|name| name.contains(PROGRAM)) {
            return fault("programs", format!("no name of a program has {PROGRAM}"));
        }
        if !self.fan_out.iter().all(|number| (1..=1_000_000).contains(number)) {
            return fault("fan_out", "from 1 to a million".to_owned());
        }
        if self.fan_out.is_empty() == scenario.has_fan_out() {
            return fault("fan_out", "numbers for {fan_out}, which stands in an operation".to_owned());
        }
        if scenario.slot.is_some() && !self.slots.is_empty() {
            return fault("slots", "the scenario has a slot: slot".to_owned());
        }
        if let Some((slot, reason)) = self.slots.iter().find_map(|slot| Some((slot, scenario.fault_in(*slot)?))) {
            return fault("slots", format!("{slot}: {reason}"));
        }
        let repeats = self.repeats.map_or(1, |repeats| repeats.get() as usize);
        let apart = if self.apart { scenario.operations.len() } else { 1 };
        let (mixes, connections, programs) = (self.mixes.len(), self.connections.len(), self.programs.len());
        let (rates, server_cpus, fan_out) = (self.rates.len(), self.server_cpus.len(), self.fan_out.len());
        let (servers, slots) = (self.servers.len(), self.slots.len());
        let varied = [repeats, apart, mixes, connections, rates, servers, server_cpus, fan_out, slots, programs];
        if varied.into_iter().fold(1, |runs: usize, values| runs.saturating_mul(values.max(1))) > 10_000 {
            return fault("repeats", "at most ten thousand runs in all".to_owned());
        }
        for mix in &self.mixes {
            for (part, share) in mix.0.iter().enumerate() {
                let none = !scenario.operations.iter().any(|operation| mix.part(operation.class()) == part);
                if *share > 0.0 && none {
                    return fault("mixes", format!("{mix}: no operation is in the share of {share}"));
                }
            }
        }
        None
    }
}

impl Scenario {
    /// One scenario for each combination of what is varied; this one alone where nothing is.
    pub fn variants(&self) -> Vec<Self> {
        let mut scenario = self.clone();
        let sweep = std::mem::take(&mut scenario.sweep);
        let mut variants = vec![scenario];
        // First, so that the repeats of a variant are not all from the same minute.
        let repeats: Vec<_> = sweep.repeats.map_or(Vec::new(), |repeats| (1..=repeats.get()).collect());
        vary(&mut variants, &repeats, |scenario, repeat| scenario.repeat = Some(*repeat));
        vary(&mut variants, &sweep.mixes, Self::mixed);
        let each: Vec<_> = self.operations.iter().map(|operation| operation.name.clone()).collect();
        vary(&mut variants, if sweep.apart { &each } else { &[] }, |scenario, name| {
            scenario.keep(|other| other == name)
        });
        // A mix may have taken away what was to run alone.
        variants.retain(|scenario| !scenario.operations.is_empty());
        vary(&mut variants, &sweep.connections, |scenario, connections| {
            scenario.load.connections = *connections;
            scenario.name += &format!("-{connections}c");
        });
        vary(&mut variants, &sweep.servers, |scenario, servers| {
            scenario.load.servers = *servers;
            scenario.name += &format!("-x{servers}");
        });
        vary(&mut variants, &sweep.rates, |scenario, rate| {
            scenario.load.schedule = scenario.load.at_rate(*rate);
            scenario.name += &format!("-{rate}-a-second").replace('.', "-");
        });
        vary(&mut variants, &sweep.server_cpus, |scenario, cpus| {
            scenario.load.server_cpus = Some(*cpus);
            scenario.name += &format!("-{cpus}-cpu").replace('.', "-");
        });
        vary(&mut variants, &sweep.fan_out, |scenario, number| {
            for operation in &mut scenario.operations {
                operation.path = operation.path.with_fan_out(*number);
                operation.expect = operation.expect.with_fan_out(*number);
                operation.body = operation.body.as_ref().map(|body| body.with_fan_out(*number));
            }
            for effect in &mut scenario.effects {
                if let Steps::FanOut(text) = &effect.each {
                    effect.each = Steps::Number(text.with_fan_out(*number).of(0).parse().unwrap_or(0.0));
                }
            }
            scenario.objectives.retain(|objective| objective.fan_out.is_none_or(|own| own == *number));
            scenario.objectives.iter_mut().for_each(|objective| objective.fan_out = None);
            scenario.name += &format!("-{number}");
        });
        vary(&mut variants, &sweep.slots, |scenario, slot| scenario.put_into(*slot));
        vary(&mut variants, &sweep.programs, |scenario, program| {
            let names = scenario.beside.iter_mut().map(|beside| &mut beside.program);
            let names = names.chain(scenario.checks.iter_mut().map(|check| &mut check.program));
            names.for_each(|name| *name = name.replace(PROGRAM, program));
            scenario.name += &format!("-{program}");
        });
        for scenario in &mut variants {
            scenario.keep_own_effects();
            scenario.name += &scenario.repeat.map_or(String::new(), |repeat| format!("-repeat-{repeat}"));
        }
        variants
    }

    /// Returns true if an operation has a place for the varied number, `{fan_out}`.
    fn has_fan_out(&self) -> bool {
        let of = |operation: &Operation| {
            operation.expect.templates().chain(&operation.body).chain([&operation.path]).any(Template::has_fan_out)
        };
        self.operations.iter().any(of)
    }

    fn mixed(&mut self, mix: &Mix) {
        let part = |operation: &Operation| mix.part(operation.class());
        let mut sums = vec![0.0; mix.0.len()];
        self.operations.iter().for_each(|operation| sums[part(operation)] += operation.weight);
        for operation in &mut self.operations {
            let at = part(operation);
            operation.weight *= mix.0[at] / sums[at];
        }
        let left: Vec<_> = self.operations.iter().filter(|operation| operation.weight > 0.0).collect();
        let left: Vec<_> = left.into_iter().map(|operation| operation.name.clone()).collect();
        self.retain(|name| left.iter().any(|left| left == name));
        self.name += &format!("-{}", mix.to_string().replace(['/', '.'], "-"));
    }

    fn keep(&mut self, which: impl Fn(&String) -> bool) {
        self.retain(which);
        for operation in &self.operations {
            let words = operation.name.split(|letter: char| !letter.is_ascii_alphanumeric());
            words.filter(|word| !word.is_empty()).for_each(|word| self.name += &format!("-{word}"));
        }
    }

    /// Leaves operations out, and what was promised of them.
    fn retain(&mut self, which: impl Fn(&String) -> bool) {
        self.operations.retain(|operation| which(&operation.name));
        self.effects.iter_mut().for_each(|effect| effect.operations.retain(&which));
        self.effects.retain(|effect| !effect.operations.is_empty());
        let mut objectives = std::mem::take(&mut self.objectives);
        objectives.retain(|objective| objective.operation.as_ref().is_none_or(&which) && self.has(&objective.classes));
        self.objectives = objectives;
        if !self.operations.iter().any(Operation::sends) {
            self.subscribers.retain(|subscribers| subscribers.call.is_none());
            self.objectives.retain(|objective| !matches!(objective.bound, Bound::LastLag { .. }));
        }
    }

    /// Returns true if there is an operation of one of these kinds; of no kind is any.
    pub fn has(&self, classes: &[Class]) -> bool {
        classes.is_empty() || self.operations.iter().any(|operation| classes.contains(&operation.class()))
    }
}

/// Each of the variants so far with each of the values; where there is no value they stay as they are.
fn vary<T>(variants: &mut Vec<Scenario>, values: &[T], set: impl Fn(&mut Scenario, &T)) {
    if values.is_empty() {
        return;
    }
    let with = |scenario: &Scenario, value: &T| {
        let mut scenario = scenario.clone();
        set(&mut scenario, value);
        scenario
    };
    *variants = variants.iter().flat_map(|scenario| values.iter().map(move |value| with(scenario, value))).collect();
}
