"""A run on disk: the one home of its format, of reading it and of writing it.

Why: a figure is worth printing only if the run that it came from can be read again, by a later version and by another
person. So a run carries everything that its figures depend on (what was measured, how, where, with which seed), is
never overwritten, and is replaced by rename while it grows, so that a run cut off at any moment is still a run.

History of the format:
  schema 1: the first. Times in nanoseconds an operation, one point a process; ratios are the floor's time over ours, one a pair.
  schema 2: a row also has `latencies` by the kind of operation and `measures` by name, one of each a process; facts say which rows are
    workloads, the design says in how many processes those run. A run of schema 1 has none of them, and is read as one of schema 2.
  schema 3: rows that are compared are lanes of `families`, which take turns (a tuple); `contrasts` are the logarithms of
    their ratios, one a tuple, and `pairs` of the design became `tuples`. Before, only floors were compared, in pairs of processes, and
    every time was that of processes that ran alone. An older run has no families and no contrasts, and its pairs are read as tuples.
  schema 4: what the turns of a workload report stands in `turns`. Before, it replaced the counts of the workload's own processes, so of an
    older run only what they must have been is read (operations), or nothing (counters). The identity of the machine says also which
    generation its processor is of, and its caches; each run has `sentinels`. What an older run does not say is not known. A row also says
    for which `refusals` of the engine a process or a tuple of it was run again. Where git does not know the revision, `dirty` is null.
  schema 5: a family has the times of all its lanes: those of rows whose home is another family stand in `guests_ns`. Before, the time of a
    base that was a guest was not stored, so of the rows beside it only their own processes are known. The design has `wide_tuples`.
  schema 6: by layer a run has the hashes of what its figures depend on (`sources`) and the words of the bench (`headers`), and a binary has one
    of the bytes that are loaded of it. Before there was one `fingerprint` over the files of everything, which is read no more: whether the code
    has changed since is not known.

A set is a folder of runs of one layer each (`baselines/reference`), which are renewed one by one; a run of several
layers is read as the set of its parts, and a set as one run where its parts are told together.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from run_benches import serialization
from run_benches.errors import UserError
from run_benches.places import BASELINES, RUNS, shown
from run_benches.store import stored_file
from run_benches.store.fingerprint import Parts

T = TypeVar("T")

SCHEMA = 6

UNKNOWN = "unknown"
"""In place of what a run could not find out about itself."""

State = Literal["ran", "not_run", "skipped", "invalid"]
"""The state in which a planned cell ended. A cell is `not_run` from the moment it is planned until something else is
known."""

Scale = Literal["quick", "default", "full", "budget"]

Depth = Literal["quick", "default", "full"]
"""The smallest run in which a row takes turns with those it is held against."""


@dataclass
class Floor:
    """The row that a row is held against, and the goals for floor's time / row's time; without goals it is a peer, and
    either may win."""

    id: str
    at_least: float | None = None
    aim: float | None = None


@dataclass
class Place:
    """Where a row stands on an axis (threads, records, indexes, sharing) along which rows of one operation differ, and
    nothing else does."""

    axis: str
    x: float


@dataclass
class Facts:
    """The bench's own facts about a row: what one operation is and under which circumstances it runs."""

    op: str
    unit: str
    units_per_operation: float
    threads: int
    clock: Literal["wall", "cpu"] = "wall"
    changes_store: bool = False
    capacity: int | None = None
    turn_operations: int | None = None
    workload: bool = False
    background: bool = False
    durability: str | None = None
    data_set: str | None = None
    state: str | None = None
    indexes: int | None = None
    bytes_per_operation: float | None = None
    allocations_at_most: float | None = None
    floor: Floor | None = None
    against: list[str] = field(default_factory=list)
    depth: Depth = "full"
    scale: Place | None = None
    allocations_per_operation: float | None = None
    timed_operations: int | None = None
    counters: dict[str, Any] | None = None


@dataclass
class Tool:
    """The revision that was measured. Where git did not know it, the commit is `unknown`, and whether it was dirty is
    not known."""

    commit: str
    dirty: bool | None
    lock_sha256: str


