"""The turns of a pair: how long, how many."""

import random
from pathlib import Path

import pytest

from run_benches.compare import pairing
from run_benches.compare.pairing import PairContext
from run_benches.store.runs import Facts


@pytest.mark.parametrize(
    ("facts", "length_ns", "turns"),
    [
        (Facts("reads", "records", 1, 1), 1e6, 60),
        (Facts("writes", "records", 1, 1, changes_store=True), 5e6, 24),
        (Facts("reads", "records", 1, 8), 20e6, 12),
        (Facts("answers", "records", 1, 1, clock="cpu"), 20e6, 12),
    ],
)
def test_a_writer_of_one_thread_has_short_turns_and_each_pair_its_own_length(
    facts: Facts, length_ns: float, turns: int
) -> None:
    context = PairContext(Path(), pairing.TURNS, 1.0, lambda: None)
    rows = [pairing.row_in_turns("a/b/strata/c", facts, context, random.Random(seed)) for seed in range(50)]
    lengths = {row.turn_ns for row in rows}
    assert {row.turns for row in rows} == {turns} and len(lengths) == 50
    assert 0.75 * length_ns <= min(lengths) < 0.85 * length_ns and 1.15 * length_ns < max(lengths) <= 1.25 * length_ns
    assert pairing.turns_s(pairing.TURNS, facts) == pytest.approx(2 * turns * length_ns / 1e9)
    assert pairing.row_in_turns("a/b/strata/c", facts, context, random.Random(7)) == rows[7]


def test_a_cost_that_is_known_is_handed_on() -> None:
    facts = Facts("reads", "records", 1, 1)
    context = PairContext(Path(), pairing.TURNS, 1.0, lambda: None, {"a/b/strata/c": 7.0})
    costs = [
        pairing.row_in_turns(id, facts, context, random.Random(1)).cost_ns for id in ("a/b/strata/c", "a/b/strata/d")
    ]
    assert costs == [7.0, None]
