"""The findings of load tests in the performance document: only what one window says, beside the ladder's highest rung,
or nothing at all."""

import copy
import re
from typing import Any

import pytest

from run_benches.analysis import load_figures, load_findings
from run_benches.analysis.findings import Findings
from run_benches.render import load_page, load_pictures, page, source
from run_benches.store.loads import LoadCell, LoadRun
from run_benches.store.runs import Run
from run_benches.tests.made_up import a_load_run, bench, planned
from run_benches.tests.test_document import HEADERS, a_run


def with_rung() -> Run:
    return planned(a_run(), {"ladder/get/strata/tcp": bench(16_000.0, "answers GET of one record", clock="cpu")})


def on_the_machine_of(run: Run, load: LoadRun) -> LoadRun:
    load.machine = run.machine
    return load


def raw(load: LoadRun) -> dict[str, Any]:
    result = load.scenarios["rest-crud"].result
    assert result
    return result


def test_without_a_stored_load_test_the_page_says_not_measured() -> None:
    text = page.render(Findings.of(a_run()), HEADERS, None)["performance/load.md"]
    assert "\nnot measured\n" in text and "| " not in text and "##" not in text


def test_repeats_are_one_scenario_with_their_spread() -> None:
    load = a_load_run()
    first = load.scenarios.pop("rest-crud")
    for repeat, throughput in enumerate((1000.0, 990.0, 1010.0), start=1):
        cell = copy.deepcopy(first)
        assert cell.result
        cell.result["scenario"]["repeat"], cell.result["throughput"] = repeat, throughput
        load.scenarios[f"rest-crud-repeat-{repeat}"] = cell
    assert [(one.name, len(one.results), one.curves == first.curves) for one in load_figures.measured(load)] == [
        ("rest-crud", 3, True)
    ]
    text = "\n".join(load_page.body(load, load_pictures.pictures(load)))
    assert text.count("\n## rest-crud\n") == 1 and "1.00 k (990 to 1.01 k)" in text
    assert "of the first of 3 repeats" in text and text.count("| rest-crud | **valid** |") == 1
    invalid = load.scenarios["rest-crud-repeat-2"].result
    assert invalid
    invalid["validity"], invalid["broken"] = "invalid", ["T3: a sum"]
    text = "\n".join(load_page.body(load, []))
    assert (
        "| rest-crud, repeat 1, 3 | **valid** |" in text and "| rest-crud, repeat 2 | **invalid** | T3: a sum |" in text
    )


@pytest.mark.parametrize(
    ("objective", "measured", "said"),
    [
        (
            {"classes": ["read"], "bound": {"throughput_at_least": 1e6}},
            1000.0,
            "read: at least 1 M right answers a second, measured 1.00 k: **fail**",
        ),
        (
            {"bound": {"failures_at_most": 0.01}},
            0.125,
            "at most 1 % of requests without a right answer, measured 12 %: **fail**",
        ),
        (
            {"operation": "get", "bound": {"response": {"quantile": 0.999, "at_most_ms": 2.0}}},
            None,
            "get: p99.9 at most 2 ms, nothing measured: **fail**",
        ),
        (
            {"bound": {"growth": {"of": "descriptors", "at_most": 0.2}}},
            0.5,
            "growth of descriptors at most 20 %, measured 50 %: **fail**",
        ),
    ],
)
def test_objectives_stand_in_words_with_what_was_measured(
    objective: dict[str, Any], measured: float | None, said: str
) -> None:
    load = a_load_run()
    raw(load)["objectives"] = [{"objective": objective, "measured": measured, "outcome": "fail"}]
    assert f"| {said} |" in "\n".join(load_page.body(load, []))


def test_of_one_process_no_spread_is_told() -> None:
    text = "\n".join(load_page.body(a_load_run(), []))
    assert "1.00 k (1 process)" in text and "repeats, each of processes of its own. Of all" not in text


