"""`calibrate`: measures how often our own verdicts are wrong, and publishes it with counts and bounds.

Why on the machine itself: that a test keeps its level on simulated data says that the arithmetic is right. Whether two
processes of one binary differ by no more than chance on a shared machine, while others load it, is known only from
measuring many of them. What was measured goes on where it ended, so that hours add up; what is published always comes
from all of it.
"""

import time
from pathlib import Path
from typing import get_args

from run_benches import scratch, serialization
from run_benches.calibrate import error_rates
from run_benches.calibrate.collection import DRIVEN_EVERY, Collection
from run_benches.calibrate.disturbance import CONDITIONS
from run_benches.calibrate.error_rates import ErrorRates, Rules
from run_benches.compare import new_comparison
from run_benches.errors import Exit, UserError
from run_benches.interrupts import until_stopped
from run_benches.measure.layers import SENTINELS
from run_benches.measure.lock import alone
from run_benches.places import RUNS
from run_benches.render import calibration_report
from run_benches.store import fingerprint, pool
from run_benches.store.pool import EntryKind, Pool

USUAL_BUDGET_S = 3600.0
RULES = Rules(
    new_comparison.SCREEN_PAIRS, new_comparison.ALPHA, new_comparison.CONTROL_ALPHA, new_comparison.margin, SENTINELS
)

SMOKE_ROUNDS = DRIVEN_EVERY * len(CONDITIONS) + 1
"""So many until a process of Criterion has another one before it under the same condition."""

SMOKE_LIMIT_S = 900.0
SMOKE_ROWS = ["encoding/encode/strata"]


def main(budget_s: float | None, rows: list[str], smoke: bool, timeout_s: float, as_json: bool) -> Exit:
    """Adds to the pool what the budget allows, then publishes what all of it tells."""
    if smoke:
        # not the system's folder, which may be in memory: prepared stores are linked from where they lie
        RUNS.mkdir(exist_ok=True)
        with scratch.folder(RUNS) as folder:
            return _smoke(folder, timeout_s)
    with alone():
        collection = Collection(rows, pool.PATH, RUNS / "calibrate", timeout_s)
        with until_stopped("run-benches.py calibrate"):
            collection.spend(budget_s or USUAL_BUDGET_S)
    found = publish(collection.pool, pool.RESULTS)
    print(serialization.text(found) if as_json else calibration_report.summary(found))
    return Exit.FINE if any(condition.comparisons for condition in found.conditions.values()) else Exit.NOTHING


def publish(collected: Pool, path: Path) -> ErrorRates:
    """Writes the results; `document` renders them."""
    found = error_rates.results(collected, RULES, fingerprint=fingerprint.of_files(fingerprint.JUDGING))
    serialization.store(path, found)
    return found


def _smoke(folder: Path, timeout_s: float) -> Exit:
    """Every part once, in minutes; a part that gave nothing is a defect."""
    with alone():
        collection = Collection(SMOKE_ROWS, folder / "pool.jsonl", folder / "work", timeout_s)
        collection.rounds(SMOKE_ROUNDS, time.monotonic() + SMOKE_LIMIT_S)
        collection.comparison()
    found = publish(pool.load(folder / "pool.jsonl"), folder / "results.json")
    print(calibration_report.summary(found))
    there = {
        word
        for entry in collection.pool.entries
        if entry.usual or entry.kind not in ("pair", "process", "published")
        for word in (entry.kind, entry.condition)
    }
    missing = [word for word in (*get_args(EntryKind), *CONDITIONS) if word not in there]
    if missing or found.failures:
        nothing, failed = (", ".join(words) or "none" for words in (missing, found.failures))
        raise UserError(f"parts that gave nothing: {nothing}; rows that failed: {failed}", Exit.FAILED)
    return Exit.FINE
