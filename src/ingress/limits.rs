//! Limits that protect clients from each other, not only the server from all of them.
//!
//! A client alone may use all of a limit. Once it is full, room is made at the cost of the client that holds most of it, for another who then
//! holds no more than it does; everything else is refused. (In routers this is the longest queue drop: Suter et al., "Design considerations for
//! supporting TCP with per-flow queueing", 1998.) What that client gives up is decided by the [rank](Holder::rank) of what it holds.
//!
//! Most requests find room: they count by atomic additions, for the limit and for their client. Only who finds none looks at other clients.

use std::array::from_fn;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use super::client::Client;

/// The interval at which somebody who waits for room checks whether it is still needed.
const LOOK: Duration = Duration::from_millis(100);

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Connections.
    Connections,
    /// Bodies being received.
    Bodies,
    /// Bytes of bodies in memory.
    BodyBytes,
    /// Bytes of unsent responses in memory.
    ResponseBytes,
    /// Change feeds.
    Feeds,
    /// Single reads in the pool.
    Reads,
    /// Writes in the pool.
    Writes,
    /// Lists in the pool.
    Lists,
    /// NDJSON lists in the pool.
    Dumps,
    /// Threads of NDJSON lists.
    DumpThreads,
    /// Appends to streams without a response.
    Appends,
    /// Bytes of their bodies.
    AppendBytes,
    /// Multicasts without a response.
    Multicasts,
    /// Thumbnails in the pool.
    Thumbnails,
}

impl Limited {
    /// All limits.
    pub const ALL: [Self; 14] = [
        Self::Connections,
        Self::Bodies,
        Self::BodyBytes,
        Self::ResponseBytes,
        Self::Feeds,
        Self::Reads,
        Self::Writes,
        Self::Lists,
        Self::Dumps,
        Self::DumpThreads,
        Self::Appends,
        Self::AppendBytes,
        Self::Multicasts,
        Self::Thumbnails,
    ];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Bodies => "bodies",
            Self::BodyBytes => "body_bytes",
            Self::ResponseBytes => "response_bytes",
            Self::Feeds => "feeds",
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Lists => "lists",
            Self::Dumps => "dumps",
            Self::DumpThreads => "dump_threads",
            Self::Appends => "appends",
            Self::AppendBytes => "append_bytes",
            Self::Multicasts => "multicasts",
            Self::Thumbnails => "thumbnails",
        }
    }
}

const LIMITS: usize = Limited::ALL.len();

/// Something that holds a part of a limit, and can be made to give it up.
pub trait Holder: Send + Sync {
    /// Returns its rank: of what a client holds, that of the least rank is given up first. `None` if it cannot be given up now. `number`
    /// ascends with each part that the client takes.
    fn rank(&self, number: u64) -> Option<u64>;

    /// Gives it up: what it stands for ends soon. Called once, after its part was freed.
    fn give_up(&self);
}

/// All limits of a server.
pub struct Limits {
    most: [AtomicUsize; LIMITS],
    used: [AtomicUsize; LIMITS],
    outcomes: [(AtomicU64, AtomicU64); LIMITS],
    clients: Mutex<HashMap<Client, Weak<Holdings>>>,
    /// One at a time makes room. Signalled when something was freed.
    room: (Mutex<()>, Condvar),
}

/// What became of requests for a part of a limit, since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Refused, because the limit was full.
    pub refused: u64,
    /// Given up for others.
    pub given_up: u64,
}

/// What a client holds of each limit.
pub struct Holdings {
    limits: Arc<Limits>,
    client: Client,
    used: [AtomicUsize; LIMITS],
    holders: [Mutex<Holders>; LIMITS],
}

/// The parts that can be given up.
#[derive(Default)]
struct Holders {
    /// The number of the next part.
    next: u64,
    /// In the order of their numbers: most are added and removed at an end.
    parts: VecDeque<Part>,
}

struct Part {
    number: u64,
    amount: usize,
    holder: Arc<dyn Holder>,
}

impl Holders {
    fn add(&mut self, amount: usize, holder: Arc<dyn Holder>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.parts.push_back(Part { number, amount, holder });
        number
    }

    /// Returns a part that was not given up.
    fn part(&mut self, number: u64) -> Option<&mut Part> {
        let position = self.position(number)?;
        self.parts.get_mut(position)
    }

    fn remove(&mut self, number: u64) -> Option<Part> {
        let position = self.position(number)?;
        self.parts.remove(position)
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.parts.binary_search_by_key(&number, |part| part.number).ok()
    }
}

/// A part of a limit, freed on drop unless it was given up.
pub struct Held {
    holdings: Arc<Holdings>,
    limited: Limited,
    amount: usize,
    /// Its number, if it can be given up.
    number: Option<u64>,
}

