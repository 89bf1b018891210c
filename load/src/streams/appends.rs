//! The outcomes of the requests that append, recorded as they end: as little as can be, because the next request waits for it. The events
//! themselves are made again from their templates afterwards.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::event::{self, Content};
use crate::json::Json;
use crate::scenario::{Acknowledges, Operation, Scenario};
use crate::template::Template;

use super::deliveries::Sent;
use super::promises::{self, Acknowledged, Promises, ReadBack, Unanswered};

/// Where an event was acknowledged, in 64 bits: 47 of the offset, 16 of the partition, one that it was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u64);

impl Place {
    fn new(partition: u64, offset: u64, duplicate: bool) -> Option<Self> {
        let fits = partition < 1 << 16 && offset < 1 << 47;
        fits.then_some(Self(offset << 17 | partition << 1 | u64::from(duplicate)))
    }

    fn partition(self) -> usize {
        usize::from((self.0 >> 1) as u16)
    }

    fn offset(self) -> u64 {
        self.0 >> 17
    }

    fn is_duplicate(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A request that appends.
#[derive(Clone, Copy, Debug)]
struct Request {
    user: u32,
    operation: u32,
    row: u64,
    /// When it should have started, and when it did; nanoseconds.
    intended: u64,
    started: u64,
    /// The number of events that were acknowledged; none where no response says what became of it.
    acknowledged: Option<u32>,
}

/// The outcomes of the requests of one thread that append, in the order of their ends.
#[derive(Debug, Default)]
pub struct Appends {
    requests: Vec<Request>,
    places: Vec<Place>,
    /// The number of the requests of the warm-up.
    warm_up: usize,
}

/// A moment of this process, in nanoseconds since the first that was asked for.
pub fn nanoseconds(moment: Instant) -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(|| Instant::now() - Duration::from_secs(1));
    moment.saturating_duration_since(*FIRST).as_nanos() as u64
}

/// A request that appends and is under way. Without an answer that says what became of it, it is let go: then it may have been carried out.
#[derive(Debug)]
pub struct Pending {
    appends: Rc<RefCell<Appends>>,
    request: Option<Request>,
}

impl Pending {
    /// The request of a user about a row starts.
    pub fn new(
        appends: &Rc<RefCell<Appends>>,
        user: u32,
        (operation, row): (usize, u64),
        (intended, started): (Instant, Instant),
    ) -> Self {
        let (intended, started) = (nanoseconds(intended), nanoseconds(started));
        let request = Some(Request { user, operation: operation as u32, row, intended, started, acknowledged: None });
        Self { appends: Rc::clone(appends), request }
    }

    /// It was answered. False if the answer does not say where its events stand; then it may have been carried out all the same.
    pub fn acknowledge(mut self, acknowledges: &Acknowledges, answer: &Json<'_>) -> bool {
        let mut appends = self.appends.borrow_mut();
        let before = appends.places.len();
        let told = match &acknowledges.list {
            None => place(acknowledges, answer).map(|place| appends.places.push(place)),
            Some(list) => answer.at(list).and_then(Json::list).and_then(|list| {
                list.iter().try_for_each(|one| place(acknowledges, one).map(|place| appends.places.push(place)))
            }),
        };
        match (told, self.request) {
            (Some(()), Some(request)) => {
                let acknowledged = Some((appends.places.len() - before) as u32);
                appends.requests.push(Request { acknowledged, ..request });
                drop(appends);
                self.request = None;
                true
            }
            _ => {
                appends.places.truncate(before);
                false
            }
        }
    }

    /// It was not carried out.
    pub fn refuse(mut self) {
        self.request = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.appends.borrow_mut().requests.push(request);
        }
    }
}

/// Where an answer, or one of its list, says that an event stands.
fn place(acknowledges: &Acknowledges, told: &Json<'_>) -> Option<Place> {
    let (parent, _) = acknowledges.offset.rsplit_once('/')?;
    let duplicate = told.at(parent)?.at("/duplicate").is_some_and(|duplicate| duplicate.raw() == "true");
    let number = |pointer: &str| told.at(pointer).and_then(Json::number);
    Place::new(number(&acknowledges.partition)?, number(&acknowledges.offset)?, duplicate)
}

