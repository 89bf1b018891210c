"""The findings in stored load tests, read once: what ran, its figures, what limits it, and the way from the ladder's
highest rung to an answer under load. Pages, their pictures and the terminal are made of them.

Why no differences: one is told only between what took turns, and scenarios of a run follow one another. So each figure
here is of one window: shares of what was used in it, and means over the very same requests, whose differences are sums
and no comparisons. The ladder's rung stands beside them as it was measured, of another run, and no ratio is formed with
it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from run_benches.analysis import figures, load_figures
from run_benches.analysis.findings import Findings
from run_benches.store.fingerprint import Parts
from run_benches.store.loads import Curves, Declared, LoadResult, LoadRun
from run_benches.store.runs import Machine, State, Tool

TOP_RUNG = "tcp"

ROWS_OF_A_LIST = 20
"""The number of rows in the ladder's list."""


@dataclass(frozen=True)
class RequestStep:
    """An operation under load, in nanoseconds: the mean time from its start to its end, and how much of it is the
    server's own, by its metrics; in an open loop also the mean time before that, and which part of it the client itself
    was late; the server's CPU where the scenario has no other operation."""

    scenario: str
    operation: str
    request: str | None
    rung_ns: float | None
    server_cpu_ns: float | None
    service_ns: float
    own_ns: float | None
    waited_ns: float | None
    send_lag_ns: float | None


@dataclass(frozen=True)
class Limit:
    """The limit of a scenario, in words, as far as it is known, and the CPU over its window: the server's share of what
    both sides used, the kernel's share of the server's, the server's as a part of one processor, and what a thread of
    the client used or was ready for."""

    scenario: str
    words: str
    server_share: float | None
    kernel_share: float | None
    server_processors: float | None
    client_thread_demand: float


BUSY = 0.9
"""The part of its processors from which on a server under a closed loop is limited by them."""


@dataclass(frozen=True)
class LoadOutcome:
    """The state in which a planned scenario, or one of its repeats, ended, why, and its result if it has one."""

    name: str
    state: State
    reasons: list[str]
    result: LoadResult | None
    curves: Curves

    @property
    def shared_name(self) -> str:
        """The name that all repeats of the scenario share."""
        return self.name.removesuffix(f"-repeat-{self.result.scenario.repeat}") if self.result else self.name


@dataclass(frozen=True)
class Measured:
    """A scenario that has figures: its results, of which each repeat is of processes of its own. Where one window is
    described, in curves and tables, it is the first's."""

    name: str
    curves: Curves
    results: list[LoadResult]

    @property
    def first(self) -> LoadResult:
        """The first repeat, or the only run."""
        return self.results[0]


@dataclass(frozen=True)
class LoadFindings:
    """The findings in one load test: how, when, where and of which code its figures were made, and every scenario."""

    command: list[str]
    started: str
    seconds: float
    complete: bool
    tool: Tool
    machine: Machine
    sources: Mapping[str, Parts]
    outcomes: list[LoadOutcome]

    @classmethod
    def of(cls, run: LoadRun) -> "LoadFindings":
        """Reads a load test."""
        outcomes = [
            LoadOutcome(name, cell.state, cell.reasons, cell.read(), cell.curves)
            for name, cell in run.scenarios.items()
        ]
        return cls(run.command, run.started, run.seconds, run.complete, run.tool, run.machine, run.sources, outcomes)

    @cached_property
    def measured(self) -> list[Measured]:
        """Every scenario that has figures, in the order of the run."""
        found: dict[str, Measured] = {}
        for one in self.outcomes:
            if one.result:
                name = one.shared_name
                found.setdefault(name, Measured(name, one.curves, [])).results.append(one.result)
        return list(found.values())

    @property
    def not_run(self) -> list[tuple[str, str]]:
        """Every planned scenario and operation without figures, and why."""
        found: list[tuple[str, str]] = []
        for one in self.outcomes:
            if one.result is None:
                found.append((one.name, "; ".join(one.reasons) or "no reason was stored"))
                continue
            found += [
                (f"{one.name}: {operation.operation}", operation.reason or "no reason was stored")
                for operation in one.result.cells
                if operation.state != "ran"
            ]
        return found

    @property
    def _believed(self) -> list[tuple[str, LoadResult]]:
        """The results that no rule forbids to speak of."""
        return [(one.name, one.first) for one in self.measured if one.first.validity in ("valid", "client_bound")]

    @property
    def limits(self) -> list[Limit]:
        """The limit of every scenario that may be believed."""
        found = []
        for name, result in self._believed:
            client, server = result.processes.client, result.processes.server
            demand = max(result.processes.client_thread_demand, result.processes.busiest_client_thread)
            if server is None or not server.seconds:
                found.append(Limit(name, _words(result, None), None, None, None, demand))
                continue
            used = server.seconds / result.window.seconds
            share = server.seconds / (server.seconds + client.seconds)
            found.append(Limit(name, _words(result, used), share, server.system_seconds / server.seconds, used, demand))
        return found

    def steps(self, ladder: Findings) -> list[RequestStep]:
        """Every operation that was measured, beside the ladder's highest rung where that has such a request and is of a
        like machine."""
        like = self.machine.likeness(ladder.machine).alike
        told = []
        for name, result in self._believed:
            alone = load_figures.server_cpu_ns(result) if len(result.cells) == 1 else None
            declared = {operation.name: operation for operation in result.scenario.operations}
            for cell in result.cells:
                if cell.service:
                    request = _request(declared[cell.operation], result.scenario.data.name)
                    rungs = ladder.ladders[request] if like and request else []
                    rung = next((rung.row.measured for rung in rungs if rung.name == TOP_RUNG), None)
                    told.append(
                        RequestStep(
                            name,
                            cell.operation,
                            request,
                            rung.middle if rung else None,
                            alone,
                            cell.service.mean,
                            load_figures.server_own_ns(result, declared[cell.operation]),
                            cell.response.mean - cell.service.mean if cell.response else None,
                            cell.send_lag.mean if cell.response and cell.send_lag else None,
                        )
                    )
        return told


def together(parts: Mapping[str, LoadFindings]) -> LoadFindings:
    """The findings in several load tests as one: what they measured, and what the newest of them says of itself."""
    return dataclasses.replace(
        max(parts.values(), key=lambda one: one.started),
        seconds=sum(one.seconds for one in parts.values()),
        complete=all(one.complete for one in parts.values()),
        sources={scenario: sources for one in parts.values() for scenario, sources in one.sources.items()},
        outcomes=[outcome for one in parts.values() for outcome in one.outcomes],
    )


def _words(result: LoadResult, used: float | None) -> str:
    if load_figures.client_limited(result):
        return f"the client: the server can do at least {figures.amount(result.throughput)}/s"
    if result.scenario.load.server_cpus is not None:
        return f"the quota of {result.scenario.load.server_cpus:g} processors"
    if result.loop == "open":
        return "the rate that was offered"
    processors = len(result.pinned.server) if result.pinned else result.processors
    return "the server's processors" if used is not None and used >= BUSY * processors else "not known"


def _request(operation: Declared, table: str) -> str | None:
    """Which of the ladder's requests it is one of, if any: the same verb on a table like that, not the same bytes."""
    path, _, query = operation.path.partition("?")
    if operation.follow or "select=" in query:
        return None
    match operation.method:
        case "GET" if not query and path.startswith(f"/{table}/") and path.count("/") == 2:
            return "get"
        case "GET" if path == f"/{table}" and operation.expect.get("rows") == ROWS_OF_A_LIST:
            return "list"
        case "POST" if path == f"/{table}":
            return "create"
        case _:
            return None
