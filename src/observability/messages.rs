//! Messages to the operator: `tracing` events, one line each on standard error.
//!
//! Every layer logs by `tracing::error!`, `warn!` or `info!`. If the reader of standard error has stopped, its pipe soon fills up and
//! blocks every writer, so a thread of its own writes the lines ([`Lines`]). There is one per process, since there is one standard error.
//! Programs that use the layers as a library need not start it, and may subscribe to the events themselves.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use super::lines::Lines;

/// The maximum number of queued lines.
const LINES: usize = 1024;

static STANDARD_ERROR: OnceLock<Lines> = OnceLock::new();

/// Starts to write messages to standard error.
///
/// # Panics
/// If no thread can be started.
pub fn start() {
    let lines = STANDARD_ERROR.get_or_init(|| Lines::start("strata-messages", LINES, 0, std::io::stderr()));
    if let Some(queue) = lines.queue() {
        // Fails if there is a subscriber already, which is then kept.
        let _ = tracing::subscriber::set_global_default(subscriber(queue));
    }
}

/// Waits until all messages so far are written, at most `longest`, since nobody may be reading. Later messages are lost.
pub fn close(longest: Duration) {
    if let Some(lines) = STANDARD_ERROR.get() {
        lines.close(longest);
    }
}

/// Returns the number of lines that were lost, because the queue was full or they could not be written.
pub fn dropped_lines() -> u64 {
    STANDARD_ERROR.get().map_or(0, Lines::lost)
}

/// Formats our own events; those of other crates concern clients, who must not fill the log.
fn subscriber(queue: NonBlocking) -> impl Subscriber + Send + Sync {
    let lines = tracing_subscriber::fmt().with_writer(queue).event_format(OneLine).finish();
    lines.with(Targets::new().with_target("strata", LevelFilter::INFO))
}

/// Formats an event as one line, whatever its text.
struct OneLine;

impl<S, N> FormatEvent<S, N> for OneLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            _ => "",
        };
        let mut text = String::new();
        context.format_fields(Writer::new(&mut text), event)?;
        writeln!(out, "strata: {level}{}", text.replace(char::is_control, " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io::Write;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(60);

    /// A sink whose writes block while its buffer is locked.
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

    /// Logs messages into a queue of `lines` lines.
    fn said(lines: usize, out: impl Write + Send + 'static, say: impl FnOnce()) -> Lines {
        let lines = Lines::start("test", lines, 0, out);
        tracing::subscriber::with_default(subscriber(lines.queue().unwrap()), say);
        lines
    }

    #[test]
    fn who_says_something_does_not_wait_for_who_reads_it() {
        let pipe = Pipe::default();
        let full = pipe.0.lock();
        let lines = said(4, pipe.clone(), || (0..100).for_each(|number| tracing::info!("line\n{number}")));
        lines.close(Duration::ZERO);
        drop(full);
        lines.close(LONG);
        let text = String::from_utf8(pipe.0.lock().clone()).unwrap();
        assert_eq!(text.lines().count() as u64 + lines.lost(), 100, "{text}");
        assert!((4..=5).contains(&text.lines().count()), "as many as wait, and the one that is being written: {text}");
        assert!(text.starts_with("strata: line 0\nstrata: line 1\n"), "{text}");
    }

    #[test]
    fn lines_that_nobody_can_read_are_counted() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let lines = said(4, full, || tracing::info!("nothing"));
        lines.close(LONG);
        assert_eq!(lines.lost(), 1);
    }

    #[test]
    fn a_line_says_how_bad_it_is() {
        let pipe = Pipe::default();
        let lines = said(8, pipe.clone(), || {
            tracing::error!("it\u{1b}[31m broke");
            tracing::warn!(number = 3, "it may break");
            tracing::info!("it works");
            tracing::debug!("how it works");
            tracing::error!(target: "h2", "a client is strange");
        });
        lines.close(LONG);
        let text = String::from_utf8(pipe.0.lock().clone()).unwrap();
        let expected = "strata: error: it\\x1b[31m broke\nstrata: warning: it may break number=3\nstrata: it works\n";
        assert_eq!((text.as_str(), lines.lost()), (expected, 0));
    }
}
