"""Rows held against their floors, and how they stand to their goals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from run_benches.analysis import figures
from run_benches.analysis.row import DRIVER, FLOOR, OURS, Row, absence
from run_benches.store.runs import Ratio

Standing = Literal["met", "missed", "not shown"]
"""The standing of a row to its goal: met if its whole interval reaches it, missed if none of it does."""

MOST_TUPLES = 1000
"""More would be needed for nothing that anybody waits for."""


@dataclass(frozen=True)
class Held:
    """A row held against its floor."""

    row: Row
    floor: str
    ratio: Ratio | None

    @property
    def is_peer(self) -> bool:
        """True if it is held against another system, without a goal, and not against what it is built on."""
        goals = [
            goal for held in (self.ratio, self.row.bench.facts.floor) if held for goal in (held.at_least, held.aim)
        ]
        return self._subject not in (OURS, FLOOR, DRIVER) and all(goal is None for goal in goals)

    @property
    def is_own(self) -> bool:
        """True if it is held against a row of ours, which either may be faster than."""
        return self._subject == OURS

    @property
    def judged(self) -> bool:
        """True if there is an interval to judge by."""
        return (
            self.ratio is not None
            and self.ratio.state == "ran"
            and None not in (self.ratio.ratio, self.ratio.low, self.ratio.high)
        )

    @property
    def standing(self) -> Standing | None:
        """The standing of the row to its goal; nothing without a goal, or without an interval."""
        if self.goal is None or self._interval is None:
            return None
        _, low, high = self._interval
        return "met" if low >= self.goal else "missed" if high < self.goal else "not shown"

    @property
    def goal(self) -> float | None:
        """The ratio that was declared beforehand; one a row."""
        return (
            self.ratio.at_least
            if self.ratio
            else self.row.bench.facts.floor.at_least
            if self.row.bench.facts.floor
            else None
        )

    @property
    def excess_ns(self) -> float | None:
        """The time that an operation has to lose for certain to meet the goal, by the higher end of the interval;
        `None` unless it is missed."""
        measured = self.row.measured
        if self.standing != "missed" or measured is None or self._interval is None or not self.goal:
            return None
        return measured.middle * (1 - self._interval[2] / self.goal)

    @property
    def tuples_needed(self) -> int | None:
        """With about how many tuples a goal that is neither would be met or missed, if the ratio stayed what it is;
        `None` beyond `MOST_TUPLES`."""
        if self.standing != "not shown" or self._interval is None or self.ratio is None or not self.goal:
            return None
        middle, low, high = (math.log(end) for end in self._interval)
        away = middle - math.log(self.goal)
        half_width = middle - low if away >= 0 else high - middle
        needed = len(self.ratio.pairs) * (half_width / away) ** 2 if away else math.inf
        return math.ceil(needed) if needed <= MOST_TUPLES else None

    @property
    def verdict(self) -> str:
        """The verdict on the goal, in words; a missed one as plain as a met one."""
        if self.goal is None:
            return "a peer, no goal" if self.is_peer else "no goal"
        match self.standing:
            case None:
                return "not judged"
            case "missed" if self.excess_ns is not None:
                return f"missed by {figures.time(self.excess_ns)}"
            case "not shown":
                needed = f"about {self.tuples_needed}" if self.tuples_needed else f"more than {MOST_TUPLES}"
                return f"not shown ({needed} tuples would show it)"
            case standing:
                return standing

    @property
    def why_not(self) -> str:
        """Why there is no interval, in words."""
        if self.ratio is None:
            return f"{figures.NOT_RUN}: no turns with its floor were planned in this run"
        if self.ratio.state != "ran":
            return absence(self.ratio.state, self.ratio.reasons)
        return f"{figures.plural(len(self.ratio.pairs), 'tuple')}: too few for an interval"

    @property
    def _subject(self) -> str:
        return (*self.floor.split("/"), "", "", "")[2]

    @property
    def _interval(self) -> tuple[float, float, float] | None:
        """The ratio, and the ends of its interval."""
        found = self.ratio
        if found is None or not self.judged or found.ratio is None or found.low is None or found.high is None:
            return None
        return found.ratio, found.low, found.high


def counted_goals(held: Sequence[Held]) -> str:
    """Counts the goals of these rows by their standing: `32 met, 9 missed, 12 not shown, 0 not judged`."""
    standings = [one.standing for one in held]
    told: list[tuple[Standing | None, str]] = [
        ("met", "met"),
        ("missed", "missed"),
        ("not shown", "not shown"),
        (None, "not judged"),
    ]
    return ", ".join(f"{standings.count(standing)} {words}" for standing, words in told)
