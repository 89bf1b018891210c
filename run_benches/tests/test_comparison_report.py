"""The report of a comparison: the first sentence and the exit code agree, every row is counted once, a comment is short
enough."""

import re
import xml.etree.ElementTree
from pathlib import Path

import pytest

from run_benches.analysis import effects
from run_benches.compare import witnesses
from run_benches.errors import Exit, UserError
from run_benches.render import comparison_report, forest, markdown
from run_benches.stats.judge import AllocationVerdict, Judgement, Verdict
from run_benches.store.comparisons import Allocations, ComparedRow, Comparison, Witness
from run_benches.store.runs import Facts
from run_benches.tests.comparisons import comparison, control, points, row, screened, unjudged

SLOWER = "indexes/hash_lookup/strata/100_entries"


def mixed() -> dict[str, ComparedRow]:
    """A row of every kind."""
    return {
        SLOWER: row(0.051, 0.01, witness=Witness((1000.0, 1049.0), (2.0, 3.0), {"bytes_written": (100.0, 100.5)})),
        "transaction/create/strata/2": row(0.03),
        "transaction/find/strata/2": row(-0.06),
        "transaction/read/strata/x": row(0.03, 0.10),
        "storage/get/strata/sst": screened(),
        "storage/get/strata/memtable": screened(0.012, 0.005),
        "encoding/key/strata/number": unjudged("identical", "same bytes"),
        "encoding/key/strata/text": unjudged("identical", "same bytes"),
        "handlers/get/strata/1": unjudged("one_side", "only in main"),
        "storage/get/floor/sst": unjudged("left_out", "runs none of our code"),
    }


def quiet() -> dict[str, ComparedRow]:
    """Nothing slower, nothing open."""
    return {
        id: row
        for id, row in mixed().items()
        if id not in (SLOWER, "transaction/create/strata/2", "transaction/read/strata/x")
    }


def ending(found: Comparison) -> tuple[str, Exit, Exit]:
    """The first words, and the exit codes without and with --strict."""
    return (
        comparison_report.headline(found).partition(":")[0].partition(",")[0],
        comparison_report.exit_code(found, False),
        comparison_report.exit_code(found, True),
    )


def test_a_slower_row_is_the_first_sentence_with_its_layer_and_interval() -> None:
    found = comparison(mixed() | {"indexes/hash_insert/strata/1": row(0.04)})
    first = comparison_report.text(found).splitlines()[0]
    assert first == f"SLOWER: 3 rows; the layer to blame is indexes (+5.1 % [+4.7, +5.5] on {SLOWER})"
    assert ending(found) == ("SLOWER", Exit.FAILED, Exit.FAILED)


def counted(verdict: AllocationVerdict, a: float, b: float) -> ComparedRow:
    found = unjudged("judged", "screen, pair 1: it ended")
    found.allocations = Allocations(verdict, a, b, 4.0)
    return found


def test_more_allocations_are_a_failure_of_their_own_with_layer_counts_and_limit() -> None:
    rows = {
        "transaction/create/strata/0": counted("more allocations", 4.0, 5.0),
        "storage/put/strata/1": counted("more allocations", 0.0, 5.0),
    }
    found = comparison(quiet() | rows)
    assert ending(found) == ("MORE ALLOCATIONS", Exit.FAILED, Exit.FAILED)
    assert comparison_report.headline(found).endswith(
        "2 rows with more allocations (0 -> 5, at most 4 on storage/put/strata/1, layer storage)"
    )
    for said in (comparison_report.text(found), comparison_report.comment(found).replace("\\", "")):
        (line,) = (line for line in said.splitlines() if "transaction/create/strata/0" in line)
        assert [word.strip(" |") for word in line.split() if word.strip(" |")] == [
            "transaction/create/strata/0",
            "transaction",
            "4",
            "->",
            "5",
            "4",
        ]
    assert "2 more allocations" in comparison_report.last_line(found)
    assert ending(comparison(rows)) == ("MORE ALLOCATIONS", Exit.FAILED, Exit.FAILED), "nothing else was judged"
    both = comparison(mixed() | rows)
    assert comparison_report.headline(both).startswith(
        "SLOWER: 2 rows"
    ) and "2 rows with more allocations" in comparison_report.headline(both)


def test_fewer_allocations_are_no_failure() -> None:
    row = {"transaction/create/strata/0": counted("fewer allocations", 5.0, 4.0)}
    assert comparison_report.exit_code(comparison(quiet() | row), True) == Exit.FINE
    assert ending(comparison(row))[1:] == (Exit.FINE, Exit.FINE), "a count is a verdict"
    assert "1 fewer allocations" in comparison_report.headline(comparison(row))


