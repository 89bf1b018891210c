"""The statistics of turns: the log ratio of one lane's time over another's, and the time of a turn.

Lanes take turns up a random order and down again (of two, A and B: ABBA or BAAB), a palindrome. Within one, the mean of
a lane's logarithms less that of another's is free of a linear drift. The first palindromes are warm-up. Where stalls
are part of the cost, all time counts, else the median over palindromes, which one stall cannot move.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CountedTurns:
    """The turns that count: of each palindrome the nanoseconds of each lane's two turns."""

    palindromes: Sequence[Sequence[Sequence[float]]]

    @classmethod
    def of(cls, turns: Sequence[tuple[int, float]], lanes: int, warm_up: int) -> "CountedTurns":
        """Sorts turns (lane, nanoseconds), which are in the order in which they were taken, less so many palindromes."""
        palindromes = []
        for start in range(2 * lanes * warm_up, len(turns), 2 * lanes):
            times: list[list[float]] = [[] for _ in range(lanes)]
            for lane, nanoseconds in turns[start : start + 2 * lanes]:
                times[lane].append(max(1.0, nanoseconds))
            palindromes.append(times)
        return cls(palindromes)

    def log_ratio(self, lane: int, other: int, by_total: bool) -> float:
        """The natural logarithm of a lane's time over another's."""
        if by_total:
            return math.log(self._total(lane) / self._total(other))
        return statistics.median(_mean_log(one[lane]) - _mean_log(one[other]) for one in self.palindromes)

    def turn_ns(self, lane: int, by_total: bool) -> float:
        """The time of one turn of a lane."""
        if by_total:
            return self._total(lane) / (2 * len(self.palindromes))
        return math.exp(statistics.median(_mean_log(one[lane]) for one in self.palindromes))

    def _total(self, lane: int) -> float:
        return sum(sum(one[lane]) for one in self.palindromes)


def _mean_log(times_ns: Sequence[float]) -> float:
    return statistics.fmean(map(math.log, times_ns))
