"""The price of an index: from stored figures, with intervals that the figures allow."""

import pytest

from run_benches.analysis.findings import Findings
from run_benches.analysis.prices import LOOKUPS, BreakEven, break_even
from run_benches.render import prices
from run_benches.render.source import Source
from run_benches.store.runs import Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with

FIND, SCAN = LOOKUPS[0]
NAME = f"`{FIND}`<br>finds one record"


def priced() -> Run:
    """CREATE of 5 us that each of eight indexes makes 0.5 us slower; a look-up of 4 us that takes 2 ms without an
    index."""
    creates = {
        f"transaction/create/strata/{n}_indexes": made_up.bench(5000 + 500 * n, "creates one record", indexes=n)
        for n in (0, 1, 2, 8)
    }
    run = made_up.planned(
        a_run(),
        creates | {FIND: made_up.bench(4000, "finds one record"), SCAN: made_up.bench(2e6, "reads every record")},
    )
    return made_up.family(made_up.family(run, list(creates)), [SCAN, FIND])


def told(run: Run) -> str:
    return "\n".join(prices.section(Source(Findings.of(run), {}, {}, None)))


def paying(run: Run) -> BreakEven | None:
    found = Findings.of(run)
    return break_even(found.writes, found.lookups[0])


def test_what_indexes_add_is_told_for_each_number_of_them_and_for_each_of_them() -> None:
    (write,) = [write for write in Findings.of(priced()).writes if write.name == "transaction/create"]
    added = write.added(8)
    assert added is not None and added.middle == pytest.approx(4000, rel=0.01)
    each = write.each()
    assert each is not None and each.low is not None and each.high is not None
    assert each.low < 500 < each.high
    assert write.added(0) is None and write.added(3) is None


def test_verbs_by_the_number_of_indexes_are_told_by_the_number_of_threads_and_a_read_is_no_write() -> None:
    names = {verb: f"integration/{verb}" for verb in ("create", "update", "delete")}
    writes = [(write.name, write.threads) for write in Findings.of(priced()).writes]
    one = ["transaction/create", *names.values()]
    assert writes == [*((name, 1) for name in one), *((name, 8) for name in names.values())]
    added_with_8 = told(priced()).partition("**added to a write, 8 threads")[2].partition("**saved")[0]
    assert "integration/create" in added_with_8 and "transaction/create" not in added_with_8


def test_the_break_even_is_what_an_index_adds_over_what_it_saves_with_the_worst_and_the_best_bounds() -> None:
    run = priced()
    found = paying(run)
    assert found is not None and found.high is not None
    assert found.reads_a_write == pytest.approx(500 / 1.996e6, rel=0.02)
    assert found.low < found.reads_a_write < found.high
    assert "one look-up for every 3.99 k writes" in line_with(told(run), f"| {NAME} |")


def test_what_lacks_a_figure_is_not_measured() -> None:
    run = priced()
    del run.benches[SCAN], run.families[SCAN]
    assert line_with(told(run), f"| {NAME} |").count("not measured") == 3 and paying(run) is None
    del run.benches[FIND]
    assert line_with(told(run), f"| `{FIND}` |").count("not measured") == 4
    run = priced()
    run.benches[FIND].state, run.benches[FIND].reasons = "skipped", ["--skip query"]
    assert "not run (skipped): --skip query" in line_with(told(run), f"| {NAME} |")


def test_few_tuples_have_an_estimate_without_an_interval_and_no_turns_have_no_difference() -> None:
    run = priced()
    for others in run.contrasts.values():
        for logs in others.values():
            del logs[3:]
    each = Findings.of(run).writes[0].each()
    assert each and each.middle and (each.low, each.high, paying(run)) == (None, None, None)
    assert "too few tuples" in line_with(told(run), "| `transaction/create` |")
    run.contrasts = {}
    assert Findings.of(run).writes[0].each() is None
    assert line_with(told(run), "| `transaction/create` |").count("not measured") == 4


def test_an_index_that_saves_nothing_never_pays_and_a_saving_that_may_be_none_has_no_upper_bound() -> None:
    run = priced()
    made_up.set_ratio(run, FIND, SCAN, 2.0)
    assert paying(run) is None
    made_up.set_ratio(run, FIND, SCAN, 0.98, scatter=10)
    found = paying(run)
    assert found is not None and found.high is None
    assert "(from " in line_with(told(run), f"| {NAME} |")
