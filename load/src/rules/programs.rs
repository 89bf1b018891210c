//! Rules about other programs: T14: those beside the load ran, and were killed as often as is said; each check says that all is right.

use crate::result::Run;

use super::Findings;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    let (planned, ran) = (&run.scenario.beside, &run.beside);
    let are_there =
        planned.len() == ran.len() && planned.iter().zip(ran).all(|(one, other)| one.program == other.program);
    findings.require("T14", are_there, || {
        format!("{} programs ran beside the load, where there are {}", ran.len(), planned.len())
    });
    for (planned, ran) in planned.iter().zip(ran) {
        findings.require("T14", ran.failure.is_none(), || {
            format!("{}: {}", ran.program, ran.failure.as_deref().unwrap_or_default())
        });
        findings.require("T14", ran.kills == planned.kills || run.aborted || ran.failure.is_some(), || {
            format!("{} was killed {} times, where the scenario has {}", ran.program, ran.kills, planned.kills)
        });
    }
    let (planned, ran) = (&run.scenario.checks, &run.checks);
    let are_there = planned.len() == ran.len() && planned.iter().zip(ran).all(|(one, other)| one.name == other.name);
    findings
        .require("T14", are_there || run.aborted, || format!("{} of {} checks were made", ran.len(), planned.len()));
    for check in ran {
        findings.require("T14", check.failure.is_none(), || {
            format!("{}: {}", check.name, check.failure.as_deref().unwrap_or_default())
        });
        findings.require("T14", check.failure.is_some() || check.told.is_object(), || {
            format!("{}: it printed no JSON object", check.name)
        });
    }
}
