"""The performance page: its sections, in their order, as Markdown.

Why rendered: whatever is a figure stands between `<!-- BEGIN name: command @ revision -->` and `<!-- END name -->`, and no word outside
those marks holds a digit, so that a reader who doubts a figure knows what to type, and a figure without a measurement has nowhere to stand.
The words about a layer are the header of its bench, which is their only home. What was not measured says so and why; it never prints as 0.

Rows of different units, clocks or numbers of threads share no column, but the time of one operation where that is said.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from run_benches import (
    bottlenecks,
    calibration_pictures,
    calibration_report,
    cells,
    contradictions,
    contrasts,
    figures,
    findings,
    layer_pictures,
    macro,
    peers,
    places,
    prices,
    scaling,
    tables,
)
from run_benches.error_rates import Results
from run_benches.findings import CrudLine, Held, Row, Rung
from run_benches.gallery import pictures
from run_benches.pictures import threads_on_cores
from run_benches.progress import duration
from run_benches.runs import Run
from run_benches.source import Source, command, image, marked, revision


CALIBRATION = "baselines/calibration/results.json"
"""Where the error rates of this project stand, as a reader finds them."""


def render(run: Run, headers: Mapping[str, str], calibration: Results | None) -> str:
    """The page of a run; `headers` are the words of each bench by its layer. Pure: equal arguments, equal bytes."""
    source = Source(run, headers, pictures(run), calibration)
    parts = [section(source) for section in SECTIONS]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def bench_headers(folder: Path = places.BENCHES) -> dict[str, str]:
    """The `//!` header of each bench as Markdown, by layer. Files without a `main` are modules that benches share: no section."""
    return {path.stem: _header(path) for path in sorted(folder.glob("*.rs")) if "\nfn main(" in path.read_text(encoding="utf-8")}


def opening(source: Source) -> list[str]:
    """What this page is."""
    return [
        "# Performance of Strata",
        "",
        "Where the time of a request goes, layer by layer, from the bytes of a record to the socket; and how far each layer is from the best"
        " that can be done without it.",
        "",
        "This page is rendered by `run-benches.py document` from one stored run, and from the stored calibration what is said of our own"
        " error rates. Nothing in it is typed by hand: every figure stands between two marks, visible in the source of the page, that name"
        " what it comes from, and the revision.",
        "",
    ]


def certainty(source: Source) -> list[str]:
    """How the figures were made, how sure they are, and what in them contradicts itself."""
    run, design = source.run, source.run.design
    lines = [
        f"* Rows that are compared took turns on the same core ({figures.plural(design.tuples, 'tuple')} of each family were planned), and every "
        "difference or ratio is theirs, with a 95 % interval over the tuples; the tuple is the unit, never the sample.",
        "* A time of such a row is that of the base of its family, times their ratio; one of a row without a partner is of processes that ran "
        "alone, and is rough. The range beside it goes from the fastest process to the slowest and is not a confidence interval.",
        f"* {_controls(run)}",
        "* All figures are of one machine, described below. On another machine expect other times; ratios travel better, and are not promised.",
        *([f"* **This is a run of no more than: {', '.join(run.partial)}.** What else the page could hold is not in it."] if run.partial is not None else []),
        *(["* This was a quick run: few processes and few pairs, so spreads and intervals are coarse."] if run.scale == "quick" else []),
        f"* {_census(run)}",
    ]
    figures_of_run = ["### The figures of this page", "", *source.block("certainty", lines)]
    figures_of_run += ["### Cross-checks", "", _CROSS_CHECKS, "", *source.block("cross-checks", _cross_checks(run))]
    figures_of_run += ["### The run", "", *source.block("run", _run_table(run))]
    return ["## How sure we are", "", *_error_rates(source), *figures_of_run]


def _controls(run: Run) -> str:
    """What the second lanes say of the intervals."""
    found = contrasts.controls(run)
    if not found.looked_at:
        return "No row was held against itself, so nothing is known of the intervals of this run."
    words = f"Each family has a row that took turns with itself: {found.held} of {found.looked_at} of these 95 % intervals hold no difference."
    return words + (" **Chance gives so few less than once in a hundred runs: the run is contaminated.**" if found.contaminated else "")


_CROSS_CHECKS = (
    "Figures of different rows, held against each other: a layer that is faster than what it calls, or a mix that is faster than its parts, is a"
    " fault of the measurement until it is explained. Ratios of rows that took turns are looked at, else the ranges of the processes."
)


def summary(source: Source) -> list[str]:
    """The few figures that most people come for."""
    grids = {threads: findings.crud(source.run, threads) for threads in findings.thread_counts(findings.crud_rows(source.run))}
    columns = ["", "one operation is", "indexes>"]
    for threads in grids:
        columns += [f"time, {threads_on_cores(source.run, threads)}>", f"operations/s, {figures.plural(threads, 'thread')}>"]
    most = max(findings.index_counts(source.run), default=2)
    asked = [("simple {}", "read", 0), ("simple {}", "create", 0), ("{} 70R/30W", "mixed", 0)]
    asked += [("{} with indexes", verb, most) for verb in ("read", "create", "mixed")]
    body = [line for words, verb, indexes in asked for line in _summary_rows(source, list(grids.values()), words, verb, indexes)]
    lines = [*tables.markdown(columns, body), "", _several_threads()] if grids else [source.missing("integration")]
    return ["## Summary", "", *source.block("summary", lines)]


def crud(source: Source) -> list[str]:
    """The verbs by the number of indexes, each with its loss against none."""
    counts = sorted({0, 1, 2, *findings.index_counts(source.run)})
    lines: list[str] = []
    for threads in findings.thread_counts(findings.crud_rows(source.run)):
        lines += [f"**{threads_on_cores(source.run, threads)}**", "", *_crud_table(source, threads, counts), ""]
    lines = lines or [source.missing("integration")]
    words = (
        "Beside each time stands how much longer the verb takes than without any index, from turns with it, with the 95 % interval over the"
        " tuples."
    )
    return ["## CRUD by index count", "", words, "", *source.block("crud", lines), *source.picture("crud")]


def full_stack(source: Source) -> list[str]:
    """Every row of ours in a layer and its rungs of the ladder, in house order, by the one column that rows of different units share."""
    ours = [row for row in findings.rows(source.run) if row.subject == findings.OURS and row.layer not in findings.ACROSS]
    rungs = [rung for request in findings.REQUESTS for rung in findings.ladder(source.run, request) if rung.name in (*findings.LAYERS, *findings.SOCKETS)]
    stack = [(row.layer, row, None) for row in ours] + [(rung.name, rung.row, rung) for rung in rungs]
    stack.sort(key=lambda entry: findings.house_order(entry[0]))
    columns = ["layer", "row, and what one operation is", "unit", "time of one operation>", "over the layer below>", "ratio to floor>", "goal", "allocations>"]
    lines: list[str] = []
    for threads in findings.thread_counts(row for _, row, _ in stack):
        body = [_stack_cells(source, *entry) for entry in stack if entry[1].bench.facts.threads == threads]
        lines += [f"**{threads_on_cores(source.run, threads)}**", "", *tables.markdown(columns, body), ""]
    lines += _absent_layers(source, {row.layer for row in ours})
    words = (
        "Rows of different units share no column but the time of one operation. The ratio is the floor's time over ours, so that more is"
        " better; the floor is the best raw path of the same binding for the same bytes. What a layer costs over the layer below it can be told"
        " of requests that pass through both: those are the rows of the ladder."
    )
    return ["## The full stack", "", words, "", *source.block("full stack", lines)]


def floors(source: Source) -> list[str]:
    """How far each layer is from the best path without it."""
    words = "The lower end of the interval is what counts: a goal that is not shown to be reached is missed."
    held = findings.floors(source.run)
    judged = [entry for entry in held if entry.judged]
    missed = [entry for entry in judged if entry.missed]
    lines = [f"{len(judged)} of {len(held)} rows with a floor were judged; {len(missed)} of them missed the goal.", "", *_floor_table(held)]
    return ["## Floors", "", words, "", *source.block("floors", lines), *source.picture("floors")]


def ladder(source: Source) -> list[str]:
    """The same request at every rung: what each layer adds."""
    climbs = {request: findings.ladder(source.run, request) for request in findings.REQUESTS}
    adds = _added_table(climbs) if any(climbs.values()) else [source.missing("ladder")]
    lines: list[str] = []
    for request, rungs in climbs.items():
        lines += [f"**{request.upper()}**", "", *(_ladder_table(rungs) if rungs else [source.missing("ladder")]), ""]
    words = (
        "What each layer adds to the time of a request on top of the layer below it, and which share that is of the request's time on the"
        " highest rung. Layers that call none below them stand beside the ladder: `in it` is what the request costs there."
    )
    added = ["### What each layer adds", "", words, "", *source.block("what each layer adds", adds), *source.picture("ladder")]
    return ["## ladder", "", *source.words("ladder"), *added, "### Every rung", "", *source.block("ladder", lines)]


def layers(source: Source) -> list[str]:
    """A section a layer, lowest first, then what crosses them, but for those that have a section of another kind."""
    own = {"ladder", scaling.LAYER, macro.LAYER}
    wanted = [layer for layer in findings.layers(source.run, source.headers) if layer not in own]
    return [line for layer in wanted for line in _layer(source, layer)]


def calibrated(source: Source) -> list[str]:
    """All that is known of our own error rates."""
    if source.calibration is None:
        return []
    images = [line for picture in calibration_pictures.pictures(source.calibration) for line in (image(picture), "")]
    words = "Comparisons of one revision with itself, and with slow-downs of known size: how often `compare` said the right thing, and what the usual tools say of the same times."
    figures_of_it = marked("calibration", _origin(source.calibration), [*calibration_report.section(source.calibration), *images])
    return ["## Calibration", "", words, "", *figures_of_it]


def how_to_run(source: Source) -> list[str]:
    """The commands."""
    return [
        "## How to run this yourself",
        "",
        "```",
        "python3 run-benches.py                                       # every layer: measures, prints the tables, stores the run",
        "python3 run-benches.py storage                               # one layer",
        "python3 run-benches.py macro                                 # the workloads of seconds; --quick leaves them out unless they are named",
        "python3 run-benches.py list                                  # what there is, and what each row measures",
        "python3 run-benches.py document last --output my-machine.md  # this page, of your machine",
        "python3 run-benches.py document --check                      # is this page what the stored run says?",
        "cargo bench --bench integration                              # one bench by hand, with Criterion's own report",
        "```",
        "",
        "What a bench prints when it is run by hand is used for nothing on this page: it is one process, and its interval says nothing about"
        " the next process.",
        "",
    ]


def limits(source: Source) -> list[str]:
    """What the figures do not say."""
    return [
        "## Limits",
        "",
        "* These are benches inside one process. They say what a layer costs, not how a server behaves under load: no queue, no tail latency, no"
        " client on another machine. Load tests, event streams, processor quotas and the registry are not run: there is no tool for them yet.",
        "* A time is that of a busy loop over one operation: the processor's caches are warm and its branches are learnt.",
        "* Rows with more threads than cores measure waiting as much as work.",
        "* A write is as durable as its row says, and no more.",
        "* Other systems stand here only where they were measured in the same run on the same machine doing the same work.",
        "* What else the machine did in the meantime (other tenants of a virtual one) is not known. Pairs that take turns see the same of it; times"
        " of processes that ran alone do not.",
        "",
    ]


def engine(source: Source) -> list[str]:
    """The options that the processes themselves reported (T18); layers with the same options share a table."""
    shared: dict[str, list[str]] = {}
    for layer, options in sorted(source.run.engine.items(), key=lambda entry: findings.house_order(entry[0])):
        shared.setdefault(json.dumps(options, sort_keys=True), []).append(layer)
    lines: list[str] = []
    for options_text, sharing in shared.items():
        body = [[f"`{name}`", cells.plain(value)] for name, value in json.loads(options_text).items()]
        lines += [f"<details><summary>{', '.join(sharing)}</summary>", "", *tables.markdown(["option", "value"], body), "", "</details>", ""]
    return ["## The engine as it ran", "", *source.block("engine", lines or [f"{figures.NOT_RUN}: no process reported its options"])]


def runs_used(source: Source) -> list[str]:
    """The one run, and the one calibration, that every figure comes from (T17)."""
    run, found = source.run, source.calibration
    ran = sum(bench.state == "ran" for bench in run.benches.values())
    kept = f"`baselines/{run.name}.json`" if run.name else "a run that is kept under no name"
    scale = run.scale + (f", only {', '.join(run.partial)}" if run.partial is not None else "") + ("" if run.complete else ", interrupted")
    body = [["all figures of the layers", kept, revision(run.tool.commit, run.tool.dirty), run.started, scale, f"{ran} of {len(run.benches)}"]]
    if found:
        body.append(["our own error rates", f"`{CALIBRATION}`", revision(found.commit, found.dirty), "", f"{found.hours:g} h", ""])
    columns = ["what", "where it is stored", "revision", "started", "how much", "rows that ran>"]
    return ["## The runs of this page", "", *source.block("runs", tables.markdown(columns, body))]


SECTIONS: Sequence[Callable[[Source], list[str]]] = (
    opening,
    certainty,
    summary,
    crud,
    prices.section,
    full_stack,
    floors,
    ladder,
    bottlenecks.section,
    layers,
    scaling.section,
    macro.section,
    peers.section,
    calibrated,
    how_to_run,
    limits,
    engine,
    runs_used,
)


# Parts of sections.


def _error_rates(source: Source) -> list[str]:
    """How often our own verdicts were found to be wrong."""
    found, heading = source.calibration, ["### How often our verdicts are wrong", ""]
    if found is None:
        unknown = "Until then nobody knows how often an interval on this page misses the truth."
        return [*heading, f"**Our own error rates have not been measured yet: `run-benches.py calibrate`.** {unknown}", ""]
    known = ", ".join(f"{cells.words(name)} {cells.plain(value)}" for name, value in found.machine.identity.items())
    same_machine = found.machine.identity == source.run.machine.identity
    elsewhere = [] if same_machine else [f"**Measured on another machine than the figures of this page:** {known}.", ""]
    details = "The counts behind these, by condition and by tool, stand under [Calibration](#calibration)."
    return [*heading, *marked("error rates", _origin(found), [*elsewhere, *calibration_report.goals(found)]), details, ""]


def _origin(found: Results) -> str:
    return f"{CALIBRATION} @ {revision(found.commit, found.dirty)}"


def _census(run: Run) -> str:
    """How every planned cell ended (T2)."""
    kinds = {
        "Times": [run.benches[cell.id].state for cell in run.design.plan if cell.kind == "time"],
        "ratios": [run.ratios[cell.id].state for cell in run.design.plan if cell.kind == "ratio"],
    }
    told = []
    for kind, states in kinds.items():
        counts = ", ".join(f"{states.count(state)} {words}" for state, words in _STATES.items() if state in states) or "none"
        told.append(f"{kind}: {len(states)} planned ({counts})")
    end = "" if run.complete else " **The run did not come to its end.**"
    return f"Every planned cell ended in a state. {'; '.join(told)}.{end}"


_STATES = {"ran": "ran", "not_run": "not run", "skipped": "skipped", "invalid": "invalid"}


def _cross_checks(run: Run) -> list[str]:
    """What contradicts itself, and how much was looked at (T22: silence is no pass)."""
    checks = contradictions.checks(run)
    body = [[check.rule, str(check.looked_at), str(len(check.found)) if check.looked_at else f"{figures.NOT_RUN}: nothing to look at"] for check in checks]
    lines = [f"* **{kind}**: {words}" for check in checks for kind, _, words in (told.partition(": ") for told in check.found)]
    return [*tables.markdown(["rule", "looked at>", "found against it>"], body), "", *lines]


def _run_table(run: Run) -> list[str]:
    limited = f", limited to {', '.join(run.partial)}" if run.partial is not None else ""
    facts = {
        "command": f"`{command(run)}`",
        "revision": f"`{run.tool.commit}`{' with changes that are not committed' if run.tool.dirty else ''}",
        "Cargo.lock": f"`sha256:{run.tool.lock_sha256}`",
        "started": run.started,
        "took": duration(run.seconds),
        "scale": f"{run.scale}{limited}",
        "each process": f"{run.design.sample_size} samples, {run.design.warm_up_s:g} s warm-up, {run.design.measurement_s:g} s measurement",
        "seed": str(run.design.seed),
        "compiler": run.build.rustc,
        "flags": f"`{run.build.flags}`, profile `{run.build.profile}`",
    }
    machine = {cells.words(name): cells.plain(value) for name, value in (run.machine.identity | run.machine.recorded).items()}
    return tables.markdown(["", ""], [[name, value] for name, value in (facts | machine).items()])


def _summary_rows(source: Source, grids: Sequence[Sequence[CrudLine]], words: str, verb: str, indexes: int) -> Iterator[list[str]]:
    """One row, or one for each variant of the verb."""
    labels = dict.fromkeys(line.label for grid in grids for line in grid if line.operation == verb)
    for label in labels or [verb.upper()]:
        found = [next((line.cells.get(indexes) for line in grid if line.label == label), None) for grid in grids]
        op = next((row.bench.facts.op for row in found if row), "")
        yield [words.format(label), op, str(indexes), *(text for row in found for text in (cells.time(source, row, "integration"), cells.rate(row)))]


def _crud_table(source: Source, threads: int, counts: Sequence[int]) -> list[str]:
    columns = ["verb"]
    for indexes in counts:
        columns += [f"{figures.plural(indexes, 'index')}>"] + (["longer by>"] if indexes else [])
    lines = findings.crud(source.run, threads)
    unseen = [verb for verb in findings.VERBS if verb not in {line.operation for line in lines}]
    body = []
    for line in (*lines, *(CrudLine(verb, "", {}) for verb in unseen)):
        told = [line.label]
        for indexes in counts:
            told += [cells.time(source, line.cells.get(indexes), "integration")] + ([cells.contrast(line.loss(indexes))] if indexes else [])
        body.append(told)
    return tables.markdown(columns, body)


def _stack_cells(source: Source, layer: str, row: Row, rung: Rung | None) -> list[str]:
    held = source.floor_of(row)
    ratio, verdict = (cells.ratio(held), cells.verdict(held)) if held else ("no floor", "")
    over = cells.added(rung) if rung else ""
    return [layer, cells.named(row), cells.unit(row), cells.time(source, row, row.layer), over, ratio, verdict, cells.allocations(row)]


def _added_table(climbs: Mapping[str, Sequence[Rung]]) -> list[str]:
    """A line for each rung, the highest first, a column for each request."""
    seen = [name for name in reversed(findings.RUNGS) if any(rung.name == name for rungs in climbs.values() for rung in rungs)]
    body = [[name, *(_added_cell(rungs, name) for rungs in climbs.values())] for name in seen]
    return tables.markdown(["layer", *(f"{request.upper()}>" for request in climbs)], body)


def _added_cell(rungs: Sequence[Rung], name: str) -> str:
    rung = next((rung for rung in rungs if rung.name == name), None)
    if rung is None or rung.row.measured is None:
        return rung.row.why_not if rung else ""
    if rung.below is None:
        return figures.time(rung.row.measured.middle) + (" in it" if name in findings.ALONE else "")
    return cells.added(rung)


def _absent_layers(source: Source, seen: Set[str]) -> list[str]:
    """The layers without a row, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for layer in findings.LAYERS:
        if layer not in seen:
            by_reason.setdefault(source.missing(layer), []).append(f"`{layer}`")
    return [f"* {', '.join(absent)}: {reason}" for reason, absent in by_reason.items()]


