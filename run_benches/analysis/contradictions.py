"""The contradictions within a run (T23): orders that cannot be, or that have to be explained before any of their
figures is used.

Why: every figure can be right by itself and the page still be wrong, when a layer is faster than the layer it calls. So
figures of different rows are held against each other by stated rules. A rule says how much it looked at: none found
among none is no pass (T22). Where two rows took turns their ratio is looked at, with intervals that hold together; else
the ranges of processes are compared, so that scatter alone contradicts nothing.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from run_benches.analysis import figures
from run_benches.analysis.contrasts import Contrast, joint
from run_benches.analysis.figures import Spread
from run_benches.analysis.held import Held
from run_benches.analysis.ladder import ALONE, Rung, step_confidence
from run_benches.analysis.row import (
    DRIVER,
    FLOOR,
    MIX,
    MIX_PARTS,
    OURS,
    STALLED,
    Row,
    alike,
    is_part_of_a_mix,
    stalled_share,
)
from run_benches.stats.estimates import Estimate

_Item = TypeVar("_Item")


CALLS = (
    ("transaction/read/strata/memtable", "storage/get/strata/memtable"),
    ("transaction/read/strata/sst", "storage/get/strata/sst"),
    ("query/simple_eq/strata/1_matches", "query/find/strata/1_matches"),
    ("handlers/get/strata/200", "transaction/read/strata/sst"),
    ("ingress/request/strata/get_by_id", "handlers/get/strata/200"),
)
"""Rows of layers' own benches, and the rows that do the part of them that the layer below does."""

FAR = 1.25
"""By this factor figures that should be equal may differ, and by more where the ranges or the interval allow less."""


@dataclass(frozen=True)
class CrossCheck:
    """A rule, how much it was applied to, and what it found, in words."""

    rule: str
    looked_at: int
    found: list[str]
    of: int = 0
    """The number of rows of its kind that ran in several processes or took turns: a rule that has some and looked at
    none is no rule."""

    @property
    def is_blind(self) -> bool:
        """True if it looked at nothing, though there is something."""
        return bool(self.of) and not self.looked_at


def together(machines: Sequence[Sequence[CrossCheck]]) -> list[CrossCheck]:
    """Every rule, over what it found of each machine by itself."""
    return [
        dataclasses.replace(
            one,
            looked_at=sum(each.looked_at for each in (one, *more)),
            found=[words for each in (one, *more) for words in each.found],
            of=sum(each.of for each in (one, *more)),
        )
        for one, *more in zip(*machines, strict=True)
    ]


def checks(rows: Sequence[Row], ladders: Mapping[str, Sequence[Rung]], floors: Iterable[Held]) -> list[CrossCheck]:
    """Every rule, over the figures of one machine."""
    climbed = [(request, rung) for request, rungs in ladders.items() for rung in rungs if rung.below is not None]
    steps = [
        _Step(request, rung, rung.step, step_confidence(rungs, rung))
        for request, rungs in ladders.items()
        for rung in rungs
        if rung.step
    ]
    # Of one thread: threads of a floor do nothing but contend for the engine's write queue, and that can cost more than
    # the work that ours do between two writes.
    judged = [
        held for held in floors if held.judged and held.row.bench.facts.threads == 1 and _is_path_of_ours(held.floor)
    ]
    rungs, several = [rung.row for _, rung in climbed], [row for row in rows if _ranged(row)]
    called, contended = (
        [row for row in several if row.id in dict(CALLS)],
        [row for row in several if row in _contenders(rows)],
    )
    workloads, parts = (
        [row for row in several if row.bench.facts.workload],
        [row for row in several if is_part_of_a_mix(row)],
    )
    floored = [
        row
        for row in several
        if (floor := row.bench.facts.floor) and row.bench.facts.threads == 1 and _is_path_of_ours(floor.id)
    ]
    sized = [row for row in rungs if row.bench.facts.bytes_per_operation]
    alone, cpu = (
        [row for row in several if row.layer == "ladder" and row.case in cases] for cases in (ALONE, ("ingress_cpu",))
    )
    return [
        _check(
            "no rung of the ladder is faster than the rung it calls",
            [step for step in steps if step.sure],
            _faster_than_called,
            rungs,
        ),
        _check(
            "what a rung allocates it does not allocate less of than the rung it calls", climbed, _allocates_less, rungs
        ),
        _check(
            "what a rung moves in bytes is no less than what the rung it calls moves",
            _sized(climbed),
            _moves_less,
            sized,
        ),
        _check(
            "what a layer takes alone, it takes no more of than the step of the ladder that holds it",
            _holding(ladders),
            _more_than_its_step,
            alone,
        ),
        _check(
            "the same work takes as long on the wall as of the processor, where one thread does it",
            _clocks(ladders),
            _clocks_disagree,
            cpu,
        ),
        _check(
            "no layer's own row is faster than that of the layer it calls, for the same request",
            _called(rows),
            _faster_than_its_call,
            called,
        ),
        _check(
            "no row of one thread is faster than its floor, unless that is its goal or the floor is another program",
            judged,
            _faster_than_floor,
            floored,
        ),
        _check(
            "rows of several benches that do the same work under the same conditions agree",
            _same_work(rows),
            _disagreeing,
            [],
        ),
        _check("contention is not faster than none", _contended(rows), _faster_than_alone, contended),
        _check("who contends for a lock has waited", _contenders(rows), _never_waited, contended),
        _check("no share of a workload's time is above one", _shares(rows), _above_one, workloads),
        _check(
            f"a mix takes as long as its parts together, within {figures.percent(FAR - 1)}",
            _mixes(rows),
            _far_from_its_parts,
            parts,
        ),
    ]


