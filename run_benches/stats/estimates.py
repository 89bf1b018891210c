"""The statistics of the runner, as pure functions of numbers.

Why these: on a shared machine one process in twenty is an outlier (slower by half, or tenfold), so means and
t-intervals say little about the rest. The Hodges-Lehmann estimate and its exact interval, from the signed-rank
distribution over the Walsh averages, keep their coverage then (Hollander & Wolfe, Nonparametric Statistical Methods,
3.2-3.3). The unit is the pair of processes, never the sample: the samples of one process share its memory layout and
its moment, and are no independent trials.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

FEWEST_TUPLES = 6
"""With fewer tuples no 95 % interval exists: even all of them on one side has a probability of 2/2^5 = 6 %."""


@dataclass(frozen=True)
class Estimate:
    """A location with its interval; the bounds are absent where there are too few pairs for the confidence that was
    asked for."""

    middle: float
    low: float | None
    high: float | None


def median(values: Sequence[float]) -> float | None:
    """The median, or nothing of nothing."""
    return statistics.median(values) if values else None


def location(values: Sequence[float], confidence: float = 0.95) -> Estimate | None:
    """Where independent values of a symmetric distribution lie: Hodges-Lehmann with the exact interval, or nothing of
    nothing."""
    if not values:
        return None
    averages = walsh_averages(values)
    # The place, from either end, of the average that bounds the interval; 0 where no interval is that sure.
    beyond = bisect_right(rank_sum_distribution(tuple(range(1, len(values) + 1))), (1 - confidence) / 2)
    if beyond == 0:
        return Estimate(statistics.median(averages), None, None)
    return Estimate(statistics.median(averages), averages[beyond - 1], averages[-beyond])


def ratio(pairs: Sequence[float], confidence: float = 0.95) -> Estimate | None:
    """The ratio behind the ratios of pairs: estimated on the logarithm, where 2 and 1/2 are equally far from 1."""
    found = location([math.log(pair) for pair in pairs], confidence)
    if found is None or found.low is None or found.high is None:
        return found and Estimate(math.exp(found.middle), None, None)
    return Estimate(math.exp(found.middle), math.exp(found.low), math.exp(found.high))


def walsh_averages(values: Sequence[float]) -> list[float]:
    """The averages of all pairs of values, each with itself included, in order."""
    ordered = sorted(values)  # ascending runs are quick to sort
    return sorted([(a + b) / 2 for n, a in enumerate(ordered) for b in ordered[n:]])


@lru_cache(maxsize=64)
def rank_sum_distribution(ranks: tuple[int, ...]) -> tuple[float, ...]:
    """For each total, how probable it is that the positive ones among these ranks sum up to no more, where a fair coin
    gives each its sign: the Wilcoxon signed-rank distribution, exactly."""
    # The number of ways to each total is the coefficient of a polynomial, the product of (1 + x^rank). It stands in one
    # large integer with `width` bytes a coefficient, so that the product of so many ranks is so many shifts and sums.
    width = len(ranks) // 8 + 1
    ways = 1
    for rank in ranks:
        ways += ways << 8 * width * rank
    packed = ways.to_bytes(width * (sum(ranks) + 1), "little")
    counts = (int.from_bytes(packed[start : start + width], "little") for start in range(0, len(packed), width))
    return tuple(count / 2 ** len(ranks) for count in accumulate(counts))
