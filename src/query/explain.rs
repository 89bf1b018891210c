//! The response to `explain=true`: the plan of a query, without reading its records.

use serde::Serialize;

use super::budget::StepBudget;
use super::plan::{self, Access, AccessPaths, Plan, Step};
use super::source::Source;
use super::tree::{Condition, Filter, Node, Query, Related};
use crate::error::Result;
use crate::schema::{Index, Table};
use crate::transaction::Database;

/// A plan in serialisable form.
#[derive(Debug, Serialize)]
pub struct Explanation<'q> {
    /// The table's name.
    table: &'q str,
    /// The steps, executed in sequence; empty if no record can match.
    steps: Vec<ExplainedStep<'q>>,
    /// Whether the requested order is provided by the steps or made in memory; absent if none is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    sorted: Option<&'static str>,
    /// The number of records to which the steps lead, before filtering.
    estimate: Estimate,
    /// The steps that replace an ordered scan once it has read as many records as they lead to; their records are sorted in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    otherwise: Option<Otherwise<'q>>,
    /// The maximum number of records listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// The number of records skipped first.
    offset: usize,
}

/// Alternative steps to the same records.
#[derive(Debug, Serialize)]
struct Otherwise<'q> {
    steps: Vec<ExplainedStep<'q>>,
    estimate: Estimate,
}

/// The number of entries, and of ids and values looked up.
#[derive(Debug, Serialize)]
struct Estimate {
    records: usize,
    /// Whether the count is complete and each entry leads to a distinct record.
    exact: bool,
}

/// A step in serialisable form.
#[derive(Debug, Serialize)]
struct ExplainedStep<'q> {
    /// `id`, `index` or `table`.
    access: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<Used>,
    /// The residual filter: the conditions evaluated on each record, as written in the query.
    filter: Vec<&'q str>,
}

/// An index, and the number of its values or ranges that are looked up.
#[derive(Debug, Serialize)]
struct Used {
    /// The attribute names, separated by commas.
    attribute: String,
    r#type: &'static str,
    ranges: usize,
}

impl Query<'_> {
    /// Returns the plan of the query. Selective conditions on related records are shown in their reduced form: an index of the foreign key,
    /// or ids.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub fn explain<'q>(&'q self, database: &Database, table: &'q Table) -> Result<Explanation<'q>> {
        self.check(database, table)?;
        self.filter.compile()?; // Fails for whatever evaluation would reject.
        let (snapshot, budget) = (database.store().snapshot(database.tier())?, StepBudget::of(database));
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
        Access::Entries { index, ranges, .. } | Access::Intersection(index, ranges) => {
            ("index", used(index, ranges.len()))
        }
        Access::Table(_) => ("table", None),
    };
    let checks = step.checks.iter().map(|check| filter.text_of(*check, text)).collect();
    ExplainedStep { access, index, filter: checks }
}

impl Filter<'_> {
    /// Returns a subtree as written in the query, including surrounding brackets and negation.
    fn text_of<'q>(&self, subtree: usize, query: &'q str) -> &'q str {
        let conditions = self.nodes[subtree..self.end_of(subtree)].iter().filter_map(|node| match node {
            Node::Is(Condition { text, .. }) | Node::Related(Related { text, .. }) => {
                Some(text.start as usize..text.end as usize)
            }
            _ => None,
        });
        let around = conditions.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        // A caller may have given the query another text.
        let Some(mut around) = around.filter(|around| around.end <= query.len()) else { return "" };
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
