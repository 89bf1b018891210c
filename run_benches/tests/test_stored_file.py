"""Which stored file is the last: the one that was made last, whatever the clock did meanwhile."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from run_benches import files
from run_benches.store import comparisons, load_comparisons, loads, runs, stored_file
from run_benches.tests.checkout import Checkout, edited

KINDS = {
    "": runs.stored_runs,
    "compare-": comparisons.stored,
    "load-": loads.stored,
    "load-compare-": load_comparisons.stored,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for module in (runs, comparisons, loads, load_comparisons):
        monkeypatch.setattr(module, "RUNS", tmp_path)
    return str(request.param)


def test_what_is_made_now_is_behind_what_a_clock_that_was_ahead_named(tmp_path: Path, kind: str) -> None:
    ahead = tmp_path / f"{kind}22261231T235959Z-0123abcde.json"
    ahead.touch()
    made = [ahead, *(stored_file.new(tmp_path, kind, "fedcba987") for _ in range(3))]
    for path in reversed(made):
        path.touch()
    assert KINDS[kind]() == made and "22270101T000000Z" in made[1].name
    os.utime(ahead)
    assert KINDS[kind]() == made


def test_the_second_is_that_of_the_clock_where_nothing_is_ahead(tmp_path: Path, kind: str) -> None:
    for name in (
        f"{kind}20200101T000000Z-x",
        "compare-",
        "load-",
        "load-compare-",
        "profiles",
        "costs",
        f"{kind}99991231T235959Z-x",
        f"{kind}20269999T000000Z-x",
    ):
        (tmp_path / f"{name}.json").touch()
    path = stored_file.new(tmp_path, kind, "x")
    assert (
        re.fullmatch(rf"{kind}2\d{{7}}T\d{{6}}Z-x\.json", path.name)
        and path.with_suffix("").is_dir()
        and not path.exists()
    )


def test_files_of_earlier_versions_stay_in_order(tmp_path: Path, kind: str) -> None:
    names = [f"{kind}20260101T000000Z-0123abcde{number}" for number in ("", "-2", "-3", "-10", "-99")] + [
        f"{kind}20260101T000001Z-0123abcde"
    ]
    for name in reversed(names):
        (tmp_path / f"{name}.json").touch()
    assert [path.stem for path in KINDS[kind]()] == names


def test_many_that_are_made_at_once_have_their_own_names(tmp_path: Path, kind: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: stored_file.new(tmp_path, kind, "x"), range(16)))
    assert len(set(made)) == 16


def test_the_last_run_and_the_last_load_test_are_those_made_last(checkout: Checkout, measured: str) -> None:
    ahead = checkout.root / "runs" / "22260101T000000Z-fffffffff.json"
    files.replace(ahead, measured)
    edited(ahead, command=["ahead"], complete=False)
    assert checkout.run("storage/read", "--quick").returncode == 0
    checkout.run("load", "rest-crud")
    (load,) = (checkout.root / "runs").glob("load-*.json")
    load.rename(load.with_name("load-22260101T000000Z-fffffffff.json"))
    checkout.run("load", "rest-crud")
    made = max((checkout.root / "runs").glob("2*.json"))
    assert made != ahead and f"from runs/{made.name}" in checkout.run("report").stdout
    (newer,) = (path for path in (checkout.root / "runs").glob("load-*.json") if "ffff" not in path.name)
    assert f"from runs/{newer.name}" in checkout.run("load", "report").stdout
    edited(made, complete=False)
    assert f"going on with runs/{made.name}" in checkout.run("--resume").stderr, "of two that were interrupted"
