"""Load tests on disk: what was planned and what came of it, around the results that the load tool itself stored.

Why the results stand in it as they are: the load tool judges them by its own rules and can judge them again (`load
check`), so nothing of them is left out or computed anew here. What the runner adds is what it adds to a run of benches:
the revision, the machine, the build, and one state for every scenario that was planned. Histograms stay beside it, in
the folder of the run.

History of the format:
  schema 1: the first; results are of formats 1 and 2 of the load tool. In format 1 the window of an open loop ended with the last
    response, in format 2 not before its schedule (load/src/result.rs has the history).
  schema 2: by scenario a run has the hashes of what its figures depend on (`sources`). Before there was one `fingerprint` over the files of
    everything, which is read no more: whether the code has changed since is not known.

A set is a folder of runs of one scenario each (`baselines/load/reference`), as with runs of benches.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from run_benches import serialization
from run_benches.errors import UserError
from run_benches.places import LOAD_BASELINES, RUNS, SCENARIOS, shown
from run_benches.store import stored_file
from run_benches.store.fingerprint import Parts
from run_benches.store.runs import Binary, Build, Machine, State, Tool

SCHEMA = 2

FORMATS = (1, 2)
"""Of the load tool's results, as far as they are read here; the last is written."""


@dataclass
class Quantile:
    """Nanoseconds; no value where it is beyond the largest that was measured."""

    quantile: float
    value: float | None


@dataclass
class Statistics:
    """Of times, in nanoseconds; `beyond` are later than any that was measured."""

    count: int
    beyond: int
    min: float
    mean: float
    standard_deviation: float
    max: float
    quantiles: list[Quantile]


@dataclass
class Counts:
    """The numbers of requests, by what became of them; `failed` by class, `refused` as the scenario says."""

    scheduled: int
    dropped: int
    sent: int
    ok: int
    censored: int
    failed: dict[str, int]
    refused: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Of both."""
        failed = {
            name: self.failed.get(name, 0) + other.failed.get(name, 0) for name in sorted(self.failed | other.failed)
        }
        return Counts(
            self.scheduled + other.scheduled,
            self.dropped + other.dropped,
            self.sent + other.sent,
            self.ok + other.ok,
            self.censored + other.censored,
            failed,
            self.refused + other.refused,
        )


NONE = Counts(0, 0, 0, 0, 0, {})
"""No request."""


@dataclass
class Operation:
    """The measurements of one operation; `response` runs from the intended start, and is there in an open loop only."""

    operation: str
    state: State
    counts: Counts
    body_bytes_received: int
    response: Statistics | None
    service: Statistics | None
    send_lag: Statistics | None
    failed_service: dict[str, Statistics]
    ok_by_second: list[int]
    failed_by_second: list[int] = field(default_factory=list)
    dropped_by_second: list[int] = field(default_factory=list)
    reason: str | None = None


@dataclass
class Cpu:
    """Seconds of a process over the window."""

    user_seconds: float
    system_seconds: float

    @property
    def seconds(self) -> float:
        """Of both kinds."""
        return self.user_seconds + self.system_seconds


@dataclass
class Processes:
    """Both sides; the server's is there where the load tool started it."""

    client: Cpu
    server: Cpu | None
    busiest_client_thread: float
    client_thread_demand: float = 0.0
    """CPU that a thread used or was ready for, of one processor: the most of any."""
    server_throughout: Cpu | None = None
    """From the first of several windows to the last, with what it did between them."""


@dataclass
class Window:
    """From the first intended start to the end of the last request, and not before requests were to start no more."""

    seconds: float
    arrivals_seconds: float | None


@dataclass
class Judged:
    """An objective as declared, what was measured of it, and what came of it."""

    objective: dict[str, Any]
    measured: float | None
    outcome: Literal["pass", "fail", "no_data", "blocked"]


@dataclass
class Declared:
    """An operation as its scenario declares it; of a list, `expect` has the number of its rows."""

    name: str
    method: str
    path: str
    weight: float
    expect: dict[str, Any]
    follow: list[Any] = field(default_factory=list)
    items: dict[str, Any] | None = None
    acknowledges: dict[str, Any] | None = None

    @property
    def events(self) -> int | None:
        """The events of a stream that a right answer is about; `None` if it is about none, or if that is not said."""
        listed = self.items["count"] if self.items else 1
        return int(listed) if self.acknowledges else None


@dataclass
class Load:
    """When requests start; without a schedule it is a closed loop."""

    connections: int
    schedule: dict[str, Any] | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    server_cpus: float | None = None
    servers: int = 1


