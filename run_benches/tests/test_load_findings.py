"""The findings of load tests in the performance document: only what one window says, beside the ladder's highest rung,
or nothing at all."""

import re

import pytest

from run_benches.analysis import figures, load_figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.load_findings import LoadFindings
from run_benches.render import load_pictures, load_report, page, source
from run_benches.store.loads import LoadRun
from run_benches.store.runs import Run
from run_benches.tests.made_up import (
    a_load_run,
    a_load_run_of_a_stream,
    a_load_run_of_messages,
    a_load_run_of_servers,
    bench,
    planned,
    repeated,
    result_of,
)
from run_benches.tests.test_document import HEADERS, a_run, line_with


def with_rung() -> Run:
    return planned(a_run(), {"ladder/get/strata/tcp": bench(16_000.0, "answers GET of one record", clock="cpu")})


def on_the_machine_of(run: Run, load: LoadRun) -> LoadRun:
    load.machine = run.machine
    return load


def test_without_a_stored_load_test_the_page_says_not_measured() -> None:
    text = page.render(Findings.of(a_run()), HEADERS, None)["performance/load.md"]
    assert "\nnot measured\n" in text and "| " not in text and "##" not in text


def page_of(load: LoadRun) -> str:
    return "\n".join(load_report.body(LoadFindings.of(load), []))


def test_repeats_are_one_scenario_with_their_spread_and_an_invalid_one_is_told_apart() -> None:
    load = a_load_run()
    curves = load.scenarios["rest-crud"].curves
    results = repeated(load, 3)
    for result, throughput in zip(results, (1000.0, 990.0, 1010.0), strict=True):
        result["throughput"] = throughput
    (measured,) = LoadFindings.of(load).measured
    assert (measured.name, len(measured.results), measured.curves) == ("rest-crud", 3, curves)
    assert page_of(load).count("\n## rest-crud\n") == page_of(load).count("| rest-crud | **valid** |") == 1
    assert "1.00 k (990 to 1.01 k)" in page_of(load) and "of the first of 3 repeats" in page_of(load)
    results[1]["validity"], results[1]["broken"] = "invalid", ["T3: a sum"]
    assert "| rest-crud, repeat 1, 3 | **valid** |" in page_of(load)
    assert "| rest-crud, repeat 2 | **invalid** | T3: a sum |" in page_of(load)


def test_of_one_process_no_spread_is_told() -> None:
    assert "1.00 k (1 process)" in page_of(a_load_run()) and "of the first of" not in page_of(a_load_run())


def test_what_limits_a_scenario_is_said_with_the_shares_of_its_window() -> None:
    (limit,) = LoadFindings.of(a_load_run()).limits
    assert limit.words == "the rate that was offered"
    assert limit.server_share == pytest.approx(0.51 / 0.99, abs=0.01) and limit.kernel_share == pytest.approx(
        0.16 / 0.51, abs=0.01
    )


def test_a_limit_is_named_only_where_it_is_shown() -> None:
    load = a_load_run()
    result = result_of(load)
    result["loop"] = "closed"
    assert LoadFindings.of(load).limits[0].words == "not known", "the server used a tenth of a processor"
    result["processes"]["server"]["user_seconds"] = 0.95 * result["window"]["seconds"]
    assert LoadFindings.of(load).limits[0].words == "not known", "it has two"
    result["pinned"] = {"client": [1], "server": [0]}
    assert LoadFindings.of(load).limits[0].words == "the server's processors"
    result["scenario"]["load"]["server_cpus"] = 0.5
    assert LoadFindings.of(load).limits[0].words == "the quota of 0.5 processors"
    result["validity"] = "client_bound"
    assert LoadFindings.of(load).limits[0].words == "the client: the server can do at least 1.00 k/s"
    result["loop"], result["scenario"]["load"]["server_cpus"] = "open", None
    assert LoadFindings.of(load).limits[0].words == "the rate that was offered", "all that was offered was answered"
    result["total"]["ok"] -= 1
    assert LoadFindings.of(load).limits[0].words == "the client: the server can do at least 1.00 k/s"
    result["processes"]["server"] = None
    assert LoadFindings.of(load).limits[0].server_share is None


