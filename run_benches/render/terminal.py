"""Tables: on a terminal as wide as there is room, in colour only where that is wanted, in plain ASCII where nothing
else can be shown.

Why no library: the tables have to be there on a bare machine. What does not fit is left out by column, least needed
first, and named; a figure is never cut.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from run_benches.render.section import Column, Section

KEPT_WIDTH = 200
"""The width where the output is no terminal: kept output is read with something that scrolls."""

NARROWEST_NAME = 28
STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}
STYLED_WORDS = {
    "missed": "red",
    "MISSED": "red",
    "invalid": "red",
    "met": "green",
    "not run": "yellow",
    "failed": "red",
    "skipped": "yellow",
}


def styled(text: str, style: str | None) -> str:
    """Text in a style, where standard output is a terminal and nobody asked for none (NO_COLOR)."""
    if style is None or os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return f"\033[{STYLES[style]}m{text}\033[0m"


def table(title: str, titles: Sequence[str], body: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The table, its first column shortened and its spared columns left out until it fits."""
    width = width or room()
    columns, cells = list(map(Column.of, titles)), [list(row) for row in body]
    left_out: list[str] = []
    while _narrowest(columns, cells) > width and any(column.spared for column in columns):
        gone = max(at for at, column in enumerate(columns) if column.spared)
        left_out.insert(0, columns.pop(gone).title)
        cells = [row[:gone] + row[gone + 1 :] for row in cells]
    spare = width - sum(_widths(columns, cells)[1:]) - 2 * (len(columns) - 1)
    longest = max(NARROWEST_NAME, spare)
    for row in cells:
        row[0] = row[0] if len(row[0]) <= longest else f"...{row[0][3 - longest :]}"
    lines = _lines(columns, cells)
    note = [f"(left out for want of room: {', '.join(left_out)})"] if left_out else []
    return "\n".join([styled(title, "bold"), *lines, *note]) + "\n"


def wrapped(text: str, width: int | None = None, indent: str = "") -> str:
    """A sentence in lines that fit; what follows the first line is indented. Names are not broken."""
    return "\n".join(
        textwrap.wrap(
            text,
            width or room(),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def sections(found: Iterable[Section], everything: bool = False) -> Iterator[str]:
    """Draws sections; `everything` shows the tables of folded ones, too."""
    for one in found:
        said = "".join(f"{wrapped(sentence, indent='  ')}\n" for sentence in one.sentences)
        if one.body and (everything or not one.folded):
            yield table(one.title, one.columns, one.body) + said
        else:
            yield f"{styled(one.title, 'bold')}\n{said}"


def room() -> int:
    """Returns the width that a line may have."""
    return shutil.get_terminal_size((KEPT_WIDTH, 24)).columns if sys.stdout.isatty() else KEPT_WIDTH


def _lines(columns: Sequence[Column], body: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = _widths(columns, body)
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    rule = "\u2500" if encoding == "utf8" else "-"
    yield "  ".join(_cell(column.title, column, width) for column, width in zip(columns, widths)).rstrip()
    yield "  ".join(rule * width for width in widths)
    for row in body:
        told = []
        for text, column, width in zip(row, columns, widths, strict=True):
            style = next((style for word, style in STYLED_WORDS.items() if text.startswith(word)), None)
            told.append(styled(_cell(text, column, width), style))
        yield "  ".join(told).rstrip()


def _cell(text: str, column: Column, width: int) -> str:
    return text.rjust(width) if column.right else text.ljust(width)


def _widths(columns: Sequence[Column], body: Sequence[Sequence[str]]) -> list[int]:
    return [max([len(column.title), *(len(row[at]) for row in body)]) for at, column in enumerate(columns)]


def _narrowest(columns: Sequence[Column], body: Sequence[Sequence[str]]) -> int:
    first, *others = _widths(columns, body)
    return min(first, NARROWEST_NAME) + sum(others) + 2 * len(others)
