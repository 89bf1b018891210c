//! A queue of jobs and the threads that work on it: `cargo run --release --example queue -- DIRECTORY`.
//!
//! A worker claims some jobs in one transaction, passing over those that others have locked, so no job is done twice at the same time and
//! nobody waits. What a process had claimed that was killed is ready again when the directory is next opened.

use std::path::Path;

use serde::{Deserialize, Serialize};
use strata::{Database, Precondition, Query, Result, Schema, Table};

const SCHEMA: &str = "
    type Job @table {
      id: ID! @primaryKey
      state: String! @indexed
      input: Int!
      output: Int
    }
";

#[derive(Serialize, Deserialize)]
struct Job {
    id: String,
    state: String,
    input: i64,
    output: Option<i64>,
}

/// Handles that are cloned into every thread.
#[derive(Clone)]
pub struct Jobs {
    database: Database,
    table: Table,
    ready: Query,
    running: Query,
}

impl Jobs {
    /// Opens the queue in a directory; jobs that were claimed and not done are ready again.
    pub fn open(directory: &Path) -> Result<Self> {
        let database = Database::open(directory, &Schema::parse(SCHEMA)?)?;
        let table = database.table("Job")?;
        let in_state = |state: &str| table.query().eq("state", state).build();
        let jobs = Self { ready: in_state("ready")?, running: in_state("running")?, database, table };
        jobs.running.update(&jobs.database, jobs.table.fields().with("state", "ready")?)?;
        Ok(jobs)
    }

    /// Adds jobs.
    pub fn add(&self, inputs: std::ops::Range<i64>) -> Result<()> {
        let job = |input| Job { id: format!("job-{input}"), state: "ready".to_owned(), input, output: None };
        let jobs: Vec<_> = inputs.map(job).collect();
        self.database.create_all(&self.table, &jobs).map(drop)
    }

    /// Claims and does some jobs; returns how many.
    pub fn work(&self) -> Result<usize> {
        let claimed = self.ready.claim(&self.database, 10, self.table.fields().with("state", "running")?)?;
        for job in &claimed {
            let job: Job = job.to()?;
            let done = self.table.fields().with("state", "done")?.with("output", job.input * job.input)?;
            self.database.merge(&self.table, &job.id, done, &Precondition::Exists)?;
        }
        Ok(claimed.len())
    }

    /// Returns the number of jobs that are not done, and the sum of what the others have put out.
    pub fn result(&self) -> Result<(usize, i64)> {
        let view = self.database.view();
        let done = self.table.query().eq("state", "done").build()?;
        let outputs = done.iter(&view).map(|job| Ok(job?.to::<Job>()?.output.unwrap_or(0)));
        Ok((self.ready.count(&view)? + self.running.count(&view)?, outputs.sum::<Result<_>>()?))
    }
}

/// Works on all jobs by four threads; returns how many jobs they have done.
pub fn run(jobs: &Jobs) -> Result<usize> {
    let workers = (0..4).map(|_| {
        let jobs = jobs.clone();
        std::thread::spawn(move || {
            let mut sum = 0;
            // What others have claimed is theirs: nothing to claim is nothing to do.
            loop {
                match jobs.work()? {
                    0 => return Ok(sum),
                    done => sum += done,
                }
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    workers.into_iter().map(|worker| worker.join().expect("it does not panic")).sum()
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "jobs".into());
    let jobs = Jobs::open(Path::new(&directory))?;
    jobs.add(0..10_000)?;
    println!("{} jobs done", run(&jobs)?);
    Ok(())
}
