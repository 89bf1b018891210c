"""The statistics against tables and against simulated data."""

import math
import random

import pytest

from run_benches import estimates


def test_signed_rank_distribution_is_that_of_the_tables() -> None:
    assert estimates.signed_rank_counts(3) == [1, 1, 1, 2, 1, 1, 1]
    ways = estimates.signed_rank_counts(10)
    assert sum(ways) == 2**10
    assert sum(ways[:9]) / 2**10 == pytest.approx(0.0244, abs=1e-4)  # P(T+ <= 8) for n = 10


def test_interval_of_ten_values_is_bounded_by_the_ninth_walsh_averages() -> None:
    values = [float(n * n) for n in range(10)]
    found, averages = estimates.location(values), estimates.walsh_averages(values)
    assert found is not None
    assert (found.low, found.high) == (averages[8], averages[-9])


def test_nothing_is_said_of_nothing() -> None:
    assert estimates.location([]) is None
    assert estimates.ratio([]) is None
    assert estimates.median([]) is None


def test_too_few_pairs_have_an_estimate_and_no_interval() -> None:
    few = estimates.ratio([0.9] * (estimates.FEWEST_PAIRS - 1))
    enough = estimates.ratio([0.9] * estimates.FEWEST_PAIRS)
    assert few is not None and few.low is None and few.middle == pytest.approx(0.9)
    assert enough is not None and enough.low == pytest.approx(0.9)


def test_a_ratio_and_its_inverse_are_equally_far_from_one() -> None:
    pairs = [0.8, 0.9, 1.0, 1.1, 1.3, 0.95, 0.7]
    found, inverse = estimates.ratio(pairs), estimates.ratio([1 / pair for pair in pairs])
    assert found and inverse and found.low and inverse.high
    assert found.middle == pytest.approx(1 / inverse.middle)
    assert found.low == pytest.approx(1 / inverse.high)


@pytest.mark.parametrize("pairs", [6, 8, 12, 16])
@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_intervals_cover_what_they_claim(pairs: int, outliers: float) -> None:
    """Also when one process in twenty is off by a factor of ten in either direction."""
    coin, covered, trials = random.Random(pairs), 0, 2000
    for _ in range(trials):
        draws = [coin.gauss(0, 0.01) + (coin.choice((-1, 1)) * math.log(10) if coin.random() < outliers else 0) for _ in range(pairs)]
        found = estimates.location(draws)
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    assert 0.935 <= covered / trials <= 0.985
