//! Slots: where registrations are, and over what messages come. The same scenario runs in several of them, as variants of one table.
//!
//! A scenario is written for our own registry and Server-Sent Events. What differs in another slot follows from it, so that the load is the
//! same: the schema, the subjects of subscribers, the servers beside ours, and the counters that an effect names for a registry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::template::Template;

use super::{Data, Scenario, Subscribers};

/// The beginning of pointers into a message that comes over HTTP; over NATS, the message comes alone.
pub const MESSAGE: &str = "/message";

/// Connections to JetStream, each with a consumer, where a scenario says nothing of them.
const CONSUMERS: usize = 30;

/// Where registrations are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registry {
    /// In our own storage.
    #[default]
    Strata,
    /// In a Redis.
    Redis,
}

/// Over what messages come to their subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Server-Sent Events.
    #[default]
    Sse,
    /// NATS.
    Nats,
    /// A stream of JetStream, read by consumers.
    Jetstream,
}

impl Over {
    /// Returns true for Server-Sent Events, the transport of a scenario that says nothing of it.
    pub fn is_sse(&self) -> bool {
        *self == Self::Sse
    }
}

/// A registry, and over what messages come; none where none are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slot {
    /// The registry.
    pub registry: Registry,
    /// Over what messages come.
    pub over: Option<Over>,
    /// True if subscribers over NATS reply to a message, and only then have it.
    pub replies: bool,
}

/// The texts of what a message comes over.
const TRANSPORTS: [(&str, Over, bool); 4] = [
    ("sse", Over::Sse, false),
    ("nats", Over::Nats, false),
    ("nats-reply", Over::Nats, true),
    ("jetstream", Over::Jetstream, false),
];

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!("{text}: strata or redis, and behind a + over what messages come: sse, nats, nats-reply, jetstream")
        };
        let (registry, over) = text.split_once('+').map_or((text, None), |(registry, over)| (registry, Some(over)));
        let registry = match registry {
            "strata" => Registry::Strata,
            "redis" => Registry::Redis,
            _ => return Err(refused()),
        };
        let Some(over) = over else { return Ok(Self { registry, over: None, replies: false }) };
        let (_, over, replies) = TRANSPORTS.iter().find(|(name, ..)| *name == over).ok_or_else(refused)?;
        Ok(Self { registry, over: Some(*over), replies: *replies })
    }
}

impl TryFrom<String> for Slot {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.registry {
            Registry::Strata => "strata",
            Registry::Redis => "redis",
        })?;
        let name = |over| TRANSPORTS.iter().find(|(_, own, replies)| (*own, *replies) == (over, self.replies));
        match self.over.and_then(name) {
            Some((name, ..)) => write!(formatter, "+{name}"),
            None => Ok(()),
        }
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.to_string()
    }
}

impl Slot {
    /// Returns true if it needs a NATS.
    pub fn has_nats(&self) -> bool {
        self.over.is_some_and(|over| !over.is_sse())
    }

    /// Returns true if it needs a Redis.
    pub fn has_redis(&self) -> bool {
        self.registry == Registry::Redis
    }

    /// The features that the server has to be built with.
    pub fn features(&self) -> Vec<&'static str> {
        let features = [("nats", self.has_nats()), ("redis", self.has_redis())];
        features.into_iter().filter_map(|(name, is_needed)| is_needed.then_some(name)).collect()
    }
}

impl Subscribers {
    /// The same over something else: the path `/T/ID?stream=sse` is the subject `strata.T.ID`.
    fn put_over(&mut self, over: Over) {
        if over.is_sse() || self.call.is_none() {
            return;
        }
        let path = String::from(std::mem::take(&mut self.path));
        let record = path.split('?').next().unwrap_or_default();
        let subject = format!("strata{}", record.replace('/', "."));
        (self.over, self.subject) = (over, Template::try_from(subject).ok());
        if over == Over::Jetstream && self.stalled == 0.0 {
            self.connections = self.connections.or(Some(CONSUMERS.min(self.count)));
        }
    }

