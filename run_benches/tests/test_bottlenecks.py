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
from run_benches.render.bottlenecks import Rule, Spot
from run_benches.render.source import Source
from run_benches.store import runs
from run_benches.store.runs import Facts, Family, Measure, Place, Run, Turns
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with


def rule(run: Run, words: str) -> Rule:
    return next(one for one in bottlenecks.rules(Findings.of(run)) if one.words.startswith(words))


def told(found: Rule) -> list[tuple[str, str]]:
    return [(spot.what, spot.told) for spot in found.found]


def whole() -> Run:
    return made_up.planned(made_up.with_scaling(a_run()), made_up.macro())


def test_floors_missed_are_ordered_by_the_time_to_lose() -> None:
    run = a_run()
    run.ratios["integration/create/strata/2_indexes_1_thread"].at_least = 0.95
    found = rule(run, "goals missed")
    assert found.looked_at == 3
    assert [spot.what for spot in found.found] == [
        "`integration/create/strata/2_indexes_1_thread`",
        "`storage/get/strata/sst`",
    ]
    # 1530 ns x (1 - 0.921 / 0.95)
    assert found.found[1].told == "46.7 ns of 1.53 us; ratio 0.910 [0.900, 0.921], goal 0.95"


def test_rungs_are_ordered_by_their_share_of_the_request() -> None:
    found = rule(a_run(), "rungs of the ladder")
    assert found.looked_at == 14
    assert [spot.what for spot in found.found] == [
        "`tcp` of GET",
        "`tcp` of CREATE",
        "`ingress` of GET",
        "`transaction` of CREATE",
        "`handlers` of CREATE",
        "`ingress` of CREATE",
        "`handlers` of GET",
    ]
    assert found.found[0].told == "80 %: +9.90 us [+9.84 us, +9.96 us] over `ingress_cpu`"


def test_allocations_beyond_their_limit_are_named() -> None:
    run = a_run()
    for id, limit in (("storage/get/strata/sst", 1.0), ("storage/get/strata/memtable", 2.0)):
        run.benches[id].facts.allocations_at_most = limit
    assert rule(run, "rows that allocate") == Rule(
        "rows that allocate more than their limit",
        2,
        [Spot("`storage/get/strata/sst`", "2 an operation, limit 1", "storage/get/strata/sst")],
    )


def test_stalls_are_a_share_of_what_was_timed() -> None:
    run = whole()
    run.benches["macro/bulk_load/strata/1000000_records"].facts.timed_operations = 1_000_000
    assert told(rule(run, "workloads whose writers")) == [
        ("`macro/bulk_load/strata/1000000_records`", "6.2 % of its threads' time: 250 ms stalled")
    ]


def test_an_older_run_has_the_turns_of_a_workload_apart_and_its_stalls_over_its_own_operations(tmp_path: Path) -> None:
    run = whole()
    id = "macro/bulk_load/strata/1000000_records"
    facts, bench = run.benches[id].facts, run.benches[id]
    facts.turn_operations, facts.timed_operations, bench.counters = 100, 50, {"flushes": 0}
    bench.measures["stall_time"].points, bench.points_ns = [0.678, 1.401], [7593200.5, 7417668.8]
    path = tmp_path / "run.json"
    stored = json.loads(serialization.text(run))
    path.write_text(json.dumps(stored | {"schema": 3}))
    old = runs.load(path)
    assert old.benches[id].turns == Turns(50, None) and old.benches[id].facts.timed_operations == 1000
    assert old.benches[id].counters is None
    assert told(rule(old, "workloads whose writers")) == [(f"`{id}`", "19 % of its threads' time: 1.40 s stalled")]
    assert made_up.contradictions(old) == []
    path.write_text(json.dumps(stored | {"schema": runs.SCHEMA}))  # of today: what it says is what it means
    (impossible,) = made_up.contradictions(runs.load(path))
    assert impossible.startswith(f"Impossible share: `{id}` says 373 % of its time for stall time.")
    assert (rule(run, "workloads whose writers").looked_at, told(rule(run, "workloads whose writers"))) == (1, [])


def test_a_measure_that_is_a_share_is_not_above_one() -> None:
    run = whole()
    run.benches["macro/ycsb_a/strata/zipfian"].measures["cached"] = Measure("share", [0.5, 1.0])
    assert made_up.contradictions(run) == []
    run.benches["macro/ycsb_a/strata/zipfian"].measures["cached"].points.append(1.2)
    assert len(made_up.contradictions(run)) == 1


def test_what_a_workload_reports_is_not_replaced_by_its_turns(tmp_path: Path) -> None:
    run = whole()
    id = "macro/bulk_load/strata/1000000_records"
    own, turns = (
        Facts("loads", "records", 1.0, 1, workload=True, timed_operations=count, counters={"flushes": count})
        for count in (1000, 50)
    )
    for kind, facts in (("time", own), ("tuple", turns)):
        Measurement(run, tmp_path / "run.json", {}, 1.0)._apply(PlannedJob(0, kind, id), JobOutcome(facts={id: facts}))  # type: ignore[arg-type]
        bench = run.benches[id]
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
    run = whole()
    found = rule(run, "operations whose p99.9")
    assert (found.looked_at, found.found) == (1, [])
    for one in run.benches["macro/ycsb_a/strata/zipfian"].latencies["read"]:
        one.p999_ns = 2e5
    assert told(rule(run, "operations whose p99.9")) == [
        ("`macro/ycsb_a/strata/zipfian`, read", "217 times: 200 us over 920 ns")
    ]


def test_growth_with_the_data_is_named_if_it_is_certain() -> None:
    run = whole()
    assert rule(run, "times that grow").found == []
    for records in (1e3, 1e4, 1e5, 1e6):
        run.benches[f"scaling/find/strata/{records:.0f}"] = made_up.bench(
            10 * records**0.3, "finds", scale=Place("records", records)
        )
    ((what, words),) = told(rule(run, "times that grow"))
    assert what == "`scaling/find`, by records in the store"
    assert words.startswith("grows by 2.00x for every tenfold of records")


def test_threads_within_the_cores_that_do_not_scale_are_named_and_those_beyond_are_not_asked() -> None:
    run = whole()
    assert rule(run, "threads with a core each") == Rule(rule(run, "threads with a core each").words, 2, [])
    run.contrasts["scaling/create/strata/2_threads"]["scaling/create/strata/1_thread"] = [
        math.log(0.95) + off for off in made_up.TUPLES
    ]
    assert told(rule(run, "threads with a core each")) == [
        ("`scaling/create`, 2 threads", "at most 53 % of 2 times one thread's rate")
    ]


def test_what_to_optimise_next_is_the_worst_of_each_rule_with_the_command_that_profiles_it() -> None:
    text = "\n".join(bottlenecks.next_steps(Source(Findings.of(whole()), {}, {})))
    assert "`python3 run-benches.py profile storage/get/strata/sst`" in line_with(text, "| `storage/get/strata/sst` |")
    assert text.count("run-benches.py profile ladder/") == bottlenecks.WORST


def test_a_rule_says_how_much_it_looked_at_and_that_it_had_nothing_to_look_at() -> None:
    text = "\n".join(bottlenecks.section(Source(Findings.of(a_run()), {}, {}, None)))
    assert (
        "**Rows that allocate more than their limit**\n\nnot run: the run has no figure that the rule applies to"
        in text
    )
    assert "1 of 3." in text
    text = "\n".join(bottlenecks.section(Source(Findings.of(whole()), {}, {}, None)))
    assert "None of 1." in text
