"""What a stored run says: cells, losses, floors and rungs, as values that pages and pictures share.

Why apart from the words: a table and the picture beside it must not disagree, so both are made from the values found
here, and a picture is sealed with the very values it was drawn from. Everything is pure: a run in, values out, in house
order, with no clock, no file and no locale. Rows are placed by their facts (indexes, threads, unit, clock); a case
merely names what sets two rows with equal facts apart.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from run_benches.analysis import figures
from run_benches.analysis.contrasts import Contrast, joint
from run_benches.analysis.figures import Spread
from run_benches.stats.estimates import Estimate, median
from run_benches.store import house
from run_benches.store.runs import Bench, Ratio, Run, State

LAYERS = house.layers()
"""The layers that have a bench, lowest first: the order of the house."""

ACROSS = ("integration", "scaling", "macro", "databases", "ladder")
"""The benches that cross the layers."""

MIX = "mixed"
MIX_PARTS = (("mixed_read", "mixed_create"), ("mixed_get", "mixed_post"))
"""The verbs of a mix by themselves, as the mix has them, in process and over HTTP: they are held against it and are no
verbs of their own."""

VERBS = ("create", "read", "update", "delete", MIX)
REQUESTS = ("get", "create", "list", "graphql_get", "graphql_list", "append", "append_100", "read_100")
RUNGS = (
    "raw",
    "storage",
    "locking",
    "encoding",
    "indexes",
    "transaction",
    "query",
    "streams",
    "handlers",
    "graphql",
    "routing",
    "driver",
    "ingress",
    "ingress_cpu",
    "tcp",
    "tls",
)
"""From the bytes to the socket. `driver` is no layer: it builds the request and drives the runtime, with routing behind
it, under ingress. The clock of `tcp` and `tls` is that of the CPU, as is that of `ingress_cpu`, the rung under them."""

ALONE = ("locking", "encoding")
"""Rungs that call no layer below them: what the request costs in that layer alone, no step on top of another."""
OURS = "strata"
FLOOR = "floor"
DRIVER = "driver"
"""What a row that enters a runtime stands beside: the same entry, and nothing behind it."""


@dataclass(frozen=True)
class Row:
    """A bench by the parts of its id: `<layer>/<operation>/<subject>/<case>`."""

    id: str
    layer: str
    operation: str
    subject: str
    case: str
    bench: Bench
    contrasts: Mapping[str, Contrast] = field(default_factory=dict)
    """By the row it took turns with, itself (its second lane) among them."""
    base_ns: float | None = None
    """The time of the base in its home family; `None` where that was not stored (before schema 5)."""
    base: str = ""
    lanes: int = 0
    """How many took turns in its home family; it is one of them."""

    @property
    def measured(self) -> Spread | None:
        """The time of one operation in nanoseconds; `None` unless the row ran and every process measured something. Of
        a row in a family: the time of the base in this family, times their ratio, so that times and ratios agree. The
        range is of the row's own processes."""
        found = self._of_its_processes
        if found is None or self.base_ns is None or not self._is_beside_base:
            return found
        return dataclasses.replace(found, middle=self.base_ns * self.contrasts[self.base].ratio().middle)

    @property
    def remark(self) -> str:
        """What sets its time apart from those of other rows, in words; empty of most."""
        own, measured = self._of_its_processes, self.measured
        if own is not None and self.bench.family is None and not self.bench.facts.workload:
            return "warm"
        if own is None or measured is None or not self._is_beside_base:
            return ""
        if self.base_ns is None:
            return "median of its processes"
        return (
            ""
            if abs(measured.middle - own.middle) <= own.high - own.low
            else f"median of its processes {figures.time(own.middle)}"
        )

    @property
    def _of_its_processes(self) -> Spread | None:
        return (
            figures.spread(self.bench.points_ns) if self.bench.state == "ran" and _sound(self.bench.points_ns) else None
        )

    @property
    def _is_beside_base(self) -> bool:
        return self.base != self.id and self.base in self.contrasts

    def over(self, other: "Row") -> Contrast | None:
        """How it compares with another row; nothing where the two took no turns."""
        mine, theirs = self.contrasts.get(other.id), other.contrasts.get(self.id)
        return mine or (theirs.turned() if theirs else None)

    @property
    def why_not(self) -> str:
        """Why there is no figure, in words."""
        if self.bench.state != "ran":
            return absence(self.bench.state, self.bench.reasons)
        return (
            f"invalid: {'a time of 0 was recorded' if self.bench.points_ns else 'it ran, but no process left a figure'}"
        )


