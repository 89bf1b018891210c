"""`document`: renders the performance pages and their pictures from a stored run, and checks that they are what the run
says.

Why a check: a figure typed by hand cannot be traced. So the pages come out of stored runs and one source tree
(page.py), and whoever changes a figure by hand, a run, or the code that renders is told the first place that differs. A
layer is of one run, so that no figures of different days stand in one table of it; each page says when its layer was
measured. What a page says of our own error rates comes from the one stored calibration, whatever its run; what it says
of load tests comes from `baselines/load`, and stands beside `baselines/reference` alone. Text is compared byte by byte
and pictures by their seals (pictures.py says why), so that the check draws nothing.

The main page lies above a folder of its name in small letters, with the other pages and the pictures:
`docs/PERFORMANCE.md` above `docs/performance`. Whatever else lies there and bears our marks belonged to an earlier
rendering; writing removes it, and the check names it.

The drawing of the layers in `docs/pictures`, which the README shows, is made of the code alone and goes with the
committed pages; so does the block of the README that says how often our verdicts are wrong.

`docs/PERFORMANCE.md` belongs to `baselines/reference` alone; any other run is rendered into its own folder, or where
`--output` says.
"""

import difflib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from run_benches import files, places, repository, serialization
from run_benches.analysis import figures, load_findings
from run_benches.analysis.findings import Findings
from run_benches.analysis.load_findings import LoadFindings
from run_benches.calibrate.error_rates import ErrorRates
from run_benches.errors import Exit, UserError
from run_benches.measure import provenance
from run_benches.places import shown
from run_benches.render import (
    calibration_pictures,
    calibration_report,
    layers_drawing,
    load_pictures,
    page_method,
    screenshots,
)
from run_benches.render.gallery import pictures
from run_benches.render.page import MAIN, MOST_LINES, bench_headers, render
from run_benches.render.pictures import SEALED, Picture
from run_benches.render.screenshots import Screenshot
from run_benches.render.source import PICTURES, folder_of, marked
from run_benches.store import fingerprint, load_comparisons, loads, pool, runs
from run_benches.store.fingerprint import Parts
from run_benches.store.load_comparisons import LoadComparison

PAGE = places.ROOT / "docs" / MAIN
README = places.ROOT / "README.md"


def reference() -> Path:
    """The set that the committed pages are rendered from: a folder, or the one run that an earlier version stored."""
    return _set(places.REFERENCE)


def load_reference() -> Path:
    """The same of load tests."""
    return _set(places.LOAD_REFERENCE)


def load_tests() -> dict[str, LoadFindings]:
    """The load test of each scenario of the committed pages."""
    stored = loads.load_set(load_reference()) if load_reference().exists() else {}
    return {scenario: LoadFindings.of(run) for scenario, run in stored.items()}


def _set(folder: Path) -> Path:
    single = folder.with_suffix(".json")
    return single if single.exists() and not folder.is_dir() else folder


def main(
    run_path: Path | None, output: Path | None, dry_run: bool, check: bool, calibrated: Path = pool.RESULTS
) -> int:
    """Renders, shows what would change, or checks; answers with the exit code."""
    source = run_path or reference()
    page = output or (PAGE if _is_reference(source) else places.RUNS / source.stem / MAIN)
    if page.resolve() == PAGE.resolve() and not _is_reference(source):
        raise UserError(f"{shown(PAGE)} is rendered from {shown(reference())} alone; give another --output")
    if check and not source.exists() and not page.exists():
        print(f"not rendered yet: there is neither {shown(source)} nor {shown(page)}; measure: run-benches.py renew")
        return Exit.ERROR
    if not source.exists():
        raise UserError(_no_run(source, page), Exit.FAILED if check else Exit.ERROR)
    if reason := repository.refusal():
        if check:
            raise UserError(
                f"the pages cannot be checked: whether what they speak of has changed is not known ({reason})",
                Exit.NOTHING,
            )
        print(
            f"whether the code has changed since it was measured is not known ({reason}); the pages say so",
            file=sys.stderr,
        )
    sources, texts, drawn = contents(source, calibrated, page.name)
    if page.resolve() == PAGE.resolve():
        texts[f"{PICTURES}/{layers_drawing.FILE}"] = layers_drawing.svg()
        texts[f"../{README.name}"] = _readme(_calibration(calibrated))
    taken = _screenshots() if page.resolve() == PAGE.resolve() else []
    rendered = Rendered(page, sources, texts, drawn, output is not None, taken)
    return rendered.check() if check else rendered.show_changes() if dry_run else rendered.write()


