"""From what a person typed to a stored comparison: who the two sides are, what of them is compared, what it will cost.

Why so much is decided before the first pair: whoever looks at data before deciding what to judge will find what was
hoped for. So the rows, the margins, the controls and the seed stand in the file before anything is measured; only how
many rows the screen leaves open, and with it how many fresh pairs are needed, is learnt on the way.
"""

import fnmatch
import random
import secrets
import statistics
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from run_benches.compare import comparison_run, pairing, revisions, worktree
from run_benches.compare.comparison_run import ComparisonRun
from run_benches.compare.revisions import Revision
from run_benches.compare.worktree import Target
from run_benches.errors import UserError
from run_benches.interrupts import until_stopped
from run_benches.measure import build, machine, provenance, selection
from run_benches.measure.layers import SENTINELS, layer_names
from run_benches.measure.lock import alone
from run_benches.measure.plan import Costs
from run_benches.places import RUNS, shown
from run_benches.progress import duration
from run_benches.stats import judge
from run_benches.store import comparisons, stored_file
from run_benches.store.comparisons import ComparedRow, ComparedSide, Comparison, ComparisonDesign, Control
from run_benches.store.runs import Facts, layer_of

PLAN_SCHEMA = 1
ALPHA = 0.05
CONTROL_ALPHA = 0.01
SCREEN_PAIRS = 6
DEFAULT_MARGIN = 0.02
USUAL_SCATTER = 0.015
"""Standard deviation of a pair's effect, where no comparison of this checkout has shown it yet."""

LOOKED_BACK = 5
"""Stored comparisons that tell how much the pairs of a row scatter."""

CONTROL_ROWS = 3
COMPARED_SUBJECT = "strata"
"""Rows of other subjects (floors, other libraries) run none of our code."""

Targets = dict[str, Target]


@dataclass(frozen=True)
class ComparisonRequest:
    """The request for a comparison, as it was typed. `sets` are engine settings of one revision instead of two
    revisions; `benches` says whose bench sources run on both sides (each runs its own unless it is said); `margin` (a
    share) holds for all rows, `fewest_pairs` for those that are decided, where the rule needs no more."""

    a: str | None = None
    b: str | None = None
    sets: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    everything: bool = False
    benches: Literal["own", "a", "b"] = "own"
    budget_s: float | None = None
    margin: float | None = None
    alpha: float = ALPHA
    fewest_pairs: int = 0
    dry_run: bool = False
    seed: int | None = None
    timeout_s: float = 120.0
    command: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Forecast:
    """The expected cost of a comparison, in seconds: its screen; all of it where a quarter of the rows has to be
    decided, or every row. And the smallest slow-downs likely to be found, by row, with so many pairs of a quarter of
    the rows."""

    screen_s: float
    quarter_s: float
    all_s: float
    pairs: int
    visible: dict[str, float]


@dataclass(frozen=True)
class ComparisonPlan:
    """The document that a dry run prints; without rows to be measured there is no forecast."""

    schema: int
    comparison: Comparison
    forecast: Forecast | None