impl Appends {
    /// The warm-up is over; what comes is measured.
    pub fn end_warm_up(&mut self) {
        self.warm_up = self.requests.len();
    }

    /// The events that were acknowledged and not there before.
    pub fn sent(&self) -> impl Iterator<Item = Sent> + '_ {
        let mut places = self.places.iter();
        let answered =
            self.requests.iter().enumerate().filter_map(|(at, request)| Some((at, request, request.acknowledged?)));
        answered.flat_map(move |(at, request, told)| {
            let own: Vec<_> = places.by_ref().take(told as usize).filter(|place| !place.is_duplicate()).collect();
            own.into_iter().map(move |place| Sent {
                partition: place.partition(),
                offset: place.offset(),
                intended: request.intended,
                started: request.started,
                is_measured: at >= self.warm_up,
            })
        })
    }

    /// The events that were acknowledged, each as often as it was. One whose place was not told stands nowhere.
    fn acknowledged<'a>(&'a self, scenario: &'a Scenario) -> impl Iterator<Item = Acknowledged> + 'a {
        let mut places = self.places.iter();
        self.requests.iter().filter_map(|request| Some((request, request.acknowledged?))).flat_map(
            move |(request, told)| {
                let events = events(scenario, request);
                let number = events.len().max(told as usize);
                let own: Vec<_> = places.by_ref().take(told as usize).collect();
                let acknowledged = move |at: usize| {
                    let place = own.get(at);
                    Acknowledged {
                        user: request.user,
                        partition: place.map_or(usize::MAX, |place| place.partition()),
                        offset: place.map_or(u64::MAX, |place| place.offset()),
                        duplicate: place.is_some_and(|place| place.is_duplicate()),
                        event: events.get(at).map_or(0, |content| content.event),
                    }
                };
                (0..number).map(acknowledged)
            },
        )
    }
}

/// The events that a request sent.
fn events(scenario: &Scenario, request: &Request) -> Vec<Content> {
    let operation = &scenario.operations[request.operation as usize];
    let event = operation.acknowledges.as_ref().and_then(|acknowledges| acknowledges.event.as_deref());
    operation.body_of(request.row, 0).and_then(|body| event::sent(&body, event)).unwrap_or_default()
}

fn record(operation: &Operation) -> Option<&Template> {
    operation.acknowledges.as_ref()?.record.as_ref()
}

/// The paths of the records that requests write beside their events, in their order.
pub fn records(scenario: &Scenario, appends: &[Appends]) -> Vec<String> {
    let requests = appends.iter().flat_map(|appends| &appends.requests);
    let path = |request: &Request| Some(record(&scenario.operations[request.operation as usize])?.of(request.row));
    requests.filter_map(path).collect()
}

/// The promises of a stream over a run: what was read against what requests came to, the events that were there before included, which
/// are those of the data in so many partitions. `are_there` says of each of the [`records`] whether it is.
pub fn judge(
    scenario: &Scenario,
    appends: &[Appends],
    seeded: Option<usize>,
    read: ReadBack,
    are_there: &[bool],
) -> Promises {
    let data = &scenario.data;
    let seeds = seeded.into_iter().flat_map(|partitions| {
        (0..data.rows + data.spare).map(move |number| Acknowledged {
            user: u32::MAX,
            partition: (number % partitions as u64) as usize,
            offset: number / partitions as u64,
            duplicate: false,
            event: event::sent(&data.row.of(number), None).map_or(0, |sent| sent[0].event),
        })
    });
    let acknowledged = seeds.chain(appends.iter().flat_map(|appends| appends.acknowledged(scenario)));
    let (mut are_there, mut written) = (are_there.iter(), Vec::new());
    let requests = appends.iter().flat_map(|appends| &appends.requests);
    let unanswered = requests.filter_map(|request| {
        let operation = &scenario.operations[request.operation as usize];
        let record = record(operation).and_then(|_| are_there.next().copied());
        match request.acknowledged {
            Some(_) => {
                written.extend(record);
                None
            }
            None => Some(Unanswered {
                events: events(scenario, request).iter().map(|content| content.event).collect(),
                record,
            }),
        }
    });
    let mut promises = promises::check(read, acknowledged, unanswered);
    written.into_iter().for_each(|is_there| promises.note_record(is_there));
    promises
}
