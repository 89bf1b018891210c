//! Subjects: where the message to a target, or to a topic that several share, is published.
//!
//! A subject is a list of tokens with a dot between, so the bytes of an id or of a topic that could be taken for something else are written
//! as `%XX`. What the broker would close the connection for (a line or a message that is too long) is known here and not sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use async_nats::Subject;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use smallvec::{SmallVec, smallvec};

use crate::multicast::Travelling;

/// The bytes of an id that are not written as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// The longest line of the protocol that a broker takes, unless it is configured otherwise (`max_control_line`).
const LINE_BYTES: usize = 4096;

/// What a line has beside the subject: verb, lengths, and the subject of an answer.
const LINE_BYTES_BESIDE: usize = 128;

/// What the headers have beside names and values: the version of their format, and their end.
const HEADERS_BYTES: usize = "NATS/1.0\r\n\r\n".len();

/// The header with the id of the message.
pub(super) const MESSAGE: &str = "Strata-Message";

/// The header with the ids of the targets of a topic.
pub(super) const TARGETS: &str = "Strata-Targets";

/// The header by which a stream knows what it has.
pub(super) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// A message to one target, or to some of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub(super) subject: Subject,
    /// Positions of the targets.
    pub(super) targets: SmallVec<[u32; 2]>,
    /// The targets of a topic, as the header says them.
    pub(super) named: Option<String>,
    /// Whether a broker takes it.
    pub(super) fits: bool,
}

impl Publication {
    /// Returns the id by which a stream knows it; the same each time that the message is published.
    pub(super) fn id(&self, message: &str) -> String {
        match &self.named {
            // A topic has several if their targets do not fit in one, and others for another greatest size.
            Some(named) => {
                let first = named.split(',').next().unwrap_or_default();
                format!("{message}/{}/{first}/{}", self.subject, self.targets.len())
            }
            None => format!("{message}/{}", self.subject),
        }
    }
}

/// Returns what is published for a message; `most` is the greatest size of headers and body together.
pub(super) fn publications(table: &str, message: &Travelling<'_>, most: usize) -> Vec<Publication> {
    let mut publications = Vec::with_capacity(message.targets.len());
    let mut topics: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (position, id) in message.targets.iter().enumerate() {
        match message.topics.get(position) {
            Some(Some(topic)) => topics.entry(topic).or_default().push(position as u32),
            _ => {
                let subject = format!("strata.{table}.{}", utf8_percent_encode(id, ENCODED));
                publications.push(publication(subject, smallvec![position as u32], None, message, most));
            }
        }
    }
    for (topic, targets) in topics {
        let subject = format!("strata.{table}.topic.{}", utf8_percent_encode(topic, ENCODED));
        of_topic(&subject, &targets, message, most, &mut publications);
    }
    publications
}

/// Adds the messages to the targets of a topic: as many as it takes until each names no more than fit.
fn of_topic(subject: &str, targets: &[u32], message: &Travelling<'_>, most: usize, out: &mut Vec<Publication>) {
    // What the id of the stream takes of the first target is at most the length of that.
    let (mut named, mut positions) = (String::new(), SmallVec::new());
    for position in targets {
        let before = named.len();
        let comma = if before > 0 { "," } else { "" };
        let id = utf8_percent_encode(&message.targets[*position as usize], ENCODED);
        write!(named, "{comma}{id}").expect("writing to memory does not fail");
        if before > 0 && headers_bytes(subject, Some(&named), message) + message.body.len() > most {
            let rest = named.split_off(before);
            let (full, all) = (std::mem::replace(&mut named, rest[1..].to_owned()), std::mem::take(&mut positions));
            out.push(publication(subject.to_owned(), all, Some(full), message, most));
        }
        positions.push(*position);
    }
    if !positions.is_empty() {
        out.push(publication(subject.to_owned(), positions, Some(named), message, most));
    }
}

fn publication(
    subject: String,
    targets: SmallVec<[u32; 2]>,
    named: Option<String>,
    message: &Travelling<'_>,
    most: usize,
) -> Publication {
    let bytes = headers_bytes(&subject, named.as_deref(), message) + message.body.len();
    let fits = bytes <= most && subject.len() + LINE_BYTES_BESIDE <= LINE_BYTES;
    Publication { subject: subject.into(), targets, named, fits }
}

