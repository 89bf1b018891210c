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
    assert update.count("| not enough samples ") == 2 and "2.00 ms" in update, "the slowest is known of any number"
    assert "never" not in text


def test_measures_have_figures_with_units_and_stand_in_columns_where_many_rows_have_them() -> None:
    run = worked()
    shared = line_with(told(run), "| row | processes |")
    assert "size on disk" in shared and "stall time" in shared and "peak memory" not in told(run), "it has no point"
    assert "10.5 MiB (10.0 MiB to 11.0 MiB)" in told(run)
    assert line_with(told(run), "| `macro/bulk_load/strata/1000000_records` | 1 |").count("no figure") == 2
    for case in ("uniform", "latest", "even"):
        run.benches[f"macro/ycsb_b/strata/{case}"] = copy.deepcopy(run.benches["macro/ycsb_a/strata/zipfian"])
    assert "stall time" not in line_with(told(run), "| row | processes |")
    assert "250 ms" in line_with(told(run), "| `macro/bulk_load/strata/1000000_records` | stall time |")


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
    one, eight = told(worked()).partition("## Latencies")[0].split("**8 threads on 2 cores, counted in operations**")
    assert "**1 thread, counted in records**" in one
    assert "bulk_load" in one and "ycsb_a" not in one and "333 k" in line_with(eight, "`macro/ycsb_a/strata/zipfian`")


def test_a_workload_that_did_not_run_says_why() -> None:
    run = worked()
    load = run.benches["macro/bulk_load/strata/1000000_records"]
    load.state, load.reasons, load.points_ns = "not_run", ["a workload takes seconds"], []
    text = told(run)
    assert "* `macro/bulk_load/strata/1000000_records`: not run: a workload takes seconds" in text
    assert "250 ms" not in text


def test_a_run_without_workloads_says_so_and_has_no_picture() -> None:
    assert "not run: measured were" in told(a_run()) and "Latencies" not in told(a_run())
    assert "latencies" not in gallery.pictures(Findings.of(a_run()))
    assert "/pictures/latencies.svg)" in told(worked())
