"""Comparisons on disk: what older versions wrote is read."""

import json
from pathlib import Path

from run_benches import serialization
from run_benches.store import comparisons
from run_benches.tests.comparisons import comparison, row


def test_a_comparison_of_the_first_schema_is_read_as_one_of_the_present(tmp_path: Path) -> None:
    written = json.loads(serialization.text(comparison({"a/b/strata/c": row(0.0)})))
    written["schema"] = 1
    for one in written["rows"].values():
        judgement = one["judgement"]
        judgement["other_mode"] = judgement.pop("outliers") + 2
        del judgement["level"]
        judgement["low_90"], judgement["high_90"] = judgement.pop("same_low"), judgement.pop("same_high")
    path = tmp_path / "compare-old.json"
    path.write_text(json.dumps(written))
    read = comparisons.load(path)
    found = read.rows["a/b/strata/c"].judgement
    assert (
        read.schema == comparisons.SCHEMA
        and found
        and found.outliers == 2
        and found.same_low is not None
        and found.level == 0.05
    )
