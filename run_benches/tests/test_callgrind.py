"""Counting instructions: the arithmetic, what is skipped and why, and a real program under the real tool."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from run_benches.measure import callgrind
from run_benches.measure.callgrind import Count, Skipped
from run_benches.store.runs import Facts

GOLDEN = Path(__file__).parent / "golden" / "profile"
FACTS = Facts("adds", "operations", 1.0, 1)
PROGRAM = """
#include <stdlib.h>
#include <string.h>
volatile long sum;
int main(void) {
    if (strcmp(getenv("STRATA_ROW"), "x/add/strata/1")) return 7;
    for (long i = 0; i < SET_UP; i++) sum += i;
    for (long n = atol(getenv("STRATA_COUNT")); n > 0; n--) for (int i = 0; i < WORK; i++) sum += i;
}
"""


def built(folder: Path, set_up: int, work: int) -> Count:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    executable = folder / f"program-{set_up}-{work}"
    command = ["cc", "-O1", f"-DSET_UP={set_up}L", f"-DWORK={work}", "-x", "c", "-", "-o", str(executable)]
    subprocess.run(command, input=PROGRAM, text=True, check=True)
    return Count(executable, "x/add/strata/1", FACTS, {"PATH": os.environ["PATH"]}, row_ns=50_000.0)


def test_the_totals_of_a_run_are_read() -> None:
    assert callgrind.total((GOLDEN / "callgrind.out").read_text()) == 1_042_404_745


def test_set_up_falls_out_of_a_real_count(tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    counts = [built(tmp_path, 10, 100), built(tmp_path, 100_000, 100), built(tmp_path, 10, 200)]
    told: list[int] = []
    little, much, twice = callgrind.all_instructions(counts, tmp_path, lambda done, of: told.append(of))
    assert isinstance(little, float) and isinstance(much, float) and isinstance(twice, float)
    assert little == much and 100 < little < 1000
    assert twice - 2 * little == pytest.approx(0, abs=20)
    assert set(told) == {3}


def test_a_row_that_fails_or_hangs_is_skipped_with_the_reason(tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    count = built(tmp_path, 10, 100)
    assert callgrind.instructions(replace(count, row="x/other"), tmp_path) == Skipped("exit code 7: it said nothing")
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    outcome = callgrind.instructions(replace(count, executable=hanging), tmp_path, deadline_s=0.2)
    assert isinstance(outcome, Skipped) and "killed" in outcome.reason
    assert not list(tmp_path.glob("tmp*")), "nothing is left behind"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(FACTS, threads=8), "one thread"),
        (replace(FACTS, clock="cpu"), "one thread"),
        (replace(FACTS, capacity=1), "too few operations"),
    ],
)
def test_what_cannot_be_counted_says_why(
    facts: Facts, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Count(Path("nothing"), "x/add/strata/1", facts, {}, 100.0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    outcome = callgrind.instructions(count, tmp_path)
    assert isinstance(outcome, Skipped) and why in outcome.reason
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert callgrind.instructions(count, tmp_path) == Skipped("valgrind is not installed: apt-get install valgrind")


@pytest.mark.parametrize(
    ("row_ns", "capacity", "operations"), [(1000.0, None, 50_000), (1000.0, 900, 450), (1e9, None, 1), (1e9, 1, 0)]
)
def test_a_state_serves_both_runs(row_ns: float, capacity: int | None, operations: int) -> None:
    assert callgrind._operations(Count(Path("x"), "x", replace(FACTS, capacity=capacity), {}, row_ns)) == operations


def test_exact_counters_come_with_the_operations_they_belong_to(tmp_path: Path) -> None:
    program = tmp_path / "bench"
    program.write_text(f"""#!{sys.executable}
import json, os
count = int(os.environ["STRATA_COUNT"])
row = {{"op": "adds", "unit": "operations", "units_per_operation": 1, "threads": 1, "timed_operations": count, "counters": {{"flushes": 3 * count}}}}
content = {{"schema": 1, "layer": "x", "rows": {{os.environ["STRATA_ROW"]: row}}}}
open(os.environ["STRATA_FACTS_DIR"] + "/1.json", "w").write(json.dumps(content))
""")
    program.chmod(0o755)
    seen = callgrind.exact(Count(program, "x/add/strata/1", replace(FACTS, capacity=1000), {}, 1000.0), tmp_path)
    assert isinstance(seen, Facts) and seen.timed_operations == 500 and seen.counters == {"flushes": 1500}
    program.write_text("#!/bin/sh\nexit 0\n")
    assert callgrind.exact(Count(program, "x/add/strata/1", FACTS, {}, 1000.0), tmp_path) == Skipped(
        "the bench wrote no facts"
    )
