"""Why a row got its verdict: all its numbers are there, and so are the reasons of rows without one."""

import pytest

from run_benches.analysis import effects
from run_benches.errors import UserError
from run_benches.render import explanation
from run_benches.store.comparisons import ComparedRow, RowState, Witness
from run_benches.tests.comparisons import comparison, control, points, row, screened, unjudged

ID = "indexes/hash_lookup/strata/100"


def explained(rows: dict[str, ComparedRow], word: str = ID) -> str:
    return explanation.explain(comparison(rows), word)


def test_every_number_that_a_decision_rests_on_is_told() -> None:
    one = row(0.051, 0.01, witness=Witness((1000.0, 1049.0), (2.0, 3.0)))
    said = explained({ID: one, "a/b/strata/c": row(0.03, 0.10), "a/b/strata/d": row(-0.1)})
    judgement = one.judgement
    assert judgement is not None and judgement.p is not None
    numbers = [effects.change(point.effect).removesuffix(" %") for point in (*one.screen, *one.pairs)]
    numbers += [
        effects.interval(judgement.low, judgement.high),
        effects.interval(judgement.same_low, judgement.same_high),
        *(effects.probability(p) for p in (judgement.p, judgement.p_adjusted)),
        *(
            "at most 0.05, and the estimate is beyond the margin",
            "20.0 ns",
            "number 1 of the 3 rows",
            "1000 -> 1049",
            "2 -> 3",
            "1.5 %",
            "3.1 percentage points",
        ),
    ]
    assert not [number for number in numbers if number not in said]


def test_a_row_of_the_screen_is_explained_by_its_90_percent_interval() -> None:
    said = explained({ID: screened(0.012)})
    assert said.startswith(f"{ID}: same (+1.2 %), +1.2 %") and "90 % interval [+1.0, +1.4]" in said
    assert "Decision" not in said and "Holm" not in said


def test_what_cannot_be_told_says_how_many_pairs_would_or_that_none_do() -> None:
    one = row(0.03, 0.10)
    said = explained({ID: one})
    assert one.judgement is not None and one.judgement.pairs_needed is not None
    assert f"about {one.judgement.pairs_needed} pairs instead of 16" in said and "the adjusted p is above 0.05" in said
    assert "no number of pairs" in explained({ID: row(0.0199, 0.02)}), "its estimate is at the margin"


def test_pairs_that_were_run_again_are_told_with_what_they_said_before() -> None:
    one = row(0.05)
    one.set_aside = points(0.25, pairs=2)[:1]
    found = comparison({ID: one})
    found.design.reruns = {ID: [7]}
    said = explanation.explain(found, ID)
    assert "pair 7, " in said and effects.change(one.set_aside[0].effect) in said


def test_a_row_that_was_tried_again_is_judged_at_half_the_level_in_its_own_family() -> None:
    again = row(0.05)
    again.earlier, again.pairs = points(0.03, 0.1), points(0.05, first=1006)
    found = comparison({ID: again, "a/b/strata/c": row(0.06)})
    found.design.tries = 2
    said = explanation.explain(found, ID)
    assert "number 1 of the 1 rows" in said and "level 0.025" in said and "Earlier tries: 16 pairs" in said


def test_an_outlier_is_reported_and_kept_and_a_margin_of_a_nanosecond_says_so() -> None:
    odd, quick = row(-0.06), row(0.0, a_ns=20.0)
    odd.pairs[3].effect, quick.margin = 2.3, 0.05
    said = explained({ID: odd})
    assert "1 of 16 pairs" in said and "+897" in said
    assert "raised to 1 ns" in explained({ID: quick}) and "raised" not in said


def test_a_contaminated_comparison_says_that_the_verdict_does_not_count() -> None:
    for controls, doubted in ((None, False), ({"harness/a/b/c": control(change=0.05)}, True)):
        said = explanation.explain(comparison({ID: row(0.05)}, controls), ID)
        assert ("does not count" in said) == doubted


@pytest.mark.parametrize("state", ["identical", "one_side", "invalid", "left_out", "not_run"])
def test_a_row_without_a_verdict_says_why(state: RowState) -> None:
    ended, what_then = explained({ID: unjudged(state, "such is life")}).splitlines()
    assert ended == f"{ID}: {state.replace('_', ' ')}: such is life"
    assert what_then == explanation.NOT_JUDGED[state]


def test_a_word_may_mean_several_rows_and_a_wrong_one_is_a_complaint() -> None:
    rows = {ID: screened(), "indexes/hash_lookup/strata/1": screened(), "storage/get/strata/sst": screened()}
    said = explained(rows, "indexes/hash_lookup")
    assert said.count(": same") == 2 and "storage" not in said
    with pytest.raises(UserError, match="did you mean indexes/hash_lookup"):
        explained(rows, "indexes/hash_lokup")


def test_the_strip_places_pairs_between_the_margins() -> None:
    low, cells, high = (
        explanation.strip([-0.04, 0.0, 0.0, 0.04], 0.02).rsplit(" %", 1)[0].replace(" % ", " ").split(" ")
    )
    assert (low, high) == ("-4.1", "+4.3") and len(cells) == explanation.STRIP and cells.isascii()
    assert cells[30] == "2" and [place for place, mark in enumerate(cells) if mark == "o"] == [1, 59]
    assert (cells.index("("), cells.index(")")) == (16, 44)
    assert "#" in explanation.strip([0.01] * 10, 0.02)
