"""The performance page and the pages beside it: which there are, their sections in their order, as Markdown.

Why several: what a reader comes for has to fit a page that is read to its end, and whoever doubts it wants all of it.
So the main page, of at most `MOST_LINES` lines, opens with what was found, and a page for each layer, alike for all,
holds every row and its conditions.

Why rendered: whatever is a figure stands between `<!-- BEGIN name: command @ revision -->` and `<!-- END name -->`, and
no word outside those marks holds a digit, so that a reader who doubts a figure knows what to type, and a figure without
a measurement has nowhere to stand. The words about a layer are the header of its bench, which is their only home. What
was not measured says so and why; it never prints as 0.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from run_benches import places
from run_benches.analysis import figures, series, workloads
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import counted_goals
from run_benches.analysis.load_findings import LoadFindings
from run_benches.analysis.row import ACROSS, LAYERS, house_order
from run_benches.calibrate.error_rates import ErrorRates
from run_benches.measure.layers import header
from run_benches.progress import duration
from run_benches.render import (
    bottlenecks,
    calibration_report,
    cells,
    conclusions,
    crud,
    macro,
    markdown,
    page_ladder,
    page_lake,
    page_layer,
    page_load,
    page_method,
    peers,
    prices,
    scaling,
)
from run_benches.render.gallery import pictures
from run_benches.render.source import Address, Source, machine_words, marked
from run_benches.store.load_comparisons import LoadComparison

MOST_LINES = 300
"""Of the main page; a test counts them, and so does `document --check`."""

MOST_MISSED = 10
"""Goals that the main page names; of more it tells the number."""

MAIN = "PERFORMANCE.md"

_Section = Callable[[Source], list[str]]


def render(
    found: Findings,
    headers: Mapping[str, str],
    calibration: ErrorRates | None,
    main: str = MAIN,
    stale: Mapping[str, bool | None] = {},
    loads: Mapping[str, LoadFindings] = {},
    compared: Mapping[str, LoadComparison] = {},
) -> dict[str, str]:
    """All pages, by their place from where the main page lies; that comes first. `headers` are the words of each bench
    by its layer; all others as in `Source`. Pure: equal arguments, equal bytes."""
    drawn = pictures(found)
    address = Address(main)
    here, inside = (
        Source(found, headers, drawn, calibration, one, stale, loads, compared)
        for one in (address, Address(main, inside=True))
    )
    texts = {main: _text(part for section in SECTIONS for part in section(here))}
    for name, section in _others(found, headers).items():
        title, _, *body = section(inside)
        way_back = ["", f"A part of [Performance of Strata](../{main}).", ""]
        texts[f"{address.folder}/{name}.md"] = _text([title, *way_back, *_head(inside, name), *body])
    return texts


def _head(source: Source, name: str) -> list[str]:
    """Returns what a page begins with: where its figures come from."""
    if name == page_load.NAME:
        return page_load.measured(source)
    if name == page_lake.NAME:
        return page_lake.measured(source)
    is_layer = name in source.headers or name in source.found.parts
    if is_layer and name not in source.found.parts:
        return marked("measured", "no stored run", [figures.NOT_MEASURED])
    return (_shown_of(source, name) if is_layer else source).measured()


def _text(lines: Iterator[str] | Sequence[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def _others(found: Findings, headers: Mapping[str, str]) -> dict[str, _Section]:
    """Every other page, by its name: a page a layer, lowest first, what crosses them, and four that are no layer's."""
    layers = sorted({*found.layers, *headers, *ACROSS}, key=house_order)
    return {layer: partial(_layer_page, layer) for layer in layers} | {
        "bottlenecks": bottlenecks.section,
        page_load.NAME: page_load.page,
        page_lake.NAME: page_lake.page,
        "method": page_method.section,
    }


