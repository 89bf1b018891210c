"""Which rows take turns with which, and what their turns say."""

import dataclasses
import math

import pytest

from run_benches.measure import broker, families
from run_benches.measure.broker import RowLog, Turn
from run_benches.store.runs import Facts, Family, Floor


def facts(*against: str, floor: str | None = None, **others: object) -> Facts:
    settings: dict[str, object] = {"threads": 1} | others
    return Facts("reads", "records", 1, against=list(against), floor=Floor(floor) if floor else None, **settings)  # type: ignore[arg-type]


def test_rows_that_name_each_other_are_a_family_and_the_others_are_in_none() -> None:
    (found,) = families.of(
        {
            "raw": facts(),
            "get": facts("two", floor="raw"),
            "two": facts(floor="raw"),
            "alone": facts(),
            "lost": facts("gone"),
        }
    )
    assert (found.rows, found.base) == (["raw", "get", "two"], "raw"), "the base is named most often"
    assert families.lanes(found) == ["raw", "get", "two", "raw"]
    assert found.contrasts == [["get", "raw"], ["get", "two"], ["two", "raw"], ["raw", "raw"]]


def test_a_large_group_is_cut_into_families_of_eight_lanes_that_share_a_row() -> None:
    rungs = {"0": facts()} | {str(n): facts(str(n - 1)) for n in range(1, 12)}
    first, second = families.of(rungs)
    assert [len(families.lanes(one)) for one in (first, second)] == [8, 7]
    assert set(first.rows) & set(second.rows) == {"6"}
    told = [tuple(edge) for one in (first, second) for edge in one.contrasts]
    assert all((str(n), str(n - 1)) in told for n in range(1, 12))
    assert len(told) == len(set(told)), "what is told twice could be told differently"
    assert second.base == "6" and ["7", "6"] in second.contrasts and ["11", "6"] in second.contrasts, (
        "each is held against its base"
    )


def test_a_row_with_more_partners_than_a_family_holds_is_cut_too() -> None:
    many = [str(n) for n in range(9)]
    found = families.of({one: facts() for one in many} | {"hub": facts(*many)})
    assert all(len(families.lanes(one)) <= families.MOST_LANES for one in found)
    assert {tuple(edge) for one in found for edge in one.contrasts} >= {("hub", one) for one in many}


def test_no_contrast_stands_in_two_families() -> None:
    against = {"0": [], "1": [], "2": ["0"], "3": ["1"], "4": ["2", "1"], "5": ["1"], "6": ["3", "5"], "7": ["2"]}
    stars = {"raw": facts()} | {str(n): facts("raw") for n in range(9)}
    for rows in ({id: facts(*others) for id, others in against.items()}, stars):
        told = [tuple(edge) for one in families.of(rows) for edge in one.contrasts]
        assert len(told) == len(set(told))


def test_rows_that_want_other_turns_are_in_other_families() -> None:
    found = families.of(
        {"raw": facts(), "get": facts("raw"), "raw8": facts(threads=8), "get8": facts("raw8", threads=8)}
    )
    assert [one.rows for one in found] == [["raw", "get"], ["raw8", "get8"]]


def test_a_palindrome_is_shorter_than_a_spell() -> None:
    readers, writers = [facts()] * 8, [facts(changes_store=True)] * 8
    assert families.turn_ns(readers) == broker.TURN_NS
    assert families.turn_ns(writers) * 2 * 8 <= families.PALINDROME_NS
    assert families.turn_ns(writers[:2]) == broker.WRITER_TURN_NS
    assert families.turn_ns([facts(clock="cpu")] * 2) == broker.LONG_TURN_NS
    assert families.turns(0.3, 1e6) == 300 and families.turns(0.1, 20e6) == 2 * families.FEWEST_PALINDROMES


FAMILY = Family("not_run", [], ["raw", "get"], "raw", [["get", "raw"], ["raw", "raw"]])


def log(*palindromes: tuple[float, float, float]) -> RowLog:
    """Of raw, get and the second lane of raw, each up and down."""
    turns = [Turn(lane, int(times[lane])) for times in palindromes for lane in (0, 1, 2, 2, 1, 0)]
    return RowLog(("raw", "get", "raw"), 10, turns)


def test_a_tuple_is_the_median_over_palindromes() -> None:
    warm_up, spell = (9000.0, 1000.0, 9000.0), (50_000.0, 100_000.0, 50_000.0)
    found = families.read(FAMILY, log(warm_up, *[(1000.0, 2000.0, 1010.0)] * 8, spell), by_total=False)
    assert found.points_ns == {"raw": pytest.approx(100), "get": pytest.approx(200)}
    assert math.exp(found.logs["get"]["raw"]) == pytest.approx(2)
    assert math.exp(found.logs["raw"]["raw"]) == pytest.approx(1.01), "the second lane over the first"


def test_where_stalls_are_part_of_the_cost_all_time_counts() -> None:
    stalled = log((1000.0, 1000.0, 1000.0), *[(1000.0, 1000.0, 1000.0)] * 3, (1000.0, 6000.0, 1000.0))
    assert families.read(FAMILY, stalled, by_total=False).logs["get"]["raw"] == pytest.approx(0)
    whole = families.read(FAMILY, stalled, by_total=True)
    assert math.exp(whole.logs["get"]["raw"]) == pytest.approx(9 / 4)
    assert whole.points_ns["get"] == pytest.approx(9000 / 4 / 10)


def test_all_tuples_of_a_family_have_the_estimator_of_its_first() -> None:
    quiet, busy = facts(), facts(counters={"flushes": 1, "waits": 0})
    first = dataclasses.replace(FAMILY, by_total=None)
    assert families.counts_by_total(first, [quiet, busy]) and not families.counts_by_total(
        first, [quiet, facts(counters={"flushes": 0})]
    )
    for settled in (True, False):
        assert families.counts_by_total(dataclasses.replace(FAMILY, by_total=settled), [quiet, busy]) is settled


def test_what_falls_on_all_lanes_alike_cancels() -> None:
    drift = [(1000.0 * speed, 3000.0 * speed, 1000.0 * speed) for speed in (1, 1, 1.5, 2, 2, 1.7, 1, 0.8)]
    found = families.read(FAMILY, log(*drift), by_total=False)
    assert math.exp(found.logs["get"]["raw"]) == pytest.approx(3, rel=1e-3)
