"""The forest plot of a comparison, as SVG: every row that is not the same, with its interval, and the margin as a band.

Why only those: what is the same lies in the band by its own rule, and a hundred dots there hide the three beside it.
How it is to be read on a light page and on a dark one, and by the colour-blind, is said in `pictures`; the shape of a
dot says its verdict, too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from run_benches import files
from run_benches.analysis import effects
from run_benches.errors import Exit, UserError
from run_benches.render import pictures
from run_benches.render.pictures import Picture
from run_benches.stats.judge import Verdict
from run_benches.store.comparisons import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 60
"""Rows; of more the largest changes are drawn."""


@dataclass(frozen=True)
class _Dot:
    label: str
    verdict: Verdict
    change: float
    low: float
    high: float
    margin: float
    words: str


_LOOKS: dict[str, tuple[str, str]] = {
    "slower": (pictures.ORANGE, "X"),
    "faster": (pictures.BLUE, "o"),
    "can't tell": (pictures.INK, "D"),
}


class Nothing(UserError):
    """The comparison has nothing that can be drawn; what it found stands in its verdicts."""


def forest(comparison: Comparison, path: Path) -> None:
    """Draws it into `path`; needs matplotlib. Without anything to draw there is no picture (`Nothing`)."""
    if comparison.outcome == "contaminated":
        raise Nothing(
            "a control moved, so no verdict of this comparison counts, and none is drawn; try again", Exit.NOTHING
        )
    dots = []
    for id, row in comparison.rows.items():
        found = row.judgement
        if found is None or found.verdict not in _LOOKS or found.low is None or found.high is None:
            continue
        change, low, high = (100 * effects.share(effect) for effect in (found.estimate, found.low, found.high))
        dots.append(_Dot(id, found.verdict, change, low, high, 100 * row.margin, effects.estimated(found)))
    if not dots:
        raise Nothing("no row is slower, faster or can't be told, so there is nothing to draw", Exit.NOTHING)
    shown = sorted(dots, key=lambda dot: -abs(dot.change))[:MOST]
    left_out = f"; {len(dots) - MOST} smaller changes are left out" if len(dots) > MOST else ""
    alt = f"Change of B's time against A's for {len(shown)} rows, with the 95 % interval over pairs and the margin as a band{left_out}."
    shown.sort(key=lambda dot: (list(_LOOKS).index(dot.verdict), -abs(dot.change)))
    files.write(path, pictures.drawn(Picture(path.stem, alt, shown, _draw)))


def _draw(dots: list[_Dot]) -> "Figure":
    left, right = pictures.room(dot.label for dot in dots), pictures.room(dot.words for dot in dots)
    figure, (axis,) = pictures.canvas(len(dots) + 1, 1, left=left, top=0.45, right=right)
    for at, dot in enumerate(dots):
        colour, marker = _LOOKS[dot.verdict]
        axis.barh(at, 2 * dot.margin, left=-dot.margin, height=1.0, color=pictures.PALE, linewidth=0, zorder=0)
        axis.plot([dot.low, dot.high], [at, at], color=colour, linewidth=2)
        axis.plot([dot.change], [at], color=colour, marker=marker, markersize=6)
        axis.text(1.01, at, dot.words, transform=axis.get_yaxis_transform(), va="center", ha="left", fontsize=8)
    axis.axvline(0.0, color=pictures.INK, linewidth=1, zorder=1)
    axis.set_yticks(range(len(dots)), [dot.label for dot in dots])
    axis.set_ylim(len(dots) - 0.3, -0.7)
    axis.set_xlabel(
        "change of the time of one operation, %, with its 95 % interval over pairs; the band is the margin", fontsize=8
    )
    for verdict, (colour, marker) in _LOOKS.items():
        if any(dot.verdict == verdict for dot in dots):
            axis.plot([], [], linestyle="", marker=marker, color=colour, markersize=6, label=verdict)
    figure.legend(loc="upper left", ncols=3, frameon=False, bbox_to_anchor=(0.0, 1.0), labelcolor=pictures.INK)
    return figure
