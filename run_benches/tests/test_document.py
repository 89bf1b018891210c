"""The performance document: what a page must say, must not say, and how a page that lies is found."""

import copy
import functools
import json
import posixpath
import re
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from run_benches import serialization
from run_benches.analysis import figures, ladder
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import Held
from run_benches.analysis.ladder import Rung
from run_benches.analysis.row import LAYERS, Row
from run_benches.calibrate import error_rates
from run_benches.calibrate.error_rates import ErrorRates
from run_benches.errors import UserError
from run_benches.render import calibration_pictures, cells, document, gallery, page, pictures
from run_benches.store import runs
from run_benches.store.runs import Bench, Binary, Build, Cell, Design, Floor, Machine, Measure, Ratio, Run, Tool, Turns
from run_benches.tests import made_up, test_error_rates

HEADERS = {
    "storage": "The engine: get, scan, write.\n\nA read is timed from the call to the pinned bytes.",
    "integration": "The verbs by the number of indexes.",
    "ladder": "The same request at every rung.",
}


def a_run() -> Run:
    """A whole run as the runner stores it: storage with floors, CRUD by 0, 1, 2 indexes with 1 and 8 threads, and the
    ladder."""
    benches = {**_storage(), **_crud(), **_ladder()}
    ratios = {
        "storage/get/strata/memtable": a_ratio("storage/get/floor/memtable", 0.97, 0.95, 0.98),
        "storage/get/strata/sst": a_ratio("storage/get/floor/sst", 0.91, 0.01, 0.95, low=0.900, high=0.921),
        "integration/create/strata/2_indexes_1_thread": a_ratio(
            "integration/create/floor/2_indexes_1_thread", 0.88, 0.85, 0.92
        ),
        "integration/delete/strata/2_indexes_1_thread": Ratio(
            "not_run", ["the run was stopped"], "integration/delete/floor/x", 0.85, 0.92
        ),
    }
    ratios["storage/get/strata/sst"].at_least = 0.95
    ratios["storage/get/strata/sst"].aim = 0.98
    plan = [Cell("time", id.split("/")[0], id) for id in benches] + [
        Cell("ratio", id.split("/")[0], id) for id in ratios
    ]
    run = Run(
        schema=3,
        name="reference",
        tool=Tool("0123456789abcdef0123456789abcdef01234567", False, "ab" * 32),
        command=["/home/somebody/strata/run-benches.py", "--full"],
        started="2025-11-21T09:00:00Z",
        seconds=3000.0,
        scale="full",
        complete=True,
        partial=None,
        machine=Machine(made_up.A_MACHINE, {"kernel": "6.1", "file_system": "ext4"}),
        build=Build("rustc 1.93.0", "-C llvm-args=-align-all-functions=6", "release"),
        binaries={"storage": Binary("cd" * 32, 12345678)},
        engine={"storage": {"block_cache_mb": 512}, "integration": {"block_cache_mb": 512}},
        design=Design(20250101, 5, 20, 3.0, 5.0, tuples=16, lane_s=0.3, budget_s=None, plan=plan),
        benches=benches,
        ratios=ratios,
    )
    return _turned(run)


def a_run_of_one_layer() -> Run:
    """A run that was limited to a layer."""
    run = a_run()
    run.partial, run.benches = ["storage"], _storage()
    run.ratios, run.families, run.contrasts = {}, {}, {}
    run.design.plan = [Cell("time", "storage", id) for id in run.benches]
    return run


def _turned(run: Run) -> Run:
    """CRUD took turns with the verb without an index, each rung of a clock with the rung below, and storage with its
    floors."""
    for threads in (1, 8):
        for verb in (*CRUD_NS, "mixed"):
            made_up.family(
                run, [f"integration/{verb}/strata/{indexes}_indexes_{threads}_thread" for indexes in range(3)]
            )
    for request, rungs in LADDER_NS.items():
        for clock in ("wall", "cpu"):
            ids = [id for rung in rungs if run.benches[id := _rung(request, rung)].facts.clock == clock]
            made_up.family(run, ids, zip(ids[1:], ids, strict=False))
    for state in ("memtable", "sst"):
        made_up.family(run, [f"storage/get/{subject}/{state}" for subject in ("floor", "strata")])
    run.design.plan += [Cell("family", id.split("/")[0], id) for id in run.families]
    return run


def _rung(request: str, rung: str) -> str:
    return f"ladder/{request}/{'floor' if rung == 'raw' else 'strata'}/{rung}"


def a_ratio(
    floor: str, middle: float, at_least: float, aim: float, low: float | None = None, high: float | None = None
) -> Ratio:
    """Sixteen tuples around a ratio, and its interval."""
    pairs = [middle + shift / 1000 for shift in range(-8, 8)]
    return Ratio("ran", [], floor, at_least, aim, pairs, middle, low or middle - 0.012, high or middle + 0.011)


def _storage() -> dict[str, Bench]:
    found = {}
    for state, time_ns in (("memtable", 812.0), ("sst", 1530.0)):
        floor = Floor(f"storage/get/floor/{state}", 0.95, 0.98)
        found[f"storage/get/strata/{state}"] = made_up.bench(
            time_ns, "reads one record into pinned bytes", state=state, floor=floor
        )
        found[f"storage/get/floor/{state}"] = made_up.bench(
            time_ns * 0.95, "reads one value by get_pinned_cf_opt", state=state
        )
    found["storage/scan/strata/hundred"] = made_up.bench(
        21_400, "scans 100 records", unit="records", units_per_operation=100.0
    )
    return found