def _layer_page(layer: str, everything: Source) -> list[str]:
    """The page of a layer; those that cross the layers have a kind of their own, or something to add."""
    source = _shown_of(everything, layer)
    held = page_layer.held_sections(source, layer)
    if layer == page_ladder.LAYER:
        return [*page_ladder.page(source), *page_layer.rows_section(source, layer), *held]
    if layer in (series.LAYER, workloads.LAYER):
        return [*(scaling if layer == series.LAYER else macro).page(source), *held]
    return [*page_layer.section(source, layer), *(prices.section(source) if layer == crud.INTEGRATION else [])]


def _shown_of(source: Source, layer: str) -> Source:
    """Returns what the page of a layer shows: that of scaling all layers with rows along an axis, any other its own."""
    if layer != series.LAYER:
        return source.of(layer)
    return dataclasses.replace(source, found=source.found.along_axes or source.found)


def bench_headers(folder: Path = places.BENCHES) -> dict[str, str]:
    """The header of each bench of this checkout, by layer. Files without a `main` are modules that benches share: no
    section."""
    return {
        path.stem: header(path.stem, folder)
        for path in sorted(folder.glob("*.rs"))
        if "\nfn main(" in path.read_text(encoding="utf-8")
    }


def opening(source: Source) -> list[str]:
    """Tells what this page is."""
    return [
        "# Performance of Strata",
        "",
        (
            "Where the time of a request goes, layer by layer, from the bytes of a record to the socket; and how far each layer is from the best"
            " that can be done without it. Rendered by `run-benches.py document` from stored runs, one of each layer: every figure stands between two marks,"
            " visible in the source of the page, that name what it comes from."
        ),
        "",
        *source.measured(),
    ]


def machine(source: Source) -> list[str]:
    """Each machine, and what was measured there, in a line."""
    named = [
        ("cpu_model", "{}"),
        ("cores", "{} cores"),
        ("memory_gib", "{} GiB of memory"),
        ("os", "{}"),
        ("kernel", "kernel {}"),
        ("file_system", "{}"),
    ]
    lines = []
    for found in source.found.of_each_machine:
        known, made = found.machine.identity | found.machine.recorded, found.made
        told = [words.format(cells.plain(value)) for name, words in named if (value := known.get(name)) is not None]
        unmeasured = [layer for layer in source.headers if layer not in source.found.parts]
        limited = f"; **of no more than: {', '.join(found.layers)}**" if unmeasured else ""
        ended = "" if made.complete else "; **it did not come to its end**"
        scales = " and ".join(sorted({source.found.parts[layer].made.scale for layer in found.layers}))
        measured = (
            f"{figures.plural(len(found.layers), 'layer')} at {scales} scale, which took {duration(made.seconds)}"
        )
        lines += [f"* {', '.join(told)}; {made.build.rustc.partition(' (')[0]}: {measured}{limited}{ended}."]
    return source.section("The machine and the runs", "", "machine", lines)


def all_pages(source: Source) -> list[str]:
    """Where everything else stands."""
    names = list(_others(source.found, source.headers))
    layers = [source.link(cells.words(name), name) for name in names if name in LAYERS]
    across = [source.link(cells.words(name), name) for name in names if name not in LAYERS]
    words = "Every row with its conditions, its plot and what it is held against stands on the page of its layer."
    return [
        "## All figures",
        "",
        words,
        "",
        f"* Layers, lowest first: {', '.join(layers)}.",
        f"* Across them: {', '.join(across)}.",
        "",
    ]


def floors(source: Source) -> list[str]:
    """Tells how many goals are met, and which are missed. Several machines share the lines for those."""
    machines, lines = source.found.of_each_machine, []
    most = MOST_MISSED // len(machines)
    columns = ["missed, by the time to lose for certain", "floor's time / ours>", "goal>", "verdict"]
    for found in machines:
        where = f"**{machine_words(found.machine)}**: " if len(machines) > 1 else ""
        missed = bottlenecks.missed(found)
        left = f" The {most} that have most to lose; all are on the page `bottlenecks`." if len(missed) > most else ""
        lines += [f"{where}{len(found.goals)} rows have a goal: {counted_goals(found.goals)}.{left}", ""]
        if missed:
            body = [[f"`{one.row.id}`", cells.ratio(one), cells.goal(one.goal), cells.verdict(one)] for one in missed]
            lines += [*markdown.table(columns, body[:most]), ""]
    words = (
        "A floor is the best raw path of the same binding for the same bytes; the ratio is its time over ours, from turns. A goal, declared beforehand, is"
        f" met if the whole interval reaches it, missed if none of it does, and else not shown. All of them: {source.link('bottlenecks', 'bottlenecks')} and the pages of the layers."
    )
    return ["## Floors", "", words, "", *source.picture("floors"), *source.block("floors", lines)]


