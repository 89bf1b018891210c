"""The way from the pairs of a row to a verdict: pure functions of numbers, and every rule in one place.

Why these rules. The test is Wilcoxon's signed-rank test over pairs of processes with its exact distribution, and the
estimate with its intervals is the one that belongs to it (Hodges-Lehmann), so that one outlier costs a rank and not the
verdict (Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., ch. 3). All rows of a decision are one
family, of which no more than alpha may contain any false verdict, however many rows there are (Holm 1979). Rows that
are clear end early: there are two looks, after `EARLY_PAIRS` and after all pairs, and each spends its share of every
level, so that the two together spend no more than one look would (Bonferroni); the number of rows that Holm corrects
for stays that of all rows that were decided. A large p proves nothing, so `same` is a claim with a proof of its own: an
interval lies within the margin, that of 90 % in the screen, which is two one-sided tests at 5 % (Schuirmann 1987). What
is neither proved to differ by more than the margin nor proved to be the same can't be told. Rates of our own errors
come with exact bounds (Clopper & Pearson 1934).

Effects are natural logarithms of B's time over A's; margins are shares of A's time, so a row is within 2 % where its effect lies between
-ln 1.02 and ln 1.02: the same change is as far from none in either direction.
"""

import itertools
import math
import random
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from run_benches.stats import estimates

Verdict = Literal["slower", "faster", "same", "can't tell"]

AllocationVerdict = Literal["more allocations", "fewer allocations"]
"""Of a row whose limit of allocations was passed, so that it has no times; a count needs no statistics."""

JudgedStage = Literal["screen", "early look", "decision"]

ComparisonOutcome = Literal["slower", "more allocations", "fine", "contaminated", "nothing"]

MOST_PAIRS = 500
"""Of a row, however large the budget is. One that would need more is not told how many: nobody would wait for them, and
its scatter is not known that well."""

LEVEL = 0.05
"""Of the intervals that are printed, and of each one-sided test for `same`."""

EARLY_PAIRS = 13
"""Fresh pairs after which clear rows end: the fewest that tell one row of forty at the early look's share of the level.
"""

EARLY_SHARE = 0.2
"""The share of each level that the early look spends; the last look has the rest."""

FINEST_DEVIATION = 1e-4
"""Pairs that agree better than this agree by rounding."""

_OUTLIER = 10
"""Scaled deviations beyond which a pair is an outlier."""

_DRAWS = 400
"""Simulated rows behind `smallest_visible`: they place it within about 2 % of itself."""


@dataclass
class Judgement:
    """The conclusion about a row. Effects (`estimate`, bounds) are natural logarithms of B's time over A's; `low`,
    `high` bound the interval of confidence 1 - `level`, and `same_low`, `same_high` that of 1 - 2 `level`, which lies
    within the margin where the row is the same; `outliers` counts pairs beyond 10 scaled deviations, none of which is
    dropped; `pairs_needed` is what a row that can't be told would take."""

    verdict: Verdict
    stage: JudgedStage
    pairs: int
    estimate: float
    low: float | None
    high: float | None
    same_low: float | None
    same_high: float | None
    p: float | None = None
    p_adjusted: float | None = None
    outliers: int = 0
    pairs_needed: int | None = None
    level: float = LEVEL


def signed_rank_p(effects: Sequence[float]) -> float | None:
    """Returns the p-value of Wilcoxon's signed-rank test, two-sided, exact: how often effects that have no direction
    would lean to one side as much as these.

    Effects of zero are left out, as Wilcoxon did; equal ones share their ranks, and the distribution is that of these
    very ranks.
    """
    if not effects:
        return None
    signed = sorted((effect for effect in effects if effect), key=abs)
    if not signed:
        return 1.0
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, effect in enumerate(signed, start=1):
        first.setdefault(abs(effect), rank)
        last[abs(effect)] = rank
    # Twice the ranks: the mean rank of equal ones may be a half.
    doubled = tuple(first[abs(effect)] + last[abs(effect)] for effect in signed)
    positive = sum(rank for rank, effect in zip(doubled, signed, strict=True) if effect > 0)
    return min(1.0, 2 * estimates.rank_sum_distribution(doubled)[min(positive, sum(doubled) - positive)])