def test_what_limits_a_scenario_is_said_with_the_shares_of_its_window() -> None:
    (limit,) = load_findings.limits(a_load_run())
    assert limit.words == "the rate that was offered"
    assert limit.server_share == pytest.approx(0.51 / 0.99, abs=0.01) and limit.kernel_share == pytest.approx(
        0.16 / 0.51, abs=0.01
    )


def test_a_limit_is_named_only_where_it_is_shown() -> None:
    load = a_load_run()
    result = raw(load)
    result["loop"] = "closed"
    assert load_findings.limits(load)[0].words == "not known", "the server used a tenth of a processor"
    result["processes"]["server"]["user_seconds"] = 0.95 * result["window"]["seconds"]
    assert load_findings.limits(load)[0].words == "not known", "it has two"
    result["pinned"] = {"client": [1], "server": [0]}
    assert load_findings.limits(load)[0].words == "the server's processors"
    result["scenario"]["load"]["server_cpus"] = 0.5
    assert load_findings.limits(load)[0].words == "the quota of 0.5 processors"
    result["validity"] = "client_bound"
    assert load_findings.limits(load)[0].words == "the client: the server can do at least 1.00 k/s"
    result["loop"], result["scenario"]["load"]["server_cpus"] = "open", None
    assert load_findings.limits(load)[0].words == "the rate that was offered", "all that was offered was answered"
    result["total"]["ok"] -= 1
    assert load_findings.limits(load)[0].words == "the client: the server can do at least 1.00 k/s"
    result["processes"]["server"] = None
    assert load_findings.limits(load)[0].server_share is None


def test_operations_under_a_quota_stand_in_the_columns_of_the_published_test() -> None:
    load = a_load_run()
    assert "## Under quotas" not in "\n".join(load_page.body(load, []))
    raw(load)["scenario"]["load"]["server_cpus"], raw(load)["quota"] = (
        0.5,
        {"mechanism": "cpu.max", "throttled_periods": 42},
    )
    text = "\n".join(load_page.body(load, []))
    (line,) = re.findall(r"^\| rest-crud \| 1 \| 0.5 \| get list \|.*$", text, re.MULTILINE)
    assert "| 104 | 207 |" in line and line.endswith("| too few: 518 | 0 | 20 % | 42 of 50 |")
    first = load.scenarios.pop("rest-crud")
    for repeat in (1, 2):
        cell = copy.deepcopy(first)
        assert cell.result
        cell.result["scenario"]["repeat"], cell.result["quota"]["throttled_periods"] = (
            repeat,
            None if repeat == 2 else 3,
        )
        load.scenarios[f"rest-crud-repeat-{repeat}"] = cell
    assert re.search(
        r"^\| rest-crud \| 2 \| 0.5 \| get list \|.*\| too few: 518, 518 \| 0 \| 20 % \| not measured \|$",
        "\n".join(load_page.body(load, [])),
        re.MULTILINE,
    )


def test_of_an_invalid_window_nothing_is_told() -> None:
    load = a_load_run()
    raw(load)["validity"] = "invalid"
    assert load_findings.limits(load) == [] and load_findings.steps(load, Findings.of(with_rung())) == []


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
    raw(load)["scenario"]["operations"][0] |= change
    assert load_findings.steps(load, Findings.of(with_rung()))[0].request == request_of


def test_the_servers_own_time_is_known_where_a_route_has_one_operation() -> None:
    load = a_load_run()
    result = raw(load)
    sent = result["cells"][0]["counts"]["sent"]
    result["counters"] = {
        "before": {"answers /Product/{id}": 10, "answer_ns /Product/{id}": 1000},
        "after": {"answers /Product/{id}": 10 + sent, "answer_ns /Product/{id}": 1000 + 7000 * sent},
    }
    assert load_findings.steps(load, Findings.of(with_rung()))[0].own_ns == 7000.0
    result["counters"]["after"]["answers /Product/{id}"] += 1
    assert load_findings.steps(load, Findings.of(with_rung()))[0].own_ns is None, (
        "somebody else asked on that route, too"
    )