STALLED = "stall_time"
"""The measure of how long the engine made writers wait, summed over them."""


def stalled_share(row: Row) -> float | None:
    """The share of all its threads' time that the writers of a workload were stalled, in the process where that was
    most."""
    stalled, facts, measured = row.bench.measures.get(STALLED), row.bench.facts, row.measured
    if (
        stalled is None
        or stalled.unit != "seconds"
        or not stalled.points
        or not facts.timed_operations
        or measured is None
    ):
        return None
    return max(stalled.points) * 1e9 / (facts.timed_operations * measured.middle * facts.threads)


def absence(state: State, reasons: Sequence[str]) -> str:
    """What stands in place of a figure: the state and the reason, never a number."""
    label = {
        "ran": figures.NOT_RUN,
        "not_run": figures.NOT_RUN,
        "skipped": f"{figures.NOT_RUN} (skipped)",
        "invalid": "invalid",
    }[state]
    return f"{label}: {'; '.join(reasons) or 'no reason was recorded'}"


def rows(run: Run, layer: str | None = None) -> list[Row]:
    """Every row, layers in house order, within a layer in the order of the run (which is that of the source)."""
    wanted = [_row(run, id) for id in run.benches if layer in (None, id.partition("/")[0])]
    return sorted(wanted, key=lambda row: house_order(row.layer))


def layers(run: Run, sources: Iterable[str]) -> list[str]:
    """Every layer that the run has rows of, or that has a source, in house order."""
    return sorted({*(row.layer for row in rows(run)), *sources}, key=house_order)


def house_order(layer: str) -> tuple[int, str]:
    """Layers from the lowest, then what crosses them, then what the house does not know, by name."""
    known = (*LAYERS, *ACROSS)
    return (known.index(layer) if layer in known else len(known), layer)


def thread_counts(found: Iterable[Row]) -> list[int]:
    """One thread never stands beside eight in one column, so everything is told a thread count at a time."""
    return sorted({row.bench.facts.threads for row in found})


# The CRUD verbs by the number of indexes.


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
        """How that many indexes compare with none; `None` where the two took no turns."""
        base, cell = self.cells.get(0), self.cells.get(indexes)
        return cell.over(base) if indexes and base and cell else None


def crud(run: Run, threads: int) -> list[CrudLine]:
    """The verbs in the order of CRUD, then any other operation that names its number of indexes."""
    found = [row for row in crud_rows(run) if row.bench.facts.threads == threads]
    seen = {row.operation for row in found}
    order = [verb for verb in VERBS if verb in seen] + sorted(seen - set(VERBS))
    return [line for verb in order for line in lines(verb, [row for row in found if row.operation == verb])]


def crud_rows(run: Run) -> list[Row]:
    """Our own rows of `integration` that say how many indexes they have."""
    found = [row for row in rows(run, "integration") if row.subject == OURS and row.bench.facts.indexes is not None]
    return [row for row in found if not is_part_of_a_mix(row)]


def index_counts(run: Run) -> list[int]:
    """The columns: every number of indexes that a row names."""
    return sorted({row.bench.facts.indexes for row in crud_rows(run) if row.bench.facts.indexes is not None})


_Variant = tuple[str, str, str]
"""What can tell two rows of one verb apart: durability, state of the data, and the words of the case that count
nothing."""


def lines(verb: str, found: Sequence[Row]) -> list[CrudLine]:
    """A line for each variant of a verb, told apart by what the variants do not share: nothing is dropped, nothing is
    mixed."""
    placed: dict[_Variant, dict[int, Row]] = {}
    for row in found:
        variant, indexes = _variant(row), row.bench.facts.indexes or 0
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


def _variant(row: Row) -> _Variant:
    counted = {"index", "indexes", "thread", "threads"}
    words = [word for word in row.case.split("_") if not word.isdigit() and word not in counted]
    return (row.bench.facts.durability or "", row.bench.facts.state or "", " ".join(words))


# Rows against their floors.


Standing = Literal["met", "missed", "not shown"]
"""How a row stands to its goal: met if its whole interval reaches it, missed if none of it does."""

