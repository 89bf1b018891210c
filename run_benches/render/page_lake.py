"""The page about `strata-lake`: the scenario `cold-storage`, once for each catalogue, and what its checks say.

Why beside the load tests: the figures are of a program beside the server and of readers that are not ours, not of a
layer.
"""

from typing import Any

from run_benches.analysis import figures
from run_benches.render import markdown
from run_benches.render.source import Source, marked, origin, told_by
from run_benches.store.loads import Checked

NAME = "lake"

SCENARIO = "cold-storage"

_WORDS = (
    "What it takes to copy a stream into an Iceberg table, each event once, and to read that with engines that are not ours;"
    " `docs/lake.md` says how. While the load appends, the copying process is killed; then all rows are held against all events by two"
    " readers, both are asked the same questions, and rounds are measured on a stream of their own."
)

_ABOUT = {
    "cold-storage": "Every event of the stream, held against every row of the table, by each reader.",
    "iceberg-read": "The same questions to both readers; each time is the median of several. A narrow question must touch fewer files than a full scan.",
    "rounds": "A round is: read the events from the server, write Parquet, commit. Rates and CPU are of the copying process, with its start. A commit"
    " writes the table's metadata anew, so it takes longer with each snapshot that is kept; the median of those before that number."
    " A lag runs from the ingestion of an event to the snapshot that has it.",
}


def page(source: Source) -> list[str]:
    """The page."""
    run = source.loads.get(SCENARIO)
    if run is None:
        return [f"# {NAME}", "", _WORDS, "", *marked(NAME, "no stored load test", [figures.NOT_MEASURED])]
    checks: dict[str, dict[str, Checked]] = {}
    for one in run.outcomes:
        for check in one.result.checks if one.result else []:
            checks.setdefault(check.name, {})[one.name.removeprefix(f"{SCENARIO}-")] = check
    lines: list[str] = []
    for name, of in checks.items():
        # Side by side for each catalogue; of one that failed, why.
        told = [check.told if isinstance(check.told, dict) else {} for check in of.values()]
        body = [["outcome", *(f"**{check.failure}**" if check.failure else "right" for check in of.values())]]
        for measure in dict.fromkeys(measure for one in told for measure in one):
            body.append([measure, *(_value(one.get(measure)) for one in told)])
        table = markdown.table(["", *(f"{catalogue}>" for catalogue in of)], body)
        lines += [f"## {name}", "", _ABOUT.get(name, ""), "", *table, ""]
    return [f"# {NAME}", "", _WORDS, "", *marked(NAME, origin([run]), lines or [figures.NOT_MEASURED])]


def measured(source: Source) -> list[str]:
    """When, at which revision and on which machine it was measured, and whether the code has changed since."""
    run = source.loads.get(SCENARIO)
    if run is None:
        return []
    return marked("measured", origin([run]), told_by([(SCENARIO, run, source.stale.get(f"load {SCENARIO}", False))]))


def _value(value: Any) -> str:
    if value is None:
        return figures.NOT_MEASURED
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)