@dataclass(frozen=True)
class Likeness:
    """The likeness of two machines: in what they differ, and what one of them did not record. What is not known is
    never taken for equal."""

    differ: list[str]
    unknown: list[str]

    @property
    def alike(self) -> bool:
        """True if times of the two may stand side by side."""
        return not self.differ and not self.unknown

    @property
    def words(self) -> str:
        """Why they are not alike."""
        told = (("unlike machines (", self.differ), ("machines not known to be alike (no record of ", self.unknown))
        return "; ".join(f"{what}{', '.join(names)})" for what, names in told if names)


PROCESSOR = {
    "x86_64": ("family", "model", "stepping", "caches"),
    "aarch64": ("implementer", "variant", "part", "revision", "caches"),
}
"""The properties that tell the generations of a processor apart where its name does not, by architecture."""


@dataclass
class Machine:
    """`identity` must agree before times of two runs may stand side by side; `recorded` is merely kept."""

    identity: dict[str, Any]
    recorded: dict[str, Any]

    @property
    def cores(self) -> int | None:
        """The number of its cores, if that is known."""
        found = self.identity.get("cores")
        return found if isinstance(found, int) else None

    def likeness(self, other: "Machine") -> Likeness:
        """Returns its likeness to another one."""
        mine, theirs = self.identity, other.identity
        names = dict.fromkeys([*mine, *theirs, *PROCESSOR.get(str(mine.get("architecture")), ("caches",))])
        unknown = [name for name in names if name not in mine or name not in theirs]
        return Likeness([name for name in names if name not in unknown and mine[name] != theirs[name]], unknown)

    def other_kernel(self, other: "Machine") -> str | None:
        """That the kernel is another one, if it is: it may move times, and is no other machine."""
        kernels = [str(one.recorded.get("kernel") or "not known") for one in (self, other)]
        return None if kernels[0] == kernels[1] != "not known" else f"kernel {kernels[0]}, then {kernels[1]}"


@dataclass
class Build:
    """The compiler, the flags and the profile by which the binaries were compiled."""

    rustc: str
    flags: str
    profile: str


@dataclass
class Binary:
    """A binary; `loaded` is a hash of the bytes that are loaded of it, which a comment in its sources does not change."""

    sha256: str
    bytes: int
    loaded: str | None = None


@dataclass
class Cell:
    """One thing that was promised before the run: the time of a row, its ratio to its floor, a family (by its base), or
    a sentinel."""

    kind: Literal["time", "ratio", "family", "sentinel"]
    layer: str
    id: str


@dataclass
class Job:
    """A process that was run: its name in the plan, how long it took, and by row what went wrong."""

    name: str
    seconds: float
    failures: dict[str, str]


@dataclass
class Design:
    """The method by which the figures were made. `tuples` and `processes` are what was aimed at; each figure carries
    what it got. `order` is what ran; after `budget_s` no more tuples are begun than an interval needs, and families
    with a wide interval go on up to `wide_tuples`. In a tuple each lane is timed for about `lane_s`. `processes` are
    those of a row that has no partner; workloads, which take seconds each, run in `workload_processes`, sentinels in
    `sentinel_processes`. Only where the binaries of each round were `linked_anew` do the intervals contain what the
    placement of code does."""

    seed: int
    processes: int
    sample_size: int
    warm_up_s: float
    measurement_s: float
    tuples: int
    lane_s: float
    budget_s: float | None
    plan: list[Cell]
    order: list[Job] = field(default_factory=list)
    workload_processes: int = 0
    sentinel_processes: int = 0
    wide_tuples: int = 0
    linked_anew: bool | None = None


@dataclass
class Latency:
    """The times that operations of one kind took in one process: service times of a closed loop, in nanoseconds. A
    quantile is null where fewer than ten operations lie beyond it."""

    count: int
    mean_ns: float
    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    p999_ns: float | None
    max_ns: float


@dataclass
class Turns:
    """The counts of a workload's lane in its turns: other operations than those of its own processes, whose times and
    measures the row has."""

    timed_operations: int | None
    counters: dict[str, Any] | None


@dataclass
class Measure:
    """A figure beside the time (size on disk, write amplification): its unit, and one point a process."""

    unit: str
    points: list[float]


@dataclass
class Bench:
    """A row: its facts and, for each process that measured it, the time of one operation in nanoseconds; for workloads
    also latencies by the kind of operation, and measures by name. The processes are the tuples of its home family, or
    ran the row alone."""

    state: State
    reasons: list[str]
    facts: Facts
    points_ns: list[float] = field(default_factory=list)
    allocations_per_operation: float | None = None
    counters: dict[str, Any] | None = None
    latencies: dict[str, list[Latency]] = field(default_factory=dict)
    measures: dict[str, Measure] = field(default_factory=dict)
    family: str | None = None
    turns: Turns | None = None
    refusals: list[str] = field(default_factory=list)


