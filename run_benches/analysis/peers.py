"""Others that did the same work in the same run: codecs, databases, routers, each beside ours, wins and losses alike.

Why no goal: a floor is what ours is built on, and how near it comes is ours to answer for; a peer is built otherwise,
and either may win. The ratio is the peer's time over ours, so that above one ours is faster, with the interval over the
tuples in which the two took turns. An interval that holds one tells neither from the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from run_benches.analysis import figures
from run_benches.analysis.contrasts import Contrast, joint
from run_benches.analysis.row import DRIVER, FLOOR, OURS, Row, alike

PeerOutcome = Literal["ours", "theirs", "same", "not resolved"]


@dataclass(frozen=True)
class PeerRow:
    """A peer's row beside ours of the same operation and case."""

    ours: Row
    theirs: Row
    contrast: Contrast | None
    """Their time against ours; absent where the two took no turns or are not of one kind."""

    def faster(self, confidence: float = 0.95) -> PeerOutcome | None:
        """Returns who is faster beyond the interval."""
        if self.contrast is None:
            return None
        verdict = self.contrast.verdict(confidence)
        if verdict == "differ":
            return "ours" if self.contrast.ratio(confidence).middle > 1 else "theirs"
        return verdict


def sides(rows: Sequence[Row]) -> list[PeerRow]:
    """Every row of a peer that has one of ours beside it, in the order of the page."""
    ours = {_work(row): row for row in rows if row.subject == OURS}
    return [
        PeerRow(mine, row, row.over(mine) if alike(mine, row) else None)
        for row in filter(is_peer, rows)
        if (mine := ours.get(_work(row)))
    ]


def is_peer(row: Row) -> bool:
    """Returns whether a row is another's work, and neither what ours is built on nor the entry to a runtime."""
    return row.subject not in (OURS, FLOOR, DRIVER)


def census(found: Sequence[PeerRow], together: bool = False) -> Iterator[str]:
    """Tells how often ours was faster, and how often slower, beside each other one: by the interval of each row, or so
    that those of all rows beside one other hold together; then nothing is said of one with which no row is resolved."""
    for peer in dict.fromkeys(side.theirs.subject for side in found):
        told = [side for side in found if side.theirs.subject == peer and side.contrast is not None]
        outcomes = [side.faster(joint(0.95, len(told) if together else 1)) for side in told]
        if not told or (together and set(outcomes) == {"not resolved"}):
            continue
        # Wins and losses alike, also where there are none; the others where there are some.
        counted = [f"ours is faster in {outcomes.count('ours')}", f"slower in {outcomes.count('theirs')}"]
        if same := outcomes.count("same"):
            counted.append(f"the same within {figures.within_margin()} in {same}")
        if unresolved := outcomes.count("not resolved"):
            counted.append(f"not resolved in {unresolved}")
        yield f"beside `{peer}`, of {figures.plural(len(told), 'row')} {', '.join(counted)}"


def _work(row: Row) -> tuple[str, str, str]:
    return (row.layer, row.operation, row.case)
