"""The drawing of the layers and of what measures them, as SVG: made from the lists of the code, so that it cannot show
what is not there.

Layers are the `mod` lines of `src/lib.rs`, in words of each module's own header; benches are the files with a `main`;
rungs are those of `ladder.RUNGS` that the sources of the ladder name. Only where floors stand, and how a figure comes
about, is told here. How colours are chosen stands in `pictures`; there is no plot, so it takes no matplotlib, and is
compared byte by byte.
"""

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_benches import places
from run_benches.analysis.ladder import RUNGS
from run_benches.analysis.row import ACROSS
from run_benches.render.pictures import BLUE, INK, ORANGE
from run_benches.store import house

FILE = "layers.svg"

FLOORS = {"server": "bare hyper", "locking": "bare mutex", "RocksDB": "raw RocksDB"}
"""The stand-ins for a layer and all above it, each by the lowest row that it replaces nothing of."""

_ON = {"tcp": "server", "tls": "server", "raw": "RocksDB", "ingress_cpu": "ingress"}
"""The rows at which rungs stand that have no layer of their name."""

_BETWEEN = {"driver": "routing"}
"""Rungs that are no layer, and the one above which they stand."""

_GREEN = "#0d9f78"
_WIDTH, _ROW, _TOP = 980, 32, 58
_LAYERS, _BENCHES, _LADDER, _FLOORS = 44, 584, 726, 848
_LAYER_WIDTH, _BOX = 522, 112
_LONGEST = 64
"""Letters of a layer's words that fit."""


@dataclass(frozen=True)
class Layer:
    """A module and what its header says it is."""

    name: str
    words: str


def svg() -> str:
    """The whole drawing."""
    layers = [
        *reversed(modules()),
        Layer("RocksDB", "memtables, sorted files, log; called by storage alone"),
    ]
    height = _y(len(layers)) + 122
    parts = [*_head(layers, height), *_headings(), *_rows(layers), *_rail(layers)]
    for row, layer in enumerate(layers):
        if layer.name in FLOORS:
            parts += _box("floor", _FLOORS, _y(row) + 1, FLOORS[layer.name])
    parts += _flow(height)
    return "\n".join([*parts, "</svg>", ""])


def modules(source: Path = house.SOURCE) -> list[Layer]:
    """The public modules, lowest first, in the words of their headers."""
    return [Layer(name, _words((source / f"{name}.rs").read_text(encoding="utf-8"))) for name in house.modules(source)]


def rungs(benches: Path = places.BENCHES) -> list[str]:
    """The rungs that the sources of the ladder name, lowest first."""
    sources = "".join(
        path.read_text(encoding="utf-8") for path in [benches / "ladder.rs", *sorted((benches / "ladder").glob("*.rs"))]
    )
    return [name for name in RUNGS if f'"{name}"' in sources]


def _words(module: str) -> str:
    """The first clause of a header; what is behind its colon where that says more, and as much as fits."""
    lines = [
        line.removeprefix("//!").strip()
        for line in module.partition("\n//!\n")[0].splitlines()
        if line.startswith("//!")
    ]
    sentence = re.split(r"\.(?: |$)", " ".join(lines))[0]
    head, _, tail = sentence.partition(":")
    told = tail.strip() if len(head) < 12 else head
    while len(told) > _LONGEST:
        told = told.rpartition(",")[0] or told[:_LONGEST].rpartition(" ")[0]
    return told


def _benches() -> list[str]:
    return [path.stem for path in places.BENCHES.glob("*.rs") if "\nfn main(" in path.read_text(encoding="utf-8")]


def _y(row: int) -> int:
    return _TOP + row * _ROW


