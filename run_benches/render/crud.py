"""The verbs of `integration` by the number of indexes, each with what it loses against none: on the terminal, on the
main page, and the few figures of them that most people come for."""

from collections.abc import Callable, Iterator, Sequence

from run_benches.analysis import figures
from run_benches.analysis.crud import VERBS, CrudLine
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import Row
from run_benches.render import cells, markdown
from run_benches.render.pictures import threads_on_cores
from run_benches.render.section import Section
from run_benches.render.source import Source

INTEGRATION = "integration"


def on_terminal(found: Findings) -> Iterator[Section]:
    """A table for each number of threads, where it has a figure."""
    for threads, lines in found.crud.items():
        if any(row.measured for line in lines for row in line.cells.values()):
            columns = _columns(figures.plural(threads, "thread"), found.index_counts)
            body = _body(lines, found.index_counts, cells.brief_time, lambda row: "no turns" if row else "no such row")
            yield Section("integration: time by the number of indexes; longer than without [95 %]", [], columns, body)


def section(source: Source) -> list[str]:
    """A table for each number of threads, with every verb, also one without a row."""
    source = source.of(INTEGRATION)
    counts = sorted({0, 1, 2, *source.found.index_counts})
    found = []
    for threads, verbs in source.found.crud.items():
        unseen = [CrudLine(verb, "", {}) for verb in VERBS if verb not in {line.operation for line in verbs}]
        body = _body(
            [*verbs, *unseen], counts, lambda row: cells.time(source, row, INTEGRATION), lambda _: figures.NO_TURNS
        )
        found.append(Section(threads_on_cores(source.found.machine, threads), [], _columns("verb", counts), body))
    price = source.link("the price of an index, and when it pays", INTEGRATION)
    words = f"Beside each time stands how much longer the verb takes than without any index, from turns with it, and the interval. Further: {price}."
    lines = markdown.sections(found) or [source.missing(INTEGRATION)]
    return [*source.section("CRUD by index count", words, "crud", lines), *source.picture("crud")]


def _columns(first: str, counts: Sequence[int]) -> list[str]:
    """The columns; the terminal can spare those between none and the most indexes."""
    columns = [first]
    for count in counts:
        marks = ">?" if 0 < count < max(counts) else ">"
        columns.append(figures.plural(count, "index") + marks)
        if count:
            columns.append(f"longer by{marks}")
    return columns


def _body(
    lines: Sequence[CrudLine],
    counts: Sequence[int],
    time: Callable[[Row | None], str],
    no_turns: Callable[[Row | None], str],
) -> list[list[str]]:
    body = []
    for line in lines:
        told = [line.label]
        for count in counts:
            row, loss = line.cells.get(count), line.loss(count)
            told.append(time(row))
            if count:
                without = "no figure" if line.lacks_a_figure(count) else no_turns(row)
                told.append(figures.contrast(loss) if loss else without)
        body.append(told)
    return body


def summary(source: Source) -> list[str]:
    """The few figures that most people come for: a line for each, or one for each variant of the verb."""
    source = source.of(INTEGRATION)
    grids = source.found.crud
    columns = ["", "one operation is", "indexes>"]
    for threads in grids:
        crowd = threads_on_cores(source.found.machine, threads)
        columns += [f"time, {crowd}>", f"operations/s, {figures.plural(threads, 'thread')}>"]
    most = max(source.found.index_counts, default=2)
    asked = [("simple {}", "read", 0), ("simple {}", "create", 0), ("{} 70R/30W", "mixed", 0)]
    asked += [("{} with indexes", verb, most) for verb in ("read", "create", "mixed")]
    body = []
    for words, verb, indexes in asked:
        by_label = [{line.label: line.cells for line in grid if line.operation == verb} for grid in grids.values()]
        labels = [label for of_verb in by_label for label in of_verb]
        for label in dict.fromkeys(labels or [verb.upper()]):
            found = [of_verb.get(label, {}).get(indexes) for of_verb in by_label]
            told = [words.format(label), next((row.bench.facts.op for row in found if row), ""), str(indexes)]
            for row in found:
                told += [cells.time(source, row, INTEGRATION), cells.rate(row)]
            body.append(told)
    lines = [*markdown.table(columns, body), "", _SEVERAL_THREADS] if grids else [source.missing(INTEGRATION)]
    return source.section("Summary", "", "summary", lines)


_SEVERAL_THREADS = "With several threads, the time of one operation is the time from the first start to the last end over the operations of all threads."
