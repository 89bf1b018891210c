"""From a pool of pairs to rates of error: how often verdicts are wrong, with counts and exact bounds. Pure: a pool in,
results out.

Why drawn: a whole comparison takes long, and tells of each row once. So pairs are measured once, and comparisons are
drawn from them without replacement, judged by the very code that judges a real one. Rounds are drawn whole, for all
rows together, as a real comparison has them. Bounds count disjoint draws alone; what many shuffles of the same pool
give on average is steadier, but has no bound of its own, since they share pairs.

Only fresh pairs can call a row changed, so false alarms and coverage are counted where every row gets them: in
comparisons of one layer each, the smallest family that Holm corrects for, which have no screen. Power is that of whole
comparisons: the screen comes first, and may call a slower row the same.

A known effect is added to one side for power. Real plants (a build whose side B does more work) show that this is what
a real slow-down looks like.

History of the format of the results:
  schema 1: the first.
  schema 2: false alarms are of the rows that fresh pairs decided, beside the number of those that the screen settled, and by kind of row.
  schema 3: every row is decided by fresh pairs, in comparisons of one layer; `screened` is a rate of the rows of whole comparisons.
  schema 4: `found` also by kind of row.
"""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import exp, log1p
from typing import Literal

from run_benches.analysis import effects
from run_benches.analysis.row import ACROSS
from run_benches.calibrate.disturbance import CONDITIONS, LOADS
from run_benches.compare import attribution
from run_benches.stats import estimates, judge
from run_benches.stats.judge import Judgement
from run_benches.stats.usual_tools import Change
from run_benches.store.comparisons import ComparedRow, PairPoint
from run_benches.store.pool import Entry, EntryKind, Plant, Pool
from run_benches.store.runs import Facts, Machine, layer_of

SCHEMA = 4
SLOW_DOWNS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.10)
SHUFFLES = 20
QUIET = "quiet"
USUAL_TOOLS = tuple(
    f"{tool}, {what}"
    for what in ("lock-step turns", "one process after the other", "one process of 8 s a row after the other")
    for tool in ("Criterion", "critcmp -t 5")
)
NO_FACTS = Facts("", "ops", 1.0, 1)
"""Attribution asks the effects of a row, and nothing of what it does."""


@dataclass(frozen=True)
class Rules:
    """Those of a comparison: pairs of the screen, levels, the margin of each row (a share), and the target whose rows
    are its controls."""

    screen_pairs: int
    alpha: float
    control_alpha: float
    margin: Callable[[str], float]
    controls: str


@dataclass
class Rate:
    """So many of so many, with one-sided exact 95 % bounds; there are none of nothing."""

    count: int
    of: int
    at_least: float | None
    at_most: float | None


@dataclass
class Power:
    """Verdicts on rows that were made slower by a known share: the rate of `slower`, and the rates of the others."""

    slower: Rate
    same: Rate
    cannot_tell: Rate


@dataclass
class Condition:
    """The results of the pairs of one condition. Of comparisons of one layer, whose rows are all decided by fresh
    pairs: `false_alarms` are rows called slower or faster though nothing had changed, `by_kind` those of each kind of
    row, `alarming` the comparisons with at least one, `shuffled` the share of false alarms over many shuffles,
    `coverage` the intervals that hold 0, and `p_values` those of all rows. Of whole comparisons, so many as
    `comparisons`: `screened` are the rows that the screen settled, `contaminated` the comparisons whose controls
    alarmed, and `power` is by the slow-down in percent; `found` are the rows called slower by that and by kind. `usual`
    is by the tool."""

    rounds: int
    rows: int
    comparisons: int
    false_alarms: Rate
    by_kind: dict[str, Rate]
    alarming: Rate
    shuffled: float | None
    coverage: Rate
    p_values: list[float]
    screened: Rate
    contaminated: Rate
    power: dict[str, Power]
    found: dict[str, dict[str, Rate]]
    usual: dict[str, Rate]


