"""The report of a comparison: the first sentence and the exit code agree, every row is counted once, a comment is short
enough."""

import xml.etree.ElementTree
from pathlib import Path

import pytest

from run_benches.analysis import effects
from run_benches.compare import witnesses
from run_benches.errors import Exit, UserError
from run_benches.render import comparison_report, forest, markdown, terminal
from run_benches.render.section import Section
from run_benches.stats.judge import Judgement
from run_benches.store.comparisons import ComparedRow, Comparison, Control, Witness
from run_benches.store.runs import Facts
from run_benches.tests.comparisons import changed, comparison, control, counted, points, row, screened, unjudged

SLOWER = "indexes/hash_lookup/strata/100_entries"
INVALID, NOT_RUN = {"routing/get/strata/1": unjudged("invalid", "x")}, {"routing/get/strata/2": unjudged("not_run")}
ALARM = {"harness/copy/bytes/1_MB": control(change=0.03), "storage/get/strata/sst": control("row")}


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


def quiet(more: dict[str, ComparedRow] | None = None) -> dict[str, ComparedRow]:
    """Nothing slower, nothing open, and these."""
    loud = (SLOWER, "transaction/create/strata/2", "transaction/read/strata/x")
    return {id: row for id, row in mixed().items() if id not in loud} | (more or {})


def more_allocations() -> dict[str, ComparedRow]:
    return {
        "transaction/create/strata/0": counted("more allocations", 4.0, 5.0),
        "storage/put/strata/1": counted("more allocations", 0.0, 5.0),
    }


def fewer_allocations() -> dict[str, ComparedRow]:
    return {"transaction/create/strata/0": counted("fewer allocations", 5.0, 4.0)}


def parts(found: Comparison) -> dict[str, Section]:
    return {section.title: section for section in comparison_report.sections(found)}


FINE, FAILED, ERROR, NOTHING = ((code, code) for code in (Exit.FINE, Exit.FAILED, Exit.ERROR, Exit.NOTHING))


@pytest.mark.parametrize(
    ("rows", "controls", "complete", "ending", "codes"),
    [
        (mixed(), None, True, "SLOWER", FAILED),
        (mixed() | more_allocations(), None, True, "SLOWER", FAILED),
        (mixed() | INVALID | NOT_RUN, None, True, "SLOWER", FAILED),
        (quiet(more_allocations()), None, True, "MORE ALLOCATIONS", FAILED),
        (more_allocations(), None, True, "MORE ALLOCATIONS", FAILED),
        (quiet(more_allocations()) | INVALID, None, True, "MORE ALLOCATIONS", FAILED),
        (quiet(), None, True, "nothing is slower", FINE),
        (quiet(fewer_allocations()), None, True, "nothing is slower", FINE),
        (fewer_allocations(), None, True, "nothing is slower", FINE),
        (quiet({"a/b/strata/c": row(0.03, 0.10)}), None, True, "nothing is slower", (Exit.FINE, Exit.NOTHING)),
        (quiet(NOT_RUN), None, True, "NOT ALL WAS RUN", NOTHING),
        (quiet(INVALID | NOT_RUN), None, True, "NOT ALL COULD BE MEASURED", ERROR),
        (mixed(), None, False, "NOT FINISHED", NOTHING),
        (mixed(), ALARM, True, "CONTAMINATED", NOTHING),
        (quiet(), {}, True, "NOTHING WAS JUDGED", NOTHING),
    ],
)
def test_the_first_words_and_the_exit_codes_without_and_with_strict_agree(
    rows: dict[str, ComparedRow],
    controls: dict[str, Control] | None,
    complete: bool,
    ending: str,
    codes: tuple[Exit, Exit],
) -> None:
    found = comparison(rows, controls, complete)
    first = comparison_report.headline(found)
    assert first.partition(":")[0].partition(",")[0] == ending
    assert (comparison_report.exit_code(found, False), comparison_report.exit_code(found, True)) == codes
    assert (
        comparison_report.text(found).startswith(ending) and ending in comparison_report.comment(found).split("\n")[0]
    )
    counts = comparison_report.census(found)
    assert counts.total() == len(rows), "every row is counted exactly once"
    told = comparison_report.last_line(found)
    assert not [end for end, count in counts.items() if f"{count} {end}" not in told]


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
    assert comparison_report.headline(found).startswith("NOTHING WAS JUDGED")
    assert (comparison_report.exit_code(found, False), comparison_report.exit_code(found, True)) == NOTHING


