"""The promises before a run."""

import dataclasses
import json
from pathlib import Path

import pytest

from run_benches import serialization
from run_benches.errors import UserError
from run_benches.measure import new_run, plan
from run_benches.measure.build import FactsFile, Suite
from run_benches.measure.layers import layer_names, shares
from run_benches.measure.relink import Link
from run_benches.render import document
from run_benches.store import runs
from run_benches.store.runs import Facts, Floor, Place, Scale


def facts(floor: str | None = None, **others: object) -> Facts:
    settings: dict[str, object] = {"depth": "quick"} | others
    return Facts("reads", "records", 1, 1, floor=Floor(floor, 0.9) if floor else None, **settings)  # type: ignore[arg-type]


def suites(**rows: Facts) -> dict[str, Suite]:
    named = {f"storage/{name}/strata/1": one for name, one in rows.items()}
    return {"storage": Suite("storage", Path("/none"), FactsFile(1, "storage", named))}


def made(
    found: dict[str, Suite],
    words: list[str] | None = None,
    skip: list[str] | None = None,
    budget_s: float | None = None,
) -> plan.Plan:
    return plan.make(found, words or [], skip or [], "quick", budget_s, 1)


def test_every_cell_has_a_state_before_the_run() -> None:
    found = made(
        suites(get=facts("storage/raw/strata/1"), raw=facts(), lost=facts("storage/gone/strata/1")),
        skip=["storage/raw"],
    )
    assert [(cell.kind, cell.id) for cell in found.design.plan] == [
        ("time", "storage/get/strata/1"),
        ("time", "storage/raw/strata/1"),
        ("time", "storage/lost/strata/1"),
        ("ratio", "storage/get/strata/1"),
        ("ratio", "storage/lost/strata/1"),
    ], "no family is left where the floor is left out"
    assert found.benches["storage/raw/strata/1"].state == "skipped"
    assert (found.ratios["storage/get/strata/1"].state, found.ratios["storage/get/strata/1"].reasons) == (
        "not_run",
        ["its floor is left out: --skip storage/raw"],
    )
    lost = found.ratios["storage/lost/strata/1"]
    assert (lost.state, lost.reasons) == ("invalid", ["its floor storage/gone/strata/1 is no row of any bench"])


def test_a_ratio_of_unlike_work_is_not_formed() -> None:
    other = Facts("reads", "bytes", 1024, 1)
    assert made(suites(get=facts("storage/raw/strata/1"), raw=other)).ratios["storage/get/strata/1"].state == "invalid"


def test_the_design_says_whether_code_was_placed_anew() -> None:
    found = suites(get=facts("storage/raw/strata/1"), raw=facts())
    assert not made(found).design.linked_anew
    linked = {layer: dataclasses.replace(suite, link=Link(("a.o",), ())) for layer, suite in found.items()}
    assert made(linked).design.linked_anew


def test_the_order_is_the_seeds_and_differs_between_rounds() -> None:
    rows = {
        name: facts(floor)
        for n in range(9)
        for name, floor in ((f"get{n}", f"storage/raw{n}/strata/1"), (f"raw{n}", None))
    }
    found = made(suites(**rows))
    assert len(found.families) == 9
    once, again = (list(plan.rounds(found.design, found.benches, found.families, found.ratios)) for _ in range(2))
    assert once == again
    assert len({tuple(job.subject for job in jobs) for jobs in once}) > 1


def test_rows_without_a_partner_run_alone_and_the_others_in_turns() -> None:
    found = plan.make(suites(get=facts("storage/raw/strata/1"), raw=facts(), scan=facts()), [], [], "default", None, 1)
    assert {id: bench.family for id, bench in found.benches.items()} == {
        "storage/get/strata/1": "storage/raw/strata/1",
        "storage/raw/strata/1": "storage/raw/strata/1",
        "storage/scan/strata/1": None,
    }
    assert plan.timeable(found.design, found.benches, 0) == {"storage": ["storage/scan/strata/1"]}
    assert plan.timeable(found.design, found.benches, 1) == {}


def test_a_row_beyond_the_reach_of_a_scale_runs_alone_or_not_at_all() -> None:
    far = facts("storage/raw/strata/1", depth="full")
    quick, usual, full = (
        plan.make(suites(get=far, raw=facts(depth="full")), [], [], scale, None, 1)
        for scale in ("quick", "default", "full")
    )
    assert quick.benches["storage/get/strata/1"].reasons == [plan.OUT_OF_REACH] and not quick.families
    assert plan.timeable(usual.design, usual.benches, 0) and usual.ratios["storage/get/strata/1"].reasons == [
        plan.NOT_PAIRED["full"]
    ]
    assert list(full.families) == ["storage/raw/strata/1"]


