"""Markdown: tables of pages, and a comment in a pull request.

Why two ways to escape: a page is written here alone, and its cells have markup of their own; what stands in a comment
was also written by those who name rows and revisions, and is shown as text.
"""

import re
from collections.abc import Iterable, Sequence

from run_benches.render.section import Column, Section

LONGEST_COMMENT = 60_000
"""Characters; GitHub takes 65 536."""

LONGEST_CELL, LONGEST_SENTENCE = 300, 1000


def table(titles: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table, whose cells may have markup."""
    return _table(titles, [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in body])


def sections(found: Iterable[Section]) -> list[str]:
    """Returns the lines of parts of a page, each with its sentences above its table."""
    lines: list[str] = []
    for section in found:
        lines += [f"**{section.title}**", ""]
        for sentence in section.sentences:
            lines += [sentence, ""]
        if section.columns:
            lines += [*table(section.columns, section.body), ""]
    return lines


def comment(headline: str, sections: Sequence[Section], last_line: str) -> str:
    """Returns a comment that is short enough for a pull request, however many rows there are."""
    most = max([1, *(len(section.body) for section in sections)])
    while len(drawn := _comment(headline, sections, last_line, most)) >= LONGEST_COMMENT and most:
        most //= 2
    return drawn


def _comment(headline: str, sections: Iterable[Section], last_line: str, most: int) -> str:
    """With at most so many lines of each table, and not many more sentences."""
    parts = [f"### **{escaped(headline, LONGEST_SENTENCE)}**"]
    for section in sections:
        said = [escaped(sentence, LONGEST_SENTENCE) for sentence in section.sentences[: max(most, 10)]]
        table = (
            _table(section.columns, [list(map(escaped, row)) for row in section.body[:most]]) if section.body else []
        )
        if len(section.body) > most:
            left_out = len(section.body) - most
            table += ["", f"{left_out} more are left out here for want of room; on the terminal all are told"]
        lines = "\n".join(table)
        if section.folded:
            parts.append(f"<details><summary>{' '.join(said)}</summary>\n\n{lines}\n\n</details>")
        else:
            sentences = "\n".join(f"- {sentence}" for sentence in said)
            parts += filter(None, [f"**{escaped(section.title)}**", sentences, lines])
    return "\n\n".join([*parts, escaped(last_line)]) + "\n"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    columns = list(map(Column.of, titles))
    head, rule = [column.title for column in columns], ["--:" if column.right else "---" for column in columns]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def escaped(words: str, longest: int = LONGEST_CELL) -> str:
    """Returns words on one line, as text and no markup, and never so long that they fill a comment alone."""
    words = " ".join(words.split())
    shortened = words if len(words) <= longest else f"{words[: longest - 3]}..."
    return re.sub(r"([\\`*|~<&])", r"\\\1", shortened)
