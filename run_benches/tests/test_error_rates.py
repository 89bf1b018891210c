"""Rates of error from simulated pools, whose truth is known."""

import math
import random
from pathlib import Path

import pytest

from run_benches import serialization
from run_benches.calibrate import error_rates
from run_benches.calibrate.collection import kind_of
from run_benches.calibrate.error_rates import ErrorRates, Rate, Rules, Table
from run_benches.cli import calibration
from run_benches.render import calibration_pictures, calibration_report, pictures
from run_benches.store.pool import Entry, Origin, Plant, Pool
from run_benches.store.runs import Build, Facts, Machine

RULES = Rules(screen_pairs=6, alpha=0.05, control_alpha=0.01, margin=lambda id: 0.02, controls="harness")
ROWS = [f"storage/{name}/strata/x" for name in ("get", "put", "scan", "seek")] + [
    f"indexes/{name}/strata/x" for name in ("find", "insert")
]
OWN = "indexes/find/strata/x"
PAIRS = 6 + 16


def cells(rounds: int, deviation: float, seed: int = 1, rows: list[str] = ROWS) -> Table:
    rng = random.Random(seed)
    return Table({row: {number: (rng.gauss(0, deviation), 1000.0) for number in range(rounds)} for row in rows})


def origin() -> Origin:
    return Origin(
        1,
        "c0ffee",
        False,
        {"storage": "a", "indexes": "b", "ladder": "c"},
        Machine({}, {}),
        Build("", "", ""),
        {},
        3,
        kinds={row: "locking" if row == OWN else "reading, one thread" for row in ROWS},
    )


def simulated(rounds: int, deviation: float = 0.015) -> Pool:
    """Pairs of two layers under two conditions, and a plant of 5 % in the upper one."""
    rng, entries = random.Random(11), []

    def entry(
        kind: str, number: int, target: str, condition: str, plant: Plant | None = None, slow: float = 0.0
    ) -> Entry:
        rows = [row for row in ROWS if row.startswith(target)]
        effects = [rng.gauss(slow if row == OWN else slow / 4, deviation) for row in rows]
        usual = [(rng.random(), -0.02, 0.02, effect) for effect in effects] if kind in ("pair", "process") else []
        return Entry(number, kind, target, condition, 1.0, plant, rows, effects, [1000.0] * len(rows), [], usual)  # type: ignore[arg-type]

    for number in range(rounds):
        for condition in ("quiet", "load 60 %"):
            entries += [entry("pair", number, target, condition) for target in ("storage", "indexes")]
        entries.append(entry("plant", number, "indexes", "quiet", Plant("indexes", 12, 0.05), math.log(1.05)))
    entries += [
        entry("weighing", number, "indexes", "quiet", Plant("indexes", 2000), math.log(3)) for number in range(3)
    ]
    entries.append(Entry(0, "comparison", "all", "quiet", 60.0, outcome="fine", verdicts={"same": 6}))
    return Pool(origin(), entries)


@pytest.fixture(scope="module")
def results() -> ErrorRates:
    return error_rates.results(simulated(4 * PAIRS), RULES, shuffles=3)


def test_comparisons_share_no_pair_and_take_whole_rounds() -> None:
    table = Table(
        {row: {number: (0.03 * (-1) ** number, float(1000 + number)) for number in range(100)} for row in ROWS}
    )
    drawn = list(error_rates.comparisons(table, RULES, random.Random(1)))
    assert len(drawn) == 100 // PAIRS
    fresh = [[{a_ns for _, a_ns in pairs} for pairs in one.fresh.values()] for one in drawn]
    assert all(rows == [rows[0]] * len(ROWS) for rows in fresh), "all rows of a comparison come from the same rounds"
    assert sum(len(rows[0]) for rows in fresh) == len(set().union(*(rows[0] for rows in fresh))) == 16 * len(drawn)


def test_what_the_screen_decides_needs_no_fresh_pair_and_what_it_leaves_open_gets_sixteen() -> None:
    still, wild = cells(PAIRS, 0.0001), cells(PAIRS, 0.05)
    table = Table({row: (still if row.startswith("storage") else wild).cells[row] for row in ROWS})
    (drawn,) = error_rates.comparisons(table, RULES, random.Random(1))
    for row, one in drawn.judgements.items():
        assert (one.stage, one.pairs) == (("screen", 6) if row.startswith("storage") else ("decision", 16))
    assert set(drawn.judgements) == set(ROWS)


def test_too_few_rounds_are_no_comparison_and_no_decision() -> None:
    assert list(error_rates.comparisons(cells(PAIRS - 1, 0.05), RULES, random.Random(1))) == []
    assert list(error_rates.decisions(cells(15, 0.05), RULES, random.Random(1))) == []


def test_rows_that_did_not_change_are_called_changed_at_most_as_often_as_promised() -> None:
    drawn = list(error_rates.comparisons(cells(300 * PAIRS, 0.03), RULES, random.Random(1)))
    alarming = sum(
        any(one.verdict in ("slower", "faster") for one in comparison.judgements.values()) for comparison in drawn
    )
    assert len(drawn) == 300
    assert alarming <= 25, "at 5 % of 300 comparisons, 25 or more have a probability below 1 %"


