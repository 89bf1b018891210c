"""A part of what is told, before it is drawn on the terminal or as Markdown: sentences, then a table.

Why one kind of part: what is told in two places must not disagree, so the places differ only in how they draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """Sentences, then a table. A column whose title ends in `>` stands to the right, one that ends in `?` the terminal
    can spare, the last ones first. The table of a folded section is shown to those who ask for all."""

    title: str
    sentences: Sequence[str] = ()
    columns: Sequence[str] = ()
    body: Sequence[Sequence[str]] = ()
    folded: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table by its title."""

    title: str
    right: bool
    spared: bool

    @classmethod
    def of(cls, title: str) -> "Column":
        """Reads the marks behind a title."""
        bare = title.removesuffix("?")
        return cls(bare.removesuffix(">"), bare.endswith(">"), bare != title)
