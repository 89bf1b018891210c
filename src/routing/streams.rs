//! `/S` and what is below it: what a request to a stream can ask for, and the parameters in its URL.

use std::borrow::Cow;

use http::HeaderMap;

use crate::error::{Error, Place};
use crate::handlers::streams::{Followed, LONGEST_WAIT_MS, MOST_EVENTS, Reading};
use crate::handlers::{self, Failure, Result};
use crate::schema::Stream;
use crate::streams::Start;

/// The maximum number of events in a response, unless the request says another.
const USUAL_EVENTS: u64 = 100;

/// The most partitions that a subscription follows.
const FOLLOWED_PARTITIONS: u32 = 64;

/// The paths of a stream below its name, in the order of their templates.
pub(super) const SHAPES: [&str; 4] = ["", "/bulk", "/consumers", "/consumers/{group}"];

/// Returns the position among the shapes of a path below the name of a stream, even if there is nothing.
pub(super) fn shape(rest: &str) -> usize {
    match rest {
        "" => 0,
        "bulk" => 1,
        _ if rest.starts_with("consumers/") => 3,
        _ => 2,
    }
}

/// A request to a stream.
#[derive(Clone, Debug)]
pub(super) enum Asked<'r> {
    Append,
    AppendAll,
    Read(Reading),
    Follow(Followed),
    Trim { partition: u32, before: u64 },
    Truncate,
    Groups,
    Group(Cow<'r, str>),
    Commit(Cow<'r, str>),
    RemoveGroup(Cow<'r, str>),
}

/// Parses the parameters of a read, or of a subscription (`stream=sse`).
pub(super) fn reading<'r>(stream: &Stream, query: &str, headers: &HeaderMap) -> Result<Asked<'r>> {
    let parameters = Parameters::of(query, &["stream", "partition", "from", "since", "limit", "wait"])?;
    match parameters.text("stream") {
        Some("sse") => return following(stream, &parameters, headers).map(Asked::Follow),
        Some(_) => return Err(parameters.refuse("stream", "events are streamed as sse")),
        None => {}
    }
    let (from, since) = (parameters.number("from", u64::MAX)?, parameters.number("since", u64::MAX)?);
    let from = match (from, since) {
        (Some(_), Some(_)) => return Err(parameters.refuse("since", "from and since exclude each other")),
        (Some(offset), None) => Start::Offset(offset),
        (None, Some(time_ms)) => Start::Since(time_ms),
        (None, None) => Start::Beginning,
    };
    let limit = parameters.number("limit", MOST_EVENTS)?.unwrap_or(USUAL_EVENTS) as usize;
    let wait_ms = parameters.number("wait", LONGEST_WAIT_MS)?.unwrap_or(0);
    Ok(Asked::Read(Reading { partition: parameters.partition(stream)?, from, limit, wait_ms }))
}

/// Returns where a subscription begins. A place in `Last-Event-ID` wins over `from`: a browser that reconnects sends both.
fn following(stream: &Stream, parameters: &Parameters<'_>, headers: &HeaderMap) -> Result<Followed> {
    if let Some(name) = ["since", "limit", "wait"].into_iter().find(|name| parameters.text(name).is_some()) {
        return Err(parameters.refuse(name, "it does not go with stream=sse"));
    }
    let partitions = match parameters.text("partition") {
        None if stream.partitions > FOLLOWED_PARTITIONS => {
            let detail =
                format!("partition is required: of more than {FOLLOWED_PARTITIONS}, one is followed at a time");
            return Err(at(0, detail));
        }
        None => 0..stream.partitions,
        Some(_) => parameters.partition(stream).map(|partition| partition..partition + 1)?,
    };
    let from = match parameters.text("from") {
        None => None,
        Some("earliest") => Some(Start::Beginning),
        Some(_) if partitions.len() > 1 => {
            return Err(parameters.refuse("from", "an offset is one of a partition: name it, or from=earliest"));
        }
        Some(_) => parameters.number("from", u64::MAX)?.map(Start::Offset),
    };
    let Some(known) = handlers::streams::last_offsets(headers)? else {
        return Ok(partitions.map(|partition| (partition, from)).collect());
    };
    if let Some((other, _)) = known.iter().find(|(partition, _)| !partitions.contains(partition)) {
        return Err(Error::invalid(format!("Last-Event-ID: partition {other} is not followed")).into());
    }
    // One that it lacks is newer than it.
    let start = |partition| known.iter().find(|(known, _)| *known == partition);
    let start = |partition| start(partition).map_or(Start::Beginning, |(_, offset)| Start::Offset(*offset));
    Ok(partitions.map(|partition| (partition, Some(start(partition)))).collect())
}

/// Parses the parameters of a deletion.
pub(super) fn deleting<'r>(stream: &Stream, query: &str) -> Result<Asked<'r>> {
    let parameters = Parameters::of(query, &["partition", "before", "truncate"])?;
    match (parameters.text("truncate"), parameters.number("before", u64::MAX)?) {
        (Some("true"), None) if parameters.text("partition").is_none() => Ok(Asked::Truncate),
        (Some("true"), _) => Err(parameters.refuse("truncate", "it trims everything: it takes no other parameter")),
        (Some(_), _) => Err(parameters.refuse("truncate", "truncate must be true")),
        (None, Some(before)) => Ok(Asked::Trim { partition: parameters.partition(stream)?, before }),
        (None, None) => {
            Err(parameters.refuse("before", "before=OFFSET is required; to delete every event, use truncate=true"))
        }
    }
}

/// The parameters in a URL.
pub(super) struct Parameters<'q>(Vec<(&'q str, &'q str, usize)>);

impl<'q> Parameters<'q> {
    /// Parses `name=value` pairs of these names.
    ///
    /// # Errors
    /// 400 at the byte of a parameter that is not known, has no value, or is given twice.
    pub(super) fn of(query: &'q str, known: &[&str]) -> Result<Self> {
        let (mut found, mut position) = (Self(Vec::new()), 0);
        for term in query.split('&').filter(|_| !query.is_empty()) {
            let refused = match term.split_once('=') {
                Some((name, _)) if found.text(name).is_some() => format!("{name} is given twice"),
                Some((name, value)) if known.contains(&name) => {
                    found.0.push((name, value, position + name.len() + 1));
                    position += term.len() + 1;
                    continue;
                }
                _ if known.is_empty() => "no parameter is supported here".to_owned(),
                _ => format!("expected one of {}, with a value", known.join(", ")),
            };
            return Err(at(position, refused));
        }
        Ok(found)
    }

    fn text(&self, name: &str) -> Option<&'q str> {
        self.0.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| *value)
    }

    /// Returns a number, if it is given.
    ///
    /// # Errors
    /// 400 at its byte if it is none from 0 to `most`.
    fn number(&self, name: &str, most: u64) -> Result<Option<u64>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && *number <= most);
        number.map(Some).ok_or_else(|| self.refuse(name, &format!("{name} must be a whole number from 0 to {most}")))
    }

    /// Returns the partition, which may be left out of a stream of one.
    fn partition(&self, stream: &Stream) -> Result<u32> {
        match self.number("partition", u64::from(stream.partitions) - 1)? {
            Some(partition) => Ok(partition as u32),
            None if stream.partitions == 1 => Ok(0),
            None => {
                let detail = format!("partition is required: {} has {}", stream.name, stream.partitions);
                Err(at(0, detail))
            }
        }
    }

    /// Returns a failure at a parameter, or at the beginning if it is not given.
    fn refuse(&self, name: &str, detail: &str) -> Failure {
        let position = self.0.iter().find(|(known, ..)| *known == name).map_or(0, |(_, _, position)| *position);
        at(position, detail.to_owned())
    }
}

fn at(position: usize, detail: String) -> Failure {
    Error::Invalid { detail, place: Place::Position(position) }.into()
}

impl Asked<'_> {
    /// Returns whether it may write.
    pub(super) fn may_write(&self) -> bool {
        !matches!(self, Self::Read(_) | Self::Follow(_) | Self::Groups | Self::Group(_))
    }

    /// Returns whether it examines any number of partitions or groups.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Truncate | Self::Groups)
    }
}
