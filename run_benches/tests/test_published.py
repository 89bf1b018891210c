"""Published rows keep their benches."""

from pathlib import Path

import pytest

from run_benches.errors import UserError
from run_benches.measure import published
from run_benches.measure.layers import layer_names


def test_every_published_row_names_rows_of_benches_that_there_are() -> None:
    promised = published.read(published.ROWS)
    assert len(promised) > 60
    layers = {id.partition("/")[0] for ids in promised.values() for id in ids}
    assert layers <= set(layer_names())


def test_a_removed_row_is_named_with_its_nearest() -> None:
    promised = published.read(published.ROWS)
    ids = {id for row in promised.values() for id in row}
    assert list(published.missing(promised, ids)) == []
    gone = "locking/acquire/strata/1000_keys"
    assert list(published.missing(promised, ids - {gone})) == [
        f"locking: acquire 1000 keys: no bench has the row {gone}; the nearest is locking/acquire/strata/100_keys"
    ]
    assert len(list(published.missing(promised, set()))) == sum(map(len, promised.values()))


@pytest.mark.parametrize("text", ["[a]\nb = []", "[a]\nb = 'x/y/z/1'", "[a]\nb = ['x/y']", "b = 1", "[a"])
def test_a_file_that_promises_nothing_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"rows\.toml"):
        published.read(path)