def contents(
    source: Path, calibrated: Path = pool.RESULTS, main: str = MAIN
) -> tuple[list[Path], dict[str, str], list[Picture]]:
    """Returns the sources that the pages of a run are rendered from, their texts by their place, the main one first,
    and their pictures."""
    found, calibration = Findings.of(runs.load(source), runs.load_set(source)), _calibration(calibrated)
    is_reference = _is_reference(source)
    tested = load_tests() if is_reference else {}
    compared = {path.stem: load_comparisons.load(path) for path in load_comparisons.kept()} if is_reference else {}
    blind = [check.rule for check in found.checks if check.is_blind] if len(found.of_each_machine) == 1 else []
    if blind:
        raise UserError(
            f"{shown(source)}: a cross-check looked at nothing, though there are rows of its kind: {'; '.join(blind)}"
        )
    drawn = [
        *pictures(found).values(),
        *(calibration_pictures.pictures(calibration) if calibration else []),
        *(load_pictures.pictures(load_findings.together(tested)) if tested else []),
    ]
    sources = [
        source,
        *([calibrated] if calibration else []),
        *([load_reference()] if tested else []),
        *([load_comparisons.KEPT] if compared else []),
    ]
    stale = _stale(found.parts, calibration, tested, compared)
    return sources, render(found, bench_headers(), calibration, main, stale, tested, compared), drawn


def _screenshots() -> list[Screenshot]:
    """The pictures of pages that the documents show."""
    tested = load_tests().get(screenshots.SCENARIO)
    return [screenshots.console(), *([screenshots.of_load_page(tested)] if tested else [])]


def _stale(
    parts: Mapping[str, Findings],
    calibration: ErrorRates | None,
    tested: Mapping[str, LoadFindings],
    compared: Mapping[str, LoadComparison],
) -> dict[str, bool | None]:
    """Returns whether they speak of sources that have changed since, by the names that `Source` says; nothing where
    that is not known."""
    layers = provenance.of_layers(parts)
    found = {layer: _differ(part.made.sources.get(layer), layers.get(layer)) for layer, part in parts.items()}
    found |= {
        f"load {name}": _differ(run.sources.get(name), provenance.of_scenarios([name])) for name, run in tested.items()
    }
    found |= {
        f"comparison {name}": _differ(one.sources, provenance.of_scenarios({one.a.scenario, one.b.scenario}))
        for name, one in compared.items()
    }
    judging = fingerprint.of_files(fingerprint.JUDGING)
    known = bool(calibration and calibration.fingerprint and judging)
    return found | ({"calibration": calibration.fingerprint != judging if known else None} if calibration else {})


def _differ(known: Parts | None, now: Parts | None) -> bool | None:
    return bool(fingerprint.changed(known, now)) if known and now else None