def test_fine_is_said_with_the_counts_of_all_that_was_told() -> None:
    found = comparison(quiet())
    assert (
        comparison_report.headline(found)
        == "nothing is slower: 0 slower, 1 faster, 2 same, 0 can't tell, 2 identical, 1 left out, 1 one side"
    )
    assert ending(found)[1:] == (Exit.FINE, Exit.FINE)


def test_what_cannot_be_told_is_green_unless_strict() -> None:
    found = comparison(quiet() | {"transaction/read/strata/x": row(0.03, 0.10)})
    assert ending(found) == ("nothing is slower", Exit.FINE, Exit.NOTHING)
    assert "1 can't tell" in comparison_report.last_line(found)


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {"a/b/strata/c": unjudged("left_out", "not chosen")},
        {"a/b/strata/c": unjudged("one_side", "only in main")},
        {"a/b/strata/c": row(0.03, 0.10)},
        {"a/b/strata/c": ComparedRow("judged", [], row(0).facts, 0.02)},
    ],
    ids=["no row", "left out", "one side", "can't tell alone", "a judgement is missing"],
)
def test_silence_is_never_green(rows: dict[str, ComparedRow]) -> None:
    found = comparison(rows)
    found.outcome = "fine"
    assert ending(found) == ("NOTHING WAS JUDGED", Exit.NOTHING, Exit.NOTHING)


def test_rows_that_were_not_run_are_not_green() -> None:
    found = comparison(quiet() | {"routing/get/strata/1": unjudged("not_run")})
    assert ending(found) == ("NOT ALL WAS RUN", Exit.NOTHING, Exit.NOTHING)


def test_an_invalid_row_is_an_error_and_says_why() -> None:
    found = comparison(quiet() | {"routing/get/strata/1": unjudged("invalid", "pair 3: another answer")})
    assert ending(found) == ("NOT ALL COULD BE MEASURED", Exit.ERROR, Exit.ERROR)
    assert re.search(r"routing/get/strata/1 +1 +invalid +pair 3: another answer", comparison_report.text(found))


def test_an_interrupted_comparison_has_no_verdict() -> None:
    found = comparison(mixed(), complete=False)
    assert ending(found) == ("NOT FINISHED", Exit.NOTHING, Exit.NOTHING)
    assert "compare --resume" in comparison_report.headline(found)
    assert comparison_report.last_line(found).startswith("unfinished; ")


def test_a_control_that_moved_voids_every_verdict() -> None:
    found = comparison(
        mixed(), {"harness/copy/bytes/1_MB": control(change=0.03), "storage/get/strata/sst": control("row")}
    )
    assert ending(found) == ("CONTAMINATED", Exit.NOTHING, Exit.NOTHING)
    said = comparison_report.text(found)
    assert "harness/copy/bytes/1_MB by +3.0 %" in said.splitlines()[0]
    assert "slower, if the controls had been quiet" in said
    assert said.splitlines()[-1].startswith("contaminated; ")
    assert comparison_report.comment(found).startswith("### **CONTAMINATED: ")


def test_controls_are_counted_and_their_absence_is_said() -> None:
    assert "1 sentinel, 1 row of A: quiet; smallest adjusted p 1, an alarm is at 0.01" in comparison_report.text(
        comparison(quiet())
    )
    assert "none: a machine that favours one side would not have been noticed" in comparison_report.text(
        comparison(quiet(), {})
    )


def test_every_row_is_counted_exactly_once() -> None:
    rows = mixed() | {"routing/get/strata/1": unjudged("invalid", "x"), "routing/get/strata/2": unjudged("not_run")}
    counts = comparison_report.census(comparison(rows))
    assert counts == {
        "slower": 2,
        "faster": 1,
        "same": 2,
        "can't tell": 1,
        "identical": 2,
        "one side": 1,
        "left out": 1,
        "invalid": 1,
        "not run": 1,
    }
    assert counts.total() == len(rows)


def test_the_sections_hold_every_row_exactly_once() -> None:
    found = comparison(mixed())
    listed = sum(len(section.body) for section in comparison_report.sections(found) if section.title != "not judged")
    (unjudged_section,) = (section for section in comparison_report.sections(found) if section.title == "not judged")
    grouped = sum(int(cells[1]) for cells in unjudged_section.body if cells[1] != "all")
    assert listed + grouped == len(found.rows)


