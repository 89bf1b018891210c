"""The ladder: one request at every rung, from the bytes to the socket, and what each rung adds."""

from collections.abc import Sequence
from dataclasses import dataclass

from run_benches.analysis.contrasts import Contrast, joint
from run_benches.analysis.row import FLOOR, OURS, Row, alike
from run_benches.stats.estimates import Estimate

REQUESTS = ("get", "create", "list", "graphql_get", "graphql_list", "append", "append_100", "read_100")
RUNGS = (
    "raw",
    "storage",
    "locking",
    "encoding",
    "indexes",
    "transaction",
    "query",
    "streams",
    "handlers",
    "graphql",
    "routing",
    "driver",
    "ingress",
    "ingress_cpu",
    "tcp",
    "tls",
)
"""From the bytes to the socket. `driver` is no layer: it builds the request and drives the runtime, with routing behind
it, under ingress. The clock of `tcp` and `tls` is that of the CPU, as is that of `ingress_cpu`, the rung under them."""

ALONE = ("locking", "encoding")
"""Rungs that call no layer below them: what the request costs in that layer alone, no step on top of another."""


@dataclass(frozen=True)
class Rung:
    """A rung and the nearest one below it that has a figure; a rung that calls none below it stands on nothing."""

    name: str
    row: Row
    below: "Rung | None"

    @property
    def step(self) -> Contrast | None:
        """The contrast with the rung below; `None` where there is none, or the two took no turns."""
        return self.row.over(self.below.row) if self.below else None

    @property
    def added(self) -> Estimate | None:
        """Nanoseconds on top of the rung below."""
        return self.adds(0.95)

    def adds(self, confidence: float) -> Estimate | None:
        """The same, as sure as that."""
        under = self.below.row.measured if self.below else None
        return self.step.nanoseconds(under.middle, confidence) if self.step and under else None


def ladder(rows: Sequence[Row], request: str) -> list[Rung]:
    """The rungs of a request from the lowest; `raw` may be the floor's own row, the others are ours."""
    climbed: list[Rung] = []
    for name in RUNGS:
        found = {row.subject: row for row in rows if (row.layer, row.operation, row.case) == ("ladder", request, name)}
        row = found.get(OURS) or (found.get(FLOOR) if name == "raw" else None)
        if row is not None:
            steps = (
                [] if name in ALONE else [rung for rung in climbed if rung.name not in ALONE and alike(rung.row, row)]
            )
            climbed.append(Rung(name, row, steps[-1] if steps else None))
    return climbed


def step_confidence(rungs: Sequence[Rung], rung: Rung) -> float:
    """Returns the confidence that the interval of a step needs so that those of the request's whole ladder, by that
    clock, hold together."""
    return joint(0.95, sum(one.step is not None and alike(one.row, rung.row) for one in rungs))


def share(rungs: Sequence[Rung], rung: Rung) -> float | None:
    """Returns what a rung adds, as a share of the request's time on the highest rung of its clock."""
    times = [
        one.row.measured.middle
        for one in rungs
        if one.row.measured and one.name not in ALONE and alike(one.row, rung.row)
    ]
    return rung.added.middle / times[-1] if times and rung.added is not None else None
