"""The broker against scripted sides: small programs that speak the protocol, or break it."""

import itertools
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from run_benches.measure.broker import Lane, RowInTurns, RowLog, Turn, TurnsResult, cost_ns, effect, foreign_load, run

SCRIPT = r"""
import json, os, socket, sys, time

will = json.loads(sys.argv[1])
broker = socket.socket(socket.AF_UNIX)
broker.connect(os.environ["STRATA_TURN"])
answers = broker.makefile("r")
heard, spans, began = [], [], None

def ask(message):
    if began is not None:
        spans.append((began, time.monotonic()))
    broker.sendall((message + "\n").encode())
    answer = answers.readline().strip()
    heard.append((message.split()[0], answer))
    globals()["began"] = time.monotonic()
    return answer

for row in will["rows"]:
    if will.get("die_in") == row:
        sys.exit("the disk is full")
    if ask("row " + row) == "skip":
        continue
    operations, turns = map(int, ask("meet %s %s" % (will.get("cost", 1000), will.get("capacity", 0))).split())
    for turn in range(turns):
        if ask("ready") != "go":
            break
        if will.get("die_after") == turn:
            sys.exit("the disk is full")
        if will.get("sleep_after") == turn:
            print("still compacting", file=sys.stderr, flush=True)
            time.sleep(60)
        if will.get("say"):
            ask(will["say"])
        broker.sendall(b"done %d\n" % (operations * will.get("cost", 1000)))
    if turns:
        ask("over")
if "log" in will:
    with open(will["log"], "w") as log:
        environment = sum(len(key) + len(value) + 2 for key, value in os.environ.items())
        cores = sorted(os.sched_getaffinity(0))
        json.dump(dict(heard=heard, spans=spans, environment=environment, names=sorted(os.environ), cores=cores), log)
"""


def side(rows: Sequence[str], **will: Any) -> Lane:
    return Lane([sys.executable, "-I", "-S", "-c", SCRIPT, json.dumps({"rows": list(rows), **will})])


def pair(a: Lane, b: Lane, rows: Sequence[RowInTurns | tuple[str, str]], turns: int = 8, **limits: Any) -> TurnsResult:
    return together(
        [a, b], [row if isinstance(row, RowInTurns) else RowInTurns(row, turns=turns) for row in rows], **limits
    )


def together(sides: Sequence[Lane], rows: Sequence[RowInTurns], **limits: Any) -> TurnsResult:
    chosen = {"seed": 1, "deadline_s": 20.0, "silence_s": 5.0, **limits}
    return run(sides, rows, cores={max(os.sched_getaffinity(0))}, **chosen)


def same(*names: str) -> list[tuple[str, str]]:
    return [(name, name) for name in names]


def test_both_sides_do_the_same_work_in_palindromes_and_never_at_once(tmp_path: Path) -> None:
    logs = [tmp_path / "a", tmp_path / "b"]
    a = side(["x", "y"], cost=1000, log=str(logs[0]))
    b = side(["x", "y"], cost=3000, log=str(logs[1]))
    told: list[tuple[int, int]] = []
    result = pair(a, b, same("x", "y"), progress=lambda settled, of: told.append((settled, of)))
    assert not result.failures
    assert told == [(1, 2), (2, 2)]
    for log in result.rows.values():
        assert log.operations == 500, "1 ms over the mean cost of 2000 ns"
        order = [turn.side for turn in log.turns]
        fours = [tuple(order[start : start + 4]) for start in range(0, 16, 4)]
        assert len(order) == 16 and set(fours) <= {(0, 1, 1, 0), (1, 0, 0, 1)}
        assert math.isclose(effect(log), math.log(3))
        assert log.conditions is not None and log.conditions[0].major_faults >= 0

    seen = [json.loads(log.read_text()) for log in logs]
    assert seen[0]["heard"].count(["meet", "500 8"]) == seen[1]["heard"].count(["meet", "500 8"]) == 2
    assert seen[0]["environment"] == seen[1]["environment"]
    assert seen[0]["cores"] == seen[1]["cores"] == [max(os.sched_getaffinity(0))]
    spans = sorted(span for one in seen for span in one["spans"])
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), "only one side ever runs"


def test_sides_are_told_what_is_known_of_the_cost(tmp_path: Path) -> None:
    result = pair(
        side("xy", log=str(tmp_path / "a")),
        side("xy"),
        [RowInTurns(("x", "x"), turns=8), RowInTurns(("y", "y"), turns=8, cost_ns=1234.5)],
    )
    assert json.loads((tmp_path / "a").read_text())["heard"].count(["row", "run 1234.500"]) == 1
    assert [cost_ns(log) for log in result.rows.values()] == [1000, 1000]