@dataclass
class Planted:
    """A real slow-down of a layer: its size as planned and as measured (95 % interval; shares), how often drawn
    comparisons found it in the layer's own row, and how often they named the layer."""

    layer: str
    share: float
    steps: int
    row: str
    pairs: int
    size: float
    low: float | None
    high: float | None
    found: Rate
    named: Rate


@dataclass
class Goal:
    """A promise that was made before anything was measured, and whether the counts show it."""

    name: str
    wanted: str
    rate: Rate
    state: Literal["met", "MISSED", "not enough data"]


@dataclass
class ErrorRates:
    """Every figure of a calibration that is published."""

    schema: int
    commit: str
    dirty: bool
    seed: int
    machine: Machine
    hours: float
    conditions: dict[str, Condition]
    plants: list[Planted]
    comparisons: list[dict[str, int]]
    outcomes: dict[str, int]
    goals: list[Goal]
    failures: dict[str, int] = field(default_factory=dict)
    fingerprint: str | None = None


@dataclass(frozen=True)
class Table:
    """The pairs of rows by round: (effect, A's nanoseconds an operation)."""

    cells: dict[str, dict[int, tuple[float, float]]]

    @property
    def rounds(self) -> list[int]:
        """The rounds of which there is a pair."""
        return sorted({number for cells in self.cells.values() for number in cells})

    def of(self, rounds: list[int]) -> dict[str, list[tuple[float, float]]]:
        """The rows that have a pair in all of these rounds."""
        return {
            row: [cells[number] for number in rounds]
            for row, cells in self.cells.items()
            if all(number in cells for number in rounds)
        }


@dataclass(frozen=True)
class Drawn:
    """A whole comparison out of the pool: its verdicts, the margins, the fresh pairs of every row, whether it needed
    them or not, and whether a control alarmed, if there are any."""

    judgements: dict[str, Judgement]
    margins: dict[str, float]
    fresh: dict[str, list[tuple[float, float]]]
    alarmed: bool | None


def rate(count: int, of: int) -> Rate:
    """A rate with its bounds."""
    least = judge.bound(of - count, of)
    return Rate(count, of, None if least is None else 1 - least, judge.bound(count, of))


def together(rates: Iterable[Rate]) -> Rate:
    """Rates as one."""
    found = list(rates)
    return rate(sum(one.count for one in found), sum(one.of for one in found))


def table(entries: Iterable[Entry]) -> Table:
    """The pairs of these jobs."""
    cells: dict[str, dict[int, tuple[float, float]]] = {}
    for entry in entries:
        for row, effect, a_ns in zip(entry.rows, entry.effects, entry.a_ns, strict=True):
            cells.setdefault(row, {})[entry.round] = (effect, a_ns)
    return Table(cells)


def _of_whole_rounds(entries: list[Entry]) -> list[Entry]:
    """Without those of a round that was cut off: a comparison that draws it would lack all rows of the targets that it
    has not."""
    targets: dict[int, set[str]] = {}
    for entry in entries:
        targets.setdefault(entry.round, set()).add(entry.target)
    every = {entry.target for entry in entries}
    return [entry for entry in entries if targets[entry.round] == every]


def comparisons(pairs: Table, rules: Rules, rng: random.Random, added: float = 0.0) -> Iterator[Drawn]:
    """Whole comparisons that share no pair, as many as there are pairs for; `added` is a share by which side B of each
    row is slower."""
    left, effect = pairs.rounds, log1p(added)
    rng.shuffle(left)
    while len(left) >= rules.screen_pairs:
        screen, left = pairs.of(left[: rules.screen_pairs]), left[rules.screen_pairs :]
        rows = {id: cells for id, cells in screen.items() if not _is_control(id, rules)}
        margins = _margins(rows, rules)
        judgements = {
            id: found for id, cells in rows.items() if (found := judge.screened(_effects(cells, effect), margins[id]))
        }
        count = judge.deciding_pairs(max(1, len(rows) - len(judgements)))
        if len(left) < count:
            return
        fresh, left = pairs.of(left[:count]), left[count:]
        judgements |= _decided(
            {id: _effects(fresh[id], effect) for id in rows if id not in judgements and id in fresh}, margins, rules
        )
        controls = {
            id: _effects(screen[id] + fresh[id], 0.0) for id in screen if _is_control(id, rules) and id in fresh
        }
        alarmed = any(alarm for _, alarm in judge.alarms(controls, rules.control_alpha).values()) if controls else None
        yield Drawn(judgements, margins, {id: fresh[id] for id in rows if id in fresh}, alarmed)


