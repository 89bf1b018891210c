"""The ladder: the same request at every rung, as a compact section of the main page and as a page of its own.

Why steps and not times: what a layer costs a request is what its rung takes more than the rung below, from turns with
it. Shares are of the request on the highest rung of the same clock, since time on the wall and time of a processor
cannot be shares of each other.
"""

from collections.abc import Sequence

from run_benches.analysis import figures
from run_benches.analysis.ladder import ALONE, RUNGS, Rung, share
from run_benches.render import cells, markdown
from run_benches.render.section import Section
from run_benches.render.source import Source

LAYER = "ladder"


def section(source: Source) -> list[str]:
    """The compact section: the picture, and what each rung adds, the highest first, a column for each request; above
    them the request on the highest rung of each clock."""
    climbs = source.found.ladders
    lines = [source.missing(LAYER)]
    if any(climbs.values()):
        seen = {rung.name for rungs in climbs.values() for rung in rungs}
        body = [
            ["**the request, by CPU time**", *(_whole(rungs, "cpu") for rungs in climbs.values())],
            ["**the request, by time**", *(_whole(rungs, "wall") for rungs in climbs.values())],
        ]
        for name in reversed(RUNGS):
            if name in seen:
                body.append([f"`{name}`", *(_added_cell(rungs, name) for rungs in climbs.values())])
        lines = markdown.table(["rung", *(f"{request.upper()}>" for request in climbs)], body)
    words = (
        "What each rung adds to a request on top of the rung below, with the interval, and which share that is of the request on"
        f" the highest rung of the same clock. `tcp` and `ingress_cpu` are told by CPU time. Every rung: {source.link(LAYER, LAYER)}."
    )
    return ["## The ladder", "", words, "", *source.picture(LAYER), *source.block("what each rung adds", lines)]


def page(source: Source) -> list[str]:
    """Every rung of every request."""
    columns = ["rung", "what one operation is", "time of one request>", "adds>", "allocations>"]
    found = []
    for request, rungs in source.found.ladders.items():
        body = []
        for rung in reversed(rungs):
            row = rung.row
            told = [f"`{rung.name}`", row.bench.facts.op, cells.spread(row), cells.added(rung), cells.allocations(row)]
            body.append(told)
        missing = [source.missing(LAYER)]
        found.append(Section(request.upper(), [], columns, body) if body else Section(request.upper(), missing))
    head = [f"# {LAYER}", "", *source.words(LAYER), *source.picture(LAYER)]
    return [*head, *source.section("Every rung", "", LAYER, markdown.sections(found))]


def _whole(rungs: Sequence[Rung], clock: str) -> str:
    for rung in reversed(rungs):
        if rung.row.bench.facts.clock == clock and rung.name not in ALONE and rung.row.measured:
            return f"{figures.time(rung.row.measured.middle)} on `{rung.name}`"
    return figures.NOT_MEASURED


def _added_cell(rungs: Sequence[Rung], name: str) -> str:
    if not rungs:
        return figures.NOT_MEASURED
    rung = next((rung for rung in rungs if rung.name == name), None)
    if rung is None:
        return "does not pass it"
    if rung.row.measured is None:
        return rung.row.why_not
    if rung.below is None:
        return figures.time(rung.row.measured.middle) + (" in it alone" if name in ALONE else " on it")
    part = share(rungs, rung)
    certain = rung.step is not None and rung.step.verdict() == "differ"
    return cells.step(rung) + (f" ({figures.percent(part)})" if part is not None and certain else "")