def holm(ps: Mapping[str, float], rows: int | None = None) -> dict[str, float]:
    """Adjusted p of a family: those at most alpha contain any false one with a probability of at most alpha (Holm
    1979). Of a family of `rows` of which some have ended before, those that are left are corrected for all."""
    adjusted: dict[str, float] = {}
    so_far = 0.0
    for place, row in enumerate(sorted(ps, key=lambda row: ps[row])):
        so_far = max(so_far, min(1.0, ((rows or len(ps)) - place) * ps[row]))
        adjusted[row] = so_far
    return adjusted


def deciding_pairs(rows: int, alpha: float = 0.05, fewest: int = 16) -> int:
    """The pairs that each of so many rows gets: so many that one of them may point the wrong way, however far off it
    is, and the first of the family still reaches what the last look has of alpha / rows. That is five or six more than
    n pairs that all agree would take, whose p is 2/2^n."""
    return next(
        pairs for pairs in itertools.count(fewest) if _p_with_one_astray(pairs) <= (1 - EARLY_SHARE) * alpha / rows
    )


def screened(effects: Sequence[float], margin: float) -> Judgement | None:
    """`same`, if the screen's pairs already show it; else nothing: such a row goes on to fresh pairs, which alone will
    decide."""
    judgement = _described(effects, "screen", LEVEL)
    if not _is_within(judgement, math.log1p(margin)):
        return None
    judgement.verdict = "same"
    return judgement


def clear(
    effects: Mapping[str, Sequence[float]], margins: Mapping[str, float], alpha: float, rows: int
) -> dict[str, Judgement]:
    """The early look: the verdicts of those rows of a family of `rows` whose first `EARLY_PAIRS` pairs already show
    one."""
    early = {row: pairs[:EARLY_PAIRS] for row, pairs in effects.items()}
    judged = _judged(early, margins, alpha, rows, "early look", EARLY_SHARE)
    return {row: judgement for row, judgement in judged.items() if judgement.verdict != "can't tell"}


def decide(
    effects: Mapping[str, Sequence[float]], margins: Mapping[str, float], alpha: float, rows: int | None = None
) -> dict[str, Judgement]:
    """The last look: the verdicts of these rows, which are those of a family of `rows` that the early look has left;
    all, by default. A row without pairs is a ValueError: silence is never a verdict."""
    return _judged(effects, margins, alpha, rows or len(effects), "decision", 1 - EARLY_SHARE)


def _judged(
    effects: Mapping[str, Sequence[float]],
    margins: Mapping[str, float],
    alpha: float,
    rows: int,
    stage: JudgedStage,
    share: float,
) -> dict[str, Judgement]:
    ps = _ps(effects)
    adjusted = holm(ps, rows)
    judgements: dict[str, Judgement] = {}
    for row, pairs in effects.items():
        judgement = judgements[row] = _described(pairs, stage, share * LEVEL)
        judgement.p, judgement.p_adjusted = ps[row], min(1.0, adjusted[row] / share)
        limit = math.log1p(margins[row])
        if judgement.p_adjusted <= alpha and abs(judgement.estimate) > limit:
            judgement.verdict = "slower" if judgement.estimate > 0 else "faster"
        elif _is_within(judgement, limit):
            judgement.verdict = "same"
        else:
            judgement.pairs_needed = _pairs_needed(judgement, limit, rows, share * alpha)
    return judgements


def outliers(effects: Sequence[float]) -> int:
    """Counts the pairs that lie more than ten scaled deviations from the median."""
    middle, far = statistics.median(effects), _OUTLIER * scatter(effects)
    return sum(abs(effect - middle) > far for effect in effects)


def scatter(effects: Sequence[float]) -> float:
    """The scatter of pairs by their median absolute deviation, scaled so that it is the standard deviation where they
    scatter normally: outliers, which would be most of a standard deviation, do not count."""
    middle = statistics.median(effects)
    return max(FINEST_DEVIATION, 1.4826 * statistics.median([abs(effect - middle) for effect in effects]))


