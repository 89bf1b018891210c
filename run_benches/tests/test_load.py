"""Load tests from the command line, with a load tool that measures nothing: what is stored, what is said, how it ends."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from run_benches.measure import load_run
from run_benches.places import SCENARIOS
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
    curves = load_run.curves(made)
    assert run.scenarios["rest-crud"].curves == curves
    assert run.scenarios["rest-crud"].result == made | {
        "id": found.id,
        "scenario": made["scenario"] | {"name": "rest-crud"},
    }
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
    assert "no load test was made here yet" in checkout.error("load", "show")
    assert "no baselines of load tests yet" in checkout.run("load", "baselines").stdout
    checkout.run("load", "rest-crud")
    assert checkout.run("load", "save", "before").returncode == 0
    assert "never overwritten" in checkout.error("load", "save", "before")
    kept = checkout.root / "baselines" / "load" / "before.json"
    assert loads.load(kept).name == "before"
    assert "before" in checkout.run("load", "baselines").stdout and "rest-crud" in checkout.run("load", "runs").stdout
    assert "102 us" in checkout.run("load", "show", "before").stdout
    assert json.loads(checkout.run("load", "show", "before", "--json").stdout)["schema"] == 2
    assert "no baselines of benches yet" in checkout.run("baselines").stdout, "those of benches are others"
    edited(kept, schema=9)
    assert "has schema 9" in checkout.error("load", "show", "before")
    assert checkout.run("load", "baselines").returncode == 2


def test_results_of_the_format_before_are_read_and_those_of_another_are_not(checkout: Checkout) -> None:
    edited(checkout.root / "bin" / "load_result.json", format=1)
    assert checkout.run("load", "rest-crud").returncode == 0
    assert last(checkout).scenarios["rest-crud"].read()
    edited(checkout.root / "bin" / "load_result.json", format=9)
    assert "format 9, and this version reads 1 to 2" in checkout.error("load", "rest-crud")


def test_scenarios_are_listed_without_a_build(checkout: Checkout) -> None:
    (checkout.root / "bin" / "BROKEN").touch()
    done = checkout.run("load", "list")
    assert done.returncode == 0 and "80 reads to 20 writes over REST" in done.stdout
    error = checkout.error("load", "rest-curd")
    assert error.startswith("no scenario 'rest-curd': give a file, or one of ") and "rest-crud" in error
    assert "the build failed" in checkout.error("load", "rest-crud")


def test_scenarios_with_a_stream_and_those_of_a_registry_have_a_name_together_and_some_need_nats() -> None:
    first, *streams = [scenario.name for scenario in load_run.chosen(["rest-crud", "streams", "consistency"])]
    assert first == "rest-crud" and {"single-write", "consistency", "tables-beside"} <= set(streams)
    assert len(streams) == 10, "each is chosen once"
    registry = {scenario.name for scenario in load_run.chosen(["registry"])}
    assert registry and registry == {file.stem for file in SCENARIOS.glob("registry-*.toml")}
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
    assert "mine.toml: " in checkout.error("load", str(file))


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