def compare(request: ComparisonRequest) -> tuple[Comparison, Path] | ComparisonPlan:
    """Compares anew; returns the comparison, which is not complete if it was interrupted; of a dry run, which ends when
    both sides are built, the plan."""
    revision_a, revision_b = _revisions(request)
    layers = list(dict.fromkeys([*revisions.benches(revision_b.commit), *revisions.benches(revision_a.commit)]))
    selection.check_layers(request.rows, layers)
    sides = _sides(request, revision_a, revision_b)
    if revision_a.commit == revision_b.commit and sides[0].settings == sides[1].settings:
        raise UserError(
            f"{revision_a.name} and {revision_b.name} are the same revision ({revision_a.commit[:9]}): nothing to compare; name another one"
        )
    with alone():
        left_out: dict[str, str] = {}
        if request.rows:
            layers = [layer for layer in layers if any(selection.layer_fits(layer, word) for word in request.rows)]
        elif not request.everything and not request.sets:
            layers, left_out = revisions.affected(revision_a, revision_b, layers)
        for layer, reason in left_out.items():
            print(f"left out: {layer} ({reason}; --all widens)", file=sys.stderr)
        if request.benches == "own" and any(
            path.startswith("benches/") for path in revisions.changed_files(revision_a, revision_b)
        ):
            print(
                "the sources of the benches differ: each side runs its own (--benches-of A or B: the same on both)",
                file=sys.stderr,
            )
        targets = _build(sides, layers)
        if any(target.link is None for built in targets for target in built.values()):
            raise UserError(
                "no lld, which alone can place code at random, and without that the mere order of functions is called a change: apt-get install lld"
            )
        compared, facts = _planned(request, sides, targets, left_out)
        forecast = _announce(compared, facts)
        if request.dry_run:
            return ComparisonPlan(PLAN_SCHEMA, compared, forecast)
        path = stored_file.new(RUNS, "compare-", compared.a.commit[:7], compared.b.commit[:7])
        print(f"seed {compared.design.seed}; stored as {shown(path)} while it grows", file=sys.stderr)
        return _carry_out(compared, path, targets, facts, request.timeout_s)


def resume(name: str | None, timeout_s: float) -> tuple[Comparison, Path]:
    """Goes on with a comparison that was interrupted, by default the last one."""
    interrupted = (path for path in reversed(comparisons.stored()) if not comparisons.load(path).complete)
    path = comparisons.find(name) if name else next(interrupted, None)
    if path is None:
        raise UserError("no comparison was interrupted; there is nothing to resume")
    compared = comparisons.load(path)
    if compared.complete:
        raise UserError(f"{shown(path)} is complete; there is nothing to resume")
    with alone():
        return _go_on(compared, path, timeout_s)


def more(name: str | None, budget_s: float | None, timeout_s: float) -> tuple[Comparison, Path]:
    """Tries again the rows that could not be told, with as many fresh pairs as they need, in a file of its own. Each
    try has half the level of the one before, so trying again does not wear the level out."""
    old = comparisons.find(name)
    compared = comparisons.load(old)
    if not compared.complete:
        raise UserError(f"{shown(old)} is not complete: go on with compare --resume first")
    again = {id: row for id, row in compared.rows.items() if row.judgement and row.judgement.verdict == "can't tell"}
    if compared.outcome == "contaminated":
        raise UserError(f"{shown(old)} is contaminated, so none of its verdicts counts: compare anew")
    if not again:
        raise UserError(f"{shown(old)} has no row that could not be told: there is nothing to spend more pairs on")
    with alone():
        design = compared.design
        design.tries, design.deciding_pairs, design.reruns, design.budget_s = design.tries + 1, None, None, budget_s
        wanted = [row.judgement.pairs_needed for row in again.values() if row.judgement and row.judgement.pairs_needed]
        design.fewest_pairs = 0 if budget_s else max(wanted, default=0)
        for control in compared.controls.values():
            control.pairs, control.p_adjusted = [], None
        for row in again.values():
            row.earlier, row.pairs, row.judgement, row.state = row.earlier + row.pairs, [], None, "not_run"
        compared.complete, compared.outcome, compared.attribution, compared.seconds = False, None, None, 0.0
        compared.started = _now()
        path = stored_file.new(RUNS, "compare-", compared.a.commit[:7], compared.b.commit[:7])
        print(f"{len(again)} rows could not be told; stored as {shown(path)} while it grows", file=sys.stderr)
        return _go_on(compared, path, timeout_s)


def _go_on(compared: Comparison, path: Path, timeout_s: float) -> tuple[Comparison, Path]:
    if compared.design.turns != pairing.TURNS:
        raise UserError(
            f"{shown(path)} was begun by another version, whose turns are of other lengths: start a new comparison"
        )
    machine.check_same(compared.machine, shown(path))
    sides = (compared.a, compared.b)
    targets = _build(
        sides, [layer for layer in dict.fromkeys([*compared.a.code, *compared.b.code]) if layer != SENTINELS]
    )
    for side, built in zip(sides, targets, strict=True):
        if {layer: target.code for layer, target in built.items()} != side.code:
            raise UserError(
                f"the benches of {side.name} are not those that {shown(path)} began with (another compiler?): start a new comparison"
            )
    facts = _facts(targets[1], {}) | _facts(targets[0], {})
    print(f"going on with {shown(path)}: {len(compared.design.order)} pairs are done", file=sys.stderr)
    return _carry_out(compared, path, targets, facts, timeout_s)


