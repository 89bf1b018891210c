"""A measured row: its facts, its time, how it compares with the rows it took turns with, and of which run it is.

Rows are placed by their facts (indexes, threads, unit, clock); a case merely names what sets two rows with equal facts
apart.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from run_benches.analysis import figures
from run_benches.analysis.contrasts import Contrast
from run_benches.analysis.figures import Spread
from run_benches.store import house
from run_benches.store.fingerprint import Parts
from run_benches.store.runs import Bench, Build, Design, Machine, Scale, State, Tool

LAYERS = house.layers()
"""The layers that have a bench, lowest first: the order of the house."""

ACROSS = ("integration", "scaling", "macro", "databases", "ladder")
"""The benches that cross the layers."""

MIX = "mixed"
MIX_PARTS = (("mixed_read", "mixed_create"), ("mixed_get", "mixed_post"))
"""The verbs of a mix by themselves, as the mix has them, in process and over HTTP: they are held against it and are no
verbs of their own."""

OURS = "strata"
FLOOR = "floor"
DRIVER = "driver"
"""The counterpart of a row that enters a runtime: the same entry, and nothing behind it."""


@dataclass(frozen=True)
class Made:
    """The account of a run on itself: how, when, where and of which code its figures were made."""

    command: list[str]
    started: str
    seconds: float
    scale: Scale
    complete: bool
    partial: list[str] | None
    tool: Tool
    machine: Machine
    build: Build
    design: Design
    engine: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, Parts]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """A bench by the parts of its id: `<layer>/<operation>/<subject>/<case>`."""

    id: str
    layer: str
    operation: str
    subject: str
    case: str
    bench: Bench
    made: Made
    contrasts: Mapping[str, Contrast] = field(default_factory=dict)
    """By the row it took turns with, itself (its second lane) among them."""
    base_ns: float | None = None
    """The time of the base in its home family; `None` where that was not stored (before schema 5)."""
    base: str = ""
    lanes: int = 0
    """The number of lanes that took turns in its home family; it is one of them."""

    @property
    def measured(self) -> Spread | None:
        """The time of one operation in nanoseconds; `None` unless the row ran and every process measured something. Of
        a row in a family: the time of the base in this family, times their ratio, so that times and ratios agree. The
        range is of the row's own processes."""
        found = self._of_its_processes
        if found is None or self.base_ns is None or not self._is_beside_base:
            return found
        return dataclasses.replace(found, middle=self.base_ns * self.contrasts[self.base].ratio().middle)

    @property
    def remark(self) -> str:
        """The circumstance that sets its time apart from those of other rows, in words; empty of most."""
        own, measured = self._of_its_processes, self.measured
        if own is not None and self.bench.family is None and not self.bench.facts.workload:
            return "warm"
        if own is None or measured is None or not self._is_beside_base:
            return ""
        if self.base_ns is None:
            return "median of its processes"
        return (
            ""
            if abs(measured.middle - own.middle) <= own.high - own.low
            else f"median of its processes {figures.time(own.middle)}"
        )

    @property
    def _of_its_processes(self) -> Spread | None:
        points_ns = self.bench.points_ns
        return figures.spread(points_ns) if self.bench.state == "ran" and min(points_ns, default=0) > 0 else None

    @property
    def _is_beside_base(self) -> bool:
        return self.base != self.id and self.base in self.contrasts

    def over(self, other: "Row") -> Contrast | None:
        """Returns its contrast with another row; nothing where the two took no turns."""
        mine, theirs = self.contrasts.get(other.id), other.contrasts.get(self.id)
        return mine or (theirs.turned() if theirs else None)

    @property
    def why_not(self) -> str:
        """Why there is no figure, in words."""
        if self.bench.state != "ran":
            return absence(self.bench.state, self.bench.reasons)
        return (
            f"invalid: {'a time of 0 was recorded' if self.bench.points_ns else 'it ran, but no process left a figure'}"
        )


STALLED = "stall_time"
"""The measure of how long the engine made writers wait, summed over them."""


def stalled_share(row: Row) -> float | None:
    """The share of all its threads' time that the writers of a workload were stalled, in the process where that was
    most."""
    stalled, facts, measured = row.bench.measures.get(STALLED), row.bench.facts, row.measured
    if (
        stalled is None
        or stalled.unit != "seconds"
        or not stalled.points
        or not facts.timed_operations
        or measured is None
    ):
        return None
    return max(stalled.points) * 1e9 / (facts.timed_operations * measured.middle * facts.threads)


def absence(state: State, reasons: Sequence[str]) -> str:
    """Returns the words in place of a figure: the state and the reason, never a number."""
    label = {
        "ran": figures.NOT_RUN,
        "not_run": figures.NOT_RUN,
        "skipped": f"{figures.NOT_RUN} (skipped)",
        "invalid": "invalid",
    }[state]
    return f"{label}: {'; '.join(reasons) or 'no reason was recorded'}"


def house_order(layer: str) -> tuple[int, str]:
    """Layers from the lowest, then what crosses them, then what the house does not know, by name."""
    known = (*LAYERS, *ACROSS)
    return (known.index(layer) if layer in known else len(known), layer)


def thread_counts(found: Iterable[Row]) -> list[int]:
    """One thread never stands beside eight in one column, so everything is told a thread count at a time."""
    return sorted({row.bench.facts.threads for row in found})


def is_part_of_a_mix(row: Row) -> bool:
    """Returns whether a row stands only for what it adds to another."""
    return any(row.operation in parts for parts in MIX_PARTS)


def alike(one: Row, other: Row) -> bool:
    """Returns whether the figures of two rows are of one kind, so that a statistic of both may be formed (T6)."""
    mine, theirs = one.bench.facts, other.bench.facts
    return (mine.clock, mine.unit, mine.units_per_operation, mine.threads) == (
        theirs.clock,
        theirs.unit,
        theirs.units_per_operation,
        theirs.threads,
    )