/// Returns the length of the headers, with the one that only a stream asks for.
fn headers_bytes(subject: &str, named: Option<&str>, message: &Travelling<'_>) -> usize {
    let header = |name: &str, value_bytes: usize| name.len() + ": \r\n".len() + value_bytes;
    let first = named.map_or(0, |named| 1 + named.split(',').next().unwrap_or_default().len());
    HEADERS_BYTES
        + header(MESSAGE, message.id.len())
        + header(MESSAGE_ID, message.id.len() + 1 + subject.len() + first)
        + named.map_or(0, |named| header(TARGETS, named.len()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn of(targets: &[&str], topics: &[Option<&str>], body_bytes: usize, most: usize) -> Vec<Publication> {
        let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
        let topics: Vec<_> = topics.iter().map(|topic| topic.map(str::to_owned)).collect();
        let body = Bytes::from(vec![b'1'; body_bytes]);
        publications("Device", &Travelling { id: "m", targets: &targets, topics: &topics, body }, most)
    }

    #[test]
    fn every_byte_of_an_id_has_its_place_in_a_subject() {
        let all: String = (1..=0x7f_u8).map(char::from).chain("\u{e9}\u{1f600}".chars()).collect();
        let subject = of(&[&all], &[], 1, 1 << 20)[0].subject.to_string();
        let token = subject.strip_prefix("strata.Device.").unwrap();
        assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_%".contains(&byte)), "{token}");
        assert!(token.contains("%2E%2F0123456789%3A") && token.ends_with("%C3%A9%F0%9F%98%80"), "{token}");
        assert_eq!(percent_encoding::percent_decode_str(token).decode_utf8().unwrap(), all);
    }

    #[test]
    fn the_targets_of_a_topic_share_a_message_and_the_others_have_their_own() {
        let topics = [Some("b"), None, Some("a.b"), Some("b"), None];
        let found = of(&["d0", "d,1", "d2", "d3", "d4"], &topics, 10, 1 << 20);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.subject.as_str(), one.targets.to_vec(), one.named.as_deref(), one.id("m")))
            .collect();
        assert_eq!(
            shown,
            [
                ("strata.Device.d%2C1", vec![1], None, "m/strata.Device.d%2C1".to_owned()),
                ("strata.Device.d4", vec![4], None, "m/strata.Device.d4".to_owned()),
                ("strata.Device.topic.a%2Eb", vec![2], Some("d2"), "m/strata.Device.topic.a%2Eb/d2/1".to_owned()),
                ("strata.Device.topic.b", vec![0, 3], Some("d0,d3"), "m/strata.Device.topic.b/d0/2".to_owned()),
            ]
        );
    }

    #[test]
    fn a_topic_is_split_where_its_targets_do_not_fit() {
        let ids: Vec<_> = (0..1000).map(|number| format!("device-{number}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let topics = vec![Some("all"); ids.len()];
        for most in [1000, 1500, 4000, 20_000] {
            let found = of(&ids, &topics, 700, most);
            let named: Vec<_> = found.iter().flat_map(|one| one.named.as_deref().unwrap().split(',')).collect();
            assert_eq!(named, ids);
            let targets: Vec<_> = found.iter().flat_map(|one| one.targets.iter().copied()).collect();
            assert_eq!(targets, (0..1000).collect::<Vec<u32>>());
            assert!(found.iter().all(|one| one.fits && one.named.as_ref().unwrap().len() + 700 < most), "{most}");
            assert_eq!(found.len() == 1, most == 20_000);
        }
        assert!(of(&ids, &topics, 700, 710).iter().all(|one| !one.fits && one.targets.len() == 1));
    }

    #[test]
    fn what_a_broker_closes_the_connection_for_does_not_fit() {
        assert!(of(&["d"], &[], 1000, 1200)[0].fits && !of(&["d"], &[], 1200, 1200)[0].fits);
        let (longest, longer) = ("%".repeat(1024), "d".repeat(LINE_BYTES));
        assert!(of(&[&longest], &[], 1, 1 << 20)[0].fits && !of(&[&longer], &[], 1, 1 << 20)[0].fits);
    }
}