def alarms(controls: Mapping[str, Sequence[float]], alpha: float) -> dict[str, tuple[float, bool]]:
    """The adjusted p of every control, a family of their own, and whether it alarms. There is no margin: both sides of
    a control are the same program, so any lean that the test can see, however small, comes from the measuring."""
    return {row: (p, p <= alpha) for row, p in holm(_ps(controls)).items()}


def outcome(
    judgements: Mapping[str, Judgement],
    alarmed: Collection[str],
    identical: int,
    counted: Collection[AllocationVerdict] = (),
) -> ComparisonOutcome:
    """Returns the outcome of the whole comparison. A control that alarmed voids everything; `identical` rows are
    certain, and so are those whose allocations were `counted`, so they count as judged; where nothing was judged,
    nothing is fine."""
    if alarmed:
        return "contaminated"
    if "more allocations" in counted and not any(judgement.verdict == "slower" for judgement in judgements.values()):
        return "more allocations"
    if not identical and not counted and all(judgement.verdict == "can't tell" for judgement in judgements.values()):
        return "nothing"
    return "slower" if any(judgement.verdict == "slower" for judgement in judgements.values()) else "fine"


def unlike(
    differences: Mapping[str, Sequence[Sequence[float] | None]], smallest: Sequence[float]
) -> list[tuple[str, int]]:
    """The pairs (row, index) whose sides met unlike conditions, the most unlike first: in some condition they differ by
    more than 99 % of the run's pairs do, and by more than the smallest difference that matters (positive). It never
    sees an effect."""
    met = {
        (row, index): [abs(one) for one in pair]
        for row, pairs in differences.items()
        for index, pair in enumerate(pairs)
        if pair is not None
    }
    if not met:
        return []
    columns = zip(*met.values(), strict=True)
    limits = [
        max(least, sorted(column)[math.ceil(0.99 * len(column)) - 1])
        for least, column in zip(smallest, columns, strict=True)
    ]
    excess = {place: max(one / limit for one, limit in zip(pair, limits, strict=True)) for place, pair in met.items()}
    return sorted((place for place in excess if excess[place] > 1), key=lambda place: -excess[place])


def margin_of(share: float, row_ns: float) -> float:
    """The margin of a row as a share of its time: never under a nanosecond, since no code is known to be that equal."""
    return max(share, 1 / row_ns)


