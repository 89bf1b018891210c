"""The growth of a time with what it depends on: the law behind the points of a scaling row, in words, as pure functions
of numbers.

Why a law and not a line through points: "twice as slow at a million records" says nothing about ten million, while
"1.06x for every tenfold" does, and is wrong where no simple law holds, which then is said instead. Two things are asked
of the points, in this order.

1. Do they grow at all? The exponent p of t = c x^p is the least-squares slope of ln t over ln x, for each process by itself; its 95 %
   interval is Student's t over those slopes. A process is the unit, because its points share a memory layout and a moment. (A run has
   two to five processes, for which no distribution-free interval is that sure.) An interval with 0 in it is no growth.
2. By which law? Constant, a + b ln x, a + b x and c x^p are fitted to the medians by least squares on relative errors. A law is adequate
   if it misses no median by more than `TOLERANCE`, or by more than that point's own processes lie apart. The adequate one with the
   smallest squares is named; of several that fit, points decide little, so the words always give the mean growth as well.

Where x begins at 0 (indexes) there is no tenfold: what each further one adds is told instead. Threads have no law here
(`scaling` says why).
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from run_benches.analysis import figures

GrowthPoint = tuple[float, Sequence[float]]
"""A value of the axis, and what each process measured there, in nanoseconds an operation."""

TOLERANCE = 0.10
"""The share by which a law may pass by a median."""

FEWEST_POINTS = 3
"""Through two points runs every law."""

_COUNTED = {
    "records": ("record", "records"),
    "sharing": ("record that shares the value", "records that share the value"),
    "indexes": ("index", "indexes"),
    "partitions": ("partition", "partitions"),
    "readers": ("reader that waits", "readers that wait"),
}

_T_975 = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
)
"""Student's t, 97.5 %, from one degree of freedom on; the last one serves for more, and is a little wide there."""


@dataclass(frozen=True)
class Growth:
    """The growth that the points show. `law` is `constant`, `logarithmic`, `linear`, `power`, `irregular` (none of
    them) or `unknown` (too few points). The exponent is that of t = c x^p, with its 95 % interval; absent where x
    begins at 0, and (the interval) of one process."""

    axis: str
    law: str
    exponent: float | None
    low: float | None
    high: float | None
    words: str


@dataclass(frozen=True)
class _Interval:
    """A mean with its 95 % interval; of one process there is none."""

    middle: float
    low: float | None
    high: float | None

    def holds(self, value: float) -> bool:
        return self.low is not None and self.high is not None and self.low <= value <= self.high

    def shown(self, form: Callable[[float], str]) -> str:
        return "1 process" if self.low is None or self.high is None else f"{form(self.low)} to {form(self.high)}"


@dataclass(frozen=True)
class _Law:
    """A law through the medians: what it says at each point, as relative errors, and what one step of its basis adds."""

    name: str
    errors: list[float]
    step: float

    @property
    def squares(self) -> float:
        return sum(error * error for error in self.errors)


def fit(points: Sequence[GrowthPoint], axis: str = "x") -> Growth:
    """The law behind the points, in any order. Points without a measurement are left out."""
    measured = sorted((float(x), list(times)) for x, times in points if times and min(times) > 0)
    assert len({x for x, _ in measured}) == len(measured), "one point for each value of the axis"
    if len(measured) < FEWEST_POINTS:
        return Growth(
            axis, "unknown", None, None, None, f"not enough points: {len(measured)} of at least {FEWEST_POINTS}"
        )
    return _added(measured, axis) if measured[0][0] <= 0 else _grown(measured, axis)


def _grown(points: Sequence[GrowthPoint], axis: str) -> Growth:
    """Growth by tenfolds."""
    logs = [math.log(x) for x, _ in points]
    exponent = _over_processes(points, lambda times: _line(logs, [math.log(time) for time in times])[1])
    many = _COUNTED.get(axis, ("", axis))[1]
    constant, *growing = _laws(points)
    adequate = [law for law in ([constant] if exponent.holds(0) else growing) if _adequate(points, law)]
    found = min(adequate, key=lambda law: law.squares, default=None)
    if found is None:
        local = [
            math.log(after / before) / math.log(next_x / x)
            for ((x, _), before), ((next_x, _), after) in itertools.pairwise(zip(points, _medians(points), strict=True))
        ]
        words = f"no simple law: {_tenfold(min(local))} to {_tenfold(max(local))} for every tenfold of {many}, from one point to the next"
    elif found.name == "constant":
        words = f"no growth seen: at most {_tenfold(exponent.high or 0)} for every tenfold of {many}"
    else:
        verb = "grows by" if exponent.middle > 0 else "falls to"
        words = f"{verb} {_tenfold(exponent.middle)} for every tenfold of {many} ({exponent.shown(_tenfold)})"
        if found.name == "logarithmic":
            words += f"; logarithmic: {figures.added_time(found.step * math.log(10))} each"
        if found.name == "linear":
            words = f"linear: {figures.added_time(found.step)} for each further {_COUNTED.get(axis, (axis, ''))[0]}; {words}"
    return Growth(axis, found.name if found else "irregular", exponent.middle, exponent.low, exponent.high, words)