def certainty(source: Source) -> list[str]:
    """Tells how sure the figures are, in three lines."""
    lines = [f"* {say(found)}" for found in source.found.of_each_machine for say in (_intervals, page_method.controls)]
    lines.append(f"* {_calibration(source.calibration)}")
    words = f"The rules, the counts and the cross-checks: {source.link('method', 'method')}."
    return [*source.section("How sure we are", "", "certainty", lines), words, ""]


def _intervals(found: Findings) -> str:
    if not found.families:
        return "This run is of an older format: its rows took no turns but with their floors, so no other difference is told; times are of processes that ran alone, and rough."
    ran = [family.tuples for family in found.families.values() if family.state == "ran"]
    tuples = figures.plural(max(ran, default=0), "tuple")
    if ran and min(ran) < max(ran):
        tuples = f"{min(ran)} to {max(ran)} tuples"
    return (
        f"Whatever is compared took turns of some milliseconds ({tuples} of {figures.plural(len(found.families), 'family')}); every difference has a 95 % interval over"
        " the tuples. The range beside a time is that of its processes, and no interval."
    )


def _calibration(found: ErrorRates | None) -> str:
    if found is None:
        return f"**{calibration_report.UNMEASURED}** Until then nobody knows how often `compare` is wrong."
    states = [goal.state for goal in found.goals]
    told = ", ".join(
        f"{states.count(state)} {words}"
        for state, words in (("met", "met"), ("MISSED", "missed"), ("not enough data", "without enough data"))
        if state in states
    )
    return f"How often `compare` is wrong was counted on pairs of one revision with itself and with planted slow-downs; of {len(states)} goals for that: {told}."


def how_to_run(source: Source) -> list[str]:
    """The commands."""
    return [
        "## How to run this yourself",
        "",
        "```",
        "python3 run-benches.py                                       # every layer: measures, prints the tables, stores the run",
        "python3 run-benches.py storage                               # one layer; list says what there is",
        "python3 run-benches.py document last --output my-machine.md  # these pages, of your machine",
        "python3 run-benches.py document --check                      # are these pages what the stored runs say?",
        "cargo bench --bench integration                              # one bench by hand, with Criterion's own report",
        "```",
        "",
        "What a bench prints when it is run by hand is used for nothing here: it is one process, and says nothing about the next one.",
        "",
    ]


def limits(source: Source) -> list[str]:
    """Tells what the figures do not say."""
    return [
        "## Limits",
        "",
        (
            "* These are benches inside one process. They say what a layer costs, not how a server behaves under load: nothing queues, and no client is on"
            f" another machine. The latencies of the {source.link('workloads', workloads.LAYER)} are service times of a closed loop, not those of requests that"
            " arrive at a rate."
        ),
        (
            "* A time is that of a busy loop over one operation, whose branches are learnt. Its caches are warm where the row ran alone; where it took"
            " turns they are those that the other lanes have left, so a read of scattered records takes the longer the more rows its family has."
        ),
        "* Rows with more threads than cores measure waiting as much as work.",
        "* A write is as durable as its row says, and no more.",
        "* What a page of a layer says is of one machine. On another one expect other times; ratios travel better, and are not promised.",
        "* Other systems stand here only where they were measured in the same run on the same machine doing the same work.",
        "",
    ]


SECTIONS: Sequence[_Section] = (
    opening,
    conclusions.section,
    machine,
    crud.summary,
    crud.section,
    page_ladder.section,
    floors,
    peers.section,
    scaling.section,
    bottlenecks.next_steps,
    certainty,
    all_pages,
    how_to_run,
    limits,
)
