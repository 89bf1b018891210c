"""What a load test says of where time goes: shares of CPU, and the way from the ladder's highest rung to an answer under load.

Why so few sentences: a difference is told only between what took turns, and scenarios of a run follow one another. So each sentence here is of
one window: shares of what was used in it, and means over the very same requests, whose differences are sums and no comparisons. The
ladder's rung stands beside them as it was measured, of another run, and no ratio is formed with it. No figure, no sentence.
"""

from dataclasses import dataclass
from typing import Any

from run_benches.analysis import figures, findings, load_figures
from run_benches.store.loads import LoadRun, Operation, Result
from run_benches.store.runs import Run

TOP_RUNG = "tcp"

ROWS_OF_A_LIST = 20
"""What the ladder's list has."""


@dataclass(frozen=True)
class Step:
    """An operation under load, in nanoseconds: the mean time from its start to its end; in an open loop also the mean time before that, and
    which part of it the client itself was late; the server's CPU where the scenario has no other operation."""

    scenario: str
    operation: str
    request: str | None
    rung_ns: float | None
    server_cpu_ns: float | None
    service_ns: float
    waited_ns: float | None
    send_lag_ns: float | None


def believed(run: LoadRun) -> list[tuple[str, Result]]:
    """The results that no rule forbids to speak of."""
    found = [(name, result) for name, cell in run.scenarios.items() if (result := cell.read())]
    return [(name, result) for name, result in found if result.validity in ("valid", "client_bound")]


def sentences(run: LoadRun) -> list[str]:
    """What limits each scenario, as far as there are figures."""
    said: list[str] = []
    for name, result in believed(run):
        client, server = result.processes.client, result.processes.server
        if server and client.seconds + server.seconds > 0:
            share = server.seconds / (server.seconds + client.seconds)
            said.append(f"`{name}`: the server used {figures.percent(share)} of the CPU of both sides, the client the rest.")
        if server and server.seconds > 0:
            said.append(f"`{name}`: {figures.percent(server.system_seconds / server.seconds)} of the server's CPU was spent in the kernel.")
        if result.validity == "client_bound":
            said.append(f"`{name}`: the client was the bottleneck; the server can do more than {figures.amount(result.throughput)} requests a second.")
    return said


def steps(load: LoadRun, run: Run) -> list[Step]:
    """Every operation that was measured, beside the ladder's highest rung where that has such a request and is of a like machine."""
    like = load.machine.identity == run.machine.identity
    found = []
    for name, result in believed(load):
        alone = load_figures.server_cpu_ns(result) if len(result.cells) == 1 else None
        declared = {operation["name"]: operation for operation in result.scenario["operations"]}
        for cell in result.cells:
            if cell.service:
                request = _request(declared[cell.operation])
                found.append(_step(name, cell, request, _rung_ns(run, request) if like and request else None, alone))
    return found


def _step(name: str, cell: Operation, request: str | None, rung_ns: float | None, server_cpu_ns: float | None) -> Step:
    assert cell.service
    waited = cell.response.mean - cell.service.mean if cell.response else None
    lag = cell.send_lag.mean if cell.response and cell.send_lag else None
    return Step(name, cell.operation, request, rung_ns, server_cpu_ns, cell.service.mean, waited, lag)


def _request(operation: dict[str, Any]) -> str | None:
    """Which of the ladder's requests it is one of, if any: the same verb on a table like that, not the same bytes."""
    rows = operation["expect"].get("rows")
    match operation["method"], rows:
        case "GET", None:
            return "get"
        case "GET", int(number) if number == ROWS_OF_A_LIST:
            return "list"
        case "POST", None:
            return "create"
        case _:
            return None


def _rung_ns(run: Run, request: str) -> float | None:
    rung = next((rung for rung in findings.ladder(run, request) if rung.name == TOP_RUNG), None)
    return rung.row.measured.middle if rung and rung.row.measured else None
