"""`document`: renders the performance page and its pictures from a stored run, and checks that a page is what its run says.

Why a check: a figure typed by hand cannot be traced, and sections of different days pasted together contradict each other. So the page
comes out of one run and one source tree (page.py), and whoever changes a figure by hand, a run, a bench's words or the code that renders
is told the first place that differs. What a page says of our own error rates comes from the one stored calibration, whatever its run. Text
is compared byte by byte and pictures by their seals (pictures.py says why), so that the check draws nothing.

`docs/PERFORMANCE.md` belongs to `baselines/reference.json` alone; any other run is rendered into its own folder, or where `--output` says.
"""

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from run_benches import calibrate, calibration_pictures, figures, places, runs, shapes
from run_benches.error_rates import Results
from run_benches.errors import Complaint, Exit
from run_benches.gallery import pictures
from run_benches.page import bench_headers, render
from run_benches.pictures import Picture
from run_benches.runs import shown

PAGE = places.ROOT / "docs" / "PERFORMANCE.md"
REFERENCE = places.BASELINES / "reference.json"


def main(run_path: Path | None, output: Path | None, dry_run: bool, check: bool, calibrated: Path = calibrate.RESULTS) -> int:
    """Renders, shows what would change, or checks; answers with the exit code."""
    source = run_path or REFERENCE
    page = output or (PAGE if _is_reference(source) else places.RUNS / source.stem / "PERFORMANCE.md")
    if page.resolve() == PAGE.resolve() and not _is_reference(source):
        raise Complaint(f"{shown(PAGE)} is rendered from {shown(REFERENCE)} alone; give another --output")
    if check and not source.exists() and not page.exists():
        print(f"not rendered yet: there is neither {shown(source)} nor {shown(page)}; measure, then: run-benches.py save reference")
        return Exit.ERROR
    if not source.exists():
        raise Complaint(_no_run(source, page), Exit.FAILED if check else Exit.ERROR)
    rendered = Rendered(page, *contents(source, calibrated))
    return rendered.check() if check else rendered.show_changes() if dry_run else rendered.write()


def contents(source: Path, calibrated: Path = calibrate.RESULTS) -> tuple[list[Path], str, list[Picture]]:
    """What a page of a run is rendered from, its text and its pictures."""
    run, calibration = runs.load(source), _calibration(calibrated)
    drawn = [*pictures(run).values(), *(calibration_pictures.pictures(calibration) if calibration else [])]
    return [source, *([calibrated] if calibration else [])], render(run, bench_headers(), calibration), drawn


@dataclass(frozen=True)
class Rendered:
    """A page as it should be, and where it lies; the first of its sources is the run."""

    page: Path
    sources: list[Path]
    text: str
    pictures: list[Picture]

    @property
    def folder(self) -> Path:
        """Where the pictures lie: beside the page."""
        return self.page.parent / "pictures"

    def write(self) -> int:
        """Draws what is not drawn yet, then replaces each file in one step, the page last."""
        drawn = {picture.file: picture.svg() for picture in self.pictures if picture.fault(self.folder)}
        try:
            for file, svg in drawn.items():
                shapes.write(self.folder / file, svg)
            shapes.write(self.page, self.text)
        except OSError as error:
            raise Complaint(f"cannot write {shown(self.page)}: {error.strerror}; make room or give another --output") from error
        print(f"wrote {shown(self.page)} from {self._sources}; drew {figures.plural(len(drawn), 'picture')} of {len(self.pictures)}")
        return Exit.FINE

    def show_changes(self) -> int:
        """What `write` would change, as a diff."""
        name, old, new = shown(self.page), self._stored().splitlines(), self.text.splitlines()
        changes = list(difflib.unified_diff(old, new, name, f"{name} (rendered)", lineterm=""))
        faults = [f"{shown(self.folder / picture.file)} {fault}" for picture in self.pictures if (fault := picture.fault(self.folder))]
        print("\n".join([*changes, *faults]) or f"{name} and its pictures are what {self._sources} says: nothing would change")
        return Exit.FINE

    def check(self) -> int:
        """Fails at the first place where the page or a picture is not what the run says."""
        fault = self._text_fault() or self._picture_fault()
        print(f"{fault}\nrender it again with: {self._again()}" if fault else f"{shown(self.page)} is what {self._sources} says")
        return Exit.FAILED if fault else Exit.FINE

    def _text_fault(self) -> str | None:
        if not self.page.exists():
            return f"{shown(self.page)} is missing"
        wanted, found = self.text.split("\n"), self._stored().split("\n")
        for number, (right, wrong) in enumerate(zip_longest(wanted, found, fillvalue="(the page ends)"), start=1):
            if right != wrong:
                where = f"{shown(self.page)}, line {number}{_block_around(wanted, number)}"
                return f"{where} is not what {self._sources} says\n  expected: {right}\n  found:    {wrong}"
        return None

    def _picture_fault(self) -> str | None:
        faults = (f"{shown(self.folder / picture.file)} {fault}" for picture in self.pictures if (fault := picture.fault(self.folder)))
        return next(faults, None)

    @property
    def _sources(self) -> str:
        return " with ".join(map(shown, self.sources))

    def _again(self) -> str:
        named = "" if _is_reference(self.sources[0]) else f" {shlex.quote(shown(self.sources[0]))} --output {shlex.quote(shown(self.page))}"
        return f"python3 run-benches.py document{named}"

    def _stored(self) -> str:
        try:
            return self.page.read_bytes().decode("utf-8", errors="replace") if self.page.exists() else ""
        except OSError as error:
            raise Complaint(f"cannot read {shown(self.page)}: {error.strerror}") from error


def _block_around(lines: Sequence[str], number: int) -> str:
    """The block that a line stands in, for messages."""
    for line in reversed(lines[:number]):
        if line.startswith("<!-- END"):
            break
        if line.startswith("<!-- BEGIN"):
            return f" (block `{line.removeprefix('<!-- BEGIN ').split(':')[0]}`)"
    return ""


def _calibration(path: Path) -> Results | None:
    """What was found of our own error rates, if it was ever measured."""
    if not path.exists():
        return None
    try:
        return shapes.load(Results, path)
    except (OSError, shapes.Misshapen) as error:
        raise Complaint(f"{shown(path)} is damaged ({error}); restore it, or write it anew: run-benches.py calibrate") from error


def _is_reference(path: Path) -> bool:
    return path.resolve() == REFERENCE.resolve()


def _no_run(source: Path, page: Path) -> str:
    left = f", so nothing proves the figures of {shown(page)}" if page.exists() else ""
    return f"there is no {shown(source)}{left}; measure, then: run-benches.py save {source.stem}"
