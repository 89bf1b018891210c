"""The price of an index: what it adds to a write, what it saves a look-up, and from how many look-ups a write on it
pays.

Rules. A write is held against the same write without an index, a look-up through an index against reading every record,
where the two took turns: the difference is their ratio, less one, times the time of the one without. The break-even
divides what each index adds by what it saves; its bounds are the worst and the best that intervals of 97.5 % allow, so
that both hold at once in 95 % of runs. What lacks a figure is not measured, and nothing is put for it.
"""

from run_benches.analysis import figures
from run_benches.analysis.prices import PAYING, BreakEven, Lookup, Write, break_even
from run_benches.render import cells, markdown
from run_benches.render.pictures import threads_on_cores
from run_benches.render.source import Source
from run_benches.stats.estimates import Estimate

# Its section.

_WORDS = (
    "What an index adds to a write, what it saves a look-up against reading every record, and how many look-ups a write it takes until it pays."
    " The rows took turns; a difference is their ratio, less one, times the time of the one without. The bounds of the break-even are the worst and the best that both intervals allow, each made wide enough"
    " for both to hold at once."
)


def section(source: Source) -> list[str]:
    """The section of the page."""
    lines: list[str] = []
    found = source.found.writes
    for threads in sorted({write.threads for write in found}):
        lines += [
            f"**added to a write, {threads_on_cores(source.found.machine, threads)}**",
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
        added = [_estimate(write.added(count)) if count in write.cells else "" for count in counts]
        body.append([f"`{write.name}`", cells.spread(base), _estimate(each), *added])
    return markdown.table(columns, body)


def _lookups_table(source: Source) -> list[str]:
    columns = [
        "look-up, and what one operation is",
        "through the index>",
        "reading every record>",
        "the index saves>",
        "pays from look-ups a write>",
        "that is",
    ]
    return markdown.table(columns, [_lookup_cells(source, lookup) for lookup in source.found.lookups])


def _lookup_cells(source: Source, lookup: Lookup) -> list[str]:
    times = [cells.spread(row) if row else _NOT_MEASURED for row in (lookup.through, lookup.without)]
    saved = lookup.saved()
    name = cells.named(lookup.through) if lookup.through else f"`{lookup.id}`"
    return [name, *times, _estimate(saved), *_break_even_cells(break_even(source.found.writes, lookup))]


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


def _estimate(found: Estimate | None) -> str:
    return figures.added_estimate(found) if found else _NOT_MEASURED
