"""The use of time in a load test: shares of CPU, and the way from the ladder's highest rung to an answer under load.

Why no differences: one is told only between what took turns, and scenarios of a run follow one another. So each figure
here is of one window: shares of what was used in it, and means over the very same requests, whose differences are sums
and no comparisons. The ladder's rung stands beside them as it was measured, of another run, and no ratio is formed with
it.
"""

from dataclasses import dataclass

from run_benches.analysis import figures, load_figures
from run_benches.analysis.findings import Findings
from run_benches.store.loads import Declared, LoadResult, LoadRun

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


def believed(run: LoadRun) -> list[tuple[str, LoadResult]]:
    """The results that no rule forbids to speak of."""
    return [
        (one.name, one.first) for one in load_figures.measured(run) if one.first.validity in ("valid", "client_bound")
    ]


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


def limits(run: LoadRun) -> list[Limit]:
    """Of every scenario that may be believed."""
    found = []
    for name, result in believed(run):
        client, server = result.processes.client, result.processes.server
        demand = max(result.processes.client_thread_demand, result.processes.busiest_client_thread)
        if server is None or not server.seconds:
            found.append(Limit(name, _words(result, None), None, None, None, demand))
            continue
        used = server.seconds / result.window.seconds
        share = server.seconds / (server.seconds + client.seconds)
        found.append(Limit(name, _words(result, used), share, server.system_seconds / server.seconds, used, demand))
    return found


def _words(result: LoadResult, used: float | None) -> str:
    if load_figures.client_limited(result):
        return f"the client: the server can do at least {figures.amount(result.throughput)}/s"
    if result.scenario.load.server_cpus is not None:
        return f"the quota of {result.scenario.load.server_cpus:g} processors"
    if result.loop == "open":
        return "the rate that was offered"
    processors = len(result.pinned.server) if result.pinned else result.processors
    return "the server's processors" if used is not None and used >= BUSY * processors else "not known"


def steps(load: LoadRun, found: Findings) -> list[RequestStep]:
    """Every operation that was measured, beside the ladder's highest rung where that has such a request and is of a
    like machine."""
    like = load.machine.likeness(found.machine).alike
    told = []
    for name, result in believed(load):
        alone = load_figures.server_cpu_ns(result) if len(result.cells) == 1 else None
        declared = {operation.name: operation for operation in result.scenario.operations}
        for cell in result.cells:
            if cell.service:
                request = _request(declared[cell.operation], result.scenario.data.name)
                rungs = found.ladders[request] if like and request else []
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