impl Limits {
    /// Creates limits of these amounts.
    pub fn new(most: impl Fn(Limited) -> usize) -> Arc<Self> {
        Arc::new(Self {
            most: Limited::ALL.map(|limited| AtomicUsize::new(most(limited))),
            used: from_fn(|_| AtomicUsize::new(0)),
            outcomes: from_fn(|_| (AtomicU64::new(0), AtomicU64::new(0))),
            clients: Mutex::default(),
            room: (Mutex::new(()), Condvar::new()),
        })
    }

    /// Sets the amount of a limit.
    pub fn set(&self, limited: Limited, most: usize) {
        self.most[limited as usize].store(most, Relaxed);
    }

    fn most(&self, limited: Limited) -> usize {
        self.most[limited as usize].load(Relaxed)
    }

    /// Returns what a client holds, now and from now on.
    pub fn of(self: &Arc<Self>, client: Client) -> Arc<Holdings> {
        let mut clients = self.clients.lock();
        if let Some(known) = clients.get(&client).and_then(Weak::upgrade) {
            return known;
        }
        let (used, holders) = (from_fn(|_| AtomicUsize::new(0)), from_fn(|_| Mutex::default()));
        let holdings = Arc::new(Holdings { limits: Arc::clone(self), client, used, holders });
        clients.insert(client, Arc::downgrade(&holdings));
        holdings
    }

    /// Returns the amount in use.
    pub fn used(&self, limited: Limited) -> usize {
        self.used[limited as usize].load(Relaxed)
    }

    /// Returns what became of requests for parts.
    pub fn outcomes(&self, limited: Limited) -> Outcomes {
        let (refused, given_up) = &self.outcomes[limited as usize];
        Outcomes { refused: refused.load(Relaxed), given_up: given_up.load(Relaxed) }
    }

    /// Adds to the amount in use, unless there is no room.
    fn add(&self, limited: Limited, amount: usize) -> bool {
        let (used, most) = (&self.used[limited as usize], self.most(limited));
        let fits = used.fetch_add(amount, Relaxed).saturating_add(amount) <= most;
        if !fits {
            used.fetch_sub(amount, Relaxed);
        }
        fits
    }
}

