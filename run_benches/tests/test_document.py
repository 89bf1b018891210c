"""The performance document: what a page must say, must not say, and how a page that lies is found."""

import contextlib
import copy
import functools
import importlib.util
import io
import json
import math
import posixpath
import re
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path
from typing import Any
from unittest import mock

from run_benches import serialization
from run_benches.analysis import figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import LAYERS
from run_benches.calibrate import error_rates
from run_benches.calibrate.error_rates import ErrorRates
from run_benches.errors import UserError
from run_benches.render import calibration_pictures, document, gallery, page, pictures
from run_benches.store import runs
from run_benches.store.runs import Bench, Binary, Build, Cell, Design, Floor, Machine, Ratio, Run, Tool
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
        "storage/get/strata/memtable": _ratio("storage/get/floor/memtable", 0.97, 0.95, 0.98),
        "storage/get/strata/sst": _ratio("storage/get/floor/sst", 0.91, 0.01, 0.95, low=0.900, high=0.921),
        "integration/create/strata/2_indexes_1_thread": _ratio(
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


def _ratio(
    floor: str, middle: float, at_least: float, aim: float, low: float | None = None, high: float | None = None
) -> Ratio:
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


LADDER_NS = {
    "get": {
        "raw": 780,
        "storage": 812,
        "transaction": 901,
        "handlers": 1180,
        "routing": 1260,
        "driver": 1500,
        "ingress": 2410,
        "ingress_cpu": 2400,
        "tcp": 12_300,
    },
    "create": {
        "raw": 4100,
        "storage": 4290,
        "transaction": 6800,
        "handlers": 8300,
        "routing": 8420,
        "driver": 8700,
        "ingress": 10_200,
        "ingress_cpu": 10_100,
        "tcp": 23_900,
    },
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


def line_with(text: str, *parts: str) -> str:
    """The one line that holds all the parts."""
    return next(line for line in text.splitlines() if all(part in line for part in parts))


class Page(unittest.TestCase):
    maxDiff = None

    def test_sections_stand_in_their_order(self) -> None:
        titles = re.findall(r"^## (.*)$", rendered(), re.MULTILINE)
        self.assertEqual(
            titles,
            [
                "What was found",
                "The machine and the runs",
                "Summary",
                "CRUD by index count",
                "The ladder",
                "Floors",
                "Beside other systems",
                "Scaling",
            ]
            + ["What to optimise next", "How sure we are", "All figures", "How to run this yourself", "Limits"],
        )
        self.assertEqual(
            list(pages()),
            ["PERFORMANCE.md"]
            + [
                f"performance/{name}.md"
                for name in (
                    "storage",
                    "integration",
                    "scaling",
                    "macro",
                    "databases",
                    "ladder",
                    "bottlenecks",
                    "load",
                    "lake",
                    "method",
                )
            ],
        )

    def test_the_main_page_is_short_also_where_everything_was_run_and_much_was_missed(self) -> None:
        run = whole()
        for number in range(60):
            made_up.planned(run, {f"storage/get/strata/{number}": made_up.bench(812.0, "reads one record")})
            run.ratios[f"storage/get/strata/{number}"] = _ratio("storage/get/floor/sst", 0.5, 0.95, 0.98)
        headers = HEADERS | {layer: "A layer." for layer in LAYERS}
        self.assertLess(page.render(Findings.of(run), headers, a_calibration())[page.MAIN].count("\n"), page.MOST_LINES)

    def test_every_link_leads_to_a_page_or_a_picture_from_where_it_stands(self) -> None:
        run = whole()
        drawn = [*gallery.pictures(Findings.of(run)).values(), *calibration_pictures.pictures(a_calibration())]
        for main, folder in (
            ("PERFORMANCE.md", "performance"),
            ("my-machine.md", "my-machine"),
            ("plain", "plain-pages"),
        ):
            texts = page.render(Findings.of(run), HEADERS, a_calibration(), main)
            there = {*texts, *(f"{folder}/pictures/{picture.file}" for picture in drawn)}
            met = set()
            for place, text in texts.items():
                for link in re.findall(r"\]\(([^)#]+)\)", text):
                    met.add(posixpath.normpath(posixpath.join(posixpath.dirname(place), link)))
            self.assertEqual(met, there)

    def test_the_same_run_gives_the_same_bytes(self) -> None:
        self.assertEqual(rendered(), rendered())
        again = serialization.parse(Run, json.loads(serialization.text(a_run())))
        self.assertEqual(rendered(), rendered(again))

    def test_no_digit_stands_outside_the_marks(self) -> None:
        for text in pages(whole(), calibration=a_calibration()).values():
            outside = re.sub(r"<!-- BEGIN ([^:]+):.*?<!-- END \1 -->", "", text, flags=re.DOTALL)
            outside = re.sub(r"^```.*?^```", "", outside, flags=re.DOTALL | re.MULTILINE)
            self.assertNotRegex(outside, r"\d")

    def test_marks_name_the_command_without_folders_and_the_revision(self) -> None:
        self.assertIn("<!-- BEGIN summary: python3 run-benches.py --full @ 0123456789ab -->", rendered())
        self.assertNotIn("/home/somebody", rendered())

    def test_what_an_index_costs_is_a_difference_with_its_interval(self) -> None:
        text = line_with(section(rendered(), "CRUD by index count"), "| CREATE |", "7.10 us")
        self.assertEqual(
            text,
            "| CREATE | 5.20 us (5.10 to 5.36 us) | 7.10 us (6.96 to 7.31 us) | +37 % [+36 %, +37 %] | 9.30 us (9.11 to 9.58 us) | +79 % [+78 %, +80 %] |",
        )

    def test_a_time_is_that_of_its_base_times_their_ratio_and_says_where_its_processes_measured_another(self) -> None:
        run, one = a_run(), "integration/create/strata/1_indexes_1_thread"
        run.contrasts[one]["integration/create/strata/0_indexes_1_thread"] = [
            math.log(2.0) + off for off in made_up.TUPLES
        ]
        self.assertIn(
            "| 10.4 us (6.96 to 7.31 us); median of its processes 7.10 us | +100 % [",
            line_with(section(rendered(run), "CRUD by index count"), "| CREATE |", "5.20 us"),
        )

    def test_threads_share_no_column(self) -> None:
        crud = section(rendered(), "CRUD by index count")
        self.assertIn("**1 thread**", crud)
        self.assertIn("**8 threads on 2 cores**", crud)
        header = line_with(section(rendered(), "Summary"), "one operation is")
        self.assertIn(
            "| indexes | time, 1 thread | operations/s, 1 thread | time, 8 threads on 2 cores | operations/s, 8 threads |",
            header,
        )

    def test_a_difference_within_the_margin_is_the_same_and_one_that_is_not_resolved_has_no_sign(self) -> None:
        run = a_run()
        self.assertIn(
            "| same within 2 % [0.0 %, +0.9 %] |",
            line_with(section(rendered(run), "CRUD by index count"), "| READ | 1.21 us"),
        )
        read = "integration/read/strata/{}_indexes_1_thread"
        run.contrasts[read.format(2)][read.format(0)] = [0.02 + 10 * off for off in made_up.TUPLES]
        self.assertIn(
            "| not resolved [-2.5 %, +6.7 %] |",
            line_with(section(rendered(run), "CRUD by index count"), "| READ | 1.21 us"),
        )

    def test_parts_of_a_mix_are_no_verbs(self) -> None:
        run = a_run()
        run.benches["integration/mixed_read/strata/0_indexes_1_thread"] = made_up.bench(1000, "reads", indexes=0)
        self.assertNotIn("MIXED_READ", rendered(run))
        self.assertIn("`integration/mixed_read/strata/0_indexes_1_thread`", beside("integration", run))

    def test_units_share_no_column(self) -> None:
        storage = beside("storage")
        self.assertIn("**1 thread, counted in operations**", storage)
        self.assertIn("**1 thread, counted in records**", storage)
        self.assertIn("| 4.67 M |", line_with(storage, "storage/scan/strata/hundred"))

    def test_what_was_counted_stands_beside_the_figure(self) -> None:
        run = a_run()
        scan = run.benches["storage/scan/strata/hundred"]
        scan.counters = {"waits": 4821, "flushes": 0, "bytes_written": 20 * 2**20}
        self.assertTrue(
            line_with(beside("storage", run), "storage/scan/strata/hundred").endswith(
                "| waits, bytes written: of an unknown number of operations |"
            )
        )
        scan.facts.timed_operations = 10_000
        self.assertTrue(
            line_with(beside("storage", run), "storage/scan/strata/hundred").endswith(
                "| waits 0.482; bytes written 2.05 KiB |"
            )
        )

    def test_a_ratio_of_a_workload_says_what_took_turns(self) -> None:
        run, id = a_run(), "storage/get/strata/memtable"
        run.benches[id].facts.workload, run.benches[id].facts.turn_operations = True, 50
        for counters, words in (
            (None, "50 operations |"),
            ({"flushes": 0}, "50 operations without a flush |"),
            ({"flushes": 1}, "50 operations |"),
        ):
            run.benches[id].turns = runs.Turns(50, counters)
            layer = section(beside("storage", run), "Held against floors")
            self.assertIn(f"0.970 [0.958, 0.981], in turns of {words}", line_with(layer, f"`{id}`"))

    def test_a_row_that_took_no_turns_is_warm_and_others_say_how_many_lanes_did(self) -> None:
        run = a_run()
        scan = run.benches["storage/scan/strata/hundred"]
        self.assertIsNone(scan.family)
        self.assertIn("; warm |", line_with(beside("storage", run), "`storage/scan/strata/hundred`"))
        found = line_with(beside("integration", run), "`integration/create/strata/1_indexes_1_thread`")
        lanes = len(run.families[run.benches["integration/create/strata/1_indexes_1_thread"].family or ""].rows) + 1
        self.assertIn(f"{lanes} lanes |", found)
        self.assertNotIn("warm", found)

    def test_a_missed_goal_is_as_plain_as_a_met_one(self) -> None:
        floors = section(rendered(), "Floors")
        self.assertIn("4 rows have a goal: 2 met, 1 missed, 0 not shown, 1 not judged.", floors)
        # 1530 ns x (1 - 0.921 / 0.95)
        self.assertIn(
            "| 0.910 [0.900, 0.921] | 0.95 | **missed by 46.7 ns** |", line_with(floors, "`storage/get/strata/sst`")
        )
        layer = section(beside("storage"), "Held against floors")
        self.assertIn(
            "| 0.910 [0.900, 0.921] | 16 | 0.95 | 0.98 | **missed by 46.7 ns** |",
            line_with(layer, "`storage/get/strata/sst`"),
        )
        self.assertIn(
            "| 0.970 [0.958, 0.981] | 16 | 0.95 | 0.98 | met |", line_with(layer, "`storage/get/strata/memtable`")
        )
        self.assertIn("**Goals missed: `storage/get/strata/sst`.**", layer)

    def test_an_interval_on_both_sides_of_the_goal_shows_nothing(self) -> None:
        run = a_run()
        for middle, needed in (
            (0.96, "about 24 tuples"),
            (0.945, "about 77 tuples"),
            (0.9501, "more than 1000 tuples"),
        ):
            run.ratios["storage/get/strata/memtable"] = _ratio("storage/get/floor/memtable", middle, 0.95, 0.98)
            layer = section(beside("storage", run), "Held against floors")
            self.assertIn(f"| not shown ({needed} would show it) |", line_with(layer, "`storage/get/strata/memtable`"))
            self.assertIn("4 rows have a goal: 1 met, 1 missed, 1 not shown, 1 not judged.", rendered(run))

    def test_floors_peers_and_rows_of_ours_stand_in_tables_of_their_own(self) -> None:
        run = a_run()
        run.benches["storage/get/other/sst"] = made_up.bench(3000, "reads one record, without a checksum", state="sst")
        run.ratios["storage/scan/strata/hundred"] = _ratio("storage/get/strata/sst", 0.5, 0.4, 0.6)
        text = beside("storage", run)
        self.assertNotIn("hundred", section(text, "Held against floors"))
        self.assertIn("| met |", line_with(section(text, "Held against rows of ours"), "hundred"))
        self.assertIn("without a checksum", section(text, "Beside other systems"))
        self.assertIn("5 rows have a goal: 3 met", rendered(run))

    def test_words_of_a_layer_come_from_its_bench(self) -> None:
        self.assertIn(HEADERS["storage"], beside("storage"))

    def test_the_ladder_says_what_each_rung_adds(self) -> None:
        full = section(beside("ladder"), "Every rung")
        self.assertIn(
            "| 901 ns (883 to 928 ns) | +89.0 ns [+85.0 ns, +93.1 ns] over `storage` | 2 |",
            line_with(full, "| `transaction` | one get |"),
        )
        self.assertIn("over `ingress_cpu`", line_with(full, "| `tcp` | one get |"))
        compact = section(rendered(), "The ladder")
        # of the 2.41 us of its own clock
        self.assertIn("| +910 ns [+899 ns, +921 ns] (38 %) |", line_with(compact, "| `ingress` |"))
        self.assertIn("| +9.90 us [+9.84 us, +9.96 us] (80 %) |", line_with(compact, "| `tcp` |"))
        self.assertIn("| 2.40 us on it |", line_with(compact, "| `ingress_cpu` |"))

    def test_the_runs_of_the_page_are_listed(self) -> None:
        listed = section(beside("method", calibration=a_calibration()), "The runs of these pages")
        self.assertIn("| layer storage | 0123456789ab | 2025-11-21T09:00:00Z |", listed)
        self.assertIn("| our own error rates | c0ffee |", listed)


class Absence(unittest.TestCase):
    def test_a_cell_that_did_not_run_says_why_and_is_never_zero(self) -> None:
        text = rendered()
        self.assertIn("not run (skipped): fewer than 8 threads are allowed here", section(text, "CRUD by index count"))
        self.assertIn(
            "not run: the run was stopped",
            line_with(beside("integration"), "| `integration/delete/strata", "not judged"),
        )
        for one in pages().values():
            self.assertNotRegex(one, r"\| 0(\.0+)? ns")
            self.assertNotRegex(one, r"(?m)^\|.*\|  ?\|.*\|$")

    def test_a_bench_without_rows_is_said_to_be_not_run(self) -> None:
        self.assertIn("not run: there is no bench for it yet", beside("macro"))

    def test_error_rates_that_were_never_measured_are_said_to_be_so(self) -> None:
        for text in (section(rendered(), "How sure we are"), beside("method")):
            self.assertIn("Our own error rates have not been measured yet: `run-benches.py calibrate`", text)
        self.assertNotIn("BEGIN calibration", beside("method"))

    def test_a_figure_of_no_process_and_a_time_of_zero_are_no_figures(self) -> None:
        run = a_run()
        run.benches["integration/delete/strata/0_indexes_1_thread"].points_ns = []
        run.benches["integration/delete/strata/1_indexes_1_thread"].points_ns = [0.0, 0.0]
        text = line_with(section(rendered(run), "CRUD by index count"), "| DELETE |")
        self.assertIn("invalid: it ran, but no process left a figure", text)
        self.assertIn("invalid: a time of 0 was recorded", text)

    def test_a_verb_without_rows_keeps_its_place(self) -> None:
        run = a_run()
        run.benches = {id: bench for id, bench in run.benches.items() if "/delete/" not in id}
        run.design.plan = [cell for cell in run.design.plan if "/delete/" not in cell.id]
        self.assertIn(
            "not run: the run planned no such row",
            line_with(section(rendered(run), "CRUD by index count"), "| DELETE |"),
        )

    def test_a_run_of_one_layer_says_what_it_was_limited_to(self) -> None:
        run = a_run()
        run.partial = ["storage"]
        run.benches = _storage()
        run.ratios, run.families, run.contrasts = {}, {}, {}
        run.design.plan = [Cell("time", "storage", id) for id in run.benches]
        text = rendered(run)
        self.assertIn("not run: measured were storage", section(text, "CRUD by index count"))
        self.assertIn("not run: measured were storage", section(text, "The ladder"))
        self.assertNotIn("pictures/ladder", text)
        self.assertIn("it calls | 0 | not run: nothing to look at |", beside("method", run))
        self.assertIn("**of no more than: storage**", section(text, "The machine and the runs"))

    def test_a_floor_that_no_pair_was_planned_for_is_not_judged(self) -> None:
        run = a_run()
        del run.ratios["storage/get/strata/sst"]
        run.design.plan = [
            cell for cell in run.design.plan if (cell.kind, cell.id) != ("ratio", "storage/get/strata/sst")
        ]
        text = line_with(section(beside("storage", run), "Held against floors"), "`storage/get/strata/sst`")
        self.assertIn("not run: no turns with its floor were planned in this run", text)
        self.assertIn("not judged", text)

    def test_too_few_pairs_are_no_interval(self) -> None:
        run = a_run()
        few = run.ratios["storage/get/strata/sst"]
        few.pairs, few.ratio, few.low, few.high = few.pairs[:3], None, None, None
        self.assertIn(
            "3 tuples: too few for an interval",
            line_with(section(beside("storage", run), "Held against floors"), "`storage/get/strata/sst`"),
        )

    def test_verbs_that_differ_in_case_stand_in_lines_of_their_own_and_share_the_base(self) -> None:
        run = a_run()
        for indexes in (1, 2):
            id = f"integration/update/strata/unchanged_{indexes}_indexes_1_thread"
            run.benches[id] = made_up.bench(7000, "one update", threads=1, indexes=indexes, state=WRITTEN)
            made_up.family(run, ["integration/update/strata/0_indexes_1_thread", id])
        crud = section(rendered(run), "CRUD by index count")
        self.assertIn("| 9.80 us (9.60 to 10.1 us) | +42 % [+41 %", line_with(crud, "| UPDATE |", "6.90 us"))
        self.assertIn("| 7.00 us (6.86 to 7.21 us) | +1.4 % [+1.0 %", line_with(crud, "| UPDATE, unchanged | 6.90 us"))


class Calibration(unittest.TestCase):
    def test_error_rates_are_one_line_of_the_main_page_and_their_counts_stand_with_the_method(self) -> None:
        calibration = a_calibration()
        sure, method = (
            section(rendered(calibration=calibration), "How sure we are"),
            beside("method", calibration=calibration),
        )
        self.assertRegex(
            line_with(sure, "How often `compare` is wrong was counted"),
            rf"of {len(calibration.goals)} goals for that: \d",
        )
        self.assertNotIn("have not been measured", sure)
        self.assertRegex(
            section(method, "How often our verdicts are wrong"),
            r"<!-- BEGIN error rates: baselines/calibration/results.json @ c0ffee -->",
        )
        self.assertIn("264 pairs of c0ffee with itself", method)
        counts = section(method, "Calibration")
        self.assertIn("**rows made slower**", counts)
        for picture in calibration_pictures.pictures(calibration):
            self.assertIn(f"(pictures/{picture.file})", counts)

    def test_error_rates_of_another_machine_are_said_to_be_so(self) -> None:
        calibration, words = copy.deepcopy(a_calibration()), "Measured on another machine"
        calibration.machine.identity = {"cpu_model": "Another processor", "cores": 64}
        self.assertIn(
            "cpu model Another processor, cores 64", line_with(beside("method", calibration=calibration), words)
        )
        calibration.machine.identity = a_run().machine.identity
        self.assertNotIn(words, beside("method", calibration=calibration))


def _mixed(layer: str, parts: tuple[str, str], mix_ns: float, scatter: float = 1.0) -> Run:
    """A mix whose parts take 2.98 us together."""
    rows = {
        f"{layer}/{verb}/strata/1_thread": made_up.bench(time_ns, f"does {verb}")
        for verb, time_ns in zip(parts, (850.0, 2130.0), strict=True)
    }
    mix = f"{layer}/mixed/strata/1_thread"
    return made_up.family(
        made_up.planned(a_run(), {mix: made_up.bench(mix_ns, "mixes"), **rows}), [mix, *rows], scatter=scatter
    )


class Linking(unittest.TestCase):
    def test_a_run_that_was_not_linked_anew_says_what_its_intervals_leave_out(self) -> None:
        for linked_anew, said in ((False, True), (True, False), (None, False)):
            run = a_run()
            run.design.linked_anew = linked_anew
            self.assertEqual("the intervals leave out what the placement of code does" in beside("method", run), said)


class Contradiction(unittest.TestCase):
    def test_none_is_said_to_be_none(self) -> None:
        checks = section(beside("method"), "Cross-checks")
        self.assertIn("| no rung of the ladder is faster than the rung it calls | 14 | 0 |", checks)
        self.assertIn(
            "| no row of one thread is faster than its floor, unless that is its goal or the floor is another program | 3 | 0 |",
            checks,
        )
        self.assertNotIn("order**", checks)
        self.assertNotIn("contradict", rendered())

    def test_a_rule_that_found_nothing_to_look_at_has_not_passed(self) -> None:
        self.assertIn("| contention is not faster than none | 0 | not run: nothing to look at |", beside("method"))

    def test_a_layer_faster_than_the_layer_it_calls_is_reported_and_stands_in_what_was_found(self) -> None:
        run = a_run()
        run.contrasts["ladder/get/strata/handlers"]["ladder/get/strata/transaction"] = [
            -0.2 + off for off in made_up.TUPLES
        ]
        self.assertIn(
            "**Impossible order**: in the ladder of `get`, `handlers` is faster than `transaction`, which it calls (-18 % [-",
            section(beside("method", run), "Cross-checks"),
        )
        self.assertIn("Figures contradict each other", section(rendered(run), "What was found"))

    def test_an_order_within_the_interval_is_not(self) -> None:
        run = a_run()
        run.contrasts["ladder/get/strata/handlers"]["ladder/get/strata/transaction"] = [
            -0.01 + 10 * off for off in made_up.TUPLES
        ]
        self.assertEqual(made_up.contradictions(run), [])

    def test_a_clock_of_another_kind_is_not_compared(self) -> None:
        run = a_run()
        run.families, lower = {}, _rung("get", "ingress_cpu")
        del run.benches[lower]
        self.assertEqual({rung.below for rung in Findings.of(run).ladders["get"] if rung.name == "tcp"}, {None})

    def test_a_rung_that_moves_or_allocates_less_than_the_rung_it_calls_is_reported(self) -> None:
        run = a_run()
        for rung, size in (("storage", 1024.0), ("transaction", 1000.0)):
            run.benches[_rung("get", rung)].facts.bytes_per_operation = size
        self.assertIn(
            "`transaction` moves 1000 bytes and `storage`, which it calls, 1024: the two do unlike work",
            made_up.contradictions(run)[0],
        )
        run = a_run()
        run.benches[_rung("get", "transaction")].allocations_per_operation = 1.0
        self.assertIn(
            "`transaction` allocates 1 times and `storage`, which it calls, 2 times", made_up.contradictions(run)[0]
        )

    def test_a_row_faster_than_its_floor_is_reported(self) -> None:
        run = a_run()
        run.ratios["storage/get/strata/sst"] = _ratio("storage/get/floor/sst", 1.2, 0.95, 0.98)
        self.assertIn("is faster than its floor `storage/get/floor/sst`", beside("method", run))

    def test_a_row_faster_than_another_program_is_not(self) -> None:
        run = a_run()
        run.benches["storage/get/other/sst"] = run.benches["storage/get/floor/sst"]
        run.ratios["storage/get/strata/sst"] = _ratio("storage/get/other/sst", 1.2, 0.95, 0.98)
        self.assertNotIn("Surprising order", beside("method", run))

    def test_a_row_of_several_threads_faster_than_its_floor_is_not(self) -> None:
        run = a_run()
        run.ratios["storage/get/strata/sst"] = _ratio("storage/get/floor/sst", 1.2, 0.95, 0.98)
        run.benches["storage/get/strata/sst"].facts.threads = 2
        self.assertNotIn("Surprising order", beside("method", run))

    def test_a_row_faster_than_another_of_ours_is_not(self) -> None:
        run, own = a_run(), "storage/scan/strata/hundred"
        run.ratios["storage/get/strata/sst"] = _ratio(own, 1.2, 0.95, 0.98)
        self.assertEqual(made_up.contradictions(run), [])

    def test_a_mix_far_from_its_parts_is_reported(self) -> None:
        for layer, read, create in (
            ("integration", "mixed_read", "mixed_create"),
            ("handlers", "mixed_get", "mixed_post"),
        ):
            for mix_ns, words in (
                (2000.0, f"is faster than `{read}` and `{create}`, which take 1.49 ["),
                (4500.0, "is slower than"),
            ):
                (told,) = made_up.contradictions(_mixed(layer, (read, create), mix_ns))
                self.assertIn(f"Surprising order: `{layer}/mixed/strata/1_thread` {words}", told)

    def test_a_mix_that_takes_what_its_parts_take_or_is_not_resolved_is_not(self) -> None:
        for mix_ns, scatter in ((2980.0, 1.0), (2500.0, 1.0), (3600.0, 1.0), (4500.0, 60.0)):
            self.assertEqual(
                made_up.contradictions(_mixed("integration", ("mixed_read", "mixed_create"), mix_ns, scatter)), []
            )

    def test_a_mix_that_took_no_turns_with_its_parts_is_not_looked_at(self) -> None:
        run = _mixed("integration", ("mixed_read", "mixed_create"), 9000.0)
        run.contrasts = {}
        self.assertEqual(made_up.contradictions(run), [])

    def test_contention_faster_than_none_is_reported(self) -> None:
        run = a_run()
        for id, threads, time_ns in (
            ("1_keys_1_thread", 1, 20.0),
            ("1_keys_8_threads", 8, 15.0),
            ("10_keys_1_thread", 1, 20.0),
            ("10_keys_8_threads", 8, 15.0),
        ):
            run.benches[f"locking/contention/strata/{id}"] = made_up.bench(time_ns, "locks a key", threads=threads)
            run.benches[f"locking/contention/strata/{id}"].counters = {"waits": 1000}
        (told,) = made_up.contradictions(run)  # ten keys on two cores may be locked two at once
        self.assertIn(
            "`locking/contention/strata/1_keys_8_threads` (15.0 ns (14.7 to 15.4 ns)) is faster under contention", told
        )
        run.benches["locking/contention/strata/10_keys_8_threads"].points_ns = [9.0, 9.1]
        self.assertIn("though no more than 2 at once are possible", made_up.contradictions(run)[1])

    def test_a_row_faster_than_the_row_of_the_layer_it_calls_is_reported(self) -> None:
        run = a_run()
        run.benches["transaction/read/strata/sst"] = made_up.bench(1400.0, "reads one record", state="sst")
        self.assertEqual(
            made_up.contradictions(run),
            [
                (
                    "Impossible order: `transaction/read/strata/sst` (1.40 us (1.37 to 1.44 us)) is faster than `storage/get/strata/sst` (1.53 us"
                    " (1.50 to 1.58 us)), which is a part of it. Use neither figure before this is explained."
                )
            ],
        )
        run.benches["transaction/read/strata/sst"] = made_up.bench(1550.0, "reads one record", state="sst")
        self.assertEqual(made_up.contradictions(run), [])

    def test_the_same_work_in_two_benches_has_one_time(self) -> None:
        run = a_run()
        for layer, time_ns in (("transaction", 5000.0), ("ladder", 9000.0)):
            run.benches[f"{layer}/patch/strata/same"] = made_up.bench(time_ns, "patches one record", indexes=2)
        (told,) = made_up.contradictions(run)
        self.assertIn(
            "`ladder/patch/strata/same` (9.00 us (8.82 to 9.27 us)) takes longer than `transaction/patch/strata/same`",
            told,
        )
        run.benches["ladder/patch/strata/same"].facts.indexes = 0
        self.assertEqual(made_up.contradictions(run), [])

    def test_contention_without_waiting_is_reported(self) -> None:
        run, contended = a_run(), "locking/contention/strata/1_key_8_threads"
        run.benches[contended] = made_up.bench(100.0, "locks a key", threads=8)
        for counters in (None, {"waits": 0}):
            run.benches[contended].counters = counters
            self.assertIn(f"`{contended}` counted no wait", made_up.contradictions(run)[0])
        run.benches[contended].counters = {"waits": 12}
        self.assertEqual(made_up.contradictions(run), [])

    def test_both_clocks_of_one_thread_agree(self) -> None:
        run, wall, cpu = a_run(), "ladder/get/strata/ingress", "ladder/get/strata/ingress_cpu"
        self.assertFalse([words for words in made_up.contradictions(run) if "of CPU" in words])
        for id, points in ((wall, [54e3, 55e3, 56e3]), (cpu, [42e3, 43e3, 44e3])):
            run.benches[id].points_ns, run.benches[id].family = points, None
        (told,) = (words for words in made_up.contradictions(run) if "of CPU" in words)
        self.assertIn(
            "`ladder/get/strata/ingress` takes 55.0 us (54.0 to 56.0 us), and `ladder/get/strata/ingress_cpu`", told
        )

    def test_a_layer_alone_takes_no_more_than_the_step_that_holds_it(self) -> None:
        run, alone = a_run(), made_up.bench(300.0, "encodes one record")
        run.benches["ladder/create/strata/encoding"] = alone
        self.assertFalse([words for words in made_up.contradictions(run) if "alone takes" in words])
        alone.points_ns = [9000.0, 9100.0]
        (told,) = (words for words in made_up.contradictions(run) if "alone takes" in words)
        self.assertIn(
            "in the ladder of `create`, `encoding` alone takes 9.05 us (9.00 to 9.10 us), and the step to `transaction`, which holds it, +2.51 us",
            told,
        )

    def test_a_check_that_looked_at_nothing_though_it_could_is_blind(self) -> None:
        run, contended = a_run(), "locking/contention/strata/1_key_8_threads"
        self.assertFalse(
            [check.rule for check in Findings.of(run).checks if check.is_blind], "there is no row of its kind"
        )
        run.benches[contended] = made_up.bench(100.0, "locks a key", threads=8)
        self.assertEqual(
            [check.rule for check in Findings.of(run).checks if check.is_blind],
            ["contention is not faster than none"],
        )
        run.benches[contended].points_ns = [100.0]
        self.assertFalse(
            [check.rule for check in Findings.of(run).checks if check.is_blind], "one process contradicts nothing"
        )


class Command(unittest.TestCase):
    """`document` on files; pictures are drawn by a stand-in, so that no test here needs matplotlib."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.run_path, self.page, self.calibrated = (
            self.root / "mine.json",
            self.root / "PERFORMANCE.md",
            self.root / "results.json",
        )
        serialization.store(self.run_path, a_run())
        stand_in = mock.patch.object(pictures, "drawn", lambda picture: f"<svg>{picture.name}</svg>\n")
        stand_in.start()
        self.addCleanup(stand_in.stop)

    def call(self, dry_run: bool = False, check: bool = False) -> tuple[int, str]:
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            code = document.main(self.run_path, self.page, dry_run, check, self.calibrated)
        return code, told.getvalue()

    def test_a_run_in_which_a_cross_check_is_blind_is_not_rendered(self) -> None:
        run = runs.load(self.root / "mine.json")
        run.benches["locking/contention/strata/1_key_8_threads"] = made_up.bench(100.0, "locks a key", threads=8)
        runs.write(run, self.root / "mine.json")
        with self.assertRaisesRegex(
            UserError,
            "a cross-check looked at nothing, though there are rows of its kind: contention is not faster than none",
        ):
            self.call()

    def test_what_was_rendered_passes_the_check(self) -> None:
        self.assertEqual(self.call()[0], 0)
        self.assertEqual(self.call(check=True)[0], 0)
        self.assertEqual(
            sorted(path.name for path in (self.root / "performance" / "pictures").iterdir()),
            ["crud.svg", "floors.svg", "ladder.svg", "layer-storage.svg"],
        )

    def test_a_figure_edited_by_hand_fails_the_check_and_is_named_on_whatever_page(self) -> None:
        for name, block, right, wrong in (
            ("PERFORMANCE.md", "crud", "5.20 us", "4.20 us"),
            ("performance/storage.md", "storage rows", "812 ns", "712 ns"),
        ):
            self.call()
            path = self.root / name
            path.write_text(path.read_text().replace(f"{right} (", f"{wrong} (", 2))
            code, told = self.call(check=True)
            self.assertEqual(code, 1)
            self.assertRegex(told, rf"{name}, line \d+ \(block `({block}|summary)`\) is not what .*mine.json says")
            self.assertRegex(told, rf"expected: .*{right}[^\n]*\n  found:    .*{wrong}")

    def test_what_belongs_to_no_page_any_more_fails_the_check_until_it_is_rendered_again(self) -> None:
        self.call()
        folder = self.root / "performance"
        (folder / "notes.md").write_text("mine\n")  # bears no mark of ours
        for stray in (folder / "gone.md", folder / "pictures" / "gone.svg"):
            stray.write_text((folder / ("method.md" if stray.suffix == ".md" else "pictures/crud.svg")).read_text())
            code, told = self.call(check=True)
            self.assertEqual((code, f"{stray.name} belongs to no page any more" in told), (1, True))
            self.call()
            self.assertEqual((self.call(check=True)[0], stray.exists()), (0, False))
        self.assertTrue((folder / "notes.md").exists())

    def test_a_page_that_is_gone_fails_the_check(self) -> None:
        self.call()
        (self.root / "performance" / "method.md").unlink()
        code, told = self.call(check=True)
        self.assertEqual((code, "method.md is missing" in told), (1, True))

    def test_a_main_page_that_is_too_long_fails_the_check(self) -> None:
        with mock.patch.object(document, "MOST_LINES", 10):
            self.call()
            code, told = self.call(check=True)
        self.assertEqual((code, "and 10 are the most" in told), (1, True))

    def test_a_line_added_or_cut_fails_the_check(self) -> None:
        self.call()
        honest = self.page.read_text()
        for false in (honest + "one more\n", honest[:-40], honest + "\n", honest.rstrip("\n")):
            self.page.write_text(false)
            self.assertEqual(self.call(check=True)[0], 1)

    def test_a_picture_edited_drawn_from_other_figures_or_missing_fails_the_check(self) -> None:
        self.call()
        picture = self.root / "performance" / "pictures" / "floors.svg"
        honest = picture.read_text()
        picture.write_text(honest.replace("<svg>", "<svg> "))
        self.assertIn("floors.svg was edited after it was drawn", self.call(check=True)[1])
        other = a_run()
        other.ratios["storage/get/strata/sst"].ratio = 0.99
        picture.write_text(gallery.pictures(Findings.of(other))["floors"].svg())
        self.assertIn("floors.svg was drawn from other figures", self.call(check=True)[1])
        picture.unlink()
        code, told = self.call(check=True)
        self.assertEqual((code, "floors.svg is missing" in told), (1, True))

    def test_an_error_rate_edited_by_hand_fails_the_check_and_is_named(self) -> None:
        serialization.store(self.calibrated, a_calibration())
        self.call()
        self.assertEqual(self.call(check=True)[0], 0)
        method = self.root / "performance" / "method.md"
        honest = method.read_text()
        false = re.sub(r"\b0 of (\d+): at most", r"1 of \1: at most", honest, count=1)
        self.assertNotEqual(false, honest)
        method.write_text(false)
        code, told = self.call(check=True)
        self.assertEqual(code, 1)
        self.assertRegex(told, r"\(block `error rates`\) is not what .*mine.json with .*results.json says")

    def test_other_error_rates_or_none_fail_the_check_of_a_page_until_it_is_rendered_again(self) -> None:
        changed = copy.deepcopy(a_calibration())
        changed.hours += 1
        self.call()
        for results in (a_calibration(), changed, None):
            if results:
                serialization.store(self.calibrated, results)
            else:
                self.calibrated.unlink()
            self.assertEqual(self.call(check=True)[0], 1)
            self.call()
            self.assertEqual(self.call(check=True)[0], 0)

    def test_a_picture_of_the_calibration_is_drawn_beside_the_page_and_checked(self) -> None:
        serialization.store(self.calibrated, a_calibration())
        self.call()
        picture = self.root / "performance" / "pictures" / "calibration-power.svg"
        picture.write_text(picture.read_text().replace("<svg>", "<svg> "))
        self.assertIn("calibration-power.svg was edited after it was drawn", self.call(check=True)[1])
        self.call()
        self.assertEqual(self.call(check=True)[0], 0)

    def test_a_damaged_calibration_is_a_complaint(self) -> None:
        self.calibrated.write_text(serialization.text(a_calibration())[:-40])
        with self.assertRaisesRegex(UserError, "results.json is damaged .*run-benches.py calibrate"):
            self.call()

    def test_a_dry_run_shows_the_change_and_writes_nothing(self) -> None:
        code, told = self.call(dry_run=True)
        self.assertEqual((code, self.page.exists()), (0, False))
        self.assertIn("+# Performance of Strata", told)
        self.assertIn("crud.svg is missing", told)
        self.call()
        self.assertIn("nothing would change", self.call(dry_run=True)[1])

    def test_neither_run_nor_page_is_not_rendered_yet(self) -> None:
        self.run_path.unlink()
        code, told = self.call(check=True)
        self.assertEqual((code, "not rendered yet" in told), (2, True))

    def test_a_page_without_its_run_proves_nothing(self) -> None:
        self.call()
        self.run_path.unlink()
        with self.assertRaisesRegex(UserError, "nothing proves the figures of .*PERFORMANCE.md") as complaint:
            self.call(check=True)
        self.assertEqual(complaint.exception.code, 1)

    def test_the_committed_page_is_short(self) -> None:
        _, texts, _ = document.contents(document.reference())
        self.assertLessEqual(texts[page.MAIN].count("\n"), page.MOST_LINES)

    def test_the_committed_page_belongs_to_the_reference(self) -> None:
        with self.assertRaisesRegex(UserError, "rendered from baselines/reference"):
            document.main(self.run_path, document.PAGE, False, False)


class Seal(unittest.TestCase):
    def test_a_picture_drawn_by_a_module_of_its_own_is_drawn_again_when_that_changes(self) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(pictures, "drawn", lambda picture: "<svg></svg>\n"),
        ):
            seals = []
            for code in ("def draw(values): ...\n", "def draw(values): return values\n"):
                module = Path(folder) / "drawing.py"
                module.write_text(code)
                found: dict[str, Any] = {}
                exec(compile(code, str(module), "exec"), found)  # noqa: S102 - the seal is of a function with a source
                seals.append(pictures.Picture("p", "a picture", [1], found["draw"]).svg())
        self.assertNotEqual(*seals)


class Drawing(unittest.TestCase):
    """The real pictures; skipped where matplotlib is not installed."""

    def test_the_same_values_are_drawn_to_the_same_bytes_and_every_text_stays_text(self) -> None:
        if importlib.util.find_spec("matplotlib") is None:
            self.skipTest("matplotlib is not installed: pip install -r requirements.txt")
        run = whole()
        first, second = (
            {name: picture.svg() for name, picture in gallery.pictures(Findings.of(run)).items()} for _ in range(2)
        )
        self.assertEqual(first, second)
        seen = {
            "crud": "9.30 us, +79 % [+78 %, +80 %]",
            "floors": "0.910 [0.900, 0.921]",
            "ladder": "+89.0 ns",
            "latencies": "ycsb_a/zipfian",
            "layer-storage": "get/memtable",
        }
        seen |= {
            "scaling-threads": "scaling/read",
            "scaling-records": "scaling/read (power)",
            "scaling-indexes": "scaling/insert (linear)",
        }
        self.assertEqual(set(first), set(seen))
        for name, words in seen.items():
            self.assertIn(words, first[name])
            self.assertNotIn("nan", first[name])
            xml.etree.ElementTree.fromstring(first[name])


class Headers(unittest.TestCase):
    def test_the_header_ends_where_the_code_begins(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "storage.rs").write_text(
                "//! One line.\n//!\n//! # Why\n//! Because.\n\nfn main() {}\n//! not this\n"
            )
            (Path(folder) / "floor.rs").write_text("//! A module.\n")
            self.assertEqual(page.bench_headers(Path(folder)), {"storage": "One line.\n\n**Why**\nBecause."})


class Figures(unittest.TestCase):
    def test_times_have_three_digits_and_the_unit_after_rounding(self) -> None:
        told = [figures.time(value) for value in (0.4123, 41.2, 999.4, 999.7, 1234, 45_600, 123_456, 9_999_999, 2.5e9)]
        self.assertEqual(
            told, ["0.412 ns", "41.2 ns", "999 ns", "1.00 us", "1.23 us", "45.6 us", "123 us", "10.0 ms", "2.50 s"]
        )

    def test_a_range_has_one_unit(self) -> None:
        self.assertEqual(figures.time_range(950, 1210), "0.950 to 1.21 us")

    def test_rates_name_what_they_count(self) -> None:
        self.assertEqual(figures.rate(1230, "operations"), "813 k operations/s")
        self.assertEqual(figures.rate(1000, "bytes", 1024), "1.02 GB/s")
        self.assertEqual(figures.rate(20_000, "records", 100), "5.00 M records/s")

    def test_shares_ratios_and_counts(self) -> None:
        self.assertEqual(
            [figures.percent(value) for value in (0.314, 0.0996, 0.024, -0.008, -0.0001)],
            ["31 %", "10 %", "2.4 %", "-0.8 %", "0.0 %"],
        )
        self.assertEqual((figures.ratio(0.9341, 0.921, 0.945), figures.ratio(1.2)), ("0.934 [0.921, 0.945]", "1.200"))
        self.assertEqual([figures.count(value) for value in (0, 3.0, 3.02)], ["0", "3", "3.02"])

    def test_sizes_are_binary_and_other_measures_have_their_unit(self) -> None:
        told = [
            figures.measure(value, unit)
            for value, unit in (
                (1536, "bytes"),
                (1.5, "seconds"),
                (0.25, "share"),
                (3.02, "ratio"),
                (420, "keys"),
                (0, "bytes"),
            )
        ]
        self.assertEqual(told, ["1.50 KiB", "1.50 s", "25 %", "3.02", "420 keys", "0 B"])
        self.assertEqual([figures.amount(value) for value in (40, 999, 4821)], ["40", "999", "4.82 k"])
        self.assertEqual([figures.round_amount(value) for value in (8, 10_000, 1e6)], ["8", "10 k", "1 M"])

    def test_a_spread_of_nothing_is_nothing_and_of_one_process_is_not_known(self) -> None:
        self.assertIsNone(figures.spread([]))
        self.assertEqual(figures.time_spread(figures.Spread(812, 812, 812, 1)), "812 ns (1 process)")


if __name__ == "__main__":
    unittest.main()