CRUD_NS = {
    "create": (5200, 7100, 9300),
    "read": (1210, 1215, 1208),
    "update": (6900, 9800, 12700),
    "delete": (3900, 5600, 7700),
}
CACHED, WRITTEN = "SST, cached", "SST, cached; what is written, memtable"


def _crud() -> dict[str, Bench]:
    found = {}
    for threads in (1, 8):
        for verb, times in {**CRUD_NS, "mixed": (2600, 3100, 3900)}.items():
            for indexes, time_ns in enumerate(times):
                case = f"{indexes}_indexes_{threads}_thread"
                scaled = time_ns * (0.7 if threads == 8 else 1)
                state = CACHED if verb == "read" else WRITTEN
                found[f"integration/{verb}/strata/{case}"] = made_up.bench(
                    scaled, f"one {verb}", threads=threads, indexes=indexes, state=state
                )
    found["integration/mixed/strata/2_indexes_8_thread"].state = "skipped"
    found["integration/mixed/strata/2_indexes_8_thread"].reasons = ["fewer than 8 threads are allowed here"]
    found["integration/mixed/strata/2_indexes_8_thread"].points_ns = []
    return found


RUNGS = ("raw", "storage", "transaction", "handlers", "routing", "driver", "ingress", "ingress_cpu", "tcp")
LADDER_NS = {
    "get": dict(zip(RUNGS, (780, 812, 901, 1180, 1260, 1500, 2410, 2400, 12_300), strict=True)),
    "create": dict(zip(RUNGS, (4100, 4290, 6800, 8300, 8420, 8700, 10_200, 10_100, 23_900), strict=True)),
}


def _ladder() -> dict[str, Bench]:
    found = {}
    for request, rungs in LADDER_NS.items():
        for rung, time_ns in rungs.items():
            clock = "cpu" if rung in ("ingress_cpu", "tcp") else "wall"
            found[_rung(request, rung)] = made_up.bench(time_ns, f"one {request}", clock=clock)
    return found


@functools.cache
def a_calibration() -> ErrorRates:
    """Returns what a calibration of enough pairs for one comparison tells."""
    return error_rates.results(test_error_rates.simulated(test_error_rates.PAIRS), test_error_rates.RULES, shuffles=1)


def pages(run: Run | None = None, calibration: ErrorRates | None = None) -> dict[str, str]:
    return page.render(Findings.of(run or a_run()), HEADERS, calibration)


def whole() -> Run:
    """With the rows of scaling and the workloads."""
    return made_up.planned(made_up.with_scaling(a_run()), made_up.macro())


def rendered(run: Run | None = None, calibration: ErrorRates | None = None) -> str:
    return pages(run, calibration)[page.MAIN]


def beside(name: str, run: Run | None = None, calibration: ErrorRates | None = None) -> str:
    """One of the pages beside the main one."""
    return pages(run, calibration)[f"performance/{name}.md"]


def section(text: str, title: str) -> str:
    """The text of one `##` section."""
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def row_of(run: Run, id: str) -> Row:
    return next(row for row in Findings.of(run).rows if row.id == id)


def held_of(run: Run, id: str) -> Held:
    return next(held for held in Findings.of(run).held if held.row.id == id)


def line_with(text: str, *parts: str) -> str:
    """The one line that holds all the parts."""
    return next(line for line in text.splitlines() if all(part in line for part in parts))


MEMTABLE, SST, HUNDRED = "storage/get/strata/memtable", "storage/get/strata/sst", "storage/scan/strata/hundred"
CREATE = "integration/create/strata/{}_indexes_1_thread"


# Every page.


def test_the_main_page_is_short_also_where_everything_was_run_and_much_was_missed() -> None:
    run = whole()
    for number in range(60):
        made_up.planned(run, {f"storage/get/strata/{number}": made_up.bench(812.0, "reads one record")})
        run.ratios[f"storage/get/strata/{number}"] = a_ratio("storage/get/floor/sst", 0.5, 0.95, 0.98)
    headers = HEADERS | {layer: "A layer." for layer in LAYERS}
    assert page.render(Findings.of(run), headers, a_calibration())[page.MAIN].count("\n") < page.MOST_LINES


@pytest.mark.parametrize(
    ("main", "folder"),
    [("PERFORMANCE.md", "performance"), ("my-machine.md", "my-machine"), ("plain", "plain-pages")],
)
def test_every_link_leads_to_a_page_or_a_picture_from_where_it_stands(main: str, folder: str) -> None:
    found = Findings.of(whole())
    drawn = [*gallery.pictures(found).values(), *calibration_pictures.pictures(a_calibration())]
    texts = page.render(found, HEADERS, a_calibration(), main)
    met = {
        posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
        for place, text in texts.items()
        for link in re.findall(r"\]\(([^)#]+)\)", text)
    }
    assert met == {*texts, *(f"{folder}/pictures/{picture.file}" for picture in drawn)}


def test_the_same_run_gives_the_same_bytes() -> None:
    assert rendered() == rendered()
    assert rendered() == rendered(serialization.parse(Run, json.loads(serialization.text(a_run()))))