def test_a_named_row_takes_its_partners_along() -> None:
    found = made(
        suites(get=facts("storage/raw/strata/1", depth="full"), raw=facts(), scan=facts()), words=["storage/get"]
    )
    assert list(found.benches) == ["storage/get/strata/1", "storage/raw/strata/1"]
    assert list(found.families) == ["storage/raw/strata/1"]


def test_a_partner_that_was_taken_along_comes_without_its_own() -> None:
    found = suites(two=facts(against=["storage/one/strata/1"]), one=facts("storage/peer/strata/1"), peer=facts())
    plan = made(found, ["storage/two"])
    assert list(plan.benches) == ["storage/two/strata/1", "storage/one/strata/1"] and not plan.ratios


def test_what_many_samples_take_says_nothing_of_few() -> None:
    costs, rows = plan.Costs(), [facts()]
    many, few = (dataclasses.replace(made(suites(get=facts())).design, sample_size=size) for size in (9, 7))
    costs.learn(plan.remembered_by(many, plan.PlannedJob(0, "time", "storage")), 2.0)
    assert plan.layer_s(many, "storage", rows, costs) - plan.layer_s(few, "storage", rows, costs) == pytest.approx(
        2.0 - plan.UNKNOWN_EXTRA_S
    )


def test_a_budget_that_all_layers_do_not_fit_into_buys_less_of_each() -> None:
    one = suites(get=facts())
    few, usual, many = (made(one, budget_s=minutes * 60).design for minutes in (10, 30, 60))
    assert few.processes < usual.processes <= many.processes and usual.workload_processes < many.workload_processes


def test_tuples_grow_with_the_time_there_is() -> None:
    many = suites(
        **{
            name: facts(floor)
            for n in range(90)
            for name, floor in ((f"get{n}", f"storage/raw{n}/strata/1"), (f"raw{n}", None))
        }
    )
    few, more = made(many, budget_s=16 * 60), made(many, budget_s=39 * 60)
    assert 6 <= few.design.tuples < more.design.tuples


def test_a_budget_that_cannot_hold_is_refused_before_it_is_spent() -> None:
    many = suites(
        **{
            name: facts(floor)
            for n in range(99)
            for name, floor in ((f"get{n}", f"storage/raw{n}/strata/1"), (f"raw{n}", None))
        }
    )
    with pytest.raises(UserError, match="name fewer layers, or a larger --budget"):
        made(many, budget_s=60)


def test_families_that_fail_are_left_out_of_later_rounds() -> None:
    found = made(suites(get=facts("storage/raw/strata/1"), raw=facts()))
    rounds = plan.rounds(found.design, found.benches, found.families, found.ratios)
    assert [job.kind for job in next(rounds)] == ["tuple"]
    found.families["storage/raw/strata/1"].state = "invalid"
    assert next(rounds) == []


def test_a_wide_interval_goes_on_whichever_side_its_goal_lies() -> None:
    found = plan.make(
        suites(get=facts("storage/raw/strata/1"), raw=facts(), other=facts("storage/bare/strata/1"), bare=facts()),
        [],
        [],
        "full",
        None,
        1,
    )
    assert (found.design.tuples, found.design.wide_tuples, found.design.processes) == (12, 24, 5)
    for at_least in (0.1, 0.9):
        for id, low, high in (("storage/get/strata/1", 0.74, 0.95), ("storage/other/strata/1", 0.8, 0.9)):
            ratio = found.ratios[id]
            ratio.ratio, ratio.low, ratio.high, ratio.at_least = 0.85, low, high, at_least
        later = [
            [job.subject for job in jobs]
            for jobs in plan.rounds(found.design, found.benches, found.families, found.ratios)
        ][12:]
        assert later == [["storage/raw/strata/1"]] * 12


def test_schema_is_named_in_the_history() -> None:
    assert f"schema {runs.SCHEMA}:" in (runs.__doc__ or "")


def test_a_peer_is_paired_without_a_goal() -> None:
    peer = facts()
    peer.floor = Floor("storage/other/strata/1")
    ratio = made(suites(get=peer, other=facts())).ratios["storage/get/strata/1"]
    assert (ratio.state, ratio.floor, ratio.at_least, ratio.aim) == ("not_run", "storage/other/strata/1", None, None)


