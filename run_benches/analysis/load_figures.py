"""The figures of one result of a load test, as values: CPU a request, quantiles, the load that was offered over time.

Why apart from the findings: what compares two servers under load forms the same figures of each of its windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from run_benches.analysis import figures
from run_benches.store.loads import Declared, LoadResult, LoadStage, Statistics, Window


@dataclass(frozen=True)
class RatePoint:
    """An arrival rate at a time of the window."""

    second: float
    rate: float


def server_cpu_ns(result: LoadResult) -> float | None:
    """CPU of the server for each right answer, failed requests and what it does between several windows included: of a
    server that the load tool did not start, nothing is known, and of no answer nothing."""
    server = result.processes.server_throughout or result.processes.server
    return server.seconds / result.total.ok * 1e9 if server and result.total.ok else None


def database_cpu_ns(result: LoadResult) -> float | None:
    """CPU of the database beside the servers for each right answer, where it was started for them."""
    used = [beside.cpu.seconds for beside in result.brokers if beside.cpu]
    return sum(used) / result.total.ok * 1e9 if used and result.total.ok else None


def throughput(result: LoadResult) -> str:
    """Right answers a second; at least so many where the client limited them."""
    return f"{'>= ' if client_limited(result) else ''}{figures.amount(result.throughput)}"


def client_limited(result: LoadResult) -> bool:
    """Returns whether the client was the bottleneck of the throughput. Where all that was offered was answered, it was
    late in the tail alone."""
    everything = result.loop == "open" and result.total.ok == result.total.scheduled
    return result.validity == "client_bound" and not everything


def server_own_ns(result: LoadResult, operation: Declared) -> float | None:
    """The mean of what the server itself measured from the head of a request to its answer, where all answers on the
    route are of this operation: their number says so."""
    # The name of its route in the server's metrics, of those whose name can be told from a path.
    path, table = operation.path.partition("?")[0], f"/{result.scenario.data.name}"
    is_record = path.startswith(f"{table}/") and path.count("/") == 2
    route = path if path in (table, "/graphql") else f"{table}/{{id}}" if is_record else None
    before, after = result.counters.before, result.counters.after
    sent = next(cell.counts.sent for cell in result.cells if cell.operation == operation.name)
    if route is None or before is None or after is None:
        return None
    answers, nanoseconds = (
        after.get(f"{of} {route}", 0) - before.get(f"{of} {route}", 0) for of in ("answers", "answer_ns")
    )
    return nanoseconds / answers if answers and answers == sent and not operation.follow else None


def client_cpu_ns(result: LoadResult) -> float | None:
    """CPU of the client for each right answer."""
    return result.processes.client.seconds / result.total.ok * 1e9 if result.total.ok else None


def at(statistics: Statistics | None, quantile: float) -> tuple[bool, float | None]:
    """Returns whether a quantile may be told, and its value; none where it is beyond all that was measured."""
    for found in statistics.quantiles if statistics else ():
        if found.quantile == quantile:
            return True, found.value
    return False, None


def by_second(result: LoadResult) -> list[int]:
    """Right answers of all operations in each second of the window; its last one only if it is whole, but for a
    hundredth."""
    return [
        count
        for part in _windows(result)
        for count in _each_second(part.window, [cell.ok_by_second for cell in part.cells])
    ]


def lost_by_second(result: LoadResult) -> list[int]:
    """Requests of all operations that failed or were dropped in each second, as `by_second` has the right answers;
    empty if none was."""
    lost = [
        [seconds for cell in part.cells for seconds in (cell.failed_by_second, cell.dropped_by_second)]
        for part in _windows(result)
    ]
    if not any(seconds for part in lost for seconds in part):
        return []
    return [
        count for part, found in zip(_windows(result), lost, strict=True) for count in _each_second(part.window, found)
    ]


def _windows(result: LoadResult) -> Sequence[LoadResult | LoadStage]:
    """Returns the parts that were measured one after the other: the stages, where there are some, else all."""
    return result.stages or [result]


def _each_second(window: Window, counts: list[list[int]]) -> list[int]:
    whole = int(window.seconds + 0.01)
    return [sum(seconds[second] for seconds in counts if second < len(seconds)) for second in range(whole)]


def offered(schedule: dict[str, Any]) -> list[RatePoint]:
    """The corners of a schedule of the load tool: between two of them the rate is a straight line."""
    seconds: float = schedule["seconds"]
    match schedule["shape"]:
        case "ramp":
            rates: list[float] = schedule["rates"]
            return [RatePoint(seconds * place / (len(rates) - 1), rate) for place, rate in enumerate(rates)]
        case "step":
            rates = schedule["rates"]
            length = seconds / len(rates)
            return [
                point
                for place, rate in enumerate(rates)
                for point in (RatePoint(place * length, rate), RatePoint((place + 1) * length, rate))
            ]
        case "burst":
            points: list[RatePoint] = []
            start, rate, base = 0.0, schedule["rate"], schedule["base"]
            while start < seconds:
                turn, end = (min(start + schedule[f"{part}_seconds"], seconds) for part in ("burst", "period"))
                points += [RatePoint(start, rate), RatePoint(turn, rate)]
                points += [RatePoint(turn, base), RatePoint(end, base)] if turn < end else []
                start += schedule["period_seconds"]
            return points
        case _:
            return [RatePoint(0.0, schedule["rate"]), RatePoint(seconds, schedule["rate"])]