def decisions(pairs: Table, rules: Rules, rng: random.Random) -> Iterator[dict[str, Judgement]]:
    """Comparisons of one layer each that share no pair, as many as there are pairs for; fresh pairs decide every row."""
    layers: dict[str, list[str]] = {}
    for id in pairs.cells:
        if not _is_control(id, rules):
            layers.setdefault(layer_of(id), []).append(id)
    for rows in layers.values():
        left, count = pairs.rounds, judge.deciding_pairs(len(rows))
        rng.shuffle(left)
        while len(left) >= count:
            there, left = pairs.of(left[:count]), left[count:]
            fresh = {id: there[id] for id in rows if id in there}
            yield _decided({id: _effects(cells, 0.0) for id, cells in fresh.items()}, _margins(fresh, rules), rules)


def _margins(rows: dict[str, list[tuple[float, float]]], rules: Rules) -> dict[str, float]:
    medians_ns = {id: statistics.median(a_ns for _, a_ns in cells) for id, cells in rows.items()}
    return {id: judge.margin_of(rules.margin(id), a_ns) for id, a_ns in medians_ns.items()}


def _decided(rows: dict[str, list[float]], margins: dict[str, float], rules: Rules) -> dict[str, Judgement]:
    """The early look at these rows, and the last one at those that it leaves open."""
    early = judge.clear(rows, margins, rules.alpha, len(rows))
    return early | judge.decide(
        {id: effects for id, effects in rows.items() if id not in early}, margins, rules.alpha, len(rows)
    )


def results(pool: Pool, rules: Rules, shuffles: int = SHUFFLES, fingerprint: str | None = None) -> ErrorRates:
    """Everything that the pool tells; `fingerprint` is that of the sources that judge it now."""
    conditions = {
        name: _condition(pool, name, rules, shuffles)
        for name in CONDITIONS
        if any(entry.condition == name for entry in pool.entries)
    }
    plants = list(_plants(pool, rules))
    wholes = [entry for entry in pool.entries if entry.kind == "comparison"]
    return ErrorRates(
        schema=SCHEMA,
        commit=pool.origin.commit,
        dirty=pool.origin.dirty,
        seed=pool.origin.seed,
        machine=pool.origin.machine,
        hours=round(sum(entry.seconds for entry in pool.entries) / 3600, 2),
        conditions=conditions,
        plants=plants,
        comparisons=[entry.verdicts for entry in wholes],
        outcomes=dict(Counter(entry.outcome for entry in wholes if entry.outcome)),
        goals=_goals(conditions, plants),
        failures=dict(Counter(row for entry in pool.entries for row in entry.failures)),
        fingerprint=fingerprint,
    )