def test_more_sides_go_up_and_down_random_orders() -> None:
    sides = [side("x", cost=cost) for cost in (1000, 2000, 3000)]
    result = together(sides, [RowInTurns(("x", "x", "x"), turns=20)])
    (log,) = result.rows.values()
    order = [turn.side for turn in log.turns]
    palindromes = [order[start : start + 6] for start in range(0, 60, 6)]
    assert all(sorted(up[:3]) == [0, 1, 2] and up == up[::-1] for up in palindromes)
    assert len({tuple(up) for up in palindromes}) > 3
    assert log.operations == 500 and {turn.nanoseconds for turn in log.turns if turn.side == 2} == {1_500_000}


def test_one_of_more_sides_that_dies_is_named() -> None:
    result = together([side("x"), side("x"), side("x", die_after=3)], [RowInTurns(("x", "x", "x"), turns=20)])
    (failure,) = result.failures
    assert failure.reason.startswith("side C at x ended with code 1") and "the disk is full" in failure.reason


def test_the_coin_is_seeded() -> None:
    def order(seed: int) -> list[int]:
        return [turn.side for turn in pair(side("x"), side("x"), same("x"), turns=20, seed=seed).rows["x", "x"].turns]

    assert order(3) == order(3)
    assert order(3) != order(4)


def test_sides_may_run_different_rows() -> None:
    result = pair(side(["get/strata"], cost=2000), side(["get/floor"], cost=1000), [("get/strata", "get/floor")])
    assert math.isclose(effect(result.rows["get/strata", "get/floor"]), math.log(0.5))


def test_rows_nobody_asked_for_are_skipped_without_being_prepared(tmp_path: Path) -> None:
    log = tmp_path / "a"
    result = pair(side(["w", "x"], log=str(log)), side(["x", "z"]), same("x"))
    assert list(result.rows) == same("x") and not result.failures
    assert json.loads(log.read_text())["heard"][0] == ["row", "skip"]


def test_the_environment_is_scrubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    log = tmp_path / "a"
    given = side(["x"], log=str(log))
    pair(Lane(given.command, {"STRATA_FACTS_DIR": str(tmp_path)}), side(["x"]), same("x"))
    names = json.loads(log.read_text())["names"]
    assert "RUST_BACKTRACE" not in names
    assert "STRATA_FACTS_DIR" in names and "STRATA_TURN" in names


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_row_that_one_side_lacks_fails_and_the_others_go_on(lacking: int) -> None:
    sides = [side(["x", "y", "z"]), side(["x", "y", "z"])]
    sides[lacking] = side(["x", "z"])
    result = pair(sides[0], sides[1], same("x", "y", "z"))
    assert list(result.rows) == same("x", "z")
    assert [failure.ids for failure in result.failures] == same("y")
    assert f"side {'AB'[lacking]} does not have it" in result.failures[0].reason


def test_a_row_that_both_lack_fails() -> None:
    result = pair(side(["x"]), side(["x"]), same("x", "y"))
    assert list(result.rows) == same("x")
    assert [failure.ids for failure in result.failures] == same("y")


def test_rows_in_another_order_fail_and_do_not_hang() -> None:
    result = pair(side(["x", "y"]), side(["y", "x"]), same("x", "y"))
    assert len(result.rows) == 1 and len(result.failures) == 1


@pytest.mark.parametrize("will", [{"die_after": 3}, {"die_in": "y"}])
def test_a_side_that_dies_is_quoted_and_the_other_ends(will: dict[str, Any]) -> None:
    began = time.monotonic()
    result = pair(side(["x", "y"]), side(["x", "y"], **will), same("x", "y"))
    reasons = {failure.ids[0]: failure.reason for failure in result.failures}
    assert set(reasons) == {"x", "y"}, "what ends between two rows may have found something wrong with the first"
    assert "side B ended with code 1" in reasons["y"] and "the disk is full" in reasons["y"]
    assert time.monotonic() - began < 5


def test_a_side_that_never_connects_is_reported() -> None:
    nobody = Lane([sys.executable, "-I", "-S", "-c", "raise SystemExit('no such library')"])
    result = pair(side(["x"]), nobody, same("x"))
    assert "no such library" in result.failures[0].reason


