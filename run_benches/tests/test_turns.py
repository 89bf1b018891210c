"""The statistics of turns of one lane against another, by hand and of lanes that drift together."""

import math
import random

import pytest

from run_benches.stats.turns import CountedTurns

ABBA = (0, 1, 1, 0)


def test_a_log_ratio_is_half_of_what_both_turns_differ_by() -> None:
    (a1, b1, b2, a2) = times = (1e6, 1.3e6, 1.1e6, 0.9e6)
    turns = CountedTurns.of(list(zip(ABBA, times, strict=True)), 2, 0)
    assert turns.log_ratio(1, 0, by_total=False) == pytest.approx((math.log(b1 * b2) - math.log(a1 * a2)) / 2)
    assert turns.log_ratio(1, 0, by_total=True) == pytest.approx(math.log((b1 + b2) / (a1 + a2)))
    assert turns.turn_ns(1, by_total=True) == pytest.approx(1.2e6)
    assert turns.turn_ns(1, by_total=False) == pytest.approx(math.sqrt(b1 * b2))


def test_the_first_palindromes_are_warm_up() -> None:
    cold = list(zip(ABBA, (9e6, 1e6, 1e6, 9e6), strict=True))
    warm = list(zip(ABBA, (1e6,) * 4, strict=True))
    assert CountedTurns.of([*cold, *warm], 2, 0).log_ratio(1, 0, by_total=True) < -1
    assert CountedTurns.of([*cold, *warm], 2, 1).log_ratio(1, 0, by_total=True) == 0


@pytest.mark.parametrize("lanes", [2, 3, 8])
def test_a_drift_of_the_machine_falls_on_all_lanes_alike(lanes: int) -> None:
    rng, taken = random.Random(lanes), []
    for _ in range(20):
        order = rng.sample(range(lanes), lanes)
        taken += [*order, *reversed(order)]
    times = [(lane, 1e6 * (1 + 0.1 * lane) * math.exp(0.001 * n)) for n, lane in enumerate(taken)]
    turns = CountedTurns.of(times, lanes, 1)
    for lane in range(1, lanes):
        assert turns.log_ratio(lane, 0, by_total=False) == pytest.approx(math.log(1 + 0.1 * lane))
