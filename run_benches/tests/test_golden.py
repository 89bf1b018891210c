"""The prose of runs, of comparisons, of load tests and of a calibration, all of them made up and with every state in
them, as it stands in `golden/told`. `UPDATE_GOLDEN=1` writes it anew; its diff is what a change of words is reviewed
by. Rules that hold for any prose are tests of their own, elsewhere."""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import get_args
from unittest import mock

import pytest

from run_benches import files
from run_benches.analysis import growth
from run_benches.analysis.findings import Findings
from run_benches.analysis.load_findings import LoadFindings
from run_benches.compare import witnesses
from run_benches.render import (
    calibration_report,
    comparison_report,
    explanation,
    load_report,
    page,
    summary,
    terminal,
)
from run_benches.stats.judge import Judgement, Verdict
from run_benches.store.comparisons import Witness
from run_benches.store.runs import Facts, Place, Run, Turns
from run_benches.tests import comparisons, made_up, test_document, test_growth, test_peers, test_prices
from run_benches.tests.made_up import bench
from run_benches.tests.test_document import a_ratio

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
    left = made_up.planned(run, {f"feed/deliver/strata/{state}": bench(900, "delivers") for state in STATES})
    for state, reason in STATES.items():
        row = left.benches[f"feed/deliver/strata/{state}"]
        row.state, row.reasons, row.points_ns = state, [reason], []  # type: ignore[assignment]
    run.benches["macro/ycsb_a/strata/zipfian"].refusals.append("tuple 3: the engine was behind with flushes")
    _hold(left)
    _worsen(left)
    return left


STATES = {
    "not_run": "--quick leaves it out",
    "skipped": "there is no broker",
    "invalid": "process 2: exit code 101: no room",
}


def _hold(run: Run) -> None:
    """Adds goals that are not shown, a ratio of too few tuples, one of a workload, one to a row of ours, and a peer."""
    floor = "storage/put/floor/soft"
    rows = {f"storage/put/strata/{case}": bench(900, "writes one record") for case in ("nearly", "at_goal", "few")}
    made_up.planned(run, rows | {floor: bench(860, "writes one value")})
    for case, middle in (("nearly", 0.96), ("at_goal", 0.9501), ("few", 0.9)):
        run.ratios[f"storage/put/strata/{case}"] = a_ratio(floor, middle, 0.95, 0.98)
    few = run.ratios["storage/put/strata/few"]
    few.pairs, few.ratio, few.low, few.high = few.pairs[:3], None, None, None
    run.ratios["storage/scan/strata/hundred"] = a_ratio("storage/get/strata/sst", 0.5, 0.4, 0.6)
    run.benches["storage/get/other/sst"] = bench(3000, "reads one record, without a checksum", state="sst")
    workload = run.benches["macro/ycsb_a/strata/zipfian"]
    workload.facts.turn_operations, workload.turns = 50, Turns(50, {"flushes": 0})
    run.benches["macro/ycsb_a/floor/zipfian"] = bench(2900, "the same, bare", workload=True, threads=8)
    run.ratios["macro/ycsb_a/strata/zipfian"] = a_ratio("macro/ycsb_a/floor/zipfian", 0.97, 0.95, 0.98)


def _worsen(run: Run) -> None:
    """Lets every rule about bottlenecks name something, verbs by indexes be unlike or not resolved, and a series lack a
    point or a process."""
    scan = run.benches["storage/scan/strata/hundred"]
    scan.counters, scan.facts.timed_operations = {"waits": 4821, "flushes": 0, "bytes_written": 20 * 2**20}, 10_000
    run.benches["storage/get/floor/sst"].counters = {"waits": 3}
    run.benches["storage/get/strata/sst"].facts.allocations_at_most = 1.0
    load = run.benches["macro/bulk_load/strata/1000000_records"]
    load.facts.timed_operations = 1_000_000
    for latency in run.benches["macro/ycsb_a/strata/zipfian"].latencies["read"]:
        latency.p999_ns = 2e5
    for records in (1e3, 1e4, 1e5, 1e6):
        place = Place("records", records)
        run.benches[f"scaling/find/strata/{records:.0f}"] = bench(10 * records**0.3, "finds", scale=place)
        run.benches[f"scaling/floor/strata/{records:.0f}"] = bench(900.0, "scans", scale=place)
        run.benches[f"scaling/floor/strata/{records:.0f}"].points_ns = [900.0]
    lost = run.benches["scaling/read/strata/1000000_records"]
    lost.state, lost.reasons, lost.points_ns = "skipped", ["no room for a million records"], []
    for id, other, ratio, scatter in (
        ("scaling/create/strata/2_threads", "scaling/create/strata/1_thread", 0.95, 1.0),
        (CREATE.format(1), CREATE.format(0), 2.0, 1.0),
        (READ.format(2), READ.format(0), 1.02, 10.0),
    ):
        made_up.set_ratio(run, id, other, ratio, scatter)
    for indexes in (1, 2):
        id = f"integration/update/strata/unchanged_{indexes}_indexes_1_thread"
        state = run.benches[UPDATE].facts.state
        run.benches[id] = bench(7000, "one update", indexes=indexes, state=state)
        made_up.family(run, [UPDATE, id])
    for indexes, points in enumerate(([], [0.0, 0.0])):
        run.benches[f"integration/delete/strata/{indexes}_indexes_8_thread"].points_ns = points
    run.design.linked_anew = False


