"""Figures as a person reads them: the one home of how a time, a rate, a ratio, a loss and a spread are printed.

Why one home: the tables on the terminal and the pages print the same quantities, and a reader who finds `1.2 us` here
and `1200 ns` there checks arithmetic instead of reading. So: three significant digits, the unit beside every number
(T5), no number without a measurement behind it (T1: a statistic of nothing is `None`, and `None` prints as words, never
as 0), and ASCII alone, so that what the page says can be found with the keyboard one has.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from run_benches.analysis.contrasts import MARGIN, Contrast
from run_benches.stats.estimates import Estimate

NOT_RUN = "not run"
"""The words where a figure would stand, always followed by the reason."""

NO_TURNS = f"{NOT_RUN}: the two took no turns"
"""The words where a difference would stand that was not measured as one."""

NOT_MEASURED = "not measured"
"""The words where nothing was planned that would give the figure."""

TOO_FEW = "not enough samples"
"""The words where a quantile would stand that too few operations lie beyond."""

_TIMES = ((1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s"))
_BYTES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"))  # decimal: a MiB is another unit
_SIZES = ((1.0, "B"), (1024.0, "KiB"), (1024.0**2, "MiB"), (1024.0**3, "GiB"))
_COUNTS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"))


@dataclass(frozen=True)
class Spread:
    """A figure of some processes: the median, and the range from the lowest process to the highest (not a confidence
    interval)."""

    middle: float
    low: float
    high: float
    count: int


def spread(points: Sequence[float]) -> Spread | None:
    """Returns what some processes measured, as one figure; `None` when there was none."""
    return Spread(statistics.median(points), min(points), max(points), len(points)) if points else None


def time(nanoseconds: float) -> str:
    """`412 ns`, `1.23 us`, `45.6 ms`."""
    factor, unit = time_step(nanoseconds)
    return f"{significant(nanoseconds / factor)} {unit}"


def added_time(nanoseconds: float) -> str:
    """A time on top of another, with its sign: `+1.23 us`, `-45.6 ns`."""
    return ("-" if nanoseconds < 0 else "+") + time(abs(nanoseconds))


def time_step(nanoseconds: float) -> tuple[float, str]:
    """The unit in which a time is printed, and its nanoseconds: `(1000.0, "us")`."""
    return _step(nanoseconds, _TIMES)


def time_range(low: float, high: float) -> str:
    """`1.20 to 1.31 us`: both ends in the unit of the larger one."""
    factor, unit = time_step(high)
    return f"{significant(low / factor)} to {significant(high / factor)} {unit}"


def time_spread(figure: Spread) -> str:
    """`1.23 us (1.20 to 1.31 us)`; of a single process the spread is not known, and that is said."""
    around = time_range(figure.low, figure.high) if figure.count > 1 else "1 process"
    return f"{time(figure.middle)} ({around})"


def amount_spread(figure: Spread) -> str:
    """`4.82 k (4.71 k to 4.90 k)`, as `time_spread` says it."""
    around = f"{amount(figure.low)} to {amount(figure.high)}" if figure.count > 1 else "1 process"
    return f"{amount(figure.middle)} ({around})"


def per_second(nanoseconds: float, unit: str, units_per_operation: float = 1.0) -> str:
    """Formats the number of units that fit into a second at that time an operation, without the unit's name: `812 k`,
    `1.02 GB`."""
    each_second = units_per_operation * 1e9 / nanoseconds
    factor, prefix = _step(each_second, _BYTES if unit == "bytes" else _COUNTS)
    return f"{significant(each_second / factor)} {prefix}".rstrip()


def rate(nanoseconds: float, unit: str, units_per_operation: float = 1.0) -> str:
    """`812 k operations/s`, `1.02 GB/s`."""
    amount = per_second(nanoseconds, unit, units_per_operation)
    return f"{amount}/s" if unit == "bytes" else f"{amount} {unit}/s"


def ratio(estimate: float, low: float | None = None, high: float | None = None) -> str:
    """`0.934 [0.921, 0.945]`; without an interval only the estimate."""
    interval = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
    return f"{estimate:.3f}{interval}"


def size(count_of_bytes: float) -> str:
    """A size on disk or in memory, in binary units: `12.3 MiB`."""
    factor, unit = _step(count_of_bytes, _SIZES)
    return f"{significant(count_of_bytes / factor)} {unit}"


def measure(value: float, unit: str) -> str:
    """A value of any unit, with its unit: `12.3 MiB`, `1.20 s`, `3.02`, `14 %`, `420 keys`."""
    match unit:
        case "bytes":
            return size(value)
        case "nanoseconds":
            return time(value)
        case "seconds":
            return time(value * 1e9)
        case "share":
            return percent(value)
        case "ratio":
            return significant(value)
        case _:
            return f"{count(value)} {unit}"


def measure_spread(figure: Spread, unit: str) -> str:
    """A value of any unit with the range of the processes, where these differ. How many they are stands elsewhere."""
    ends = (measure(figure.low, unit), measure(figure.high, unit))
    return (
        measure(figure.middle, unit)
        if ends[0] == ends[1]
        else f"{measure(figure.middle, unit)} ({ends[0]} to {ends[1]})"
    )


def added_estimate(estimate: Estimate) -> str:
    """`+612 ns [+540 ns, +701 ns]`; without an interval, that is said."""
    if estimate.low is None or estimate.high is None:
        return f"{added_time(estimate.middle)} (too few tuples for an interval)"
    return f"{added_time(estimate.middle)} [{added_time(estimate.low)}, {added_time(estimate.high)}]"


def contrast(found: Contrast, confidence: float = 0.95) -> str:
    """`+72 % [+65 %, +79 %]` more time; `same within 2 % [-0.5 %, +1.1 %]`; `not resolved [-3.0 %, +9.2 %]`: never a
    number alone."""
    estimate = found.added(confidence)
    if estimate.low is None or estimate.high is None:
        return f"not resolved ({plural(len(found.logs), 'tuple')}: too few for an interval)"
    interval = f"[{added_share(estimate.low)}, {added_share(estimate.high)}]"
    return f"{_words(found, confidence, added_share(estimate.middle))} {interval}"


def factor(found: Contrast, confidence: float = 0.95) -> str:
    """The same as a factor: `0.82x [0.80x, 0.84x]`, `same within 2 % [0.99x, 1.01x]`, `not resolved [0.97x, 1.09x]`."""
    estimate = found.ratio(confidence)
    if estimate.low is None or estimate.high is None:
        return f"not resolved ({plural(len(found.logs), 'tuple')}: too few for an interval)"
    interval = f"[{significant(estimate.low)}x, {significant(estimate.high)}x]"
    return f"{_words(found, confidence, significant(estimate.middle) + 'x')} {interval}"


def within_margin() -> str:
    """`2 %`: the margin within which two times are the same."""
    return percent(MARGIN).replace(".0 ", " ")


def _words(found: Contrast, confidence: float, difference: str) -> str:
    verdict = found.verdict(confidence)
    return {"differ": difference, "same": f"same within {within_margin()}", "not resolved": verdict}[verdict]


def added_share(share: float) -> str:
    """`+12 %`, `-0.8 %`."""
    return ("" if share < 0 else "+") + percent(share)


def amount(value: float) -> str:
    """A count of things, shortened: `812`, `4.82 k`, `1.03 M`."""
    factor, prefix = _step(value, _COUNTS)
    return f"{significant(value / factor)} {prefix}" if prefix else count(value)


def round_amount(value: float) -> str:
    """A count that was chosen, not measured: `8`, `10 k`, `1 M`."""
    factor, prefix = _step(value, _COUNTS)
    return f"{value / factor:g} {prefix}".rstrip()


def times(estimate: float, low: float | None, high: float | None) -> str:
    """Formats how many times as fast something is, over any range: `41.7 [30.5, 45.8]`, `0.106 [0.0740, 0.172]`."""
    interval = "" if low is None or high is None else f" [{significant(low)}, {significant(high)}]"
    return significant(estimate) + interval


def percent(fraction: float) -> str:
    """`31 %`, `2.4 %`, `-0.8 %`: whole above ten, one digit below."""
    hundredths = fraction * 100
    digits = 0 if abs(hundredths) >= 9.95 else 1
    return f"{hundredths:.{digits}f} %".replace("-0.0 ", "0.0 ")


def percent_range(low: float, high: float) -> str:
    """`29 % to 33 %`."""
    return f"{percent(low)} to {percent(high)}"


def count(value: float) -> str:
    """A plain count, with a fraction only where there is one: `0`, `3`, `3.02`."""
    return f"{value:.0f}" if value == round(value) else significant(value)


def goal(value: float) -> str:
    """A goal as it was declared: `0.95`, `1.2`."""
    return f"{value:g}"


def plural(number: int, word: str) -> str:
    """`1 process`, `5 processes`, `2 indexes`, `3 families`."""
    if number != 1 and word.endswith("y"):
        return f"{number} {word[:-1]}ies"
    ending = "" if number == 1 else "es" if word.endswith(("s", "x")) else "s"
    return f"{number} {word}{ending}"


def significant(value: float, digits: int = 3) -> str:
    """The number with that many significant digits, never in exponents: `0.412`, `1.23`, `45.6`, `1230`."""
    if value == 0:
        return "0"
    rounded = _rounded(value, digits)
    return f"{rounded:.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def _rounded(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits - 1}e}")


def _step(value: float, steps: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest unit of which there is at least one, after rounding: 999.7 ns is `1.00 us`, not `1000 ns`."""
    return max((step for step in steps if step[0] <= _rounded(abs(value))), default=steps[0])