def test_marks_name_the_command_without_folders_and_the_revision() -> None:
    assert "<!-- BEGIN summary: python3 run-benches.py --full @ 0123456789ab -->" in rendered()
    assert not [name for name, text in pages().items() if "/home/somebody" in text]


def test_words_of_a_layer_come_from_its_bench() -> None:
    assert HEADERS["storage"] in beside("storage")


# The figures of rows.


def test_what_an_index_costs_is_a_difference_with_its_interval_by_the_number_of_threads() -> None:
    crud = Findings.of(a_run()).crud
    assert {
        threads: {row.bench.facts.threads for line in lines for row in line.cells.values()}
        for threads, lines in crud.items()
    } == {1: {1}, 8: {8}}, "threads share no column"
    loss = crud[1][0].loss(2)
    assert crud[1][0].operation == "create" and loss
    found = loss.added()
    assert found.low and found.high and found.low < found.middle < found.high
    assert found.middle == pytest.approx(9300 / 5200 - 1, rel=0.01)
    assert crud[1][0].loss(0) is None and crud[8][-1].loss(2) is None, "it did not run"


def test_a_time_is_that_of_its_base_times_their_ratio_and_says_where_its_processes_measured_another() -> None:
    run, one = a_run(), CREATE.format(1)
    assert row_of(run, one).remark == ""
    made_up.set_ratio(run, one, CREATE.format(0), 2.0)
    found = row_of(run, one)
    assert found.measured and found.measured.middle == pytest.approx(10_400) and "7.10 us" in found.remark
    assert (found.measured.low, found.measured.high) == (6958.0, 7313.0), "the range is of its own processes"


def test_parts_of_a_mix_are_no_verbs() -> None:
    run, part = a_run(), "integration/mixed_read/strata/0_indexes_1_thread"
    run.benches[part] = made_up.bench(1000, "reads", indexes=0)
    assert [line.operation for line in Findings.of(run).crud[1]] == [*CRUD_NS, "mixed"]
    assert f"`{part}`" in beside("integration", run)


def test_verbs_that_differ_in_case_stand_in_lines_of_their_own_and_share_the_base() -> None:
    run = a_run()
    for indexes in (1, 2):
        id = f"integration/update/strata/unchanged_{indexes}_indexes_1_thread"
        run.benches[id] = made_up.bench(7000, "one update", threads=1, indexes=indexes, state=WRITTEN)
        made_up.family(run, ["integration/update/strata/0_indexes_1_thread", id])
    usual, unchanged = (line for line in Findings.of(run).crud[1] if line.operation == "update")
    assert (usual.variant, unchanged.variant) == ("", "unchanged")
    assert usual.cells[0] is unchanged.cells[0] and usual.cells[1] is not unchanged.cells[1]
    losses = [loss.added().middle for line in (usual, unchanged) if (loss := line.loss(1))]
    assert losses == pytest.approx([9800 / 6900 - 1, 7000 / 6900 - 1], rel=0.01)


def test_units_share_no_table() -> None:
    storage = beside("storage")
    operations, records = storage.split("counted in records")
    assert "counted in operations" in operations and HUNDRED in records and HUNDRED not in operations


def test_what_was_counted_is_told_by_operation_or_without_a_number_and_none_is_not_told() -> None:
    run = a_run()
    scan = run.benches[HUNDRED]
    scan.counters = {"waits": 4821, "flushes": 0, "bytes_written": 20 * 2**20}
    assert not re.search(r"\d|flushes", told := cells.counters(row_of(run, HUNDRED))) and "waits" in told
    scan.facts.timed_operations = 10_000
    assert cells.counters(row_of(run, HUNDRED)) == "waits 0.482; bytes written 2.05 KiB"


@pytest.mark.parametrize(("counters", "unflushed"), [(None, False), ({"flushes": 0}, True), ({"flushes": 1}, False)])
def test_a_ratio_of_a_workload_says_what_took_turns(counters: dict[str, Any] | None, unflushed: bool) -> None:
    run = a_run()
    run.benches[MEMTABLE].facts.workload, run.benches[MEMTABLE].facts.turn_operations = True, 50
    run.benches[MEMTABLE].turns = Turns(50, counters)
    told = cells.ratio(held_of(run, MEMTABLE))
    assert "50 operations" in told and ("without a flush" in told) == unflushed
    assert "operations" not in cells.ratio(held_of(run, SST))


def test_a_row_that_took_no_turns_is_warm_and_others_say_how_many_lanes_did() -> None:
    run = a_run()
    assert (row_of(run, HUNDRED).remark, row_of(run, HUNDRED).lanes) == ("warm", 0)
    found = row_of(run, CREATE.format(1))
    assert (found.remark, found.lanes) == ("", len(run.families[found.bench.family or ""].rows) + 1)
    assert f"{found.lanes} lanes" in cells.conditions(found)


# Goals.


def test_a_goal_is_met_or_missed_by_its_whole_interval_or_not_judged() -> None:
    assert {held.row.id: held.standing for held in Findings.of(a_run()).goals} == {
        MEMTABLE: "met",
        SST: "missed",
        CREATE.format(2): "met",
        "integration/delete/strata/2_indexes_1_thread": None,
    }
    excess = {held.row.id: held.excess_ns for held in Findings.of(a_run()).goals if held.excess_ns is not None}
    assert excess == {SST: pytest.approx(1530 * (1 - 0.921 / 0.95))}, "by the higher end, and of what is missed alone"


