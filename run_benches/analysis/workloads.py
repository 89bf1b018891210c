"""Workloads of seconds: how long their operations of each kind took, and what else was measured of them.

Quantiles are those of the processes: each process tells its own, and of several the median and the range stand, since
quantiles cannot be averaged into one of all. The slowest is the slowest of all. A quantile without enough operations
beyond it has no figure in the run, and none here (T8).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from run_benches.analysis import figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.row import Row
from run_benches.store.runs import Latency, Measure

LAYER = "macro"

QUANTILES: Sequence[tuple[str, float, Callable[[Latency], float | None]]] = (
    ("p50", 0.5, lambda latency: latency.p50_ns),
    ("p95", 0.95, lambda latency: latency.p95_ns),
    ("p99", 0.99, lambda latency: latency.p99_ns),
    ("p99.9", 0.999, lambda latency: latency.p999_ns),
)


@dataclass(frozen=True)
class Tail:
    """The times that the operations of one kind took in a row: the quantiles for which there are enough, by name, and
    the slowest of all."""

    kind: str
    processes: int
    count: int
    quantiles: dict[str, Spread]
    slowest_ns: float


def tails(row: Row) -> list[Tail]:
    """The latencies of a row by the kind of operation; a kind that never happened is absent (T1)."""
    found = row.bench.latencies.items() if row.bench.state == "ran" else ()
    return [_tail(kind, happened) for kind, latencies in found if (happened := [one for one in latencies if one.count])]


def _tail(kind: str, latencies: Sequence[Latency]) -> Tail:
    quantiles = {}
    for name, _, of in QUANTILES:
        if spread := figures.spread([value for latency in latencies if (value := of(latency)) is not None]):
            quantiles[name] = spread
    return Tail(
        kind,
        len(latencies),
        sum(latency.count for latency in latencies),
        quantiles,
        max(latency.max_ns for latency in latencies),
    )


def measures(row: Row) -> dict[str, Measure]:
    """The measures of a row that have a figure."""
    return (
        {name: measure for name, measure in row.bench.measures.items() if measure.points}
        if row.bench.state == "ran"
        else {}
    )
