//! T26: what subscribers received, held against what answers say. It is a function of these and of nothing else, so that each fault can be
//! planted.

use std::collections::{HashMap, HashSet};

use hdrhistogram::Histogram;

use super::sends::{Answer, Send};

/// The deliveries to one subscriber.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Messages by the number of the request that sent them, and when they came; nanoseconds.
    pub messages: Vec<(u64, u64)>,
    /// Messages that it may not be sent, or that do not say which request sent them.
    pub strays: u64,
    /// The number of times that it was told that it is behind, or was cut off while it read nothing, and resumed.
    pub lagged: u64,
    /// True if the server ended it, or refused it.
    pub ended: bool,
    /// True if it reads nothing until requests end: what comes to it is late on purpose.
    pub is_stalled: bool,
}

/// Where figures by fan-out are told apart: targets up to so many.
pub const FAN_OUTS: [u64; 5] = [100, 1000, 2000, 3000, u64::MAX];

/// The outcomes of messages.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Messages whose requests were answered.
    pub answered: u64,
    /// Those of the warm-up.
    pub answered_in_warm_up: u64,
    /// Requests without an answer, which may have been carried out.
    pub unanswered: u64,
    /// The number that the responses report, over all.
    pub targets: u64,
    /// Of the answers.
    pub delivered: u64,
    /// Of the answers.
    pub absent: u64,
    /// Of the answers.
    pub pending: u64,
    /// Of the answers.
    pub failed: u64,
    /// Messages of answered requests that subscribers received, each once.
    pub received: u64,
    /// Those that answers call delivered or pending, and nobody received.
    pub lost: u64,
    /// Those that came to a subscriber again.
    pub doubled: u64,
    /// Those beyond what answers allow, and those that came to a subscriber that they are not for.
    pub stray: u64,
    /// Messages that were received of requests without an answer.
    pub of_unanswered: u64,
    /// The number of times that subscribers resumed.
    pub lagged: u64,
    /// Subscribers that the server ended, or refused.
    pub ended: u64,
    /// From the intended start of the request to each arrival; nanoseconds. Of requests in a window.
    pub lag: Histogram<u64>,
    /// To the last arrival of each message, among those that read all the time.
    pub last_lag: Histogram<u64>,
    /// By fan-out, as [`FAN_OUTS`] has it: messages, those received, and the last arrivals.
    pub by_fan_out: Vec<(u64, u64, Histogram<u64>)>,
    /// The number of durations that no histogram could hold.
    pub unrecorded: u64,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 significant digits are allowed")
}

/// Holds what subscribers received against what answers say. What is pending has to come, too: whoever is told that it is behind resumes.
/// If one has, who was absent may have a message all the same, and so may whom a broker said nothing of in time.
pub fn judge(sends: &[Send], received: &[Received]) -> Delivered {
    let mut all = Delivered::new(received);
    let arrived = all.arrivals(sends, received);
    for send in sends {
        let (count, last) = arrived.get(&send.call).copied().unwrap_or_default();
        match send.answer {
            Some(answer) => all.add(send, &answer, count, last),
            None => {
                all.unanswered += 1;
                all.of_unanswered += count;
            }
        }
    }
    all
}

impl Delivered {
    /// Before any message is looked at.
    fn new(received: &[Received]) -> Self {
        Self {
            answered: 0,
            answered_in_warm_up: 0,
            unanswered: 0,
            targets: 0,
            delivered: 0,
            absent: 0,
            pending: 0,
            failed: 0,
            received: 0,
            lost: 0,
            doubled: 0,
            stray: received.iter().map(|one| one.strays).sum(),
            of_unanswered: 0,
            lagged: received.iter().map(|one| one.lagged).sum(),
            ended: received.iter().filter(|one| one.ended).count() as u64,
            lag: histogram(),
            last_lag: histogram(),
            by_fan_out: FAN_OUTS.map(|_| (0, 0, histogram())).to_vec(),
            unrecorded: 0,
        }
    }

    /// By request: to how many subscribers its message came, and when to the last that read all the time, if it came to one. What came again,
    /// or was sent by no request, is noted.
    fn arrivals(&mut self, sends: &[Send], received: &[Received]) -> HashMap<u64, (u64, u64)> {
        let known: HashMap<u64, &Send> = sends.iter().map(|send| (send.call, send)).collect();
        let mut arrived: HashMap<u64, (u64, u64)> = HashMap::new();
        for one in received {
            let mut seen = HashSet::with_capacity(one.messages.len());
            for (call, time) in &one.messages {
                if !seen.insert(call) {
                    self.doubled += 1;
                    continue;
                }
                let Some(send) = known.get(call) else {
                    self.stray += 1;
                    continue;
                };
                let (count, last) = arrived.entry(*call).or_default();
                (*count, *last) = (*count + 1, if one.is_stalled { *last } else { (*last).max(*time) });
                if send.is_measured && send.answer.is_some() {
                    self.unrecorded += u64::from(self.lag.record(time.saturating_sub(send.intended)).is_err());
                }
            }
        }
        arrived
    }