@dataclass
class Family:
    """Rows that take turns, in the order of the source, and the base, which has a second lane; `contrasts` says which
    row is held against which. `tuples` counts those that ran. Where the engine stalled in the first of them, stalls are
    part of the cost in all (`by_total`): all time counts, not the median over palindromes. `guests_ns` has the times of
    the rows whose home is another family, one a tuple: it ran them under other conditions, so a time of there is no
    time of here."""

    state: State
    reasons: list[str]
    rows: list[str]
    base: str
    contrasts: list[list[str]]
    tuples: int = 0
    by_total: bool | None = None
    guests_ns: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Ratio:
    """Floor's time / row's time, one for each tuple, with the estimate and its 95 % interval (null below 6 tuples)."""

    state: State
    reasons: list[str]
    floor: str
    at_least: float | None = None
    aim: float | None = None
    pairs: list[float] = field(default_factory=list)
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass
class Run:
    """One run, as it stands on disk."""

    schema: int
    name: str | None
    tool: Tool
    command: list[str]
    started: str
    seconds: float
    scale: Scale
    complete: bool
    partial: list[str] | None
    machine: Machine
    build: Build
    binaries: dict[str, Binary]
    engine: dict[str, dict[str, Any]]
    design: Design
    benches: dict[str, Bench]
    ratios: dict[str, Ratio]
    families: dict[str, Family] = field(default_factory=dict)
    """By their base, and a number where a base has several."""
    contrasts: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By row and by the row it is held against: the natural logarithms of its time over the other's, one a tuple. Of a
    row and itself: of its second lane over its first."""
    sentinels: dict[str, Bench] = field(default_factory=dict)
    """Rows of the harness that use no code of the project, whatever was chosen: what they take is the doing of the
    machine."""
    sources: dict[str, Parts] = field(default_factory=dict)
    """By layer, what its figures depend on."""
    headers: dict[str, str] = field(default_factory=dict)
    """By layer, what the bench said about itself when it was measured, as Markdown."""

    @property
    def layers(self) -> list[str]:
        """Those that it has rows of, in its order."""
        return list(dict.fromkeys(map(layer_of, self.benches)))


def layer_of(id: str) -> str:
    """The layer of a row or of a family."""
    return id.partition("/")[0]


def load(path: Path) -> Run:
    """Reads a run, or a set as one; a damaged or newer file is a complaint of one line."""
    return together(load_set(path)) if path.is_dir() else _load(path)


def load_set(path: Path) -> dict[str, Run]:
    """The runs of a set by their layer, as the files are ordered; a single run is taken apart."""
    if not path.is_dir():
        return apart(load(path))
    found = {file.stem: _load(file) for file in sorted(path.glob("*.json"))}
    for layer, run in found.items():
        if run.layers != [layer]:
            raise UserError(
                f"{shown(path / layer)}.json has rows of {', '.join(run.layers) or 'no layer'}, where it should have those of {layer} alone"
            )
    return found


def apart(run: Run) -> dict[str, Run]:
    """A run as the set of its layers. Each keeps the sentinels, which belong to all of them."""
    return {layer: _part(run, layer) for layer in run.layers} if len(run.layers) > 1 else dict.fromkeys(run.layers, run)


def _part(run: Run, layer: str) -> Run:
    def own(found: Mapping[str, T]) -> dict[str, T]:
        return {id: value for id, value in found.items() if layer_of(id) == layer}

    order = [job for job in run.design.order if layer_of(job.name.split(":")[-1]) == layer]
    plan = [cell for cell in run.design.plan if cell.layer == layer or cell.kind == "sentinel"]
    return dataclasses.replace(
        run,
        seconds=round(sum(job.seconds for job in order), 1),
        partial=[layer],
        binaries=own(run.binaries),
        engine=own(run.engine),
        design=dataclasses.replace(run.design, plan=plan, order=order),
        benches=own(run.benches),
        ratios=own(run.ratios),
        families=own(run.families),
        contrasts=own(run.contrasts),
        sources=own(run.sources),
        headers=own(run.headers),
    )


def together(parts: Mapping[str, Run]) -> Run:
    """The runs of a set as one: their figures, and what the newest of them says of revision, machine and build."""
    if not parts:
        raise UserError("the set has no run")
    found = list(parts.values())
    if len(found) == 1:
        return found[0]
    newest = max(found, key=lambda run: run.started)
    apart_by_start = {run.started: run for run in found}  # what was one run has one set of sentinels
    sentinels: dict[str, Bench] = {}
    for run in apart_by_start.values():
        for id, bench in run.sentinels.items():
            sentinels[id] = (
                dataclasses.replace(bench, points_ns=[*sentinels[id].points_ns, *bench.points_ns])
                if id in sentinels
                else bench
            )
    cells = {
        (cell.kind, cell.id): cell
        for run in found
        for cell in run.design.plan
        if cell.kind != "sentinel" or cell.id in sentinels
    }
    return dataclasses.replace(
        newest,
        name=None,
        seconds=round(sum(run.seconds for run in found), 1),
        complete=all(run.complete for run in found),
        partial=None,
        binaries=_joined(run.binaries for run in found),
        engine=_joined(run.engine for run in found),
        design=dataclasses.replace(
            newest.design, plan=list(cells.values()), order=[job for run in found for job in run.design.order]
        ),
        benches=_joined(run.benches for run in found),
        ratios=_joined(run.ratios for run in found),
        families=_joined(run.families for run in found),
        contrasts=_joined(run.contrasts for run in found),
        sentinels=sentinels,
        sources=_joined(run.sources for run in found),
        headers=_joined(run.headers for run in found),
    )


def _joined(found: Iterable[Mapping[str, T]]) -> dict[str, T]:
    return {key: value for one in found for key, value in one.items()}


def _load(path: Path) -> Run:
    with stored_file.reading(path):
        run = serialization.parse(Run, _as_of_today(stored_file.content(path, SCHEMA)))
        states: dict[str, Collection[str]] = {
            "time": run.benches,
            "ratio": run.ratios,
            "family": run.families,
            "sentinel": run.sentinels,
        }
        for cell in run.design.plan:
            if cell.id not in states[cell.kind]:
                raise serialization.Malformed(f"planned but without a state: {cell.kind} of {cell.id}")
        return run


def _as_of_today(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a run of any schema, as this one has it."""
    design = content.get("design")
    if isinstance(design, dict) and "pairs" in design:
        content = content | {"design": {"tuples": design["pairs"], "lane_s": 0.0} | design}
    benches = content.get("benches")
    if content["schema"] < 4 and isinstance(benches, dict):
        content = content | {"benches": {id: _with_turns_apart(bench) for id, bench in benches.items()}}
    return content | {"schema": SCHEMA}


