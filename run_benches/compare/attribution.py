"""Which layer is to blame, and what it explains of the layers above: by the rows of the layers, then by the ladder.

Why the lowest: a layer that became slower slows everything that stands on it, so of all red layers only the lowest is
red for certain by its own doing. Benches that cross the layers never are to blame while a layer's own row is red. A
floor does not pass through our code, so it accuses nobody.

What it explains: the ladder sends one request to every rung, so the change of the guilty rung in nanoseconds, over the
change of a rung above it, is the share explained there. It is the ratio of two estimates over pairs: the ratio of each
pair would divide by noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from run_benches.analysis import figures
from run_benches.analysis.ladder import RUNGS
from run_benches.analysis.row import ACROSS, OURS
from run_benches.stats import estimates, judge
from run_benches.store.comparisons import Attribution, ComparedRow, ExplainedShare


def attribute(rows: dict[str, ComparedRow], layers: list[str]) -> Attribution:
    """The lowest layer whose own rows are slower; if there is none, the lowest rung of the ladder that is. `layers`:
    lowest first."""
    slower = [
        id for id, row in rows.items() if row.judgement and row.judgement.verdict == "slower" and _part(id, 2) == OURS
    ]
    for layer in layers:
        if layer not in ACROSS and (own := [id for id in slower if _part(id, 0) == layer]):
            return Attribution(layer, own, list(_shares(rows, layer)))
    for rung in RUNGS:
        if own := [id for id in slower if _part(id, 0) == "ladder" and _part(id, 3) == rung]:
            return Attribution(rung, own, list(_shares(rows, rung)))
    return Attribution(None, [], [])


def words(attribution: Attribution) -> list[str]:
    """The blame in a sentence, then a line for each request of the ladder."""
    if attribution.guilty is None:
        return ["no layer is to blame: what is slower are floors, or rows that cross the layers"]
    across = all(_part(id, 0) in ACROSS for id in attribution.rows)
    why = (
        "no layer's own row is slower, and it is the lowest rung of the ladder that is"
        if across
        else "the lowest layer with slower rows of its own"
    )
    requests: dict[str, list[str]] = {}
    for share in attribution.shares:
        low, high = figures.added_time(share.low_ns), figures.added_time(share.high_ns)
        told = f"{share.rung} {figures.added_time(share.change_ns)} [{low}, {high}]"
        if share.low_ns <= 0 <= share.high_ns:
            told += ", below what could be seen there"
        elif share.rung != attribution.guilty and share.explained is None:
            told += ", not explained"
        elif share.rung != attribution.guilty and share.explained is not None:
            part = f"{100 * share.explained:.0f} %" if share.explained > 0 else "none"
            told += f", {'more than all' if share.explained > 1.05 else part} of it explained"
        requests.setdefault(_part(share.id, 1), []).append(told)
    blame = f"to blame: {attribution.guilty}, {why} ({figures.plural(len(attribution.rows), 'row')})"
    return [blame, *(f"ladder of {request}: {'; '.join(rungs)}" for request, rungs in requests.items())]


@dataclass(frozen=True)
class _Change:
    """The time that an operation takes longer, in nanoseconds, with the 95 % interval over pairs."""

    middle: float
    low: float
    high: float

    @property
    def seen(self) -> bool:
        """True if the interval excludes 0."""
        return not self.low <= 0 <= self.high


def _shares(rows: dict[str, ComparedRow], guilty: str) -> Iterator[ExplainedShare]:
    """For each request the rung of the guilty layer, or where it has none the lowest one above that moved, and all
    above it."""
    changes: dict[str, _Change] = {}
    for id, row in rows.items():
        if (_part(id, 0), _part(id, 2)) == ("ladder", OURS):
            # Both times of a pair are of one moment, so they may be subtracted; too few pairs have no interval, and say
            # nothing.
            level = row.judgement.level if row.judgement else judge.LEVEL
            found = estimates.location([point.b_ns - point.a_ns for point in row.pairs or row.screen], 1 - level)
            if found and found.low is not None and found.high is not None:
                changes[id] = _Change(found.middle, found.low, found.high)
    above = RUNGS[RUNGS.index(guilty) :] if guilty in RUNGS else ()
    for request in dict.fromkeys(_part(id, 1) for id in changes):
        climbed = [(rung, id) for rung in above if (id := f"ladder/{request}/{OURS}/{rung}") in changes]
        while climbed and climbed[0][0] != guilty and not changes[climbed[0][1]].seen:
            climbed.pop(0)
        for rung, id in climbed:
            base, change = changes[climbed[0][1]], changes[id]
            explained = base.middle / change.middle if base.seen and change.seen else None
            yield ExplainedShare(id, rung, change.middle, change.low, change.high, explained)


def _part(id: str, place: int) -> str:
    return (*id.split("/", 3), "", "", "")[place]
