"""Workloads on the page: rates, latencies, measures."""

import copy
import dataclasses
import json

from run_benches.analysis.findings import Findings
from run_benches.analysis.workloads import tails
from run_benches.render import gallery, macro
from run_benches.render.source import Source
from run_benches.store.runs import Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with


def worked() -> Run:
    return made_up.planned(a_run(), made_up.macro())


def told(run: Run) -> str:
    return "\n".join(
        macro.page(
            Source(Findings.of(run), {"macro": "Workloads of seconds."}, gallery.pictures(Findings.of(run)), None)
        )
    )


def test_a_quantile_is_the_median_of_the_processes_and_the_slowest_is_of_all() -> None:
    (read, update) = tails(Findings.of(worked()).rows_of("macro")[0])
    assert (read.kind, read.count, read.slowest_ns) == ("read", 100_000, 7e6)
    assert (read.quantiles["p50"].middle, read.quantiles["p50"].low, read.quantiles["p50"].high) == (920, 900, 940)
    assert (update.kind, list(update.quantiles)) == ("update", ["p50", "p95"])


def test_a_quantile_of_few_operations_is_words_and_a_kind_that_never_happened_is_absent() -> None:
    text = told(worked())
    update = line_with(text, "| `macro/ycsb_a/strata/zipfian` | update |")
    assert update.count("| not enough samples ") == 2
    assert update.endswith("| 2.00 ms |")
    assert "never" not in text


def test_measures_stand_with_their_units_and_sizes_are_binary() -> None:
    text = told(worked())
    assert "| row | processes | size on disk | write amplification | stall time |" in text
    assert "| `macro/ycsb_a/strata/zipfian` | 2 | 10.5 MiB (10.0 MiB to 11.0 MiB) | 1.50 | no figure |" in text
    assert "| `macro/bulk_load/strata/1000000_records` | 1 | no figure | no figure | 250 ms |" in text


def test_a_measure_without_a_point_is_no_column() -> None:
    assert "peak memory" not in told(worked())


def test_what_few_rows_measure_has_a_line_of_its_own() -> None:
    run = worked()
    for case in ("uniform", "latest", "even"):
        run.benches[f"macro/ycsb_b/strata/{case}"] = copy.deepcopy(run.benches["macro/ycsb_a/strata/zipfian"])
    text = told(run)
    assert "| row | processes | size on disk | write amplification |\n" in text
    assert "| `macro/bulk_load/strata/1000000_records` | stall time | 250 ms |" in text


def test_a_panel_shows_a_floor_beside_ours_and_no_tail_without_a_quantile() -> None:
    run = worked()
    run.benches["macro/ycsb_a/floor/zipfian"] = copy.deepcopy(run.benches["macro/ycsb_a/strata/zipfian"])
    run.benches["macro/open/strata/after_kill"] = copy.deepcopy(run.benches["macro/ycsb_a/strata/zipfian"])
    run.benches["macro/open/strata/after_kill"].latencies = {"open": [made_up.latency(1, 5e7, 5e7)]}
    picture = macro.drawn(Findings.of(run))
    assert picture is not None
    (panel,) = json.loads(json.dumps(picture.values, default=dataclasses.asdict))
    assert (panel["title"], [curve["kind"] for curve in panel["curves"]]) == (
        "ycsb_a/zipfian",
        ["read", "update", "read, floor", "update, floor"],
    )


def test_threads_and_units_share_no_table_of_rates() -> None:
    text = told(worked())
    assert "**1 thread, counted in records**" in text
    assert "| 333 k | 3.00 us (2.94 to 3.09 us) |" in line_with(text, "half of the operations read")
    assert "**8 threads on 2 cores, counted in operations**" in text


def test_a_workload_that_did_not_run_says_why() -> None:
    run = worked()
    load = run.benches["macro/bulk_load/strata/1000000_records"]
    load.state, load.reasons, load.points_ns = "not_run", ["a workload takes seconds"], []
    text = told(run)
    assert "* `macro/bulk_load/strata/1000000_records`: not run: a workload takes seconds" in text
    assert "250 ms" not in text


def test_a_run_without_workloads_says_so_and_has_no_picture() -> None:
    assert "not run: measured were storage, integration, ladder" in told(a_run())
    assert "Latencies" not in told(a_run())
    assert "latencies" not in gallery.pictures(Findings.of(a_run()))
    assert "/pictures/latencies.svg)" in told(worked())