def test_an_operation_stands_beside_the_rung_of_its_request_on_a_like_machine_only() -> None:
    run = with_rung()
    steps = {
        step.operation: step for step in load_findings.steps(on_the_machine_of(run, a_load_run()), Findings.of(run))
    }
    assert {name: step.request for name, step in steps.items()} == {
        "get one": "get", "get list": "list", "post": "create", "put": None, "patch": None, "delete": None,
    }  # fmt: skip
    assert steps["get one"].rung_ns == pytest.approx(16_000.0) and steps["post"].rung_ns != 16_000.0
    assert steps["get one"].server_cpu_ns is None, "the server's clock does not tell operations apart"
    response = next(cell for cell in raw(a_load_run())["cells"] if cell["operation"] == "get one")
    assert steps["get one"].waited_ns == pytest.approx(response["response"]["mean"] - response["service"]["mean"])
    assert {step.rung_ns for step in load_findings.steps(a_load_run(), Findings.of(run))} == {None}, "another machine"


def test_a_scenario_of_one_operation_has_its_cpu() -> None:
    load = a_load_run()
    raw(load)["cells"] = raw(load)["cells"][:1]
    (step,) = load_findings.steps(load, Findings.of(with_rung()))
    assert step.server_cpu_ns == pytest.approx(102_000.0)


def test_the_page_has_its_figures_between_marks_that_name_the_load_test() -> None:
    run = with_rung()
    load = on_the_machine_of(run, a_load_run())
    text = page.render(Findings.of(run), HEADERS, None, loads={"throughput-read": load})["performance/load.md"]
    assert "<!-- BEGIN limits: python3 run-benches.py load @ 0123456789ab -->" in text
    outside = re.sub(r"(?s)<!-- BEGIN .*?<!-- END .*? -->", "", text)
    assert not re.search(r"\d", outside), outside
    assert text.index("What limits it") < text.index("What was not run") < text.index("## Throughput and CPU")
    assert f"]({source.PICTURES}/load-cpu.svg)" in text


def test_what_failed_and_was_dropped_stands_above_what_was_right() -> None:
    run = a_load_run()
    result = raw(run)
    assert "failed or were dropped" not in "".join(picture.alt for picture in load_pictures.pictures(run))
    result["cells"][0] |= {"failed_by_second": [0, 3], "dropped_by_second": [2]}
    result["cells"][1] |= {"failed_by_second": [0, 4, 0, 0, 9]}
    found = run.scenarios["rest-crud"].read()
    assert found and load_figures.lost_by_second(found)[:3] == [2, 7, 0]
    (picture,) = (picture for picture in load_pictures.pictures(run) if picture.name.endswith("-time"))
    assert "the 0 requests that failed or were dropped" in picture.alt, "as the counts of the whole run say"
    assert "failed or dropped a second" in picture.svg()


def test_servers_over_one_database_stand_beside_one_in_the_same_repeat() -> None:
    load = a_load_run()
    assert "## Servers over one database" not in "\n".join(load_page.body(load, []))
    ran = raw(load)
    load.scenarios = {}
    for repeat in range(1, 7):
        for servers, seconds in ((1, 0.5), (2, 0.6)):
            changed = copy.deepcopy(ran)
            changed["scenario"] |= {"name": f"servers-x{servers}-repeat-{repeat}", "repeat": repeat}
            changed["scenario"]["data"]["storage"] = "postgres"
            changed["scenario"]["load"]["servers"] = servers
            changed["processes"]["server"] = {"user_seconds": seconds * repeat, "system_seconds": 0.0}
            changed["brokers"] = [
                {
                    "program": "postgres",
                    "version": "15.1",
                    "was_there": False,
                    "cpu": {"user_seconds": repeat, "system_seconds": 0.0},
                }
            ]
            load.scenarios[f"servers-x{servers}-repeat-{repeat}"] = LoadCell("ran", [], changed)
    lines = "\n".join(load_page.body(load, [])).splitlines()
    (alone, both) = (
        next(line for line in lines if f"servers-x{servers} |" in line and "postgres 15.1" in line)
        for servers in (1, 2)
    )
    assert "1.200 [1.200, 1.200]" in both and "1.000 [1.000, 1.000]" in both and "1.200" not in alone
