"""The results that `cargo bench -- --save-baseline` left behind, from files that criterion itself wrote."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from run_benches.cli import criterion_baseline
from run_benches.errors import Exit, UserError
from run_benches.tests.test_criterion_output import GOLDEN

KEPT = "before[1]"
ROW = "encoding/decode/strata/1_KB"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of Criterion's with the baseline KEPT, in which all took twice as long, but for one row of each side
    that the other has not."""
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    for folder in sorted(tmp_path.glob("**/new")):
        kept = folder.with_name(KEPT)
        shutil.copytree(folder, kept)
        sample = json.loads((kept / "sample.json").read_text())
        sample["times"] = [2 * time for time in sample["times"]]
        (kept / "sample.json").write_text(json.dumps(sample))
    (floor,) = tmp_path.glob("encoding_decode/floor/*/new")
    shutil.rmtree(floor)
    return tmp_path


def test_both_sides_stand_beside_each_other_without_a_verdict(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert criterion_baseline.compare(KEPT, home, False) == Exit.FINE
    said = capsys.readouterr().out
    (line,) = (line for line in said.splitlines() if line.startswith(ROW))
    assert line.split()[-4:] == ["0.500", "10", "and", "10"]
    assert "not there" in next(line for line in said.splitlines() if line.startswith("encoding/decode/floor/1_KB"))
    assert said.splitlines()[-1].startswith("no verdict: each side is one process")
    assert "slower" not in said and len(said.splitlines()) == 8


def test_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    criterion_baseline.compare(KEPT, home, True)
    found = json.loads(capsys.readouterr().out)
    rows = {row["id"]: row for row in found["rows"]}
    assert found["verdict"] is None and found["schema"] == 2 and found["unreadable"] == [] and len(rows) == 4
    assert rows[ROW]["kept"]["median_ns"] == pytest.approx(2 * rows[ROW]["new"]["median_ns"])
    assert rows["encoding/decode/floor/1_KB"]["new"] is None


def test_a_baseline_that_is_the_last_run_itself_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kept in home.glob("**/before*"):
        if kept.with_name("new").exists():
            shutil.copytree(kept, kept.with_name("new"), dirs_exist_ok=True)
    criterion_baseline.compare(KEPT, home, False)
    assert "the same run" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith(ROW))


@pytest.mark.parametrize("name", ["feature/x", "a/b/new", "x"])
def test_a_name_with_slashes_is_found_by_all_of_it(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    for kept in [*home.glob("**/before*")]:
        for other in ("feature/x", "a/b/new", "x"):
            shutil.copytree(kept, kept.parent / other)
            if other != name:
                not_text(kept.parent / other)
    assert criterion_baseline.compare(name, home, False) == Exit.FINE
    said = capsys.readouterr().out
    assert "0.500" in next(line for line in said.splitlines() if line.startswith(ROW)) and "cannot be read" not in said
    with pytest.raises(UserError, match=r"\(there: a/b/new, before\[1\], feature/x, x\)"):
        criterion_baseline.compare("feature", home, False)


def test_an_unknown_baseline_names_those_that_are_there(home: Path) -> None:
    with pytest.raises(UserError, match=r"no baseline 'bef\*'.*\(there: before\[1\]\)"):
        criterion_baseline.compare("bef*", home, False)


def test_without_results_it_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cargo bench -- --save-baseline before first"):
        criterion_baseline.compare("before", tmp_path / "criterion", False)


def no_sampling_mode(folder: Path) -> None:
    sample = json.loads((folder / "sample.json").read_text())
    del sample["sampling_mode"]
    (folder / "sample.json").write_text(json.dumps(sample))


def cut(folder: Path) -> None:
    path = folder / "sample.json"
    path.write_bytes(path.read_bytes()[:100])


def unnamed(folder: Path) -> None:
    (folder / "benchmark.json").unlink()


def not_text(folder: Path) -> None:
    (folder / "benchmark.json").write_bytes(b'{"full_id": "\xff"}')


def half_a_character(folder: Path) -> None:
    (folder / "benchmark.json").write_text(r'{"full_id": "\ud800"}')


def without_samples(folder: Path) -> None:
    (folder / "sample.json").unlink()


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def a_folder_in_place_of_a_file(folder: Path) -> None:
    (folder / "sample.json").unlink()
    (folder / "sample.json").mkdir()


DAMAGES = (
    no_sampling_mode,
    cut,
    unnamed,
    not_text,
    half_a_character,
    without_samples,
    emptied,
    a_folder_in_place_of_a_file,
)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("side", [KEPT, "new"])
def test_a_folder_that_cannot_be_read_is_named_and_costs_no_other_row(
    home: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], side: str
) -> None:
    folder = home / "encoding_decode" / "strata" / "1_KB" / side
    damage(folder)
    assert criterion_baseline.compare(KEPT, home, False) == Exit.FINE
    said = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("encoding/encode") and "0.500" in line for line in said) == 2
    (line,) = (line for line in said if line.startswith(f"cannot be read: {folder}: "))
    assert ("sampling_mode" in line) == (damage is no_sampling_mode)
    criterion_baseline.compare(KEPT, home, True)
    assert [one["folder"] for one in json.loads(capsys.readouterr().out)["unreadable"]] == [str(folder)]


def test_a_row_that_cannot_be_read_is_not_called_absent(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(home / "encoding_decode" / "strata" / "1_KB" / "new")
    criterion_baseline.compare(KEPT, home, False)
    assert "cannot be read" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith(ROW))


def test_a_name_that_is_no_text_is_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = Path(os.fsdecode(os.fsencode(home) + b"/gone_\xff"))
    shutil.copytree(home / "encoding_decode" / "strata" / "1_KB" / "new", gone / KEPT)
    no_sampling_mode(gone / KEPT)
    for as_json in (False, True):
        assert criterion_baseline.compare(KEPT, home, as_json) == Exit.FINE
        assert "gone_\\xff".replace("\\", "\\" * (2 if as_json else 1)) in capsys.readouterr().out


def test_a_folder_that_may_not_be_looked_into_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tests may run as one who may look everywhere."""
    real = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("encoding_decode/strata"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert criterion_baseline.compare(KEPT, home, False) == Exit.FINE
    assert f"cannot be read: {home / 'encoding_decode' / 'strata'}: Permission denied" in capsys.readouterr().out


def test_a_side_of_which_nothing_can_be_read_is_an_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in home.glob("**/before*"):
        cut(folder)
    assert criterion_baseline.compare(KEPT, home, False) == Exit.ERROR
    assert "not there" not in next(line for line in capsys.readouterr().out.splitlines() if line.startswith(ROW))
    for folder in home.glob("**/new"):
        emptied(folder)
    with pytest.raises(UserError, match="nothing that cargo bench left behind can be read"):
        criterion_baseline.compare(KEPT, home, False)
