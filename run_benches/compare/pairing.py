"""One pair of two sides of a target: both linked anew, run in lock-step, and turned into a point for each of its rows.

Why linked anew: where a linker happens to put a function moves its time by up to some percent, and an innocent commit
re-links everything. With an order of its own for each side of each pair, the placement of code is scatter like the
placement of memory, which statistics can deal with, and no longer a difference between the two revisions, which they
would find.
"""

import random
import shutil
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from run_benches import processes
from run_benches.compare.worktree import Target
from run_benches.measure import broker, build, families, jobs
from run_benches.store.comparisons import PairPoint
from run_benches.store.runs import Facts

TEMPLATES = jobs.TEMPLATES

TURNS = {"1_ms": 60, "5_ms": 24, "20_ms": 12}
"""Turns of each side of a pair, by their length. The scatter between pairs is larger than that within one, so pairs are
short and many."""

JITTER = 0.25
"""By so much of itself the turn of a row is longer or shorter in a pair: one length in all pairs could keep step with
the machine's spells."""


@dataclass(frozen=True)
class PairSide:
    """A side of a pair: what is linked and run, in which environment, and which folder of prepared stores it uses."""

    target: Target
    settings: dict[str, str]
    stores: str


@dataclass(frozen=True)
class PairContext:
    """The context that all pairs of a comparison share."""

    folder: Path
    turns: dict[str, int]
    timeout_s: float
    tick: Callable[[], None]
    costs_ns: dict[str, float] = field(default_factory=dict)
    """The nanoseconds that an operation took in the last pair, by row."""


@dataclass
class PairOutcome:
    """The findings of a pair, by row; and the facts that its sides wrote meanwhile."""

    points: dict[str, PairPoint] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Why what failed first was run again, once: the engine had refused an operation."""
    seen: tuple[dict[str, Facts], dict[str, Facts]] = field(default_factory=lambda: ({}, {}))


def measure(
    context: PairContext,
    sides: tuple[PairSide, PairSide],
    rows: dict[str, Facts],
    number: int,
    name: str,
    deadline_s: float,
) -> PairOutcome:
    """Runs pair `number` of these rows, all of one target. `name` is its own in the comparison: every random choice is
    drawn from it."""
    rng = random.Random(name)
    homes = (context.folder / "a", context.folder / "b")
    seeds = [rng.randrange(1, 2**31) for _ in sides]
    with ThreadPoolExecutor() as linkers:
        processes = list(linkers.map(partial(_linked, context), sides, homes, seeds))
    outcome = PairOutcome()
    for several in (False, True):
        chosen = {id: facts for id, facts in rows.items() if (facts.threads > 1) == several}
        empty = 0
        while chosen and empty < jobs.MOST_EMPTY:
            result = broker.run(
                processes,
                [row_in_turns(id, facts, context, rng) for id, facts in chosen.items()],
                cores=jobs.pinned_to(2 if several else 1),
                seed=rng.getrandbits(32),
                deadline_s=deadline_s,
                silence_s=context.timeout_s,
                progress=lambda settled, of: context.tick(),
            )
            for seen, home in zip(outcome.seen, homes, strict=True):
                found = build.read_facts(home / "facts")
                seen.update({id: facts for id, facts in (found.rows if found else {}).items() if id in chosen})
            _collect(outcome, result, number)
            # Rows run in the order of the source, so the first one without a point took its process with it, and the
            # rest may go on.
            failed = next((id for id in chosen if id not in outcome.points), None)
            again = failed is not None and _refused(outcome, failed)
            known = again or (
                failed is not None and jobs.allocation_limit(failed, outcome.failures.get(failed, "")) is not None
            )
            empty = 0 if result.rows or known else empty + 1
            chosen = {id: facts for id, facts in chosen.items() if id not in outcome.points and (again or id != failed)}
            for (id, *_), log in result.rows.items():
                jobs.keep(context.folder, name, id, log)
                if families.on_the_wall([rows[id]]):
                    context.costs_ns[id] = broker.cost_ns(log)
            for home in homes:
                shutil.rmtree(home / "facts")
                (home / "facts").mkdir()
    return outcome


def _refused(outcome: PairOutcome, failed: str) -> bool:
    """Returns whether to run a failed row once more, because the engine refused an operation of it for the first
    time."""
    refusal = processes.refusal(outcome.failures.get(failed))
    if refusal is None or failed in outcome.refusals:
        outcome.failures |= {failed: outcome.failures[failed] + jobs.AGAIN} if refusal else {}
        return False
    outcome.refusals[failed] = refusal
    return True


def row_in_turns(id: str, facts: Facts, context: PairContext, rng: random.Random) -> broker.RowInTurns:
    """A row with the length and number of its turns in one pair."""
    turn_ns = families.turn_ns([facts, facts]) * rng.uniform(1 - JITTER, 1 + JITTER)
    return broker.RowInTurns((id, id), turn_ns, context.turns[_length(facts)], context.costs_ns.get(id))


def turns_s(turns: dict[str, int], facts: Facts) -> float:
    """Returns the seconds that the turns of both sides of a pair take."""
    return 2 * turns[_length(facts)] * families.turn_ns([facts, facts]) / 1e9


def _length(facts: Facts) -> str:
    return f"{families.turn_ns([facts, facts]) / 1e6:g}_ms"


def _linked(context: PairContext, side: PairSide, home: Path, seed: int) -> broker.Lane:
    """Paths are equally long on both sides: what stands on the stack before `main` moves everything after it."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "facts").mkdir(parents=True)
    executable = home / side.target.layer
    assert side.target.link is not None, "without a link there is no comparison"
    side.target.link.to(executable, seed)
    own = stores(context.folder, side.stores, side.target.layer) | {"STRATA_FACTS_DIR": str(home / "facts")}
    return broker.Lane([str(executable), "--bench"], jobs.environment_of(own | side.settings))