def _check(rule: str, items: Iterable[_Item], look: Callable[[_Item], str | None], kind: Sequence[Row]) -> CrossCheck:
    told = [look(item) for item in items]
    return CrossCheck(rule, len(told), [words for words in told if words is not None], len(kind))


@dataclass(frozen=True)
class _Step:
    """A rung that took turns with the rung below it, and how sure its interval has to be for all of its ladder to hold
    together."""

    request: str
    rung: Rung
    contrast: Contrast
    confidence: float

    @property
    def sure(self) -> bool:
        """True if there are tuples enough for that."""
        return self.contrast.ratio(self.confidence).high is not None


def _faster_than_called(step: _Step) -> str | None:
    found, below = step.contrast.ratio(step.confidence), step.rung.below
    if below is None or found.high is None or found.high >= 1:
        return None
    return (
        f"Impossible order: in the ladder of `{step.request}`, `{step.rung.name}` is faster than `{below.name}`, which it calls"
        f" ({figures.contrast(step.contrast, step.confidence)}). Use neither figure before this is explained."
    )


def _allocates_less(step: tuple[str, Rung]) -> str | None:
    request, rung = step
    mine, under = (
        (row.bench.allocations_per_operation for row in (rung.row, rung.below.row)) if rung.below else (None, None)
    )
    if rung.below is None or mine is None or under is None or mine >= under:
        return None
    return (
        f"Impossible order: in the ladder of `{request}`, `{rung.name}` allocates {figures.count(mine)} times and `{rung.below.name}`, which it"
        f" calls, {figures.count(under)} times: the two do unlike work."
    )


def _sized(climbed: Iterable[tuple[str, Rung]]) -> list[tuple[str, Rung]]:
    """The rungs that say how many bytes they move, over rungs that say it, too."""
    return [
        (request, rung)
        for request, rung in climbed
        if rung.below and all(row.bench.facts.bytes_per_operation for row in (rung.row, rung.below.row))
    ]


def _moves_less(step: tuple[str, Rung]) -> str | None:
    request, rung = step
    mine, under = (
        (row.bench.facts.bytes_per_operation for row in (rung.row, rung.below.row)) if rung.below else (None, None)
    )
    if rung.below is None or mine is None or under is None or mine >= under:
        return None
    return (
        f"Impossible order: in the ladder of `{request}`, `{rung.name}` moves {figures.count(mine)} bytes and `{rung.below.name}`, which it calls,"
        f" {figures.count(under)}: the two do unlike work."
    )


@dataclass(frozen=True)
class _Alone:
    """A rung that calls none below it, and the step in which its layer is."""

    request: str
    rung: Rung
    holding: Rung


def _holding(ladders: Mapping[str, Sequence[Rung]]) -> Iterator[_Alone]:
    for request, rungs in ladders.items():
        for place, rung in enumerate(rungs):
            above = next((one for one in rungs[place:] if one.step is not None), None)
            if rung.name in ALONE and above and above.added and above.added.high is not None and rung.row.measured:
                yield _Alone(request, rung, above)


def _more_than_its_step(alone: _Alone) -> str | None:
    time, added = alone.rung.row.measured, alone.holding.added
    if time is None or added is None or added.high is None or time.low <= added.high:
        return None
    return (
        f"Surprising order: in the ladder of `{alone.request}`, `{alone.rung.name}` alone takes {figures.time_spread(time)}, and the step to"
        f" `{alone.holding.name}`, which holds it, {figures.added_estimate(added)}: alone it does more, or meets colder memory."
    )