def test_rows_that_became_slower_are_found() -> None:
    drawn = list(error_rates.comparisons(cells(20 * PAIRS, 0.015), RULES, random.Random(1), added=0.05))
    verdicts = [one.verdict for comparison in drawn for one in comparison.judgements.values()]
    assert len(verdicts) == 120 and verdicts.count("slower") >= 118


def test_a_slow_down_within_the_margin_is_not_called_slower() -> None:
    drawn = list(error_rates.comparisons(cells(20 * PAIRS, 0.002), RULES, random.Random(1), added=0.01))
    assert {one.verdict for comparison in drawn for one in comparison.judgements.values()} == {"same"}


def test_controls_alarm_and_are_no_rows() -> None:
    leaning = Table(
        cells(PAIRS, 0.01).cells
        | {"harness/scan/bytes/x": {number: (0.002 + number / 1e6, 1000.0) for number in range(PAIRS)}}
    )
    (drawn,) = error_rates.comparisons(leaning, RULES, random.Random(1))
    assert drawn.alarmed and set(drawn.judgements) == set(ROWS)


def test_a_row_that_lacks_a_pair_is_not_judged() -> None:
    table = cells(PAIRS, 0.05)
    del table.cells[OWN][3]
    (drawn,) = error_rates.comparisons(table, RULES, random.Random(1))
    assert set(drawn.judgements) == set(ROWS) - {OWN}


def test_fresh_pairs_decide_every_row_of_a_layer_however_still_it_is() -> None:
    decided = list(error_rates.decisions(cells(3 * 16 + 15, 0.0001), RULES, random.Random(1)))
    assert [sorted({id.partition("/")[0] for id in one}) for one in decided] == [["storage"]] * 3 + [["indexes"]] * 3
    assert [len(one) for one in decided] == [4] * 3 + [2] * 3
    assert {one.stage for rows in decided for one in rows.values()} == {"early look"}


def test_what_is_decided_without_a_screen_alarms_as_often_as_promised() -> None:
    decided = list(error_rates.decisions(cells(300 * 16, 0.03), RULES, random.Random(1)))
    alarming = sum(any(one.verdict in ("slower", "faster") for one in rows.values()) for rows in decided)
    assert len(decided) == 600
    assert alarming <= 43, "at 5 % of 600 comparisons, 44 or more have a probability below 1 %"


def test_a_round_that_was_cut_off_is_left_out() -> None:
    pool = simulated(2 * PAIRS)
    whole = error_rates.results(pool, RULES, shuffles=0).conditions["quiet"]
    pool.entries.append(Entry(2 * PAIRS, "pair", "storage", "quiet", 1.0, None, ROWS[:4], [0.0] * 4, [1000.0] * 4))
    cut = error_rates.results(pool, RULES, shuffles=0).conditions["quiet"]
    assert (cut.rounds, cut.false_alarms, cut.power) == (whole.rounds, whole.false_alarms, whole.power)


def test_every_part_of_a_pool_is_in_the_results(results: ErrorRates) -> None:
    quiet = results.conditions["quiet"]
    assert (quiet.rounds, quiet.rows, quiet.comparisons) == (4 * PAIRS, 6, 4)
    assert quiet.screened.of == 24 and quiet.false_alarms.of == 5 * 6, (
        "four whole comparisons; five of each layer without a screen"
    )
    assert {kind: rate.of for kind, rate in quiet.by_kind.items()}.keys() == {"locking", "reading, one thread"}
    assert sum(rate.of for rate in quiet.by_kind.values()) == quiet.false_alarms.of
    assert quiet.coverage.of == quiet.false_alarms.of and len(quiet.p_values) == 30
    assert quiet.power["10"].slower.count == 24 and quiet.power["1"].slower.count < 12
    assert sum(rate.of for rate in quiet.found["10"].values()) == 24 and {
        rate.count == rate.of for rate in quiet.found["10"].values()
    } == {True}
    assert results.comparisons == [{"same": 6}] and results.outcomes == {"fine": 1}
    assert [rate.of for rate in quiet.usual.values()] == [4 * PAIRS * 6] * 2 + [0] * 4


def test_a_real_plant_is_found_with_its_size_and_its_layer(results: ErrorRates) -> None:
    (planted,) = results.plants
    assert (planted.row, planted.pairs, planted.steps) == (OWN, 4 * PAIRS, 12)
    assert planted.low is not None and planted.high is not None and planted.low <= 0.05 <= planted.high
    assert (planted.found.count, planted.named.count, planted.named.of) == (4, 4, 4)


def test_a_false_alarm_below_a_plant_blames_the_wrong_layer() -> None:
    pool = simulated(PAIRS)
    for entry in pool.of("pair", "quiet"):
        if entry.target == "storage":
            entry.effects = [effect + 0.1 for effect in entry.effects]
    (planted,) = error_rates.results(pool, RULES, shuffles=0).plants
    assert (planted.found.count, planted.named.count, planted.named.of) == (1, 0, 1)


