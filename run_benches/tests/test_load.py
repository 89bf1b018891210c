"""Load tests from the command line, with a load tool that measures nothing: what is stored, what is said, how it ends."""

import copy
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from run_benches.analysis import figures, load_figures
from run_benches.measure import load_run
from run_benches.places import SCENARIOS
from run_benches.render import load_page
from run_benches.store import loads
from run_benches.store.loads import LoadRun
from run_benches.tests.checkout import Checkout, edited


def last(checkout: Checkout) -> LoadRun:
    return loads.load(max((checkout.root / "runs").glob("load-*.json")))


def test_every_scenario_is_run_and_stored_with_what_the_load_tool_stored(checkout: Checkout) -> None:
    done = checkout.run("load", "throughput-read", "rest-crud")
    assert done.returncode == 0, done.stderr
    assert "2 runs: about 30 s; stored as runs/load-" in done.stderr
    assert "scenario 2 of 2, rest-crud: about" in done.stderr
    run = last(checkout)
    assert (
        run.complete
        and list(run.scenarios) == ["throughput-read", "rest-crud"]
        and set(run.binaries) == {"load", "strata"}
    )
    found = run.scenarios["rest-crud"].read()
    assert (
        found
        and found.validity == "valid"
        and found.loop == "open"
        and found.total.ok == 5000
        and found.processes.server
    )
    made = json.loads((checkout.root / "bin" / "load_result.json").read_text())
    assert run.scenarios["rest-crud"].result == made | {
        "id": found.id,
        "scenario": made["scenario"] | {"name": "rest-crud"},
    }
    curves = run.scenarios["rest-crud"].curves
    assert (
        set(curves["get one"]) == {"response", "service", "send_lag"}
        and curves["get one"]["response"][12].quantile == 0.9
    )
    (folder,) = (path for path in (checkout.root / "runs").glob("load-*") if path.is_dir())
    assert len(list(folder.glob("*.json"))) == 2
    assert "102 us" in done.stdout, "CPU of the server over the requests that were right: 0.51 s over 5000"


def test_without_a_name_every_scenario_of_the_checkout_is_run(checkout: Checkout) -> None:
    assert checkout.run("load").returncode == 0
    run = last(checkout)
    images = run.scenarios.pop("quota-static: images")
    assert (images.state, images.reasons) == ("not_run", ["no pictures"])
    files = (checkout.root / "load" / "scenarios").glob("*.toml")
    assert sorted(run.scenarios) == sorted(
        path.stem
        for path in files
        if not any(word in path.read_text(encoding="utf-8") for word in ("[[beside]]", "storage ="))
    )


def test_what_follows_two_dashes_is_for_the_load_tool(checkout: Checkout) -> None:
    done = checkout.run("load", "rest-crud", "--", "--concurrent-tasks", "8")
    assert "--concurrent-tasks 8" in done.stdout and "strata-program --results" in done.stdout
    assert last(checkout).flags == ["--concurrent-tasks", "8"]
    assert "--server" not in checkout.run("load", "rest-crud", "--", "--base-url", "http://127.0.0.1:1").stdout
    assert "--server" not in checkout.run("load", "rest-crud", BASE_URL="http://127.0.0.1:1").stdout, (
        "the load tool refuses both"
    )


@pytest.mark.parametrize(
    ("trouble", "code", "state", "reasons"),
    [
        ("refuse", 2, "invalid", ["load: rest-crud.toml: load.connections: it must be above 0"]),
        ("skip", 1, "skipped", ["no control group"]),
        ("break", 1, "invalid", ["T3: sent is not ok + failed + censored"]),
        ("fail", 1, "ran", []),
        ("forget", 2, "invalid", ["the load tool ended with code 0 and stored no result"]),
    ],
)
def test_a_scenario_that_goes_wrong_costs_its_own_cell(
    checkout: Checkout, trouble: str, code: int, state: str, reasons: list[str]
) -> None:
    checkout.trouble(f"rest-crud {trouble}\n")
    assert checkout.run("load", "rest-crud", "throughput-read").returncode == code
    run = last(checkout)
    assert run.complete and (run.scenarios["rest-crud"].state, run.scenarios["rest-crud"].reasons) == (state, reasons)
    assert run.scenarios["throughput-read"].state == "ran"