def _condition(pool: Pool, name: str, rules: Rules, shuffles: int) -> Condition:
    pairs = table(_of_whole_rounds(pool.of("pair", name)))
    kinds: dict[str, set[str]] = {}
    for id, kind in pool.origin.kinds.items():
        kinds.setdefault(kind, set()).add(id)

    def rng(shuffle: str) -> random.Random:
        return random.Random(f"{pool.origin.seed}:{name}:{shuffle}")

    whole = list(comparisons(pairs, rules, rng("disjoint")))
    decided = list(decisions(pairs, rules, rng("disjoint")))
    slowed = {f"{100 * added:g}": list(comparisons(pairs, rules, rng("disjoint"), added)) for added in SLOW_DOWNS}
    many = [_changed(one) for number in range(shuffles) for one in decisions(pairs, rules, rng(str(number)))]
    shuffled = together(many)
    found = [judgement for one in decided for judgement in one.values()]
    return Condition(
        rounds=len(pairs.rounds),
        rows=sum(not _is_control(id, rules) for id in pairs.cells),
        comparisons=len(whole),
        false_alarms=together(map(_changed, decided)),
        by_kind={kind: together(_changed(one, rows_of) for one in decided) for kind, rows_of in kinds.items()},
        alarming=rate(sum(_changed(one).count > 0 for one in decided), len(decided)),
        shuffled=round(shuffled.count / shuffled.of, 6) if shuffled.of else None,
        coverage=rate(sum((one.low or 0.0) <= 0 <= (one.high or 0.0) for one in found), len(found)),
        p_values=[round(one.p, 5) for one in found if one.p is not None],
        screened=together(
            rate(sum(one.stage == "screen" for one in drawn.judgements.values()), len(drawn.judgements))
            for drawn in whole
        ),
        contaminated=rate(sum(one.alarmed is True for one in whole), sum(one.alarmed is not None for one in whole)),
        power={percent: _power(drawn) for percent, drawn in slowed.items()},
        found={
            percent: {
                kind: together(_changed(one.judgements, rows_of) for one in drawn) for kind, rows_of in kinds.items()
            }
            for percent, drawn in slowed.items()
        },
        usual=_usual(pool, name, rules),
    )


def _power(drawn: list[Drawn]) -> Power:
    verdicts = Counter(judgement.verdict for one in drawn for judgement in one.judgements.values())
    return Power(*(rate(verdicts[verdict], verdicts.total()) for verdict in ("slower", "same", "can't tell")))


def _usual(pool: Pool, condition: str, rules: Rules) -> dict[str, Rate]:
    """Each pair, and each process with the one before it, is a whole comparison for the usual tools."""
    rates = []
    kinds: tuple[EntryKind, ...] = ("pair", "process", "published")
    for kind in kinds:
        changes = [
            Change(*figures)
            for entry in pool.of(kind, condition)
            if entry.target != rules.controls
            for figures in entry.usual
            if figures
        ]
        rates += [
            rate(sum(one.changed for one in changes), len(changes)),
            rate(sum(one.listed for one in changes), len(changes)),
        ]
    return dict(zip(USUAL_TOOLS, rates, strict=True))


def own_row(pool: Pool, layer: str) -> str | None:
    """The layer's own row: of all rows of its target the one that many steps slow down by the largest share."""
    weighed = [entry for entry in pool.of("weighing", QUIET) if entry.target == layer and entry.plant]
    most = max((entry.plant.steps for entry in weighed if entry.plant), default=0)
    by_row = table(entry for entry in weighed if entry.plant and entry.plant.steps == most).cells
    return max(by_row, key=lambda row: _middle(by_row[row]), default=None)


def weight(pool: Pool, plant: Plant) -> float | None:
    """By which share a plant that was weighed slows the layer's own row down."""
    cells = table(entry for entry in pool.of("weighing", QUIET) if entry.plant == plant).cells.get(
        own_row(pool, plant.layer) or ""
    )
    return effects.share(_middle(cells)) if cells else None


def _middle(cells: dict[int, tuple[float, float]]) -> float:
    return statistics.median(effect for effect, _ in cells.values())


