"""The differences between two rows, from lanes that took turns: the only differences that are printed.

Why three words: a difference whose interval excludes none is told with its interval; one whose 90 % interval lies
within the margin is told as `same`; anything else is told as not resolved, with the interval, and never as a number
alone. Where a table draws conclusions from many differences at once, their intervals hold together (Bonferroni):
`confidence` shares 5 % among them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from run_benches.stats import estimates
from run_benches.stats.estimates import Estimate

MARGIN = 0.02
"""Within it, two times are the same to whoever optimises."""

ContrastVerdict = Literal["differ", "same", "not resolved"]


@dataclass(frozen=True)
class Contrast:
    """The log ratios of a row's time over another's: natural logarithms, one a tuple."""

    logs: tuple[float, ...]

    def turned(self) -> "Contrast":
        """The other's time against the row's."""
        return Contrast(tuple(-log for log in self.logs))

    def ratio(self, confidence: float = 0.95) -> Estimate:
        """The row's time over the other's."""
        found = estimates.ratio([math.exp(log) for log in self.logs], confidence)
        assert found is not None, "a contrast has tuples"
        return found

    def added(self, confidence: float = 0.95) -> Estimate:
        """Returns what the row takes more than the other, as a share of the other's time."""
        return _moved(self.ratio(confidence), -1.0, 1.0)

    def nanoseconds(self, base_ns: float, confidence: float = 0.95) -> Estimate:
        """The same as a time, where the other takes `base_ns`."""
        return _moved(self.ratio(confidence), -1.0, base_ns)

    def verdict(self, confidence: float = 0.95) -> ContrastVerdict:
        """Returns whether the two differ for certain, are the same within the margin, or cannot be told."""
        found = self.ratio(confidence)
        if found.low is not None and found.high is not None and not found.low <= 1 <= found.high:
            return "differ"
        narrow = self.ratio(2 * confidence - 1)  # two one-sided tests, each at the level of the interval
        within = (
            narrow.low is not None
            and narrow.high is not None
            and 1 / (1 + MARGIN) <= narrow.low
            and narrow.high <= 1 + MARGIN
        )
        return "same" if within else "not resolved"


def _moved(estimate: Estimate, by: float, factor: float) -> Estimate:
    low, high = (None if end is None else (end + by) * factor for end in (estimate.low, estimate.high))
    return Estimate((estimate.middle + by) * factor, low, high)


def joint(confidence: float, count: int) -> float:
    """The confidence of each of so many intervals that shall hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(1, count)


@dataclass(frozen=True)
class Controls:
    """The check of a run's intervals by its second lanes: the number of these, and the number that hold that a row is
    as fast as itself."""

    looked_at: int
    held: int

    @property
    def contaminated(self) -> bool:
        """True if chance alone would miss so often in less than one run of a hundred."""
        missed = self.looked_at - self.held
        return (
            sum(
                math.comb(self.looked_at, k) * 0.05**k * 0.95 ** (self.looked_at - k)
                for k in range(missed, self.looked_at + 1)
            )
            < 0.01
        )


def controls(contrasts: Mapping[str, Mapping[str, Sequence[float]]]) -> Controls:
    """The A/A tests of a run: each base against its second lane."""
    found = [Contrast(tuple(others[id])).ratio() for id, others in contrasts.items() if others.get(id)]
    sure: Sequence[Estimate] = [estimate for estimate in found if estimate.low is not None]
    return Controls(len(sure), sum((estimate.low or 0) <= 1 <= (estimate.high or 0) for estimate in sure))
