"""Rust, as far as it has to be read here: the tokens of a source that can change a program.

Why tokens: a comment, an empty line and a test change no program that is measured. Only files that compile are meant;
of any other the answer is some list of its words.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

_TOKEN = re.compile(
    r"""
    (?P<none> \s+ | //[^\n]* | /\* )
  | b?r(?P<hashes>\#*)".*?"(?P=hashes)
  | [bc]?"(?:\\.|[^"\\])*"
  | b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])'
  | '\w+
  | \w+
  | .
    """,
    re.VERBOSE | re.DOTALL,
)

_FOR_TESTS = ["#", "[", "cfg", "(", "test", ")", "]"]

_ITEMS = frozenset(
    (
        "async",
        "const",
        "enum",
        "extern",
        "fn",
        "impl",
        "macro_rules",
        "mod",
        "pub",
        "static",
        "struct",
        "trait",
        "type",
        "unsafe",
        "use",
    )
)
"""By what an item begins that ends with its first braces, or with a semicolon before them."""


@lru_cache(maxsize=4096)
def tokens(text: str) -> list[str]:
    """The tokens of a source, without comments and without what stands under `#[cfg(test)]`."""
    found = _all(text)
    kept, at = [], 0
    for start in _tests(found):
        if start < at:  # within another one
            continue
        kept += found[at:start]
        at = _end_of_item(found, start + len(_FOR_TESTS)) or start
    return kept + found[at:]


def test_modules(text: str) -> list[str]:
    """The names of the modules that a source has in files of their own for tests alone."""
    found, all_of_it = [], _all(text)
    for at in _tests(all_of_it):
        item = all_of_it[at + len(_FOR_TESTS) :][:3]
        found += [item[1]] if item[:1] == ["mod"] and item[2:] == [";"] else []
    return found


def without_modules(found: Sequence[str]) -> list[str]:
    """The tokens without what only says which modules there are and by which names they are reached: public modules
    (`pub mod x;`) and imports. A module in braces that has nothing else in it counts as its content; where another one
    can be seen from does not count."""
    kept: list[str] = []
    at = 0
    while at < len(found):
        item = _behind_attributes(found, at)
        word = _behind_visibility(found, item)
        begins = at == 0 or found[at - 1] in (";", "}", "]")  # within a type, `use` is no import
        kind, opened = (found[word] if begins and word < len(found) else ""), "".join(found[word + 2 : word + 3])
        if kind == "use":
            at = _end_of_item(found, word) or len(found)
        elif kind == "mod" and opened == ";":
            kept += [] if found[item:word] == ["pub"] else [*found[at:item], *found[word : word + 3]]
            at = word + 3
        elif (
            kind == "mod"
            and opened == "{"
            and "{" not in (inside := without_modules(found[word + 3 : _behind(found, word + 2) - 1]))
        ):
            kept += inside
            at = _behind(found, word + 2)
        else:
            kept += found[at : _behind(found, at)]
            at = _behind(found, at)
    return kept


def paths(found: Sequence[str], crate: str) -> set[str]:
    """The first names of all paths into a crate: `a` and `b` of `crate::{a::x, b}` and of `crate::a::y`."""
    # in an attribute
    names = {
        name for word in found if word[-1] == '"' and crate in word for name in re.findall(rf"\b{crate}::(\w+)", word)
    }
    for at, word in enumerate(found[:-3]):
        if word == crate and found[at + 1] == found[at + 2] == ":":
            names |= _in_braces(found, at + 3) if found[at + 3] == "{" else {found[at + 3]}
    return names


def modules(found: Sequence[str]) -> set[str]:
    """The modules that a source declares and that stand in files beside it (`mod x;`, without a path)."""
    return {
        found[at + 1]
        for at in range(len(found) - 2)
        if found[at] == "mod" and found[at + 2] == ";" and list(found[max(0, at - 4) : at - 2]) != ["path", "="]
    }


def _all(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        for match in _TOKEN.finditer(text, at):
            at = match.end()
            if match["none"] == "/*":
                at = _end_of_comment(text, at)
                break
            if match["none"] is None:
                found.append(match[0])
    return found


def _end_of_comment(text: str, at: int) -> int:
    """Where a comment ends in which others may stand."""
    depth = 1
    for match in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _tests(found: Sequence[str]) -> list[int]:
    return [at for at in range(len(found)) if found[at] == "#" and list(found[at : at + len(_FOR_TESTS)]) == _FOR_TESTS]


def _end_of_item(found: Sequence[str], at: int) -> int | None:
    """The place behind the item that begins at a place, with its attributes; nothing for what is no item (a field, an
    arm), which is kept."""
    at = _behind_attributes(found, at)
    if at >= len(found) or found[at] not in _ITEMS:
        return None
    ended_by_braces = found[at] not in ("use", "const", "static") or found[at + 1 : at + 2] == ["fn"]
    while at < len(found) and found[at] != ";":
        opened = found[at] in ("{", "(", "[")
        braces = found[at] == "{"
        at = _behind(found, at) if opened else at + 1
        if braces and ended_by_braces:
            return at
    return at + 1


def _behind_attributes(found: Sequence[str], at: int) -> int:
    """The place behind the attributes of what begins at a place."""
    while found[at : at + 2] == ["#", "["]:
        at = _behind(found, at + 1)
    return at


def _behind_visibility(found: Sequence[str], at: int) -> int:
    """The place behind `pub`, or `pub(crate)`, if that stands at a place."""
    if found[at : at + 2] == ["pub", "("]:
        return _behind(found, at + 1)
    return at + 1 if found[at : at + 1] == ["pub"] else at


def _behind(found: Sequence[str], at: int) -> int:
    """The place behind what is opened at a place."""
    depth = 0
    for place in range(at, len(found)):
        depth += (found[place] in ("{", "(", "[")) - (found[place] in ("}", ")", "]"))
        if depth == 0:
            return place + 1
    return len(found)


def _in_braces(found: Sequence[str], at: int) -> set[str]:
    """The names that begin the entries of a list of imports, which is opened at a place."""
    names, depth = set(), 0
    for place in range(at, _behind(found, at) - 1):
        depth += (found[place] == "{") - (found[place] == "}")
        if depth == 1 and found[place] in ("{", ",") and found[place + 1] != "}":
            names.add(found[place + 1])
    return names