def stores(folder: Path, name: str, layer: str) -> dict[str, str]:
    """Where the processes of one side share the stores they prepare. Sides have their own: they may write different
    formats."""
    path = folder / TEMPLATES / name / layer
    path.mkdir(parents=True, exist_ok=True)
    return {"STRATA_TEMPLATES": str(path)}


def _collect(outcome: PairOutcome, result: broker.TurnsResult, number: int) -> None:
    for (id, *_), log in result.rows.items():
        total = any(families.stalled(seen[id]) for seen in outcome.seen if id in seen)
        effect = broker.effect(log, total)
        # As the effect is made: without the first palindrome, and of all time where stalls are part of the cost.
        times = [[turn.nanoseconds / log.operations for turn in log.turns[4:] if turn.side == side] for side in (0, 1)]
        a_ns, b_ns = (statistics.fmean(one) if total else statistics.median(one) for one in times)
        outcome.failures.pop(id, None)
        outcome.points[id] = PairPoint(number, round(effect, 6), round(a_ns, 2), round(b_ns, 2), _unlike(log))
    for failure in result.failures:
        outcome.failures[failure.ids[0]] = jobs.in_one_line(failure.reason)


def _unlike(log: broker.RowLog) -> list[float] | None:
    """B less A: the share of its time that the side waited for a core, its major and minor faults, its involuntary
    switches."""
    if log.conditions is None or any(turn.waited_ns is None for turn in log.turns):
        return None
    waited = [sum(turn.waited_ns or 0 for turn in log.turns if turn.side == side) for side in (0, 1)]
    spent = sum(turn.nanoseconds for turn in log.turns) / 2
    a, b = log.conditions
    share = (waited[1] - waited[0]) / max(1.0, spent)
    return [
        round(share, 5),
        b.major_faults - a.major_faults,
        b.minor_faults - a.minor_faults,
        b.involuntary_switches - a.involuntary_switches,
    ]