def smallest_visible(
    deviation: float, pairs: int, rows: int, margin: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest true slow-down, as a share, that is called `slower` this often, where the effects of pairs scatter
    normally with this standard deviation and the row is the first of its family; infinite where so few pairs can never
    say it of so many rows.

    `slower` takes an estimate beyond ln(1 + margin), and p at most the last look's share of alpha / rows, which is the
    same as an interval of that level above 0 (Hollander & Wolfe 3.3: the interval is what the test does not reject).
    Both move with the effect and scale with the deviation, so with the estimate H and the lower end L of standard
    normal pairs a row is called slower from max(ln(1 + margin) - deviation H, -deviation L) on. The answer is the
    `power` quantile of that, over simulated H and L.
    """
    level = (1 - EARLY_SHARE) * alpha / rows
    if 2 / 2**pairs >= level:
        return math.inf
    needed = sorted(
        max(math.log1p(margin) - deviation * middle, -deviation * low)
        for middle, low in _standard_rows(pairs, 1 - level)
    )
    return math.expm1(needed[math.ceil(power * len(needed)) - 1])


def bound(failures: int, trials: int, confidence: float = 0.95) -> float | None:
    """The highest rate at which no more failures than these are still credible: one-sided and exact (Clopper & Pearson
    1934); 0 of 59 is "at most 5 %". Nothing of no trials."""
    if not trials:
        return None
    if failures == trials:
        return 1.0
    low, high = failures / trials, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _binomial_at_most(failures, trials, middle) > 1 - confidence else (low, middle)
    return high


def interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """The exact two-sided interval of a rate (Clopper & Pearson 1934), or nothing of no trials."""
    side = (1 + confidence) / 2
    low, high = bound(trials - successes, trials, side), bound(successes, trials, side)
    return None if low is None or high is None else (1 - low, high)


def _ps(effects: Mapping[str, Sequence[float]]) -> dict[str, float]:
    ps: dict[str, float] = {}
    for row, pairs in effects.items():
        p = signed_rank_p(pairs)
        if p is None:
            raise ValueError(f"{row} has no pairs, so nothing can be said of it")
        ps[row] = p
    return ps


@lru_cache(maxsize=64)
def _p_with_one_astray(pairs: int) -> float:
    """The p of pairs of which the largest alone points the other way."""
    return 2 * estimates.rank_sum_distribution(tuple(range(1, pairs + 1)))[pairs]


def _described(effects: Sequence[float], stage: JudgedStage, level: float) -> Judgement:
    """A judgement that says nothing yet."""
    wide, narrow = estimates.location(effects, 1 - level), estimates.location(effects, 1 - 2 * level)
    if wide is None or narrow is None:
        raise ValueError("a row without pairs cannot be judged")
    found = Judgement(
        "can't tell", stage, len(effects), wide.middle, wide.low, wide.high, narrow.low, narrow.high, level=level
    )
    found.outliers = outliers(effects)
    return found


def _is_within(judgement: Judgement, limit: float) -> bool:
    return (
        judgement.same_low is not None
        and judgement.same_high is not None
        and -limit <= judgement.same_low
        and judgement.same_high <= limit
    )


def _pairs_needed(judgement: Judgement, limit: float, rows: int, alpha: float) -> int | None:
    """Returns the number of fresh pairs that would tell with a chance of 80 % at least, if the truth is this estimate
    and the scatter stays; nothing where that is more than `MOST_PAIRS`, as with an estimate at the margin itself.

    The usual formula, n = ((z of the test + z of the chance) deviation / distance)^2 (Chow, Wang & Shao, Sample Size
    Calculations, ch. 3), where deviation / sqrt(n now) is the half width of the interval for `same` over its z. For
    `same` the distance is that from the estimate to the margin; beyond the margin it is that to 0 for p, and the
    estimate has to stay beyond the margin, too.
    """
    fewest = max(deciding_pairs(rows, alpha / (1 - EARLY_SHARE)), judgement.pairs + 1)
    if judgement.same_low is None or judgement.same_high is None:
        return fewest
    chance, size = _deviate(0.2), abs(judgement.estimate)
    same = _deviate(2 * judgement.level)
    error = (judgement.same_high - judgement.same_low) / 2 / same
    distances = (
        [(size, _deviate(alpha / rows) + chance), (size - limit, chance)]
        if size > limit
        else [(limit - size, same + chance)]
    )
    needed = max(judgement.pairs * (z * error / distance) ** 2 if distance else math.inf for distance, z in distances)
    return max(fewest, math.ceil(needed)) if needed <= MOST_PAIRS else None


def _deviate(p: float) -> float:
    """Returns the distance of a normal value of this two-sided p from the middle, in standard deviations."""
    return -statistics.NormalDist().inv_cdf(p / 2)


@lru_cache(maxsize=64)
def _standard_rows(pairs: int, confidence: float) -> Sequence[tuple[float, float]]:
    """The estimate and the lower end of the interval, for simulated rows of standard normal pairs: the same ones every
    time."""
    rng = random.Random(pairs)
    found = (estimates.location([rng.gauss(0, 1) for _ in range(pairs)], confidence) for _ in range(_DRAWS))
    return [(one.middle, one.low) for one in found if one is not None and one.low is not None]


def _binomial_at_most(most: int, trials: int, rate: float) -> float:
    """The probability of at most so many successes, for a rate strictly between 0 and 1; by logarithms, since
    factorials overflow."""
    every, yes, no = math.lgamma(trials + 1), math.log(rate), math.log1p(-rate)
    ways = (every - math.lgamma(count + 1) - math.lgamma(trials - count + 1) for count in range(most + 1))
    return math.fsum(math.exp(way + count * yes + (trials - count) * no) for count, way in enumerate(ways))
