//! Rules about streams: what was acknowledged was read back, and is as promised (S1 to S5, T13).

use crate::result::Run;

use super::Findings;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    promises(run, findings);
}

/// S1 to S5, and T13: each promise was kept wherever it was looked at; T14: every right answer was looked at.
fn promises(run: &Run, findings: &mut Findings) {
    let acknowledging =
        run.scenario.operations.iter().zip(&run.cells).filter(|(operation, _)| operation.acknowledges.is_some());
    let acknowledged: Vec<u64> = acknowledging.map(|(_, cell)| cell.counts.ok).collect();
    let Some(promises) = &run.promises else {
        return findings
            .require("T14", acknowledged.is_empty(), || "what was acknowledged was not read back".to_owned());
    };
    for (rule, what, kept) in promises.rows() {
        findings.require(rule, kept.wrong == 0, || format!("{what}: {} of {} are wrong", kept.wrong, kept.checked));
    }
    let (answers, checked) = (acknowledged.iter().sum::<u64>(), promises.in_place.checked);
    findings.require("T14", checked >= answers, || {
        format!("{answers} answers acknowledged events, of which {checked} were looked for")
    });
}
