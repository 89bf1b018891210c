"""The pool of a calibration on disk: it comes back as it was, goes on, and refuses to mix."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from run_benches.errors import UserError
from run_benches.store import pool
from run_benches.store.pool import Entry, Origin, Plant
from run_benches.store.runs import Build, Machine
from run_benches.tests.made_up import A_MACHINE

ORIGIN = Origin(
    pool.SCHEMA,
    "c0ffee",
    False,
    {"storage": "f00d"},
    Machine(A_MACHINE, {"kernel": "6"}),
    Build("rustc 1", "", "release"),
    {"1_ms": 60},
    7,
)
OTHERS = (
    {**A_MACHINE, "cores": 4},
    {**A_MACHINE, "stepping": "2"},
    {**A_MACHINE, "caches": None},
    {"cpu_model": "A processor", "cores": 2, "architecture": "x86_64"},
)
PAIR = Entry(
    0,
    "pair",
    "storage",
    "quiet",
    1.5,
    None,
    ["storage/get/strata/x"],
    [0.00123],
    [812.5],
    [[0.1, 0.0, 3.0, -1.0]],
    [(0.04, -0.01, 0.02, 0.005)],
)
PLANT = Entry(
    1,
    "plant",
    "storage",
    "quiet",
    1.5,
    Plant("storage", 40, 0.03),
    ["storage/get/strata/x"],
    [0.0305],
    [812.5],
    failures={"storage/put": "exit code 1"},
)


def test_a_pool_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    made = pool.begin(ORIGIN, path)
    pool.add(made, PAIR, path)
    pool.add(made, PLANT, path)
    assert pool.load(path) == made and made.entries == [PAIR, PLANT]


def test_a_pool_goes_on_with_its_own_seed(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    pool.add(pool.begin(ORIGIN, path), PAIR, path)
    again = pool.begin(replace(ORIGIN, seed=8, commit="another commit of the same code"), path)
    assert again.origin.seed == 7 and again.entries == [PAIR]


@pytest.mark.parametrize(
    "other",
    [
        {"code": {"storage": "beef"}},
        {"turns": {"1_ms": 100}},
        {"fingerprint": "another broker"},
        *({"machine": Machine(identity, {})} for identity in OTHERS),
    ],
)
def test_pairs_of_something_else_are_not_mixed_in(tmp_path: Path, other: dict[str, Any]) -> None:
    path = tmp_path / "pool.jsonl"
    pool.add(pool.begin(ORIGIN, path), PAIR, path)
    before = path.read_bytes()
    with pytest.raises(UserError, match="move .* away to begin a new pool"):
        pool.begin(replace(ORIGIN, **other), path)
    assert path.read_bytes() == before


def test_another_kernel_is_said_and_begins_no_new_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pool.jsonl"
    pool.add(pool.begin(ORIGIN, path), PAIR, path)
    assert capsys.readouterr().err == ""
    assert pool.begin(replace(ORIGIN, machine=Machine(A_MACHINE, {"kernel": "7"})), path).entries == [PAIR]
    assert "kernel 6, then 7" in capsys.readouterr().err


def test_a_pool_from_before_can_be_read_and_is_not_taken_for_one_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    old = replace(
        ORIGIN,
        schema=1,
        machine=Machine({"cpu_model": "A processor", "cores": 2, "architecture": "x86_64"}, {"kernel": "6"}),
    )
    pool.add(pool.begin(old, path), PAIR, path)
    assert pool.load(path).entries == [PAIR]
    with pytest.raises(UserError, match=r"not known to be alike .no record of family, model, stepping, caches"):
        pool.begin(ORIGIN, path)


def test_a_job_that_was_cut_off_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    made = pool.begin(ORIGIN, path)
    pool.add(made, PAIR, path)
    pool.add(made, PLANT, path)
    path.write_bytes(path.read_bytes()[:-9])
    resumed = pool.load(path)
    assert resumed.entries == [PAIR]
    pool.add(resumed, PLANT, path)
    assert pool.load(path).entries == [PAIR, PLANT]


@pytest.mark.parametrize(
    "text, error", [("", "damaged"), ("{}\n", "damaged"), ("[\n", "damaged"), ('{"schema":99}\n', "use a newer")]
)
def test_a_damaged_or_newer_pool_is_one_line(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "pool.jsonl").write_text(text)
    with pytest.raises(UserError, match=error):
        pool.load(tmp_path / "pool.jsonl")
