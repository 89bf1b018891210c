"""Bottlenecks by rules: each names its figures, says how much it looked at, and finds nothing where there is nothing."""

import json
import math
from pathlib import Path

import pytest

from run_benches import serialization
from run_benches.analysis.findings import Findings
from run_benches.measure.families import Tuple
from run_benches.measure.jobs import JobOutcome
from run_benches.measure.measurement import Measurement
from run_benches.measure.plan import PlannedJob
from run_benches.render import bottlenecks
from run_benches.render.bottlenecks import Rule
from run_benches.render.source import Source
from run_benches.store import runs
from run_benches.store.runs import Facts, Family, Place, Run, Turns
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with, whole

CREATE, SST = "integration/create/strata/2_indexes_1_thread", "storage/get/strata/sst"
LOAD, YCSB = "macro/bulk_load/strata/1000000_records", "macro/ycsb_a/strata/zipfian"
STALLS = "workloads whose writers"


def rule(run: Run, words: str) -> Rule:
    return next(one for one in bottlenecks.rules(Findings.of(run)) if one.words.startswith(words))


def named(run: Run, words: str) -> tuple[int, list[str]]:
    """Returns how many figures a rule looked at, and the rows that it names, worst first."""
    found = rule(run, words)
    return found.looked_at, [spot.row for spot in found.found]


def test_floors_missed_are_ordered_by_the_time_to_lose() -> None:
    run = a_run()
    run.ratios[CREATE].at_least = 0.95
    assert named(run, "goals missed") == (3, [CREATE, SST])


def test_rungs_are_ordered_by_their_share_of_the_request() -> None:
    steps = "get/tcp create/tcp get/ingress create/transaction create/handlers create/ingress get/handlers"
    rows = [f"ladder/{request}/strata/{rung}" for request, rung in (step.split("/") for step in steps.split())]
    assert named(a_run(), "rungs of the ladder") == (14, rows)


def test_allocations_beyond_their_limit_are_named() -> None:
    run = a_run()
    for id, limit in ((SST, 1.0), ("storage/get/strata/memtable", 2.0)):
        run.benches[id].facts.allocations_at_most = limit
    assert named(run, "rows that allocate") == (2, [SST])


def test_stalls_are_a_share_of_what_was_timed() -> None:
    run = whole()
    assert named(run, STALLS) == (0, []), "it is not known of how many operations"
    run.benches[LOAD].facts.timed_operations = 1_000_000
    assert named(run, STALLS) == (1, [LOAD])
    assert rule(run, STALLS).found[0].told.startswith("6.2 %"), "250 ms of 4 s"
    run.benches[LOAD].measures["stall_time"].points = [0.0]
    assert named(run, STALLS) == (1, [])


def test_an_older_run_has_the_turns_of_a_workload_apart_and_its_stalls_over_its_own_operations(tmp_path: Path) -> None:
    run = whole()
    facts, bench = run.benches[LOAD].facts, run.benches[LOAD]
    facts.turn_operations, facts.timed_operations, bench.counters = 100, 50, {"flushes": 0}
    bench.measures["stall_time"].points, bench.points_ns = [0.678, 1.401], [7593200.5, 7417668.8]
    path = tmp_path / "run.json"
    stored = json.loads(serialization.text(run))
    path.write_text(json.dumps(stored | {"schema": 3}))
    old = runs.load(path)
    assert old.benches[LOAD].turns == Turns(50, None) and old.benches[LOAD].facts.timed_operations == 1000
    assert old.benches[LOAD].counters is None
    assert named(old, STALLS) == (1, [LOAD]) and rule(old, STALLS).found[0].told.startswith("19 %")
    assert made_up.contradictions(old) == []
    path.write_text(json.dumps(stored | {"schema": runs.SCHEMA}))  # of today: what it says is what it means
    (impossible,) = made_up.contradictions(runs.load(path))
    assert LOAD in impossible and "373 %" in impossible
    assert named(run, STALLS) == (1, []), "a share above one is no figure"