@pytest.mark.parametrize(("middle", "needed"), [(0.96, 24), (0.945, 77), (0.9501, None)])
def test_an_interval_on_both_sides_of_the_goal_shows_nothing(middle: float, needed: int | None) -> None:
    run = a_run()
    run.ratios[MEMTABLE] = a_ratio("storage/get/floor/memtable", middle, 0.95, 0.98)
    held = held_of(run, MEMTABLE)
    assert (held.standing, held.tuples_needed, held.excess_ns) == ("not shown", needed, None)
    assert str(needed or 1000) in held.verdict


def test_floors_peers_and_rows_of_ours_stand_in_tables_of_their_own() -> None:
    run = a_run()
    run.benches["storage/get/other/sst"] = made_up.bench(3000, "reads one record, without a checksum", state="sst")
    run.ratios[HUNDRED] = a_ratio(SST, 0.5, 0.4, 0.6)
    found, text = Findings.of(run), beside("storage", run)
    assert HUNDRED not in [held.row.id for held in found.floors] and len(found.goals) == 5
    assert HUNDRED not in section(text, "Held against floors")
    assert HUNDRED in section(text, "Held against rows of ours")
    assert "without a checksum" in section(text, "Beside other systems")


# The ladder.


def test_the_ladder_says_what_each_rung_adds_to_the_nearest_below_it_of_the_same_clock() -> None:
    rungs = Findings.of(a_run()).ladders["get"]
    by_name: dict[str, Rung] = {rung.name: rung for rung in rungs}
    below = {rung.name: rung.below.name for rung in rungs if rung.below}
    assert (below["transaction"], below["tcp"]) == ("storage", "ingress_cpu") and "ingress_cpu" not in below
    added = by_name["transaction"].added
    assert added and added.low and added.high and added.low < 901 - 812 < added.high
    assert ladder.share(rungs, by_name["ingress"]) == pytest.approx(910 / 2410, rel=0.01), "of its own clock"
    assert ladder.share(rungs, by_name["tcp"]) == pytest.approx(9.9 / 12.3, rel=0.01)


def test_a_clock_of_another_kind_is_not_compared() -> None:
    run = a_run()
    run.families, lower = {}, _rung("get", "ingress_cpu")
    del run.benches[lower]
    assert {rung.below for rung in Findings.of(run).ladders["get"] if rung.name == "tcp"} == {None}


# What is absent.


def test_a_cell_that_did_not_run_says_why_and_is_never_zero_or_blank() -> None:
    assert "fewer than 8 threads are allowed here" in section(rendered(), "CRUD by index count")
    assert "the run was stopped" in line_with(beside("integration"), "| `integration/delete/strata", "not judged")
    for text in pages().values():
        assert not re.search(r"\| 0(\.0+)? ns", text)
        assert not re.search(r"(?m)^\|.*\|  ?\|.*\|$", text)


@pytest.mark.parametrize(
    ("points_ns", "why"), [([], "no process left a figure"), ([0.0, 0.0], "a time of 0"), ([0.0, 900.0], "a time of 0")]
)
def test_a_figure_of_no_process_and_a_time_of_zero_are_no_figures(points_ns: list[float], why: str) -> None:
    run = a_run()
    run.benches[CREATE.format(1)].points_ns = points_ns
    found = row_of(run, CREATE.format(1))
    assert found.measured is None and found.why_not.startswith("invalid: ") and why in found.why_not


def test_a_bench_and_a_verb_without_rows_are_said_to_be_not_run() -> None:
    assert "not run: there is no bench" in beside("macro")
    run = a_run()
    run.benches = {id: bench for id, bench in run.benches.items() if "/delete/" not in id}
    run.design.plan = [cell for cell in run.design.plan if "/delete/" not in cell.id]
    verb = line_with(section(rendered(run), "CRUD by index count"), "| DELETE |")
    assert "not run: the run planned no such row" in verb


def test_a_run_of_one_layer_says_what_it_was_limited_to() -> None:
    run = a_run_of_one_layer()
    text = rendered(run)
    for title in ("CRUD by index count", "The ladder"):
        assert "not run: measured were storage" in section(text, title)
    assert "pictures/ladder" not in text
    assert "storage**" in section(text, "The machine and the runs")
    assert {check.looked_at for check in Findings.of(run).checks if check.rule.startswith("no rung")} == {0}


def test_error_rates_are_told_or_said_not_to_be_measured() -> None:
    for calibration in (None, a_calibration()):
        method = beside("method", calibration=calibration)
        for text in (section(rendered(calibration=calibration), "How sure we are"), method):
            assert ("have not been measured yet" in text) == (calibration is None)
        assert ("BEGIN calibration" in method) == (calibration is not None)


def test_error_rates_of_another_machine_are_said_to_be_so() -> None:
    calibration, words = copy.deepcopy(a_calibration()), "Measured on another machine"
    calibration.machine.identity = {"cpu_model": "Another processor", "cores": 64}
    assert "Another processor" in line_with(beside("method", calibration=calibration), words)
    calibration.machine.identity = a_run().machine.identity
    assert words not in beside("method", calibration=calibration)


