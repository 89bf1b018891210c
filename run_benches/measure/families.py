"""Which rows take turns with which, and what the turns of a tuple say.

Why families: a difference is printed only where it was measured as one. Rows that name each other (`Facts::against`, of
which a floor is one case) are lanes of a family: live processes that take turns up and down a random order (0 1 2 2 1
0, a palindrome), so that a drift of the machine falls on all alike. One run of all lanes is a tuple, and the tuple is
the unit of all statistics. The base has a second lane: what it differs from itself by is noise, measured in every run
(an A/A test).

Why at most eight lanes: a palindrome that is longer than a spell of the machine no longer cancels one. Larger groups
are cut, and the parts share a row.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from run_benches.measure.broker import LONG_TURN_NS, TURN_NS, WRITER_TURN_NS, RowLog
from run_benches.store.runs import Facts, Family

MOST_LANES = 8
"""The second lane of the base among them."""

PALINDROME_NS = 30e6
"""Spells begin at 20 ms; a family of rows with one thread goes up and down in less."""

FEWEST_PALINDROMES = 8

WARM_UP = 0.05
"""The share of the palindromes that come first and do not count."""

Regime = tuple[bool, bool]
"""Two facts about a family: whether it has several threads, and whether its clock is that of the CPU. Rows that differ
in one of them need other turns."""


@dataclass(frozen=True)
class Tuple:
    """The findings of one tuple: nanoseconds of an operation by row, and the natural logarithm of each row's time over
    another's; that of the base over itself is of its second lane over its first. `by_total`: of all time, not of the
    median over palindromes."""

    points_ns: dict[str, float]
    logs: dict[str, dict[str, float]]
    by_total: bool


def partners(facts: Facts) -> list[str]:
    """The rows that a row is held against."""
    return list(dict.fromkeys([*([facts.floor.id] if facts.floor else []), *facts.against]))


def lanes(family: Family) -> list[str]:
    """A lane for each row, and last the second lane of the base."""
    return [*family.rows, family.base]


def of(rows: Mapping[str, Facts]) -> list[Family]:
    """The families of these rows, which are in the order of the source. A row without a partner is in none. The base is
    the row that most of the others are held against."""
    groups: list[_Group] = []
    for id, facts in rows.items():
        edges = [(id, other) for other in partners(facts) if other in rows]
        for start in range(0, len(edges), MOST_LANES - 2):
            # What a row is held against joins the first group that it fits into, or a new one.
            joining = edges[start : start + MOST_LANES - 2]
            star = {one for edge in joining for one in edge}
            regime = _regime([rows[one] for one in star])
            fitting = (one for one in groups if one.regime == regime and one.rows & star)
            group = next((one for one in fitting if len(one.rows | star) < MOST_LANES), None)
            if group is None:
                group = _Group(regime)
                groups.append(group)
            group.rows |= star
            group.edges += joining
    named = {edge for group in groups for edge in group.edges}
    found: list[Family] = []
    for group in groups:
        found.append(_family([id for id in rows if id in group.rows], group.edges, found, named))
    return found


@dataclass
class _Group:
    """Rows that will be a family, and which of them is held against which."""

    regime: Regime
    rows: set[str] = field(default_factory=set)
    edges: list[tuple[str, str]] = field(default_factory=list)


def _regime(facts: Iterable[Facts]) -> Regime:
    several, cpu = zip(*((one.threads > 1, one.clock == "cpu") for one in facts), strict=True)
    return any(several), any(cpu)


def _family(
    members: list[str], edges: list[tuple[str, str]], earlier: list[Family], named: set[tuple[str, str]]
) -> Family:
    """Beside what the rows name: each row whose home this is (no earlier family has it) against the base, and the base
    against itself. No contrast stands in two families, and no row is the base of two if another can be."""
    bases, at_home = {family.base for family in earlier}, {id for family in earlier for id in family.rows}
    others = [other for _, other in edges]
    base = max([id for id in members if id not in bases] or members, key=others.count)
    at_base = [(id, base) for id in members if id not in at_home and (id, base) not in named]
    return Family(
        "not_run", [], members, base, [list(edge) for edge in dict.fromkeys([*edges, *at_base, (base, base)])]
    )


def turn_ns(rows: Sequence[Facts]) -> float:
    """Returns the nanoseconds of a turn, on average over the lanes."""
    if any(_regime(rows)):
        return LONG_TURN_NS
    longest = WRITER_TURN_NS if any(facts.changes_store for facts in rows) else TURN_NS
    return min(longest, PALINDROME_NS / (2 * len(rows)))


def on_the_wall(rows: Iterable[Facts]) -> bool:
    """Returns whether what a turn took by its clock is how long it was."""
    return all(facts.clock != "cpu" for facts in rows)


def turns(lane_s: float, turn_ns: float) -> int:
    """Returns the number of turns that a lane has in a tuple, if it is timed for so long."""
    return 2 * max(FEWEST_PALINDROMES, round(lane_s * 1e9 / (2 * turn_ns)))


def stalled(facts: Facts) -> bool:
    """Returns whether the engine flushed or compacted inside the timed part: then stalls are part of the cost."""
    return any((facts.counters or {}).get(name) for name in ("flushes", "compactions"))


def counts_by_total(family: Family, facts: Iterable[Facts]) -> bool:
    """Returns whether all time of a lane counts: as the first tuple of the family found, so that all tuples are of one
    estimator."""
    return any(map(stalled, facts)) if family.by_total is None else family.by_total


def read(family: Family, log: RowLog, by_total: bool) -> Tuple:
    """Reads the findings of a tuple from its turns; `by_total` where stalls are part of the cost."""
    count = len(lanes(family))
    turns = log.counted(math.ceil(WARM_UP * len(log.turns) / (2 * count)))
    places = {id: place for place, id in enumerate(family.rows)}
    logs: dict[str, dict[str, float]] = {}
    for id, other in family.contrasts:
        lane = count - 1 if id == other else places[id]
        logs.setdefault(id, {})[other] = turns.log_ratio(lane, places[other], by_total)
    points_ns = {id: turns.turn_ns(place, by_total) / log.operations for id, place in places.items()}
    return Tuple(points_ns, logs, by_total)
