"""The pictures of a load test: percentile curves over the nines, throughput over time with what was offered, CPU of
both sides.

Why nines: on an axis of equal steps from 90 % to 99 % to 99.9 % a tail is as wide as it matters, and two systems that
differ in it alone look different. A curve ends where fewer than ten values lie beyond; where it ends in a cross, the
rest is later than any that was measured (dropped or censored requests).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_benches.analysis import figures, load_figures
from run_benches.analysis.load_figures import RatePoint
from run_benches.analysis.load_findings import LoadFindings, Measured
from run_benches.render.pictures import BLUE, INK, ORANGE, PALE, RED, SERIES, Picture, canvas, logarithmic, room
from run_benches.store.loads import Cpu, LoadResult, Quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS = 16.0
"""The height of a diagram, in rows of a table of bars."""

_DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class _Curve:
    label: str
    points: list[Quantile]


@dataclass(frozen=True)
class _OverTime:
    ok: list[int]
    lost: list[int]
    offered: list[RatePoint]


@dataclass(frozen=True)
class _Used:
    label: str
    user: float
    system: float
    words: str


def pictures(tested: LoadFindings) -> list[Picture]:
    """Those of every scenario that has figures, and the CPU of all."""
    found: list[Picture] = []
    for number, one in enumerate(tested.measured, start=1):
        found += [picture for picture in (curves(number, one), over_time(number, one.name, one.first)) if picture]
    used = cpu(tested)
    return found + ([used] if used else [])


def kind_of(result: LoadResult) -> str:
    """The times that a loop has: response times exist in an open loop alone."""
    return "response" if result.loop == "open" else "service"


def curves(number: int, measured: Measured) -> Picture | None:
    """The percentile curve of each operation."""
    kind = kind_of(measured.first)
    lines = [
        _Curve(operation, kinds[kind]) for operation, kinds in measured.curves.items() if len(kinds.get(kind, [])) > 1
    ]
    alt = f"{measured.name}: {kind} times over the nines, a line for each operation; the quantiles stand in the table."
    return Picture(f"load-{number}-{kind}", alt, lines, _draw_curves) if lines else None


def over_time(number: int, name: str, result: LoadResult) -> Picture | None:
    """Right answers a second, what failed or was dropped, where something was, and what was offered."""
    ok, lost, schedule = (
        load_figures.by_second(result),
        load_figures.lost_by_second(result),
        result.scenario.load.schedule,
    )
    offered = load_figures.offered(schedule) if schedule else []
    words = "what was offered (line)" if offered else "a closed loop offers what it gets"
    failures = (
        f", and above them the {sum(result.total.failed.values()) + result.total.dropped} requests that failed or were dropped"
        if lost
        else ""
    )
    alt = f"{name}: right answers in each second (bars){failures}, {words}."
    return Picture(f"load-{number}-time", alt, _OverTime(ok, lost, offered), _draw_over_time) if ok else None


def cpu(tested: LoadFindings) -> Picture | None:
    """Both sides' share of one processor over each window."""
    used = [used for one in tested.measured for used in _used(one.name, one.first)]
    alt = "CPU of client and server over the window of each scenario, as a share of one processor: user and system."
    return Picture("load-cpu", alt, used, _draw_cpu) if used else None


def _used(name: str, result: LoadResult) -> list[_Used]:
    sides: list[tuple[str, Cpu | None]] = [("client", result.processes.client), ("server", result.processes.server)]
    shares = [
        (side, cpu.user_seconds / result.window.seconds, cpu.system_seconds / result.window.seconds)
        for side, cpu in sides
        if cpu
    ]
    return [_Used(f"{name}, {side}", user, system, figures.percent(user + system)) for side, user, system in shares]


def _draw_curves(lines: list[_Curve]) -> "Figure":
    figure, (axis,) = canvas(_ROWS, 1, left=0.9, top=0.75)
    for place, line in enumerate(lines):
        colour, marker = SERIES[place % len(SERIES)]
        told = [(_nines(point.quantile), point.value) for point in line.points if point.value]
        style = _DASHES[place // len(SERIES) % len(_DASHES)]
        axis.plot(
            *zip(*told, strict=True),
            color=colour,
            marker=marker,
            markevery=12,
            markersize=5,
            linewidth=1.6,
            linestyle=style,
            label=line.label,
        )
        if len(told) < len(line.points):
            axis.plot(*told[-1], color=ORANGE, marker="X", markersize=9)
    last = max(_nines(line.points[-1].quantile) for line in lines)
    ticks = [quantile for quantile in (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999) if _nines(quantile) <= last + 0.05]
    axis.set_xticks([_nines(quantile) for quantile in ticks], [f"{quantile * 100:g} %" for quantile in ticks])
    logarithmic(axis, figures.time)
    axis.grid(color=PALE, linewidth=0.5)
    axis.set_xlabel("requests that took no longer", fontsize=8, loc="left")
    figure.legend(loc="upper left", ncols=min(6, len(lines)), frameon=False, labelcolor=INK)
    return figure


def _nines(quantile: float) -> float:
    return -math.log10(1 - quantile)


def _draw_over_time(seen: _OverTime) -> "Figure":
    figure, (axis,) = canvas(_ROWS * 0.7, 1, left=0.9, top=0.5)
    axis.bar(
        [second + 0.5 for second in range(len(seen.ok))],
        seen.ok,
        width=0.9,
        color=BLUE,
        alpha=0.75,
        label="right answers a second",
    )
    if seen.lost:
        axis.bar(
            [second + 0.5 for second in range(len(seen.lost))],
            seen.lost,
            bottom=seen.ok,
            width=0.9,
            color=RED,
            alpha=0.85,
            label="failed or dropped a second",
        )
    if seen.offered:
        axis.plot(
            [point.second for point in seen.offered],
            [point.rate for point in seen.offered],
            color=ORANGE,
            linewidth=1.8,
            label="offered a second",
        )
        for corner in seen.offered[1:-1]:
            axis.axvline(corner.second, color=PALE, linewidth=0.8, zorder=0)
    axis.set_ylim(bottom=0)
    axis.set_xlim(0, max([len(seen.ok), *(point.second for point in seen.offered)]))
    axis.set_xlabel("seconds of the window; lines between phases", fontsize=8, loc="left")
    figure.legend(loc="upper left", ncols=3, frameon=False, labelcolor=INK)
    return figure


def _draw_cpu(used: list[_Used]) -> "Figure":
    figure, (axis,) = canvas(len(used) + 1, 1, left=room(one.label for one in used), top=0.45)
    for at, one in enumerate(used):
        _draw_used(axis, at, one)
    axis.barh([0], [0], color=BLUE, label="user")
    axis.barh([0], [0], color=ORANGE, hatch="///", label="system")
    axis.set_yticks(range(len(used)), [one.label for one in used])
    axis.set_ylim(len(used) - 0.4, -0.6)
    axis.set_xlim(0, 1.2 * max(one.user + one.system for one in used) or 1.0)
    axis.set_xlabel("processors that were busy", fontsize=8, loc="left")
    figure.legend(loc="upper left", ncols=3, frameon=False, labelcolor=INK)
    return figure


def _draw_used(axis: "Axes", at: int, one: _Used) -> None:
    axis.barh(at, one.user, height=0.7, color=BLUE)
    axis.barh(at, one.system, left=one.user, height=0.7, color=ORANGE, hatch="///")
    axis.annotate(
        one.words, (one.user + one.system, at), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8
    )
