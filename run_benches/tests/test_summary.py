"""A run on the terminal: what is folded, what is never left out, and that it fits."""

from collections.abc import Callable, Sequence

import pytest

from run_benches.analysis.findings import Findings
from run_benches.errors import Exit
from run_benches.render import summary, terminal
from run_benches.store.runs import Ratio, Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, whole


def told(run: Run) -> str:
    return summary.text(Findings.of(run))


def tables(run: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, Sequence[Sequence[str]]]:
    """The lines of every table, by its title; each has a cell for every column."""
    found: dict[str, Sequence[Sequence[str]]] = {}

    def keep(title: str, titles: Sequence[str], body: Sequence[Sequence[str]], width: int | None = None) -> str:
        assert {len(cells) for cells in body} <= {len(titles)}
        found[title] = body
        return title

    monkeypatch.setattr(terminal, "table", keep)
    told(run)
    return found


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_every_line_fits_but_the_census_and_a_missed_goal_is_named(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "room", lambda: width)
    *lines, census = told(whole()).splitlines()
    assert [line for line in lines if len(line) > width] == []
    assert census.startswith("rows: ")
    assert any(line.startswith("  storage/get/strata/sst: 46.7 ns") for line in lines)


def test_floors_and_what_the_plan_left_out_are_folded_into_counts_and_ratios_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = a_run()
    scan = run.benches["storage/scan/strata/hundred"]
    scan.state, scan.reasons, scan.points_ns = "not_run", ["--quick leaves it out"], []
    assert told(run).count("storage/scan/strata/hundred: not run: --quick leaves it out") == 1
    found = tables(run, monkeypatch)
    (rows,) = (rows for title, rows in found.items() if title.startswith("storage (and 2 rows of floors and drivers,"))
    assert [row[0] for row in rows] == ["get/strata/memtable", "get/strata/sst"]
    assert [row[3] for row in rows] == ["0.970 [0.958, 0.981]", "0.910 [0.900, 0.921]"]


def test_a_layer_of_floors_alone_is_not_folded_away() -> None:
    run = a_run()
    run.benches = {id: bench for id, bench in run.benches.items() if id.startswith("storage/get/floor/")}
    assert "get/floor/memtable" in told(run)


def test_a_series_is_one_line_with_its_law() -> None:
    run = whole()
    laws = {one.name: one.words for one in Findings.of(run).series["records"]}
    lines = {
        line.partition(" by records")[0].strip(): line for line in told(run).splitlines() if " by records: " in line
    }
    assert set(lines) == set(laws) and lines["scaling/read"].endswith(laws["scaling/read"])


def test_workloads_have_a_line_for_each_kind_of_operation_and_no_figure_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in tables(whole(), monkeypatch)["macro"] if row[0].startswith("ycsb_a/")]
    assert [row[2] for row in rows] == ["read", "update"]
    assert [rows[1][at] for at in (4, 7)] == ["too few", "too few"]


def test_a_peer_and_a_row_without_a_ratio_meet_no_goal() -> None:
    run = a_run()
    before = summary.census(Findings.of(run)).partition("goals: ")[2]
    run.ratios["integration/read/strata/0_indexes_1_thread"] = Ratio(
        "ran", [], "integration/read/sqlite/0_indexes_1_thread", None, None, [2.0] * 8, 2.0, 1.9, 2.1
    )
    assert before.startswith("2 met, 1 missed, 0 not shown, 1 not judged")
    assert summary.census(Findings.of(run)).partition("goals: ")[2] == before
    del run.ratios["storage/get/strata/sst"]
    assert "goals: 2 met, 0 missed, 0 not shown, 1 not judged" in summary.census(Findings.of(run)), "it took no turns"


def test_what_the_tables_by_indexes_hold_is_not_told_twice_and_what_they_do_not_is_told() -> None:
    run = a_run()
    assert "read/strata/0_indexes_1_thread" not in told(run)
    run.benches["integration/read/strata/by_name"] = made_up.bench(3000, "reads one record by its name")
    assert "read/strata/by_name" in told(run)


def test_no_cell_of_a_table_is_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tables(whole(), monkeypatch)
    assert found and all(cell for body in found.values() for row in body for cell in row)


def test_many_rows_without_a_figure_for_one_reason_are_one_line_and_few_are_named() -> None:
    run = a_run()
    for number in range(summary.MANY + 1):
        id = f"macro/ycsb/strata/{number}"
        run.benches[id] = made_up.bench(1.0, "a workload")
        run.benches[id].state, run.benches[id].reasons, run.benches[id].points_ns = "not_run", ["it takes seconds"], []
    assert "4 rows of macro: not run: it takes seconds" in told(run) and "macro/ycsb" not in told(run)
    del run.benches[id]
    assert told(run).count("macro/ycsb/strata/") == summary.MANY


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


def _contaminate(run: Run) -> None:
    for base in run.families:
        run.contrasts[base][base] = [1.0 + off for off in made_up.TUPLES]


def _lose(run: Run) -> None:
    run.benches["storage/get/strata/sst"].state = "invalid"


def _stop(run: Run) -> None:
    run.complete = False


def _empty(run: Run) -> None:
    run.benches, run.ratios, run.families, run.contrasts = {}, {}, {}, {}


@pytest.mark.parametrize(
    ("change", "code"),
    [(_stop, Exit.NOTHING), (_empty, Exit.NOTHING), (_contaminate, Exit.NOTHING), (_lose, Exit.ERROR)],
)
def test_a_run_that_was_stopped_or_empty_or_contaminated_or_in_part_invalid_is_never_green(
    change: Callable[[Run], None], code: Exit
) -> None:
    run = a_run()
    change(run)
    assert {summary.exit_code(Findings.of(run), strict) for strict in (False, True)} == {code}


def test_nothing_is_longer_than_what_has_no_figure() -> None:
    run = a_run()
    run.benches["integration/delete/strata/2_indexes_1_thread"].points_ns = [0.0] * 5
    (line,) = (line for line in Findings.of(run).crud[1] if line.operation == "delete")
    assert line.loss(1) is not None and line.loss(2) is None
    run.benches["integration/delete/strata/0_indexes_1_thread"].points_ns = [0.0] * 5
    (line,) = (line for line in Findings.of(run).crud[1] if line.operation == "delete")
    assert line.loss(1) is None
