"""The prose of a run, of comparisons, of a load test and of a calibration, all of them made up and with every state in
them, as it stands in `golden/told`. `UPDATE_GOLDEN=1` writes it anew; its diff is what a change of words is reviewed
by. Rules that hold for any prose are tests of their own, elsewhere."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from run_benches import files
from run_benches.analysis.findings import Findings
from run_benches.render import (
    calibration_report,
    comparison_report,
    explanation,
    load_page,
    page,
    summary,
    terminal,
)
from run_benches.store.runs import Run
from run_benches.tests import comparisons, made_up, test_document, test_peers, test_prices

GOLDEN = Path(__file__).parent / "golden" / "told"

WIDTHS = (100, 200)
"""Columns of the terminals on which tables are printed."""


def a_run_with_every_state() -> Run:
    """Rows that ran, also beside another system, with and without indexes, by threads and by records; workloads; rows
    that did not run, were skipped, or are invalid; goals that are met, missed, not shown and not judged."""
    run = made_up.planned(made_up.with_scaling(test_peers.beside_sqlite()), made_up.macro())
    priced = test_prices.priced()
    run = made_up.planned(run, {id: bench for id, bench in priced.benches.items() if id not in run.benches})
    run.contrasts |= {id: logs for id, logs in priced.contrasts.items() if id not in run.contrasts}
    left = made_up.planned(run, {f"feed/deliver/strata/{state}": made_up.bench(900, "delivers") for state in STATES})
    for state, reason in STATES.items():
        bench = left.benches[f"feed/deliver/strata/{state}"]
        bench.state, bench.reasons, bench.points_ns = state, [reason], []  # type: ignore[assignment]
    run.benches["macro/ycsb_a/strata/zipfian"].refusals.append("tuple 3: the engine was behind with flushes")
    return left


STATES = {
    "not_run": "--quick leaves it out",
    "skipped": "there is no broker",
    "invalid": "process 2: exit code 101: no room",
}


def told() -> Iterator[tuple[str, str]]:
    """Everything, by the name of its file."""
    found = Findings.of(a_run_with_every_state())
    stale = {"storage": True, "query": None, "calibration": True}
    calibration = test_document.a_calibration()
    for name, text in page.render(found, test_document.HEADERS, calibration, stale=stale).items():
        yield f"run/{Path(name).name}", text
    yield from _on_terminals("run", partial(summary.text, found))
    for name, compared in comparisons.every_ending().items():
        folder = f"comparison-{name}"
        yield from _on_terminals(folder, partial(comparison_report.text, compared, Path("runs/compare.json"), True))
        yield f"{folder}/comment.md", comparison_report.comment(compared)
        explained = (explanation.explain(compared, id) for id in compared.rows)
        yield f"{folder}/explained.txt", "\n".join(explained)
    yield "load/page.md", load_page.page(made_up.a_load_run(), [])
    yield from _on_terminals("calibration", partial(calibration_report.summary, calibration))
    yield "calibration/section.md", "\n".join(calibration_report.section(calibration))
    yield "calibration/sentence.md", calibration_report.sentence(calibration)


def _on_terminals(folder: str, tell: "partial[str]") -> Iterator[tuple[str, str]]:
    for width in WIDTHS:
        with mock.patch.object(terminal, "room", lambda width=width: width):
            yield f"{folder}/terminal-{width}.txt", tell()


def test_what_is_told_is_what_is_stored() -> None:
    now = {name: text.rstrip("\n") + "\n" for name, text in told()}
    there = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.is_file()}
    if os.environ.get("UPDATE_GOLDEN"):
        for name in there - set(now):
            (GOLDEN / name).unlink()
        for name, text in now.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            files.replace(GOLDEN / name, text)
        there = set(now)
    assert there == set(now)
    other = [name for name, text in now.items() if (GOLDEN / name).read_text(encoding="utf-8") != text]
    assert not other, f"UPDATE_GOLDEN=1 writes them anew: {', '.join(other)}"


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("run/terminal-200.txt", ["skipped", "invalid", "missed", "met", "not shown"]),
        ("comparison-changed/terminal-200.txt", ["slower", "faster", "same", "can't tell", "invalid", "not run"]),
        ("load/page.md", ["valid", "invalid", "not run"]),
    ],
)
def test_every_state_is_among_what_is_told(file: str, parts: list[str]) -> None:
    text = (GOLDEN / file).read_text(encoding="utf-8")
    assert not [part for part in parts if part not in text]
