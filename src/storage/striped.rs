//! Counters of calls, counted by many threads and seldom read.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Striped counters, each stripe on its own cache line, so that threads do not contend for one line. A thread owns a stripe until it ends
/// and counts without an atomic read-modify-write; threads that find none free share the last.
pub(crate) struct Striped<const N: usize = 1>([Stripe<N>; STRIPES]);

pub(super) const STRIPES: usize = 32;

#[repr(align(64))]
struct Stripe<const N: usize>([AtomicU64; N]);

/// The number of the stripe that a thread owns in all counters.
struct OwnedStripe(usize);

static FREE: LazyLock<Mutex<Vec<usize>>> = LazyLock::new(|| Mutex::new((0..STRIPES - 1).rev().collect()));

thread_local! { static OWN: OwnedStripe = OwnedStripe(FREE.lock().pop().unwrap_or(STRIPES - 1)); }

impl Drop for OwnedStripe {
    fn drop(&mut self) {
        if self.0 < STRIPES - 1 {
            FREE.lock().push(self.0);
        }
    }
}

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Stripe(std::array::from_fn(|_| AtomicU64::new(0)))))
    }
}

impl Striped {
    /// Counts.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.add_each([more]);
    }

    /// Returns the sum of all stripes.
    pub(crate) fn sum(&self) -> u64 {
        self.sums()[0]
    }
}

impl<const N: usize> Striped<N> {
    /// Adds to each counter.
    #[inline]
    pub(crate) fn add_each(&self, more: [u64; N]) {
        let number = OWN.try_with(|own| own.0).unwrap_or(STRIPES - 1);
        let Stripe(counts) = &self.0[number];
        for (count, more) in counts.iter().zip(more) {
            if number < STRIPES - 1 {
                count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            } else {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// Returns the sum of all stripes for each counter.
    pub(crate) fn sums(&self) -> [u64; N] {
        let sum = |counter: usize| self.0.iter().map(|stripe| stripe.0[counter].load(Ordering::Relaxed)).sum();
        std::array::from_fn(sum)
    }
}