def test_targets_that_were_not_run_are_listed_with_the_reason() -> None:
    assert re.search(r"routing +all +left out +nothing under it changed", comparison_report.text(comparison(mixed())))


def test_same_rows_are_folded_into_the_widest_interval_unless_all_are_asked_for() -> None:
    found = comparison(mixed())
    folded, unfolded = comparison_report.text(found), comparison_report.text(found, everything=True)
    assert (
        "2 rows the same; the widest 95 % interval is [+0.7, +1.7] on storage/get/strata/memtable; 1 moved, but within the margin"
        in folded
    )
    assert "storage/get/strata/sst " not in folded
    assert re.search(r"storage/get/strata/memtable +same \(\+1\.2 %\) \[\+0\.7, \+1\.7\]", unfolded)
    assert re.search(r"storage/get/strata/sst +\+0\.2 % \[-0\.2, \+0\.6\]", unfolded)


def test_a_row_is_told_with_times_pairs_and_witnesses() -> None:
    (line,) = (
        line
        for line in comparison_report.text(comparison(mixed())).splitlines()
        if "hash_lookup" in line and "->" in line
    )
    assert "+5.1 % [+4.7, +5.5]" in line and "1.000 -> 1.051 us" in line and " 16 " in line
    assert "does more work (instructions +4.9 %); more allocations: 2 -> 3" in line and "bytes written" not in line


def test_an_outlier_is_counted_beside_its_row() -> None:
    odd = row(-0.06)
    odd.pairs[3].effect = 2.3
    assert "1 of 16 pairs are outliers" in comparison_report.text(comparison({"a/b/strata/c": odd}))


def test_who_is_compared_and_what_it_cost() -> None:
    rows = mixed()
    rows[SLOWER].set_aside = points(0.3, pairs=2)
    compared = comparison(rows)
    compared.design.reruns = {SLOWER: [6, 7]}
    said = comparison_report.text(compared, Path("/elsewhere/compare-1.json"))
    assert "A: main (aaaaaaaaa)\n" in said
    assert "B: the working tree (bbbbbbbbb+changes, with the benches of aaaaaaaaa, STRATA_SET=cache=32M)" in said
    assert (
        "12 min 34 s, 102 pairs of rows (2 pairs run again, for unlike conditions) and 32 of controls; margin 2.0 %; seed 4711"
        in said
    )
    assert re.search(r"a slow-down of [2-9]\.\d % .* would have been found 4 times out of 5", said)
    assert "kept as /elsewhere/compare-1.json" in said


def test_a_terminal_that_is_narrow_gets_fewer_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("run_benches.render.tables.room", lambda: 90)
    said = comparison_report.text(comparison(mixed()))
    assert max(map(len, said.splitlines()[1:-1])) <= 90
    assert "left out for want of room: " in said and "+5.1 % [+4.7, +5.5]" in said


def test_without_a_terminal_nothing_is_coloured() -> None:
    assert "\033" not in comparison_report.text(comparison(mixed()))


def test_a_comment_says_the_same_as_the_terminal() -> None:
    said = comparison_report.comment(comparison(mixed()))
    assert said.startswith("### **SLOWER: 2 rows; the layer to blame is indexes")
    assert f"| {SLOWER} | +5.1 % [+4.7, +5.5] | 1.000 -> 1.051 us |" in said
    assert "<details><summary>2 rows the same" in said and said.count("<details>") == said.count("</details>") == 1
    assert "- by: run-benches.py compare main" in said and "aaaaaaaaa" in said
    assert "2 slower, 1 faster, 2 same, 1 can't tell" in said.splitlines()[-1]


def test_a_comment_is_short_however_many_rows_are_red() -> None:
    rows = {
        f"indexes/a_rather_long_operation_name_{number}/strata/with_a_long_case_too": row(0.05) for number in range(400)
    }
    found = comparison(
        rows | {f"layer_{number}/x/strata/y": unjudged("invalid", "why " * 1000) for number in range(400)}
    )
    said = comparison_report.comment(found)
    assert 20_000 < len(said) < markdown.LONGEST_COMMENT
    shown = said.count("| indexes/a_rather")
    assert 20 < shown < 400 and f"{400 - shown} more are left out here for want of room" in said
    assert "400 slower" in said.splitlines()[-1] and said.startswith("### **SLOWER: 400 rows")


