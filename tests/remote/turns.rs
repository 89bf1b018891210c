//! One thread runs at a time; which one is next is drawn from a seed whenever the running one sends a request. So a seed determines the
//! order of all requests.

use std::cell::Cell;
use std::sync::{Condvar, Mutex};

use crate::engine::Random;

/// The turns of some threads.
pub struct Turns {
    state: Mutex<State>,
    has_changed: Condvar,
}

struct State {
    /// The thread that runs.
    current: usize,
    /// The threads that have not ended.
    alive: Vec<usize>,
    random: Random,
    /// How many turns there have been.
    turn: u64,
}

thread_local! { static NUMBER: Cell<Option<usize>> = const { Cell::new(None) }; }

/// The part of a thread in the turns, which ends when it is dropped, also by a panic.
pub struct Part<'t>(&'t Turns, usize);

impl Turns {
    pub fn of(threads: usize, seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let state = State { current: 0, alive: (0..threads).collect(), random, turn: 0 };
        Self { state: Mutex::new(state), has_changed: Condvar::new() }
    }

    /// Begins on a thread; returns when it is its turn.
    pub fn begin(&self, number: usize) -> Part<'_> {
        NUMBER.set(Some(number));
        self.wait(number);
        Part(self, number)
    }

    /// Gives the turn to whoever is drawn; returns when it is this thread's again. Others than those that have begun go on at once.
    pub fn pass(&self) {
        let Some(number) = NUMBER.get() else { return };
        self.draw();
        self.wait(number);
    }

    /// Returns the time: the number of turns so far.
    pub fn now(&self) -> u64 {
        self.state.lock().expect("no thread panics here").turn
    }

    fn draw(&self) {
        let mut state = self.state.lock().expect("no thread panics here");
        state.turn += 1;
        if !state.alive.is_empty() {
            let others = state.alive.len();
            let drawn = state.random.below(others);
            state.current = state.alive[drawn];
        }
        drop(state);
        self.has_changed.notify_all();
    }

    fn wait(&self, number: usize) {
        let state = self.state.lock().expect("no thread panics here");
        drop(self.has_changed.wait_while(state, |state| state.current != number));
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        NUMBER.set(None);
        self.0.state.lock().expect("no thread panics here").alive.retain(|alive| *alive != self.1);
        self.0.draw();
    }
}
