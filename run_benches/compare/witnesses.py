"""The counts that noise cannot touch, told beside the time: instructions, allocations and the engine's counters, in one
phrase a row.

Why in words: a time says that something changed, a count says what. Slower with more instructions is more work; slower
with the same instructions is the same work that waits longer (cache, branches, the placement of code), and is mended
elsewhere. More work that does not show in the time yet is worth knowing too: it will show on a slower machine.

How equal is equal: a count of instructions differs where it does so by more than a row of its kind repeats itself.
"""

import math
from typing import Literal

from run_benches.analysis import effects, figures
from run_benches.stats.judge import Judgement, Verdict
from run_benches.store.comparisons import Witness
from run_benches.store.runs import Facts

Work = Literal["more", "same", "less"]

LEAST = 0.001
"""Of anything, an operation: what happens less than once in a thousand operations (a flush) happens when it happens to.
"""

PHRASES: dict[tuple[Verdict, Work], str] = {
    ("slower", "more"): "does more work",
    ("slower", "same"): "same instructions: cache, branches or placement",
    ("slower", "less"): "does less work, and waits more: cache, branches or placement",
    ("faster", "more"): "does more work, and waits less: cache, branches or placement",
    ("faster", "same"): "same instructions: cache, branches or placement",
    ("faster", "less"): "does less work",
    ("same", "more"): "does more work that does not show yet",
    ("same", "same"): "",
    ("same", "less"): "does less work that does not show yet",
    ("can't tell", "more"): "does more work, whether or not it shows",
    ("can't tell", "same"): "same instructions",
    ("can't tell", "less"): "does less work, whether or not it shows",
}


def phrase(judgement: Judgement, witness: Witness | None, facts: Facts) -> str:
    """Tells what the counts say about a row, with every count that changed; empty where they say nothing."""
    if witness is None:
        return ""
    tolerance = agreement(facts)
    said = [_instructions(judgement, witness.instructions, tolerance)] if witness.instructions else []
    for name, sides in {"allocations": witness.allocations, **witness.counters}.items():
        if sides and (done := work(*sides, tolerance)) != "same":
            counts = " -> ".join(map(figures.count, sides))
            said.append(f"{'more' if done == 'more' else 'fewer'} {name.replace('_', ' ')}: {counts}")
    return "; ".join(filter(None, said))


def agreement(facts: Facts) -> float:
    """The share within which two counts of the same code agree: what lies in a store is reached by other ways each
    time."""
    return 0.001 if not facts.state or facts.state.startswith("in memory") else 0.01


def _instructions(judgement: Judgement, sides: tuple[float, float], tolerance: float) -> str:
    done = work(*sides, tolerance)
    phrase = PHRASES[judgement.verdict, done]
    if done == "same":
        return phrase
    counted = math.log(sides[1] / sides[0])
    explains = counted / judgement.estimate if judgement.verdict in ("slower", "faster") else 1.0
    part = ", which explains only a part" if 0 < explains < 0.5 else ""
    return f"{phrase}{part} (instructions {effects.change(counted)})"


def work(a: float, b: float, tolerance: float) -> Work:
    """Returns whether side B counted more than side A, beyond what two counts of the same code differ by."""
    if abs(b - a) <= max(tolerance * max(a, b), LEAST):
        return "same"
    return "more" if b > a else "less"
