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
    told = []
    for kind, latencies in row.bench.latencies.items() if row.bench.state == "ran" else ():
        happened = [one for one in latencies if one.count]
        if happened:
            spreads = {
                name: figures.spread([value for one in happened if (value := of(one)) is not None])
                for name, _, of in QUANTILES
            }
            quantiles = {name: spread for name, spread in spreads.items() if spread}
            count, slowest_ns = sum(one.count for one in happened), max(one.max_ns for one in happened)
            told.append(Tail(kind, len(happened), count, quantiles, slowest_ns))
    return told


def measures(row: Row) -> dict[str, Measure]:
    """The measures of a row that have a figure."""
    return (
        {name: measure for name, measure in row.bench.measures.items() if measure.points}
        if row.bench.state == "ran"
        else {}
    )
