"""A comparison of two servers, or of two loads, as a person reads it on the terminal and on the page about load tests."""

import statistics
from collections.abc import Callable, Iterator

from run_benches.analysis import effects, figures
from run_benches.progress import duration
from run_benches.render.section import Section
from run_benches.render.source import revision
from run_benches.store.load_comparisons import LoadComparison, LoadRow, LoadSide

COLUMNS = (
    "row",
    "verdict",
    "change [95 %]>",
    "A>",
    "B>",
    "of",
    "adjusted p>?",
    "pairs>?",
)


def section(compared: LoadComparison) -> Section:
    """Returns a line for each row, whose times are medians over the pairs, and what the table rests on."""
    title = f"{_side(compared.a)} (A) and {_side(compared.b)} (B)"
    return Section(
        title, list(_sentences(compared)), COLUMNS, [_line(name, row) for name, row in compared.rows.items()]
    )


def _sentences(compared: LoadComparison) -> Iterator[str]:
    """Tells what the table rests on, and what was left out of it."""
    windows = figures.plural(2 * compared.windows, "window")
    variants = len({name.partition("/")[0] for name in compared.rows})
    of_each = f" of each of {variants} variants" if variants > 1 else ""
    yield f"{figures.plural(compared.done, 'pair')} of servers{of_each}, {windows} each, in {duration(compared.seconds)}; changes within {compared.margin:.0%} are the same."
    if not compared.complete:
        planned = f" of {compared.pairs}" if compared.pairs else ""
        yield f"It ended after {compared.done}{planned} pairs, so no row is judged."
    for side, counts in compared.counts.items():
        if counts.ok < counts.scheduled:
            kinds = counts.failed | {"dropped": counts.dropped, "censored": counts.censored}
            told = ", ".join(f"{name} {number}" for name, number in kinds.items() if number)
            lost = f"{counts.scheduled - counts.ok} of {figures.plural(counts.scheduled, 'request')} ({told})"
            yield f"{lost} of side {side.upper()} were not answered right."
    if bound := compared.validities.get("client_bound", 0):
        yield f"In {bound} of {sum(compared.validities.values())} runs the client was the bottleneck: its own time is in the times of requests, not in the server's CPU."
    yield from (f"Invalid, and not counted: {reason}." for reason in compared.invalid)


def _side(side: LoadSide) -> str:
    return " ".join([f"{side.name} ({revision(side.commit, side.dirty)}):", side.scenario, *side.flags])


def _line(name: str, row: LoadRow) -> list[str]:
    found = row.judgement
    shown: Callable[[float], str] = "{:.4f}".format if row.kind == "requests per right answer" else figures.time
    middles = [shown(statistics.median(values)) if values else figures.NOT_RUN for values in (row.a, row.b)]
    of = f"{row.times} time" if row.times else "CPU time" if row.kind == "server CPU per right answer" else "requests"
    if found is None:
        return [name, "not judged", row.reason or "", *middles, of, "", ""]
    needed = f" ({figures.plural(found.pairs_needed, 'pair')} might)" if found.pairs_needed else ""
    return [
        name,
        f"{effects.verdict(found)}{needed}",
        effects.estimated(found),
        *middles,
        of,
        effects.probability(found.p_adjusted),
        str(found.pairs),
    ]
