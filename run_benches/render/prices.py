"""The price of an index: what it adds to a write, what it saves a look-up, and from how many look-ups a write on it
pays.

Rules. A write is held against the same write without an index, a look-up through an index against reading every record,
where the two took turns: the difference is their ratio, less one, times the time of the one without. The break-even
divides what each index adds by what it saves; its bounds are the worst and the best that intervals of 97.5 % allow, so
that both hold at once in 95 % of runs. What lacks a figure is not measured, and nothing is put for it.
"""

from collections.abc import Sequence

from run_benches.analysis import figures
from run_benches.analysis.prices import PAYING, Lookup, Write, break_even
from run_benches.render import cells, markdown
from run_benches.render.pictures import threads_on_cores
from run_benches.render.section import Section
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
    writes = source.found.writes
    found = []
    for threads in sorted({write.threads for write in writes}):
        crowd = threads_on_cores(source.found.machine, threads)
        found.append(_added_to(f"added to a write, {crowd}", [one for one in writes if one.threads == threads]))
    title = f"saved by a look-up, and the break-even with what each index adds to `{PAYING}`, 1 thread"
    columns = [
        "look-up, and what one operation is",
        "through the index>",
        "reading every record>",
        "the index saves>",
        "pays from look-ups a write>",
        "that is",
    ]
    found.append(Section(title, [], columns, [_lookup_cells(source, lookup) for lookup in source.found.lookups]))
    lines = [] if writes else [f"Added to a write: {figures.NOT_MEASURED}.", ""]
    return source.section("The price of an index", _WORDS, "price of an index", lines + markdown.sections(found))


def _added_to(title: str, found: Sequence[Write]) -> Section:
    counts = sorted({count for write in found for count in write.cells if count})
    columns = [
        "write",
        "without an index>",
        "each index adds>",
        *(f"{figures.plural(count, 'index')} add{'s' if count == 1 else ''}>" for count in counts),
    ]
    body = []
    for write in found:
        added = [_estimate(write.added(count)) if count in write.cells else "" for count in counts]
        body.append([f"`{write.name}`", cells.spread(write.cells[0]), _estimate(write.each()), *added])
    return Section(title, [], columns, body)


def _lookup_cells(source: Source, lookup: Lookup) -> list[str]:
    name = cells.named(lookup.through) if lookup.through else f"`{lookup.id}`"
    times = [cells.spread(row) if row else figures.NOT_MEASURED for row in (lookup.through, lookup.without)]
    told = [name, *times, _estimate(lookup.saved())]
    found = break_even(source.found.writes, lookup)
    if found is None:
        return [*told, figures.NOT_MEASURED, ""]
    bounds = f"from {figures.significant(found.low)}"
    if found.high is not None:
        bounds = f"{figures.significant(found.low)} to {figures.significant(found.high)}"
    each = f"one look-up for every {figures.amount(1 / found.reads_a_write)} writes"
    return [*told, f"{figures.significant(found.reads_a_write)} ({bounds})", each]


def _estimate(found: Estimate | None) -> str:
    return figures.added_estimate(found) if found else figures.NOT_MEASURED
