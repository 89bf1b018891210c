//! What the server says to its operator: lines on standard error, written by a thread of their own.
//!
//! Whoever reads standard error may have stopped, and then a pipe is soon full and holds up whoever writes to it. So a line is put
//! into a bounded queue; one that finds no place is counted and lost, as in the access log. One for the whole process, because
//! there is one standard error.

use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How many lines may wait to be written.
const LINES: usize = 1024;

static STANDARD_ERROR: LazyLock<Messages> = LazyLock::new(|| Messages::start(std::io::stderr(), LINES));

/// Says something, in one line whatever the text is. Waits for nobody.
pub fn log(text: &str) {
    STANDARD_ERROR.log(text);
}

/// Waits until what was said is written; at most so long, because nobody may be reading.
pub fn flush(longest: Duration) {
    STANDARD_ERROR.flush(longest);
}

/// Lines that were lost, because too many waited or could not be written.
pub fn dropped_lines() -> u64 {
    STANDARD_ERROR.dropped.load(Ordering::Relaxed)
}

struct Messages {
    queue: SyncSender<String>,
    /// Lines in the queue, and the one that is being written.
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl Messages {
    fn start(mut out: impl Write + Send + 'static, lines: usize) -> Self {
        let (queue, texts) = sync_channel::<String>(lines);
        let (waiting, dropped) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let (written, lost) = (Arc::clone(&waiting), Arc::clone(&dropped));
        let thread = std::thread::Builder::new().name("strata-messages".to_owned());
        // Without a thread there is nobody at the end of the queue: all lines are lost, and counted.
        let _ = thread.spawn(move || {
            for text in texts {
                if out.write_all(text.as_bytes()).is_err() {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
                written.fetch_sub(1, Ordering::Release);
            }
        });
        Self { queue, waiting, dropped }
    }

    fn log(&self, text: &str) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(format!("strata: {}\n", text.replace(char::is_control, " "))).is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self, longest: Duration) {
        let began = Instant::now();
        while self.waiting.load(Ordering::Acquire) > 0 && began.elapsed() < longest {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// What is written, if it can be: not while somebody holds it.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_says_something_does_not_wait_for_who_reads_it() {
        let pipe = Pipe::default();
        let messages = Messages::start(pipe.clone(), 4);
        let full = pipe.0.lock();
        (0..100).for_each(|number| messages.log(&format!("line\n{number}")));
        messages.flush(Duration::ZERO);
        drop(full);
        messages.flush(Duration::from_secs(60));
        let text = String::from_utf8(pipe.0.lock().clone()).unwrap();
        let dropped = messages.dropped.load(Ordering::Relaxed);
        assert_eq!(text.lines().count() as u64 + dropped, 100, "{text}");
        assert!((4..=5).contains(&text.lines().count()), "as many as wait, and the one that is being written: {text}");
        assert!(text.starts_with("strata: line 0\nstrata: line 1\n"), "{text}");
    }

    #[test]
    fn lines_that_nobody_can_read_are_counted() {
        let messages = Messages::start(std::fs::File::options().write(true).open("/dev/full").unwrap(), 4);
        messages.log("nothing");
        messages.flush(Duration::from_secs(60));
        assert_eq!(messages.dropped.load(Ordering::Relaxed), 1);
    }
}
