//! The outcomes of the requests that send messages, recorded as they end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::expectation::Failure;
use crate::json::Json;
use crate::streams::appends::nanoseconds;

/// The targets of a message, as a response reports them. The last four are together the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// All of them.
    pub targets: u64,
    /// Those of whom a subscriber took it.
    pub delivered: u64,
    /// Those without a subscriber.
    pub absent: u64,
    /// Those with a subscriber that had not taken it.
    pub pending: u64,
    /// Those whom a transport did not reach.
    pub failed: u64,
    /// Those of them that it may reach later.
    pub timed_out: u64,
}

impl Answer {
    /// Reads an answer; none if a number is missing, or they do not add up.
    fn read(answer: &Json<'_>) -> Option<Self> {
        let number = |pointer| answer.at(pointer).and_then(Json::number);
        let (targets, delivered) = (number("/targets")?, number("/delivered")?);
        let (absent, pending, failed) = (number("/absent")?, number("/pending")?, number("/failed")?);
        let timed_out = number("/failures/timeout").unwrap_or_default();
        (targets == delivered + absent + pending + failed).then_some(Self {
            targets,
            delivered,
            absent,
            pending,
            failed,
            timed_out,
        })
    }
}

/// A request that sends a message.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    /// Its number.
    pub call: u64,
    /// When it should have started; nanoseconds.
    pub intended: u64,
    /// True if that was in a window, not in the warm-up.
    pub is_measured: bool,
    /// None where no answer says what became of it.
    pub answer: Option<Answer>,
}

/// The requests of one thread that send messages, in the order of their ends.
#[derive(Debug, Default)]
pub struct Sends {
    sends: Vec<Send>,
    warm_up_is_over: bool,
}

impl Sends {
    /// The warm-up is over; what comes is measured.
    pub fn end_warm_up(&mut self) {
        self.warm_up_is_over = true;
    }

    /// All of them.
    pub fn into_all(self) -> Vec<Send> {
        self.sends
    }
}

/// A request that sends a message and is under way. Without an answer it is let go: then it may have been carried out.
#[derive(Debug)]
pub struct Pending {
    sends: Rc<RefCell<Sends>>,
    send: Option<Send>,
}

impl Pending {
    /// The request with this number starts.
    pub fn new(sends: &Rc<RefCell<Sends>>, call: u64, intended: Instant) -> Self {
        let is_measured = sends.borrow().warm_up_is_over;
        let send = Some(Send { call, intended: nanoseconds(intended), is_measured, answer: None });
        Self { sends: Rc::clone(sends), send }
    }

    /// It has its end. An answer that does not say what became of its targets is wrong.
    pub fn end(self, checked: Result<Option<Json<'_>>, Failure>) -> Result<(), Failure> {
        match checked {
            Ok(read) => match read.is_some_and(|read| self.answer(&read)) {
                true => Ok(()),
                false => Err(Failure::Body),
            },
            Err(failure) => {
                if failure.changed_nothing() {
                    self.refuse();
                }
                Err(failure)
            }
        }
    }

    /// It was answered. False if the answer does not say what became of its targets.
    fn answer(mut self, read: &Json<'_>) -> bool {
        let answer = Answer::read(read);
        if let Some(send) = &mut self.send {
            send.answer = answer;
        }
        answer.is_some()
    }

    /// It was not carried out.
    pub fn refuse(mut self) {
        self.send = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.sends.borrow_mut().sends.extend(self.send);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_adds_up_or_is_none() {
        let read = |text: &str| Answer::read(&Json::read(text.as_bytes()).unwrap());
        let whole = r#"{"id":"1","targets":7,"delivered":4,"absent":2,"pending":1,"failed":0}"#;
        let answer = Answer { targets: 7, delivered: 4, absent: 2, pending: 1, failed: 0, timed_out: 0 };
        assert_eq!(read(whole), Some(answer));
        let late = r#""pending":0,"failed":1,"failures":{"unreachable":0,"timeout":1,"refused":0}}"#;
        let late = read(&whole.replace(r#""pending":1,"failed":0}"#, late));
        assert_eq!(late, Some(Answer { pending: 0, failed: 1, timed_out: 1, ..answer }));
        assert_eq!(read(&whole.replace("\"pending\":1", "\"pending\":2")), None);
        assert_eq!(read(&whole.replace("\"failed\":0", "\"other\":0")), None);
        assert_eq!(read(&whole.replace("\"targets\":7", "\"targets\":-7")), None);
    }

    #[test]
    fn what_has_no_answer_is_kept_as_such_and_what_was_refused_is_not() {
        let sends = Rc::<RefCell<Sends>>::default();
        let start = |call| Pending::new(&sends, call, Instant::now());
        drop(start(1));
        start(2).refuse();
        sends.borrow_mut().end_warm_up();
        let json = br#"{"targets":1,"delivered":1,"absent":0,"pending":0,"failed":0}"#;
        assert_eq!(start(3).end(Ok(Json::read(json))), Ok(()));
        assert_eq!(start(4).end(Ok(Json::read(b"{}"))), Err(Failure::Body));
        assert_eq!(start(5).end(Err(Failure::Status(413))), Err(Failure::Status(413)));
        assert_eq!(start(6).end(Err(Failure::Timeout)), Err(Failure::Timeout));
        let all = Rc::into_inner(sends).unwrap().into_inner().into_all();
        let told: Vec<_> = all.iter().map(|send| (send.call, send.is_measured, send.answer.is_some())).collect();
        assert_eq!(told, [(1, false, false), (3, true, true), (4, true, false), (6, true, false)]);
    }
}
