"""Runs that are there already: listed, shown, named, removed, put side by side.

Why no verdict between stored runs: how a machine differs from one day to the next is not known from one run of each
day, so the figures stand side by side with their spreads, and nothing is called faster. Of machines that are unlike, or
not known to be alike, no times are shown, only the ratios to the floors, which were measured beside each other on each;
these are another machine's, too: of two machines of one name 52 of 125 disagreed. Nor is the time of a row that took
turns divided by that of one that ran alone. The sentinels, which use no code of the project, say how far the machine
itself was another one.

History of the JSON:
  schema 1: the first.
  schema 2: `machines_unknown_in`, `other_kernel` and `sentinels`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from run_benches import serialization
from run_benches.analysis import figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import Row
from run_benches.errors import Exit, UserError
from run_benches.places import REFERENCE, shown
from run_benches.render import summary, terminal
from run_benches.render.source import revision
from run_benches.store import runs
from run_benches.store.loads import LoadRun
from run_benches.store.runs import Bench, Likeness, Run

LIST_SCHEMA = 1
COMPARED_SCHEMA = 2


StoredRun = TypeVar("StoredRun", bound=Run | LoadRun)


def listing(
    title: str,
    of: str,
    paths: list[Path],
    load: Callable[[Path], StoredRun],
    columns: list[str],
    line: Callable[[StoredRun], list[str]],
    as_json: bool,
) -> Exit:
    """Every stored run in a line: its name, start and revision, and what `line` adds; a damaged one says so and does
    not hide the others."""
    entries: list[dict[str, object]] = []
    body: list[list[str]] = []
    errors: list[str] = []
    for path in paths:
        try:
            run = load(path)
        except UserError as error:
            errors.append(str(error))
            continue
        entries.append({"name": path.stem, "started": run.started, "commit": run.tool.commit, "complete": run.complete})
        body.append([path.stem, run.started, revision(run.tool.commit, run.tool.dirty), *line(run)])
    if as_json:
        print(serialization.text({"schema": LIST_SCHEMA, title: entries, "damaged": errors}), end="")
    else:
        all_columns = ["name", "started", "revision", *columns]
        print(terminal.table(f"{title} of {of}", all_columns, body) if body else f"no {title} of {of} yet")
        print("\n".join(errors), end="\n" if errors else "")
    return Exit.ERROR if errors else Exit.FINE


def runs_listing(title: str, paths: list[Path], as_json: bool) -> Exit:
    """Every stored run of benches in a line."""

    def line(run: Run) -> list[str]:
        ran = sum(bench.state == "ran" for bench in run.benches.values())
        rows = f"{ran} of {len(run.benches)}" + ("" if run.complete else ", interrupted")
        machine = f"{run.machine.identity.get('cpu_model')}, {run.machine.identity.get('cores')} cores"
        return [run.scale, rows, ", ".join(run.partial or ["all"]), machine]

    return listing(title, "benches", paths, runs.load, ["scale", "rows>", "layers", "machine?"], line, as_json)


def show(path: Path, as_json: bool) -> Exit:
    """The tables of a stored run."""
    run = runs.load(path)
    found = Findings.of(run, runs.load_set(path))
    print(serialization.text(run) if as_json else "\n\n".join(map(summary.text, found.of_each_machine)))
    return Exit.FINE


def remove(name: str) -> Exit:
    """Removes a baseline."""
    if name == REFERENCE.name and REFERENCE.is_dir():
        raise UserError("the reference is a set, and each of its files is renewed by itself: run-benches.py renew")
    path = runs.baseline_path(name)
    if not path.exists():
        raise UserError(f"no baseline {name!r}; to see all: run-benches.py baselines")
    path.unlink()
    print(f"removed {shown(path)}")
    return Exit.FINE


def compare(name_a: str, name_b: str, as_json: bool) -> Exit:
    """Two stored runs side by side, without a verdict."""
    path_a, path_b = runs.find(name_a), runs.find(name_b)
    a, b, name_a, name_b = runs.load(path_a), runs.load(path_b), path_a.stem, path_b.stem
    parts_a, parts_b = runs.load_set(path_a), runs.load_set(path_b)
    pairs = [(mine.machine, other.machine) for layer, mine in parts_a.items() if (other := parts_b.get(layer))] or [
        (a.machine, b.machine)
    ]
    found = [mine.likeness(other) for mine, other in pairs]
    likeness = Likeness(
        sorted({name for one in found for name in one.differ}), sorted({name for one in found for name in one.unknown})
    )
    other_kernel = next((words for mine, other in pairs if (words := mine.other_kernel(other))), None)
    if as_json:
        machines = {
            "machines_differ_in": likeness.differ,
            "machines_unknown_in": likeness.unknown,
            "other_kernel": other_kernel,
        }
        sentinels = [
            {"id": id}
            | {
                f"{side}_points_ns": run.sentinels[id].points_ns if id in run.sentinels else []
                for side, run in (("a", a), ("b", b))
            }
            for id in a.sentinels | b.sentinels
        ]
        rows = {"rows": _pairs_json(a, b, not likeness.alike), "sentinels": sentinels}
        print(serialization.text({"schema": COMPARED_SCHEMA, **machines, "verdict": None, **rows}), end="")
        return Exit.FINE
    if likeness.alike:
        print(_times(a, b, name_a, name_b))
    else:
        print(f"{likeness.words}: times cannot be put side by side, and ratios to floors are those of each machine\n")
    ratios = [[id, _ratio(ratio), _ratio(b.ratios[id])] for id, ratio in a.ratios.items() if id in b.ratios]
    print(terminal.table("floor / ours [95 %]", ["row", f"{name_a}>", f"{name_b}>"], ratios))
    print(_sentinels(a, b, name_a, name_b))
    if other_kernel:
        print(f"another {other_kernel}")
    print("no verdict: how this machine differs from day to day is not known from one run of each day")
    return Exit.FINE


def _sentinels(a: Run, b: Run, name_a: str, name_b: str) -> str:
    """Tells how much the machine itself differs, by rows that use no code of the project. Their processes took no
    turns, so the range of the ratio is that of the slowest over the fastest, and it is no verdict either."""
    untimed = [name for name, run in ((name_a, a), (name_b, b)) if not any(map(_spread, run.sentinels.values()))]
    if untimed:
        return f"sentinels: not timed in {' and '.join(untimed)}, so how far the machine itself differs is not known\n"
    columns = [
        "sentinel",
        f"{name_a}>",
        f"{name_b}>",
        f"{name_b} / {name_a} [range]>",
    ]
    body = []
    for id in a.sentinels | b.sentinels:
        first, second = _spread(a.sentinels.get(id)), _spread(b.sentinels.get(id))
        moved = (
            figures.ratio(second.middle / first.middle, second.low / first.high, second.high / first.low)
            if first and second
            else ""
        )
        body.append([id, *(figures.time_spread(side) if side else figures.NOT_RUN for side in (first, second)), moved])
    return terminal.table("sentinels, which use no code of the project (no turns were taken)", columns, body)


def _spread(sentinel: Bench | None) -> Spread | None:
    return figures.spread(sentinel.points_ns) if sentinel and sentinel.state == "ran" else None


def _common(a: Run, b: Run) -> list[tuple[Row, Row]]:
    others = {row.id: row for row in Findings.of(b).rows}
    return [(row, others[row.id]) for row in Findings.of(a).rows if row.id in others]


def _times(a: Run, b: Run, name_a: str, name_b: str) -> str:
    columns = [
        "row",
        f"{name_a}>",
        f"{name_b}>",
        f"{name_b} / {name_a}>",
    ]
    body = []
    for mine, other in _common(a, b):
        times = [
            figures.time_spread(row.measured) if row.measured else row.bench.state.replace("_", " ")
            for row in (mine, other)
        ]
        ratio = ""
        if mine.measured and other.measured:
            ratio = _other_conditions(mine, other) or f"{other.measured.middle / mine.measured.middle:.3f}"
        body.append([mine.id, *times, ratio])
    return terminal.table("time an operation (from the fastest process to the slowest)", columns, body)


def _other_conditions(mine: Row, other: Row) -> str | None:
    """Why no ratio of the times is formed. Caches are colder in a lane, whose turns come after those of others, than in
    a process alone."""
    if not _same_work(mine, other):
        return "other work"
    return "one took turns" if (mine.bench.family is None) != (other.bench.family is None) else None


def _same_work(mine: Row, other: Row) -> bool:
    one, two = mine.bench.facts, other.bench.facts
    return (one.op, one.unit, one.units_per_operation, one.threads, one.clock) == (
        two.op,
        two.unit,
        two.units_per_operation,
        two.threads,
        two.clock,
    )


def _ratio(ratio: runs.Ratio) -> str:
    return (
        figures.ratio(ratio.ratio, ratio.low, ratio.high)
        if ratio.state == "ran" and ratio.ratio
        else ratio.state.replace("_", " ")
    )


def _pairs_json(a: Run, b: Run, ratios_only: bool) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = []
    for mine, other in _common(a, b):
        entry: dict[str, object] = {"id": mine.id, "a_ratio": a.ratios.get(mine.id), "b_ratio": b.ratios.get(mine.id)}
        if not ratios_only:
            entry |= {"a_points_ns": mine.bench.points_ns, "b_points_ns": other.bench.points_ns}
            entry |= {"same_work": _same_work(mine, other), "same_conditions": _other_conditions(mine, other) is None}
        entries.append(entry)
    return entries
