"""Criterion's rule and critcmp's, on samples whose answer is known."""

import random
import statistics

import pytest

from run_benches.stats import usual_tools
from run_benches.stats.usual_tools import Change


def samples(seed: int, middle: float, deviation: float, count: int = 50) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(middle, deviation) for _ in range(count)]


def test_independent_equal_samples_are_seldom_called_changed() -> None:
    found = [usual_tools.change(samples(seed, 100, 3), samples(10_000 + seed, 100, 3), seed) for seed in range(200)]
    changes = [change for change in found if change]
    assert len(changes) == 200
    significant = sum(change.p < 0.05 for change in changes)
    assert 2 <= significant <= 20, "a test at 5 % of two hundred equal pairs"
    assert sum(change.changed for change in changes) <= significant / 2, "the noise threshold takes most of them away"


@pytest.mark.parametrize("middle, mean", [(110.0, 0.1), (90.0, -0.1)])
def test_a_clear_shift_is_a_change(middle: float, mean: float) -> None:
    change = usual_tools.change(samples(1, 100, 2), samples(2, middle, 2), 3)
    assert change and change.changed and change.listed
    assert change.p == 0.0 and change.low < change.mean < change.high
    assert change.mean == pytest.approx(mean, abs=0.02)


def test_the_p_is_that_of_both_tails() -> None:
    """Two hundred samples of scatter 1 whose means are a tenth apart: Welch's t is 1, and a normal value is that far
    out in 32 %."""
    old = [statistics.NormalDist().inv_cdf((at + 0.5) / 200) for at in range(200)]
    change = usual_tools.change([100 + one for one in old], [100.1 + one for one in old], 4)
    assert change and change.p == pytest.approx(0.317, abs=0.04)


def test_a_sure_change_within_the_noise_threshold_is_none() -> None:
    change = usual_tools.change(samples(1, 100, 0.1), samples(2, 100.5, 0.1), 3)
    assert change and change.p < 0.05 and not change.changed and not change.listed


def test_an_interval_that_reaches_into_the_threshold_is_no_change() -> None:
    assert Change(0.001, 0.011, 0.03, 0.02).changed
    assert Change(0.001, -0.03, -0.011, -0.02).changed
    assert not Change(0.001, 0.009, 0.03, 0.02).changed
    assert not Change(0.05, 0.011, 0.03, 0.02).changed


@pytest.mark.parametrize("mean, listed", [(0.051, True), (0.049, False), (-0.048, True), (-0.047, False)])
def test_critcmp_takes_the_faster_side_for_the_whole(mean: float, listed: bool) -> None:
    assert Change(1.0, 0.0, 0.0, mean).listed is listed


def test_nothing_is_said_of_one_sample_and_samples_without_scatter_are_equal() -> None:
    assert usual_tools.change([1.0], [1.0, 2.0], 1) is None
    change = usual_tools.change([5.0] * 10, [5.0] * 10, 1)
    assert change and not change.changed


def test_the_same_seed_says_the_same() -> None:
    old, new = samples(1, 100, 3), samples(2, 101, 3)
    assert usual_tools.change(old, new, 5) == usual_tools.change(old, new, 5)