def test_silence_ends_both() -> None:
    began = time.monotonic()
    result = pair(side(["x", "y"]), side(["x", "y"], sleep_after=2), same("x", "y"), silence_s=0.5)
    assert time.monotonic() - began < 5
    assert [failure.ids for failure in result.failures] == same("x", "y")
    assert "nothing heard for 0.5 s, waiting for side B at x" in result.failures[0].reason
    assert "still compacting" in result.failures[0].reason


def test_the_deadline_ends_both() -> None:
    began = time.monotonic()
    result = pair(side(["x"], sleep_after=0), side(["x"]), same("x"), deadline_s=0.4)
    assert time.monotonic() - began < 5
    assert "not done after 0.4 s" in result.failures[0].reason


@pytest.mark.parametrize("words", ["done never", "hello", "done 5 6 x"])
def test_words_nobody_expected_are_reported(words: str) -> None:
    result = pair(side(["x"]), side(["x"], say=words), same("x"), silence_s=0.3)
    assert words in result.failures[0].reason


def test_the_smaller_capacity_is_kept() -> None:
    result = pair(side(["x"], capacity=1000), side(["x"], capacity=400), same("x"))
    assert result.rows["x", "x"].operations == 50, "400 operations over 8 turns"

    result = pair(side(["x"], capacity=7), side(["x"]), same("x"))
    assert "a state serves 7 operations, which is less than 8 turns" in result.failures[0].reason


def test_a_row_may_have_turns_of_its_own() -> None:
    result = pair(side(["x"]), side(["x"]), [RowInTurns(("x", "x"), turn_ns=20e6, turns=4)])
    assert result.rows["x", "x"].operations == 20_000
    assert len(result.rows["x", "x"].turns) == 8


def test_a_cost_of_nothing_fails_the_row() -> None:
    result = pair(side(["x"], cost=0), side(["x"], cost=0), same("x"))
    assert "the sides met with" in result.failures[0].reason


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pair(side(["x"], die_after=1), side(["x"]), same("x"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "rows", [[RowInTurns(("x", "x"), turns=7)], [RowInTurns(("x", "x"), turns=2)], [("x", "x"), ("x", "y")]]
)
def test_a_plan_that_cannot_be_carried_out_is_refused(rows: list[RowInTurns | tuple[str, str]]) -> None:
    with pytest.raises(ValueError):
        pair(side("x"), side("x"), rows)


def synthetic(first: tuple[int, ...], a_ns: float, b_ns: float, drift: float = 0.0, noise: float = 0.0) -> RowLog:
    """A log of 20 palindromes whose machine slows down by `drift` (a share) each turn."""
    coin = random.Random(5)
    turns = []
    for place in range(80):
        index = first[place % 4]
        factor = math.exp(drift * place) * (1 + noise * coin.random())
        turns.append(Turn(index, round((b_ns if index else a_ns) * factor)))
    return RowLog(("x", "x"), 1, turns)


@pytest.mark.parametrize("first", [(0, 1, 1, 0), (1, 0, 0, 1)])
def test_effect_is_exact_and_cancels_drift(first: tuple[int, ...]) -> None:
    assert math.isclose(effect(synthetic(first, 1e6, 1.05e6)), math.log(1.05), abs_tol=1e-6)
    assert math.isclose(effect(synthetic(first, 1e6, 1.05e6, drift=0.01)), math.log(1.05), abs_tol=1e-6)
    assert math.isclose(effect(synthetic(first, 1e6, 1e6, noise=0.02)), 0, abs_tol=0.01)


def test_effect_forgets_the_first_palindrome_and_one_stall() -> None:
    log = synthetic((0, 1, 1, 0), 1e6, 2e6)
    log.turns[0].nanoseconds = log.turns[3].nanoseconds = 500_000_000
    log.turns[41].nanoseconds = 500_000_000
    assert math.isclose(effect(log), math.log(2))
    assert effect(log, by_total=True) > 2, "where stalls are part of the cost they count"


def test_total_effect_is_of_equal_work() -> None:
    assert math.isclose(effect(synthetic((0, 1, 1, 0), 1e6, 1.2e6), by_total=True), math.log(1.2), abs_tol=1e-6)


def test_foreign_load_burns_its_share_and_ends_with_the_block() -> None:
    def burnt_s() -> float:
        """CPU seconds of our children that have ended."""
        return os.times().children_user + os.times().children_system

    before, began = burnt_s(), time.monotonic()
    with foreign_load(0.5, {max(os.sched_getaffinity(0))}, limit_s=5):
        time.sleep(0.8)
    assert 0.1 < (burnt_s() - before) / (time.monotonic() - began) < 0.9