CREATE, READ = (f"integration/{verb}/strata/{{}}_indexes_1_thread" for verb in ("create", "read"))
UPDATE = "integration/update/strata/0_indexes_1_thread"


def told() -> Iterator[tuple[str, str]]:
    """Everything, by the name of its file."""
    found = Findings.of(a_run_with_every_state())
    stale = {"storage": True, "query": None, "calibration": True}
    calibration = test_document.a_calibration()
    for name, text in page.render(found, test_document.HEADERS, calibration, stale=stale).items():
        yield f"run/{Path(name).name}", text
    yield from _on_terminals("run", partial(summary.text, found))
    pages = page.render(Findings.of(test_document.a_run_of_one_layer()), test_document.HEADERS, None)
    yield from ((f"run-of-one-layer/{Path(name).name}", pages[name]) for name in (page.MAIN, "performance/method.md"))
    yield "laws.txt", "\n".join(growth.fit(points, axis).words for axis, _, points, _ in test_growth.LAWS)
    yield "contradictions.txt", "\n".join(_contradictions())
    for name, compared in comparisons.every_ending().items():
        folder = f"comparison-{name}"
        yield from _on_terminals(folder, partial(comparison_report.text, compared, Path("runs/compare.json"), True))
        yield f"{folder}/comment.md", comparison_report.comment(compared)
        explained = (explanation.explain(compared, id) for id in compared.rows)
        yield f"{folder}/explained.txt", "\n".join(explained)
    yield "comparisons-without-a-verdict.txt", "\n".join(map(comparison_report.text, comparisons.without_a_verdict()))
    yield "witnesses.txt", "\n".join(_witnesses())
    for load_run in (
        made_up.a_load_run,
        made_up.a_load_run_of_a_stream,
        made_up.a_load_run_of_messages,
        made_up.a_load_run_under_a_quota,
        made_up.a_load_run_of_servers,
    ):
        yield (
            f"load/{load_run.__name__.removeprefix('a_load_run').strip('_') or 'page'}.md",
            load_report.page(LoadFindings.of(load_run()), []),
        )
    tested = load_report.on_terminal(LoadFindings.of(made_up.a_load_run()))
    yield from _on_terminals("load", lambda: "".join(terminal.sections([tested])))
    yield from _on_terminals("calibration", partial(calibration_report.summary, calibration))
    yield "calibration/section.md", "\n".join(calibration_report.section(calibration))
    yield "calibration/sentence.md", calibration_report.sentence(calibration)


def _on_terminals(folder: str, tell: Callable[[], str]) -> Iterator[tuple[str, str]]:
    for width in WIDTHS:
        with mock.patch.object(terminal, "room", lambda width=width: width):
            yield f"{folder}/terminal-{width}.txt", tell()


def _contradictions() -> Iterator[str]:
    for contradict in test_document.CONTRADICTIONS:
        run = test_document.a_run()
        contradict(run)
        yield from made_up.contradictions(run)


def _witnesses() -> Iterator[str]:
    """Tells what the count of instructions says beside each verdict."""
    for verdict in get_args(Verdict):
        judgement = Judgement(verdict, "decision", 16, -0.05 if verdict == "faster" else 0.05, None, None, None, None)
        for counted in (1050.0, 1020.0, 1005.0, 950.0):
            phrase = witnesses.phrase(judgement, Witness((1000.0, counted)), Facts("", "", 1.0, 1, state="SST, cached"))
            yield f"{verdict}, 1000 -> {counted:.0f}: {phrase or 'nothing'}"


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


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("run*/*.md")), ids=lambda path: path.parent.name + "/" + path.name)
def test_no_digit_stands_outside_the_marks_of_a_page_and_no_time_is_zero(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    outside = re.sub(r"<!-- BEGIN ([^:]+):.*?<!-- END \1 -->", "", text, flags=re.DOTALL)
    outside = re.sub(r"^```.*?^```", "", outside, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"\d", outside), outside
    assert not re.search(r"\| 0(\.0+)? ns", text)
