"""The price of an index: what it adds to a write, what it saves a look-up, and from how many look-ups a write on it
pays.

Rules. A write is held against the same write without an index, a look-up through an index against reading every record,
where the two took turns: the difference is their ratio, less one, times the time of the one without. The break-even
divides what each index adds by what it saves; its bounds are the worst and the best that intervals of 97.5 % allow, so
that both hold at once in 95 % of runs. What lacks a figure is not measured, and nothing is put for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from run_benches.analysis import crud
from run_benches.analysis.row import OURS, Row, alike, thread_counts
from run_benches.stats.estimates import Estimate

WRITES = ("create", "update", "delete")
LAYERS = ("transaction", "integration")
"""Where writes are measured by the number of indexes."""

LOOKUPS = (
    ("query/fiql_10k/strata/with_index", "query/fiql_10k/strata/without_index"),
    ("query/sort_limit/strata/20_of_10000_by_index", "query/sort_limit/strata/20_of_10000_in_memory"),
)
"""Queries through an index, and the same queries of the same records where there is none and every record is read."""

PAYING = "transaction/create"
"""The write that pays for the look-ups of the break-even: CREATE by one thread, what each of its indexes adds."""

JOINT = 0.975
"""The confidence of each of two intervals that together shall hold in 95 % of runs (Bonferroni)."""


@dataclass(frozen=True)
class Write:
    """A write by the number of indexes: a row for each number."""

    name: str
    threads: int
    cells: dict[int, Row]

    def added(self, indexes: int, confidence: float = 0.95) -> Estimate | None:
        """Nanoseconds that so many indexes add to one write."""
        base, cell = self.cells.get(0), self.cells.get(indexes)
        return _difference(base, cell, confidence) if indexes and base and cell else None

    def each(self, confidence: float = 0.95) -> Estimate | None:
        """Returns what an index adds, over the largest number of them."""
        most = max(self.cells)
        found = self.added(most, confidence)
        return found and Estimate(
            found.middle / most, *(None if end is None else end / most for end in (found.low, found.high))
        )


@dataclass(frozen=True)
class Lookup:
    """A look-up through an index and what it would be without; a row is absent where the run has none."""

    id: str
    through: Row | None
    without: Row | None

    def saved(self, confidence: float = 0.95) -> Estimate | None:
        """Nanoseconds that the index saves."""
        return _difference(self.through, self.without, confidence) if self.through and self.without else None


@dataclass(frozen=True)
class BreakEven:
    """Look-ups a write from which on an index pays; without an upper bound where it may save nothing."""

    reads_a_write: float
    low: float
    high: float | None


def writes(rows: Iterable[Row]) -> list[Write]:
    """Every write that is measured with and without indexes."""
    wanted = [
        row for row in rows if row.layer in LAYERS and row.subject == OURS and row.bench.facts.indexes is not None
    ]
    return [
        Write(f"{layer}/{verb}" + (f", {line.variant}" if line.variant else ""), threads, line.cells)
        for threads in thread_counts(wanted)
        for layer in LAYERS
        for verb in WRITES
        if (
            found := [
                row for row in wanted if (row.layer, row.operation, row.bench.facts.threads) == (layer, verb, threads)
            ]
        )
        for line in crud.lines(verb, found)
        if 0 in line.cells and len(line.cells) > 1
    ]


def lookups(rows: Iterable[Row]) -> list[Lookup]:
    """Every look-up that is to be measured."""
    by_id = {row.id: row for row in rows}
    return [Lookup(through, by_id.get(through), by_id.get(without)) for through, without in LOOKUPS]


def break_even(writes: Iterable[Write], lookup: Lookup) -> BreakEven | None:
    """From how many look-ups a write on an index pays; `None` where a figure or an interval is missing, or no cost or
    gain was seen."""
    paying = next((write for write in writes if (write.name, write.threads) == (PAYING, 1)), None)
    added, saved = paying.each(JOINT) if paying else None, lookup.saved(JOINT)
    if (
        added is None
        or saved is None
        or added.low is None
        or added.high is None
        or saved.low is None
        or saved.high is None
    ):
        return None
    if added.middle <= 0 or saved.middle <= 0:
        return None
    return BreakEven(
        added.middle / saved.middle, max(0.0, added.low) / saved.high, added.high / saved.low if saved.low > 0 else None
    )


def _difference(base: Row, other: Row, confidence: float) -> Estimate | None:
    if base.measured is None or other.measured is None or not alike(base, other):
        return None
    contrast = other.over(base)
    return contrast.nanoseconds(base.measured.middle, confidence) if contrast else None