def test_operations_under_a_quota_stand_in_the_columns_of_the_published_test() -> None:
    load = a_load_run()
    assert "## Under quotas" not in page_of(load)
    results = repeated(load, 2)
    for result, throttled in zip(results, (3, 42), strict=True):
        result["scenario"]["load"]["server_cpus"] = 0.5
        result["quota"] = {"mechanism": "cpu.max", "throttled_periods": throttled}
    cells = line_with(page_of(load), "| rest-crud | 2 | 0.5 | get list |").split(" | ")
    assert (cells[4], cells[5]) == ("104", "207"), "a second, and a second of a processor"
    assert cells[-1] == "45 of 100 |" and "too few: 518, 518" in cells, "no number is made of too few requests"
    results[1]["quota"]["throttled_periods"] = None
    assert line_with(page_of(load), "| get list |").endswith("| not measured |")


def test_of_an_invalid_window_nothing_is_told() -> None:
    load = a_load_run()
    result_of(load)["validity"] = "invalid"
    assert LoadFindings.of(load).limits == [] and LoadFindings.of(load).steps(Findings.of(with_rung())) == []


@pytest.mark.parametrize(
    ("change", "request_of"),
    [
        ({}, "get"),
        ({"path": "/Product/p{n}?select=id"}, None),
        ({"path": "/Product/p{n}/picture"}, None),
        ({"path": "/index.html"}, None),
        ({"follow": [{"key": "/brandId", "path": "/Brand/", "has": "/id"}]}, None),
        ({"method": "POST", "path": "/graphql"}, None),
        ({"method": "POST", "path": "/Product"}, "create"),
        ({"path": "/Product?category==c{n}&limit=20", "expect": {"rows": 20}}, "list"),
        ({"path": "/Product?category==c{n}", "expect": {"rows": 2}}, None),
    ],
)
def test_an_operation_is_one_of_the_ladders_requests_only_if_it_asks_the_same(
    change: dict[str, object], request_of: str | None
) -> None:
    load = a_load_run()
    result_of(load)["scenario"]["operations"][0] |= change
    assert LoadFindings.of(load).steps(Findings.of(with_rung()))[0].request == request_of


def test_the_servers_own_time_is_known_where_a_route_has_one_operation() -> None:
    load = a_load_run()
    result = result_of(load)
    sent = result["cells"][0]["counts"]["sent"]
    result["counters"] = {
        "before": {"answers /Product/{id}": 10, "answer_ns /Product/{id}": 1000},
        "after": {"answers /Product/{id}": 10 + sent, "answer_ns /Product/{id}": 1000 + 7000 * sent},
    }
    assert LoadFindings.of(load).steps(Findings.of(with_rung()))[0].own_ns == 7000.0
    result["counters"]["after"]["answers /Product/{id}"] += 1
    assert LoadFindings.of(load).steps(Findings.of(with_rung()))[0].own_ns is None, (
        "somebody else asked on that route, too"
    )


def test_an_operation_stands_beside_the_rung_of_its_request_on_a_like_machine_only() -> None:
    run = with_rung()
    steps = {
        step.operation: step for step in LoadFindings.of(on_the_machine_of(run, a_load_run())).steps(Findings.of(run))
    }
    assert {name: step.request for name, step in steps.items()} == {
        "get one": "get", "get list": "list", "post": "create", "put": None, "patch": None, "delete": None,
    }  # fmt: skip
    assert steps["get one"].rung_ns == pytest.approx(16_000.0) and steps["post"].rung_ns != 16_000.0
    assert steps["get one"].server_cpu_ns is None, "the server's clock does not tell operations apart"
    response = next(cell for cell in result_of(a_load_run())["cells"] if cell["operation"] == "get one")
    assert steps["get one"].waited_ns == pytest.approx(response["response"]["mean"] - response["service"]["mean"])
    assert {step.rung_ns for step in LoadFindings.of(a_load_run()).steps(Findings.of(run))} == {None}, "another machine"


def test_a_scenario_of_one_operation_has_its_cpu() -> None:
    load = a_load_run()
    result_of(load)["cells"] = result_of(load)["cells"][:1]
    (step,) = LoadFindings.of(load).steps(Findings.of(with_rung()))
    assert step.server_cpu_ns == pytest.approx(102_000.0)


def test_the_page_has_its_figures_between_marks_that_name_the_load_test() -> None:
    run = with_rung()
    load = on_the_machine_of(run, a_load_run())
    text = page.render(Findings.of(run), HEADERS, None, loads={"throughput-read": LoadFindings.of(load)})[
        "performance/load.md"
    ]
    assert "<!-- BEGIN limits: python3 run-benches.py load @ 0123456789ab -->" in text
    outside = re.sub(r"(?s)<!-- BEGIN .*?<!-- END .*? -->", "", text)
    assert not re.search(r"\d", outside), outside
    assert text.index("What limits it") < text.index("What was not run") < text.index("## Throughput and CPU")
    assert f"]({source.PICTURES}/load-cpu.svg)" in text


