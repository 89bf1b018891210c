//! What `explain=true` answers: the plan of a query, without reading its records.

use serde::Serialize;

use super::budget::StepBudget;
use super::plan::{self, Access, AccessPaths, Plan, Source, Step};
use super::tree::{Condition, Filter, Node, Query, Related};
use crate::error::Result;
use crate::schema::{Index, Table};
use crate::transaction::Database;

/// A plan, told.
#[derive(Debug, Serialize)]
pub struct Explanation<'q> {
    /// The table's name.
    table: &'q str,
    /// One after the other; none if no record can be meant.
    steps: Vec<ExplainedStep<'q>>,
    /// Whether the order that is asked for comes from the steps or is made in memory; absent if none is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    sorted: Option<&'static str>,
    /// How many records the steps lead to, before the filters.
    estimate: Estimate,
    /// What takes over from a walk in order that has read as many records as this leads to; they are sorted in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    otherwise: Option<Otherwise<'q>>,
    /// The most records that are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// How many are passed over first.
    offset: usize,
}

/// Other steps to the same records.
#[derive(Debug, Serialize)]
struct Otherwise<'q> {
    steps: Vec<ExplainedStep<'q>>,
    estimate: Estimate,
}

/// A count of entries, and of ids and values that are looked up.
#[derive(Debug, Serialize)]
struct Estimate {
    records: usize,
    /// Whether all were counted, and each leads to a record of its own.
    exact: bool,
}

/// A step, told.
#[derive(Debug, Serialize)]
struct ExplainedStep<'q> {
    /// `id`, `index` or `table`.
    access: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<Used>,
    /// The conditions that each record is still asked, as they stand in the query.
    filter: Vec<&'q str>,
}

/// An index, and how many of its values or ranges are looked up.
#[derive(Debug, Serialize)]
struct Used {
    /// Several with commas between them.
    attribute: String,
    r#type: &'static str,
    ranges: usize,
}

impl Query<'_> {
    /// The plan of the query. Conditions on related records that few satisfy are shown as what they became: an index of the foreign key, or
    /// ids.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub fn explain<'q>(&'q self, database: &Database, table: &'q Table) -> Result<Explanation<'q>> {
        self.filter.compile()?; // What is refused where records are asked is refused here.
        let (snapshot, budget) = (database.store().snapshot(), StepBudget::of(database));
        let source = Source::of(database, table, &snapshot, &budget);
        let reduced = self.reduced(source)?;
        let query = reduced.as_ref().unwrap_or(self);
        let plan = AccessPaths::of(query, source.indexes()).plan(source)?;
        let (records, whole) = match plan.counted {
            Some(counted) => (counted, true),
            None => plan::probe(source, &plan.steps)?,
        };
        let explain =
            |steps: &[Step<'_>]| steps.iter().map(|step| explain_step(&query.filter, self.text, table, step)).collect();
        let otherwise = plan.rival.clone().map(|steps| {
            let (records, whole) = plan::probe(source, &steps)?;
            let plan = Plan::gathering(steps);
            let estimate = Estimate { records, exact: whole && plan.counts_records(table) };
            Ok(Otherwise { steps: explain(&plan.steps), estimate })
        });
        let sorted = if plan.ordered { "by the steps" } else { "in memory" };
        Ok(Explanation {
            table: &table.name,
            steps: explain(&plan.steps),
            sorted: (!self.sort.is_empty()).then_some(sorted),
            estimate: Estimate { records, exact: whole && plan.counts_records(table) },
            otherwise: otherwise.transpose()?,
            limit: self.limit,
            offset: self.offset,
        })
    }
}

fn explain_step<'q>(filter: &Filter<'_>, text: &'q str, table: &'q Table, step: &Step<'_>) -> ExplainedStep<'q> {
    let used = |index: &Index, ranges| {
        let names: Vec<_> = index.attributes().map(|attribute| table.attributes[attribute].name.as_str()).collect();
        Some(Used { attribute: names.join(","), r#type: index.kind.name(), ranges })
    };
    let (access, index) = match &step.access {
        Access::Ids(_) => ("id", None),
        Access::Owners(index, values) => ("index", used(index, values.len())),
        Access::Entries { index, ranges, .. } | Access::Common(index, ranges) => ("index", used(index, ranges.len())),
        Access::Table(_) => ("table", None),
    };
    let checks = step.checks.iter().map(|check| filter.text_of(*check, text)).collect();
    ExplainedStep { access, index, filter: checks }
}

impl Filter<'_> {
    /// A subtree as it stands in the query, with the brackets and the negation around it.
    fn text_of<'q>(&self, subtree: usize, query: &'q str) -> &'q str {
        let conditions = self.nodes[subtree..self.end_of(subtree)].iter().filter_map(|node| match node {
            Node::Is(Condition { text, .. }) | Node::Related(Related { text, .. }) => {
                Some(text.start as usize..text.end as usize)
            }
            _ => None,
        });
        let around = conditions.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        let Some(mut around) = around else { return "" };
        let bytes = query.as_bytes();
        while let Some(before) = around.start.checked_sub(1)
            && matches!((bytes[before], bytes.get(around.end)), (b'(', Some(b')')) | (b'[', Some(b']')))
        {
            around = before..around.end + 1;
            if before > 0 && bytes[before - 1] == b'!' {
                around.start = before - 1;
            }
        }
        query.get(around).unwrap_or_default()
    }
}
