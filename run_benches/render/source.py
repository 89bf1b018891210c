"""What a section of the performance pages may look at, where the page lies that it stands on, and the marks between which figures stand.

A section is a function from the source to lines of Markdown. It is given all of the run and no clock, no file and no other run, so that the
same source gives the same bytes, and the figures of one page cannot be of two days.

The main page lies above a folder of its name in small letters, with all other pages and, in one of its own, the pictures. So links are made
here, by where the page lies that they stand on.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from run_benches.analysis import figures, findings
from run_benches.analysis.findings import Held, Row
from run_benches.render.pictures import Picture
from run_benches.store.load_comparisons import LoadComparison
from run_benches.store.loads import LoadRun
from run_benches.store.runs import Run

if TYPE_CHECKING:
    from run_benches.calibrate.error_rates import Results


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
    """All that a section may look at; `stale` says whether the sources have changed since of which the `run`, the `calibration`, the `load`, and
    `comparison 1` and so on, in the order of `compared`, speak: true, or nothing where that is not known."""

    run: Run
    headers: Mapping[str, str]
    pictures: Mapping[str, Picture]
    calibration: "Results | None" = None
    address: Address = Address()
    stale: Mapping[str, bool | None] = field(default_factory=dict)
    load: LoadRun | None = None
    compared: tuple[LoadComparison, ...] = ()

    def block(self, name: str, lines: Sequence[str]) -> list[str]:
        """Figures, between the marks that say where they come from."""
        return marked(name, f"{command(self.run)} @ {revision(self.run.tool.commit, self.run.tool.dirty)}", lines)

    def age(self, name: str, what: str) -> list[str]:
        """A paragraph where figures are stale, or where that is not known; `what` is the code that they speak of."""
        words = {True: f"**Stale: {what} has changed since.**", None: f"**Whether {what} has changed since is not known.**"}
        stale = self.stale.get(name, False)
        return [] if stale is False else [words[stale], ""]

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
        """What the bench says about itself; marked too, since its settings are numbers."""
        return marked(f"{layer} words", f"benches/{layer}.rs @ this checkout", [self.headers[layer]]) if layer in self.headers else []

    def missing(self, layer: str) -> str:
        """Why the run has no row where one is expected."""
        if layer not in self.headers:
            return f"{figures.NOT_RUN}: there is no bench for it yet"
        if self.run.partial is not None:
            return f"{figures.NOT_RUN}: the run was limited to {', '.join(self.run.partial)}"
        return f"{figures.NOT_RUN}: the run planned no such row"



def marked(name: str, origin: str, lines: Sequence[str]) -> list[str]:
    """Lines between the marks that say where they come from."""
    return [f"<!-- BEGIN {name}: {origin} -->", "", "\n".join(lines).strip("\n"), "", f"<!-- END {name} -->", ""]


def command(run: Run) -> str:
    """The command as one types it in the checkout, without the folders of whoever typed it."""
    return f"python3 {shlex.join([Path(run.command[0]).name, *run.command[1:]])}"


def revision(commit: str, dirty: bool | None) -> str:
    """A revision as it stands in a mark; of one that is not known, whether it was dirty is not known either."""
    return commit[:12] + ("-dirty" if dirty else "")