def test_the_layer_to_blame_is_named_with_its_slowest_row_and_the_interval() -> None:
    found = comparison(mixed() | {"indexes/hash_insert/strata/1": row(0.04)})
    judgement = found.rows[SLOWER].judgement
    assert judgement and f"indexes ({effects.estimated(judgement)} on {SLOWER})" in comparison_report.headline(found)


def test_more_allocations_are_named_with_the_most_first_also_where_something_is_slower() -> None:
    found = comparison(mixed() | more_allocations())
    assert [cells[0] for cells in parts(found)["more allocations"].body] == list(more_allocations())[::-1]
    assert "0 -> 5, at most 4 on storage/put/strata/1" in comparison_report.headline(found)


@pytest.mark.parametrize(
    ("controls", "complete", "doubt"),
    [(None, True, ""), (None, False, ", so far"), (ALARM, True, ", if the controls had been quiet")],
)
def test_verdicts_that_do_not_count_yet_or_at_all_are_doubted(
    controls: dict[str, Control] | None, complete: bool, doubt: str
) -> None:
    found = comparison(mixed(), controls, complete)
    doubted = [title for title in parts(found) if title.startswith(("slower", "faster", "same", "attribution"))]
    assert doubted == [f"slower{doubt}", f"faster{doubt}", f"same{doubt}", f"attribution{doubt}"]
    assert bool(doubt) == comparison_report.last_line(found).startswith(("unfinished; ", "contaminated; "))


def test_controls_are_counted_and_a_moved_one_and_their_absence_is_said() -> None:
    for controls, words in ((None, "1 sentinel, 1 row of A: quiet"), ({}, "none: "), (ALARM, "ALARM: harness/copy")):
        assert words in parts(comparison(quiet(), controls))["controls (A with itself)"].sentences[0]


def test_the_sections_hold_every_row_exactly_once_with_the_reason_of_what_was_not_judged() -> None:
    found = comparison(mixed() | INVALID)
    by_title = parts(found)
    unjudged_rows = by_title.pop("not judged").body
    listed = [cells[0] for section in by_title.values() for cells in section.body]
    grouped = sum(int(cells[1]) for cells in unjudged_rows if cells[1] != "all")
    assert len(set(listed)) == len(listed) and len(listed) + grouped == len(found.rows)
    assert ["routing/get/strata/1", "1", "invalid", "x"] in unjudged_rows
    assert ["encoding", "2", "identical", "same bytes"] in unjudged_rows, "rows with one reason stand together"
    assert ["routing", "all", "left out", "nothing under it changed"] in unjudged_rows


def test_rows_of_a_verdict_stand_by_the_size_of_their_change() -> None:
    bodies = [section.body for title, section in parts(changed()).items() if title in ("slower", "faster", "same")]
    sizes = [[abs(float(cells[1].split("%")[0].split("(")[-1])) for cells in body] for body in bodies]
    assert sizes == [sorted(one, reverse=True) for one in sizes] and min(map(len, sizes)) > 1


def test_same_rows_are_folded_into_the_widest_interval_unless_all_are_asked_for() -> None:
    found = comparison(mixed())
    folded, unfolded = comparison_report.text(found), comparison_report.text(found, everything=True)
    judgement = found.rows["storage/get/strata/memtable"].judgement
    assert judgement
    assert f"{effects.interval(judgement.low, judgement.high)} on storage/get/strata/memtable" in folded
    assert "1 moved, but within the margin" in folded
    assert "storage/get/strata/sst " not in folded and "storage/get/strata/sst " in unfolded


def test_a_row_is_told_with_times_pairs_witnesses_and_outliers() -> None:
    rows = mixed()
    rows["transaction/find/strata/2"].pairs[3].effect = 2.3
    found = parts(comparison(rows))
    ((id, change, times, _, pairs, more), *_), ((*_, notes),) = found["slower"].body, found["faster"].body
    assert (id, change, times, pairs) == (SLOWER, "+5.1 % [+4.7, +5.5]", "1.000 -> 1.051 us", "16")
    assert "instructions +4.9 %" in more and "allocations: 2 -> 3" in more and "bytes written" not in more
    assert "1 of 16 pairs" in notes


