"""Comparisons made in code, with the verdicts of the real judge: what the tests of reports, explanations and
attribution start from."""

import math

from run_benches.compare import attribution
from run_benches.stats import judge
from run_benches.store.comparisons import (
    SCHEMA,
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


def every_ending() -> dict[str, Comparison]:
    """Comparisons with every verdict, with none that differs, with an alarm, and one that was interrupted."""
    changed = {
        "storage/get/strata/sst": row(0.08),
        "transaction/create/strata/2_indexes": row(0.06),
        "query/find/strata/hash": row(-0.07),
        "encoding/decode/strata/1_KB": row(0.001),
        "ingress/get/strata/cached": row(0.02, scatter=0.05),
        "locking/acquire/strata/free": screened(),
        "streams/append/strata/soft": unjudged("invalid", "a side failed"),
        "feed/deliver/strata/one": unjudged("not_run", "the budget was spent"),
    }
    same = {"storage/get/strata/sst": row(0.001)}
    return {
        "changed": comparison(changed),
        "same": comparison(same),
        "alarm": comparison(dict(same), {"harness/scan/bytes/1_MB": control(change=0.09)}),
        "interrupted": comparison(dict(same), complete=False),
    }
