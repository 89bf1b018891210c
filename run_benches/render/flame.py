"""Flame graphs: stacks as boxes that lie on one another, each as wide as its share of the whole.

Why of our own: the picture has to be readable without a script, on a light page and on a dark one, and by the
colour-blind; and its colours say which layer a function belongs to, or, of two revisions, what changed. Colour never
stands alone: every box has its name where there is room, and everything else in its tooltip.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from run_benches.analysis import figures


class Frame(NamedTuple):
    """A function and the layer it belongs to."""

    function: str
    layer: str


Stack = tuple[Frame, ...]
"""The caller stands before what it calls."""

Stacks = Mapping[Stack, float]
"""The amount that was seen in each stack: samples, or instructions."""


class Box(NamedTuple):
    """A function as called by those under it: where it begins and how wide it is, as shares of the whole."""

    stack: Stack
    left: float
    share: float


_WIDTH, _ROW, _LETTER, _MARGIN = 1200.0, 17, 6.7, 10  # pixels; a letter is that of an 11 px monospace font
_NARROWEST = 0.4
_INK, _TEXT = "#7b7f86", "#16181d"
_COLOURS = {
    "encoding": "#f0e442",
    "storage": "#56b4e9",
    "locking": "#cc79a7",
    "indexes": "#e69f00",
    "transaction": "#3fbf95",
    "handlers": "#e8835a",
    "routing": "#b9a6e8",
    "ingress": "#8fd3d1",
    "RocksDB": "#b4c2d3",
    "C library": "#d2d6db",
    "kernel": "#9ea4ac",
    "bench": "#e8e4da",
}
_COLOUR_OF_OTHERS = "#c8bfae"
_LESS, _AS_BEFORE, _MORE = (86, 180, 233), (226, 228, 231), (230, 126, 20)
_SWATCHES_A_LINE = 6


def draw(title: str, notes: Sequence[str], stacks: Stacks, before: Stacks | None = None) -> str:
    """The flame graph as SVG. With `before`, colours say how the share of each box changed since then."""
    shown = [box for box in boxes(stacks) if box.share * (_WIDTH - 2 * _MARGIN) >= _NARROWEST]
    earlier = {box.stack: box.share for box in boxes(before)} if before is not None else None
    legend = _layers_legend(stacks) if earlier is None else _CHANGES_LEGEND
    head = 24 + 15 * len(notes) + 18 * -(-len(legend) // _SWATCHES_A_LINE) + 12
    height = head + _ROW * max((len(box.stack) for box in shown), default=0) + _MARGIN
    largest = (
        max((abs(box.share - earlier.get(box.stack, 0.0)) for box in shown), default=0.0)
        if earlier is not None
        else 0.0
    )
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height}" width="{_WIDTH:.0f}" height="{height}" role="img"'
            f' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="11">'
        ),
        f"<title>{escape(title)}</title>",
        f'<text x="{_MARGIN}" y="20" fill="{_INK}" font-size="14" font-weight="bold">{escape(title)}</text>',
        *(
            f'<text x="{_MARGIN}" y="{38 + 15 * at}" fill="{_INK}">{escape(note)}</text>'
            for at, note in enumerate(notes)
        ),
        *_legend(legend, 34 + 15 * len(notes)),
    ]
    for box in shown:
        was = None if earlier is None else earlier.get(box.stack, 0.0)
        colour = (
            colour_of(box.stack[-1].layer) if was is None else _colour_of_change((box.share - was) / max(largest, 0.01))
        )
        lines.append(_drawn(box, was, colour, height - _MARGIN - _ROW * len(box.stack)))
    return "\n".join([*lines, "</svg>"]) + "\n"


def boxes(stacks: Stacks) -> Iterator[Box]:
    """Every function at every place it was seen, callers before what they call, neighbours in the order of their names."""
    weights: defaultdict[Stack, float] = defaultdict(float)
    for stack, weight in stacks.items():
        for depth in range(1, len(stack) + 1):
            weights[stack[:depth]] += weight
    whole = sum(stacks.values())
    free: dict[Stack, float] = {(): 0.0}
    for stack in sorted(weights):
        left = free[stack[:-1]]
        free[stack[:-1]], free[stack] = left + weights[stack], left
        yield Box(stack, left / whole, weights[stack] / whole)


def colour_of(layer: str) -> str:
    """Ours are bright, the others pale; the same in every picture."""
    return _COLOURS.get(layer, _COLOUR_OF_OTHERS)


def _colour_of_change(change: float) -> str:
    towards = _MORE if change > 0 else _LESS
    return "#" + "".join(
        f"{round(old + (new - old) * min(1.0, abs(change))):02x}" for old, new in zip(_AS_BEFORE, towards, strict=True)
    )


_CHANGES_LEGEND = [
    ("smaller share than before", _colour_of_change(-1)),
    ("as before", _colour_of_change(0)),
    ("larger share than before", _colour_of_change(1)),
]


def _layers_legend(stacks: Stacks) -> list[tuple[str, str]]:
    whole = sum(stacks.values())
    layers: defaultdict[str, float] = defaultdict(float)
    for stack, weight in stacks.items():
        layers[stack[-1].layer] += weight
    return [
        (f"{layer} {figures.percent(weight / whole)}", colour_of(layer))
        for layer, weight in sorted(layers.items(), key=lambda one: -one[1])
    ]


def _legend(entries: Sequence[tuple[str, str]], top: int) -> Iterator[str]:
    for at, (text, colour) in enumerate(entries):
        left = _MARGIN + at % _SWATCHES_A_LINE * (_WIDTH - 2 * _MARGIN) / _SWATCHES_A_LINE
        line = top + 18 * (at // _SWATCHES_A_LINE)
        yield f'<rect x="{left:.1f}" y="{line}" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text x="{left + 17:.1f}" y="{line + 10}" fill="{_INK}">{escape(text)}</text>'


def _drawn(box: Box, was: float | None, colour: str, top: int) -> str:
    left, width = _MARGIN + box.left * (_WIDTH - 2 * _MARGIN), box.share * (_WIDTH - 2 * _MARGIN)
    function, layer = box.stack[-1]
    share = figures.percent(box.share) + ("" if was is None else f", before {figures.percent(was)}")
    letters = int((width - 6) / _LETTER)
    text = function if len(function) <= letters else ".." + function[len(function) - letters + 2 :]
    label = f'<text x="{left + 3:.1f}" y="{top + 12}" fill="{_TEXT}">{escape(text)}</text>' if letters > 4 else ""
    tooltip = escape(f"{function} ({layer}): {share}")
    return f'<g><title>{tooltip}</title><rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 1}" rx="1" fill="{colour}"/>{label}</g>'
