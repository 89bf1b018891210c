"""The law behind simulated points is the one they were made by, and no law is claimed where there is none."""

import math
import random
from collections.abc import Callable

import pytest

from run_benches.analysis import growth
from run_benches.analysis.growth import GrowthPoint

SIZES = (1e3, 1e4, 1e5, 1e6)


def simulated(
    law: Callable[[float], float], xs: tuple[float, ...] = SIZES, processes: int = 5, noise: float = 0.01, seed: int = 1
) -> list[GrowthPoint]:
    """Each process has a level of its own, and each of its points a little noise."""
    chance = random.Random(seed)
    levels = [chance.gauss(0, 0.03) for _ in range(processes)]
    return [(x, [law(x) * math.exp(level + chance.gauss(0, noise)) for level in levels]) for x in xs]


COUNTS = (0.0, 1.0, 2.0, 4.0, 8.0)
LAWS: list[tuple[str, str, list[GrowthPoint], float | None]] = [
    ("records", "power", simulated(lambda x: 200 * x**0.5, noise=0.002), 0.5),
    ("records", "power", simulated(lambda x: 900 * x**-0.1), -0.1),
    ("records", "logarithmic", simulated(lambda x: 100 * math.log(x), noise=0.002), None),
    ("sharing", "linear", simulated(lambda x: 5000 + 3 * x), None),
    ("sharing", "constant", simulated(lambda x: 700.0), 0.0),
    ("records", "irregular", simulated(lambda x: 300.0 if x < 1e6 else 3000.0), None),
    ("records", "unknown", simulated(lambda x: 700.0)[:2], None),
    ("indexes", "linear", simulated(lambda x: 4000 + 1000 * x, COUNTS, noise=0.002), None),
    ("indexes", "constant", simulated(lambda x: 4000.0, COUNTS), None),
    ("indexes", "irregular", simulated(lambda x: 4000 + 100 * x**3, COUNTS), None),
]
"""Points by the axis, and the law that they were made by, with its exponent."""


@pytest.mark.parametrize(("axis", "law", "points", "exponent"), LAWS)
def test_the_law_is_the_one_that_the_points_were_made_by(
    axis: str, law: str, points: list[GrowthPoint], exponent: float | None
) -> None:
    found = growth.fit(points, axis)
    assert (found.axis, found.law) == (axis, law)
    if axis == "indexes":
        assert (found.exponent, found.low, found.high) == (None, None, None), "they begin at none"
    if exponent is not None:
        assert found.exponent is not None and found.low is not None and found.high is not None
        assert found.exponent == pytest.approx(exponent, abs=0.02) and found.low <= found.exponent <= found.high
        assert (found.low <= 0 <= found.high) == (law == "constant")
        assert found.words.startswith("falls") == (exponent < 0)


def test_a_slight_growth_is_no_constant() -> None:
    found = growth.fit(simulated(lambda x: 300 * x ** math.log10(1.06), noise=0.005), "records")
    assert found.law != "constant" and found.low is not None and found.low > 0


def test_the_interval_covers_the_exponent_as_often_as_it_says() -> None:
    """Student's interval over three processes, one thousand runs: 95 % within what chance allows."""
    runs = [
        growth.fit(simulated(lambda x: 100 * x**0.2, processes=3, noise=0.02, seed=seed), "records")
        for seed in range(1000)
    ]
    covered = sum(run.low is not None and run.high is not None and run.low <= 0.2 <= run.high for run in runs)
    assert 930 <= covered <= 970


def test_no_growth_is_seldom_called_growth() -> None:
    runs = [
        growth.fit(simulated(lambda x: 100.0, processes=5, noise=0.02, seed=seed), "records") for seed in range(500)
    ]
    assert sum(run.law != "constant" for run in runs) <= 40


def test_one_process_has_no_interval_and_proves_no_constancy() -> None:
    found = growth.fit(simulated(lambda x: 100 * x**0.5, processes=1), "records")
    assert (found.low, found.high) == (None, None) and "(1 process)" in found.words
    assert growth.fit(simulated(lambda x: 100.0, processes=1), "records").law != "constant"


@pytest.mark.parametrize("points", [[], [(10.0, [5.0])], [(1e3, [1.0, 1.1]), (1e4, [2.0, 2.1]), (1e5, [])]])
def test_too_few_points_have_no_law(points: list[GrowthPoint]) -> None:
    found = growth.fit(points, "records")
    assert (found.law, found.exponent) == ("unknown", None)


def test_order_of_points_does_not_matter_and_processes_may_be_missing() -> None:
    points = simulated(lambda x: 100 * x**0.3)
    assert growth.fit(points[::-1], "records") == growth.fit(points, "records")
    fewer = [(x, list(times)[: 2 + place]) for place, (x, times) in enumerate(points)]
    assert growth.fit(fewer, "records").exponent == pytest.approx(0.3, abs=0.05)
