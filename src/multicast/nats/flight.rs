//! A message on its way: what is known of each of its publications, and who is told.
//!
//! The broker says of a publication that nobody has subscribed ("no responders"), and of the others nothing: whatever it has not spoken of
//! before the message that closes them was taken by somebody, if all went out on the same connection. A stream says of each that it has it.

use parking_lot::Mutex;

use super::subjects::Publication;
use crate::feed::{Standing, Way};
use crate::multicast::{Failures, Receipts};

/// From how many refusals on nothing is known of the publications of a message that the broker has not spoken of: the client passes on no more
/// of its words at a time than twice as many.
const REFUSALS: usize = 64;

/// What is known of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    Unsaid,
    /// Nobody has subscribed.
    Absent,
    /// Somebody has, and has not answered.
    Interested,
    /// Taken.
    Delivered,
    /// What the broker says of it may have been lost, and is not waited for.
    Unknown,
    /// There was no connection.
    Unreachable,
    /// The broker does not take it.
    Refused,
}

/// A message on its way.
pub(super) struct Flight {
    /// The id of the message.
    pub(super) id: String,
    pub(super) publications: Box<[Publication]>,
    /// By publication.
    connections: Box<[u16]>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Whom it is told, until that is over.
    way: Option<Way>,
    /// By publication.
    states: Box<[State]>,
    /// How many words are still to come.
    open: usize,
    refusals: usize,
}

impl Flight {
    /// Returns a message of which nothing is known; `connections` says on which connection each publication goes out.
    pub(super) fn new(
        id: &str,
        publications: Vec<Publication>,
        connections: impl Iterator<Item = u16>,
        way: Option<Way>,
    ) -> Self {
        let progress = Progress { way, states: vec![State::Unsaid; publications.len()].into(), open: 0, refusals: 0 };
        Self {
            id: id.to_owned(),
            publications: publications.into(),
            connections: connections.collect(),
            progress: Mutex::new(progress),
        }
    }

    /// Returns the numbers of the publications that go out on a connection.
    pub(super) fn on(&self, connection: u16) -> impl Iterator<Item = usize> {
        (0..self.publications.len())
            .filter(move |number| self.connections[*number] == connection && self.publications[*number].fits)
    }

    /// Gives up what cannot be published: what does not fit, and all on a connection that is not there. Returns the connections of the rest,
    /// each of which will be closed.
    pub(super) fn set_out(&self, is_connected: impl Fn(u16) -> bool) -> Vec<u16> {
        let mut progress = self.progress.lock();
        let mut used = Vec::new();
        for (number, publication) in self.publications.iter().enumerate() {
            let connection = self.connections[number];
            if !publication.fits {
                self.fail(&mut progress, number, State::Refused);
            } else if !is_connected(connection) {
                self.fail(&mut progress, number, State::Unreachable);
            } else if !used.contains(&connection) {
                used.push(connection);
            }
        }
        progress.open = used.len();
        self.end_if_done(&mut progress);
        used
    }

    /// Gives up what does not fit, and waits for the stream to acknowledge the rest.
    pub(super) fn set_out_to_stream(&self) {
        let mut progress = self.progress.lock();
        for number in 0..self.publications.len() {
            match self.publications[number].fits {
                true => progress.open += 1,
                false => self.fail(&mut progress, number, State::Refused),
            }
        }
        self.end_if_done(&mut progress);
    }

    /// Nobody has subscribed to the subject of a publication.
    pub(super) fn absent(&self, number: usize) {
        let mut progress = self.progress.lock();
        if progress.states.get(number) == Some(&State::Unsaid) {
            progress.states[number] = State::Absent;
        }
    }

    /// A subscriber has answered.
    pub(super) fn replied(&self, number: usize) {
        let mut progress = self.progress.lock();
        match progress.states.get(number) {
            Some(State::Interested) => progress.open -= 1,
            Some(State::Unsaid | State::Unknown | State::Refused) => {}
            _ => return,
        }
        self.deliver(&mut progress, number);
        self.end_if_done(&mut progress);
    }

    /// The stream has acknowledged a publication.
    pub(super) fn acknowledged(&self, number: usize) {
        let mut progress = self.progress.lock();
        if progress.states.get(number) == Some(&State::Unsaid) {
            progress.open = progress.open.saturating_sub(1);
            self.deliver(&mut progress, number);
            self.end_if_done(&mut progress);
        }
    }

    /// The broker does not allow what is published to a subject. Returns whether it is one of this message.
    pub(super) fn refused(&self, subject: &str) -> bool {
        let Some(number) = self.publications.iter().position(|publication| publication.subject.as_str() == subject)
        else {
            return false;
        };
        let mut progress = self.progress.lock();
        progress.refusals += 1;
        if progress.states[number] == State::Unsaid {
            self.fail(&mut progress, number, State::Refused);
        }
        true
    }

    /// The broker has spoken of all publications of a connection of which it has something to say; unless `is_whole`, the connection has broken
    /// meanwhile, and what went out before may be lost.
    pub(super) fn closed(&self, connection: u16, is_whole: bool, receipts: Receipts) {
        let mut progress = self.progress.lock();
        let is_known = is_whole && progress.refusals < REFUSALS;
        for number in self.on(connection) {
            match progress.states[number] {
                State::Unsaid if !is_known => self.fail(&mut progress, number, State::Unknown),
                State::Unsaid if receipts == Receipts::Interest => self.deliver(&mut progress, number),
                State::Unsaid => {
                    progress.states[number] = State::Interested;
                    progress.open += 1;
                    self.say(&progress, number, Standing::Pending);
                }
                _ => {}
            }
        }
        progress.open = progress.open.saturating_sub(1);
        self.end_if_done(&mut progress);
    }

    /// Ends it: nobody is told any more. What nobody has spoken of is `unsaid`.
    pub(super) fn end(&self, unsaid: Standing) {
        let mut progress = self.progress.lock();
        for number in (0..self.publications.len()).filter(|number| progress.states[*number] == State::Unsaid) {
            self.say(&progress, number, unsaid);
        }
        progress.way = None;
    }

    /// Returns why targets have failed, of those that have.
    pub(super) fn failures(&self, standings: &[Standing]) -> Failures {
        let (progress, mut failures) = (self.progress.lock(), Failures::default());
        for (publication, state) in self.publications.iter().zip(&progress.states) {
            let counted = match state {
                State::Unreachable => &mut failures.unreachable,
                State::Refused => &mut failures.refused,
                _ => &mut failures.timeout,
            };
            let is_failed = |target: &&u32| standings[**target as usize] == Standing::Failed;
            *counted += publication.targets.iter().filter(is_failed).count();
        }
        failures
    }

    fn deliver(&self, progress: &mut Progress, number: usize) {
        progress.states[number] = State::Delivered;
        self.say(progress, number, Standing::Delivered);
    }

    fn fail(&self, progress: &mut Progress, number: usize, state: State) {
        progress.states[number] = state;
        self.say(progress, number, Standing::Failed);
    }

    fn say(&self, progress: &Progress, number: usize, standing: Standing) {
        if let Some(way) = &progress.way {
            self.publications[number].targets.iter().for_each(|target| way.say(*target as usize, standing));
        }
    }

    fn end_if_done(&self, progress: &mut Progress) {
        if progress.open == 0 {
            progress.way = None;
        }
    }
}