@dataclass
class Data:
    """The table that requests are about, or the stream; the database that has them, where it is not a directory of the
    server."""

    table: str | None = None
    stream: str | None = None
    storage: str | None = None

    @property
    def name(self) -> str:
        """The name of either."""
        return self.table or self.stream or ""


@dataclass
class LoadScenario:
    """The part of a scenario, as it was run, that is read here."""

    name: str
    load: Load
    data: Data
    operations: list[Declared]
    about: str = ""
    repeat: int | None = None
    subscribers: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class LoadStage:
    """A stage of a closed loop, measured by itself."""

    window: Window
    cells: list[Operation]
    total: Counts
    throughput: float


@dataclass
class Kept:
    """The numbers of times that a promise was looked at, and that it was broken."""

    checked: int
    wrong: int


@dataclass
class Deliveries:
    """The deliveries to the subscribers of one kind; `lag` runs from the intended start of an append, `lag_from_start`
    from its start, to each arrival."""

    due: int
    missing: int
    repeated: int
    unanswered: int
    ended: int
    lag: Statistics | None
    lag_from_start: Statistics | None


@dataclass
class Subscribed:
    """The deliveries to the subscribers of a stream, by their kinds in the order of the scenario."""

    kinds: list[Deliveries]


@dataclass
class FanOut:
    """The results of messages to at most `up_to` targets, and to more than those of the one before; of the last without
    a bound."""

    up_to: int | None
    answered: int
    received: int
    last_lag: Statistics | None


@dataclass
class Multicasts:
    """The results of messages: targets and their states as answers say, and what subscribers received. `lag` runs from
    the intended start of a request to each arrival, `last_lag` to the last of each message."""

    answered: int
    unanswered: int
    targets: int
    delivered: int
    absent: int
    pending: int
    failed: int
    received: int
    lost: int
    doubled: int
    stray: int
    lagged: int
    ended: int
    lag: Statistics | None
    last_lag: Statistics | None
    by_fan_out: list[FanOut]


@dataclass
class Checked:
    """A check of what came of a run: why it says no, and what it printed."""

    name: str
    failure: str | None
    told: Any
    seconds: float


@dataclass
class Counters:
    """The server's counters before and after the windows, where it has any."""

    before: dict[str, int] | None
    after: dict[str, int] | None


@dataclass
class Pinned:
    """The processors of both sides, by their numbers."""

    client: list[int]
    server: list[int]


@dataclass
class Limited:
    """The quota of a server: what set it, and in how many periods the server had used it up, where the kernel counts
    them."""

    mechanism: str
    throttled_periods: int | None


@dataclass
class Beside:
    """A broker or a database beside the servers, and the CPU that it used over the windows, where it was started for
    them."""

    program: str
    version: str
    cpu: Cpu | None


@dataclass
class LoadResult:
    """The part of a result of the load tool that is read here."""

    format: int
    id: str
    began_unix_seconds: int
    scenario: LoadScenario
    loop: Literal["open", "closed"]
    processors: int
    window: Window
    cells: list[Operation]
    total: Counts
    throughput: float
    processes: Processes
    objectives: list[Judged]
    validity: Literal["invalid", "client_bound", "quota_not_binding", "inconclusive", "valid"]
    broken: list[str]
    aborted: bool
    counters: Counters
    pinned: Pinned | None = None
    quota: Limited | None = None
    stages: list[LoadStage] = field(default_factory=list)
    promises: dict[str, Kept] | None = None
    kills: list[int] | None = None
    subscribers: Subscribed | None = None
    multicasts: Multicasts | None = None
    brokers: list[Beside] = field(default_factory=list)
    checks: list[Checked] = field(default_factory=list)


Curves = dict[str, dict[str, list[Quantile]]]
"""Points of percentile curves, by operation and by kind of time (`response`, `service`, `send_lag`)."""


@dataclass
class LoadCell:
    """A planned scenario: how it ended, why if it did not run, the load tool's result as it was stored, and its
    percentile curves."""

    state: State
    reasons: list[str]
    result: dict[str, Any] | None = None
    curves: Curves = field(default_factory=dict)

    def read(self) -> LoadResult | None:
        """The result, if there is one."""
        return serialization.parse(LoadResult, self.result) if self.result else None