_Clocks = tuple[str, Row, Spread, Row, Spread]


def _clocks(ladders: Mapping[str, Sequence[Rung]]) -> Iterator[_Clocks]:
    """The rung that is measured by both clocks, of each request."""
    for request, climbed in ladders.items():
        rungs = {rung.name: rung.row for rung in climbed}
        wall, cpu = rungs.get("ingress"), rungs.get("ingress_cpu")
        if wall and cpu and (of_wall := _ranged(wall)) and (of_cpu := _ranged(cpu)):
            yield request, wall, of_wall, cpu, of_cpu


def _clocks_disagree(clocks: _Clocks) -> str | None:
    request, wall, of_wall, cpu, of_cpu = clocks
    if of_wall.low <= of_cpu.high and of_cpu.low <= of_wall.high:
        return None
    return (
        f"Surprising order: in the ladder of `{request}`, `{wall.id}` takes {figures.time_spread(of_wall)}, and `{cpu.id}`, the same work of one"
        f" thread in longer turns, {figures.time_spread(of_cpu)} of CPU. The steps above and below it are of unlike conditions."
    )


def _is_path_of_ours(floor: str) -> bool:
    """Returns whether a floor is the best path that this project knows: another program or library may take longer than
    ours."""
    return floor.split("/")[2] in (OURS, FLOOR, DRIVER)


def _faster_than_floor(held: Held) -> str | None:
    ratio = held.ratio
    if ratio is None or ratio.ratio is None or ratio.low is None:
        return None
    if ratio.low <= 1 or (held.goal or 1.0) > 1 or (ratio.aim or 1.0) > 1:
        return None
    return (
        f"Surprising order: `{held.row.id}` is faster than its floor `{held.floor}` beyond its interval "
        f"({figures.ratio(ratio.ratio, ratio.low, ratio.high)}): the floor is not the best path, or the two do unlike work."
    )


# The same request in the benches of two layers, and the same work in several benches.


_Pair = tuple[Row, Spread, Row, Spread]


def _called(rows: Sequence[Row]) -> Iterator[_Pair]:
    by_id = {row.id: row for row in rows}
    for upper, lower in CALLS:
        over, under = by_id.get(upper), by_id.get(lower)
        if over and under and alike(over, under) and (mine := _ranged(over)) and (theirs := _ranged(under)):
            yield over, mine, under, theirs


def _ranged(row: Row) -> Spread | None:
    """A time with the range of its processes; one process has none, and contradicts nothing."""
    return row.measured if row.measured and row.measured.count > 1 else None


def _faster_than_its_call(pair: _Pair) -> str | None:
    over, time, under, called = pair
    turns = over.over(under)
    faster = time.high < called.low if turns is None else (turns.ratio().high or 1.0) < 1
    if not faster:
        return None
    return (
        f"Impossible order: `{over.id}` ({figures.time_spread(time)}) is faster than `{under.id}` ({figures.time_spread(called)}), which is a"
        " part of it. Use neither figure before this is explained."
    )


def _same_work(rows: Sequence[Row]) -> Iterator[_Pair]:
    """Of all rows whose words and conditions are equal, the fastest and the slowest, if they stand in different
    benches. How much a sample writes is one of the conditions, should rows of one verb ever write unlike much: a fuller
    memtable costs more."""
    groups: dict[tuple[object, ...], list[tuple[Row, Spread]]] = {}
    for row in rows:
        if row.subject == OURS and (measured := _ranged(row)):
            facts = row.bench.facts
            work = (facts.op, facts.unit, facts.units_per_operation, facts.threads, facts.clock, facts.turn_operations)
            conditions = (*work, facts.data_set, facts.state, facts.durability, facts.indexes)
            groups.setdefault(conditions, []).append((row, measured))
    for group in groups.values():
        group.sort(key=lambda one: one[1].middle)
        (fast, least), (slow, most) = group[0], group[-1]
        if fast.layer != slow.layer:
            yield fast, least, slow, most


def _disagreeing(pair: _Pair) -> str | None:
    fast, least, slow, most = pair
    if least.high >= most.low or most.middle / least.middle <= FAR:
        return None
    return (
        f"Surprising order: `{slow.id}` ({figures.time_spread(most)}) takes longer than `{fast.id}` ({figures.time_spread(least)}), and both do"
        " the same work under the same conditions, by their own words."
    )


# Contention: the same keys by several threads and by one.


@dataclass(frozen=True)
class _Contended:
    row: Row
    time: Spread
    alone: Row
    alone_time: Spread
    at_once: int
    """The number of operations that the threads, the cores and the keys allow at one moment."""


