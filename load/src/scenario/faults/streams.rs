//! The faults in what a scenario says of streams, of refusals and of stages.

use crate::event;
use crate::template::Template;

use super::super::{Acknowledges, Bound, Data, Objective, Operation, RefusedBy, Restarts, Row, Scenario, Subscribers};
use super::is_time;

/// Why a text has no `{items}`, and no `{call}`.
pub(super) const NO_ITEMS: &str =
    "{items} and {call} stand in the body of an operation only, {fan_out} in an operation";

/// Items of a request at most: as many as the server takes.
const MOST_ITEMS: u64 = 10_000;

/// Why nothing can be said of refused requests.
pub(super) const NOT_REFUSABLE: &str = "no operation of it says how it is refused: refusal = { status, header }";

impl Operation {
    /// Returns the fault in its list, and in lists elsewhere.
    fn items_fault(&self) -> Option<(&'static str, &'static str)> {
        let has_either = |template: &Template| template.has_items() || template.has_call();
        let is_in_body = self.body.as_ref().is_some_and(Template::has_items);
        match &self.items {
            _ if has_either(&self.path) => Some(("path", NO_ITEMS)),
            _ if self.expect.templates().any(has_either) => Some(("expect", NO_ITEMS)),
            _ if self.sends() && !self.expect.is_about_json() => {
                Some(("expect", "what becomes of a message is in JSON: has, equal or between"))
            }
            _ if self.sends() && self.acknowledges.is_some() => Some((
                "acknowledges",
                "a message is no event of a stream: {call} stands in the body of another operation",
            )),
            Some(items) if !items.each.is_of_row() => Some(("items.each", "no list is in a list")),
            Some(items) if !(1..=MOST_ITEMS).contains(&items.count) => Some(("items.count", "from 1 to 10 000")),
            Some(_) if !is_in_body => Some(("items", "its body has no place for them: {items}")),
            None if is_in_body => Some(("body", "it has no items for {items}: items = { count, each }")),
            Some(_) | None => None,
        }
    }
}

impl Operation {
    /// Returns the fault in what its responses acknowledge.
    fn acknowledges_fault(&self, data: &Data) -> Option<(&'static str, &'static str)> {
        let acknowledges = self.acknowledges.as_ref()?;
        let Acknowledges { event, list, partition, offset, record } = acknowledges;
        let pointers = [Some(partition), Some(offset), event.as_ref(), list.as_ref()];
        let is_pointer = |pointer: &String| pointer.starts_with('/');
        let sent = || event::sent(&self.body_of(0, 0)?, event.as_deref());
        match () {
            () if data.stream.is_none() => Some(("acknowledges", "events are those of a stream: data.stream")),
            () if self.row != Row::New => Some(("row", "each event is one of its own: row = \"new\"")),
            () if !self.expect.is_about_json() => {
                Some(("expect", "what is acknowledged is in JSON: has, rows or each"))
            }
            () if !pointers.into_iter().flatten().all(is_pointer) => {
                Some(("acknowledges", "pointers of JSON begin with /"))
            }
            () if sent().is_none() => {
                Some(("acknowledges.event", "there is no event in the body, which has a payload"))
            }
            () if record.as_ref().is_some_and(|path| !path.is_of_row() || !path.of(0).starts_with('/')) => {
                Some(("acknowledges.record", "the path of a record; it begins with /"))
            }
            () => None,
        }
    }

    /// Returns the fault in how it is refused.
    fn refusal_fault(&self) -> Option<(&'static str, &'static str)> {
        let RefusedBy { status, header } = self.refusal.as_ref()?;
        match () {
            () if !(300..600).contains(status) || *status == self.expect.status => {
                Some(("refusal.status", "from 300 to 599, and not the status of a right answer"))
            }
            () if header.parse::<http::HeaderName>().is_err() => {
                Some(("refusal.header", "no name of a header of HTTP"))
            }
            () => None,
        }
    }

    /// Returns the fault in what it says of a stream.
    pub(super) fn stream_fault(&self, data: &Data) -> Option<(&'static str, &'static str)> {
        self.items_fault().or_else(|| self.acknowledges_fault(data)).or_else(|| self.refusal_fault())
    }
}

impl Subscribers {
    /// Returns the fault in the fields that only subscribers have to whom messages are sent.
    fn fault(&self) -> Option<&'static str> {
        let are_pointers = self.pointers().all(|pointer| pointer.starts_with('/'));
        let has_more = self.connections.is_some() || self.stalled != 0.0 || self.pointers().next().is_some();
        match () {
            () if self.call.is_none() && has_more => {
                Some("connections, each, below and stalled are of those with a call")
            }
            () if !are_pointers => Some("call, each and below: pointers of JSON begin with /"),
            () if !self.each.values().all(Template::is_of_row) => Some(NO_ITEMS),
            () if !self.over.is_sse() && self.subject_fault().is_some() => self.subject_fault(),
            () if self.over.is_sse() && self.subject.is_some() => {
                Some("subject: what is listened to over NATS: over = \"nats\", or \"jetstream\"")
            }
            () if self.call.is_some() && self.over.is_sse() && self.count > 1 && self.path.of(0) == self.path.of(1) => {
                Some("path: each listens to another record: {n}")
            }
            () if !(0.0..=1.0).contains(&self.stalled) => Some("stalled: a share of them, from 0 to 1"),
            () if self.connections.is_some_and(|number| !(1..=self.count).contains(&number)) => {
                Some("connections: at least one, and at most as many as there are")
            }
            () if self.connections.is_some() && self.stalled > 0.0 => {
                Some("stalled: one that reads nothing has a connection of its own")
            }
            () => None,
        }
    }
}

