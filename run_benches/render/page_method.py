"""The page of the method: what is known of our own errors, what contradicts itself, and everything that the run says of
itself.

Why on one page: whoever doubts a figure asks these things together, and nobody else needs them. What merely identifies
machines and engine is folded.
"""

import json
from collections.abc import Sequence

from run_benches.analysis import contradictions, figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import house_order
from run_benches.calibrate.error_rates import ErrorRates
from run_benches.progress import duration
from run_benches.render import calibration_pictures, calibration_report, cells, conclusions, markdown
from run_benches.render.source import Source, Stored, marked, revision

CALIBRATION = "baselines/calibration/results.json"
"""Where the error rates of this project stand, as a reader finds them."""


def section(source: Source) -> list[str]:
    """The whole page."""
    parts = (_figures, conclusions.rules, _cross_checks, _error_rates, _calibrated, _run, _engine, _runs_used)
    return ["# Method", "", *(line for part in parts for line in part(source))]


def _figures(source: Source) -> list[str]:
    """Tells how the figures were made."""
    parts = [part.made for part in source.found.parts.values()]
    least, most = (choose(part.design.tuples for part in parts) for choose in (min, max))
    tuples = figures.plural(most, "tuple") if least == most else f"{least} to {most} tuples"
    told = [
        (
            f"Rows that are compared took turns on the same core ({tuples} of each family were planned), and every "
            "difference or ratio is theirs, with a 95 % interval over the tuples; the tuple is the unit, never the sample."
        ),
        (
            "A time of such a row is what the base of its family took in these turns, times their ratio; one of a row without a partner is of processes "
            "that ran alone, and is rough. The range beside it is of its processes as measured, from the fastest to the slowest, and is not a confidence interval."
        ),
        (
            "A row without a partner is `warm`: nothing ran between its operations. In turns, a row meets the memory as the other lanes left it, and takes longer the more"
            " lanes there are; so times compare only under the same conditions, and the lanes are one of them."
        ),
        f"A difference whose interval holds none is `same` where its 90 % interval lies within {figures.within_margin()}, and else `not resolved`.",
        *map(controls, source.found.of_each_machine),
    ]
    if any(part.design.linked_anew is False for part in parts):
        told.append("The binaries were not linked anew: the intervals leave out what the placement of code does.")
    if any(part.scale == "quick" for part in parts):
        told.append("This was a quick run: few processes and few tuples, so spreads and intervals are coarse.")
    told.append(_census(source.found))
    return source.section("How the figures were made", "", "figures", [f"* {one}" for one in told])


def controls(found: Findings) -> str:
    """Tells what the second lanes say of the intervals."""
    seen = found.controls
    if not seen.looked_at:
        return "No row was held against itself, so nothing is known of the intervals of this run."
    words = f"Each family has a row that took turns with itself: {seen.held} of {seen.looked_at} of these 95 % intervals hold no difference."
    return words + (
        " **Chance gives so few less than once in a hundred runs: the run is contaminated.**"
        if seen.contaminated
        else ""
    )


_CROSS_CHECKS = (
    "Figures of different rows, held against each other: a layer that is faster than what it calls, or a mix that is faster than its parts, is a"
    " fault of the measurement until it is explained. Ratios of rows that took turns are looked at, else the ranges of the processes."
)


def _error_rates(source: Source) -> list[str]:
    """Tells how often our own verdicts were found to be wrong."""
    found, heading = source.calibration, ["## How often our verdicts are wrong", ""]
    if found is None:
        until_then = "Until then nobody knows how often an interval on this page misses the truth."
        unknown = f"**{calibration_report.UNMEASURED}** {until_then}"
        return [*heading, unknown, ""]
    lines = []
    match source.stale.get("calibration", False):
        case True:
            lines += ["**Stale: the code that measures and judges has changed since.**", ""]
        case None:
            lines += ["**Whether the code that measures and judges has changed since is not known.**", ""]
    likenesses = [found.machine.likeness(one.machine) for one in source.found.of_each_machine]
    if not all(likeness.alike for likeness in likenesses):
        known = ", ".join(f"{cells.words(name)} {cells.plain(value)}" for name, value in found.machine.identity.items())
        where = "Measured on another machine than"
        if not any(likeness.differ for likeness in likenesses):
            not_known = sorted({name for likeness in likenesses for name in likeness.unknown})
            where = f"Not known to be of the same machine ({', '.join(not_known)}) as"
        lines += [f"**{where} the figures of this page:** {known}.", ""]
    lines += calibration_report.goals(found)
    details = "The counts behind these, by condition and by tool, stand below."
    return [*heading, *marked("error rates", calibration_origin(found), lines), details, ""]


def calibration_origin(found: ErrorRates) -> str:
    return f"{CALIBRATION} @ {revision(found.commit, found.dirty)}"


