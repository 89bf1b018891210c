"""The results of `cargo bench -- --save-baseline NAME`, beside those of the last `cargo bench`: `compare --criterion
NAME`.

Why without a verdict: each side is one process at one moment. Its samples share its memory layout, its placement of
code and the state of the machine, so they agree with each other and say nothing about the next process. A judge has to
run both in pairs.

History of the JSON:
  schema 1: the first.
  schema 2: `unreadable`, the folders whose results cannot be read; before, one of them left no answer at all.
"""

from pathlib import Path

from run_benches import serialization
from run_benches.analysis import figures
from run_benches.errors import Exit, UserError
from run_benches.measure import criterion_output
from run_benches.measure.criterion_output import CriterionResults, Samples
from run_benches.places import shown
from run_benches.render import terminal

SCHEMA = 2
VARIABLES = "CRITERION_HOME or CARGO_TARGET_DIR, as it was set then"
NO_VERDICT = "no verdict: each side is one process, and the next one may be that far off with the same code; to judge: run-benches.py compare"


def compare(name: str, home: Path, as_json: bool) -> Exit:
    """Prints a baseline of Criterion and the last results side by side; `home` is Criterion's folder. What cannot be
    read is named; it is an error only where it leaves nothing of a side."""
    kept, new = _read(name, home)
    if as_json:
        rows = [
            {"id": id, "kept": _side(kept.rows.get(id)), "new": _side(new.rows.get(id))} for id in kept.rows | new.rows
        ]
        unreadable = [{"folder": folder, "reason": reason} for folder, reason in _unreadable(kept, new).items()]
        content = {"schema": SCHEMA, "verdict": None, "rows": rows, "unreadable": unreadable}
        print(serialization.text(content), end="")
    else:
        print(text(name, kept, new), end="")
    emptied = any(side.unreadable and not side.rows for side in (kept, new))
    return Exit.ERROR if emptied else Exit.FINE


def text(name: str, kept: CriterionResults, new: CriterionResults) -> str:
    """The table of both sides, what could not be read, and why nothing is called faster."""
    columns = ["row", f"{name}>", "new>", f"new / {name}>", "samples>"]
    body = []
    for id in kept.rows | new.rows:
        before, after = kept.rows.get(id), new.rows.get(id)
        medians = [
            figures.time(samples.median_ns())
            if samples
            else "cannot be read"
            if any(one.row == id for one in side.unreadable)
            else "not there"
            for samples, side in ((before, kept), (after, new))
        ]
        ratio = ""
        if before and after:
            ratio = "the same run" if before == after else figures.ratio(after.median_ns() / before.median_ns())
        counts = " and ".join(str(len(samples.times_ns)) for samples in (before, after) if samples)
        body.append([id, *medians, ratio, counts])
    unreadable = "".join(f"cannot be read: {folder}: {reason}\n" for folder, reason in _unreadable(kept, new).items())
    return f"{terminal.table('median time an operation, of one process each', columns, body)}{unreadable}{NO_VERDICT}\n"


def _read(name: str, home: Path) -> tuple[CriterionResults, CriterionResults]:
    if not home.is_dir():
        raise UserError(
            f"no results of Criterion in {shown(home)}: run cargo bench -- --save-baseline {name} first, or set {VARIABLES}"
        )
    kept, new = criterion_output.read(home, name), criterion_output.read(home)
    if not kept.rows and not kept.unreadable:
        known = criterion_output.baselines(home)
        raise UserError(
            f"cargo bench left no baseline {name!r} in {shown(home)} (there: {', '.join(known) or 'none'}); where it did, say with {VARIABLES}"
        )
    if not kept.rows and not new.rows:
        reasons = "; ".join(f"{folder}: {reason}" for folder, reason in _unreadable(kept, new).items())
        raise UserError(f"nothing that cargo bench left behind can be read: {reasons}")
    return kept, new


def _unreadable(kept: CriterionResults, new: CriterionResults) -> dict[str, str]:
    return {shown(one.folder): one.reason for side in (kept, new) for one in side.unreadable}


def _side(samples: Samples | None) -> dict[str, object] | None:
    return {"median_ns": samples.median_ns(), "samples": len(samples.times_ns)} if samples else None