    /// Returns the fault in what they listen to over NATS.
    pub(super) fn subject_fault(&self) -> Option<&'static str> {
        let is_token = |token: &str| {
            !token.is_empty() && !token.contains(|letter: char| letter.is_whitespace() || "*>".contains(letter))
        };
        let Some(subject) = &self.subject else { return Some("subject: what they listen to over NATS: strata.T.{n}") };
        let mut pointers = self.pointers();
        match () {
            () if self.call.is_none() => Some("over: those of a stream are followed by HTTP"),
            () if self.path != Template::default() => Some("path: over NATS a subject stands in its place"),
            () if !subject.is_of_row() || !subject.of(0).split('.').all(is_token) => {
                Some("subject: words with a dot between them, none of them empty or a wildcard")
            }
            () if !pointers.all(|pointer| pointer.starts_with(&format!("{MESSAGE}/"))) => {
                Some("call, each and below: over NATS there is the message alone: /message/...")
            }
            () if self.count > 1 && subject.of(0) == subject.of(1) => {
                Some("subject: each listens to another record: {n}")
            }
            () => None,
        }
    }
}

impl Data {
    /// Makes the tables with an end those of a Redis, which has no indexes.
    fn put_into_redis(&mut self) {
        self.schema = self
            .schema
            .replace(" @indexed", "")
            .replace("@table(expiration:", "@table(registry: \"redis\", expiration:");
    }
}

impl Scenario {
    /// Puts it into a slot, with a name of its own.
    pub(super) fn put_into(&mut self, slot: Slot) {
        self.slot = Some(slot);
        self.name += &format!("-{}", slot.to_string().replace('+', "-"));
        if slot.has_redis() {
            self.data.put_into_redis();
        }
        let over = slot.over.unwrap_or_default();
        self.subscribers.iter_mut().for_each(|subscribers| subscribers.put_over(over));
    }

    /// The same in the first of the slots that it is varied by.
    pub fn in_first_slot(mut self) -> Self {
        if !self.sweep.slots.is_empty() {
            let slot = self.sweep.slots.remove(0);
            self.sweep.slots.clear();
            self.put_into(slot);
        }
        self.keep_own_effects();
        self
    }

    /// Where its registrations are.
    pub fn registry(&self) -> Registry {
        self.slot.map_or(Registry::Strata, |slot| slot.registry)
    }

    /// Leaves out effects that are those of another registry.
    pub fn keep_own_effects(&mut self) {
        let own = self.registry();
        self.effects.retain(|effect| effect.registry.is_none_or(|registry| registry == own));
    }

    /// Returns the fault in its slot.
    pub(super) fn slot_fault(&self) -> Option<&'static str> {
        let over = self.slot.and_then(|slot| slot.over).unwrap_or_default();
        let listens_elsewhere = self.listeners().any(|subscribers| subscribers.over != over);
        match () {
            () if listens_elsewhere => Some("over: that of its slot, such as strata+nats"),
            () => self.slot.and_then(|slot| self.fault_in(slot)),
        }
    }

    /// Why it cannot be in a slot.
    pub(super) fn fault_in(&self, slot: Slot) -> Option<&'static str> {
        let holds = |subscribers: &Subscribers| subscribers.path.of(0).contains("hold=true");
        match () {
            () if self.listeners().next().is_some() && slot.over.is_none() => {
                Some("over what messages come: strata+sse, strata+nats, strata+nats-reply, strata+jetstream")
            }
            () if self.listeners().any(holds) && (slot.has_redis() || slot.has_nats()) => {
                Some("what is held is in our own registry, by its stream: strata+sse")
            }
            () if slot.has_redis() && self.data.table.is_none() => Some("a Redis has no streams: data.table"),
            () if slot.has_redis() && !self.data.schema.contains("expiration:") => {
                Some("what is in a Redis has an end: @table(expiration: ...)")
            }
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_as_it_is_written() {
        for text in ["strata", "redis", "strata+sse", "strata+nats", "strata+nats-reply", "redis+jetstream"] {
            assert_eq!(text.parse::<Slot>().unwrap().to_string(), text);
        }
        for wrong in ["", "nats", "strata+", "strata+redis", "redis+nats+sse", "Strata"] {
            assert!(wrong.parse::<Slot>().is_err(), "{wrong}");
        }
        let of = |text: &str| text.parse::<Slot>().unwrap().features();
        assert_eq!((of("strata+sse"), of("redis+sse")), (vec![], vec!["redis"]));
        assert_eq!((of("strata+jetstream"), of("redis+nats-reply")), (vec!["nats"], vec!["nats", "redis"]));
    }
}