def test_what_failed_and_was_dropped_stands_above_what_was_right() -> None:
    run = a_load_run()
    result = result_of(run)
    assert "failed or were dropped" not in "".join(
        picture.alt for picture in load_pictures.pictures(LoadFindings.of(run))
    )
    result["cells"][0] |= {"failed_by_second": [0, 3], "dropped_by_second": [2]}
    result["cells"][1] |= {"failed_by_second": [0, 4, 0, 0, 9]}
    found = run.scenarios["rest-crud"].read()
    assert found and load_figures.lost_by_second(found)[:3] == [2, 7, 0]
    (picture,) = (picture for picture in load_pictures.pictures(LoadFindings.of(run)) if picture.name.endswith("-time"))
    assert "the 0 requests that failed or were dropped" in picture.alt, "as the counts of the whole run say"
    assert "failed or dropped a second" in picture.svg()


def test_servers_over_one_database_stand_beside_one_in_the_same_repeat() -> None:
    assert "## Servers over one database" not in page_of(a_load_run())
    load = a_load_run_of_servers()
    alone, both = (line_with(page_of(load), f"servers-x{servers} |", "postgres 15.1") for servers in (1, 2))
    assert "1.200 [1.200, 1.200]" in both and "1.000 [1.000, 1.000]" in both and "1.200" not in alone


def test_answers_of_a_stream_are_counted_by_their_items_and_each_stage_by_its_seconds() -> None:
    load = a_load_run_of_a_stream()
    cell, seconds = result_of(load)["cells"][0], result_of(load)["window"]["seconds"]
    answers, items = (figures.amount(each * cell["counts"]["ok"] / seconds) for each in (1, 100))
    assert f"| {cell['operation']} | {answers} | {items} |" in page_of(load)
    assert "| ok | refused | failed |" in page_of(load) and "| refused |" not in page_of(a_load_run())
    read = load.scenarios["rest-crud"].read()
    assert read and len(load_figures.by_second(read)) == 10, "five of each stage"


def test_messages_are_told_by_their_targets_and_the_cpu_of_a_server_that_is_known() -> None:
    load = a_load_run_of_messages()
    rate = figures.amount(1_639_991 / result_of(load)["window"]["seconds"])
    assert f"| {rate} | 5.50 us |" in page_of(load), "9.02 s of CPU for each that arrived"
    assert "| the last of up to 3000 targets | 799 | 1597000 | not run |" in page_of(load)
    assert "| the last of more than 3000 targets |" in page_of(load)
    result_of(load)["processes"]["server"] = None
    assert f"| {rate} | not run |" in page_of(load), "of a server that it did not start"


@pytest.mark.parametrize(
    ("schedule", "corners"),
    [
        ({"shape": "constant", "rate": 5.0, "seconds": 2.0}, [(0, 5), (2, 5)]),
        ({"shape": "ramp", "rates": [0.0, 10.0, 100.0], "seconds": 4.0}, [(0, 0), (2, 10), (4, 100)]),
        ({"shape": "step", "rates": [1.0, 2.0], "seconds": 4.0}, [(0, 1), (2, 1), (2, 2), (4, 2)]),
        (
            {"shape": "burst", "rate": 9.0, "base": 1.0, "burst_seconds": 2.0, "period_seconds": 3.0, "seconds": 4.0},
            [(0, 9), (2, 9), (2, 1), (3, 1), (3, 9), (4, 9)],
        ),
    ],
)
def test_what_was_offered_has_the_corners_of_its_schedule(
    schedule: dict[str, object], corners: list[tuple[float, float]]
) -> None:
    assert [(point.second, point.rate) for point in load_figures.offered(schedule)] == corners


def test_the_last_second_is_shown_if_it_is_whole() -> None:
    found = a_load_run().scenarios["rest-crud"].read()
    assert found and found.window.seconds == pytest.approx(4.9993, abs=1e-4)
    assert sum(load_figures.by_second(found)) == found.total.ok, "all five"
    found.window.seconds = 4.9
    assert len(load_figures.by_second(found)) == 4


def test_a_quantile_without_enough_values_and_one_beyond_all_have_no_number() -> None:
    load = a_load_run()
    response = result_of(load)["cells"][0]["response"]
    response["beyond"], response["quantiles"][3]["value"] = 70, None
    line = line_with(page_of(load), "| get one | 3")
    assert "| > max |" in line and "| > max (" in line and f"| {load_report.TOO_FEW} |" in line
