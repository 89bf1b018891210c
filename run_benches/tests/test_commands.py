"""Whole commands on a checkout with fake tools: what a person types, sees and gets."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from run_benches import files
from run_benches.cli import command_line
from run_benches.errors import UserError
from run_benches.setup import packages
from run_benches.store import runs
from run_benches.store.runs import Latency, Measure
from run_benches.tests.checkout import Checkout, edited

QUICK = ("--quick", "--seed", "7")


def test_a_run_prints_tables_and_stores_every_cell(checkout: Checkout) -> None:
    done = checkout.run("run", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "10 rows in 4 families, 6 tuples each; 0 alone, in 0 processes each: about" in done.stderr
    assert "not every bench can be linked anew (lld is missing" in done.stderr, "these have left nothing to link"
    assert (
        "rows: 10 ran, 6 not run; ratios to floors: 4 ran; goals: 4 met, 0 missed, 0 not shown, 0 not judged"
        in done.stdout
    )
    run = checkout.last()
    assert run.complete and run.scale == "quick" and run.partial is None and run.design.seed == 7
    assert run.benches["storage/read/strata/1_index_1t"].points_ns == pytest.approx([2000.0] * 6)
    ratio = run.ratios["storage/read/strata/0_index_1t"]
    assert ratio.pairs == pytest.approx([0.8] * 6) and ratio.low == pytest.approx(0.8)
    assert run.contrasts["storage/read/strata/1_index_1t"]["storage/read/strata/0_index_1t"] == pytest.approx(
        [0.693147] * 6
    )
    assert run.contrasts["storage/read/strata/0_index_1t"]["storage/read/strata/0_index_1t"] == [0.0] * 6, (
        "its second lane"
    )
    assert {binary.bytes > 0 for binary in run.binaries.values()} == {True}
    assert {id: len(sentinel.points_ns) for id, sentinel in run.sentinels.items()} == {
        f"harness/{name}/sentinel/0": 3 for name in ("integers", "byte_scan", "copy", "chase")
    }
    assert len(run.design.order) == 4 * 6 + 3
    folder = next((checkout.root / "runs").glob("2*Z-*/turns"))
    assert sum(len(path.read_text().splitlines()) for path in folder.iterdir()) == 4 * 6
    kept = sorted(path.name for path in folder.parent.iterdir())
    assert kept == [*(f"0{number}-harness-one-core-0" for number in (1, 2, 3)), "turns"], "nothing large is left behind"


def test_a_row_without_a_partner_is_measured_alone_where_it_is_named(checkout: Checkout) -> None:
    assert checkout.run("storage/read/strata/0_index_8t", *QUICK).returncode == 0
    (alone,) = checkout.last().benches.values()
    assert alone.latencies == {"read": [Latency(1000, 1000.0, 900.0, 1500.0, 2000.0, None, 3000.0)]}
    assert alone.measures == {"size_on_disk": Measure("bytes", [1048576.0])}
    assert alone.points_ns == [1000.0] and alone.allocations_per_operation == 2.0


@pytest.mark.parametrize(("word", "rows"), [("storage", 8), ("storage/read", 4), ("*/create/strata/*", 8)])
def test_a_first_word_that_is_a_layer_or_a_row_means_run(checkout: Checkout, word: str, rows: int) -> None:
    done = checkout.run(word, *QUICK)
    assert done.returncode == 0 and f"rows: {rows} ran" in done.stdout, done


def test_json_is_the_run_itself(checkout: Checkout) -> None:
    done = checkout.run("storage/read", "--json", *QUICK)
    run = json.loads(done.stdout)
    assert run["schema"] == runs.SCHEMA and run["partial"] == ["storage"]
    assert {sentinel["state"] for sentinel in run["sentinels"].values()} == {"ran"}, "whatever was chosen"


def test_unknown_names_are_errors_before_anything_is_built(checkout: Checkout) -> None:
    (checkout.root / "bin" / "BROKEN").touch()
    assert "no layer, row or command 'stoarge'; did you mean storage?" in checkout.error("stoarge")
    assert "did you mean integration?" in checkout.error("run", "storage", "--skip", "integratoin")


def test_an_unknown_row_is_an_error_once_the_rows_are_known(checkout: Checkout) -> None:
    assert "no row 'storage/raed'; did you mean storage/read?" in checkout.error("storage/raed")


def test_a_broken_build_is_one_line(checkout: Checkout) -> None:
    (checkout.root / "bin" / "BROKEN").touch()
    assert checkout.error("storage") == "the build failed: error[E0308]: mismatched types (all of it: runs/build.log)"


def test_flags_in_the_environment_are_one_line(checkout: Checkout) -> None:
    assert "unset RUSTFLAGS" in checkout.error("storage", RUSTFLAGS="-g")


def test_a_row_that_hangs_costs_its_own_row(checkout: Checkout) -> None:
    checkout.trouble("storage/create/strata/1_index_1t hang\n")
    done = checkout.run("storage", "--timeout", "1s", *QUICK)
    run = checkout.last()
    assert done.returncode == 2 and run.complete
    hung = run.benches["storage/create/strata/1_index_1t"]
    assert (hung.state, hung.reasons, hung.points_ns) == ("invalid", ["process 1: silent for 1 s, killed"], [])
    assert {bench.state for id, bench in run.benches.items() if bench is not hung} == {"ran"}
    assert "storage/create/strata/1_index_1t: invalid: process 1: silent for 1 s, killed" in done.stdout
    assert "rows: 7 ran, 1 invalid" in done.stdout


def test_a_binary_that_crashes_costs_its_family(checkout: Checkout) -> None:
    checkout.trouble("storage/create/strata/0_index_1t crash\n")
    done = checkout.run("storage", *QUICK)
    run = checkout.last()
    assert done.returncode == 2
    floor, row = "storage/create/floor/0_index_1t", "storage/create/strata/0_index_1t"
    (reason,) = run.families[floor].reasons
    assert (
        reason.startswith("tuple 1: side A at storage/create/strata/0_index_1t ended with code 101: ")
        and "the engine said no" in reason
    )
    for cell in (run.families[floor], run.benches[row], run.benches[floor], run.ratios[row]):
        assert (cell.state, cell.reasons) == ("invalid", [reason])
    assert run.ratios["storage/read/strata/0_index_1t"].state == "ran"


ALONE, IN_TURNS = "storage/create/strata/1_index_1t", "storage/create/strata/0_index_1t"


def test_what_the_engine_refuses_is_run_again_once_and_counted_beside_the_row(checkout: Checkout) -> None:
    checkout.trouble(f"{ALONE} refuse_once\n{IN_TURNS} refuse_once\n")
    done = checkout.run("storage", *QUICK)
    run = checkout.last()
    assert done.returncode == 0 and {bench.state for bench in run.benches.values()} == {"ran"}
    assert (
        run.benches[ALONE].refusals == ["process 1: the engine refused: Busy"]
        and len(run.benches[ALONE].points_ns) == 1
    )
    assert (
        run.benches[IN_TURNS].refusals == ["tuple 1: the engine refused: Busy"]
        and len(run.benches[IN_TURNS].points_ns) == 6
    )
    assert [id for id, bench in run.benches.items() if bench.refusals] == [IN_TURNS, ALONE]
    for id in (ALONE, IN_TURNS):
        assert any(line.startswith(f"  {id}: run again: ") for line in done.stdout.splitlines())


def test_what_the_engine_refuses_again_is_invalid_with_that_reason(checkout: Checkout) -> None:
    checkout.trouble(f"{ALONE} refuse\n{IN_TURNS} refuse\n")
    done = checkout.run("storage", *QUICK)
    run = checkout.last()
    assert done.returncode == 2
    assert run.benches[ALONE].reasons == [
        "process 1: exit code 101: the engine refused: Busy, also when it was run again"
    ]
    (reason,) = run.benches[IN_TURNS].reasons
    assert reason.startswith("tuple 1: side A at ") and reason.endswith(
        "ended with code 101: the engine refused: Busy, also when it was run again"
    )
    assert {id for id, bench in run.benches.items() if bench.state == "invalid"} == {
        ALONE,
        IN_TURNS,
        "storage/create/floor/0_index_1t",
    }


def test_a_lane_whose_store_lacks_what_it_should_hold_has_no_figure(checkout: Checkout) -> None:
    checkout.trouble("storage/create/strata/0_index_1t lose\n")
    done = checkout.run("storage/create/strata/0_index_1t", *QUICK)
    run = checkout.last()
    assert done.returncode == 2 and "3 records of 128 are missing" in done.stdout
    assert {family.state for family in run.families.values()} == {"invalid"} and not any(run.contrasts.values())


def test_skipped_rows_are_named_and_are_no_pass(checkout: Checkout) -> None:
    done = checkout.run("storage", "--skip", "storage/create", *QUICK)
    run = checkout.last()
    assert run.benches["storage/create/strata/0_index_1t"].reasons == ["--skip storage/create"]
    assert "rows: 4 ran, 4 skipped; ratios to floors: 1 ran, 1 skipped" in done.stdout


def test_nothing_left_to_measure_is_not_fine(checkout: Checkout) -> None:
    assert checkout.run("storage", "--skip", "storage", *QUICK).returncode == 3


def ignoring_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def interrupted(checkout: Checkout, number: signal.Signals = signal.SIGINT) -> "subprocess.CompletedProcess[str]":
    """A run that is stopped after some of its jobs; it was started as a script starts one in the background."""
    process = subprocess.Popen(
        checkout.command(*QUICK),
        env=checkout.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ignoring_interrupts,  # noqa: PLW1509 - nothing runs beside it
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        stored = list((checkout.root / "runs").glob("2*.json"))
        if stored and len(json.loads(stored[0].read_text())["design"]["order"]) >= 7:
            break
        time.sleep(0.01)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, output, errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_is_kept_and_resumed(checkout: Checkout, number: signal.Signals) -> None:
    done = interrupted(checkout, number)
    assert (
        done.returncode == 3 and "Go on with: run-benches.py --resume" in done.stderr and "Traceback" not in done.stderr
    )
    before = checkout.last()
    assert not before.complete and 7 <= len(before.design.order) < 24
    assert checkout.run("--resume").returncode == 0
    after = checkout.last()
    assert after.complete and after.design.seed == 7
    assert after.design.order[: len(before.design.order)] == before.design.order
    assert {len(bench.points_ns) for bench in after.benches.values() if bench.family} == {6}
    assert {len(ratio.pairs) for ratio in after.ratios.values()} == {6}
    assert "nothing to resume" in checkout.error("--resume")


def test_what_the_runner_starts_can_be_interrupted_too(checkout: Checkout) -> None:
    code = "import subprocess; from run_benches.cli import command_line; command_line.main(['nothing/like/it']); subprocess.run(['grep', 'SigIgn', '/proc/self/status'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.root,
        preexec_fn=ignoring_interrupts,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout.split()[1], 16) & 1 << signal.SIGINT - 1 == 0


def test_a_run_is_not_resumed_with_other_binaries(checkout: Checkout) -> None:
    interrupted(checkout)
    with (checkout.root / "bin" / "storage-fake").open("a") as binary:
        binary.write("# changed\n")
    assert "is not the binary that" in checkout.error("--resume")
    assert "--resume goes on with the plan" in checkout.error("--resume", "--quick")


def test_two_runs_do_not_meet(checkout: Checkout) -> None:
    checkout.trouble("storage/create/strata/0_index_1t hang\n")
    first = subprocess.Popen(
        checkout.command(*QUICK), env=checkout.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not list((checkout.root / "runs").glob("2*.json")):
            time.sleep(0.05)
        assert f"another run is under way on this machine (process {first.pid})" in checkout.error("storage", *QUICK)
    finally:
        first.send_signal(signal.SIGINT)
        first.wait(60)


def test_a_baseline_is_saved_once_listed_shown_and_removed(checkout: Checkout) -> None:
    assert "no baselines of benches yet" in checkout.run("baselines").stdout
    assert checkout.run("save", "before", "storage/read", *QUICK).returncode == 0
    saved = checkout.root / "baselines" / "before.json"
    content = saved.read_text()
    assert json.loads(content)["name"] == "before" and json.loads(content)["partial"] == ["storage"]
    assert "never overwritten" in checkout.error("save", "before", "storage/read", *QUICK)
    assert "never overwritten" in checkout.error("save", "before", "--run", "last")
    assert saved.read_text() == content
    assert checkout.run("save", "again", "--run", "last").returncode == 0
    assert "before" in checkout.run("baselines").stdout and "again" in checkout.run("baselines").stdout
    assert "read/strata/0_index_1t" in checkout.run("baselines", "show", "before").stdout
    assert checkout.run("baselines", "remove", "before").returncode == 0 and not saved.exists()
    assert "no baseline 'before'" in checkout.error("baselines", "remove", "before")


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "x.json", "a b", "x" * 65])
def test_a_baseline_needs_a_name_that_is_one(checkout: Checkout, name: str) -> None:
    assert "is no name for a baseline" in checkout.error("save", name, "--run", "last")


def test_a_damaged_or_newer_file_is_one_line(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "good")
    good, bad = checkout.root / "baselines" / "good.json", checkout.root / "baselines" / "bad.json"
    for content, error in (
        (good.read_text()[:700], "baselines/bad.json is damaged (not JSON"),
        ("", "is damaged (not JSON"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "schema is missing"),
        ('{"schema": 1}', "); restore it or remove it"),
        ('{"schema": 9}', "has schema 9, and this version reads up to 6: use a newer run-benches.py"),
    ):
        bad.write_text(content)
        assert error in checkout.error("compare", "--stored", "good", "bad")
        listed = checkout.run("baselines")
        assert listed.returncode == 2 and "good" in listed.stdout and "bad.json" in listed.stdout
    bad.write_bytes(b"\xff\xfe")
    assert "is damaged" in checkout.error("compare", "--stored", "good", "bad")
    bad.write_text(good.read_text())
    edited(bad, benches={})
    assert "planned but without a state" in checkout.error("baselines", "show", "bad")


def test_stored_runs_stand_side_by_side_without_a_verdict(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "a", "b")
    done = checkout.run("compare", "--stored", "a", "b")
    assert done.returncode == 0 and "no verdict" in done.stdout
    assert "2.00 us (2.00 to 2.00 us)" in done.stdout and "1.000" in done.stdout
    assert json.loads(checkout.run("compare", "--stored", "a", "b", "--json").stdout)["verdict"] is None
    assert "no stored run 'c'" in checkout.error("compare", "--stored", "a", "c")


def test_the_time_of_a_lane_is_not_divided_by_that_of_a_row_that_ran_alone(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "a", "b")
    path = checkout.root / "baselines" / "b.json"
    benches = json.loads(path.read_text())["benches"]
    benches["storage/read/strata/1_index_1t"]["family"] = None
    edited(path, benches=benches)
    done = checkout.run("compare", "--stored", "a", "b")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("storage/read/strata/1_index_1t")]
    assert line.endswith("one took turns")


def test_between_unlike_machines_only_ratios_are_shown(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "a", "b")
    path = checkout.root / "baselines" / "b.json"
    machine = json.loads(path.read_text())["machine"]
    machine["identity"]["cores"] = 999
    edited(path, machine=machine)
    done = checkout.run("compare", "--stored", "a", "b")
    assert done.returncode == 0 and "unlike machines (cores)" in done.stdout
    assert "0.800 [0.800, 0.800]" in done.stdout and "time an operation" not in done.stdout
    assert "harness/chase/sentinel/0" in done.stdout


def test_runs_from_before_can_be_read_and_are_not_taken_for_runs_of_one_machine(
    checkout: Checkout, measured: str
) -> None:
    checkout.keep(measured, "a", "b")
    for name in "ab":
        path = checkout.root / "baselines" / f"{name}.json"
        run = json.loads(path.read_text())
        identity = {
            key: run["machine"]["identity"][key] for key in ("cpu_model", "cores", "architecture", "memory_gib")
        }
        plan = [cell for cell in run["design"]["plan"] if cell["kind"] != "sentinel"]
        edited(
            path,
            schema=3,
            machine=run["machine"] | {"identity": identity},
            sentinels={},
            design=run["design"] | {"plan": plan},
        )
    done = checkout.run("compare", "--stored", "a", "b")
    assert (
        done.returncode == 0
        and "not known to be alike" in done.stdout
        and "sentinels: not timed in a and b" in done.stdout
    )
    assert "0.800 [0.800, 0.800]" in done.stdout and "time an operation" not in done.stdout
    found = json.loads(checkout.run("compare", "--stored", "a", "b", "--json").stdout)
    assert found["machines_differ_in"] == [] and "caches" in found["machines_unknown_in"] and found["sentinels"] == []


def test_how_far_the_machine_moved_between_two_stored_runs_is_said(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "a", "b")
    path = checkout.root / "baselines" / "b.json"
    run = json.loads(path.read_text())
    run["sentinels"]["harness/integers/sentinel/0"]["points_ns"] = [700.0, 725.0, 750.0]
    edited(
        path,
        sentinels=run["sentinels"],
        machine=run["machine"] | {"recorded": run["machine"]["recorded"] | {"kernel": "9.9"}},
    )
    said = checkout.run("compare", "--stored", "a", "b").stdout
    (line,) = (line for line in said.splitlines() if line.startswith("harness/integers/sentinel/0"))
    assert line.endswith("1.450 [1.400, 1.500]") and "then 9.9" in said and "time an operation" in said


def test_an_interrupted_run_is_not_gone_on_with_on_another_machine(checkout: Checkout, measured: str) -> None:
    path = checkout.root / "runs" / "20260101T000000Z-1.json"
    files.replace(path, measured)
    run = json.loads(measured)
    edited(
        path,
        complete=False,
        machine=run["machine"] | {"identity": run["machine"]["identity"] | {"stepping": "another"}},
    )
    assert "unlike machines (stepping)" in checkout.error("run", "--resume")


def test_list_needs_no_build_and_knows_more_after_one(checkout: Checkout) -> None:
    before = checkout.run("list")
    assert (
        before.returncode == 0
        and "storage: What storage costs." in before.stdout
        and "once the benches are built" in before.stdout
    )
    assert " rows of " not in before.stdout
    checkout.run("storage/read", *QUICK)
    after = checkout.run("list", "storage")
    assert (
        "storage/read/strata/0_index_1t  [1 thread, records]  read one record" in after.stdout
        and "integration" not in after.stdout
    )
    assert re.search(r"^[1-9]\d* rows of 1 layer$", after.stdout, re.MULTILINE)
    assert "did you mean storage?" in checkout.error("list", "storag")
    assert json.loads(checkout.run("list", "--json").stdout)["schema"] == 1


def test_strict_fails_on_a_missed_goal(checkout: Checkout) -> None:
    for path in (checkout.root / "bin").glob("*-fake"):
        path.write_text(path.read_text().replace('"at_least": 0.5', '"at_least": 0.95'))
    missed = checkout.run("storage/read", "--strict", *QUICK)
    assert missed.returncode == 1 and "1 missed" in missed.stdout


def test_a_bench_without_its_stanza_is_found(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from run_benches.cli import checks

    monkeypatch.setattr(checks, "ROOT", checkout.root)
    monkeypatch.setattr(checks, "BENCHES", checkout.root / "benches")
    (checkout.root / "benches" / "floor.rs").touch()
    assert checks._bench_stanzas()
    (checkout.root / "benches" / "routing.rs").write_text("//! Routing.\nfn main() {}\n")
    manifest = checkout.root / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace("harness = false", "", 1))
    assert not checks._bench_stanzas()
    errors = capsys.readouterr().err
    assert "benches/routing.rs has no [[bench]]" in errors and "storage lacks harness = false" in errors


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["compare", "--help"],
        ["stoarge"],
        ["list", "storag"],
        ["run", "--nonsense"],
        ["load", "show", "--nonsense"],
    ],
)
def test_help_and_slips_are_answered_by_a_bare_python(checkout: Checkout, words: list[str]) -> None:
    (checkout.root / ".venv").unlink()
    (checkout.root / "bin/cargo").unlink()
    done = subprocess.run(
        [sys.executable, "-ES", str(checkout.root / "run-benches.py"), *words],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if "--help" in words else 2) and "Traceback" not in done.stderr, done
    assert not (checkout.root / ".venv").exists() and not (checkout.root / "runs").exists()


@pytest.mark.parametrize("command", command_line.COMMANDS)
def test_every_command_runs_inside_the_environment(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    needs = {"save": ["x"], "explain": ["x/y"], "profile": ["x/y"]}
    entered = []

    def enter(arguments: list[str]) -> None:
        entered.append(arguments)
        raise UserError("not in this test")

    monkeypatch.setattr(packages, "enter_environment", enter)
    typed = [command, *needs.get(command, [])]
    assert command_line.main(typed) == 2 and entered == [typed]


@pytest.mark.parametrize(
    ("streams", "code"),
    [
        (">&-", 2),
        ("1</dev/null", 2),
        (">/dev/full", 2),
        ("<&- >&-", 2),
        ("2>&-", 0),
        ("2>/dev/full", 0),
        ("<&-", 0),
        ("<&- 2>&-", 0),
    ],
)
@pytest.mark.parametrize("words", [("list",), ("baselines", "--json"), ("--help",)])
def test_closed_and_full_streams(checkout: Checkout, words: tuple[str, ...], streams: str, code: int) -> None:
    command = ["bash", "-c", f'"$@" {streams}', "bash", *checkout.command(*words)]
    done = subprocess.run(
        command,
        env=checkout.environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code and len(done.stderr.splitlines()) == (code == 2), done
    assert done.stdout == (checkout.run(*words).stdout if code == 0 else "")


def test_output_that_does_not_fit_is_one_line_and_no_success(checkout: Checkout, tmp_path: Path) -> None:
    """Output that is held back until the end."""
    command = ["bash", "-c", 'ulimit -f 0; "$@" >"$0"', str(tmp_path / "output"), *checkout.command("list")]
    done = subprocess.run(command, env=checkout.environment(), cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done


def test_a_reader_that_leaves_is_no_failure(checkout: Checkout) -> None:
    command = ["bash", "-c", 'set -o pipefail; "$@" | true', "bash", *checkout.command("list")]
    done = subprocess.run(command, env=checkout.environment(), cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_doctor_looks_and_measures(checkout: Checkout) -> None:
    done = checkout.run("doctor", "--json")
    assert done.returncode == 0 and len(json.loads(done.stdout)["findings"]) > 10


def test_no_file_of_the_project_names_this_machine() -> None:
    from run_benches.places import ROOT

    for path in Path(ROOT / "run_benches").rglob("*.py"):
        assert str(Path("/", "work")) + "/" not in path.read_text(encoding="utf-8"), path
