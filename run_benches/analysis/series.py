"""The growth of rows' times with what they depend on: series of rows along one axis, and their law.

Why series come from facts: a bench says of each of its rows where it stands on which axis, so a row that is added joins
its series by itself. Rows of one series differ along its axis and in nothing else, so all of one layer, operation,
subject and (but along the axis of threads) number of threads are one series. The law behind the points is fitted by
`growth`. Threads have no law but speed-ups, each with its interval from turns with one thread: a law of scalability has
three parameters, and those who use it ask for at least six points within the cores (Gunther, Guerrilla Capacity
Planning, 5.3), which no row has.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from run_benches.analysis import figures, growth
from run_benches.analysis.contrasts import Contrast
from run_benches.analysis.growth import Growth
from run_benches.analysis.row import OURS, Row

LAYER = "scaling"
"""The bench whose rows all lie along an axis."""

THREADS = "threads"
AXES = {
    THREADS: "threads",
    "records": "records in the store",
    "indexes": "indexes of the table",
    "sharing": "records that share the value",
    "partitions": "partitions of the stream",
    "readers": "readers that wait",
}
"""The axes over which a row's time is told, in the order of the page, and in words."""


@dataclass(frozen=True)
class Series:
    """Rows of one operation, by where they stand on an axis."""

    axis: str
    name: str
    rows: dict[float, Row]

    @property
    def cores(self) -> int | None:
        """Those of the machine, if it is known how many."""
        return next(iter(self.rows.values())).made.machine.cores

    @property
    def layer(self) -> str:
        """The bench whose rows they are."""
        return next(iter(self.rows.values())).layer

    @property
    def work(self) -> tuple[str, str]:
        """Operation and subject."""
        row = next(iter(self.rows.values()))
        return row.operation, row.subject

    @property
    def law(self) -> Growth:
        """The law behind the points that were measured; threads have none."""
        points = [(x, row.bench.points_ns) for x, row in self.rows.items() if row.measured]
        return growth.fit(points, self.axis)

    def speed_up(self, threads: float) -> Contrast | None:
        """The rate of so many threads over that of one; nothing where the two took no turns."""
        one, many = self.rows.get(1.0), self.rows.get(float(threads))
        return one.over(many) if one and many and threads > 1 else None

    @property
    def words(self) -> str:
        """The words on the series, in a line."""
        if self.axis != THREADS:
            fewest = min((len(row.bench.points_ns) for row in self.rows.values() if row.measured), default=0)
            return self.law.words if fewest != 1 else "not resolved (1 process: too few for an interval)"
        gains = [(x, self.speed_up(x)) for x in self.rows if x > 1]
        told = [
            f"{figures.factor(gain)} with {figures.plural(int(x), 'thread')}"
            + (" (oversubscribed)" if self.oversubscribed(x) else "")
            for x, gain in gains
            if gain is not None
        ]
        return f"the rate of one thread, {', '.join(told)}" if told else f"speed-up {figures.NO_TURNS}"

    def oversubscribed(self, x: float) -> bool:
        """Returns whether so many threads share the cores of the machine."""
        return oversubscribed(self.axis, x, self.cores)


def oversubscribed(axis: str, x: float, cores: int | None) -> bool:
    """Returns whether a point is one of more threads than cores."""
    return axis == THREADS and cores is not None and x > cores


def series(rows: Iterable[Row], axis: str) -> list[Series]:
    """Every series along an axis, in the order of the run, its points from the left."""
    found: dict[str, dict[float, Row]] = {}
    for row in rows:
        place, threads = row.bench.facts.scale, row.bench.facts.threads
        if place is not None and place.axis == axis:
            crowd = "" if axis == THREADS or threads == 1 else f", {figures.plural(threads, 'thread')}"
            subject = "" if row.subject == OURS else f", {row.subject}"
            found.setdefault(f"{row.layer}/{row.operation}{subject}{crowd}", {})[place.x] = row
    return [Series(axis, name, dict(sorted(placed.items()))) for name, placed in found.items()]


def axes(rows: Iterable[Row]) -> list[str]:
    """The axes of which the run has rows."""
    places = [row.bench.facts.scale for row in rows]
    seen = {place.axis for place in places if place is not None}
    return [axis for axis in AXES if axis in seen] + sorted(seen - set(AXES))