def _contended(rows: Sequence[Row]) -> Iterator[_Contended]:
    single = {_without_threads(row): row for row in _contentions(rows) if row.bench.facts.threads == 1}
    for row in _contenders(rows):
        threads, alone = row.bench.facts.threads, single.get(_without_threads(row))
        if alone and (measured := _ranged(row)) and (by_itself := _ranged(alone)):
            keys = re.search(r"(\d+)_keys?", row.case)
            cores = row.made.machine.cores
            limits = [threads, *([int(keys[1])] if keys else []), *([cores] if cores is not None else [])]
            yield _Contended(row, measured, alone, by_itself, min(limits))


def _contentions(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.operation == "contention" and row.subject == OURS]


def _contenders(rows: Sequence[Row]) -> list[Row]:
    return [row for row in _contentions(rows) if row.bench.facts.threads > 1 and row.measured]


def _never_waited(row: Row) -> str | None:
    if (row.bench.counters or {}).get("waits"):
        return None
    return f"Impossible order: `{row.id}` counted no wait, so its threads did not contend, and its time is not that of contention."


def _without_threads(row: Row) -> str:
    return re.sub(r"_?\d+_threads?", "", row.id)


def _faster_than_alone(pair: _Contended) -> str | None:
    if pair.time.high >= pair.alone_time.low / pair.at_once:
        return None
    limit = f", though no more than {pair.at_once} at once are possible" if pair.at_once > 1 else ""
    return (
        f"Impossible order: `{pair.row.id}` ({figures.time_spread(pair.time)}) is faster under contention than `{pair.alone.id}` "
        f"({figures.time_spread(pair.alone_time)}), which has none{limit}. Use neither figure before this is explained."
    )


# Shares of the time of a workload, which is that of its own processes and not of its turns.


@dataclass(frozen=True)
class _Share:
    row: Row
    of: str
    share: float


def _shares(rows: Sequence[Row]) -> Iterator[_Share]:
    for row in rows:
        if (stalled := stalled_share(row)) is not None:
            yield _Share(row, STALLED, stalled)
        for name, measure in row.bench.measures.items():
            if measure.unit == "share" and measure.points:
                yield _Share(row, name, max(measure.points))


def _above_one(found: _Share) -> str | None:
    if found.share <= 1:
        return None
    return (
        f"Impossible share: `{found.row.id}` says {figures.percent(found.share)} of its time for {found.of.replace('_', ' ')}. Use neither figure"
        " before this is explained."
    )


# Mixes: seven reads and three creates take what seven reads and three creates take. The parts of a mix stand beside it
# over the same store in the same state, do nothing in the operations of the other, and take turns with it: only what
# its verbs cost each other is left.


@dataclass(frozen=True)
class _Mix:
    row: Row
    parts: Mapping[str, Contrast]
    """Each part, by its verb, against the mix."""

    @property
    def expected(self) -> Estimate:
        """The time of the parts over that of the mix, so that it is one where the verbs do not disturb each other; its
        bounds hold if those of all parts do."""
        found = [contrast.ratio(joint(0.95, len(self.parts))) for contrast in self.parts.values()]
        low = sum(ratio.low or 0.0 for ratio in found)
        high = sum(math.inf if ratio.high is None else ratio.high for ratio in found)
        return Estimate(sum(ratio.middle for ratio in found), low, high)


def _mixes(rows: Sequence[Row]) -> Iterator[_Mix]:
    by_id = {row.id: row for row in rows}
    for row in rows:
        for verbs in MIX_PARTS if row.operation == MIX else ():
            parts = [(verb, by_id.get(f"{row.layer}/{verb}/{row.subject}/{row.case}")) for verb in verbs]
            held = {verb: contrast for verb, part in parts if part and (contrast := part.over(row)) is not None}
            if len(held) == len(verbs):
                yield _Mix(row, held)


def _far_from_its_parts(mix: _Mix) -> str | None:
    expected = mix.expected
    if expected.low is None or expected.high is None or (expected.low <= FAR and expected.high >= 1 / FAR):
        return None
    faster = expected.low > FAR
    why = (
        "a mix cannot be faster than its parts"
        if faster
        else "its verbs disturb each other, or meet another store than the parts do"
    )
    parts = " and ".join(f"`{verb}`" for verb in mix.parts)
    return (
        f"Surprising order: `{mix.row.id}` is {'faster' if faster else 'slower'} than {parts}, which take"
        f" {figures.times(expected.middle, expected.low, expected.high)} times as long: {why}."
    )
