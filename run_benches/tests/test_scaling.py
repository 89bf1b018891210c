"""Series of rows along an axis: how they are found, marked and told."""

from run_benches.analysis import growth
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


def test_the_table_names_the_cores_and_marks_what_is_beyond_them() -> None:
    text = told(scaled())
    assert "**by threads on 2 cores**" in text
    assert "| 1 thread | 2 threads | 4 threads (oversubscribed) | 8 threads (oversubscribed) |" in text
    assert "| 1 k | 10 k | 100 k | 1 M |" in text
    assert "| 520 ns (510 to 536 ns) | 540 ns (529 to 556 ns) |" in line_with(
        text, "`scaling/read`<br>reads one record |"
    )


def test_the_law_of_growth_stands_below() -> None:
    text = told(scaled())
    assert "* `scaling/read`: grows by 1.06x for every tenfold of records" in text
    assert "* `scaling/insert`: linear: +701 ns for each further index" in text
    assert "with 4 threads (oversubscribed)" in line_with(text, "* `scaling/create`")


def test_a_speed_up_has_its_interval_and_is_none_where_no_turns_were_taken() -> None:
    run = scaled()
    read = next(one for one in Findings.of(run).series["threads"] if one.name == "scaling/read")
    assert read.words.startswith("the rate of one thread, 1.92x [1.91x, 1.93x] with 2 threads, 1.85x [")
    assert "| 1.92x [1.91x, 1.93x] |" in line_with(
        "\n".join(scaling.section(Source(Findings.of(run), {}, {}))), "| `scaling/read` |"
    )
    run.contrasts = {}
    read = next(one for one in Findings.of(run).series["threads"] if one.name == "scaling/read")
    assert (read.speed_up(2), read.words) == (None, "speed-up not run: the two took no turns")


def test_a_point_that_did_not_run_says_why_and_is_not_in_the_law() -> None:
    run = scaled()
    lost = run.benches["scaling/read/strata/1000000_records"]
    lost.state, lost.reasons, lost.points_ns = "skipped", ["no room for a million records"], []
    assert "not run (skipped): no room for a million records" in line_with(
        told(run), "`scaling/read`<br>reads one small record"
    )
    (read, _) = Findings.of(run).series["records"]
    assert read.law == growth.fit([(x, row.bench.points_ns) for x, row in list(read.rows.items())[:3]], "records")


def test_one_process_has_no_law() -> None:
    run = scaled()
    for id, bench in run.benches.items():
        bench.points_ns = bench.points_ns[:1] if id.startswith("scaling/range/") else bench.points_ns
    assert "* `scaling/range`: not resolved (1 process: too few for an interval)." in told(run)


def test_a_run_without_series_says_so() -> None:
    assert "not run: measured were storage, integration, ladder" in told(a_run())
    assert not [name for name in gallery.pictures(Findings.of(a_run())) if name.startswith("scaling")]


def test_each_axis_has_a_picture_that_is_referred_to() -> None:
    run = scaled()
    text = told(run)
    for axis in ("threads", "records", "indexes"):
        assert f"/pictures/scaling-{axis}.svg)" in text
        assert f"scaling-{axis}" in gallery.pictures(Findings.of(run))
