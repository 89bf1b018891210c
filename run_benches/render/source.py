"""The values that a section of the performance pages may look at, the place of the page that it stands on, and the
marks between which figures stand.

A section is a function from the source to lines of Markdown. It is given the stored runs and no clock and no file, so
that the same source gives the same bytes. Each layer is of one run, and each page says of which: when it was measured,
at which revision, on which machine, and whether the code that it speaks of has changed since.

The main page lies above a folder of its name in small letters, with all other pages and, in one of its own, the
pictures. So links are made here, by where the page lies that they stand on.
"""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from run_benches.analysis import figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.load_findings import LoadFindings
from run_benches.analysis.row import Made, house_order
from run_benches.render.pictures import Picture
from run_benches.store.load_comparisons import LoadComparison
from run_benches.store.runs import Machine

if TYPE_CHECKING:
    from run_benches.calibrate.error_rates import ErrorRates


@dataclass(frozen=True)
class Address:
    """Where a page lies: the file of the main page, and whether it is another one, in the folder beside it."""

    main: str = "PERFORMANCE.md"
    inside: bool = False

    @property
    def folder(self) -> str:
        """The folder of the other pages."""
        return folder_of(self.main)

    def page(self, name: str) -> str:
        """The way from this page to another one."""
        return f"{name}.md" if self.inside else f"{self.folder}/{name}.md"

    def picture(self, file: str) -> str:
        """The way from this page to a picture."""
        return f"{PICTURES}/{file}" if self.inside else f"{self.folder}/{PICTURES}/{file}"


PICTURES = "pictures"
"""The folder of the pictures, among the other pages."""


def folder_of(main: str) -> str:
    """The folder beside a main page: its name in small letters, without the ending."""
    stem = Path(main).stem.lower()
    return stem if stem != main else f"{stem}-pages"


@dataclass(frozen=True)
class Source:
    """All that a section may look at. `found` has the figures of all layers, `loads` the load test of each scenario.
    `stale` says what was measured of code that has changed since (true), or is not known to
    be the same (nothing): layers by their names, `load NAME` of scenarios, `comparison NAME`, and the `calibration`."""

    found: Findings
    headers: Mapping[str, str]
    pictures: Mapping[str, Picture]
    calibration: "ErrorRates | None" = None
    address: Address = Address()
    stale: Mapping[str, bool | None] = field(default_factory=dict)
    loads: Mapping[str, LoadFindings] = field(default_factory=dict)
    compared: Mapping[str, LoadComparison] = field(default_factory=dict)

    def of(self, layer: str) -> "Source":
        """Returns what was measured of one layer; all of it where the layer was not measured."""
        return dataclasses.replace(self, found=self.found.parts.get(layer, self.found))

    def block(self, name: str, lines: Sequence[str]) -> list[str]:
        """Figures, between the marks that say where they come from."""
        return marked(name, origin([part.made for part in self.found.parts.values()] or [self.found.made]), lines)

    def section(self, title: str, words: str, name: str, lines: Sequence[str]) -> list[str]:
        """A section of a page: its title, words without a figure, and figures between their marks."""
        return [f"## {title}", "", *([words, ""] if words else []), *self.block(name, lines)]

    def measured(self) -> list[str]:
        """When, at which revision and on which machine the layers of this page were measured, and whether the code has
        changed since."""
        parts = self.found.parts.items()
        return self.block(
            "measured", told_by([(layer, part.made, self.stale.get(layer, False)) for layer, part in parts])
        )

    def picture(self, name: str) -> list[str]:
        """A picture, where the run has figures for it."""
        picture = self.pictures.get(name)
        return self.block(f"{name} picture", [self.image(picture)]) if picture else []

    def image(self, picture: Picture) -> str:
        """A picture, by the way to it from this page."""
        return f"![{picture.alt}]({self.address.picture(picture.file)})"

    def link(self, words: str, page: str) -> str:
        """A link to another page."""
        return f"[{words}]({self.address.page(page)})"

    def words(self, layer: str) -> list[str]:
        """Returns what the bench said about itself when it was measured, or says now; marked too, since its settings
        are numbers."""
        part = self.found.parts.get(layer)
        if part and layer in part.made.headers:
            tool = part.made.tool
            return marked(
                f"{layer} words",
                f"benches/{layer}.rs @ {revision(tool.commit, tool.dirty)}",
                [part.made.headers[layer]],
            )
        return (
            marked(f"{layer} words", f"benches/{layer}.rs @ this checkout", [self.headers[layer]])
            if layer in self.headers
            else []
        )

    def missing(self, layer: str) -> str:
        """Why the run has no row where one is expected."""
        if layer not in self.headers:
            return f"{figures.NOT_RUN}: there is no bench for it yet"
        parts = self.found.parts
        limited = sorted({name for part in parts.values() for name in part.made.partial or []}, key=house_order)
        if layer not in parts and limited:
            return f"{figures.NOT_RUN}: measured were {', '.join(limited)}"
        return f"{figures.NOT_RUN}: the run planned no such row"


def marked(name: str, origin: str, lines: Sequence[str]) -> list[str]:
    """Lines between the marks that say where they come from."""
    return [f"<!-- BEGIN {name}: {origin} -->", "", "\n".join(lines).strip("\n"), "", f"<!-- END {name} -->", ""]


Stored = Made | LoadFindings | LoadComparison


def origin(measured: Sequence[Stored]) -> str:
    """The commands that made runs, and their revisions; of several that were renewed each by itself, the command for
    all."""
    made: dict[str, dict[str, None]] = {}
    for run in sorted(measured, key=lambda run: run.started):
        renewed = len(measured) > 1 and run.command[1:2] == ["renew"]
        made.setdefault("python3 run-benches.py renew" if renewed else command(run), {})[
            revision(run.tool.commit, run.tool.dirty)
        ] = None
    return "; ".join(f"{typed} @ {', '.join(revisions)}" for typed, revisions in made.items())


def told_by(measured: Sequence[tuple[str, Stored, bool | None]]) -> list[str]:
    """When, where and of which code each was measured, those together of which the same is told."""
    told: dict[str, list[str]] = {}
    for name, run, stale in measured:
        words = {
            False: "unchanged since",
            True: "**the code has changed since**",
            None: "**whether the code has changed since is not known**",
        }[stale]
        at = f"measured on {run.started[:10]} at {revision(run.tool.commit, run.tool.dirty)}, on {machine_words(run.machine)}: {words}"
        told.setdefault(at, []).append(name)
    if len(told) == 1:
        (words,) = told
        return [f"{words[0].upper()}{words[1:]}."]
    return [f"* {', '.join(names)}: {words}." for words, names in told.items()]


def machine_words(machine: Machine) -> str:
    """A machine in a few words."""
    known = machine.identity
    name, cores = known.get("cpu_model") or "a processor that is not known", known.get("cores")
    # Where a host hides the name, these still tell its machines apart.
    kind = ", ".join(f"{what} {known[what]}" for what in ("family", "model") if known.get(what))
    return f"{name}{f' ({kind})' if kind else ''}" + (
        f" with {figures.plural(cores, 'core')}" if isinstance(cores, int) else ""
    )


def command(run: Stored) -> str:
    """The command as one types it in the checkout, without the folders of whoever typed it."""
    return f"python3 {shlex.join([Path(run.command[0]).name, *run.command[1:]])}"


def revision(commit: str, dirty: bool | None) -> str:
    """A revision as it stands in a mark; of one that is not known, whether it was dirty is not known either."""
    return commit[:12] + ("-dirty" if dirty else "")