impl Holdings {
    /// Takes a part of a limit; `None` if there is no room for it. Without a holder it is not given up for others.
    pub fn take(self: &Arc<Self>, limited: Limited, amount: usize, holder: Option<&Arc<dyn Holder>>) -> Option<Held> {
        let taken = self.try_take(limited, amount, holder);
        if taken.is_none() {
            self.limits.outcomes[limited as usize].0.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Returns the client.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Takes a part as soon as there is room; `None` after the deadline, or if nobody waits for it any more. More than the whole limit takes
    /// all of it, since it would wait forever otherwise.
    pub fn take_when_room(
        self: &Arc<Self>,
        limited: Limited,
        amount: usize,
        holder: Option<&Arc<dyn Holder>>,
        deadline: Instant,
        is_abandoned: impl Fn() -> bool,
    ) -> Option<Held> {
        let amount = amount.min(self.limits.most(limited));
        loop {
            let taken = self.try_take(limited, amount, holder);
            if taken.is_some() || is_abandoned() {
                return taken;
            }
            if Instant::now() >= deadline {
                self.limits.outcomes[limited as usize].0.fetch_add(1, Relaxed);
                return None;
            }
            let (lock, freed) = &self.limits.room;
            freed.wait_for(&mut lock.lock(), LOOK);
        }
    }

    /// Takes a part of a limit, if there is room for it, for somebody who otherwise tries again.
    pub(super) fn try_take(
        self: &Arc<Self>,
        limited: Limited,
        amount: usize,
        holder: Option<&Arc<dyn Holder>>,
    ) -> Option<Held> {
        if !self.limits.add(limited, amount) && !self.make_room(limited, amount) {
            return None;
        }
        self.used[limited as usize].fetch_add(amount, Relaxed);
        let number = holder.map(|holder| self.holders[limited as usize].lock().add(amount, Arc::clone(holder)));
        Some(Held { holdings: Arc::clone(self), limited, amount, number })
    }

    /// Makes room for a part at the cost of the client that holds most, and adds it to the amount in use; returns false if that is not due.
    #[cold]
    fn make_room(&self, limited: Limited, amount: usize) -> bool {
        let _alone = self.limits.room.0.lock();
        let held = |holdings: &Holdings| holdings.used[limited as usize].load(Relaxed);
        let clients: Vec<_> = self.limits.clients.lock().values().filter_map(Weak::upgrade).collect();
        let others = || clients.iter().filter(|other| other.client != self.client);
        let most = others().map(|other| held(other)).max().unwrap_or_default();
        let is_made =
            others().filter(|other| held(other) == most).any(|other| self.make_room_by(other, limited, amount));
        is_made && self.limits.add(limited, amount)
    }

    /// Has another client give up as much as is missing, as long as it then holds no less than this one; returns whether there is room.
    fn make_room_by(&self, other: &Self, limited: Limited, amount: usize) -> bool {
        let position = limited as usize;
        let used = self.limits.used[position].load(Relaxed);
        let missing = used.saturating_add(amount).saturating_sub(self.limits.most(limited));
        let (mut freed, mut given_up) = (0, Vec::new());
        for (number, part_amount) in other.ranked(limited) {
            if freed >= missing {
                break;
            }
            given_up.push(number);
            freed += part_amount;
        }
        let left = other.used[position].load(Relaxed).saturating_sub(freed);
        if freed < missing || self.used[position].load(Relaxed) + amount > left {
            return false;
        }
        for number in given_up {
            let Some(part) = other.remove(limited, number) else { continue };
            other.free(limited, part.amount);
            self.limits.outcomes[position].1.fetch_add(1, Relaxed);
            part.holder.give_up();
        }
        true
    }

    /// Returns the number and the amount of each part that can be given up, that of the least rank first.
    fn ranked(&self, limited: Limited) -> Vec<(u64, usize)> {
        let holders = self.holders[limited as usize].lock();
        let ranked = |part: &Part| Some((part.holder.rank(part.number)?, part.number, part.amount));
        let mut parts: Vec<_> = holders.parts.iter().filter_map(ranked).collect();
        parts.sort_unstable();
        parts.into_iter().map(|(_, number, amount)| (number, amount)).collect()
    }

    fn remove(&self, limited: Limited, number: u64) -> Option<Part> {
        self.holders[limited as usize].lock().remove(number)
    }

    fn free(&self, limited: Limited, amount: usize) {
        self.used[limited as usize].fetch_sub(amount, Relaxed);
        self.limits.used[limited as usize].fetch_sub(amount, Relaxed);
        self.limits.room.1.notify_all();
    }
}

impl Drop for Holdings {
    fn drop(&mut self) {
        let mut clients = self.limits.clients.lock();
        // Another may have taken its place.
        if clients.get(&self.client).is_some_and(|known| known.strong_count() == 0) {
            clients.remove(&self.client);
        }
    }
}

impl Held {
    /// Takes more of the same limit; returns false if there is no room for it, or the part was given up.
    pub fn grow(&mut self, more: usize) -> bool {
        let (holdings, limited) = (&self.holdings, self.limited);
        if !holdings.limits.add(limited, more) && !holdings.make_room(limited, more) {
            holdings.limits.outcomes[limited as usize].0.fetch_add(1, Relaxed);
            return false;
        }
        holdings.used[limited as usize].fetch_add(more, Relaxed);
        if let Some(number) = self.number {
            match holdings.holders[limited as usize].lock().part(number) {
                Some(part) => part.amount += more,
                None => {
                    holdings.free(limited, more);
                    return false;
                }
            }
        }
        self.amount += more;
        true
    }

    /// Holds the part until the last clone of these bytes is dropped.
    pub(super) fn with(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Counted { bytes, _held: self })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let amount = match self.number {
            None => Some(self.amount),
            Some(number) => self.holdings.remove(self.limited, number).map(|part| part.amount),
        };
        if let Some(amount) = amount {
            self.holdings.free(self.limited, amount);
        }
    }
}

/// Bytes with the part of a limit that they hold.
struct Counted<B> {
    bytes: B,
    _held: Held,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Counted<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Returns the number of bytes a second since a moment: the rank of what is given up when it is the slowest.
pub fn rate(bytes: &AtomicU64, since: Instant) -> u64 {
    (bytes.load(Relaxed) as f64 / since.elapsed().as_secs_f64().max(1e-6)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Something with a rank of its own.
    #[derive(Default)]
    struct Thing {
        rank: Option<u64>,
        is_given_up: AtomicBool,
    }

    impl Holder for Thing {
        fn rank(&self, _number: u64) -> Option<u64> {
            self.rank
        }

        fn give_up(&self) {
            assert!(!self.is_given_up.swap(true, Relaxed), "once");
        }
    }

    const ONE: Limited = Limited::Bodies;

    fn limits(most: usize) -> Arc<Limits> {
        Limits::new(|_| most)
    }

    fn client(limits: &Arc<Limits>, number: u8) -> Arc<Holdings> {
        limits.of(Client::at([127, 0, 0, number].into()))
    }

    fn thing(rank: u64) -> Arc<Thing> {
        Arc::new(Thing { rank: Some(rank), ..Thing::default() })
    }

    fn take(holdings: &Arc<Holdings>, amount: usize, thing: &Arc<Thing>) -> Option<Held> {
        let holder: Arc<dyn Holder> = thing.clone();
        holdings.take(ONE, amount, Some(&holder))
    }

    fn given_up(things: &[Arc<Thing>]) -> Vec<u64> {
        things.iter().filter(|thing| thing.is_given_up.load(Relaxed)).filter_map(|thing| thing.rank).collect()
    }

    #[test]
    fn who_is_alone_may_use_all_and_no_more() {
        let limits = limits(3);
        let one = client(&limits, 1);
        let held: Vec<_> = (0..3).filter_map(|rank| take(&one, 1, &thing(rank))).collect();
        assert_eq!((held.len(), limits.used(ONE)), (3, 3));
        assert!(one.take(ONE, 1, None).is_none(), "not at its own cost");
        drop((held, one));
        assert_eq!((limits.used(ONE), limits.outcomes(ONE)), (0, Outcomes { refused: 1, given_up: 0 }));
        assert!(limits.clients.lock().is_empty());
    }

    #[test]
    fn room_is_made_by_the_greediest_until_the_shares_are_equal() {
        let limits = limits(4);
        let [one, two, three] = [1, 2, 3].map(|number| client(&limits, number));
        let things = [7, 3, 9, 5].map(thing);
        let held: Vec<_> = things.iter().filter_map(|thing| take(&one, 1, thing)).collect();
        let first = two.take(ONE, 1, None).expect("3 and 1");
        assert_eq!(given_up(&things), [3]);
        let second = two.take(ONE, 1, None).expect("2 and 2");
        assert_eq!(given_up(&things), [3, 5]);
        assert!(two.take(ONE, 1, None).is_none(), "1 and 3 would not be fair");
        let third = three.take(ONE, 1, None);
        assert!(third.is_some() && limits.used(ONE) == 4, "1, 2 and 1");
        assert_eq!(given_up(&things), [7, 3, 5]);
        drop((held, first, second, third));
        assert_eq!((limits.used(ONE), limits.outcomes(ONE)), (0, Outcomes { refused: 1, given_up: 3 }));
    }

    #[test]
    fn what_cannot_be_given_up_stays() {
        let limits = limits(3);
        let busy = Arc::new(Thing::default());
        let held: Vec<_> = (0..3).filter_map(|_| take(&client(&limits, 1), 1, &busy)).collect();
        assert!(client(&limits, 2).take(ONE, 1, None).is_none());
        assert_eq!((held.len(), limits.outcomes(ONE).given_up), (3, 0));
    }

    #[test]
    fn as_much_is_given_up_as_is_missing() {
        let limits = limits(100);
        let (one, two, things) = (client(&limits, 1), client(&limits, 2), [1, 2, 3].map(thing));
        let mut held: Vec<_> = things.iter().filter_map(|thing| take(&one, 30, thing)).collect();
        assert!(held[2].grow(10));
        assert!(!held[2].grow(1), "it is alone");
        let mut other = take(&two, 35, &thing(0)).expect("40 and 35");
        assert_eq!(given_up(&things), [1, 2]);
        assert!(two.take(ONE, 50, None).is_none() && !other.grow(50), "85 would be more than the other has");
        assert!(!held[0].grow(1), "it was given up");
        assert_eq!(limits.used(ONE), 75);
        drop(held);
        assert_eq!(limits.used(ONE), 35);
        drop(other);
        assert_eq!(limits.used(ONE), 0);
    }

    #[test]
    fn limits_do_not_mix() {
        let limits = limits(1);
        let one = client(&limits, 1);
        let held = Limited::ALL.map(|limited| one.take(limited, 1, None).is_some());
        assert_eq!(held, [true; LIMITS]);
        assert_eq!(Limited::ALL.map(|limited| limited as usize), from_fn(|position| position));
    }

    #[test]
    fn who_waits_for_room_gets_it_or_is_told() {
        let limits = limits(4);
        let (one, far) = (client(&limits, 1), Instant::now() + Duration::from_secs(3600));
        let held = one.take_when_room(ONE, 9, None, far, || false).expect("more than all takes all");
        assert!(one.take_when_room(ONE, 1, None, Instant::now(), || false).is_none(), "the deadline");
        assert!(one.take_when_room(ONE, 1, None, far, || true).is_none(), "nobody waits");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| one.take_when_room(ONE, 1, None, far, || false).is_some());
            drop(held);
            assert!(waiting.join().expect("it does not panic"));
        });
    }

    #[test]
    fn many_threads_leave_nothing_behind() {
        let limits = limits(50);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let limits = &limits;
                scope.spawn(move || {
                    for round in 0..2000_u64 {
                        let one = client(limits, number);
                        let held: Vec<_> = (0..=number).filter_map(|_| take(&one, 7, &thing(round))).collect();
                        assert!(limits.used(ONE) <= 50 + 4 * 7);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(limits.used(ONE), 0);
        assert!(limits.clients.lock().is_empty());
    }
}
