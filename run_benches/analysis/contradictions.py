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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from run_benches.analysis import figures
from run_benches.analysis.contrasts import joint
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
        _check("no rung of the ladder is faster than the rung it calls", _faster_than_called(ladders), rungs),
        _check(
            "what a rung allocates it does not allocate less of than the rung it calls",
            map(_allocates_less, climbed),
            rungs,
        ),
        _check("what a rung moves in bytes is no less than what the rung it calls moves", _move_less(climbed), sized),
        _check(
            "what a layer takes alone, it takes no more of than the step of the ladder that holds it",
            _more_than_their_steps(ladders),
            alone,
        ),
        _check(
            "the same work takes as long on the wall as of the processor, where one thread does it",
            _clocks_disagree(ladders),
            cpu,
        ),
        _check(
            "no layer's own row is faster than that of the layer it calls, for the same request",
            _faster_than_their_calls(rows),
            called,
        ),
        _check(
            "no row of one thread is faster than its floor, unless that is its goal or the floor is another program",
            map(_faster_than_floor, judged),
            floored,
        ),
        _check("rows of several benches that do the same work under the same conditions agree", _disagreeing(rows), []),
        _check("contention is not faster than none", _faster_than_alone(rows), contended),
        _check("who contends for a lock has waited", map(_never_waited, _contenders(rows)), contended),
        _check("no share of a workload's time is above one", _above_one(rows), workloads),
        _check(
            f"a mix takes as long as its parts together, within {figures.percent(FAR - 1)}",
            _far_from_their_parts(rows),
            parts,
        ),
    ]


def _check(rule: str, told: Iterable[str | None], kind: Sequence[Row]) -> CrossCheck:
    """`told` has words for what was looked at and is wrong, and nothing for what is right."""
    words = list(told)
    return CrossCheck(rule, len(words), [found for found in words if found is not None], len(kind))