def _laws(points: Sequence[GrowthPoint]) -> list[_Law]:
    xs, medians = [x for x, _ in points], _medians(points)
    logs, log_times = [math.log(x) for x in xs], [math.log(time) for time in medians]
    level = statistics.fmean(log_times)
    start, power = _line(logs, log_times)
    return [
        _Law("constant", [time - level for time in log_times], 0.0),
        _Law("power", [time - start - power * log for log, time in zip(logs, log_times, strict=True)], power),
        _straight("logarithmic", logs, medians),
        _straight("linear", xs, medians),
    ]


def _straight(name: str, basis: Sequence[float], medians: Sequence[float]) -> _Law:
    """a + b basis, each point weighed by 1/t^2: what is small are the relative errors."""
    start, step = _line(basis, medians, [1 / (time * time) for time in medians])
    return _Law(name, [(start + step * at) / time - 1 for at, time in zip(basis, medians, strict=True)], step)


def _added(points: Sequence[GrowthPoint], axis: str) -> Growth:
    """Returns what each further one adds, where there may be none."""
    xs = [x for x, _ in points]
    each = _over_processes(points, lambda times: _line(xs, times, [1 / (time * time) for time in times])[1])
    law, medians = _straight("linear", xs, _medians(points)), _medians(points)
    one = _COUNTED.get(axis, (axis, ""))[0]
    level = statistics.fmean(medians)
    flat = _Law("constant", [level / time - 1 for time in medians], 0.0)
    if each.holds(0) and _adequate(points, flat):
        return Growth(
            axis,
            "constant",
            None,
            None,
            None,
            f"no growth seen: at most {figures.added_time(each.high or 0)} for each further {one}",
        )
    if not each.holds(0) and _adequate(points, law):
        share = figures.percent(each.middle / medians[0])
        words = f"linear: {figures.added_time(each.middle)} for each further {one} ({each.shown(figures.added_time)}), {share} of the time with none"
        return Growth(axis, "linear", None, None, None, words)
    local = [
        (after - before) / (next_x - x)
        for (x, before), (next_x, after) in itertools.pairwise(zip(xs, medians, strict=True))
    ]
    words = f"no simple law: {figures.added_time(min(local))} to {figures.added_time(max(local))} for each further {one}, from one point to the next"
    return Growth(axis, "irregular", None, None, None, words)


def _adequate(points: Sequence[GrowthPoint], law: _Law) -> bool:
    return all(
        abs(error) <= max(TOLERANCE, math.log(max(times) / min(times)))
        for error, (_, times) in zip(law.errors, points, strict=True)
    )


def _over_processes(points: Sequence[GrowthPoint], slope: Callable[[list[float]], float]) -> _Interval:
    """The mean of the slopes of the processes that measured every point, with Student's interval."""
    count = min(len(times) for _, times in points)
    slopes = [slope([times[process] for _, times in points]) for process in range(count)]
    middle = statistics.fmean(slopes)
    if count < 2:
        return _Interval(middle, None, None)
    half = _T_975[min(count - 1, len(_T_975)) - 1] * statistics.stdev(slopes) / math.sqrt(count)
    return _Interval(middle, middle - half, middle + half)


def _line(xs: Sequence[float], ys: Sequence[float], weights: Sequence[float] | None = None) -> tuple[float, float]:
    """Start and slope of the least-squares line."""
    weights = weights or [1.0] * len(xs)
    total = sum(weights)
    x_mean = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    y_mean = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    spread = sum(w * (x - x_mean) ** 2 for w, x in zip(weights, xs, strict=True))
    slope = sum(w * (x - x_mean) * (y - y_mean) for w, x, y in zip(weights, xs, ys, strict=True)) / spread
    return y_mean - slope * x_mean, slope


def _medians(points: Sequence[GrowthPoint]) -> list[float]:
    return [statistics.median(times) for _, times in points]


def _tenfold(exponent: float) -> str:
    return f"{figures.significant(10**exponent)}x"