def _carry_out(
    compared: Comparison, path: Path, targets: tuple[Targets, Targets], facts: dict[str, Facts], timeout_s: float
) -> tuple[Comparison, Path]:
    with until_stopped("run-benches.py compare --resume"):
        ComparisonRun(compared, path, targets, facts, timeout_s).carry_out()
    return comparisons.load(path), path


def _revisions(request: ComparisonRequest) -> tuple[Revision, Revision]:
    asked = [layer for layer in layer_names() if any(selection.layer_fits(layer, word) for word in request.rows)]
    if request.sets:
        if request.b or len(request.sets) > 2:
            raise UserError(
                "--set compares two settings of one revision: name at most one revision, and one or two settings (the one before is the default)"
            )
        revision = revisions.resolve(request.a, asked)
        return revision, revision
    return (revisions.resolve(request.a, asked) if request.a else revisions.merge_base()), revisions.resolve(
        request.b, asked
    )


def _sides(request: ComparisonRequest, a: Revision, b: Revision) -> tuple[ComparedSide, ComparedSide]:
    benches_of = {"own": (a, b), "a": (a, a), "b": (b, b)}[request.benches]
    made = [
        ComparedSide(revision.name, revision.commit, revision.dirty, benches.commit)
        for revision, benches in zip((a, b), benches_of, strict=True)
    ]
    settings = ["", *request.sets][-2:] if request.sets else []
    for side, one in zip(made, settings):
        side.name, side.settings = (one or "default settings"), ({"STRATA_SET": one} if one else {})
    return made[0], made[1]


def _build(sides: tuple[ComparedSide, ComparedSide], layers: list[str]) -> tuple[Targets, Targets]:
    built = []
    words: tuple[Literal["a", "b"], ...] = ("a", "b")
    for side, word in zip(sides, words, strict=True):
        revision, benches_of = (Revision(side.name, commit, side.dirty) for commit in (side.commit, side.benches_of))
        built.append(
            worktree.build_side(
                revision, word, benches_of=benches_of, features=side.features, layers=[*layers, SENTINELS]
            )
        )
    return built[0], built[1]


def _facts(targets: Targets, settings: dict[str, str]) -> dict[str, Facts]:
    return {
        id: facts
        for layer, target in targets.items()
        for id, facts in build.ask(layer, target.executable, settings).facts.rows.items()
    }


def _engines(targets: Targets, settings: dict[str, str]) -> dict[str, object]:
    """The effective options of the engine, as the benches themselves say them."""
    found = {layer: build.ask(layer, target.executable, settings).facts.engine for layer, target in targets.items()}
    return {layer: engine for layer, engine in found.items() if engine}


