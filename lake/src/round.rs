//! A round: where the table goes on, what the stream has behind that, its files, one commit, and only then the consumer group.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use iceberg::Catalog;
use iceberg::spec::SnapshotRef;
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction, Transaction};

use crate::catalog::Guarded;
use crate::failure::{Failure, Result};
use crate::files::Files;
use crate::orphans;
use crate::say;
use crate::steps::Step;
use crate::stream::{Page, Read, Server};
use crate::table::{self, Next};

/// What a round is made with.
pub struct Lake {
    /// The server.
    pub server: Server,
    /// The catalogue.
    pub catalog: Arc<dyn Catalog>,
    /// The local folder of the warehouse, if it is one.
    pub folder: Option<PathBuf>,
    /// The consumer group that is moved to where the table goes on.
    pub group: String,
    /// The bytes of payloads in a commit.
    pub commit_bytes: u64,
    /// The number of snapshots that are kept.
    pub keep_snapshots: u64,
    /// Whether events that were trimmed before they were copied are passed over.
    pub accept_gap: bool,
    /// Whether copying ends where the partitions ended at the start.
    pub once: bool,
}

/// A stream that is copied.
pub struct Copied {
    /// Its name.
    pub name: String,
    /// The number of rounds so far.
    rounds: u64,
    /// Where its partitions ended at the start.
    target: Option<Next>,
    /// Partitions of which it was said where they begin.
    said: Next,
}

/// What a round did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The table has what the stream had when the round began; with `--once`, when the process did.
    All,
    /// There is more: the commit was full, or another process was faster.
    More,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Committed {
    /// The catalogue has taken it.
    Here,
    /// It was refused or not answered, and the table goes on where it would have.
    There,
    /// The table goes on elsewhere.
    Elsewhere,
}

/// What was read of a partition.
struct Progress {
    next: u64,
    last: Option<String>,
}

impl Copied {
    /// Begins to copy a stream.
    pub fn new(name: String) -> Self {
        Self { name, rounds: 0, target: None, said: Next::new() }
    }

    /// Returns whether a round has been made.
    pub fn is_running(&self) -> bool {
        self.rounds > 0
    }
}

