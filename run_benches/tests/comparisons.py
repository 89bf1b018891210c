"""Comparisons made in code, with the verdicts of the real judge: what the tests of reports, explanations and
attribution start from."""

import math

from run_benches.compare import attribution
from run_benches.stats import judge
from run_benches.stats.judge import AllocationVerdict
from run_benches.store.comparisons import (
    SCHEMA,
    Allocations,
    ComparedRow,
    ComparedSide,
    Comparison,
    ComparisonDesign,
    Control,
    PairPoint,
    RowState,
    Witness,
)
from run_benches.store.runs import Build, Facts, Machine

LAYERS = [
    "encoding",
    "storage",
    "locking",
    "indexes",
    "transaction",
    "handlers",
    "routing",
    "ingress",
    "integration",
    "ladder",
]
ALPHA, CONTROL_ALPHA = 0.05, 0.01


def points(
    change: float, scatter: float = 0.004, pairs: int = 16, a_ns: float = 1000.0, first: int = 6
) -> list[PairPoint]:
    """Pairs whose effects lie evenly around ln(1 + change)."""
    effects = [math.log1p(change) + scatter * (2 * at / (pairs - 1) - 1) for at in range(pairs)]
    return [
        PairPoint(first + at, effect, a_ns, a_ns * math.exp(effect), [0.001 * at, 0.0, 3.0, 1.0])
        for at, effect in enumerate(effects)
    ]


def row(
    change: float,
    scatter: float = 0.004,
    a_ns: float = 1000.0,
    witness: Witness | None = None,
    state: str = "SST, cached",
) -> ComparedRow:
    """A row that the screen left open; not judged yet."""
    facts = Facts("reads one record", "records", 1.0, 1, state=state)
    return ComparedRow(
        "not_run", [], facts, 0.02, points(change, 0.05, 6, a_ns, 0), points(change, scatter, 16, a_ns), witness=witness
    )


def screened(change: float = 0.002, scatter: float = 0.004) -> ComparedRow:
    """A row that the screen showed to be the same."""
    found = row(change)
    found.screen, found.pairs, found.state = points(change, scatter, pairs=6, first=0), [], "judged"
    found.judgement = judge.screened([point.effect for point in found.screen], found.margin)
    assert found.judgement is not None
    return found


def unjudged(state: RowState, *reasons: str) -> ComparedRow:
    """A row that was not judged."""
    return ComparedRow(state, list(reasons), row(0).facts, 0.02)


def comparison(
    rows: dict[str, ComparedRow], controls: dict[str, Control] | None = None, complete: bool = True
) -> Comparison:
    """A comparison of these rows: those with fresh pairs are judged here."""
    controls = (
        {"harness/scan/bytes/1_MB": control(), "storage/get/strata/sst": control("row")}
        if controls is None
        else controls
    )
    open_rows = {id: row for id, row in rows.items() if row.state == "not_run" and row.pairs}
    decided = judge.decide(
        {id: [point.effect for point in row.pairs] for id, row in open_rows.items()},
        {id: row.margin for id, row in open_rows.items()},
        ALPHA,
    )
    for id, judgement in decided.items():
        rows[id].state, rows[id].judgement = "judged", judgement
    for id, (p, alarm) in judge.alarms(
        {id: [point.effect for point in one.pairs] for id, one in controls.items()}, CONTROL_ALPHA
    ).items():
        controls[id].p_adjusted, controls[id].alarm = p, alarm
    judgements = {id: row.judgement for id, row in rows.items() if row.judgement}
    return Comparison(
        schema=SCHEMA,
        command=["run-benches.py", "compare", "main"],
        started="2026-01-02T03:04:05Z",
        seconds=754.0,
        complete=complete,
        a=ComparedSide("main", "a" * 40, False, "a" * 40),
        b=ComparedSide("the working tree", "b" * 40, True, "a" * 40, {"STRATA_SET": "cache=32M"}),
        machine=Machine({}, {}),
        build=Build("rustc", "", "release"),
        engine={},
        design=ComparisonDesign(4711, ALPHA, CONTROL_ALPHA, 6, 16, {}, None),
        rows=rows,
        controls=controls,
        left_out={"routing": "nothing under it changed"},
        attribution=attribution.attribute(rows, LAYERS),
        outcome=judge.outcome(
            judgements,
            [id for id, one in controls.items() if one.alarm],
            sum(row.state == "identical" for row in rows.values()),
        )
        if complete
        else None,
    )


