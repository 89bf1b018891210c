"""Logs of histograms are read as the load tool meant them: its own quantiles are among the points."""

import json
import shutil
from pathlib import Path

import pytest

from run_benches import serialization
from run_benches.errors import UserError
from run_benches.measure import histogram_log
from run_benches.store.loads import LoadResult, Quantile

FAKES = Path(__file__).parent / "fakes"


def test_the_curves_hold_the_quantiles_that_the_load_tool_stored() -> None:
    found = histogram_log.curves(FAKES / "load_result.hlog", {})
    result = serialization.parse(LoadResult, json.loads((FAKES / "load_result.json").read_text()))
    compared = 0
    for cell in result.cells:
        for kind, statistics in (("response", cell.response), ("service", cell.service), ("send_lag", cell.send_lag)):
            assert statistics
            curve = {point.quantile: point.value for point in found[f"{cell.operation.replace(' ', '%20')}.{kind}"]}
            assert max(curve) <= 1 - 10 / statistics.count < 1 - (1 - max(curve)) * 10 ** (-1 / 12) + 1e-9, (
                "as far as ten values lie beyond"
            )
            for told in statistics.quantiles:
                if told.quantile in curve:
                    compared += 1
                    assert curve[told.quantile] == pytest.approx(told.value, rel=2e-3), (cell.operation, kind, told)
    assert compared > 20


def test_what_is_later_than_any_measured_has_no_value() -> None:
    buckets = [(1000, 50), (2000, 40)]
    found = histogram_log.points(buckets, 10)
    assert found[0] == Quantile(0.0, 1000.0) and found[-1].quantile == 0.9 and found[-1].value == 2000.0
    assert histogram_log.points(buckets, 30)[-1] == Quantile(0.9, None)
    assert histogram_log.points([(5, 3)], 0) == [Quantile(0.0, 5.0)]


@pytest.mark.parametrize("line", ["Tag=x,0,1,2,AAAA", "Tag=x,0,1,2,?", "Tag=x,0,1,2,AAAAAAAAAAAA"])
def test_a_damaged_log_is_one_line(line: str, tmp_path: Path) -> None:
    file = tmp_path / "x.hlog"
    shutil.copy(FAKES / "load_result.hlog", file)
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(UserError, match="no log of histograms"):
        histogram_log.curves(file, {})