@dataclass(frozen=True)
class Rendered:
    """The pages as they should be, and where the main one lies, which may be where a person said; the first of their
    sources is the run."""

    page: Path
    sources: list[Path]
    texts: dict[str, str]
    pictures: list[Picture]
    named: bool
    screenshots: list[Screenshot] = field(default_factory=list)

    @property
    def beside(self) -> Path:
        """Where the other pages lie."""
        return self.page.parent / folder_of(self.page.name)

    @property
    def folder(self) -> Path:
        """Where the pictures lie."""
        return self.beside / PICTURES

    def write(self) -> int:
        """Draws what is not drawn yet, then replaces each file in one step, the main page last."""
        drawn = {picture.file: picture.svg() for picture in self.pictures if picture.fault(self.folder)}
        try:
            for file, svg in drawn.items():
                files.replace(self.folder / file, svg)
            for file, text in reversed(self.texts.items()):
                (files.write if self.named and file == self.page.name else files.replace)(self.page.parent / file, text)
            for stray in self._strays():
                stray.unlink()
        except OSError as error:
            raise UserError(
                f"cannot write {shown(self.page)}: {error.strerror}; make room or give another --output"
            ) from error
        beside = sum(file.startswith(f"{self.beside.name}/") for file in self.texts)
        others = f" and {figures.plural(beside, 'page')} in {shown(self.beside)}"
        print(
            f"wrote {shown(self.page)}{others} from {self._sources}; drew {figures.plural(len(drawn), 'picture')} of {len(self.pictures)}"
        )
        for fault in self._screenshot_faults():
            print(f"{fault}: run-benches.py document --screenshots", file=sys.stderr)
        return Exit.FINE

    def show_changes(self) -> int:
        """Prints what `write` would change, as a diff."""
        told: list[str] = []
        for file, text in self.texts.items():
            path = self.page.parent / file
            stored, rendered = _stored(path).splitlines(), text.splitlines()
            told += difflib.unified_diff(stored, rendered, shown(path), f"{shown(path)} (rendered)", lineterm="")
        told += self._faults_beside()
        print(
            "\n".join(told)
            or f"{shown(self.page)}, its pages and pictures are what {self._sources} says: nothing would change"
        )
        return Exit.FINE

    def check(self) -> int:
        """Fails at the first place where a page or a picture is not what the run says."""
        fault = next(self._faults(), None)
        print(
            f"{fault}\nrender it again with: {self._again()}"
            if fault
            else f"{shown(self.page)} and its pages are what {self._sources} says"
        )
        return Exit.FAILED if fault else Exit.FINE

    def _faults(self) -> Iterator[str]:
        for file, text in self.texts.items():
            yield from self._text_fault(self.page.parent / file, text)
        lines = next(iter(self.texts.values())).count("\n")
        if lines > MOST_LINES:
            yield f"{shown(self.page)} has {lines} lines, and {MOST_LINES} are the most: what is not needed there belongs on another page"
        yield from self._faults_beside()

    def _text_fault(self, path: Path, text: str) -> Iterator[str]:
        if not path.exists():
            yield f"{shown(path)} is missing"
            return
        wanted, found = text.split("\n"), _stored(path).split("\n")
        for number, (right, wrong) in enumerate(zip_longest(wanted, found, fillvalue="(the page ends)"), start=1):
            if right != wrong:
                where = f"{shown(path)}, line {number}{_block_around(wanted, number)}"
                yield f"{where} is not what {self._sources} says\n  expected: {right}\n  found:    {wrong}"
                return

    def _faults_beside(self) -> Iterator[str]:
        """Those of pictures, and of what lies beside the pages."""
        for picture in self.pictures:
            if fault := picture.fault(self.folder):
                yield f"{shown(self.folder / picture.file)} {fault}"
        yield from self._screenshot_faults()
        yield from (f"{shown(stray)} belongs to no page any more" for stray in self._strays())

    def _screenshot_faults(self) -> Iterator[str]:
        return (
            f"{shown(screenshots.FOLDER / picture.file)} {fault}"
            for picture in self.screenshots
            if (fault := picture.fault())
        )

    def _strays(self) -> list[Path]:
        """Returns the files that an earlier rendering left beside these pages: those with marks of what is rendered."""
        wanted = {self.page.parent / file for file in self.texts}
        wanted |= {self.folder / picture.file for picture in self.pictures}
        lying = sorted([*self.beside.glob("*.md"), *self.folder.glob("*.svg")])
        marks = ("<!-- BEGIN ", SEALED)
        return [path for path in lying if path not in wanted and any(mark in _stored(path) for mark in marks)]

    @property
    def _sources(self) -> str:
        return " with ".join(map(shown, self.sources))

    def _again(self) -> str:
        named = f" {shlex.quote(shown(self.sources[0]))} --output {shlex.quote(shown(self.page))}"
        if _is_reference(self.sources[0]):
            named = " --screenshots" if any(picture.fault() for picture in self.screenshots) else ""
        return f"python3 run-benches.py document{named}"


def _readme(calibration: ErrorRates | None) -> str:
    """The README with what the calibration says in its block."""
    before, begin, rest = _stored(README).partition("<!-- BEGIN calibration:")
    _, end, after = rest.partition("<!-- END calibration -->\n")
    if not begin or not end:
        raise UserError(
            f"{shown(README)} has no block for what the calibration says: <!-- BEGIN calibration: .. --> to <!-- END calibration -->"
        )
    found, origin = "Our own error rates have not been measured yet.", "not measured"
    if calibration:
        found, origin = calibration_report.sentence(calibration), page_method.calibration_origin(calibration)
    return before + "\n".join(marked("calibration", origin, [found])).rstrip("\n") + "\n" + after


def _stored(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace") if path.exists() else ""
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {error.strerror}") from error


def _block_around(lines: Sequence[str], number: int) -> str:
    """The block that a line stands in, for messages."""
    for line in reversed(lines[:number]):
        if line.startswith("<!-- END"):
            break
        if line.startswith("<!-- BEGIN"):
            return f" (block `{line.removeprefix('<!-- BEGIN ').split(':')[0]}`)"
    return ""


def _calibration(path: Path) -> ErrorRates | None:
    """Reads what was found of our own error rates, if they were ever measured."""
    if not path.exists():
        return None
    try:
        return serialization.load(ErrorRates, path)
    except (OSError, serialization.Malformed) as error:
        raise UserError(
            f"{shown(path)} is damaged ({error}); restore it, or write it anew: run-benches.py calibrate"
        ) from error


def _is_reference(path: Path) -> bool:
    return path.resolve() == reference().resolve()


def _no_run(source: Path, page: Path) -> str:
    left = f", so nothing proves the figures of {shown(page)}" if page.exists() else ""
    return f"there is no {shown(source)}{left}; measure: run-benches.py renew"