def _faster_than_called(ladders: Mapping[str, Sequence[Rung]]) -> Iterator[str | None]:
    """Of the rungs that took turns with the rung below them, where there are tuples enough for the intervals of all of
    their ladder to hold together."""
    for request, rungs in ladders.items():
        for rung in rungs:
            confidence = step_confidence(rungs, rung)
            if rung.below and rung.step and (high := rung.step.ratio(confidence).high) is not None:
                yield (
                    f"Impossible order: in the ladder of `{request}`, `{rung.name}` is faster than `{rung.below.name}`, which it calls"
                    f" ({figures.contrast(rung.step, confidence)}). Use neither figure before this is explained."
                    if high < 1
                    else None
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


def _move_less(climbed: Iterable[tuple[str, Rung]]) -> Iterator[str | None]:
    """Of the rungs that say how many bytes they move, over rungs that say it, too."""
    for request, rung in climbed:
        if rung.below is None:
            continue
        mine, under = (row.bench.facts.bytes_per_operation for row in (rung.row, rung.below.row))
        if mine and under:
            yield (
                f"Impossible order: in the ladder of `{request}`, `{rung.name}` moves {figures.count(mine)} bytes and `{rung.below.name}`, which it calls,"
                f" {figures.count(under)}: the two do unlike work."
                if mine < under
                else None
            )


def _more_than_their_steps(ladders: Mapping[str, Sequence[Rung]]) -> Iterator[str | None]:
    """Of the rungs that call none below them, beside the step in which their layer is."""
    for request, rungs in ladders.items():
        for place, rung in enumerate(rungs):
            holding = next((one for one in rungs[place:] if one.step is not None), None)
            time, added = rung.row.measured, holding.added if holding and rung.name in ALONE else None
            if holding and added and added.high is not None and time:
                yield (
                    f"Surprising order: in the ladder of `{request}`, `{rung.name}` alone takes {figures.time_spread(time)}, and the step to"
                    f" `{holding.name}`, which holds it, {figures.added_estimate(added)}: alone it does more, or meets colder memory."
                    if time.low > added.high
                    else None
                )


def _clocks_disagree(ladders: Mapping[str, Sequence[Rung]]) -> Iterator[str | None]:
    """Of the rung that is measured by both clocks, of each request."""
    for request, climbed in ladders.items():
        rungs = {rung.name: rung.row for rung in climbed}
        wall, cpu = rungs.get("ingress"), rungs.get("ingress_cpu")
        if wall and cpu and (of_wall := _ranged(wall)) and (of_cpu := _ranged(cpu)):
            yield (
                f"Surprising order: in the ladder of `{request}`, `{wall.id}` takes {figures.time_spread(of_wall)}, and `{cpu.id}`, the same work of one"
                f" thread in longer turns, {figures.time_spread(of_cpu)} of CPU. The steps above and below it are of unlike conditions."
                if of_wall.low > of_cpu.high or of_cpu.low > of_wall.high
                else None
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


def _ranged(row: Row) -> Spread | None:
    """A time with the range of its processes; one process has none, and contradicts nothing."""
    return row.measured if row.measured and row.measured.count > 1 else None


def _faster_than_their_calls(rows: Sequence[Row]) -> Iterator[str | None]:
    by_id = {row.id: row for row in rows}
    for upper, lower in CALLS:
        over, under = by_id.get(upper), by_id.get(lower)
        if over and under and alike(over, under) and (time := _ranged(over)) and (called := _ranged(under)):
            turns = over.over(under)
            faster = time.high < called.low if turns is None else (turns.ratio().high or 1.0) < 1
            yield (
                f"Impossible order: `{over.id}` ({figures.time_spread(time)}) is faster than `{under.id}` ({figures.time_spread(called)}), which is a"
                " part of it. Use neither figure before this is explained."
                if faster
                else None
            )


def _disagreeing(rows: Sequence[Row]) -> Iterator[str | None]:
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
            yield (
                f"Surprising order: `{slow.id}` ({figures.time_spread(most)}) takes longer than `{fast.id}` ({figures.time_spread(least)}), and both do"
                " the same work under the same conditions, by their own words."
                if least.high < most.low and most.middle / least.middle > FAR
                else None
            )


# Contention: the same keys by several threads and by one.


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


def _faster_than_alone(rows: Sequence[Row]) -> Iterator[str | None]:
    single = {_without_threads(row): row for row in _contentions(rows) if row.bench.facts.threads == 1}
    for row in _contenders(rows):
        alone = single.get(_without_threads(row))
        if alone and (time := _ranged(row)) and (alone_time := _ranged(alone)):
            keys, cores = re.search(r"(\d+)_keys?", row.case), row.made.machine.cores
            # So many operations the threads, the cores and the keys allow at one moment.
            limits = (row.bench.facts.threads, int(keys[1]) if keys else None, cores)
            at_once = min(limit for limit in limits if limit is not None)
            limit = f", though no more than {at_once} at once are possible" if at_once > 1 else ""
            yield (
                f"Impossible order: `{row.id}` ({figures.time_spread(time)}) is faster under contention than `{alone.id}` "
                f"({figures.time_spread(alone_time)}), which has none{limit}. Use neither figure before this is explained."
                if time.high < alone_time.low / at_once
                else None
            )


# Shares of the time of a workload, which is that of its own processes and not of its turns.


def _above_one(rows: Sequence[Row]) -> Iterator[str | None]:
    for row in rows:
        shares = [(STALLED, stalled_share(row))]
        shares += [
            (name, max(measure.points))
            for name, measure in row.bench.measures.items()
            if measure.unit == "share" and measure.points
        ]
        for name, share in shares:
            if share is not None:
                yield (
                    f"Impossible share: `{row.id}` says {figures.percent(share)} of its time for {name.replace('_', ' ')}. Use neither figure"
                    " before this is explained."
                    if share > 1
                    else None
                )


# Mixes: seven reads and three creates take what seven reads and three creates take. The parts of a mix stand beside it
# over the same store in the same state, do nothing in the operations of the other, and take turns with it: only what
# its verbs cost each other is left.


def _far_from_their_parts(rows: Sequence[Row]) -> Iterator[str | None]:
    by_id = {row.id: row for row in rows}
    for row in rows:
        for verbs in MIX_PARTS if row.operation == MIX else ():
            parts = [by_id.get(f"{row.layer}/{verb}/{row.subject}/{row.case}") for verb in verbs]
            contrasts = [contrast for part in parts if part and (contrast := part.over(row)) is not None]
            if len(contrasts) < len(verbs):
                continue
            # The time of the parts over that of the mix, so that it is one where the verbs do not disturb each other; its
            # bounds hold if those of all parts do.
            ratios = [contrast.ratio(joint(0.95, len(verbs))) for contrast in contrasts]
            middle = sum(ratio.middle for ratio in ratios)
            low = sum(ratio.low or 0.0 for ratio in ratios)
            high = sum(math.inf if ratio.high is None else ratio.high for ratio in ratios)
            faster = low > FAR
            why = (
                "a mix cannot be faster than its parts"
                if faster
                else "its verbs disturb each other, or meet another store than the parts do"
            )
            yield (
                f"Surprising order: `{row.id}` is {'faster' if faster else 'slower'} than {' and '.join(f'`{verb}`' for verb in verbs)}, which take"
                f" {figures.times(middle, low, high)} times as long: {why}."
                if faster or high < 1 / FAR
                else None
            )
