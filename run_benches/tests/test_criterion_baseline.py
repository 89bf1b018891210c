"""What `cargo bench -- --save-baseline` left behind, from files that criterion itself wrote."""

import json
import shutil
from pathlib import Path

import pytest

from run_benches.cli import criterion_baseline
from run_benches.errors import Complaint, Exit
from run_benches.tests.test_criterion_output import GOLDEN

KEPT = "before[1]"
ROW = "encoding/decode/strata/1_KB"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A target folder with the baseline KEPT, in which all took twice as long, but for one row of each side that the other has not."""
    shutil.copytree(GOLDEN, tmp_path / "criterion")
    for folder in sorted(tmp_path.glob("criterion/**/new")):
        kept = folder.with_name(KEPT)
        shutil.copytree(folder, kept)
        sample = json.loads((kept / "sample.json").read_text())
        sample["times"] = [2 * time for time in sample["times"]]
        (kept / "sample.json").write_text(json.dumps(sample))
    (floor,) = tmp_path.glob("criterion/encoding_decode/floor/*/new")
    shutil.rmtree(floor)
    return tmp_path


def test_both_sides_stand_beside_each_other_without_a_verdict(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert criterion_baseline.compare(KEPT, target, False) == Exit.FINE
    said = capsys.readouterr().out
    (line,) = (line for line in said.splitlines() if line.startswith(ROW))
    assert line.split()[-4:] == ["0.500", "10", "and", "10"]
    assert "not there" in next(line for line in said.splitlines() if line.startswith("encoding/decode/floor/1_KB"))
    assert said.splitlines()[-1].startswith("no verdict: each side is one process")
    assert "slower" not in said and len(said.splitlines()) == 8


def test_as_json(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    criterion_baseline.compare(KEPT, target, True)
    found = json.loads(capsys.readouterr().out)
    rows = {row["id"]: row for row in found["rows"]}
    assert found["verdict"] is None and found["schema"] == 1 and len(rows) == 4
    assert rows[ROW]["kept"]["median_ns"] == pytest.approx(2 * rows[ROW]["new"]["median_ns"])
    assert rows["encoding/decode/floor/1_KB"]["new"] is None


def test_a_baseline_that_is_the_last_run_itself_says_so(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kept in target.glob("criterion/**/before*"):
        if kept.with_name("new").exists():
            shutil.copytree(kept, kept.with_name("new"), dirs_exist_ok=True)
    criterion_baseline.compare(KEPT, target, False)
    assert "the same run" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith(ROW))


def test_an_unknown_baseline_names_those_that_are_there(target: Path) -> None:
    with pytest.raises(Complaint, match=r"no baseline 'bef\*'.*\(there: before\[1\]\)"):
        criterion_baseline.compare("bef*", target, False)


def test_without_results_it_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(Complaint, match="cargo bench -- --save-baseline before first"):
        criterion_baseline.compare("before", tmp_path, False)


def test_damaged_files_are_a_complaint(target: Path) -> None:
    next(iter(target.glob("criterion/**/before*/sample.json"))).write_text("{")
    with pytest.raises(Complaint, match="cannot read what cargo bench left behind"):
        criterion_baseline.compare(KEPT, target, False)