@pytest.mark.parametrize(
    "count, of, state",
    [
        (0, 400, "met"),
        (10, 100, "MISSED"),
        *((count, of, "not enough data") for count, of in ((0, 59), (1, 100), (0, 0))),
    ],
)
def test_a_goal_is_met_or_missed_only_if_its_bounds_say_so(count: int, of: int, state: str) -> None:
    assert error_rates.goal("false alarms", "at most 1 %", error_rates.rate(count, of), most=0.01).state == state


def test_a_goal_with_two_ends_is_missed_beyond_either() -> None:
    states = [
        error_rates.goal("coverage", "93 to 97 %", error_rates.rate(count, 1000), least=0.93, most=0.97).state
        for count in (900, 932, 950, 990)
    ]
    assert states == ["MISSED", "not enough data", "met", "MISSED"]


def test_a_pool_of_nothing_promises_nothing() -> None:
    empty = error_rates.results(Pool(origin(), []), RULES)
    assert {goal.state for goal in empty.goals} == {"not enough data"} and not empty.conditions and not empty.plants
    assert calibration_pictures.pictures(empty) == [] and "\n* " not in calibration_report.sentence(empty)


@pytest.mark.parametrize(
    "count, of, at_least, at_most",
    [(0, 59, 0.0, 0.0495), (59, 59, 0.9505, 1.0), (0, 1, 0.0, 0.95), (1, 2, 0.0253, 0.9747)],
)
def test_bounds_of_few_trials_are_exact(count: int, of: int, at_least: float, at_most: float) -> None:
    found = error_rates.rate(count, of)
    assert found.at_least == pytest.approx(at_least, abs=1e-4) and found.at_most == pytest.approx(at_most, abs=1e-4)


def test_no_trial_has_no_bound_and_rates_are_told_with_counts_and_bounds() -> None:
    assert error_rates.rate(0, 0) == Rate(0, 0, None, None)
    told = [calibration_report.counted(error_rates.rate(*trials)) for trials in ((0, 0), (0, 59), (59, 59), (3, 59))]
    assert told == ["no data", "0 of 59: at most 5.0 %", "59 of 59: at least 95 %", "3 of 59: 1.4 % to 13 %"]


def test_results_come_back_as_they_were(results: ErrorRates, tmp_path: Path) -> None:
    serialization.store(tmp_path / "results.json", results)
    assert serialization.load(ErrorRates, tmp_path / "results.json") == results


def test_the_readme_the_page_and_the_terminal_tell_the_same_counts_of_each_goal(results: ErrorRates) -> None:
    page = "\n".join([*calibration_report.goals(results), *calibration_report.section(results)])
    readme, terminal = calibration_report.sentence(results), calibration_report.summary(results)
    for goal in results.goals:
        counted = calibration_report.counted(goal.rate)
        assert counted in page and counted in terminal
        assert (f"* {goal.name}: {counted}" in readme) == bool(goal.rate.of)


def test_pictures_are_drawn(results: ErrorRates) -> None:
    drawn = calibration_pictures.pictures(results)
    assert [picture.name for picture in drawn] == [
        f"calibration-{name}" for name in ("p-values", "power", "coverage", "false-alarms")
    ]
    for picture in drawn:
        svg = pictures.drawn(picture)
        assert "</svg>" in svg and "quiet" in svg


def test_a_plant_weighs_what_it_does_to_the_row_that_many_steps_slow_down_most() -> None:
    pool = simulated(1, deviation=0.001)
    few = Plant("indexes", 40)
    rows, effects = [OWN, "indexes/insert/strata/x"], [math.log(1.1), 0.5]
    pool.entries += [
        Entry(number, "weighing", "indexes", "quiet", 1.0, few, rows, effects, [1000.0] * 2) for number in (3, 4, 5)
    ]
    assert error_rates.own_row(pool, "indexes") == OWN, (
        "of the two thousand steps, whatever a few of them seem to do elsewhere"
    )
    assert error_rates.weight(pool, few) == pytest.approx(0.1)
    assert error_rates.weight(pool, Plant("storage", 40)) is None


def test_what_is_published_comes_from_the_pool_alone(tmp_path: Path) -> None:
    published = calibration.publish(simulated(PAIRS), tmp_path / "results.json")
    assert serialization.load(ErrorRates, tmp_path / "results.json") == published
    assert calibration.publish(simulated(PAIRS), tmp_path / "again.json") == published


@pytest.mark.parametrize(
    ("id", "facts", "kind"),
    [
        ("storage/get/strata/sst", Facts("reads", "records", 1, 1), "reading, one thread"),
        ("transaction/create/strata/0", Facts("writes", "records", 1, 1, changes_store=True), "writing, one thread"),
        ("transaction/create/strata/8", Facts("writes", "records", 1, 8, changes_store=True), "several threads"),
        ("ladder/get/strata/tcp", Facts("answers", "records", 1, 1, clock="cpu"), "over TCP"),
        ("locking/contention/strata/8", Facts("locks", "ops", 1, 8), "locking"),
    ],
)
def test_rows_are_of_a_kind_by_what_makes_their_pairs_scatter(id: str, facts: Facts, kind: str) -> None:
    assert kind_of(id, facts) == kind