def _planned(
    request: ComparisonRequest,
    sides: tuple[ComparedSide, ComparedSide],
    targets: tuple[Targets, Targets],
    left_out: dict[str, str],
) -> tuple[Comparison, dict[str, Facts]]:
    facts = (_facts(targets[0], sides[0].settings), _facts(targets[1], sides[1].settings))
    engines = {name: _engines(built, side.settings) for name, built, side in zip("ab", targets, sides, strict=True)}
    if request.sets and engines["a"] == engines["b"]:
        raise UserError(f"{sides[0].name} and {sides[1].name} give the engine the same options: nothing to compare")
    ids = [id for id in {**facts[0], **facts[1]} if layer_of(id) != SENTINELS]
    selection.check_rows(request.rows, ids)
    for side, built in zip(sides, targets, strict=True):
        side.code = {layer: target.code for layer, target in built.items()}
    seed = secrets.randbits(32) if request.seed is None else request.seed
    margins = revisions.text_of(sides[0].commit, "benches/margins.toml")
    rows = {id: _row(request, sides, facts, id, request.margin or margin(id, margins)) for id in ids}
    compared = Comparison(
        schema=comparisons.SCHEMA,
        command=["run-benches.py", *request.command],
        started=_now(),
        seconds=0.0,
        complete=False,
        a=sides[0],
        b=sides[1],
        machine=machine.describe(None),
        build=provenance.how_built(),
        engine=engines,
        design=ComparisonDesign(
            seed,
            request.alpha,
            CONTROL_ALPHA,
            SCREEN_PAIRS,
            None,
            pairing.TURNS,
            request.budget_s,
            request.fewest_pairs,
        ),
        rows=rows,
        controls=_controls(seed, facts[0], [id for id, row in rows.items() if row.state == "not_run"]),
        left_out=left_out,
    )
    return compared, facts[1] | facts[0]


def _row(
    request: ComparisonRequest,
    sides: tuple[ComparedSide, ComparedSide],
    facts: tuple[dict[str, Facts], dict[str, Facts]],
    id: str,
    share: float,
) -> ComparedRow:
    (a, b), layer = sides, layer_of(id)
    row = ComparedRow("not_run", [], facts[0].get(id) or facts[1][id], share)
    only = [side.name for side, others in zip(sides, reversed(facts), strict=True) if id not in others]
    if only:
        row.state, row.reasons = "one_side", [f"only in {only[0]}"]
    elif _work(facts[0][id]) != _work(facts[1][id]):
        why = "its sides do other work, so their times say nothing of each other; the same bench on both: --benches-of A or B"
        row.state, row.reasons = "left_out", [why]
    named = any(word.count("/") > 1 and selection.matches(id, word) for word in request.rows)
    if not selection.chosen(id, request.rows):
        row.state, row.reasons = "left_out", ["not chosen"]
    elif id.split("/")[2] != COMPARED_SUBJECT and not named:
        row.state, row.reasons = "left_out", ["runs none of our code; compared where it is named down to its subject"]
    elif row.state == "not_run" and row.facts.background:
        row.state, row.reasons = "left_out", ["its background work does not stop for the turns of a partner"]
    elif row.state == "not_run" and row.facts.workload and not request.rows:
        row.state, row.reasons = "left_out", ["a workload takes seconds to set up; compared where it is named (--rows)"]
    elif row.state == "not_run" and a.code[layer] == b.code[layer] and a.settings == b.settings:
        row.state, row.reasons = "identical", ["the code and data that both sides load are the same, byte by byte"]
    return row


def _work(facts: Facts) -> list[object]:
    """Returns the facts that must agree before two times may be compared."""
    return [
        getattr(facts, name)
        for name in (
            "op",
            "unit",
            "units_per_operation",
            "threads",
            "clock",
            "changes_store",
            "durability",
            "data_set",
            "state",
            "indexes",
        )
    ]


def _controls(seed: int, facts: dict[str, Facts], planned: list[str]) -> dict[str, Control]:
    """Every sentinel, and some rows of one thread in different layers."""
    sentinels = {id: Control("sentinel") for id in facts if layer_of(id) == SENTINELS}
    by_layer: dict[str, list[str]] = {}
    for id in planned:
        if facts[id].threads == 1:
            by_layer.setdefault(layer_of(id), []).append(id)
    rng = random.Random(f"{seed}:controls")
    layers = rng.sample(sorted(by_layer), min(CONTROL_ROWS, len(by_layer)))
    return sentinels | {rng.choice(by_layer[layer]): Control("row") for layer in layers} if planned else {}


