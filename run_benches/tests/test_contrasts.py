"""The words for a difference: with its interval, or as not resolved."""

import math
import random

import pytest

from run_benches.analysis import contrasts, figures
from run_benches.analysis.contrasts import Contrast, Controls
from run_benches.tests.test_document import a_run


def contrast(middle: float, spread: float, count: int = 8) -> Contrast:
    return Contrast(tuple(math.log(middle) + spread * (n - (count - 1) / 2) / count for n in range(count)))


@pytest.mark.parametrize(
    ("middle", "spread", "count", "verdict", "words"),
    [
        (1.5, 0.02, 8, "differ", "+50 % ["),
        (0.8, 0.02, 8, "differ", "-20 % ["),
        (1.001, 0.01, 8, "same", "same within 2 % ["),
        (1.001, 0.2, 8, "not resolved", "not resolved ["),
        (1.5, 0.0, 5, "not resolved", "not resolved (5 tuples"),
    ],
)
def test_a_difference_is_told_with_its_interval_or_as_not_resolved_never_as_a_number_alone(
    middle: float, spread: float, count: int, verdict: str, words: str
) -> None:
    found = contrast(middle, spread, count)
    assert found.verdict() == verdict and figures.contrast(found).startswith(words)
    assert figures.factor(found).startswith("not resolved") == (verdict == "not resolved")
    assert (found.ratio().low is None) == (count < 6)


def test_intervals_that_hold_together_are_wider() -> None:
    one = contrast(1.016, 0.06, count=12)
    assert one.verdict() == "differ" and one.verdict(contrasts.joint(0.95, 20)) == "not resolved"


def test_a_time_is_the_ratio_less_one_times_that_of_the_base() -> None:
    found = contrast(1.5, 0.0).nanoseconds(1000.0)
    assert found.middle == pytest.approx(500)
    assert contrast(1.5, 0.1).turned().ratio().middle == pytest.approx(1 / 1.5)


def test_second_lanes_that_differ_too_often_contaminate_a_run() -> None:
    assert not Controls(40, 38).contaminated, "two of forty are chance"
    assert not Controls(40, 36).contaminated, "and so are four, once in twenty"
    assert Controls(40, 33).contaminated
    assert not Controls(0, 0).contaminated


def test_the_second_lanes_of_a_run_are_counted() -> None:
    run, rng = a_run(), random.Random(1)
    run.contrasts = {
        "a": {"a": [rng.gauss(0, 0.01) for _ in range(8)], "b": [0.5] * 8},
        "b": {"b": [0.1] * 8},
        "c": {"c": [0.0] * 3},
    }
    found = contrasts.controls(run.contrasts)
    assert (found.looked_at, found.held) == (2, 1), "that of three tuples has no interval"