def test_a_floor_that_no_pair_was_planned_for_and_too_few_pairs_are_not_judged() -> None:
    run = a_run()
    few = run.ratios[SST]
    few.pairs, few.ratio, few.low, few.high = few.pairs[:3], None, None, None
    held = held_of(run, SST)
    assert (held.judged, held.verdict) == (False, "not judged") and "3 tuples: too few" in held.why_not
    del run.ratios[SST]
    run.design.plan = [cell for cell in run.design.plan if (cell.kind, cell.id) != ("ratio", SST)]
    held = held_of(run, SST)
    assert (held.judged, held.verdict) == (False, "not judged") and "no turns" in held.why_not
    assert held.why_not in line_with(section(beside("storage", run), "Held against floors"), f"`{SST}`")


@pytest.mark.parametrize(("linked_anew", "said"), [(False, True), (True, False), (None, False)])
def test_a_run_that_was_not_linked_anew_says_what_its_intervals_leave_out(linked_anew: bool, said: bool) -> None:
    run = a_run()
    run.design.linked_anew = linked_anew
    assert ("the placement of code" in beside("method", run)) == said


# Contradictions.


def _contrast(id: str, other: str, ratio: float, scatter: float = 1.0) -> Callable[[Run], None]:
    return lambda run: made_up.set_ratio(run, id, other, ratio, scatter)


def _bytes(run: Run) -> None:
    for rung, size in (("storage", 1024.0), ("transaction", 1000.0)):
        run.benches[_rung("get", rung)].facts.bytes_per_operation = size


def _allocations(run: Run) -> None:
    run.benches[_rung("get", "transaction")].allocations_per_operation = 1.0


def _floor(floor: str, threads: int = 1) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        run.benches["storage/get/other/sst"] = run.benches["storage/get/floor/sst"]
        run.ratios[SST] = a_ratio(floor, 1.2, 0.95, 0.98)
        run.benches[SST].facts.threads = threads

    return change


def _mix(mix_ns: float, layer: str = "integration", scatter: float = 1.0, turns: bool = True) -> Callable[[Run], None]:
    """A mix whose parts take 2.98 us together."""

    def change(run: Run) -> None:
        reads, creates = ("mixed_read", "mixed_create") if layer == "integration" else ("mixed_get", "mixed_post")
        mix, read, create = (f"{layer}/{verb}/strata/1_thread" for verb in ("mixed", reads, creates))
        rows = {mix: (mix_ns, "mixes"), read: (850.0, "reads"), create: (2130.0, "creates")}
        made_up.planned(run, {id: made_up.bench(*told) for id, told in rows.items()})
        made_up.family(run, list(rows), scatter=scatter)
        if not turns:
            run.contrasts = {}

    return change


def _contended(ten_keys_ns: float) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        for keys, alone_ns, contended_ns in ((1, 20.0, 15.0), (10, 20.0, ten_keys_ns)):
            for case, threads, time_ns in (("1_thread", 1, alone_ns), ("8_threads", 8, contended_ns)):
                id = f"locking/contention/strata/{keys}_keys_{case}"
                run.benches[id] = made_up.bench(time_ns, "locks a key", threads=threads)
                run.benches[id].counters = {"waits": 1000}

    return change


def _waiting(counters: dict[str, Any] | None) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        run.benches[CONTENDED] = made_up.bench(100.0, "locks a key", threads=8)
        run.benches[CONTENDED].counters = counters

    return change


CONTENDED = "locking/contention/strata/1_key_8_threads"


def _reading(time_ns: float) -> Callable[[Run], None]:
    return lambda run: run.benches.update(
        {"transaction/read/strata/sst": made_up.bench(time_ns, "reads one record", state="sst")}
    )


def _patching(indexes: int) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        for layer, time_ns, count in (("transaction", 5000.0, 2), ("ladder", 9000.0, indexes)):
            run.benches[f"{layer}/patch/strata/same"] = made_up.bench(time_ns, "patches one record", indexes=count)

    return change


def _clocks(run: Run) -> None:
    for rung, points in (("ingress", [54e3, 55e3, 56e3]), ("ingress_cpu", [42e3, 43e3, 44e3])):
        bench = run.benches[_rung("get", rung)]
        bench.points_ns, bench.family = points, None


def _alone(time_ns: float) -> Callable[[Run], None]:
    return lambda run: run.benches.update(
        {"ladder/create/strata/encoding": made_up.bench(time_ns, "encodes one record")}
    )


def _share(share: float) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        made_up.planned(run, made_up.macro())
        run.benches["macro/ycsb_a/strata/zipfian"].measures["cached"] = Measure("share", [0.5, share])

    return change


HANDLERS, TRANSACTION = _rung("get", "handlers"), _rung("get", "transaction")

