"""The verdicts that the usual tools would have given on the same times: Criterion's, and whether `critcmp -t 5` lists
the row.

Why: a rate of false alarms means little alone. Both rules are made anew here from their sources (criterion 0.8.2,
analysis/compare.rs and `compare_to_threshold` of report.rs; critcmp, `biggest_difference` of output.rs), since
Criterion keeps no p-value and prints its verdict for people only. Their noise threshold and levels are their defaults.
Only the number of resamples is smaller than Criterion's hundred thousand: it moves a p by a few thousandths, and a
calibration applies the rule tens of thousands of times.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

SIGNIFICANCE = 0.05
NOISE = 0.01
CONFIDENCE = 0.95
CRITCMP_THRESHOLD = 0.05
RESAMPLES = 4000


@dataclass(frozen=True)
class Change:
    """The change of the mean from one set of samples to another as Criterion sees it: a share, its interval, and the p
    of its t-test."""

    p: float
    low: float
    high: float
    mean: float

    @property
    def changed(self) -> bool:
        """Criterion prints that performance has improved or regressed: significant, and the interval beyond the noise
        threshold."""
        return self.p < SIGNIFICANCE and (self.low > NOISE or self.high < -NOISE)

    @property
    def listed(self) -> bool:
        """`critcmp -t 5` shows the row: the slower mean is more than 5 % above the faster one."""
        return max(1 + self.mean, 1 / (1 + self.mean)) - 1 > CRITCMP_THRESHOLD


def change(old: Sequence[float], new: Sequence[float], seed: int) -> Change | None:
    """Compares two sets of times of one operation; nothing where one has fewer than the two samples that a variance
    needs."""
    if min(len(old), len(new)) < 2:
        return None
    rng = numpy.random.default_rng(seed)
    base, now = numpy.asarray(old), numpy.asarray(new)
    # The t-test draws both samples from what they have in common ...
    pool = rng.choice(numpy.concatenate([now, base]), (RESAMPLES, len(now) + len(base)))
    with numpy.errstate(divide="ignore", invalid="ignore"):
        ts = _t(pool[:, : len(now)], pool[:, len(now) :])
        t = _t(now[None, :], base[None, :])[0]
    ts = ts[numpy.isfinite(ts)]
    below = int((ts < t).sum())
    p = 2 * min(below, len(ts) - below) / len(ts) if len(ts) else 1.0
    # ... and the interval draws each from itself.
    ratios = (
        rng.choice(now, (RESAMPLES, len(now))).mean(axis=1) / rng.choice(base, (RESAMPLES, len(base))).mean(axis=1) - 1
    )
    low, high = numpy.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Change(
        round(p, 4), round(float(low), 5), round(float(high), 5), round(float(now.mean() / base.mean() - 1), 5)
    )


def _t(a: NDArray[numpy.float64], b: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    """Welch's t of each line."""
    spread = a.var(axis=1, ddof=1) / a.shape[1] + b.var(axis=1, ddof=1) / b.shape[1]
    return numpy.asarray((a.mean(axis=1) - b.mean(axis=1)) / numpy.sqrt(spread))
