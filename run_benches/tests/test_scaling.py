"""Series of rows along an axis: how they are found, marked and told."""

import pytest

from run_benches.analysis import figures, growth
from run_benches.analysis.findings import Findings
from run_benches.render import gallery, scaling
from run_benches.render.source import Source
from run_benches.store.runs import Place, Run
from run_benches.tests import made_up
from run_benches.tests.test_document import a_run, line_with


def scaled() -> Run:
    return made_up.with_scaling(a_run())


def told(run: Run) -> str:
    return "\n".join(
        scaling.page(
            Source(Findings.of(run), {"scaling": "How the verbs scale."}, gallery.pictures(Findings.of(run)), None)
        )
    )


def test_rows_of_one_operation_and_axis_are_one_series_from_the_left() -> None:
    run = scaled()
    run.benches = dict(reversed(run.benches.items()))
    assert list(Findings.of(run).series) == ["threads", "records", "indexes"]
    (create, read) = sorted(
        (one for one in Findings.of(run).series["threads"] if one.work[1] == "strata"), key=lambda one: one.name
    )
    assert (create.name, list(create.rows)) == ("scaling/create", [1, 2, 4, 8])
    assert [read.oversubscribed(x) for x in read.rows] == [False, False, True, True]


def test_rows_of_other_subjects_and_numbers_of_threads_are_series_of_their_own() -> None:
    run = scaled()
    for subject, threads in (("floor", 1), ("strata", 8)):
        run.benches[f"scaling/read/{subject}/1000_records_{threads}"] = made_up.bench(
            700, "reads", threads=threads, scale=Place("records", 1e3)
        )
    names = [one.name for one in Findings.of(run).series["records"]]
    assert names == ["scaling/read", "scaling/range", "scaling/read, floor", "scaling/read, 8 threads"]


def test_the_table_marks_what_is_beyond_the_cores() -> None:
    header = line_with(told(scaled()), "row, and what one operation is", "1 thread")
    assert [cell for cell in header.split(" | ") if "oversubscribed" in cell] == [
        "4 threads (oversubscribed)",
        "8 threads (oversubscribed) |",
    ]


def test_a_series_has_its_law_and_threads_have_speed_ups_with_intervals_where_turns_were_taken() -> None:
    run = scaled()
    laws = {one.name: one.law.law for axis in ("records", "indexes") for one in Findings.of(run).series[axis]}
    assert (laws["scaling/read"], laws["scaling/insert"]) == ("power", "linear")
    read = next(one for one in Findings.of(run).series["threads"] if one.name == "scaling/read")
    gain = read.speed_up(2)
    assert gain and gain.ratio().low and gain.ratio().middle == pytest.approx(1000 / 520, rel=0.01)
    assert read.speed_up(1) is None and read.speed_up(16) is None
    assert figures.factor(gain) in line_with(
        "\n".join(scaling.section(Source(Findings.of(run), {}, {}))), "| `scaling/read` |"
    )
    run.contrasts = {}
    read = next(one for one in Findings.of(run).series["threads"] if one.name == "scaling/read")
    assert read.speed_up(2) is None and "the two took no turns" in read.words


def test_a_point_that_did_not_run_says_why_and_is_not_in_the_law() -> None:
    run = scaled()
    lost = run.benches["scaling/read/strata/1000000_records"]
    lost.state, lost.reasons, lost.points_ns = "skipped", ["no room for a million records"], []
    assert "no room for a million records" in line_with(told(run), "`scaling/read`<br>reads one small record")
    (read, _) = Findings.of(run).series["records"]
    assert read.law == growth.fit([(x, row.bench.points_ns) for x, row in list(read.rows.items())[:3]], "records")


def test_one_process_has_no_law() -> None:
    run = scaled()
    for id, bench in run.benches.items():
        bench.points_ns = bench.points_ns[:1] if id.startswith("scaling/range/") else bench.points_ns
    words = {one.name: one.words for one in Findings.of(run).series["records"]}
    assert "not resolved (1 process" in words["scaling/range"] and "not resolved" not in words["scaling/read"]


def test_each_axis_has_a_picture_that_is_referred_to_and_a_run_without_series_says_so() -> None:
    text, drawn = told(scaled()), gallery.pictures(Findings.of(scaled()))
    for axis in ("threads", "records", "indexes"):
        assert f"/pictures/scaling-{axis}.svg)" in text and f"scaling-{axis}" in drawn
    assert "not run: measured were" in told(a_run())
    assert not [name for name in gallery.pictures(Findings.of(a_run())) if name.startswith("scaling")]