def test_what_a_workload_reports_is_not_replaced_by_its_turns(tmp_path: Path) -> None:
    run = whole()
    own, turns = (
        Facts("loads", "records", 1.0, 1, workload=True, timed_operations=count, counters={"flushes": count})
        for count in (1000, 50)
    )
    for kind, facts in (("time", own), ("tuple", turns)):
        job = PlannedJob(0, kind, LOAD)  # type: ignore[arg-type]
        Measurement(run, tmp_path / "run.json", {}, 1.0)._apply(job, JobOutcome(facts={LOAD: facts}))
        bench = run.benches[LOAD]
        assert bench.facts.timed_operations == 1000 and bench.counters == {"flushes": 1000}
    assert bench.turns == Turns(50, {"flushes": 50})


def test_a_family_keeps_the_times_of_its_guests_and_prints_by_its_own_base(tmp_path: Path) -> None:
    run = a_run()
    base, row = "storage/get/strata/sst", "storage/scan/strata/hundred"
    run.benches[row].points_ns, run.benches[row].family = [], "away"
    run.families["away"] = Family("not_run", [], [base, row], base, [[row, base], [base, base]])
    assert run.benches[base].family != "away"
    for number, base_ns in enumerate((2000.0, 2100.0, 2200.0)):
        lanes = Tuple({base: base_ns, row: 3 * base_ns}, {row: {base: math.log(3)}, base: {base: 0.0}}, False)
        Measurement(run, tmp_path / "run.json", {}, 1.0)._apply(
            PlannedJob(number, "tuple", "away"), JobOutcome(lanes=lanes)
        )
    assert run.families["away"].guests_ns == {base: [2000.0, 2100.0, 2200.0]}
    measured = next(found for found in Findings.of(run).rows if found.id == row).measured
    assert measured and measured.middle == pytest.approx(6300) and (measured.low, measured.high) == (6000.0, 6600.0)
    run.families["away"].guests_ns.clear()
    (before,) = (found for found in Findings.of(run).rows if found.id == row)
    assert before.measured and (before.measured.middle, before.remark) == (6300.0, "median of its processes"), (
        "as a run of before is read"
    )


def test_a_long_tail_is_named_and_a_tail_of_few_operations_is_not_looked_at() -> None:
    run, words = whole(), "operations whose p99.9"
    assert named(run, words) == (1, [])
    for one in run.benches[YCSB].latencies["read"]:
        one.p999_ns = 2e5
    assert named(run, words) == (1, [YCSB]) and rule(run, words).found[0].what.endswith(", read")


def test_growth_with_the_data_is_named_if_it_is_certain() -> None:
    run, words = whole(), "times that grow"
    assert named(run, words) == (2, [])
    for records in (1e3, 1e4, 1e5, 1e6):
        run.benches[f"scaling/find/strata/{records:.0f}"] = made_up.bench(
            10 * records**0.3, "finds", scale=Place("records", records)
        )
    assert named(run, words) == (3, ["scaling/find/strata/1000000"])


def test_threads_within_the_cores_that_do_not_scale_are_named_and_those_beyond_are_not_asked() -> None:
    run, words, create = whole(), "threads with a core each", "scaling/create/strata/{}"
    assert named(run, words) == (2, [])
    made_up.set_ratio(run, create.format("2_threads"), create.format("1_thread"), 0.95)
    assert named(run, words) == (2, [create.format("2_threads")])


def test_what_to_optimise_next_is_the_worst_of_each_rule_with_the_command_that_profiles_it() -> None:
    text = "\n".join(bottlenecks.next_steps(Source(Findings.of(whole()), {}, {})))
    assert f"`python3 run-benches.py profile {SST}`" in line_with(text, f"| `{SST}` |")
    assert text.count("run-benches.py profile ladder/") == bottlenecks.WORST


def test_a_rule_says_how_much_it_looked_at_and_that_it_had_nothing_to_look_at() -> None:
    found = Findings.of(whole())
    text = "\n".join(bottlenecks.section(Source(found, {}, {}, None)))
    for one in bottlenecks.rules(found):
        told = text.partition(f"**{one.words[0].upper()}{one.words[1:]}**\n\n")[2].partition("\n")[0]
        count = f"{len(one.found) or 'None'} of {one.looked_at}."
        assert told.startswith("not run: ") if one.looked_at == 0 else told == count
