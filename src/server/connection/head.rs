//! The memory of a head that is not complete: the HTTP library keeps it until it is, up to the length of its buffer.
//!
//! It counts as memory of bodies. Heads of usual length do not, since the number of connections bounds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::frames::{CONTINUATION, END_HEADERS, Frames, HEADERS, Part};
use super::{BUFFER_BYTES, Order, Watch};
use crate::ingress::{Held, Holder, Limited, Peer, rate};

/// Longer heads are counted.
const USUAL_BYTES: usize = 8 << 10;

/// What the client of HTTP/2 sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The head that is being received.
pub(super) struct Head {
    peer: Peer,
    watch: Arc<Watch>,
    received: Received,
    bytes: usize,
    counted: Option<(Held, Arc<Counted>)>,
}

/// How heads are told in what was received.
enum Received {
    /// This much of the preface of HTTP/2, and nothing else.
    Preface(usize),
    /// A head begins where the last body has ended; it ends when there is a request more than these.
    Http1(u64),
    Http2(Frames),
}

/// A head that counts. For another client, the one with the fewest bytes a second is given up, with its connection.
struct Counted {
    watch: Arc<Watch>,
    began: Instant,
    bytes: AtomicU64,
}

impl Holder for Counted {
    fn rank(&self, _number: u64) -> Option<u64> {
        Some(rate(&self.bytes, self.began))
    }

    fn give_up(&self) {
        self.watch.order(Order::Leave);
    }
}

impl Head {
    pub(super) fn of(peer: Peer, watch: &Arc<Watch>) -> Self {
        Self { peer, watch: Arc::clone(watch), received: Received::Preface(0), bytes: 0, counted: None }
    }

    /// Notes received bytes.
    pub(super) fn note(&mut self, mut bytes: &[u8]) {
        self.end();
        if let Received::Preface(known) = self.received {
            let more = bytes.len().min(PREFACE.len() - known);
            self.received = match bytes[..more] == PREFACE[known..known + more] {
                false => Received::Http1(0),
                true if known + more < PREFACE.len() => Received::Preface(known + more),
                true => {
                    bytes = &bytes[more..];
                    Received::Http2(Frames::default())
                }
            };
        }
        match &mut self.received {
            Received::Preface(_) => {}
            // Nothing is kept beyond the buffer.
            Received::Http1(_) if self.watch.in_flight.load(Relaxed) == 0 => {
                self.bytes = (self.bytes + bytes.len()).min(BUFFER_BYTES);
            }
            Received::Http1(_) => {}
            Received::Http2(frames) => {
                for Part { kind, flags, bytes, is_last } in frames.parts(bytes) {
                    match kind {
                        HEADERS | CONTINUATION if is_last && flags & END_HEADERS != 0 => {
                            (self.bytes, self.counted) = (0, None);
                        }
                        HEADERS | CONTINUATION => self.bytes = (self.bytes + bytes).min(BUFFER_BYTES),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Counts what was received before and completed no head; returns false if there is no room for it.
    pub(super) fn count(&mut self) -> bool {
        self.bytes <= USUAL_BYTES || self.count_long()
    }

    fn count_long(&mut self) -> bool {
        self.end();
        match &mut self.counted {
            _ if self.bytes <= USUAL_BYTES => true,
            Some((held, counted)) => {
                let more = self.bytes as u64 - counted.bytes.swap(self.bytes as u64, Relaxed);
                more == 0 || held.grow(more as usize)
            }
            None => {
                let (watch, bytes) = (Arc::clone(&self.watch), AtomicU64::new(self.bytes as u64));
                let counted = Arc::new(Counted { watch, began: Instant::now(), bytes });
                let holder: Arc<dyn Holder> = counted.clone();
                self.counted = self.peer.take(Limited::BodyBytes, self.bytes, &holder).map(|held| (held, counted));
                self.counted.is_some()
            }
        }
    }

    /// Ends the head of HTTP/1, if a request has begun since.
    pub(super) fn end(&mut self) {
        let begun = self.watch.requests.load(Relaxed);
        if let Received::Http1(requests) = &mut self.received
            && *requests != begun
        {
            (*requests, self.bytes, self.counted) = (begun, 0, None);
        }
    }
}