def _head(layers: Sequence[Layer], height: int) -> Iterator[str]:
    with_bench = sum(layer.name in _benches() for layer in layers)
    told = (
        f"{len(layers) - 1} layers from the socket down to the bytes, RocksDB below them and called by storage alone. {with_bench} have a bench of"
        f" their own. The ladder sends the same request through the rungs {', '.join(reversed(rungs()))}. Floors, the best raw paths, are"
        f" {', '.join(FLOORS.values())}. The runner turns all of this into a stored run, and a stored run into the performance pages."
    )
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-labelledby="title description">'
    yield '  <title id="title">The layers of Strata and what measures them</title>'
    yield f'  <desc id="description">{html.escape(told)}</desc>'
    yield f"""  <style>
    text {{ font-family: sans-serif; font-size: 13px; fill: {INK} }}
    .name, .head {{ font-weight: bold }}
    .small, .head {{ font-size: 12px }}
    .code {{ font-family: monospace; font-size: 12.5px }}
    .middle {{ text-anchor: middle }}
    rect {{ fill: #9aa0a8; fill-opacity: 0.1; stroke: {INK}; stroke-width: 1.2 }}
    .engine {{ fill: {BLUE}; stroke: {BLUE} }}
    .floor {{ fill: none; stroke: {BLUE}; stroke-dasharray: 5 3 }}
    .bench {{ fill: {_GREEN}; stroke: {_GREEN} }}
    .result {{ fill: {ORANGE}; stroke: {ORANGE} }}
    .line {{ fill: none; stroke: {INK}; stroke-width: 1.4 }}
    .rail {{ fill: none; stroke: {_GREEN}; stroke-width: 2 }}
    .rung {{ fill: {_GREEN} }}
    .tip {{ fill: {INK} }}
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker>
  </defs>"""


def _headings() -> Iterator[str]:
    for x, head, small in (
        (_LAYERS, "layers", "each calls only what is below it"),
        (_BENCHES, "bench of its own", "rows of one layer"),
        (_LADDER - 8, "ladder", "the same request"),
        (_FLOORS, "floors", "the best raw path"),
    ):
        yield f'  <text class="head" x="{x}" y="24">{head}</text><text class="small" x="{x}" y="42">{small}</text>'


def _rows(layers: Sequence[Layer]) -> Iterator[str]:
    benches = _benches()
    for row, layer in enumerate(layers):
        y, kind = _y(row), ' class="engine"' if layer.name == "RocksDB" else ""
        yield f'  <rect{kind} x="{_LAYERS}" y="{y}" width="{_LAYER_WIDTH}" height="26" rx="4"/><text class="name" x="56" y="{y + 18}">{layer.name}</text>'
        yield f'  <text class="small" x="166" y="{y + 18}">{html.escape(layer.words)}</text>'
        if layer.name in benches:
            yield from _box("bench", _BENCHES, y + 1, layer.name)
    across = ", ".join(name for name in ACROSS if name in benches)
    y = _y(len(layers) - 1)
    yield f'  <text class="small" x="{_BENCHES}" y="{y + 46}">across the layers: {across}</text>'
    storage = _y(next(row for row, layer in enumerate(layers) if layer.name == "storage")) + 13
    yield f'  <path class="line" d="M{_LAYERS} {storage} H26 V{y + 13} H{_LAYERS - 1}" marker-end="url(#tip)"/>'


def _rail(layers: Sequence[Layer]) -> Iterator[str]:
    """The rungs; one that has no layer of its own stands between the two that it is between."""
    rows = {layer.name: row for row, layer in enumerate(layers)}
    at: dict[int, list[str]] = {}
    for name in rungs():
        row = rows[_BETWEEN.get(name) or _ON.get(name, name)]
        at.setdefault(_y(row) + (-3 if name in _BETWEEN else 13), []).append(name)
    yield f'  <path class="rail" d="M{_LADDER} {min(at)} V{max(at)}"/>'
    for y, names in at.items():
        yield f'  <circle class="rung" cx="{_LADDER}" cy="{y}" r="5"/><text class="code" x="{_LADDER + 12}" y="{y + 4}">{", ".join(names)}</text>'


def _flow(height: int) -> Iterator[str]:
    """From the command to the page."""
    y = height - 62
    boxes = (
        (44, 190, "result", "run-benches.py", "builds, measures, prints"),
        (276, 262, "bench", "families that take turns", "a time of a row; ratios with intervals"),
        (580, 160, "result", "a stored run", "JSON, kept as it is"),
        (782, 178, "result", "PERFORMANCE.md", "rendered from it"),
    )
    for x, width, kind, head, words in boxes:
        middle = x + width // 2
        yield f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="48" rx="4"/><text class="code middle" x="{middle}" y="{y + 20}">{head}</text>'
        yield f'  <text class="small middle" x="{middle}" y="{y + 38}">{words}</text>'
    for (x, width, *_), (following, *_) in itertools.pairwise(boxes):
        yield f'  <path class="line" d="M{x + width} {y + 24} H{following - 2}" marker-end="url(#tip)"/>'


def _box(kind: str, x: int, y: int, words: str) -> Iterator[str]:
    yield f'  <rect class="{kind}" x="{x}" y="{y}" width="{_BOX}" height="24" rx="{12 if kind == "bench" else 4}"/>'
    yield f'  <text class="code middle" x="{x + _BOX // 2}" y="{y + 17}">{words}</text>'
