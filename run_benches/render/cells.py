"""The cells of tables, on the performance page and on the terminal: how a row's figures, its circumstances and what is
missing are told in one cell.

Why apart from the sections: the same row stands in several tables, and must read the same in each. A cell without a
figure says why; on the terminal in a word.
"""

import json
from collections.abc import Sequence
from typing import get_args

from run_benches.analysis import figures
from run_benches.analysis.held import Held
from run_benches.analysis.ladder import ALONE, Rung
from run_benches.analysis.row import Row
from run_benches.render.source import Source
from run_benches.store.runs import State


def time(source: Source, row: Row | None, layer: str) -> str:
    """The time of one operation."""
    return spread(row) if row else source.missing(layer)


def spread(row: Row) -> str:
    """The time of one operation with its spread, the clock where it is not that on the wall, and what sets it apart."""
    if row.measured is None:
        return row.why_not
    clock = " of CPU" if row.bench.facts.clock == "cpu" else ""
    return figures.time_spread(row.measured) + clock + (f"; {row.remark}" if row.remark else "")


def brief_time(row: Row | None) -> str:
    """The time of one operation alone, or in a word why there is none; the reason stands elsewhere."""
    if row is None:
        return "no such row"
    if row.measured is None:
        return no_figure(row)
    return figures.time(row.measured.middle) + (" CPU" if row.bench.facts.clock == "cpu" else "")


def no_figure(row: Row) -> str:
    """Returns the state of a row without a figure; of one that ran, what it left is invalid."""
    return "invalid" if row.bench.state == "ran" else words(row.bench.state)


def states(found: Sequence[State]) -> str:
    """Counts how cells ended: `32 ran, 1 not run`."""
    return ", ".join(f"{found.count(state)} {words(state)}" for state in get_args(State) if state in found) or "none"


def rate(row: Row | None) -> str:
    """Formats the number of units a second; the unit stands in the heading."""
    if row is None or row.measured is None:
        return figures.NOT_RUN
    return figures.per_second(row.measured.middle, row.bench.facts.unit, row.bench.facts.units_per_operation)


def ratio(held: Held) -> str:
    """The ratio to the floor with its interval, and of what where its turns did not do what its own processes do: of a
    workload a part took turns, each time on a fresh store."""
    found = held.ratio
    if found is None or found.ratio is None or not held.judged:
        return held.why_not
    told, facts, turns = figures.ratio(found.ratio, found.low, found.high), held.row.bench.facts, held.row.bench.turns
    if facts.workload and facts.turn_operations:
        flushed = turns is None or turns.counters is None or turns.counters.get("flushes")
        told += f", in turns of {figures.plural(facts.turn_operations, 'operation')}"
        told += "" if flushed else " without a flush"
    return told


def verdict(held: Held) -> str:
    """Tells whether the goal is met; a missed one as plain as a met one."""
    return f"**{held.verdict}**" if held.standing == "missed" else held.verdict


def goal(value: float | None) -> str:
    """A goal as it was declared."""
    return figures.goal(value) if value is not None else "none"


def named(row: Row) -> str:
    """A row's id, and what one operation of it is."""
    return f"`{row.id}`<br>{row.bench.facts.op}"


def step(rung: Rung, confidence: float = 0.95) -> str:
    """Formats what a rung of the ladder takes more than the one below it."""
    if rung.step is None or (added := rung.adds(confidence)) is None:
        return figures.NO_TURNS
    if rung.step.verdict(confidence) == "differ":
        return figures.added_estimate(added)
    return figures.contrast(rung.step, confidence)


def added(rung: Rung, confidence: float = 0.95) -> str:
    """The same, and over which one."""
    if rung.below is None:
        return "in it alone" if rung.name in ALONE else "the lowest rung"
    return f"{step(rung, confidence)} over `{rung.below.name}`"


def allocations(row: Row) -> str:
    """Allocations of one operation."""
    counted = row.bench.allocations_per_operation
    return figures.count(counted) if counted is not None and row.bench.state == "ran" else "not counted"


def counters(row: Row) -> str:
    """Tells what one operation counted while the row was timed, where it is not nothing: waits for locks, flushes,
    bytes written."""
    counted, operations = row.bench.counters or {}, row.bench.facts.timed_operations
    some = {name: value for name, value in counted.items() if isinstance(value, int | float) and value}
    if some and not operations:
        return f"{', '.join(map(words, some))}: of an unknown number of operations"
    told = []
    for name, value in some.items():
        shown = figures.size if name.startswith("bytes") else figures.significant
        told.append(f"{words(name)} {shown(value / (operations or 1))}")
    return "; ".join(told)


def conditions(row: Row) -> str:
    """Under which conditions a row is measured."""
    facts, refusals = row.bench.facts, row.bench.refusals
    durability = f"durability {facts.durability}" if facts.durability else None
    lanes = f"{row.lanes} lanes" if row.lanes else None
    again = f"run again {len(refusals)} times ({refusals[-1]})" if refusals else None
    return "; ".join(filter(None, (facts.data_set, facts.state, durability, lanes, again)))


def plain(value: object) -> str:
    """A value of a fact or an option."""
    if value is None:
        return "not known"
    return str(value) if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)


def words(name: str) -> str:
    """A name with underscores, as words."""
    return name.replace("_", " ")