MOST_TUPLES = 1000
"""More would be needed for nothing that anybody waits for."""


@dataclass(frozen=True)
class Held:
    """A row held against its floor."""

    row: Row
    floor: str
    ratio: Ratio | None

    @property
    def is_peer(self) -> bool:
        """Whether it is held against another system, without a goal, and not against what it is built on."""
        goals = [
            goal for held in (self.ratio, self.row.bench.facts.floor) if held for goal in (held.at_least, held.aim)
        ]
        return self._subject not in (OURS, FLOOR, DRIVER) and all(goal is None for goal in goals)

    @property
    def is_own(self) -> bool:
        """Whether it is held against a row of ours, which either may be faster than."""
        return self._subject == OURS

    @property
    def judged(self) -> bool:
        """Whether there is an interval to judge by."""
        return (
            self.ratio is not None
            and self.ratio.state == "ran"
            and None not in (self.ratio.ratio, self.ratio.low, self.ratio.high)
        )

    @property
    def standing(self) -> Standing | None:
        """How the row stands to its goal; nothing without a goal, or without an interval."""
        if self.goal is None or self._interval is None:
            return None
        _, low, high = self._interval
        return "met" if low >= self.goal else "missed" if high < self.goal else "not shown"

    @property
    def goal(self) -> float | None:
        """The ratio that was declared beforehand; one a row."""
        return (
            self.ratio.at_least
            if self.ratio
            else self.row.bench.facts.floor.at_least
            if self.row.bench.facts.floor
            else None
        )

    @property
    def excess_ns(self) -> float | None:
        """The time that an operation has to lose for certain to meet the goal, by the higher end of the interval;
        `None` unless it is missed."""
        measured = self.row.measured
        if self.standing != "missed" or measured is None or self._interval is None or not self.goal:
            return None
        return measured.middle * (1 - self._interval[2] / self.goal)

    @property
    def tuples_needed(self) -> int | None:
        """With about how many tuples a goal that is neither would be met or missed, if the ratio stayed what it is;
        `None` beyond `MOST_TUPLES`."""
        if self.standing != "not shown" or self._interval is None or self.ratio is None or not self.goal:
            return None
        middle, low, high = (math.log(end) for end in self._interval)
        away = middle - math.log(self.goal)
        half_width = middle - low if away >= 0 else high - middle
        needed = len(self.ratio.pairs) * (half_width / away) ** 2 if away else math.inf
        return math.ceil(needed) if needed <= MOST_TUPLES else None

    @property
    def verdict(self) -> str:
        """Whether the goal is met; a missed one as plain as a met one."""
        if self.goal is None:
            return "a peer, no goal" if self.is_peer else "no goal"
        match self.standing:
            case None:
                return "not judged"
            case "missed" if self.excess_ns is not None:
                return f"missed by {figures.time(self.excess_ns)}"
            case "not shown":
                needed = f"about {self.tuples_needed}" if self.tuples_needed else f"more than {MOST_TUPLES}"
                return f"not shown ({needed} tuples would show it)"
            case standing:
                return standing

    @property
    def why_not(self) -> str:
        """Why there is no interval, in words."""
        if self.ratio is None:
            return f"{figures.NOT_RUN}: no turns with its floor were planned in this run"
        if self.ratio.state != "ran":
            return absence(self.ratio.state, self.ratio.reasons)
        return f"{figures.plural(len(self.ratio.pairs), 'tuple')}: too few for an interval"

    @property
    def _subject(self) -> str:
        return (*self.floor.split("/"), "", "", "")[2]

    @property
    def _interval(self) -> tuple[float, float, float] | None:
        """The ratio, and the ends of its interval."""
        found = self.ratio
        if found is None or not self.judged or found.ratio is None or found.low is None or found.high is None:
            return None
        return found.ratio, found.low, found.high


def held(run: Run, layer: str | None = None) -> list[Held]:
    """Every row that names a floor or has a ratio, in house order."""
    found = []
    for row in rows(run, layer):
        ratio, floor = run.ratios.get(row.id), row.bench.facts.floor
        if ratio is not None:
            found.append(Held(row, ratio.floor, ratio))
        elif floor is not None:
            found.append(Held(row, floor.id, None))
    return found


def floors(run: Run, layer: str | None = None) -> list[Held]:
    """Every row that is held against what it is built on; another system and a row of ours are no floors."""
    return [one for one in held(run, layer) if not one.is_peer and not one.is_own]