CONTRADICTIONS: dict[Callable[[Run], None], tuple[str, int, list[str]]] = {
    _contrast(HANDLERS, TRANSACTION, 0.82): ("no rung of the ladder", 1, ["`get`", "`handlers`", "`transaction`"]),
    _bytes: ("moves in bytes", 1, ["`transaction`", "`storage`"]),
    _allocations: ("allocates", 1, ["`transaction`", "`storage`"]),
    _floor("storage/get/floor/sst"): ("faster than its floor", 1, [SST, "storage/get/floor/sst"]),
    _mix(2000.0): ("a mix", 1, ["`integration/mixed/strata/1_thread`", "faster", "`mixed_read`", "`mixed_create`"]),
    _mix(4500.0): ("a mix", 1, ["`integration/mixed/strata/1_thread`", "slower"]),
    _mix(2000.0, "handlers"): ("a mix", 1, ["`handlers/mixed/strata/1_thread`", "faster", "`mixed_get`"]),
    _mix(4500.0, "handlers"): ("a mix", 1, ["`handlers/mixed/strata/1_thread`", "slower", "`mixed_post`"]),
    _contended(15.0): ("contention is not faster", 1, ["1_keys_8_threads"]),
    _contended(9.0): ("contention is not faster", 2, ["1_keys_8_threads", "10_keys_8_threads"]),
    _reading(1400.0): ("no layer's own row", 1, ["transaction/read/strata/sst", SST]),
    _patching(2): ("the same work under", 1, ["ladder/patch/strata/same", "transaction/patch/strata/same"]),
    _waiting(None): ("has waited", 1, [CONTENDED]),
    _waiting({"waits": 0}): ("has waited", 1, [CONTENDED]),
    _clocks: ("on the wall as of the processor", 1, [_rung("get", "ingress"), _rung("get", "ingress_cpu")]),
    _alone(9050.0): ("a layer takes alone", 1, ["`create`", "`encoding`", "`transaction`"]),
    _share(1.2): ("no share", 1, ["macro/ycsb_a/strata/zipfian", "cached"]),
}
"""Changes that make a run contradict itself: words of the rule against which that is, how often, and what is named."""


@pytest.mark.parametrize(("contradict", "told"), CONTRADICTIONS.items(), ids=[of for of, *_ in CONTRADICTIONS.values()])
def test_a_contradiction_is_reported_by_its_rule_and_names_its_rows(
    contradict: Callable[[Run], None], told: tuple[str, int, list[str]]
) -> None:
    run, (rule, count, names) = a_run(), told
    contradict(run)
    (check,) = (check for check in Findings.of(run).checks if check.found)
    assert rule in check.rule and len(check.found) == count and check.looked_at >= count
    assert not [name for name in names if name not in " ".join(check.found)]
    assert "Figures contradict" in section(rendered(run), "What was found")
    assert check.found[0].partition(": ")[2] in beside("method", run)


@pytest.mark.parametrize(
    ("change", "rule", "looked_at"),
    [
        (lambda run: None, "no rung of the ladder", 14),
        (_contrast(HANDLERS, TRANSACTION, 0.99, 10), "no rung of the ladder", 14),
        (_floor("storage/get/other/sst"), "faster than its floor", 2),
        (_floor("storage/get/floor/sst", threads=2), "faster than its floor", 2),
        (_floor(HUNDRED), "faster than its floor", 2),
        *((_mix(mix_ns), "a mix", 1) for mix_ns in (2980.0, 2500.0, 3600.0)),
        *((_mix(mix_ns, scatter=60.0), "a mix", 1) for mix_ns in (2000.0, 4500.0)),
        (_mix(9000.0, turns=False), "a mix", 0),
        (_reading(1550.0), "no layer's own row", 1),
        (_patching(0), "the same work under", 0),
        (_waiting({"waits": 12}), "has waited", 1),
        (lambda run: None, "on the wall as of the processor", 2),
        (_alone(300.0), "a layer takes alone", 1),
        (_share(1.0), "no share", 1),
    ],
)
def test_what_is_possible_or_not_resolved_is_no_contradiction(
    change: Callable[[Run], None], rule: str, looked_at: int
) -> None:
    run = a_run()
    change(run)
    assert made_up.contradictions(run) == []
    assert [check.looked_at for check in Findings.of(run).checks if rule in check.rule] == [looked_at]


def test_a_rule_that_found_nothing_to_look_at_has_not_passed() -> None:
    checks = section(beside("method"), "Cross-checks")
    for check in Findings.of(a_run()).checks:
        assert ("not run" in line_with(checks, f"| {check.rule} |")) == (check.looked_at == 0)


def test_a_check_that_looked_at_nothing_though_it_could_is_blind() -> None:
    run = a_run()

    def blind() -> list[str]:
        return [check.rule for check in Findings.of(run).checks if check.is_blind]

    assert blind() == [], "there is no row of its kind"
    _waiting(None)(run)
    assert blind() == ["contention is not faster than none"]
    run.benches[CONTENDED].points_ns = [100.0]
    assert blind() == [], "one process contradicts nothing"


# `document` on files; pictures are drawn by a stand-in, so that no test here needs matplotlib.


