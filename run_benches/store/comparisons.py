"""A comparison of two sides on disk: the one home of its format, of reading it and of writing it.

Why a format of its own: a run holds times and ratios, a comparison holds effects of pairs and what was concluded from
them. Everything a verdict rests on stands here (the effect of every pair, the seed that placed its code, what its two
sides met), so that `explain` can say why, `more` can go on, and a person can judge anew by another rule. It is replaced
by rename after every job, so a comparison that was cut off at any moment is still one, and goes on.

History of the format:
  schema 1: the first. Effects are natural logarithms of B's time over A's, times are nanoseconds an operation.
  schema 2: rows that are clear end at an early look, so a judgement has the `level` of its look, and its bounds are of that; `outliers`
    were `other_mode`, `same_low` and `same_high` were `low_90` and `high_90`.
  schema 3: a row may be judged by its `allocations` alone, where their limit was passed; before, it was invalid. `refusals` are the
    reasons why a pair of it was run again. The identity of the machine says also which generation its processor is of.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from run_benches import serialization
from run_benches.places import RUNS
from run_benches.stats.judge import AllocationVerdict, ComparisonOutcome, Judgement
from run_benches.store import stored_file
from run_benches.store.runs import Build, Facts, Job, Machine

SCHEMA = 3

RowState = Literal["judged", "identical", "one_side", "not_run", "invalid", "left_out"]
"""The state in which a row ended. `identical`: the loaded bytes of both binaries are the same, so it is not run;
`one_side`: only A or only B has it; `left_out`: no word chose it, or nothing that it stands on changed. A row is
`not_run` from the moment it is planned."""


@dataclass
class ComparedSide:
    """One of the two. `settings` go into the environment of its processes; `code` is a fingerprint of the loaded bytes,
    by target."""

    name: str
    commit: str
    dirty: bool
    benches_of: str
    settings: dict[str, str] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)


@dataclass
class PairPoint:
    """A pair of a row. `unlike` is by how much its sides met other conditions: the share of time spent waiting for a
    core, major and minor faults, involuntary switches (B less A); absent where the kernel does not say."""

    pair: int
    effect: float
    a_ns: float
    b_ns: float
    unlike: list[float] | None = None


@dataclass
class Witness:
    """The counts that noise cannot touch, on side A and on side B: instructions an operation under callgrind,
    allocations an operation, and the engine's counters an operation. Each is absent where nobody counted; `reason` says
    why instructions are."""

    instructions: tuple[float, float] | None = None
    allocations: tuple[float, float] | None = None
    counters: dict[str, tuple[float, float]] = field(default_factory=dict)
    reason: str | None = None


@dataclass
class Allocations:
    """The verdict of a row whose limit of allocations was passed: what an operation allocates on side A and on side B,
    and the limit."""

    verdict: AllocationVerdict
    a: float
    b: float
    at_most: float


@dataclass
class ComparedRow:
    """A row of the comparison: how it ended and on which pairs that rests. `margin` is the share within which it counts
    as the same; `set_aside` are pairs whose sides met unlike conditions and that were run again, `earlier` those of
    earlier tries (`more`). A judged row has a judgement of its times, or `allocations`; `refusals` are those of the
    engine for which a pair was run again."""

    state: RowState
    reasons: list[str]
    facts: Facts
    margin: float
    screen: list[PairPoint] = field(default_factory=list)
    pairs: list[PairPoint] = field(default_factory=list)
    set_aside: list[PairPoint] = field(default_factory=list)
    earlier: list[PairPoint] = field(default_factory=list)
    judgement: Judgement | None = None
    witness: Witness | None = None
    allocations: Allocations | None = None
    refusals: list[str] = field(default_factory=list)


@dataclass
class Control:
    """A compared with itself, linked anew on either side: a sentinel that touches no code of the project, or one of A's
    own rows."""

    kind: Literal["sentinel", "row"]
    pairs: list[PairPoint] = field(default_factory=list)
    p_adjusted: float | None = None
    alarm: bool = False


@dataclass
class ExplainedShare:
    """A rung above the guilty layer: its change in nanoseconds an operation with the 95 % interval, and the share of it
    that the guilty rung's change explains (absent where the rung's own change could not be seen)."""

    id: str
    rung: str
    change_ns: float
    low_ns: float
    high_ns: float
    explained: float | None


@dataclass
class Attribution:
    """Which layer is to blame, and what it explains at the rungs above it. `guilty` is absent where no row is slower."""

    guilty: str | None
    rows: list[str]
    shares: list[ExplainedShare]


@dataclass
class ComparisonDesign:
    """The method by which the verdicts were made; decided before the first pair, but for `deciding_pairs` and
    `decided_rows`, which the screen decides, and `reruns` (pairs by row), which their conditions decide. `alpha` is the
    level of the family of rows, `control_alpha` that of the controls; the second try (`more`) judges fresh pairs at
    half of the first one's level, and so on, so all tries together stay below twice it."""

    seed: int
    alpha: float
    control_alpha: float
    screen_pairs: int
    deciding_pairs: int | None
    turns: dict[str, int]
    budget_s: float | None
    fewest_pairs: int = 0
    decided_rows: int = 0
    tries: int = 1
    reruns: dict[str, list[int]] | None = None
    order: list[Job] = field(default_factory=list)

    @property
    def level(self) -> float:
        """That of this try: each has half of the one before."""
        return self.alpha * 0.5 ** (self.tries - 1)


@dataclass
class Comparison:
    """One comparison, as it stands on disk. `left_out` are the targets that were not run at all, and why."""

    schema: int
    command: list[str]
    started: str
    seconds: float
    complete: bool
    a: ComparedSide
    b: ComparedSide
    machine: Machine
    build: Build
    engine: dict[str, Any]
    design: ComparisonDesign
    rows: dict[str, ComparedRow]
    controls: dict[str, Control]
    left_out: dict[str, str]
    attribution: Attribution | None = None
    outcome: ComparisonOutcome | None = None


def load(path: Path) -> Comparison:
    """Reads a comparison; a damaged or newer file is a complaint of one line."""
    with stored_file.reading(path):
        content = stored_file.content(path, SCHEMA)
        if content["schema"] == 1:
            _rename(content)
        content["schema"] = SCHEMA
        return serialization.parse(Comparison, content)


def _rename(content: dict[str, Any]) -> None:
    """A comparison of schema 1 as one of schema 2."""
    rows = content.get("rows")
    for row in rows.values() if isinstance(rows, dict) else ():
        judgement = (row.get("judgement") if isinstance(row, dict) else None) or {}
        for old, new in (("other_mode", "outliers"), ("low_90", "same_low"), ("high_90", "same_high")):
            if old in judgement:
                judgement[new] = judgement.pop(old)


def write(comparison: Comparison, path: Path) -> None:
    """Writes a comparison that is under way, replacing what was there of it."""
    serialization.store(path, comparison)


def stored() -> list[Path]:
    """Every comparison of this checkout, oldest first."""
    return stored_file.past(RUNS, "compare-")


def find(name: str | None) -> Path:
    """The comparison that a person means."""
    return stored_file.find(
        name,
        stored(),
        [],
        "comparison",
        "run-benches.py compare, which holds the working tree against where it left main",
    )