def goals(run: Run) -> list[Held]:
    """Every row with a goal, whatever it is held against; with a ratio of the run, or planned to have none."""
    return [one for one in held(run) if one.goal is not None]


def counted_goals(held: Sequence[Held]) -> str:
    """How many goals of these rows stand how: `32 met, 9 missed, 12 not shown, 0 not judged`."""
    standings = [one.standing for one in held]
    told: list[tuple[Standing | None, str]] = [
        ("met", "met"),
        ("missed", "missed"),
        ("not shown", "not shown"),
        (None, "not judged"),
    ]
    return ", ".join(f"{standings.count(standing)} {words}" for standing, words in told)


# The ladder: one request at every rung.


@dataclass(frozen=True)
class Rung:
    """A rung and the nearest one below it that has a figure; a rung that calls none below it stands on nothing."""

    name: str
    row: Row
    below: "Rung | None"

    @property
    def step(self) -> Contrast | None:
        """How it compares with the rung below; `None` where there is none, or the two took no turns."""
        return self.row.over(self.below.row) if self.below else None

    @property
    def added(self) -> Estimate | None:
        """Nanoseconds on top of the rung below."""
        return self.adds(0.95)

    def adds(self, confidence: float) -> Estimate | None:
        """The same, as sure as that."""
        under = self.below.row.measured if self.below else None
        return self.step.nanoseconds(under.middle, confidence) if self.step and under else None


def ladder(run: Run, request: str) -> list[Rung]:
    """The rungs of a request from the lowest; `raw` may be the floor's own row, the others are ours."""
    climbed: list[Rung] = []
    for name in RUNGS:
        row = _rung_row(run, request, name)
        if row is not None:
            steps = (
                [] if name in ALONE else [rung for rung in climbed if rung.name not in ALONE and alike(rung.row, row)]
            )
            climbed.append(Rung(name, row, steps[-1] if steps else None))
    return climbed


def step_confidence(rungs: Sequence[Rung], rung: Rung) -> float:
    """How sure the interval of a step has to be so that those of the request's whole ladder, by that clock, hold
    together."""
    return joint(0.95, sum(one.step is not None and alike(one.row, rung.row) for one in rungs))


def share(rungs: Sequence[Rung], rung: Rung) -> float | None:
    """What a rung adds, as a share of the request's time on the highest rung of its clock."""
    times = [
        one.row.measured.middle
        for one in rungs
        if one.row.measured and one.name not in ALONE and alike(one.row, rung.row)
    ]
    return rung.added.middle / times[-1] if times and rung.added is not None else None


def _rung_row(run: Run, request: str, rung: str) -> Row | None:
    found = {row.subject: row for row in rows(run, "ladder") if row.operation == request and row.case == rung}
    return found.get(OURS) or (found.get(FLOOR) if rung == "raw" else None)


def _row(run: Run, id: str) -> Row:
    layer, operation, subject, case = (*id.split("/", 3), "", "", "")[:4]
    bench = run.benches[id]
    contrasts = {other: Contrast(tuple(logs)) for other, logs in run.contrasts.get(id, {}).items() if logs}
    if bench.family not in run.families:
        return Row(id, layer, operation, subject, case, bench, contrasts)
    family = run.families[bench.family]
    base = family.base
    base_points_ns = (
        run.benches[base].points_ns if run.benches[base].family == bench.family else family.guests_ns.get(base, [])
    )
    base_ns = median(base_points_ns) if base_points_ns else None
    return Row(id, layer, operation, subject, case, bench, contrasts, base_ns, base, len(family.rows) + 1)


def _sound(points_ns: Sequence[float]) -> bool:
    return bool(points_ns) and min(points_ns) > 0


def is_part_of_a_mix(row: Row) -> bool:
    """Whether a row stands only for what it adds to another."""
    return any(row.operation in parts for parts in MIX_PARTS)


def alike(one: Row, other: Row) -> bool:
    """Whether the figures of two rows are of one kind, so that a statistic of both may be formed (T6)."""
    mine, theirs = one.bench.facts, other.bench.facts
    return (mine.clock, mine.unit, mine.units_per_operation, mine.threads) == (
        theirs.clock,
        theirs.unit,
        theirs.units_per_operation,
        theirs.threads,
    )