WORKLOAD_PARTS = 10
"""Of a workload so many times `turn_operations` are timed (WORKLOAD_SAMPLES in benches/harness/src/facts.rs)."""


def _with_turns_apart(bench: Any) -> Any:
    """A row of schema 3 or older: what a workload counted is that of its turns where it is not as much as a workload
    does."""
    facts = bench.get("facts") if isinstance(bench, dict) else None
    if (
        not isinstance(facts, dict)
        or not facts.get("workload")
        or not facts.get("turn_operations")
        or not facts.get("timed_operations")
    ):
        return bench
    whole = WORKLOAD_PARTS * facts["turn_operations"]
    if facts["timed_operations"] == whole:
        return bench
    turns = {"timed_operations": facts["timed_operations"], "counters": facts.get("counters")}
    return bench | {"turns": turns, "counters": None, "facts": facts | {"timed_operations": whole, "counters": None}}


def write(run: Run, path: Path) -> None:
    """Writes a run that is being measured, replacing what was there of it."""
    serialization.store(path, run)


def save(run: Run, name: str) -> Path:
    """Stores `run` as the baseline `name`."""
    run.name = name
    return stored_file.keep(baseline_path(name), run)


def baseline_path(name: str) -> Path:
    """The file of a baseline."""
    return stored_file.named(BASELINES, name, "baseline")


def stored_runs() -> list[Path]:
    """Every run of this checkout, oldest first."""
    return stored_file.past(RUNS, "")


def stored_baselines() -> list[Path]:
    """Every baseline, by name; the reference, which is a set, among them."""
    return stored_file.kept(BASELINES)


def find(name: str) -> Path:
    """The run or baseline that a person means."""
    return stored_file.find(name, stored_runs(), stored_baselines(), "run", "run-benches.py")