impl Scenario {
    /// Returns true if one of these operations, or any where none is named, says how it is refused.
    pub(super) fn is_refusable(&self, names: &[String]) -> bool {
        let named = |operation: &&Operation| names.is_empty() || names.contains(&operation.name);
        self.operations.iter().filter(named).any(|operation| operation.refusal.is_some())
    }

    /// Returns the fault in the parts of a closed loop.
    pub(in super::super) fn stages_fault(&self) -> Option<(String, String)> {
        let load = &self.load;
        let closed_end = load.seconds.is_some() || load.requests.is_some();
        let users = load.threads..=load.connections.saturating_mul(load.streams);
        let wrong = [
            (
                !load.stages.is_empty() && (load.is_open() || closed_end),
                "a closed loop in stages ends with them: without schedule, seconds and requests",
            ),
            (load.stages.len() > 1000, "at most a thousand"),
            (
                !load.stages.iter().all(|stage| users.contains(&stage.users)),
                "users: at least one for each thread, and at most one for each connection, or stream of one",
            ),
            (!load.stages.iter().all(|stage| is_time(stage.seconds)), "seconds: from a thousandth to a million"),
        ];
        let found = wrong.iter().find(|(wrong, _)| *wrong);
        found.map(|(_, reason)| ("load.stages".to_owned(), (*reason).to_owned()))
    }

    /// Returns the fault in the subscribers.
    pub(in super::super) fn subscribers_fault(&self) -> Option<&'static str> {
        let is_path = |subscribers: &Subscribers| {
            let path = subscribers.path.of(0);
            let kinds = [path.contains("stream=sse"), path.contains("wait=") && subscribers.call.is_none()];
            let is_right = path.starts_with('/') && path.parse::<http::Uri>().is_ok() && kinds[0] != kinds[1];
            is_right || !subscribers.over.is_sse()
        };
        let sends = self.operations.iter().any(Operation::sends);
        let (listens, follows) = (self.listeners().next().is_some(), self.followers().next().is_some());
        match () {
            () if sends != listens => Some(
                "an operation with {call} in its body needs subscribers with a call, and these need such an operation",
            ),
            () if listens && follows => Some("all are those of a stream, or all have a call"),
            () if follows && self.acknowledged_stream().is_none() => {
                Some("they wait for what an operation acknowledges")
            }
            () if !self.subscribers.iter().all(|one| (1..=20_000).contains(&one.count)) => {
                Some("count: from 1 to 20 000")
            }
            () if !self.subscribers.iter().all(|one| one.path.is_of_row()) => Some(NO_ITEMS),
            () if !self.subscribers.iter().all(is_path) => {
                Some("path: a path and a query, with stream=sse, or with wait= of a partition")
            }
            () => self.subscribers.iter().find_map(Subscribers::fault),
        }
    }

    /// Returns the fault in how the server is ended and started again.
    pub(in super::super) fn restarts_fault(&self) -> Option<&'static str> {
        let Restarts { kills, every_seconds } = self.restarts?;
        let enough = |seconds: f64| f64::from(kills) * every_seconds < seconds;
        match () {
            () if !(1..=1000).contains(&kills) => Some("kills: from 1 to 1000"),
            () if !is_time(every_seconds) => Some("every_seconds: from a thousandth to a million"),
            () if !self.load.seconds.is_some_and(enough) => {
                Some("they are within the seconds of a closed loop: load.seconds, more than kills times every_seconds")
            }
            () if !self.effects.is_empty() => Some("the counters of a server begin anew with it: no effects"),
            () if self.acknowledged_stream().is_none() => Some("nothing that is acknowledged is looked for afterwards"),
            () if !self.subscribers.is_empty() || !self.feeds.is_empty() => Some("subscribers end with the server"),
            () if self.load.server_cpus.is_some() || !self.sweep.server_cpus.is_empty() => {
                Some("the processors of a server are limited once: no server_cpus")
            }
            () => None,
        }
    }

    /// Why an objective cannot be that of a stage, or of refused requests.
    pub(super) fn stage_of_objective_fault(&self, objective: &Objective) -> Option<&'static str> {
        let is_stage = |stage: usize| (1..=self.load.stages.len()).contains(&stage);
        let sends = |operation: &Operation| {
            operation.sends() && objective.operation.as_ref().is_none_or(|name| *name == operation.name)
        };
        if !objective.stage.is_none_or(is_stage) {
            return Some("no stage has this number: load.stages, from 1 on");
        }
        match objective.bound {
            Bound::RefusedAtLeast(_) | Bound::RefusedAtMost(_) => {
                (!self.is_refusable(objective.operation.as_slice())).then_some(NOT_REFUSABLE)
            }
            Bound::Goodput { ref of_stages, .. } => {
                let others = of_stages.iter().all(|stage| is_stage(*stage) && objective.stage != Some(*stage));
                (objective.stage.is_none() || of_stages.is_empty() || !others)
                    .then_some("goodput is that of a stage, compared with that of others: stage and of_stages")
            }
            Bound::Growth { .. } | Bound::Lag { .. } | Bound::LastLag { .. } if objective.stage.is_some() => {
                Some("it is of a whole run, not of a stage")
            }
            Bound::Lag { .. } if self.followers().next().is_none() => {
                Some("a lag is that of subscribers of a stream: [[subscribers]]")
            }
            Bound::LastLag { .. } if !self.operations.iter().any(sends) => {
                Some("a last lag is that of messages to subscribers: an operation with {call} in its body")
            }
            Bound::Lag { .. } | Bound::LastLag { .. } if !self.load.is_open() => {
                Some("a bound on lags needs an open loop: load.schedule")
            }
            _ => None,
        }
    }
}