class Pages:
    """A stored run, its pages, and the calibration beside it."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root, self.capture = root, capture
        self.run, self.main, self.calibrated = root / "mine.json", root / "PERFORMANCE.md", root / "results.json"
        self.folder = root / "performance"
        serialization.store(self.run, a_run())

    def call(self, dry_run: bool = False, check: bool = False) -> tuple[int, str]:
        self.capture.readouterr()
        code = document.main(self.run, self.main, dry_run, check, self.calibrated)
        return code, self.capture.readouterr().out

    def check(self) -> tuple[int, str]:
        return self.call(check=True)


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Pages:
    monkeypatch.setattr(pictures, "drawn", lambda picture: f"<svg>{picture.name}</svg>\n")
    return Pages(tmp_path, capsys)


def test_a_run_in_which_a_cross_check_is_blind_is_not_rendered(made: Pages) -> None:
    run = runs.load(made.run)
    _waiting(None)(run)
    runs.write(run, made.run)
    with pytest.raises(UserError, match="a cross-check looked at nothing.*: contention is not faster than none"):
        made.call()


def test_what_was_rendered_passes_the_check(made: Pages) -> None:
    assert (made.call()[0], made.check()[0]) == (0, 0)
    drawn = {path.name for path in (made.folder / "pictures").iterdir()}
    assert drawn == {"crud.svg", "floors.svg", "ladder.svg", "layer-storage.svg"}


@pytest.mark.parametrize(
    ("name", "block", "right", "wrong"),
    [
        ("PERFORMANCE.md", "crud", "5.20 us", "4.20 us"),
        ("performance/storage.md", "storage rows", "812 ns", "712 ns"),
    ],
)
def test_a_figure_edited_by_hand_fails_the_check_and_is_named_on_whatever_page(
    made: Pages, name: str, block: str, right: str, wrong: str
) -> None:
    made.call()
    path = made.root / name
    path.write_text(path.read_text().replace(f"{right} (", f"{wrong} (", 2))
    code, told = made.check()
    assert code == 1
    assert re.search(rf"{name}, line \d+ \(block `({block}|summary)`\) is not what .*mine.json says", told)
    assert re.search(rf"expected: .*{right}[^\n]*\n  found:    .*{wrong}", told)


def test_what_belongs_to_no_page_any_more_fails_the_check_until_it_is_rendered_again(made: Pages) -> None:
    made.call()
    (made.folder / "notes.md").write_text("mine\n")  # bears no mark of ours
    for stray in (made.folder / "gone.md", made.folder / "pictures" / "gone.svg"):
        stray.write_text((made.folder / ("method.md" if stray.suffix == ".md" else "pictures/crud.svg")).read_text())
        code, told = made.check()
        assert code == 1 and f"{stray.name} belongs to no page" in told
        made.call()
        assert (made.check()[0], stray.exists()) == (0, False)
    assert (made.folder / "notes.md").exists()


def test_a_page_that_is_gone_or_a_main_page_that_is_too_long_fails_the_check(
    made: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.call()
    (made.folder / "method.md").unlink()
    code, told = made.check()
    assert code == 1 and "method.md is missing" in told
    monkeypatch.setattr(document, "MOST_LINES", 10)
    made.call()
    code, told = made.check()
    assert code == 1 and "10 are the most" in told


def test_a_line_added_or_cut_fails_the_check(made: Pages) -> None:
    made.call()
    honest = made.main.read_text()
    for false in (honest + "one more\n", honest[:-40], honest + "\n", honest.rstrip("\n")):
        made.main.write_text(false)
        assert made.check()[0] == 1


def test_a_picture_edited_drawn_from_other_figures_or_missing_fails_the_check(made: Pages) -> None:
    serialization.store(made.calibrated, a_calibration())
    made.call()
    for name in ("floors.svg", "calibration-power.svg"):
        picture = made.folder / "pictures" / name
        honest = picture.read_text()
        picture.write_text(honest.replace("<svg>", "<svg> "))
        code, told = made.check()
        assert code == 1 and f"{name} was edited after it was drawn" in told
        picture.unlink()
        code, told = made.check()
        assert code == 1 and f"{name} is missing" in told
        picture.write_text(honest)
    other = a_run()
    other.ratios[SST].ratio = 0.99
    (made.folder / "pictures" / "floors.svg").write_text(gallery.pictures(Findings.of(other))["floors"].svg())
    code, told = made.check()
    assert code == 1 and "floors.svg was drawn from other figures" in told


def test_an_error_rate_edited_by_hand_fails_the_check_and_is_named(made: Pages) -> None:
    serialization.store(made.calibrated, a_calibration())
    made.call()
    assert made.check()[0] == 0
    method = made.folder / "method.md"
    false = re.sub(r"\b0 of (\d+): at most", r"1 of \1: at most", honest := method.read_text(), count=1)
    assert false != honest
    method.write_text(false)
    code, told = made.check()
    assert code == 1 and re.search(r"\(block `error rates`\) is not what .*mine.json with .*results.json says", told)


def test_other_error_rates_or_none_fail_the_check_of_a_page_until_it_is_rendered_again(made: Pages) -> None:
    changed = copy.deepcopy(a_calibration())
    changed.hours += 1
    made.call()
    for results in (a_calibration(), changed, None):
        if results:
            serialization.store(made.calibrated, results)
        else:
            made.calibrated.unlink()
        assert made.check()[0] == 1
        made.call()
        assert made.check()[0] == 0


def test_a_damaged_calibration_is_a_complaint(made: Pages) -> None:
    made.calibrated.write_text(serialization.text(a_calibration())[:-40])
    with pytest.raises(UserError, match="results.json is damaged .*run-benches.py calibrate"):
        made.call()


def test_a_dry_run_shows_the_change_and_writes_nothing(made: Pages) -> None:
    code, told = made.call(dry_run=True)
    assert (code, made.main.exists()) == (0, False)
    assert "+# Performance of Strata" in told and "crud.svg is missing" in told
    made.call()
    assert "nothing would change" in made.call(dry_run=True)[1]


def test_neither_run_nor_page_is_not_rendered_yet_and_a_page_without_its_run_proves_nothing(made: Pages) -> None:
    stored = made.run.read_text()
    made.run.unlink()
    code, told = made.check()
    assert code == 2 and "not rendered yet" in told
    made.run.write_text(stored)
    made.call()
    made.run.unlink()
    with pytest.raises(UserError, match="nothing proves the figures of .*PERFORMANCE.md") as error:
        made.check()
    assert error.value.code == 1


def test_the_committed_page_is_short_and_belongs_to_the_reference(made: Pages) -> None:
    _, texts, _ = document.contents(document.reference())
    assert texts[page.MAIN].count("\n") <= page.MOST_LINES
    with pytest.raises(UserError, match="rendered from baselines/reference"):
        document.main(made.run, document.PAGE, False, False)


def test_a_picture_drawn_by_a_module_of_its_own_is_drawn_again_when_that_changes(tmp_path: Path, made: Pages) -> None:
    seals = []
    for code in ("def draw(values): ...\n", "def draw(values): return values\n"):
        module = tmp_path / "drawing.py"
        module.write_text(code)
        found: dict[str, Any] = {}
        exec(compile(code, str(module), "exec"), found)  # noqa: S102 - the seal is of a function with a source
        seals.append(pictures.Picture("p", "a picture", [1], found["draw"]).svg())
    assert seals[0] != seals[1]


def test_the_same_values_are_drawn_to_the_same_bytes_and_every_text_stays_text() -> None:
    pytest.importorskip("matplotlib")
    run = whole()
    first, second = (
        {name: picture.svg() for name, picture in gallery.pictures(Findings.of(run)).items()} for _ in range(2)
    )
    assert first == second
    seen = {
        "crud": "9.30 us, +79 % [+78 %, +80 %]",
        "floors": "0.910 [0.900, 0.921]",
        "ladder": "+89.0 ns",
        "latencies": "ycsb_a/zipfian",
        "layer-storage": "get/memtable",
        "scaling-threads": "scaling/read",
        "scaling-records": "scaling/read (power)",
        "scaling-indexes": "scaling/insert (linear)",
    }
    assert set(first) == set(seen)
    for name, words in seen.items():
        assert words in first[name] and "nan" not in first[name]
        xml.etree.ElementTree.fromstring(first[name])


def test_the_header_ends_where_the_code_begins(tmp_path: Path) -> None:
    header = "//! One line.\n//!\n//! # Why\n//! Because.\n\nfn main() {}\n//! not this\n"
    (tmp_path / "storage.rs").write_text(header)
    (tmp_path / "floor.rs").write_text("//! A module.\n")
    assert page.bench_headers(tmp_path) == {"storage": "One line.\n\n**Why**\nBecause."}


# How figures are printed.


@pytest.mark.parametrize(
    ("told", "printed"),
    [
        (
            [figures.time(ns) for ns in (0.4123, 41.2, 999.4, 999.7, 1234, 45_600, 123_456, 9_999_999, 2.5e9)],
            ["0.412 ns", "41.2 ns", "999 ns", "1.00 us", "1.23 us", "45.6 us", "123 us", "10.0 ms", "2.50 s"],
        ),
        ([figures.time_range(950, 1210)], ["0.950 to 1.21 us"]),
        (
            [figures.rate(*what) for what in ((1230, "operations"), (1000, "bytes", 1024), (20_000, "records", 100))],
            ["813 k operations/s", "1.02 GB/s", "5.00 M records/s"],
        ),
        (
            [figures.percent(value) for value in (0.314, 0.0996, 0.024, -0.008, -0.0001)],
            ["31 %", "10 %", "2.4 %", "-0.8 %", "0.0 %"],
        ),
        ([figures.ratio(0.9341, 0.921, 0.945), figures.ratio(1.2)], ["0.934 [0.921, 0.945]", "1.200"]),
        ([figures.count(value) for value in (0, 3.0, 3.02)], ["0", "3", "3.02"]),
        ([figures.measure(value, "bytes") for value in (1536, 0)], ["1.50 KiB", "0 B"]),
        (
            [figures.measure(*what) for what in ((1.5, "seconds"), (0.25, "share"), (3.02, "ratio"), (420, "keys"))],
            ["1.50 s", "25 %", "3.02", "420 keys"],
        ),
        ([figures.amount(value) for value in (40, 999, 4821)], ["40", "999", "4.82 k"]),
        ([figures.round_amount(value) for value in (8, 10_000, 1e6)], ["8", "10 k", "1 M"]),
        ([figures.time_spread(figures.Spread(812, 812, 812, 1))], ["812 ns (1 process)"]),
    ],
    ids=["times", "range", "rates", "shares", "ratios", "counts", "sizes", "measures", "amounts", "chosen", "spread"],
)
def test_figures_have_three_digits_and_the_unit_after_rounding(told: list[str], printed: list[str]) -> None:
    assert told == printed


def test_a_spread_of_nothing_is_nothing() -> None:
    assert figures.spread([]) is None
