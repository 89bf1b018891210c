"""The statistics against tables and against simulated data."""

import math
import random
import statistics

import pytest

from run_benches.stats import estimates


def test_signed_rank_distribution_is_that_of_the_tables() -> None:
    assert [8 * share for share in estimates.rank_sum_distribution((1, 2, 3))] == [1, 2, 3, 5, 6, 7, 8]
    of_ten = estimates.rank_sum_distribution(tuple(range(1, 11)))
    assert of_ten[8] == pytest.approx(0.0244, abs=1e-4)
    assert (len(of_ten), of_ten[-1]) == (56, 1)


def test_signed_rank_distribution_of_shared_ranks() -> None:
    assert [4 * share for share in estimates.rank_sum_distribution((3, 3))] == [1, 1, 1, 3, 3, 3, 4]
    assert estimates.rank_sum_distribution(()) == (1,)


def test_signed_rank_distribution_of_many_ranks_is_nearly_normal() -> None:
    """Also where the numbers of ways are larger than a float can be exact about."""
    count = 200
    mean, deviation = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    of_many = estimates.rank_sum_distribution(tuple(range(1, count + 1)))
    for away in (-3, -2, 0, 1):
        assert of_many[round(mean + away * deviation)] == pytest.approx(statistics.NormalDist().cdf(away), abs=0.001)


def test_estimate_and_interval_are_those_of_the_book() -> None:
    """Hollander & Wolfe, examples 3.1, 3.3 and 3.4: depression of nine patients after a therapy, less that before it."""
    before, after = (
        [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30],
        [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29],
    )
    found = estimates.location([b - a for a, b in zip(before, after, strict=True)])
    assert found is not None
    assert (found.middle, found.low, found.high) == pytest.approx((-0.46, -0.786, -0.010), abs=5e-4)


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
    few = estimates.ratio([0.9] * (estimates.FEWEST_TUPLES - 1))
    enough = estimates.ratio([0.9] * estimates.FEWEST_TUPLES)
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
        draws = [
            coin.gauss(0, 0.01) + (coin.choice((-1, 1)) * math.log(10) if coin.random() < outliers else 0)
            for _ in range(pairs)
        ]
        found = estimates.location(draws)
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    assert 0.935 <= covered / trials <= 0.985
