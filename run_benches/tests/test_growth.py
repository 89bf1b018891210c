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


def test_a_power_is_found_and_told_by_tenfolds() -> None:
    found = growth.fit(simulated(lambda x: 200 * x**0.5, noise=0.002), "records")
    assert (found.axis, found.law) == ("records", "power")
    assert found.exponent == pytest.approx(0.5, abs=0.01)
    assert found.words.startswith("grows by 3.1") and "for every tenfold of records (3.1" in found.words


def test_a_logarithm_is_found_with_what_a_tenfold_adds() -> None:
    found = growth.fit(simulated(lambda x: 100 * math.log(x), noise=0.002), "records")
    assert found.law == "logarithmic"
    assert "; logarithmic: +23" in found.words and found.words.endswith(" ns each")


def test_a_line_is_found_also_where_its_start_hides_it() -> None:
    found = growth.fit(simulated(lambda x: 5000 + 3 * x), "sharing")
    assert found.law == "linear"
    assert (
        found.words.startswith(("linear: +3.0", "linear: +2.9"))
        and "for each further record that shares the value" in found.words
    )


def test_no_growth_is_said_with_the_most_that_it_could_be() -> None:
    found = growth.fit(simulated(lambda x: 700.0), "sharing")
    assert found.law == "constant"
    assert found.low is not None and found.high is not None and found.low <= 0 <= found.high
    assert (
        found.words
        == f"no growth seen: at most {10**found.high:.2f}x for every tenfold of records that share the value"
    )


def test_a_slight_growth_is_no_constant() -> None:
    found = growth.fit(simulated(lambda x: 300 * x ** math.log10(1.06), noise=0.005), "records")
    assert found.words.startswith(("grows by 1.06x", "grows by 1.05x"))
    assert found.low is not None and found.low > 0


def test_what_falls_is_not_told_as_growth() -> None:
    found = growth.fit(simulated(lambda x: 900 * x**-0.1), "records")
    assert found.words.startswith("falls to 0.79") and found.exponent is not None and found.exponent < 0


def test_a_cliff_is_no_law() -> None:
    found = growth.fit(simulated(lambda x: 300.0 if x < 1e6 else 3000.0), "records")
    assert found.law == "irregular"
    assert found.words.startswith("no simple law: ") and "x to 9.8" in found.words


def test_indexes_begin_at_none_and_each_adds() -> None:
    found = growth.fit(simulated(lambda x: 4000 + 1000 * x, (0, 1, 2, 4, 8), noise=0.002), "indexes")
    assert (found.law, found.exponent) == ("linear", None)
    assert (
        found.words.startswith(("linear: +1.0", "linear: +0.99", "linear: +99"))
        and "for each further index" in found.words
    )
    assert found.words.endswith("% of the time with none")
    assert growth.fit(simulated(lambda x: 4000.0, (0, 1, 2, 4, 8)), "indexes").words.startswith(
        "no growth seen: at most +"
    )
    steep = growth.fit(simulated(lambda x: 4000 + 100 * x**3, (0, 1, 2, 4, 8)), "indexes")
    assert steep.law == "irregular"


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


def test_too_few_points_have_no_law() -> None:
    for points in ([], [(10.0, [5.0])], [(1e3, [1.0, 1.1]), (1e4, [2.0, 2.1]), (1e5, [])]):
        found = growth.fit(points, "records")
        assert found.law == "unknown" and found.words.startswith("not enough points")


def test_order_of_points_does_not_matter_and_processes_may_be_missing() -> None:
    points = simulated(lambda x: 100 * x**0.3)
    assert growth.fit(points[::-1], "records") == growth.fit(points, "records")
    fewer = [(x, list(times)[: 2 + place]) for place, (x, times) in enumerate(points)]
    assert growth.fit(fewer, "records").exponent == pytest.approx(0.3, abs=0.05)
