"""Writes into a folder everything that the runner tells of stored results. It builds and measures nothing.

    .venv/bin/python -m run_benches.tests.told FOLDER

Why: a change of form must not change what is told. What is written before such a change and after it is the same by
`diff -r`, or the commit says what differs and why. What the repository keeps is told through the commands. A comparison
of benches, which it does not keep, is made up, and told through the functions that the commands call.
"""

import contextlib
import io
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

from run_benches import scratch, serialization
from run_benches.calibrate.error_rates import ErrorRates
from run_benches.cli import command_line, commands
from run_benches.render import calibration_report, comparison_report, explanation, forest, terminal
from run_benches.store import load_comparisons, pool
from run_benches.store.comparisons import Comparison
from run_benches.tests import comparisons

WIDTHS = (100, 200)
"""Columns of the terminals on which tables are printed."""


def main(folder: Path) -> None:
    """Writes all of it."""
    folder.mkdir(parents=True)
    kept = [str(path) for path in load_comparisons.kept()]
    for words in (
        ["baselines"],
        ["baselines", "show", "reference"],
        ["compare", "--stored", "reference", "reference"],
        ["load", "baselines"],
        ["load", "show", "reference"],
        *(["load", "show", path] for path in kept),
    ):
        name = " ".join(Path(word).stem for word in words)
        _write(folder / f"{name}.json", partial(_carried_out, [*words, "--json"]))
        for width in WIDTHS:
            with mock.patch.object(terminal, "room", lambda width=width: width):
                _write(folder / f"{name} {width}.txt", partial(_carried_out, words))
    pages = folder / "pages"
    pages.mkdir()
    _write(folder / "document.txt", lambda: _carried_out(["document", "--output", str(pages / "PERFORMANCE.md")]))
    _write(folder / "document --check.txt", lambda: _carried_out(["document", "--check"]))
    for words in (["report", "reference"], ["load", "report", "baselines/load/reference/rest-crud.json"]):
        _carried_out([*words, "--output", str(folder / f"{' '.join(words[:-1])}.html")])
    results = serialization.load(ErrorRates, pool.RESULTS)
    _write(folder / "calibration.txt", lambda: calibration_report.summary(results))
    _write(folder / "calibration.md", lambda: "\n".join(calibration_report.section(results)))
    for name, compared in comparisons.every_ending().items():
        _tell(folder, name, compared)


def _carried_out(words: list[str]) -> int:
    """Carries out a command in this process."""
    with scratch.of_the_command():
        return commands.carry_out(command_line._options(words), words)


def _tell(folder: Path, name: str, compared: Comparison) -> None:
    for width in WIDTHS:
        with mock.patch.object(terminal, "room", lambda width=width: width):
            for words, everything in (("", False), (" all", True)):
                text = partial(comparison_report.text, compared, Path("runs/compare.json"), everything)
                _write(folder / f"comparison {name}{words} {width}.txt", text)
    _write(folder / f"comparison {name}.md", lambda: comparison_report.comment(compared))
    _write(folder / f"comparison {name}.json", lambda: serialization.text(compared))
    _write(folder / f"explain {name}.txt", lambda: "\n".join(explanation.explain(compared, id) for id in compared.rows))
    with contextlib.suppress(forest.Nothing):
        forest.forest(compared, folder / f"comparison {name}.svg")


def _write(path: Path, tell: Callable[[], object]) -> None:
    """Writes what is printed, and what is returned: a text, or an exit code. Where the folder lies is no part of it."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        found = tell()
    path.write_text(f"{said.getvalue()}{found}\n".replace(str(path.parent), "FOLDER"), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
