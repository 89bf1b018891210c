"""The adapter against files that criterion 0.8.2 itself wrote, among them names that it cut and renumbered."""

import json
import shutil
from pathlib import Path

import pytest

from run_benches import places
from run_benches.measure import criterion_output

GOLDEN = Path(__file__).parent / "golden" / "criterion-0.8.2"
LONG = "encoding/encode_key_of_a_record_with_a_rather_long_operation_name_that_criterion_cuts_when_it_makes_a_directory"


def test_rows_are_known_by_their_full_id() -> None:
    found = criterion_output.read(GOLDEN).rows
    assert set(found) == {
        f"{LONG}/strata/10_a:b",
        f"{LONG}/strata/11_a:b",
        "encoding/decode/strata/1_KB",
        "encoding/decode/floor/1_KB",
    }


def test_samples_are_flat_and_positive() -> None:
    samples = criterion_output.read(GOLDEN).rows["encoding/decode/floor/1_KB"]
    assert len(samples.times_ns) == 10 and len(set(samples.iterations)) == 1
    assert 1 < samples.median_ns() < 1000


def test_median_agrees_with_criterions_own() -> None:
    for row, samples in criterion_output.read(GOLDEN).rows.items():
        folder = next(
            path.parent
            for path in GOLDEN.glob("**/new/benchmark.json")
            if json.loads(path.read_text())["full_id"] == row
        )
        theirs = json.loads((folder / "estimates.json").read_text())["median"]["point_estimate"]
        assert samples.median_ns() == pytest.approx(theirs, rel=1e-9)


def test_mean_is_all_time_over_all_operations() -> None:
    samples = criterion_output.Samples([10.0, 30.0], [100.0, 900.0])
    assert samples.mean_ns() == 25.0
    assert samples.median_ns() == 20.0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"iters": [1.0]}, "counts"),
        ({"iters": [[1.0]] * 10}, "sample.json: Expected `float`, got `array`"),
        ({"times": "x"}, "Expected `array`, got `str` - at `$.times`"),
        ({"iters": [0.0] * 10}, "not positive"),
        ({"iters": [-1.0] * 10, "times": [-1.0] * 10}, "not positive"),
        ({"iters": [], "times": []}, "0 times for 0 counts"),
        ({"iters": None}, "got `null`"),
    ],
)
def test_other_output_is_named_and_costs_no_other_row(tmp_path: Path, damage: dict[str, object], reason: str) -> None:
    shutil.copytree(GOLDEN / "encoding_decode", tmp_path / "rows")
    path = tmp_path / "rows" / "floor" / "1_KB" / "new" / "sample.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    found = criterion_output.read(tmp_path)
    ((folder, said, row),) = ((one.folder, one.reason, one.row) for one in found.unreadable)
    assert (folder, row, [*found.rows]) == (path.parent, "encoding/decode/floor/1_KB", ["encoding/decode/strata/1_KB"])
    assert reason in said


def test_the_folder_of_results_is_criterions_own_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.delenv("CRITERION_HOME", raising=False)
    assert criterion_output.home() == tmp_path / "criterion"
    monkeypatch.setenv("CRITERION_HOME", "kept/here")
    assert criterion_output.home() == places.ROOT / "kept" / "here", "where cargo starts the benches"
    monkeypatch.setenv("CRITERION_HOME", str(tmp_path / "home"))
    assert criterion_output.home() == tmp_path / "home"


def test_a_filter_means_these_rows_and_no_other() -> None:
    assert criterion_output.filter_of(["a/b/c/1.5_KB"]) == r"^(?:a/b/c/1\.5_KB)$"