def test_markup_in_names_and_reasons_is_text() -> None:
    said = comparison_report.comment(
        comparison({"a/b|c/strata/d": unjudged("invalid", "it said `x|y`\n<script>")} | quiet())
    )
    assert r"| a/b\|c/strata/d | 1 | invalid | it said \`x\|y\` \<script> |" in said


# Time and counts.

ONE = Judgement("slower", "decision", 16, 0.05, 0.04, 0.06, 0.041, 0.059)
STORE, MEMORY = (Facts("", "", 1.0, 1, state=state) for state in ("SST, cached", "in memory"))


@pytest.mark.parametrize(
    ("verdict", "b", "said"),
    [
        ("slower", 1050.0, "does more work (instructions +5.0 %)"),
        ("slower", 1020.0, "does more work, which explains only a part (instructions +2.0 %)"),
        ("slower", 1005.0, "same instructions: cache, branches or placement"),
        ("slower", 950.0, "does less work, and waits more: cache, branches or placement (instructions -5.0 %)"),
        ("faster", 1050.0, "does more work, and waits less: cache, branches or placement (instructions +5.0 %)"),
        ("faster", 1000.0, "same instructions: cache, branches or placement"),
        ("faster", 950.0, "does less work (instructions -5.0 %)"),
        ("same", 1050.0, "does more work that does not show yet (instructions +5.0 %)"),
        ("same", 1000.0, ""),
        ("same", 950.0, "does less work that does not show yet (instructions -5.0 %)"),
        ("can't tell", 1050.0, "does more work, whether or not it shows (instructions +5.0 %)"),
        ("can't tell", 1000.0, "same instructions"),
        ("can't tell", 950.0, "does less work, whether or not it shows (instructions -5.0 %)"),
    ],
)
def test_time_and_instructions_in_words(verdict: Verdict, b: float, said: str) -> None:
    judgement = Judgement(verdict, "decision", 16, -0.05 if verdict == "faster" else 0.05, None, None, None, None)
    assert witnesses.phrase(judgement, Witness((1000.0, b)), STORE) == said


def test_the_processor_alone_repeats_itself_better_than_a_store() -> None:
    witness = Witness((1000.0, 1005.0))
    assert witnesses.phrase(ONE, witness, MEMORY).startswith("does more work")
    assert witnesses.phrase(ONE, witness, STORE).startswith("same instructions")


def test_counts_that_changed_are_named_and_others_are_not() -> None:
    witness = Witness(
        None,
        (2.0, 1.0),
        {"user_key_comparison_count": (10.0, 12.0), "bytes_written": (0.0, 0.0), "flushes": (0.0001, 0.0002)},
    )
    assert (
        witnesses.phrase(ONE, witness, STORE) == "fewer allocations: 2 -> 1; more user key comparison count: 10 -> 12"
    )
    assert witnesses.phrase(ONE, None, STORE) == ""


def test_effects_are_printed_with_sign_and_interval() -> None:
    assert [effects.change(effect) for effect in (0.05, -0.05, 0.00004, -0.00004, 0.9)] == [
        "+5.1 %",
        "-4.9 %",
        "0.0 %",
        "0.0 %",
        "+146 %",
    ]
    assert effects.interval(None, None) == "[too few pairs]"
    assert [effects.probability(p) for p in (None, 1.0, 0.0312, 0.000346, 0.00002)] == [
        "",
        "1",
        "0.031",
        "0.0003",
        "below 0.0001",
    ]


# The picture.


def test_the_forest_plot_holds_the_rows_that_are_not_the_same(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "forest.svg"
    forest.forest(comparison(mixed()), path)
    said = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
    for shown in (
        SLOWER,
        "transaction/find/strata/2",
        "transaction/read/strata/x",
        "+5.1 % [+4.7, +5.5]",
        "can't tell",
    ):
        assert shown in said, shown
    assert "storage/get/strata/sst" not in said and "encoding/key" not in said


def test_a_forest_of_nothing_is_a_complaint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to draw"):
        forest.forest(comparison({"storage/get/strata/sst": screened()}), tmp_path / "forest.svg")
    with pytest.raises(UserError, match="a control moved"):
        forest.forest(comparison(mixed(), {"harness/copy/bytes/1_MB": control(change=0.03)}), tmp_path / "forest.svg")


def test_points_of_the_factory_are_what_they_say() -> None:
    made = points(0.05)
    assert len(made) == 16 and made[0].b_ns / made[0].a_ns == pytest.approx(1.05 * (1 - 0.004), rel=1e-4)
