"""Effects as a person reads them: the one home of how a change, its interval and a p-value are printed.

Why apart from `figures`: an effect is a natural logarithm of B's time over A's, because there 2 and 1/2 are equally far
from no change, and nobody reads logarithms. What is printed is the change in percent, always with its sign, and with
the 95 % interval wherever there are enough pairs for one.
"""

import math

from run_benches.stats.judge import Judgement


def share(effect: float) -> float:
    """The change of the time as a share: 0.05 is 5 % slower."""
    return math.expm1(effect)


def change(effect: float) -> str:
    """`+5.1 %`, `-0.8 %`."""
    return f"{_hundredths(effect)} %"


def interval(low: float | None, high: float | None) -> str:
    """`[+4.2, +6.0]`, in percent; with too few pairs there is none, and that is said."""
    return "[too few pairs]" if low is None or high is None else f"[{_hundredths(low)}, {_hundredths(high)}]"


def estimated(judgement: Judgement) -> str:
    """`+5.1 % [+4.2, +6.0]`: the estimate with its 95 % interval."""
    return f"{change(judgement.estimate)} {interval(judgement.low, judgement.high)}"


def verdict(judgement: Judgement) -> str:
    """The verdict in its words; `same (+0.8 %)` where the 95 % interval tells a change that is within the margin."""
    excluded = judgement.low is not None and judgement.high is not None and not judgement.low <= 0 <= judgement.high
    return f"same ({change(judgement.estimate)})" if judgement.verdict == "same" and excluded else judgement.verdict


def probability(p: float | None) -> str:
    """`0.031`, `0.0004`, `below 0.0001`; nothing of nothing."""
    if p is None:
        return ""
    return "below 0.0001" if p < 0.0001 else f"{p:.1g}" if p < 0.001 else f"{p:.2g}"


def _hundredths(effect: float) -> str:
    hundredths = 100 * share(effect)
    digits = 0 if abs(hundredths) >= 99.95 else 1
    return f"{hundredths:+.{digits}f}".replace("-0.0", "0.0").replace("+0.0", "0.0")
