"""A run on the terminal: what is folded, what is never left out, and that it fits."""

from collections.abc import Sequence

import pytest

from run_benches.analysis.findings import Findings
from run_benches.errors import Exit
from run_benches.render import summary, terminal
from run_benches.store.runs import Ratio
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run


def told(width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(terminal, "room", lambda: width)
    return summary.text(Findings.of(made_up.planned(made_up.with_scaling(a_run()), made_up.macro())))


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_every_line_fits_but_the_census(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    *lines, census = told(width, monkeypatch).splitlines()
    assert [line for line in lines if len(line) > width] == []
    assert census.startswith("rows: ")


def test_floors_are_folded_into_a_count_and_their_ratios_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(200, monkeypatch)
    assert "storage (and 2 rows of floors and drivers)" in text
    assert "get/floor/memtable" not in text
    assert "0.970 [0.958, 0.981]" in text


def test_rows_that_the_plan_left_out_are_counted_and_have_their_reason_below(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()
    scan = run.benches["storage/scan/strata/hundred"]
    scan.state, scan.reasons, scan.points_ns = "not_run", ["--quick leaves it out"], []
    tables_of, _, reasons = summary.text(Findings.of(run)).partition(
        "storage/scan/strata/hundred: not run: --quick leaves it out"
    )
    assert (
        "storage (and 2 rows of floors and drivers, 1 row left out)" in tables_of
        and "scan/strata/hundred" not in tables_of
    )
    assert reasons, "told once"


def test_a_layer_of_floors_alone_is_not_folded_away(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()
    run.benches = {id: bench for id, bench in run.benches.items() if id.startswith("storage/get/floor/")}
    assert "get/floor/memtable" in summary.text(Findings.of(run))


def test_a_missed_goal_is_named_however_narrow_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(80, monkeypatch)
    assert "storage/get/strata/sst: 46.7 ns of 1.53 us; ratio 0.910 [0.900, 0.921], goal\n  0.95" in text


def test_a_series_is_one_line_with_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "scaling/read by records: 900 ns at 1 k, 1.06 us at 1 M; grows by 1.06x for every tenfold of records"
        in told(200, monkeypatch)
    )


def test_workloads_have_a_line_for_each_kind_of_operation_and_no_figure_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.split() for line in told(200, monkeypatch).splitlines() if line.startswith("ycsb_a/")]
    assert [line[4] for line in lines] == ["read", "update"]
    assert lines[1][-3:-1] == ["too", "few"]


def test_a_peer_meets_no_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()
    before = summary.census(Findings.of(run))
    run.ratios["integration/read/strata/0_indexes_1_thread"] = Ratio(
        "ran", [], "integration/read/sqlite/0_indexes_1_thread", None, None, [2.0] * 8, 2.0, 1.9, 2.1
    )
    assert "goals: 2 met, 1 missed, 0 not shown, 1 not judged" in before
    assert "goals: 2 met, 1 missed, 0 not shown, 1 not judged" in summary.census(Findings.of(run))


def test_what_the_tables_by_indexes_hold_is_not_told_twice_and_what_they_do_not_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "read/strata/0_indexes_1_thread" not in told(200, monkeypatch)
    run = a_run()
    run.benches["integration/read/strata/by_name"] = made_up.bench(3000, "reads one record by its name")
    assert "read/strata/by_name" in summary.text(Findings.of(run))


def test_wins_and_losses_beside_others_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()
    run.benches["storage/get/other/sst"] = made_up.bench(100, "reads one record")
    run.benches["storage/get/other/memtable"] = made_up.bench(10_000, "reads one record")
    for case in ("sst", "memtable"):
        made_up.family(run, [f"storage/get/strata/{case}", f"storage/get/other/{case}"])
    assert "beside other, of 2 rows ours is faster in 1, slower in 1" in summary.text(Findings.of(run))


def test_no_cell_of_a_table_is_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Sequence[Sequence[str]]] = []

    def keep(title: str, columns: object, body: Sequence[Sequence[str]], width: int | None = None) -> str:
        rendered.append(body)
        return title

    monkeypatch.setattr(terminal, "table", keep)
    summary.text(Findings.of(made_up.planned(made_up.with_scaling(a_run()), made_up.macro())))
    assert rendered and all(cell for body in rendered for row in body for cell in row)


def test_a_missed_goal_says_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "missed by 46.7 ns (0.95)" in told(200, monkeypatch)


def test_many_rows_without_a_figure_for_one_reason_are_one_line_and_few_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = a_run()
    for number in range(5):
        left_out = made_up.bench(1.0, "a workload")
        left_out.state, left_out.reasons, left_out.points_ns = "not_run", ["it takes seconds"], []
        run.benches[f"macro/ycsb/strata/{number}"] = left_out
    lines = summary.text(Findings.of(run)).splitlines()
    assert "5 rows of macro: not run: it takes seconds" in lines
    assert "ratio of integration/delete/strata/2_indexes_1_thread: not run: the run was stopped" in lines
    assert not [line for line in lines if line.startswith(("macro", "ycsb/strata"))]


def test_strict_cannot_tell_a_goal_within_an_interval() -> None:
    run, id = a_run(), "storage/get/strata/memtable"
    held = run.ratios[id]
    run.ratios = {id: held}
    assert held.low is not None and held.high is not None
    for at_least, code in (
        (held.low, Exit.FINE),
        ((held.low + held.high) / 2, Exit.NOTHING),
        (1.1 * held.high, Exit.FAILED),
    ):
        held.at_least = at_least
        assert summary.exit_code(Findings.of(run), strict=True) == code
        assert summary.exit_code(Findings.of(run), strict=False) == Exit.FINE