def test_an_interrupted_load_test_keeps_what_is_done(checkout: Checkout) -> None:
    checkout.trouble("throughput-read wait\n")
    words = ["load", "rest-crud", "throughput-read", "throughput-write"]
    process = subprocess.Popen(
        checkout.command(*words), env=checkout.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if line.startswith("waiting "):
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3 and "Traceback" not in errors, seen + errors
    server = Path("/proc") / seen.split()[-1] / "stat"
    assert not server.exists() or server.read_text().split()[2] == "Z", "what the load tool had started has ended, too"
    run = last(checkout)
    assert not run.complete
    assert {name: (cell.state, cell.reasons) for name, cell in run.scenarios.items()} == {
        "rest-crud": ("ran", []),
        "throughput-read": ("invalid", ["it was interrupted"]),
        "throughput-write": ("not_run", ["the run ended before it"]),
    }
    assert "the run ended before it" in output
    assert "is not kept as a baseline" in checkout.run("load", "save", "half").stderr


def test_a_load_test_is_kept_listed_and_shown(checkout: Checkout) -> None:
    assert "no load test was made here yet" in checkout.complaint("load", "show")
    assert "no baselines of load tests yet" in checkout.run("load", "baselines").stdout
    checkout.run("load", "rest-crud")
    assert checkout.run("load", "save", "before").returncode == 0
    assert "never overwritten" in checkout.complaint("load", "save", "before")
    kept = checkout.root / "baselines" / "load" / "before.json"
    assert loads.load(kept).name == "before"
    assert "before" in checkout.run("load", "baselines").stdout and "rest-crud" in checkout.run("load", "runs").stdout
    assert "102 us" in checkout.run("load", "show", "before").stdout
    assert json.loads(checkout.run("load", "show", "before", "--json").stdout)["schema"] == 2
    assert "no baselines of benches yet" in checkout.run("baselines").stdout, "those of benches are others"
    edited(kept, schema=9)
    assert "has schema 9" in checkout.complaint("load", "show", "before")
    assert checkout.run("load", "baselines").returncode == 2


def test_a_result_of_another_format_is_not_read_as_one_of_this(checkout: Checkout) -> None:
    edited(checkout.root / "bin" / "load_result.json", format=9)
    assert "format 9, and this version reads 1 to 2" in checkout.complaint("load", "rest-crud")


def test_results_of_the_format_before_are_read(checkout: Checkout) -> None:
    edited(checkout.root / "bin" / "load_result.json", format=1)
    assert checkout.run("load", "rest-crud").returncode == 0
    assert last(checkout).scenarios["rest-crud"].read()


def test_scenarios_are_listed_without_a_build(checkout: Checkout) -> None:
    (checkout.root / "bin" / "BROKEN").touch()
    done = checkout.run("load", "list")
    assert done.returncode == 0 and "80 reads to 20 writes over REST" in done.stdout
    complaint = checkout.complaint("load", "rest-curd")
    assert complaint.startswith("no scenario 'rest-curd': give a file, or one of ") and "rest-crud" in complaint
    assert "the build failed" in checkout.complaint("load", "rest-crud")


def test_scenarios_with_a_stream_have_a_name_together() -> None:
    chosen = [scenario.name for scenario in load_run.chosen(["rest-crud", "streams", "consistency"])]
    assert (
        chosen[0] == "rest-crud"
        and {"single-write", "consistency", "tables-beside"} <= set(chosen)
        and len(chosen) == 11
    )


def test_scenarios_of_a_registry_have_a_name_together() -> None:
    chosen = [scenario.name for scenario in load_run.chosen(["registry"])]
    assert chosen and set(chosen) == {file.stem for file in SCENARIOS.glob("registry-*.toml")}


def test_it_is_known_which_scenarios_need_nats() -> None:
    assert {scenario.name for scenario in load_run.built_in() if scenario.needs_nats} == {"registry-mixed"}


def test_the_words_of_the_load_tool_are_its_own(checkout: Checkout) -> None:
    done = checkout.run("load", "lint", "report.txt", "--json")
    assert done.returncode == 1 and done.stdout == "the load tool itself: lint report.txt --json\n"
    found = checkout.run("load", "capacity", "rest-crud", "--first", "100").stdout
    assert (
        found.startswith("the load tool itself: capacity --server ")
        and "target/load/calibration rest-crud --first 100" in found
    )


def test_a_file_is_a_scenario_too(checkout: Checkout, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("about = 'mine'\n[load]\nseconds = 1.0\n")
    assert checkout.run("load", str(file)).returncode == 0
    assert {name: cell.state for name, cell in last(checkout).scenarios.items()} == {"mine": "ran"}
    file.write_text("load = 3")
    assert checkout.run("load", str(file)).returncode == 0, "what is wrong with it the load tool says"
    file.write_text("no toml")
    assert "mine.toml: " in checkout.complaint("load", str(file))


def test_the_page_says_first_what_was_not_run_and_what_is_not_to_be_believed(checkout: Checkout) -> None:
    checkout.trouble("throughput-read refuse\nthroughput-write break\n")
    assert checkout.run("load", "rest-crud", "throughput-read", "throughput-write").returncode == 2
    done = checkout.run("load", "report")
    assert done.returncode == 0, done.stderr
    (file,) = (checkout.root / "runs").glob("load-*/load-report.html")
    page = file.read_text()
    assert "<script" not in page and not re.search(r"(?:src|href)=\"(?!data:|#)", page), (
        "one file, no network, no scripts"
    )
    places = [
        page.index(words)
        for words in (
            "What was not run</h2>",
            "throughput-read.toml: load.connections: it must be above 0",
            "T3: sent is not ok",
            "What became of every request",
        )
    ]
    assert places == sorted(places)
    assert page.count("<img") == 2 + 2 + 1, "curves and throughput of two scenarios, CPU of all"


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


def test_the_last_second_is_shown_if_it_is_whole(checkout: Checkout) -> None:
    checkout.run("load", "rest-crud")
    found = last(checkout).scenarios["rest-crud"].read()
    assert found and found.window.seconds == pytest.approx(4.9993, abs=1e-4)
    assert sum(load_figures.by_second(found)) == found.total.ok, "all five"
    found.window.seconds = 4.9
    assert len(load_figures.by_second(found)) == 4


def test_a_quantile_without_enough_values_and_one_beyond_all_have_no_number(checkout: Checkout) -> None:
    result = checkout.root / "bin" / "load_result.json"
    cells = json.loads(result.read_text())["cells"]
    cells[0]["response"]["beyond"] = 70
    cells[0]["response"]["quantiles"][3]["value"] = None
    edited(result, cells=cells)
    checkout.run("load", "rest-crud")
    page = load_page.page(last(checkout), [])
    line = next(line for line in page.splitlines() if line.startswith("| get one | 3"))
    assert "| > max |" in line and "| > max (" in line and f"| {load_page.TOO_FEW} |" in line


def test_what_a_stream_was_asked_is_on_the_page(checkout: Checkout) -> None:
    assert checkout.run("load", "throughput-read").returncode == 0
    run = last(checkout)
    [cell] = run.scenarios.values()
    assert cell.result
    result = copy.deepcopy(cell.result)
    operation, measured = result["scenario"]["operations"][0], result["cells"][0]
    operation |= {
        "acknowledges": {"partition": "/partition", "offset": "/offset"},
        "items": {"count": 100, "each": "{n}"},
    }
    result["scenario"]["data"] = {"stream": "Click"}
    measured["counts"] |= {"refused": 7}
    result["total"] |= {"refused": 7}
    stage = {name: result[name] for name in ("cells", "total", "throughput")} | {
        "window": {"seconds": 5.0, "arrivals_seconds": 5.0}
    }
    result["stages"] = [stage, stage]
    result["scenario"]["load"]["stages"] = [{"users": 32, "seconds": 5.0}, {"users": 400, "seconds": 5.0}]
    result["promises"] = {"gapless": {"checked": 4000, "wrong": 0}, "in_place": {"checked": 3999, "wrong": 1}}
    result["kills"] = [3, 5]
    result["scenario"]["subscribers"] = [{"count": 4, "path": "/Click?stream=sse"}]
    came = {
        "due": 400,
        "due_in_warm_up": 0,
        "missing": 1,
        "repeated": 2,
        "unanswered": 0,
        "ended": 0,
        "lag": measured["service"],
        "lag_from_start": None,
    }
    result["subscribers"] = {"requests_at_least": 4, "requests_at_most": 4, "kinds": [came]}
    bounds: dict[str, object] = {
        "refused_at_least": 0.01,
        "refused_at_most": 0.0,
        "goodput": {"of_stages": [1, 3], "at_least": 0.9},
        "lag": {"quantile": 0.99, "at_most_ms": 20.0},
    }
    result["objectives"] = [
        {"objective": {"stage": 2, "bound": {kind: limits}}, "measured": 0.5, "outcome": "pass"}
        for kind, limits in bounds.items()
    ]
    cell.result = result
    page = load_page.page(run, [])
    ok, seconds = measured["counts"]["ok"], result["window"]["seconds"]
    for words in (
        f"| {operation['name']} | {figures.amount(ok / seconds)} | {figures.amount(100 * ok / seconds)} |",
        "| ok | refused | failed |",
        "| 2 | 400 | 5.00 s |",
        "stage 2: at least 1 % refused, measured 50 %",
        "stage 2: at least 90 % of the right answers a second of stage 1 and 3",
        "p99 from an append or a message to each subscriber at most 20 ms",
        "The server was killed 2 times, with 3, 5 requests in flight.",
        "| S2: acknowledged events at their offsets, byte for byte | 3999 | 1 |",
        "| `/Click?stream=sse` | 4 | 400 |",
    ):
        assert words in page, (words, page)
    read = cell.read()
    assert read
    assert len(load_figures.by_second(read)) == 10, "five of each stage"


def test_what_came_of_messages_is_on_the_page(checkout: Checkout) -> None:
    assert checkout.run("load", "throughput-read").returncode == 0
    run = last(checkout)
    [cell] = run.scenarios.values()
    assert cell.result
    result = copy.deepcopy(cell.result)
    lag = result["cells"][0]["service"]
    counts = {
        "answered": 1200,
        "answered_in_warm_up": 20,
        "unanswered": 6,
        "targets": 1_640_000,
        "delivered": 1_639_990,
        "absent": 7,
        "pending": 3,
        "failed": 0,
    }
    came = {
        "received": 1_639_991,
        "lost": 1,
        "doubled": 2,
        "stray": 4,
        "of_unanswered": 0,
        "lagged": 1,
        "ended": 0,
        "lag": lag,
        "last_lag": lag,
    }
    fan_outs = [
        {"up_to": 100, "answered": 400, "received": 39_990, "last_lag": lag},
        {"up_to": 3000, "answered": 799, "received": 1_597_000, "last_lag": None},
        {"up_to": None, "answered": 1, "received": 3001, "last_lag": lag},
    ]
    result["multicasts"] = counts | came | {"by_fan_out": fan_outs}
    result["processes"]["server"] = {"user_seconds": 8.0, "system_seconds": 1.02}
    result["objectives"] = [
        {
            "objective": {"bound": {"last_lag": {"quantile": 0.99, "at_most_ms": 100.0}}},
            "measured": 36.5,
            "outcome": "pass",
        }
    ]
    cell.result = result
    page = load_page.page(run, [])
    rate, mean = figures.amount(1_639_991 / result["window"]["seconds"]), figures.time(lag["mean"])
    for words in (
        "p99 from a message to its last subscriber at most 100 ms, measured 36.5 ms",
        "| messages | targets | received | lost | doubled | stray | absent | pending | failed | unanswered | deliveries/s | server CPU per delivery |",
        f"| 1200 | 1640000 | 1639991 | 1 | 2 | 4 | 7 | 3 | 0 | 6 | {rate} | 5.50 us |",
        f"| each | 1200 | 1639991 | {mean} |",
        f"| the last of up to 100 targets | 400 | 39990 | {mean} |",
        f"| the last of up to 3000 targets | 799 | 1597000 | {figures.NOT_RUN} |",
        f"| the last of more than 3000 targets | 1 | 3001 | {mean} |",
    ):
        assert words in page, (words, page)
    result["processes"]["server"] = None
    assert f"| {rate} | {figures.NOT_RUN} |" in load_page.page(run, []), "of a server that it did not start"
