"""The price of an index: what it adds to a write, what it saves a look-up, and from how many look-ups a write on it
pays.

Rules. A write is held against the same write without an index, a look-up through an index against reading every record,
where the two took turns: the difference is their ratio, less one, times the time of the one without. The break-even
divides what each index adds by what it saves; its bounds are the worst and the best that intervals of 97.5 % allow, so
that both hold at once in 95 % of runs. What lacks a figure is not measured, and nothing is put for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from run_benches.analysis import figures, findings
from run_benches.analysis.findings import Row
from run_benches.render import cells, tables
from run_benches.render.pictures import threads_on_cores
from run_benches.render.source import Source
from run_benches.stats.estimates import Estimate
from run_benches.store.runs import Run

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
        """What an index adds, over the largest number of them."""
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

    @property
    def name(self) -> str:
        """The row through the index, and what one operation of it is."""
        return cells.named(self.through) if self.through else f"`{self.id}`"

    def saved(self, confidence: float = 0.95) -> Estimate | None:
        """Nanoseconds that the index saves."""
        return _difference(self.through, self.without, confidence) if self.through and self.without else None


@dataclass(frozen=True)
class BreakEven:
    """Look-ups a write from which on an index pays; without an upper bound where it may save nothing."""

    reads_a_write: float
    low: float
    high: float | None


def writes(run: Run) -> list[Write]:
    """Every write that is measured with and without indexes."""
    return sorted(_writes(run), key=lambda write: write.threads)


def _writes(run: Run) -> Iterator[Write]:
    rows = [
        row
        for row in findings.rows(run)
        if row.layer in LAYERS and row.subject == findings.OURS and row.bench.facts.indexes is not None
    ]
    for layer in LAYERS:
        for threads in findings.thread_counts(rows):
            for verb in WRITES:
                found = [
                    row for row in rows if (row.layer, row.operation, row.bench.facts.threads) == (layer, verb, threads)
                ]
                for line in findings.lines(verb, found) if found else ():
                    if 0 in line.cells and len(line.cells) > 1:
                        yield Write(
                            f"{layer}/{verb}" + (f", {line.variant}" if line.variant else ""), threads, line.cells
                        )


def lookups(run: Run) -> list[Lookup]:
    """Every look-up that is to be measured."""
    rows = {row.id: row for row in findings.rows(run)}
    return [Lookup(through, rows.get(through), rows.get(without)) for through, without in LOOKUPS]


def break_even(run: Run, lookup: Lookup) -> BreakEven | None:
    """From how many look-ups a write on an index pays; `None` where a figure or an interval is missing, or no cost or
    gain was seen."""
    paying = next((write for write in writes(run) if (write.name, write.threads) == (PAYING, 1)), None)
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
    if base.measured is None or other.measured is None or not findings.alike(base, other):
        return None
    contrast = other.over(base)
    return contrast.nanoseconds(base.measured.middle, confidence) if contrast else None


# Its section.

_WORDS = (
    "What an index adds to a write, what it saves a look-up against reading every record, and how many look-ups a write it takes until it pays."
    " The rows took turns; a difference is their ratio, less one, times the time of the one without. The bounds of the break-even are the worst and the best that both intervals allow, each made wide enough"
    " for both to hold at once."
)


def section(source: Source) -> list[str]:
    """The section of the page."""
    lines: list[str] = []
    found = writes(source.run)
    for threads in sorted({write.threads for write in found}):
        lines += [
            f"**added to a write, {threads_on_cores(source.run, threads)}**",
            "",
            *_writes_table([write for write in found if write.threads == threads]),
            "",
        ]
    lines = lines or [f"Added to a write: {_NOT_MEASURED}.", ""]
    lines += [
        f"**saved by a look-up, and the break-even with what each index adds to `{PAYING}`, 1 thread**",
        "",
        *_lookups_table(source),
    ]
    return ["## The price of an index", "", _WORDS, "", *source.block("price of an index", lines)]


_NOT_MEASURED = "not measured"


def _writes_table(found: list[Write]) -> list[str]:
    counts = sorted({count for write in found for count in write.cells if count})
    columns = [
        "write",
        "without an index>",
        "each index adds>",
        *(f"{figures.plural(count, 'index')} add{'s' if count == 1 else ''}>" for count in counts),
    ]
    body = []
    for write in found:
        base, each = write.cells[0], write.each()
        added = [_told(write.added(count)) if count in write.cells else "" for count in counts]
        body.append([f"`{write.name}`", cells.spread(base), _told(each), *added])
    return tables.markdown(columns, body)


def _lookups_table(source: Source) -> list[str]:
    columns = [
        "look-up, and what one operation is",
        "through the index>",
        "reading every record>",
        "the index saves>",
        "pays from look-ups a write>",
        "that is",
    ]
    return tables.markdown(columns, [_lookup_cells(source, lookup) for lookup in lookups(source.run)])


def _lookup_cells(source: Source, lookup: Lookup) -> list[str]:
    times = [cells.spread(row) if row else _NOT_MEASURED for row in (lookup.through, lookup.without)]
    saved = lookup.saved()
    return [lookup.name, *times, _told(saved), *_break_even_cells(break_even(source.run, lookup))]


def _break_even_cells(found: BreakEven | None) -> list[str]:
    if found is None:
        return [_NOT_MEASURED, ""]
    bounds = (
        f"from {figures.significant(found.low)}"
        if found.high is None
        else f"{figures.significant(found.low)} to {figures.significant(found.high)}"
    )
    writes_each = f"one look-up for every {figures.amount(1 / found.reads_a_write)} writes"
    return [f"{figures.significant(found.reads_a_write)} ({bounds})", writes_each]


def _told(found: Estimate | None) -> str:
    return figures.added_estimate(found) if found else _NOT_MEASURED
