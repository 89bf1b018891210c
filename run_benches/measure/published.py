"""The rows of the published tables, and the rows of our benches that fill them: `tests/rows.toml`.

Why checked: a bench that is renamed or removed leaves a hole in the document, and a hole says nothing. The ids are
those that the bench binaries list at full scale, so nothing has to be measured to compare them.
"""

import difflib
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from run_benches.errors import UserError
from run_benches.measure import build
from run_benches.measure.layers import layer_names
from run_benches.places import ROOT

ROWS = ROOT / "tests" / "rows.toml"
"""Tables by name; in each, the published rows with the ids that fill them."""


def check() -> list[str]:
    """Builds the benches and asks them for their rows; one line for each that is missing."""
    promised = read(ROWS)
    ids = {
        id
        for layer, executable in build.build().items()
        if layer in layer_names()
        for id in build.ask(layer, executable).facts.rows
    }
    return list(missing(promised, ids))


def read(path: Path) -> dict[str, list[str]]:
    """The ids by published row, `table: row`."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path.name} cannot be read: {error}") from error
    promised: dict[str, list[str]] = {}
    for table, rows in tables.items():
        for row, ids in rows.items() if isinstance(rows, dict) else [("", None)]:
            if (
                not isinstance(ids, list)
                or not ids
                or not all(isinstance(id, str) and id.count("/") == 3 for id in ids)
            ):
                raise UserError(
                    f"{path.name}: [{table}] {row!r} must be a list of full ids, LAYER/OPERATION/SUBJECT/CASE"
                )
            promised[f"{table}: {row}"] = ids
    return promised


def missing(promised: dict[str, list[str]], ids: Collection[str]) -> Iterator[str]:
    """One line for each promised id that is not there, with the nearest that is."""
    for row, wanted in promised.items():
        for id in wanted:
            if id not in ids:
                near = difflib.get_close_matches(id, ids, 1, 0.5)
                yield f"{row}: no bench has the row {id}" + (f"; the nearest is {near[0]}" if near else "")