@dataclass
class LoadRun:
    """One run of scenarios. `flags` went to the load tool as they are; `code` is the worst of its exit codes."""

    schema: int
    name: str | None
    tool: Tool
    command: list[str]
    started: str
    seconds: float
    complete: bool
    machine: Machine
    build: Build
    binaries: dict[str, Binary]
    flags: list[str]
    scenarios: dict[str, LoadCell] = field(default_factory=dict)
    code: int = 0
    sources: dict[str, Parts] = field(default_factory=dict)
    """By scenario, what its figures depend on."""


def load(path: Path) -> LoadRun:
    """Reads a load test, or a set as one; a damaged or newer file is a complaint of one line."""
    return together(load_set(path)) if path.is_dir() else _load(path)


def load_set(path: Path) -> dict[str, LoadRun]:
    """The runs of a set by their scenario; a single run is taken apart."""
    if not path.is_dir():
        return apart(load(path))
    found = {file.stem: _load(file) for file in sorted(path.glob("*.json"))}
    for scenario, run in found.items():
        others = {_scenario_of(name, found) for name in run.scenarios} - {scenario}
        if others:
            raise UserError(
                f"{shown(path / scenario)}.json has load tests of {', '.join(sorted(others))}, where it should have those of {scenario} alone"
            )
    return found


def _scenario_of(cell: str, more: Iterable[str] = ()) -> str:
    """The scenario that a cell is of: the longest name that it begins with, of those in this checkout and of `more`."""
    known = sorted({*(path.stem for path in SCENARIOS.glob("*.toml")), *more}, key=len, reverse=True)
    return next((one for one in known if re.match(rf"{re.escape(one)}(-|:|$)", cell)), cell)


def apart(run: LoadRun) -> dict[str, LoadRun]:
    """A run as the set of its scenarios."""
    cells: dict[str, dict[str, LoadCell]] = {}
    for name, cell in run.scenarios.items():
        cells.setdefault(_scenario_of(name), {})[name] = cell
    if len(cells) < 2:
        return dict.fromkeys(cells, run)
    parts = {}
    for scenario, own in cells.items():
        windows = [result.window.seconds for cell in own.values() if (result := cell.read())]
        sources = {scenario: run.sources[scenario]} if scenario in run.sources else {}
        parts[scenario] = dataclasses.replace(run, seconds=round(sum(windows), 1), scenarios=own, sources=sources)
    return parts


def together(parts: Mapping[str, LoadRun]) -> LoadRun:
    """The runs of a set as one: what they measured, and what the newest of them says of revision, machine and build."""
    if not parts:
        raise UserError("the set has no load test")
    found = list(parts.values())
    if len(found) == 1:
        return found[0]
    return dataclasses.replace(
        max(found, key=lambda run: run.started),
        name=None,
        seconds=round(sum(run.seconds for run in found), 1),
        complete=all(run.complete for run in found),
        scenarios={name: cell for run in found for name, cell in run.scenarios.items()},
        code=max(run.code for run in found),
        sources={name: sources for run in found for name, sources in run.sources.items()},
    )


def _load(path: Path) -> LoadRun:
    with stored_file.reading(path):
        run = serialization.parse(LoadRun, stored_file.content(path, SCHEMA) | {"schema": SCHEMA})
        for cell in run.scenarios.values():
            if cell.result:
                check_format(cell.result, path)
            cell.read()
        return run


def check_format(result: dict[str, Any], path: Path) -> None:
    """Complains about a result of a format that is not read here."""
    if result.get("format") not in FORMATS:
        raise UserError(
            f"{shown(path)} has a result of format {result.get('format')}, and this version reads {FORMATS[0]} to {FORMATS[-1]}: use the run-benches.py of its revision"
        )


def write(run: LoadRun, path: Path) -> None:
    """Writes a load test that is under way, replacing what was there of it."""
    serialization.store(path, run)


def save(run: LoadRun, name: str) -> Path:
    """Stores it as the baseline `name`."""
    run.name = name
    return stored_file.keep(baseline_path(name), run)


def baseline_path(name: str) -> Path:
    """The file of a baseline."""
    return stored_file.named(LOAD_BASELINES, name, "baseline")


def stored() -> list[Path]:
    """Every load test of this checkout, oldest first."""
    return stored_file.past(RUNS, "load-")


def stored_baselines() -> list[Path]:
    """Every one that was given a name; the reference, which is a set, among them."""
    return stored_file.kept(LOAD_BASELINES)


def find(name: str | None) -> Path:
    """The load test that a person means."""
    return stored_file.find(name, stored(), stored_baselines(), "load test", "run-benches.py load")
