"""A comparison of two servers under load on disk: the figures of both sides of every pair of servers, and what was
concluded from them.

Why a format of its own: a comparison of benches holds effects of rows that the harness timed; here a pair is two whole
servers, and a row is a figure of one of their runs. The runs themselves lie in the folder beside it, as the load tool
stored them.

History of the format:
  schema 1: the first.
  schema 2: it has the hashes of what its figures depend on (`sources`) and those of the load tool (`client`); before there was one
    `fingerprint`, which is read no more.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from run_benches import serialization
from run_benches.places import LOAD_BASELINES, RUNS
from run_benches.stats.judge import Judgement
from run_benches.store import stored_file
from run_benches.store.fingerprint import Parts
from run_benches.store.loads import Counts
from run_benches.store.runs import Binary, Build, Machine, Tool

SCHEMA = 2

LoadRowKind = Literal["requests per right answer", "server CPU per right answer", "p50", "p99"]


@dataclass
class LoadSide:
    """A server and what it is asked. `server` is the fingerprint of its binary, `flags` are those of the load tool."""

    name: str
    commit: str
    dirty: bool
    scenario: str
    flags: list[str]
    server: Binary


@dataclass
class LoadRow:
    """A figure of side A and of side B, one of each for every pair of servers: nanoseconds, but for requests per right
    answer. `times` says of what a quantile is: `response` from the intended start (open loop), `service` from the start
    (closed loop), `last arrival` of a message at its subscribers. A row that a side of a pair has no figure of is not
    judged, for that `reason`."""

    kind: LoadRowKind
    times: Literal["response", "service", "last arrival"] | None
    a: list[float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    judgement: Judgement | None = None
    reason: str | None = None

    def effects(self) -> list[float]:
        """Natural logarithms of B's figure over A's."""
        return [math.log(b / a) for a, b in zip(self.a, self.b, strict=True)]


@dataclass
class LoadComparison:
    """One comparison. `pairs` were planned before the second pair, by the number of rows; `margin` is the share within
    which a row is the same. `validities` counts the runs by their validity; a pair of which a run is invalid has no
    figures, and stands in `invalid` with the reason. `counts` are those of all counted pairs, by side (`a`, `b`). One
    that was interrupted, or had too many invalid pairs, is not complete, and none of its rows is judged."""

    schema: int
    tool: Tool
    command: list[str]
    started: str
    seconds: float
    complete: bool
    machine: Machine
    build: Build
    a: LoadSide
    b: LoadSide
    seed: int
    windows: int
    margin: float
    alpha: float
    pairs: int | None = None
    done: int = 0
    rows: dict[str, LoadRow] = field(default_factory=dict)
    validities: dict[str, int] = field(default_factory=dict)
    invalid: list[str] = field(default_factory=list)
    counts: dict[str, Counts] = field(default_factory=dict)
    sources: Parts = field(default_factory=dict)
    client: Binary | None = None


def store(compared: LoadComparison, path: Path) -> None:
    """Replaces the file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    serialization.store(path, compared)


def load(path: Path) -> LoadComparison:
    """Reads a comparison; a damaged or newer file is a complaint of one line."""
    with stored_file.reading(path):
        return serialization.parse(LoadComparison, stored_file.content(path, SCHEMA) | {"schema": SCHEMA})


KEPT = LOAD_BASELINES / "comparisons"
"""Those that the document is rendered from."""


def stored() -> list[Path]:
    """Every comparison of this checkout, oldest first."""
    return stored_file.past(RUNS, "load-compare-")


def named(word: str | None) -> Path | None:
    """The comparison that a person means by its name or path; nothing if it is none."""
    known = [*stored(), *kept()]
    found = {path.stem: path for path in known}.get(word or "", Path(word or "").absolute())
    return found if found in known else None


def kept() -> list[Path]:
    """The comparisons that were kept, by name."""
    return sorted(KEPT.glob("*.json"))


def kept_path(name: str) -> Path:
    """Where a comparison of this name is kept."""
    return stored_file.named(KEPT, name, "comparison")