def _plants(pool: Pool, rules: Rules) -> Iterator[Planted]:
    """Layers below the plant cannot feel it: in a drawn comparison their rows are those of the pool, of the same
    rounds."""
    layers = [layer for layer in pool.origin.code if layer not in ACROSS]
    by_plant: dict[Plant, list[Entry]] = {}
    for entry in pool.of("plant", QUIET):
        if entry.plant:
            by_plant.setdefault(entry.plant, []).append(entry)
    for plant, entries in by_plant.items():
        slowed, own = table(entries), own_row(pool, plant.layer)
        if plant.share is None or own is None or own not in slowed.cells:
            continue
        lower, cells = layers[: layers.index(plant.layer)], slowed.cells[own]
        below = [entry for entry in pool.of("pair", QUIET) if entry.target in lower and entry.round in cells]
        drawn = list(comparisons(table([*entries, *below]), rules, random.Random(f"{pool.origin.seed}:{plant}")))
        size = estimates.location([effect for effect, _ in cells.values()])
        assert size is not None
        is_found = [own in one.judgements and one.judgements[own].verdict == "slower" for one in drawn]
        yield Planted(
            layer=plant.layer,
            share=plant.share,
            steps=plant.steps,
            row=own,
            pairs=len(cells),
            size=_share(size.middle),
            low=None if size.low is None else _share(size.low),
            high=None if size.high is None else _share(size.high),
            found=rate(sum(is_found), len(drawn)),
            named=rate(sum(_guilty(one, layers) == plant.layer for one in drawn), len(drawn)),
        )


def _share(effect: float) -> float:
    return round(effects.share(effect), 5)


def _guilty(drawn: Drawn, layers: list[str]) -> str | None:
    rows = {
        id: ComparedRow("judged", [], NO_FACTS, drawn.margins[id], judgement=judgement)
        for id, judgement in drawn.judgements.items()
    }
    for id, cells in drawn.fresh.items():
        if id in rows:
            rows[id].pairs = [
                PairPoint(number, effect, a_ns, a_ns * exp(effect)) for number, (effect, a_ns) in enumerate(cells)
            ]
    return attribution.attribute(rows, layers).guilty


def _goals(conditions: dict[str, Condition], plants: list[Planted]) -> list[Goal]:
    loaded = [conditions[name] for name in LOADS if name != QUIET and name in conditions]
    quiet = [conditions[name] for name in (QUIET,) if name in conditions]
    every = list(conditions.values())
    return [
        goal(
            "rows called changed though nothing had changed",
            "at most 1 %",
            together(one.false_alarms for one in every),
            most=0.01,
        ),
        goal(
            "rows 5 % slower found under load",
            "at least 95 %",
            together(one.power["5"].slower for one in loaded),
            least=0.95,
        ),
        goal(
            "rows 3 % slower found when quiet",
            "at least 95 %",
            together(one.power["3"].slower for one in quiet),
            least=0.95,
        ),
        goal(
            "intervals of decided rows that hold the truth",
            "at least 93 %",
            together(one.coverage for one in every),
            least=0.93,
        ),
        goal("real plants whose layer was named", "at least 95 %", together(one.named for one in plants), least=0.95),
    ]


def goal(name: str, wanted: str, found: Rate, least: float = 0.0, most: float = 1.0) -> Goal:
    """Met if both bounds lie within what was wanted, missed if they exclude it."""
    if found.at_least is None or found.at_most is None:
        return Goal(name, wanted, found, "not enough data")
    within, without = least <= found.at_least and found.at_most <= most, found.at_most < least or most < found.at_least
    return Goal(name, wanted, found, "met" if within else "MISSED" if without else "not enough data")


def _changed(decided: dict[str, Judgement], rows: Collection[str] | None = None) -> Rate:
    """Counts those of these rows, all or some, that are called changed."""
    verdicts = [found.verdict for id, found in decided.items() if rows is None or id in rows]
    return rate(sum(verdict in ("slower", "faster") for verdict in verdicts), len(verdicts))


def _effects(cells: list[tuple[float, float]], added: float) -> list[float]:
    return [effect + added for effect, _ in cells]


def _is_control(id: str, rules: Rules) -> bool:
    return layer_of(id) == rules.controls
