"""What `cargo bench -- --save-baseline NAME` left behind, beside what the last `cargo bench` did: `compare --criterion NAME`.

Why without a verdict: each side is one process at one moment. Its samples share its memory layout, its placement of code and the state of
the machine, so they agree with each other and say nothing about the next process. A judge has to run both in pairs.
"""

from pathlib import Path

from run_benches import serialization
from run_benches.analysis import figures
from run_benches.errors import Complaint, Exit
from run_benches.measure import criterion_output
from run_benches.measure.criterion_output import Samples
from run_benches.places import shown
from run_benches.render import tables
from run_benches.render.tables import Column

SCHEMA = 1
NO_VERDICT = "no verdict: each side is one process, and the next one may be that far off with the same code; to judge: run-benches.py compare"


def compare(name: str, target: Path, as_json: bool) -> Exit:
    """Prints a baseline of Criterion and the last results side by side; `target` is cargo's target folder."""
    sides = _read(name, target / "criterion")
    print(serialization.text({"schema": SCHEMA, "verdict": None, "rows": _json(*sides)}) if as_json else text(name, *sides), end="")
    return Exit.FINE


def text(name: str, kept: dict[str, Samples], new: dict[str, Samples]) -> str:
    """The table of both sides, and why nothing is called faster."""
    columns = [Column("row"), Column(name, right=True), Column("new", right=True), Column(f"new / {name}", right=True), Column("samples", right=True)]
    body = [_line(id, kept.get(id), new.get(id)) for id in kept | new]
    return f"{tables.render('median time an operation, of one process each', columns, body)}{NO_VERDICT}\n"


def _read(name: str, home: Path) -> tuple[dict[str, Samples], dict[str, Samples]]:
    if not home.is_dir():
        raise Complaint(f"no results of Criterion in {shown(home)}: run cargo bench -- --save-baseline {name} first, or set CARGO_TARGET_DIR")
    known = criterion_output.baselines(home)
    if name not in known:
        raise Complaint(f"cargo bench left no baseline {name!r} in {shown(home)} (there: {', '.join(known) or 'none'})")
    try:
        return criterion_output.read(home, name), criterion_output.read(home)
    except serialization.Malformed as error:
        raise Complaint(f"cannot read what cargo bench left behind: {error}") from error


def _line(id: str, kept: Samples | None, new: Samples | None) -> list[str]:
    medians = [figures.time(side.median_ns()) if side else "not there" for side in (kept, new)]
    counts = " and ".join(str(len(side.times_ns)) for side in (kept, new) if side)
    if kept is None or new is None:
        return [id, *medians, "", counts]
    ratio = "the same run" if kept == new else figures.ratio(new.median_ns() / kept.median_ns())
    return [id, *medians, ratio, counts]


def _json(kept: dict[str, Samples], new: dict[str, Samples]) -> list[dict[str, object]]:
    return [{"id": id, "kept": _side(kept.get(id)), "new": _side(new.get(id))} for id in kept | new]


def _side(samples: Samples | None) -> dict[str, object] | None:
    return {"median_ns": samples.median_ns(), "samples": len(samples.times_ns)} if samples else None