def _floor_table(held: Sequence[Held]) -> list[str]:
    columns = ["row", "floor", "ratio [95 % interval]>", "tuples>", "at least>", "aim>", "goal"]
    return tables.markdown(columns, [_floor_cells(entry) for entry in held]) if held else ["No row names a floor."]


def _floor_cells(held: Held) -> list[str]:
    ratio, named = held.ratio, held.row.bench.facts.floor
    at_least, aim = (ratio.at_least, ratio.aim) if ratio else (named.at_least, named.aim) if named else (None, None)
    pairs = str(len(ratio.pairs)) if ratio and ratio.pairs else ""
    return [f"`{held.row.id}`", f"`{held.floor}`", cells.ratio(held), pairs, cells.goal(at_least), cells.goal(aim), cells.verdict(held)]


def _ladder_table(rungs: Sequence[Rung]) -> list[str]:
    body = []
    for rung in reversed(rungs):
        measured = rung.row.measured
        time = figures.time_spread(measured) if measured else rung.row.why_not
        body.append([rung.name, time + cells.clock(rung.row), cells.added(rung), cells.allocations(rung.row)])
    return tables.markdown(["rung", "time of one request>", "adds>", "allocations>"], body)


def _layer(source: Source, layer: str) -> list[str]:
    rows = findings.rows(source.run, layer)
    held = findings.floors(source.run, layer)
    lines = [line for kind in _kinds(rows) for line in _layer_table(source, kind, rows)] or [source.missing(layer), ""]
    if held:
        lines += [*_floor_table(held), "", _missed(held)]
    return [f"## {layer}", "", *source.words(layer), *source.block(layer, lines), *source.picture(layer_pictures.name(layer))]


