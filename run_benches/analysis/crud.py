"""The CRUD verbs by the number of indexes: a line for each verb with one number of threads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from run_benches.analysis.contrasts import Contrast
from run_benches.analysis.row import MIX, OURS, Row, is_part_of_a_mix

VERBS = ("create", "read", "update", "delete", MIX)


@dataclass(frozen=True)
class CrudLine:
    """One verb with one number of threads: a cell for each number of indexes that was planned."""

    operation: str
    variant: str
    cells: dict[int, Row]

    @property
    def label(self) -> str:
        """The verb, and what sets this line apart where the verb has several: `UPDATE, unchanged`."""
        verb = self.operation.upper()
        return f"{verb}, {self.variant}" if self.variant else verb

    def loss(self, indexes: int) -> Contrast | None:
        """Returns the contrast of that many indexes with none; `None` where the two took no turns, or one of them has
        no figure."""
        base, cell = self.cells.get(0), self.cells.get(indexes)
        if not indexes or base is None or cell is None or self.lacks_a_figure(indexes):
            return None
        return cell.over(base)

    def lacks_a_figure(self, indexes: int) -> bool:
        """Returns whether one of the two that a loss would be of was planned, and has no figure."""
        return any(row is not None and row.measured is None for row in (self.cells.get(0), self.cells.get(indexes)))


def crud(rows: Iterable[Row], threads: int) -> list[CrudLine]:
    """The verbs in the order of CRUD, then any other operation that names its number of indexes."""
    found = [row for row in rows if row.bench.facts.threads == threads]
    seen = {row.operation for row in found}
    order = [verb for verb in VERBS if verb in seen] + sorted(seen - set(VERBS))
    return [line for verb in order for line in lines(verb, [row for row in found if row.operation == verb])]


def crud_rows(rows: Iterable[Row]) -> list[Row]:
    """Our own rows of `integration` that say how many indexes they have."""
    found = [row for row in rows if (row.layer, row.subject) == ("integration", OURS)]
    return [row for row in found if row.bench.facts.indexes is not None and not is_part_of_a_mix(row)]


_Variant = tuple[str, str, str]
"""The properties that can tell two rows of one verb apart: durability, state of the data, and the words of the case
that count nothing."""


def lines(verb: str, found: Sequence[Row]) -> list[CrudLine]:
    """A line for each variant of a verb, told apart by what the variants do not share: nothing is dropped, nothing is
    mixed."""
    counted = {"index", "indexes", "thread", "threads"}
    placed: dict[_Variant, dict[int, Row]] = {}
    for row in found:
        facts = row.bench.facts
        words = [word for word in row.case.split("_") if not word.isdigit() and word not in counted]
        variant, indexes = (facts.durability or "", facts.state or "", " ".join(words)), facts.indexes or 0
        if indexes in placed.get(variant, {}):
            variant = (*variant[:2], row.case)
        placed.setdefault(variant, {})[indexes] = row
    for variant, cells in placed.items():
        base = [other[0] for key, other in placed.items() if 0 in other and key[:2] == variant[:2]]
        if 0 not in cells and len(base) == 1:
            cells[0] = base[0]  # without an index, rows that treat the indexed fields differently are one row
    shared = set.intersection(*map(set, placed))
    return [
        CrudLine(verb, ", ".join(part for part in variant if part not in shared | {""}), cells)
        for variant, cells in placed.items()
    ]