def test_who_is_compared_and_what_it_cost() -> None:
    rows = mixed()
    rows[SLOWER].set_aside = points(0.3, pairs=2)
    found = comparison(rows)
    found.design.reruns = {SLOWER: [6, 7]}
    who, cost = parts(found)["compared"].sentences, parts(found)["cost"].sentences
    assert "main (aaaaaaaaa)" in who[0] and "bbbbbbbbb+changes" in who[1] and "STRATA_SET=cache=32M" in who[1]
    pairs = sum(len(row.screen) + len(row.pairs) + len(row.set_aside) for row in rows.values())
    assert f"{pairs} pairs of rows (2 pairs run again" in cost[0] and "and 32 of controls" in cost[0]
    assert "4 times out of 5" in cost[1]
    undecided = comparison({"storage/get/strata/sst": screened()})
    assert not [words for words in parts(undecided)["cost"].sentences if "4 times out of 5" in words]
    assert "kept as /elsewhere/compare-1.json" in comparison_report.text(found, Path("/elsewhere/compare-1.json"))


def test_a_terminal_that_is_narrow_gets_fewer_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "room", lambda: 90)
    said = comparison_report.text(comparison(mixed()))
    assert max(map(len, said.splitlines()[:-1])) <= 90, "but the count in the last line"
    assert "left out for want of room: " in said and "+5.1 % [+4.7, +5.5]" in said


def test_without_a_terminal_nothing_is_coloured() -> None:
    assert "\033" not in comparison_report.text(comparison(mixed()))


def test_a_comment_says_the_same_as_the_terminal() -> None:
    found = comparison(mixed())
    said = comparison_report.comment(found)
    assert said.startswith(f"### **{comparison_report.headline(found)}")
    assert said.endswith(f"{comparison_report.last_line(found)}\n")
    assert not [cell for part in parts(found).values() for cells in part.body for cell in cells if cell not in said]
    assert said.count("<details>") == said.count("</details>") == 1, "what is the same is folded"


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
    assert 20 < shown < 400 and f"{400 - shown} more are left out here" in said
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
    ("b", "facts", "work", "size"),
    [
        (1050.0, STORE, "more", "instructions +5.0 %"),
        (1020.0, STORE, "more", "only a part"),
        (1005.0, STORE, "same", "same instructions"),
        (950.0, STORE, "less", "instructions -5.0 %"),
        (1005.0, MEMORY, "more", "instructions +0.5 %"),
        (1000.5, MEMORY, "same", "same instructions"),
    ],
)
def test_the_processor_alone_repeats_itself_better_than_a_store(b: float, facts: Facts, work: str, size: str) -> None:
    assert witnesses.work(1000.0, b, witnesses.agreement(facts)) == work
    assert size in witnesses.phrase(ONE, Witness((1000.0, b)), facts)


def test_counts_that_changed_are_named_and_others_are_not() -> None:
    counters = {"user_key_comparison_count": (10.0, 12.0), "bytes_written": (0.0, 0.0), "flushes": (0.0001, 0.0002)}
    fewer, more = witnesses.phrase(ONE, Witness(None, (2.0, 1.0), counters), STORE).split("; ")
    assert fewer.endswith("allocations: 2 -> 1") and more.endswith("user key comparison count: 10 -> 12")
    assert witnesses.phrase(ONE, None, STORE) == ""


def test_effects_are_printed_with_sign_and_interval() -> None:
    told = [effects.change(effect) for effect in (0.05, -0.05, 0.00004, -0.00004, 0.9)]
    assert told == ["+5.1 %", "-4.9 %", "0.0 %", "0.0 %", "+146 %"]
    assert effects.interval(None, None) == "[too few pairs]"
    told = [effects.probability(p) for p in (None, 1.0, 0.0312, 0.000346, 0.00002)]
    assert told == ["", "1", "0.031", "0.0003", "below 0.0001"]


# The picture.


def test_the_forest_plot_holds_the_rows_that_are_not_the_same(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "forest.svg"
    forest.forest(comparison(mixed()), path)
    said = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
    shown = (SLOWER, "transaction/find/strata/2", "transaction/read/strata/x", "+5.1 % [+4.7, +5.5]", "can't tell")
    assert not [words for words in shown if words not in said]
    assert "storage/get/strata/sst" not in said and "encoding/key" not in said


def test_a_forest_of_nothing_is_a_complaint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to draw"):
        forest.forest(comparison({"storage/get/strata/sst": screened()}), tmp_path / "forest.svg")
    with pytest.raises(UserError, match="a control moved"):
        forest.forest(comparison(mixed(), {"harness/copy/bytes/1_MB": control(change=0.03)}), tmp_path / "forest.svg")


def test_points_of_the_factory_are_what_they_say() -> None:
    made = points(0.05)
    assert len(made) == 16 and made[0].b_ns / made[0].a_ns == pytest.approx(1.05 * (1 - 0.004), rel=1e-4)