def _calibrated(source: Source) -> list[str]:
    """All that is known of our own error rates."""
    if source.calibration is None:
        return []
    lines = calibration_report.section(source.calibration)
    for picture in calibration_pictures.pictures(source.calibration):
        lines += [source.image(picture), ""]
    words = "Comparisons of one revision with itself, and with slow-downs of known size: how often `compare` said the right thing, and what the usual tools say of the same times."
    marks = marked("calibration", calibration_origin(source.calibration), lines)
    return ["## Calibration", "", words, "", *marks]


def _census(found: Findings) -> str:
    """Counts how every planned cell ended (T2)."""
    told = []
    for kind, singular in (("Times", "time"), ("families", "family"), ("ratios", "ratio"), ("sentinels", "sentinel")):
        ended = [one.state for one in found.outcomes if one.kind == singular and one.planned]
        told.append(f"{kind}: {len(ended)} planned ({cells.states(ended)})")
    end = "" if found.made.complete else " **The run did not come to its end.**"
    return f"Every planned cell ended in a state. {'; '.join(told)}.{end}"


def _cross_checks(source: Source) -> list[str]:
    """Tells what contradicts itself, and how much was looked at (T22: silence is no pass)."""
    body, told = [], []
    for check in contradictions.together([found.checks for found in source.found.of_each_machine]):
        against = str(len(check.found)) if check.looked_at else f"{figures.NOT_RUN}: nothing to look at"
        body.append([check.rule, str(check.looked_at), against])
        for one in check.found:
            kind, _, words = one.partition(": ")
            told.append(f"* **{kind}**: {words}")
    lines = [*markdown.table(["rule", "looked at>", "found against it>"], body), "", *told]
    return source.section("Cross-checks", _CROSS_CHECKS, "cross-checks", lines)


def _run(source: Source) -> list[str]:
    """The conditions of the runs; layers that share them share a table."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for layer, part in source.found.parts.items():
        run = part.made
        facts = {
            "revision": f"`{run.tool.commit}`{' with changes that are not committed' if run.tool.dirty else ''}",
            "Cargo.lock": f"`sha256:{run.tool.lock_sha256}`",
            "scale": run.scale,
            "each process": f"{run.design.sample_size} samples, {run.design.warm_up_s:g} s warm-up, {run.design.measurement_s:g} s measurement",
            "seed": str(run.design.seed),
            "compiler": run.build.rustc,
            "flags": f"`{run.build.flags}`, profile `{run.build.profile}`",
        }
        for name, value in (run.machine.identity | run.machine.recorded).items():
            facts[cells.words(name)] = cells.plain(value)
        shared.setdefault(tuple(markdown.table(["", ""], list(facts.items()))), []).append(layer)
    lines = [line for table, layers in shared.items() for line in _folded(", ".join(layers), table)]
    return source.section("What ran, where, and how it was built", "", "run", lines)


def _engine(source: Source) -> list[str]:
    """The options that the processes themselves reported (T18); layers with the same options share a table."""
    shared: dict[str, list[str]] = {}
    for layer, options in sorted(source.found.made.engine.items(), key=lambda entry: house_order(entry[0])):
        shared.setdefault(json.dumps(options, sort_keys=True), []).append(layer)
    lines: list[str] = []
    for options_text, sharing in shared.items():
        body = [[f"`{name}`", cells.plain(value)] for name, value in json.loads(options_text).items()]
        lines += _folded(", ".join(sharing), markdown.table(["option", "value"], body))
    lines = lines or [f"{figures.NOT_RUN}: no process reported its options"]
    return source.section("The engine as it ran", "", "engine", lines)


def _runs_used(source: Source) -> list[str]:
    """Every stored run that a figure comes from (T17)."""
    used: list[tuple[str, Stored, str]] = []
    for layer, part in source.found.parts.items():
        ran = sum(row.bench.state == "ran" for row in part.rows)
        scale = part.made.scale + ("" if part.made.complete else ", interrupted")
        used.append((f"layer {layer}", part.made, f"{scale}: {ran} of {figures.plural(len(part.rows), 'row')}"))
    for name, run in source.loads.items():
        ran = sum(one.state == "ran" for one in run.outcomes)
        used.append((f"load test {name}", run, f"{ran} of {figures.plural(len(run.outcomes), 'cell')}"))
    for name, one in source.compared.items():
        used.append((f"comparison {name}", one, figures.plural(one.done, "pair")))
    body = [
        [what, revision(one.tool.commit, one.tool.dirty), one.started, duration(one.seconds), much]
        for what, one, much in used
    ]
    if found := source.calibration:
        body.append(["our own error rates", revision(found.commit, found.dirty), "", f"{found.hours:g} h", ""])
    columns = ["what", "revision", "started", "took>", "how much"]
    words = f"{figures.plural(len(body), 'stored run')}, each committed below `baselines/`."
    return source.section("The runs of these pages", "", "runs", [words, "", *markdown.table(columns, body)])


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