def test_facts_of_a_peer_and_of_a_place_on_an_axis_are_read() -> None:
    told = {
        "op": "reads",
        "unit": "records",
        "units_per_operation": 1,
        "threads": 4,
        "scale": {"axis": "threads", "x": 4.0},
    }
    read = serialization.parse(Facts, told | {"floor": {"id": "storage/other/strata/1", "at_least": None, "aim": None}})
    assert (read.scale, read.floor) == (Place("threads", 4.0), Floor("storage/other/strata/1"))
    assert serialization.parse(Facts, told | {"scale": None}).scale is None


def workloads() -> dict[str, Suite]:
    load = facts("storage/raw_load/strata/1", workload=True)
    return suites(get=facts("storage/raw/strata/1"), raw=facts(), load=load, raw_load=facts(workload=True))


def test_workloads_run_alone_and_take_turns_with_their_floors_too() -> None:
    found = plan.make(workloads(), [], [], "full", None, 1)
    rows = [plan.timeable(found.design, found.benches, number).get("storage", []) for number in range(3)]
    assert [len(measured) for measured in rows] == [2, 2, 0], "latencies are those of a whole life"
    assert list(found.families) == ["storage/raw/strata/1", "storage/raw_load/strata/1"]


def test_the_quick_scale_leaves_workloads_out_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = made(workloads())
    assert (found.benches["storage/load/strata/1"].state, found.benches["storage/load/strata/1"].reasons) == (
        "not_run",
        [plan.LEFT_OUT],
    )
    assert found.ratios["storage/load/strata/1"].reasons == [plan.LEFT_OUT]
    new_run._announce(found, Path("run.json"))
    assert "2 rows in 1 family, 6 tuples each; 0 alone, in 0 processes each" in capsys.readouterr().err
    named = made(workloads(), words=["storage/load", "storage/raw_load"])
    assert plan.timeable(named.design, named.benches, 0) == {
        "storage": ["storage/load/strata/1", "storage/raw_load/strata/1"]
    }


def test_a_run_of_the_first_schema_is_read_as_one_of_the_present(tmp_path: Path) -> None:
    content = json.loads(serialization.text(runs.load(document.reference())))
    content["schema"] = 1
    content["design"].pop("workload_processes", None)
    for bench in content["benches"].values():
        bench.pop("latencies", None)
        bench.pop("measures", None)
    (tmp_path / "old.json").write_text(json.dumps(content))
    run = runs.load(tmp_path / "old.json")
    assert run.schema == runs.SCHEMA and run.design.workload_processes == 0
    assert all(bench.latencies == {} and bench.measures == {} for bench in run.benches.values())


def test_what_is_beyond_the_share_of_a_layer_is_left_to_a_full_run_in_the_order_of_the_source() -> None:
    rows = {
        f"{name}{number}": facts(f"storage/raw{number}/strata/1" if name == "get" else None)
        for number in range(6)
        for name in ("get", "raw")
    }
    share = {"storage": 21.0}
    found = plan.make(suites(**rows), [], [], "default", None, 1, share)
    kept = [id for id, bench in found.benches.items() if not bench.reasons]
    assert kept == [f"storage/{name}{number}/strata/1" for number in range(2) for name in ("get", "raw")], (
        "two families, each of three lanes and six tuples"
    )
    assert {tuple(bench.reasons) for bench in found.benches.values()} == {(), (plan.BEYOND,)} and len(
        found.families
    ) == 2
    smallest = dataclasses.replace(found.design, tuples=6)
    assert (
        plan.seconds_of(smallest, found.benches, found.families, found.ratios, plan.Costs(learned=False))
        <= share["storage"]
    )
    whole: list[tuple[list[str], Scale]] = [(["storage"], "default"), ([], "full")]
    for words, scale in whole:
        made = plan.make(suites(**rows), words, [], scale, None, 1, share)
        assert not any(bench.reasons for bench in made.benches.values())


def test_what_a_newcomer_types_takes_at_most_a_quarter_of_an_hour_whatever_layers_come() -> None:
    """Beside the shares there are the sentinels, some seconds, and the build."""
    assert set(shares()) == set(layer_names()), "each layer has a share, and each share is of a layer"
    seconds = plan.EFFORTS["default"].seconds
    assert seconds is not None and sum(shares().values()) <= seconds and 1.05 * seconds <= 15 * 60
