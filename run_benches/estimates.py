"""The statistics of the runner, as pure functions of numbers.

Why these: on a shared machine one process in twenty runs in another mode (slower by half, or tenfold), so means and t-intervals say little
about the rest. The Hodges-Lehmann estimate and its exact interval, from the signed-rank distribution over the Walsh averages, keep their
coverage then (Hollander & Wolfe, Nonparametric Statistical Methods, 3.2-3.3). The unit is the pair of processes, never the sample: the
samples of one process share its memory layout and its moment, and are no independent trials.
"""

import math
import statistics
from dataclasses import dataclass

FEWEST_PAIRS = 6
"""With fewer pairs no 95 % interval exists: even all of them on one side has a probability of 2/2^5 = 6 %."""


@dataclass(frozen=True)
class Estimate:
    """A location with its interval; the bounds are absent where there are too few pairs for the confidence that was asked for."""

    middle: float
    low: float | None
    high: float | None


def median(values: list[float]) -> float | None:
    """The median, or nothing of nothing."""
    return statistics.median(values) if values else None


def location(values: list[float], confidence: float = 0.95) -> Estimate | None:
    """Where independent values of a symmetric distribution lie: Hodges-Lehmann with the exact interval, or nothing of nothing."""
    if not values:
        return None
    averages = walsh_averages(values)
    beyond = _averages_beyond(len(values), (1 - confidence) / 2)
    if beyond == 0:
        return Estimate(statistics.median(averages), None, None)
    return Estimate(statistics.median(averages), averages[beyond - 1], averages[-beyond])


def ratio(pairs: list[float], confidence: float = 0.95) -> Estimate | None:
    """The ratio behind the ratios of pairs: estimated on the logarithm, where 2 and 1/2 are equally far from 1."""
    found = location([math.log(pair) for pair in pairs], confidence)
    if found is None or found.low is None or found.high is None:
        return found and Estimate(math.exp(found.middle), None, None)
    return Estimate(math.exp(found.middle), math.exp(found.low), math.exp(found.high))


def walsh_averages(values: list[float]) -> list[float]:
    """The averages of all pairs of values, each with itself included, in order."""
    return sorted((a + b) / 2 for n, a in enumerate(values) for b in values[: n + 1])


def signed_rank_counts(count: int) -> list[int]:
    """For each sum of ranks, how many of the 2^count sign patterns give it: the Wilcoxon signed-rank distribution, exactly."""
    ways = [1]
    for rank in range(1, count + 1):
        ways += [0] * rank
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return ways


def _averages_beyond(count: int, tail: float) -> int:
    """The position, from either end, of the Walsh average that bounds the interval; 0 where no interval is that sure."""
    probability = 0.0
    for total, ways in enumerate(signed_rank_counts(count)):
        probability += ways / 2**count
        if probability > tail:
            return total
    raise AssertionError("the probabilities of all sums make one")