def control(kind: str = "sentinel", change: float = 0.0) -> Control:
    """A with itself."""
    return Control("row" if kind == "row" else "sentinel", points(change))


def counted(verdict: AllocationVerdict, a: float, b: float) -> ComparedRow:
    """A row whose allocations passed the limit of 4."""
    found = unjudged("judged", "screen, pair 1: it ended")
    found.allocations = Allocations(verdict, a, b, 4.0)
    return found


def ladder(request: str, **changes: tuple[float, float]) -> dict[str, ComparedRow]:
    """Rungs by their time in nanoseconds and their change."""
    return {f"ladder/{request}/strata/{rung}": row(change, a_ns=a_ns) for rung, (a_ns, change) in changes.items()}


AGAIN, OUTLYING = "storage/get/strata/sst", "query/find/strata/hash"


def changed() -> Comparison:
    """Rows of every verdict and of every other end; one that was run again, one that was tried before, one with an
    outlier, one at its margin, one whose margin is a nanosecond, and some that say what else was counted."""
    counts = Witness((1000.0, 1049.0), (2.0, 3.0), {"bytes_written": (100.0, 100.5), "flushes": (10.0, 8.0)})
    rows = {
        AGAIN: row(0.08),
        "storage/get/strata/memtable": screened(0.012, 0.005),
        "indexes/hash_lookup/strata/100_entries": row(0.051, 0.01, witness=counts),
        "transaction/create/strata/2_indexes": row(0.06),
        OUTLYING: row(-0.07),
        "query/find/strata/tree": row(0.0199, scatter=0.02),
        "query/sort/strata/tree": row(0.03, scatter=0.1),
        "encoding/decode/strata/1_KB": row(0.001),
        "encoding/decode/strata/1_byte": row(0.0, a_ns=20.0),
        "encoding/key/strata/number": unjudged("identical", "same bytes"),
        "encoding/key/strata/text": unjudged("identical", "same bytes"),
        "ingress/get/strata/cached": row(0.02, scatter=0.05),
        "locking/acquire/strata/free": screened(),
        "streams/append/strata/soft": unjudged("invalid", "a side failed"),
        "feed/deliver/strata/one": unjudged("not_run", "the budget was spent"),
        "handlers/get/strata/1": unjudged("one_side", "only in main"),
        "storage/get/floor/sst": unjudged("left_out", "runs none of our code"),
    }
    rows |= ladder("create", storage=(800, 0.08), transaction=(1280, 0.1), handlers=(4000, 0.01), tcp=(20_000, 0.0))
    rows |= ladder("get", storage=(800, 0.08), transaction=(1000, -0.05))
    rows |= ladder("list", storage=(800, 0.0), handlers=(1000, 0.05))
    rows["encoding/decode/strata/1_byte"].margin = 0.05
    rows[OUTLYING].pairs[3].effect = 2.3
    rows[AGAIN].set_aside = points(0.25, pairs=2)
    rows[AGAIN].earlier, rows[AGAIN].pairs = points(0.03, 0.1), points(0.08, first=1006)
    found = comparison(rows)
    found.design.reruns, found.design.tries = {AGAIN: [7, 8]}, 2
    return found


def every_ending() -> dict[str, Comparison]:
    """Comparisons with every verdict, with none that differs, with more allocations, with an alarm, and one that was
    interrupted."""
    same = {"storage/get/strata/sst": row(0.001)}
    allocations = {
        "transaction/create/strata/0": counted("more allocations", 4.0, 5.0),
        "storage/put/strata/1": counted("more allocations", 0.0, 5.0),
        "query/find/strata/1": counted("fewer allocations", 5.0, 4.0),
    }
    return {
        "changed": changed(),
        "same": comparison(dict(same)),
        "allocations": comparison(dict(same) | allocations),
        "alarm": comparison(dict(same), {"harness/scan/bytes/1_MB": control(change=0.09)}),
        "interrupted": comparison(dict(same), complete=False),
    }


def without_a_verdict() -> list[Comparison]:
    """Comparisons of which not all was judged, or nothing, or whose controls are missing."""
    same, id = row(0.001), "storage/get/strata/memtable"
    return [
        *(comparison({"storage/get/strata/sst": row(0.001), id: unjudged(state)}) for state in UNJUDGED),
        comparison({id: unjudged("left_out", "not chosen")}),
        comparison({id: same}, {}),
    ]


UNJUDGED: tuple[RowState, ...] = ("invalid", "not_run")