def margin(id: str, margins: str | None = None) -> float:
    """The share within which a row counts as the same: of the last pattern in `margins` (the text of
    benches/margins.toml, at side A: nobody loosens a gate by the change that has to pass it) that fits it, else 2 %."""
    try:
        fitting = [
            float(share) for pattern, share in tomllib.loads(margins or "").items() if fnmatch.fnmatchcase(id, pattern)
        ]
    except (tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise UserError(f'benches/margins.toml should have lines like "indexes/*" = 0.02: {error}') from error
    return fitting[-1] if fitting else DEFAULT_MARGIN


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _announce(compared: Comparison, facts: dict[str, Facts]) -> Forecast | None:
    """Says what it will cost, and what it will see; a budget that the smallest comparison does not fit into is refused
    before it is spent."""
    planned = [id for id, row in compared.rows.items() if row.state == "not_run"]
    identical = sum(row.state == "identical" for row in compared.rows.values())
    print(
        f"{compared.a.name} ({compared.a.commit[:9]}) with {compared.b.name} ({compared.b.commit[:9]}): {len(planned)} rows, {identical} identical",
        file=sys.stderr,
    )
    if not planned:
        return None
    screen_s, some_s, all_s = _forecast_s(compared, planned, facts)
    budget_s = compared.design.budget_s
    if budget_s is not None and budget_s < some_s:
        raise UserError(
            f"comparing these rows takes about {duration(some_s)} if a quarter of them has to be decided: name fewer with --rows, or a larger --budget"
        )
    undecided = max(1, len(planned) // 4)
    fewest = comparison_run.fewest_pairs(compared.design, undecided)
    pairs = comparison_run.affordable(fewest, (some_s - screen_s) / fewest, budget_s, screen_s)
    scatter = known_scatter()
    print(
        f"screen: {compared.design.screen_pairs} pairs of each, about {duration(screen_s)}; with fresh pairs of what it leaves open "
        f"{duration(some_s)} if that is a quarter, {duration(all_s)} if it is all"
        + (
            f"; the budget of {duration(budget_s)} buys {pairs} pairs of a quarter, and is passed if more is left open"
            if budget_s
            else ""
        ),
        file=sys.stderr,
    )
    visible = {
        id: judge.smallest_visible(
            scatter.get(id, USUAL_SCATTER), pairs, undecided, compared.rows[id].margin, compared.design.alpha
        )
        for id in planned
    }
    known = sum(id in scatter for id in planned)
    print(
        f"smallest slow-down likely to be found: {statistics.median(visible.values()):.1%} (half of the rows), {max(visible.values()):.1%} (all), "
        f"by the scatter of {f'earlier comparisons ({known} rows)' if known else f'{USUAL_SCATTER:.1%} that is usual'}",
        file=sys.stderr,
    )
    return Forecast(screen_s, some_s, all_s, pairs, visible)


def _forecast_s(compared: Comparison, planned: list[str], facts: dict[str, Facts]) -> tuple[float, float, float]:
    """The screen; all of it where a quarter of the rows has to be decided; all of it where every row has to be."""
    design, costs = compared.design, Costs()
    layers: dict[str, list[Facts]] = {}
    for id in planned:
        layers.setdefault(layer_of(id), []).append(facts[id])
    pair_s = sum(comparison_run.seconds_of(layer, rows, design.turns, costs) for layer, rows in layers.items())
    control_s = sum(
        comparison_run.seconds_of(layer_of(id), [facts[id]], design.turns, costs) for id in compared.controls
    )
    screen_s = design.screen_pairs * (pair_s + comparison_run.CONTROLS_A_SCREENING * control_s)
    decided = (max(1, len(planned) // 4), len(planned))
    some_s, all_s = (
        screen_s + comparison_run.fewest_pairs(design, count) * (pair_s * count / len(planned) + control_s)
        for count in decided
    )
    return screen_s, some_s, all_s


def known_scatter() -> dict[str, float]:
    """By row, the scatter of a pair's effect (a logarithm) in the last comparisons of this checkout."""
    found: dict[str, float] = {}
    for path in comparisons.stored()[-LOOKED_BACK:]:
        with suppress(UserError):  # a damaged file costs an estimate, no more
            for id, row in comparisons.load(path).rows.items():
                points = row.pairs or row.screen
                if len(points) >= SCREEN_PAIRS:
                    found[id] = judge.scatter([point.effect for point in points])
    return found