impl Lake {
    /// Carries out a round of a stream.
    ///
    /// # Errors
    /// `Refused` for what somebody has to decide; `Away`.
    pub async fn round(&self, copied: &mut Copied) -> Result<Done> {
        let round = copied.rounds + 1;
        // First: of a stream that is not there no table is made.
        let ends = self.ends(&copied.name).await?;
        let creates = table::Creates { folder: self.folder.as_deref() };
        let creates = (!copied.is_running()).then_some(&creates);
        let table = table::open(self.catalog.as_ref(), &copied.name, creates).await?;
        if let Some(folder) = self.folder.as_ref().filter(|_| !copied.is_running()) {
            let (location, folder) = (table.metadata().location(), folder.display());
            if !location.starts_with(&format!("file://{folder}/")) {
                say::tell(&format!("{}: its table is there already, in {location}, not in {folder}", copied.name));
            }
        }
        Step::Loaded.done(round);
        let before = table::next(&table)?;
        if let Some(partition) = before.keys().find(|partition| !ends.contains_key(*partition)) {
            let detail = "the table has events of it, and the stream has no such partition";
            return Err(gone_back(&copied.name, *partition, detail));
        }
        let mut files = Files::begin(&table)?;
        let (mut read, mut events, mut left, mut is_full) = (BTreeMap::new(), 0, self.commit_bytes, false);
        for (number, (&partition, &(low, high))) in ends.iter().enumerate() {
            let share = (left / (ends.len() - number) as u64).max(1);
            let begun = self.begin(copied, &table, &before, partition, (low, high))?;
            let (progress, of_partition, bytes) =
                self.read(&copied.name, &table, partition, begun, high, share, &mut files).await?;
            is_full |= progress.next < high;
            events += of_partition;
            left = left.saturating_sub(bytes);
            read.insert(partition, progress);
        }
        Step::Read.done(round);
        let after: Next = read.iter().map(|(partition, progress)| (*partition, progress.next)).collect();
        let target = copied.target.get_or_insert_with(|| ends.iter().map(|(of, (_, high))| (*of, *high)).collect());
        let is_there = target.iter().all(|(partition, high)| after.get(partition).is_some_and(|next| next >= high));
        let begun = Instant::now();
        // A gap that was accepted is known to the table, too: the next start does not meet it again.
        let has_gap = before.iter().any(|(partition, next)| after.get(partition) != Some(next));
        let changes = events > 0 || has_gap;
        let committed = match changes {
            true => self.commit(&table, &before, read, files, events, round).await?,
            false => Committed::Here,
        };
        if committed == Committed::Elsewhere {
            say::tell(&format!("{}: another process has copied these events; reading where it ended", copied.name));
            copied.rounds = round;
            return Ok(Done::More);
        }
        let took = begun.elapsed();
        let moves = self.server.group(&copied.name, &self.group).await? != after;
        if let Some(folder) = self.folder.as_ref().filter(|_| moves) {
            let synced = File::open(folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
            synced.map_err(|error| Failure::Refused(format!("--warehouse {}: {error}", folder.display())))?;
        }
        Step::Synced.done(round);
        if moves {
            self.server.commit(&copied.name, &self.group, &after).await?;
        }
        Step::Moved.done(round);
        copied.rounds = round;
        if events > 0 {
            let how = match committed {
                Committed::Here => format!("committed in {:.1} ms", took.as_secs_f64() * 1e3),
                _ => "there by another process, or by a commit that was not answered".to_owned(),
            };
            let mut line = format!("{}: {events} events, {how};", copied.name);
            for (partition, next) in &after {
                write!(line, " {partition}:{next}").expect("memory takes it");
            }
            say::tell(&line);
        } else if self.once {
            say::tell(&format!("{}: no new events", copied.name));
        }
        let is_over = if self.once { is_there } else { !is_full };
        Ok(if is_over { Done::All } else { Done::More })
    }

    /// Removes the files of a stream's table that nothing names any more; returns their number.
    ///
    /// # Errors
    /// As [`orphans::remove`].
    pub async fn drop_orphans(&self, stream: &str) -> Result<usize> {
        match table::open(self.catalog.as_ref(), stream, None).await {
            Ok(table) => orphans::remove(&table).await,
            // There is no table yet.
            Err(Failure::Away(_)) if matches!(self.catalog.table_exists(&table::name(stream)?).await, Ok(false)) => {
                Ok(0)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns the watermarks of all partitions.
    async fn ends(&self, stream: &str) -> Result<BTreeMap<u32, (u64, u64)>> {
        let mut ends = BTreeMap::new();
        for partition in 0.. {
            let Some(Read::Page(body)) = self.server.read(stream, partition, None, true).await? else { break };
            let page = Page::parse(&body)?;
            ends.insert(partition, (page.low_watermark, page.high_watermark));
        }
        Ok(ends)
    }

    /// Returns the offset at which the reading of a partition begins.
    fn begin(
        &self,
        copied: &mut Copied,
        table: &Table,
        before: &Next,
        partition: u32,
        (low, high): (u64, u64),
    ) -> Result<u64> {
        let stream = &copied.name;
        let mut say = |detail: &str| {
            if copied.said.insert(partition, low) != Some(low) {
                say::tell(&format!("{stream}: partition {partition} {detail}"));
            }
        };
        let Some(&next) = before.get(&partition) else {
            say(&format!("is not in {} yet: it begins at its low watermark, {low}", table.identifier()));
            return Ok(low);
        };
        if high < next {
            return Err(gone_back(
                stream,
                partition,
                &format!("it ends at offset {high}, and the table goes on at {next}"),
            ));
        }
        if low <= next {
            return Ok(next);
        }
        if !self.accept_gap {
            return Err(Failure::Refused(format!(
                "{stream}: partition {partition}: the events from offset {next} to {} were trimmed before they were copied; \
                 start with --accept-gap to go on behind them (holdFor: [\"{}\"] in the schema prevents it)",
                low - 1,
                self.group
            )));
        }
        say(&format!("lacks the events from offset {next} to {}: they were trimmed, and are passed over", low - 1));
        Ok(low)
    }

    /// Reads a partition from an offset to a watermark, or until so many bytes of payloads have come, into the files.
    #[expect(clippy::too_many_arguments, reason = "a partition is told by all of them")]
    async fn read(
        &self,
        stream: &str,
        table: &Table,
        partition: u32,
        begun: u64,
        high: u64,
        share: u64,
        files: &mut Files,
    ) -> Result<(Progress, u64, u64)> {
        let known = table::last(table, partition).filter(|_| begun > 0);
        let mut last = known.map(str::to_owned);
        // The event before shows whether this is still the stream that was copied.
        let (mut from, mut events, mut bytes) = (if known.is_some() { begun - 1 } else { begun }, 0, 0);
        while from < high && bytes < share {
            let body = match self.server.read(stream, partition, Some(from), false).await? {
                Some(Read::Page(body)) => body,
                // That event was trimmed, but none behind it.
                Some(Read::Outside { low }) if from < begun && low <= begun => {
                    from = begun;
                    continue;
                }
                Some(Read::Outside { low }) if low > from => {
                    return Err(Failure::Away(format!(
                        "{stream}: partition {partition} was trimmed while it was read"
                    )));
                }
                _ => return Err(gone_back(stream, partition, &format!("offset {from} is gone"))),
            };
            let page = Page::parse(&body)?;
            for event in page.records.iter().take_while(|event| event.offset < high) {
                if event.offset != from || event.partition != partition {
                    let detail = format!("{stream}: partition {partition} answers offset {} for {from}", event.offset);
                    return Err(Failure::Refused(detail));
                }
                from += 1;
                if event.offset < begun {
                    if last.as_ref().is_some_and(|last| *last != event.hash()) {
                        let detail = format!("the event at offset {} is not the one that was copied", event.offset);
                        return Err(gone_back(stream, partition, &detail));
                    }
                    continue;
                }
                files.add(event).await?;
                (events, bytes) = (events + 1, bytes + event.payload.get().len() as u64);
                if from == high || bytes >= share {
                    last = Some(event.hash());
                    break;
                }
            }
            if page.records.is_empty() {
                return Err(gone_back(stream, partition, &format!("there is no event at offset {from} any more")));
            }
        }
        Ok((Progress { next: from.max(begun), last }, events, bytes))
    }

    /// Commits the files of a round.
    async fn commit(
        &self,
        table: &Table,
        before: &Next,
        read: BTreeMap<u32, Progress>,
        files: Files,
        events: u64,
        round: u64,
    ) -> Result<Committed> {
        let files = files.finish().await?;
        Step::Written.done(round);
        let after: Next = read.iter().map(|(partition, progress)| (*partition, progress.next)).collect();
        let rows: u64 = files.iter().map(|file| file.record_count()).sum();
        if rows != events {
            return Err(Failure::Refused(format!("{rows} rows were written for {events} events")));
        }
        let guarded = Guarded::new(self.catalog.as_ref(), before, round);
        let append = Transaction::new(table);
        // A snapshot even without files, for what it requires: that the branch has not moved since the offsets were compared.
        let numbers = HashMap::from([("strata.events".to_owned(), events.to_string())]);
        let files = append.fast_append().with_check_duplicate(false).add_data_files(files);
        let append = files.set_snapshot_properties(numbers).apply(append)?;
        let mut properties = append.update_table_properties();
        for (partition, progress) in read {
            for (name, value) in table::properties(partition, progress.next, progress.last) {
                properties = properties.set(name, value);
            }
        }
        let committed = properties.apply(append)?.commit(&guarded).await;
        // What the table says decides: an answer may have been lost, and a SQL catalogue may say yes to what it could not write. Nothing is
        // sent again before that is known.
        let table = self.catalog.load_table(table.identifier()).await?;
        match table::next(&table)? {
            next if next == after => {
                self.expire(&table).await;
                Ok(if committed.is_ok() { Committed::Here } else { Committed::There })
            }
            next if next == *before => Err(committed.map_or_else(Failure::from, |_| {
                Failure::Away("the catalogue has not made a commit to which it said yes".to_owned())
            })),
            _ => Ok(Committed::Elsewhere),
        }
    }

    /// Takes the oldest snapshots out of the table's metadata; one that fails is tried again after the next commit.
    async fn expire(&self, table: &Table) {
        let metadata = table.metadata();
        let parent = |of: &&SnapshotRef| metadata.snapshot_by_id(of.parent_snapshot_id()?);
        let on_main = std::iter::successors(metadata.current_snapshot(), parent).count() as u64;
        let is_forbidden = metadata.properties().get("gc.enabled").is_some_and(|value| value == "false");
        if on_main <= self.keep_snapshots || is_forbidden {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let expire = Transaction::new(table);
        let action = expire.expire_snapshots().expire_older_than_ms(now).retain_last(self.keep_snapshots as usize);
        let expired = match action.apply(expire) {
            Ok(expire) => expire.commit(self.catalog.as_ref()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = expired {
            say::complain(&format_args!("snapshots were not expired: {}", crate::failure::causes(&error)));
        }
    }
}

fn gone_back(stream: &str, partition: u32, detail: &str) -> Failure {
    Failure::Refused(format!(
        "{stream}: partition {partition} has gone back behind its table: {detail}. A power cut (of a soft stream) or an older copy \
         took events that the table has; nothing was written. Rename the table, and start again: a new one is begun"
    ))
}
