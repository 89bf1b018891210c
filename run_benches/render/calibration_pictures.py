"""The pictures of a calibration: p-values under no change, power, coverage, and our false alarms beside those of the
usual tools.

They are drawn as all pictures are (pictures.py says how they are to be read); every figure of theirs stands in the
results, and in the tables that calibration_report makes of them.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from run_benches.analysis import figures
from run_benches.calibrate.error_rates import USUAL_TOOLS, Condition, ErrorRates, Power, Rate
from run_benches.render.calibration_report import counted
from run_benches.render.pictures import INK, PALE, SERIES, Picture, canvas, room

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rated = list[tuple[str, Rate]]
"""Rates by what they are of, in the order in which they are drawn."""

_ROWS = 16
"""Height of a picture whose axis is no list, in lines."""


def pictures(results: ErrorRates) -> list[Picture]:
    """Those for which there are figures."""
    conditions = {name: one for name, one in results.conditions.items() if one.comparisons}
    if not conditions:
        return []
    ps, power = (
        {name: one.p_values for name, one in conditions.items()},
        {name: one.power for name, one in conditions.items()},
    )
    coverage, alarms = [(name, one.coverage) for name, one in conditions.items()], list(_alarms(conditions))
    drawn: list[tuple[str, str, object, Callable[[Any], Figure]]] = [
        ("p-values", "p-values of rows that did not change, against uniform ones", ps, _draw_p_values),
        ("power", "how many rows are called slower, by how much slower they were made", power, _draw_power),
        ("coverage", "how many 95 % intervals hold the truth, by condition", coverage, _draw_coverage),
        ("false-alarms", "how many unchanged rows are called changed, by condition and by tool", alarms, _draw_alarms),
    ]
    return [
        Picture(f"calibration-{name}", f"Calibration: {alt}; the counts stand in the tables.", values, draw)
        for name, alt, values, draw in drawn
    ]


def _alarms(conditions: dict[str, Condition]) -> Iterable[tuple[str, Rate]]:
    for name, one in conditions.items():
        for tool, rate in ({"run-benches.py compare": one.false_alarms} | one.usual).items():
            if rate.of:
                yield f"{name}: {tool}", rate


def _draw_p_values(by_condition: dict[str, list[float]]) -> "Figure":
    figure, (axis,) = canvas(_ROWS, 1, left=0.6, top=0.35)
    axis.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=":", label="uniform")
    for (colour, marker), (name, ps) in zip(SERIES, by_condition.items(), strict=False):
        shares = [(at + 1) / len(ps) for at in range(len(ps))]
        label = f"{name} ({figures.plural(len(ps), 'row')})"
        axis.plot(
            sorted(ps), shares, color=colour, marker=marker, markevery=max(1, len(ps) // 8), markersize=5, label=label
        )
    axis.set_xlabel("p-value of a row that did not change", fontsize=8, loc="left")
    axis.set_ylabel("share of rows with at most this p", fontsize=8)
    return _with_legend(figure, axis)


def _draw_power(by_condition: dict[str, dict[str, Power]]) -> "Figure":
    figure, (axis,) = canvas(_ROWS, 1, left=0.6, top=0.35)
    axis.axhline(95, color=PALE, linewidth=1)
    for at, ((colour, marker), (name, powers)) in enumerate(zip(SERIES, by_condition.items(), strict=False)):
        rates = [(float(slower) + 0.06 * at, power.slower) for slower, power in powers.items() if power.slower.of]
        axis.plot(
            [x for x, _ in rates],
            [_percent(rate) for _, rate in rates],
            color=colour,
            marker=marker,
            markersize=5,
            label=name,
        )
        for x, rate in rates:
            axis.plot([x, x], _bounds(rate), color=colour, linewidth=1.5)
    axis.set_xlabel("how much slower every row was made, %", fontsize=8, loc="left")
    axis.set_ylabel("rows called slower, %, with 95 % bounds", fontsize=8)
    axis.set_ylim(-3, 103)
    return _with_legend(figure, axis)


def _draw_coverage(rated: Rated) -> "Figure":
    figure, axis = _dots(rated)
    axis.axvspan(93, 97, color=PALE, linewidth=0, zorder=0)
    axis.set_xlim(min(90.0, *(_bounds(rate)[0] for _, rate in rated)) - 0.5, 100.5)
    axis.set_xlabel(
        "95 % intervals that hold the truth, %, with 95 % bounds; the band is the goal", fontsize=8, loc="left"
    )
    return figure


def _draw_alarms(rated: Rated) -> "Figure":
    figure, axis = _dots(rated)
    axis.axvline(1, color=PALE, linewidth=1, zorder=0)
    axis.set_xlim(-1, max(_bounds(rate)[1] for _, rate in rated) + 1)
    axis.set_xlabel(
        "unchanged rows that are called changed, %, with 95 % bounds; the line is the goal", fontsize=8, loc="left"
    )
    return figure


def _dots(rated: Rated) -> tuple["Figure", "Axes"]:
    """A dot with its bounds for each rate, and its count beside it."""
    words = [counted(rate) for _, rate in rated]
    figure, (axis,) = canvas(len(rated) + 1, 1, left=room(label for label, _ in rated), top=0.1, right=room(words))
    for at, (label, rate) in enumerate(rated):
        colour, marker = SERIES[label.endswith(USUAL_TOOLS)]
        axis.plot(_bounds(rate), [at, at], color=colour, linewidth=2)
        axis.plot([_percent(rate)], [at], color=colour, marker=marker, markersize=6)
        axis.text(1.01, at, words[at], transform=axis.get_yaxis_transform(), va="center", ha="left", fontsize=8)
    axis.set_yticks(range(len(rated)), [label for label, _ in rated])
    axis.set_ylim(len(rated) - 0.3, -0.7)
    return figure, axis


def _with_legend(figure: "Figure", axis: "Axes") -> "Figure":
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper left", ncols=5, frameon=False, bbox_to_anchor=(0.0, 1.0), labelcolor=INK)
    return figure


def _percent(rate: Rate) -> float:
    return 100 * rate.count / rate.of


def _bounds(rate: Rate) -> tuple[float, float]:
    assert rate.at_least is not None and rate.at_most is not None
    return 100 * rate.at_least, 100 * rate.at_most
