"""The words that a person types to choose rows: a layer, a row, a pattern; and what was probably meant where nothing
fits.

Why strict: a misspelt name that silently selects nothing looks like a layer without trouble. Names of layers are
checked before anything is built; rows can be checked only when the binaries have told theirs.
"""

import difflib
import fnmatch
from collections.abc import Iterable

from run_benches.errors import UserError


def check_layers(words: list[str], layers: list[str], commands: Iterable[str] = ()) -> None:
    """Complains about the first word whose layer is none."""
    for word in words:
        if not any(layer_fits(layer, word) for layer in layers):
            raise UserError(
                f"no layer, row or command {word!r}{_nearest(word, [*layers, *commands])}; to see all: run-benches.py list"
            )


def check_rows(words: list[str], ids: list[str]) -> None:
    """Complains about the first word that selects no row."""
    for word in words:
        if not any(matches(id, word) for id in ids):
            names = {"/".join(id.split("/")[:depth]) for id in ids for depth in (1, 2, 3, 4)}
            raise UserError(
                f"no row {word!r}{_nearest(word, sorted(names))}; to see all: run-benches.py list {word.partition('/')[0]}"
            )


def layer_fits(layer: str, word: str) -> bool:
    """Returns whether a word may mean rows of this layer."""
    return fnmatch.fnmatchcase(layer, word.partition("/")[0])


def chosen(id: str, words: list[str]) -> bool:
    """Returns whether a row is wanted; no words want every row."""
    return not words or any(matches(id, word) for word in words)


def matches(id: str, word: str) -> bool:
    """A word means the rows it names in full, those it begins (`indexes/hash_insert`), or those it fits as a pattern."""
    return fnmatch.fnmatchcase(id, word) or fnmatch.fnmatchcase(id, f"{word}/*")


def _nearest(word: str, names: list[str]) -> str:
    near = difflib.get_close_matches(word, names, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""