    /// Adds a message that came to so many, to the last that read all the time then, or to none of those.
    fn add(&mut self, send: &Send, answer: &Answer, count: u64, last: u64) {
        let due = answer.delivered + answer.pending;
        let late = answer.timed_out + if self.lagged > 0 { answer.absent } else { 0 };
        self.lost += due.saturating_sub(count);
        self.stray += count.saturating_sub(due + late);
        if !send.is_measured {
            self.answered_in_warm_up += 1;
            return;
        }
        self.answered += 1;
        self.targets += answer.targets;
        self.delivered += answer.delivered;
        self.absent += answer.absent;
        self.pending += answer.pending;
        self.failed += answer.failed;
        self.received += count;
        let at = FAN_OUTS.iter().position(|most| answer.targets <= *most).unwrap_or(FAN_OUTS.len() - 1);
        let (messages, came, last_lag) = &mut self.by_fan_out[at];
        (*messages, *came) = (*messages + 1, *came + count);
        if last > 0 {
            let lag = last.saturating_sub(send.intended);
            self.unrecorded += u64::from(self.last_lag.record(lag).is_err() || last_lag.record(lag).is_err());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(call: u64, delivered: u64, absent: u64, pending: u64) -> Send {
        let answer = Answer { targets: delivered + absent + pending, delivered, absent, pending, ..Answer::default() };
        Send { call, intended: 100, is_measured: true, answer: Some(answer) }
    }

    fn received(messages: &[(u64, u64)]) -> Received {
        Received { messages: messages.to_vec(), ..Received::default() }
    }

    fn wrong(all: &Delivered) -> [u64; 3] {
        [all.lost, all.doubled, all.stray]
    }

    #[test]
    fn what_is_right_adds_up() {
        let sends = [send(1, 2, 0, 0), send(2, 1, 1, 0)];
        let all = judge(&sends, &[received(&[(1, 150), (2, 300)]), received(&[(1, 170)])]);
        assert_eq!((wrong(&all), all.answered, all.targets, all.delivered, all.received), ([0; 3], 2, 4, 3, 3));
        assert_eq!((all.lag.len(), all.last_lag.len(), all.last_lag.min(), all.last_lag.max()), (3, 2, 70, 200));
        assert_eq!((all.by_fan_out[0].0, all.by_fan_out[0].1, all.by_fan_out[1].0), (2, 3, 0));
    }

    #[test]
    fn each_fault_is_seen() {
        let sends = [send(1, 2, 0, 0)];
        let (one, none) = (received(&[(1, 150)]), received(&[]));
        assert_eq!(wrong(&judge(&sends, &[one.clone(), none.clone()])), [1, 0, 0], "one is left out");
        let twice = received(&[(1, 150), (1, 160)]);
        assert_eq!(wrong(&judge(&sends, &[twice, one.clone()])), [0, 1, 0], "one has it twice");
        let three = [one.clone(), one.clone(), one.clone()];
        assert_eq!(wrong(&judge(&sends, &three)), [0, 0, 1], "a neighbour has it, too");
        let other = Received { strays: 1, ..none.clone() };
        assert_eq!(wrong(&judge(&sends, &[one.clone(), one.clone(), other])), [0, 0, 1], "it is not for it");
        let unknown = received(&[(7, 150)]);
        assert_eq!(wrong(&judge(&sends, &[one.clone(), one.clone(), unknown])), [0, 0, 1], "nobody sent it");
        assert_eq!(wrong(&judge(&[send(1, 3, 0, 0)], &[one.clone(), one.clone()])), [1, 0, 0], "it says too much");
    }

    #[test]
    fn who_is_pending_has_it_at_last_and_who_was_absent_if_one_resumed() {
        let one = received(&[(1, 150)]);
        let pending = [send(1, 1, 0, 1)];
        assert_eq!(wrong(&judge(&pending, std::slice::from_ref(&one))), [1, 0, 0]);
        assert_eq!(wrong(&judge(&pending, &[one.clone(), one.clone()])), [0; 3]);
        let absent = [send(1, 1, 1, 0)];
        assert_eq!(wrong(&judge(&absent, std::slice::from_ref(&one))), [0; 3]);
        assert_eq!(wrong(&judge(&absent, &[one.clone(), one.clone()])), [0, 0, 1]);
        let resumed = Received { lagged: 1, ..one.clone() };
        assert_eq!(wrong(&judge(&absent, &[one.clone(), resumed])), [0; 3]);
        let mut late = send(1, 1, 0, 0);
        late.answer = late.answer.map(|answer| Answer { targets: 2, failed: 1, timed_out: 1, ..answer });
        assert_eq!(wrong(&judge(&[late], std::slice::from_ref(&one))), [0; 3]);
        assert_eq!(wrong(&judge(&[late], &[one.clone(), one.clone()])), [0; 3]);
        let unanswered = [Send { answer: None, ..send(1, 0, 0, 0) }];
        let all = judge(&unanswered, &[one]);
        assert_eq!((wrong(&all), all.unanswered, all.of_unanswered, all.received), ([0; 3], 1, 1, 0));
    }

    #[test]
    fn what_is_wrong_in_the_warm_up_is_wrong_and_no_figure() {
        let sends = [Send { is_measured: false, ..send(1, 2, 0, 0) }];
        let all = judge(&sends, &[received(&[(1, 150), (1, 160)]), received(&[])]);
        assert_eq!((wrong(&all), all.answered, all.answered_in_warm_up), ([1, 1, 0], 0, 1));
        assert_eq!((all.targets, all.received, all.lag.len(), all.last_lag.len()), (0, 0, 0, 0));
    }
}
