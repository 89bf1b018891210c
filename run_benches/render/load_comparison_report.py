"""A comparison of two servers, or of two loads, as a person reads it on the terminal and on the page about load tests."""

import statistics

from run_benches.analysis import effects, figures
from run_benches.progress import duration
from run_benches.render.tables import Column
from run_benches.store.load_comparisons import LoadComparison, Row, Side

COLUMNS = (
    Column("row"),
    Column("verdict"),
    Column("change [95 %]", right=True),
    Column("A", right=True),
    Column("B", right=True),
    Column("of"),
    Column("adjusted p", right=True, spared=True),
    Column("pairs", right=True, spared=True),
)


def title(compared: LoadComparison) -> str:
    """What was held against what."""
    return f"{_side(compared.a)} (A) and {_side(compared.b)} (B)"


def body(compared: LoadComparison) -> list[list[str]]:
    """A line for each row; times are medians over the pairs."""
    return [_line(name, row) for name, row in compared.rows.items()]


def sentences(compared: LoadComparison) -> list[str]:
    """What the table rests on, and what was left out of it."""
    windows = figures.plural(2 * compared.windows, "window")
    said = [f"{figures.plural(compared.done, 'pair')} of servers, {windows} each, in {duration(compared.seconds)}; changes within {compared.margin:.0%} are the same."]
    bound = compared.validities.get("client_bound", 0)
    if bound:
        said.append(
            f"In {bound} of {sum(compared.validities.values())} runs the client was the bottleneck: its own time is in the times of requests, not in the server's CPU."
        )
    return [*said, *(f"Invalid, and not counted: {reason}." for reason in compared.invalid)]


def _side(side: Side) -> str:
    return " ".join([f"{side.name}:", side.scenario, *side.flags])


def _line(name: str, row: Row) -> list[str]:
    found = row.judgement
    times = [figures.time(statistics.median(values)) if values else figures.NOT_RUN for values in (row.a_ns, row.b_ns)]
    of = f"{row.times} time" if row.times else "CPU time"
    if found is None:
        return [name, "not judged", "", *times, of, "", ""]
    return [name, effects.verdict(found), effects.estimated(found), *times, of, effects.probability(found.p_adjusted), str(found.pairs)]