_Kind = tuple[int, str, str]
"""Threads, unit and clock: rows that differ in one of them share no column (T5)."""


def _kinds(rows: Iterable[Row]) -> list[_Kind]:
    return sorted({_kind(row) for row in rows})


def _kind(row: Row) -> _Kind:
    return (row.bench.facts.threads, row.bench.facts.unit, row.bench.facts.clock)


def _layer_table(source: Source, kind: _Kind, rows: Iterable[Row]) -> list[str]:
    threads, unit, clock = kind
    seconds = "CPU s" if clock == "cpu" else "s"
    per_second = f"per {seconds}>" if unit == "bytes" else f"{unit}/{seconds}>"
    columns = ["row, and what one operation is", "under which conditions", "time of one operation>", per_second, "allocations>"]
    body = [
        [cells.named(row), cells.conditions(row), cells.time(source, row, row.layer), cells.rate(row), cells.allocations(row)]
        for row in rows
        if _kind(row) == kind
    ]
    title = f"{threads_on_cores(source.run, threads)}, counted in {unit}{', by CPU time' if clock == 'cpu' else ''}"
    return [f"**{title}**", "", *tables.markdown(columns, body), ""]


def _missed(held: Sequence[Held]) -> str:
    missed = [entry for entry in held if entry.missed]
    if missed:
        return f"**Goals missed: {', '.join(f'`{entry.row.id}` ({cells.ratio(entry)})' for entry in missed)}.**"
    return "No goal is missed." if any(entry.judged for entry in held) else "No row was judged."


def _several_threads() -> str:
    return "With several threads, the time of one operation is the time from the first start to the last end over the operations of all threads."


def _header(path: Path) -> str:
    """The lines of `//!` at the top of a Rust file; headings in it become bold, since the page has its own."""
    words = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//!"):
            break
        text = line.removeprefix("//!").removeprefix(" ")
        words.append(f"**{text.lstrip('# ')}**" if text.startswith("#") else text)
    return "\n".join(words).strip()
