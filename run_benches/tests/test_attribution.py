"""The blame: who has it, and for how much of what lies above."""

import pytest

from run_benches.compare import attribution
from run_benches.store.comparisons import Attribution, ComparedRow
from run_benches.tests.comparisons import LAYERS, comparison, ladder, points, row


def blamed(rows: dict[str, ComparedRow]) -> Attribution:
    """Returns what is attributed when the real judge has judged the rows."""
    comparison(rows)
    return attribution.attribute(rows, LAYERS)


def test_the_lowest_layer_with_a_slower_row_of_its_own_is_to_blame() -> None:
    rows = {
        "transaction/create/strata/1": row(0.08),
        "indexes/insert/strata/1": row(0.05),
        "indexes/insert/strata/2": row(0.0),
        "storage/get/strata/1": row(-0.05),
    }
    found = blamed(rows)
    assert (found.guilty, found.rows) == ("indexes", ["indexes/insert/strata/1"])


def test_nobody_is_to_blame_where_nothing_is_slower() -> None:
    assert blamed({"storage/get/strata/1": row(-0.05), "storage/get/strata/2": row(0.0)}) == Attribution(None, [], [])


def test_what_crosses_the_layers_and_floors_accuse_nobody() -> None:
    assert blamed({"integration/create/strata/1": row(0.05), "storage/get/floor/1": row(0.05)}).guilty is None
    assert blamed({"integration/create/strata/1": row(0.05), "ingress/get/strata/1": row(0.05)}).guilty == "ingress"


def test_without_a_red_layer_the_lowest_red_rung_is_to_blame() -> None:
    found = blamed(ladder("get", storage=(800, 0.0), transaction=(1000, 0.05), handlers=(2000, 0.03)))
    assert (found.guilty, found.rows) == ("transaction", ["ladder/get/strata/transaction"])
    assert "no layer's own row is slower" in attribution.words(found)[0]


def test_what_the_guilty_rung_explains_of_those_above() -> None:
    rungs = ladder(
        "create",
        storage=(800, 0.05),
        indexes=(1000, 0.05),
        transaction=(2000, 0.05),
        handlers=(4000, 0.01),
        tcp=(20_000, 0.0),
    )
    found = blamed({"indexes/insert/strata/1": row(0.05)} | rungs)
    shares = {share.rung: share for share in found.shares}
    assert list(shares) == ["indexes", "transaction", "handlers", "tcp"]
    own = shares["indexes"]
    assert own.change_ns == pytest.approx(50, rel=0.01) and own.low_ns < 50 < own.high_ns
    explained = [share.explained for share in shares.values()]
    assert explained == [1.0, pytest.approx(0.5, rel=0.01), pytest.approx(1.25, rel=0.01), None], "tcp did not move"
    told = attribution.words(found)[1].split("; ")
    assert [words in told[at] for at, words in enumerate(("indexes", "50 %", "more than all", "below"))] == [True] * 4


def test_a_rung_that_went_the_other_way_is_not_explained() -> None:
    rungs = ladder("create", indexes=(1000, 0.05), transaction=(2000, -0.05))
    found = blamed({"indexes/insert/strata/1": row(0.05)} | rungs)
    explained = found.shares[1].explained
    assert explained is not None and explained < 0 and "none of it explained" in attribution.words(found)[1]


def test_a_request_without_the_guilty_rung_begins_at_the_lowest_that_moved() -> None:
    found = blamed(
        {"indexes/insert/strata/1": row(0.05)}
        | ladder("get", storage=(800, 0.05), transaction=(2000, 0.0), handlers=(3000, 0.04), tcp=(20_000, 0.012))
    )
    assert [(share.rung, share.explained is not None) for share in found.shares] == [("handlers", True), ("tcp", True)]
    assert found.shares[1].explained == pytest.approx(0.5, rel=0.01)


def test_a_guilty_rung_that_did_not_move_on_a_request_explains_nothing_there() -> None:
    found = blamed({"indexes/insert/strata/1": row(0.05)} | ladder("get", indexes=(1000, 0.0), handlers=(3000, 0.04)))
    assert [share.explained for share in found.shares] == [None, None]


def test_requests_are_kept_apart() -> None:
    rungs = ladder("get", indexes=(1000, 0.05), tcp=(2000, 0.05)) | ladder(
        "create", indexes=(1000, 0.10), tcp=(2000, 0.05)
    )
    found = blamed({"indexes/insert/strata/1": row(0.05)} | rungs)
    assert {share.id: round(share.explained or 0, 1) for share in found.shares if share.rung == "tcp"} == {
        "ladder/get/strata/tcp": 0.5,
        "ladder/create/strata/tcp": 1.0,
    }
    assert len(attribution.words(found)) == 3


def test_rungs_that_the_screen_settled_count_by_their_screen_and_too_few_pairs_do_not() -> None:
    rows = {"indexes/insert/strata/1": row(0.05)} | ladder(
        "get", indexes=(1000, 0.05), routing=(2000, 0.0), tcp=(3000, 0.0)
    )
    rows["ladder/get/strata/routing"].screen, rows["ladder/get/strata/routing"].pairs = points(0.01, pairs=6), []
    rows["ladder/get/strata/tcp"].screen, rows["ladder/get/strata/tcp"].pairs = points(0.01, pairs=5), []
    assert [share.rung for share in blamed(rows).shares] == ["indexes", "routing"]


def test_a_layer_that_has_no_rung_is_blamed_without_shares() -> None:
    rows = {"blobs/put/strata/1": row(0.05)} | ladder("get", handlers=(3000, 0.04))
    comparison(rows)
    found = attribution.attribute(rows, ["blobs"])
    assert (found.guilty, found.shares) == ("blobs", [])
    assert "no layer is to blame" in attribution.words(Attribution(None, [], []))[0]
