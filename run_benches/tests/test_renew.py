"""Stale figures are measured, and nothing else is; a stored file is whole at every moment."""

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from run_benches import processes, serialization
from run_benches.cli import renew
from run_benches.measure import load_run
from run_benches.store import loads, runs
from run_benches.store.runs import Binary
from run_benches.tests.checkout import Checkout, checkout, edited, made
from run_benches.tests.made_up import a_load_run
from run_benches.tests.test_document import a_run

__all__ = ["checkout"]

SCENARIO = "rest-crud"


@pytest.fixture
def house(checkout: Checkout) -> Checkout:
    """A checkout with git, sources and one scenario, and nothing measured."""
    return furnished(checkout)


@pytest.fixture(scope="session")
def all_of_it(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The same with everything measured: to be copied."""
    found = furnished(made(tmp_path_factory.mktemp("measured") / "checkout"))
    renewed(found)
    commit(found)
    return found


@pytest.fixture
def kept(all_of_it: Checkout, tmp_path: Path) -> Checkout:
    """A checkout in which everything was measured."""
    return Checkout(Path(shutil.copytree(all_of_it.root, tmp_path / "checkout", symlinks=True)))


def furnished(checkout: Checkout) -> Checkout:
    for scenario in (checkout.root / "load/scenarios").glob("*.toml"):
        if scenario.stem != SCENARIO:
            scenario.unlink()
    for path, text in {
        "src/lib.rs": "/// Keeps records.\npub mod storage;\n",
        "src/storage.rs": "//! Keeps records.\npub const SIZE: u32 = 1;\n",
        "benches/ladder.rs": 'const RUNGS: [&str; 2] = ["raw", "storage"];\n',
        "load/src/lib.rs": "pub fn ask() {}\n",
        "README.md": "<!-- BEGIN calibration: x -->\n<!-- END calibration -->\n",
    }.items():
        (checkout.root / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout.root / path).write_text(text)
    (checkout.root / ".gitignore").write_text("bin/\nrun_benches\n.venv\nruns/\ncache/\ntarget/\ndocs/pictures/\n")
    commit(checkout)
    return checkout


def commit(house: Checkout) -> None:
    git = ("git", "-c", "user.name=test", "-c", "user.email=test")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "a commit")):
        subprocess.run([*git, *words], cwd=house.root, check=True)


def change(house: Checkout, path: str, text: str) -> None:
    (house.root / path).write_text(text)
    commit(house)


def states(house: Checkout, *words: str) -> dict[str, str]:
    """Of each thing that may be renewed, why it is or is not stale."""
    done = house.run("renew", "--dry-run", "--json", *words)
    assert done.returncode == 0, done.stderr
    return {f"{job['kind']} {job['name']}": job["why"] for job in json.loads(done.stdout)["jobs"]}


def contents(house: Checkout) -> dict[str, str]:
    folder = house.root / "baselines"
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.json"))}


def renewed(house: Checkout, *words: str, code: int = 0) -> str:
    done = house.run("renew", *words)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_new_layer_is_measured_alone_and_stays_fresh_until_its_code_changes(house: Checkout) -> None:
    assert states(house) == {
        "layer storage": "never measured",
        "layer integration": "never measured",
        f"scenario {SCENARIO}": "never measured",
    }
    told = renewed(house, "storage")
    assert "1 of 1, layer storage" in told and list(contents(house)) == ["reference/storage.json"]
    run = runs.load(house.root / "baselines/reference/storage.json")
    assert (run.partial, run.scale, run.design.seed, run.command) == (
        ["storage"],
        "full",
        renew.SEED,
        ["run-benches.py", "renew", "storage"],
    )
    page = (house.root / "docs/performance/storage.md").read_text()
    assert ": unchanged since." in page and f"at {run.tool.commit[:12]}, on" in page
    other = (house.root / "docs/performance/integration.md").read_text()
    assert "not measured" in other.partition("END measured")[0] and "unchanged since" not in other
    commit(house)
    assert states(house)["layer storage"] == "unchanged" and "nothing is stale" in renewed(house, "storage")
    change(house, "src/storage.rs", "//! Keeps records, says a page.\npub const SIZE: u32 = 1;\n")
    assert states(house)["layer storage"] == "unchanged"
    change(house, "src/storage.rs", "//! Keeps records.\npub const SIZE: u32 = 2;\n")
    assert states(house)["layer storage"] == "changed: src/storage"
    assert (
        house.run("document").returncode == 0
        and "**the code has changed since**" in (house.root / "docs/performance/storage.md").read_text()
    )


def test_a_name_means_all_that_bear_it_and_everything_is_renewed_without_one(house: Checkout) -> None:
    assert "did you mean storage?" in house.error("renew", "storag")
    assert set(states(house, "load")) == {f"scenario {SCENARIO}"}
    renewed(house)
    assert set(contents(house)) == {
        "reference/storage.json",
        "reference/integration.json",
        f"load/reference/{SCENARIO}.json",
    }
    commit(house)
    before = contents(house)
    assert "nothing is stale" in renewed(house) and contents(house) == before
    assert "1 of 1, layer storage" in renewed(house, "storage", "--all") and contents(house) != before
    tested = loads.load(house.root / f"baselines/load/reference/{SCENARIO}.json")
    assert tested.flags == ["--repeats", "3"] and list(tested.sources) == [SCENARIO]


def test_a_scenario_that_says_how_often_it_is_run_is_run_so_often() -> None:
    """Fewer than six repeats have no interval."""
    (over_databases,) = load_run.chosen(["servers"])
    (other,) = load_run.chosen(["rest-crud"])
    assert over_databases.repeats >= 6 and other.repeats == 1


def test_what_nobody_has_is_not_measured(house: Checkout) -> None:
    (house.root / "src/storage.rs").write_text("pub const SIZE: u32 = 3;\n")
    assert "a page would name a revision that nobody has" in house.error("renew", "storage")
    assert states(house)["layer storage"] == "never measured" and not contents(house)
    shutil.rmtree(house.root / ".git")
    assert "not a git repository" in house.error("renew", "storage")


def test_the_reference_is_not_saved(house: Checkout) -> None:
    assert "run-benches.py renew" in house.error("save", "reference", "--run", "last")
    assert "run-benches.py renew" in house.error("load", "save", "reference")


def test_a_reference_of_before_is_a_set_and_is_taken_apart(house: Checkout) -> None:
    assert house.run("storage", "integration", "--quick", "--seed", "3").returncode == 0
    run = house.last()
    old = json.loads(serialization.text(dataclasses.replace(run, name="reference", partial=None))) | {"schema": 5}
    del old["sources"]
    (house.root / "baselines").mkdir()
    (house.root / "baselines/reference.json").write_text(json.dumps(old))
    commit(house)
    assert states(house)["layer storage"] == "stored by an older version, without what it depends on"
    assert house.run("document").returncode == 0
    assert "whether the code has changed since is not known" in (house.root / "docs/performance/storage.md").read_text()
    change(house, "src/storage.rs", "//! Keeps records.\npub const SIZE: u32 = 6;\n")
    renewed(house, "storage")
    assert set(contents(house)) == {"reference/storage.json", "reference/integration.json"}
    kept = runs.load(house.root / "baselines/reference/integration.json")
    assert kept.layers == ["integration"] and kept.started == run.started
    assert {id: bench.points_ns for id, bench in kept.benches.items()} == {
        id: bench.points_ns for id, bench in run.benches.items() if id.startswith("integration/")
    }
    checked = house.run("document", "--check")
    assert checked.returncode == 1 and checked.stdout.startswith("docs/pictures/console.png is missing"), (
        "pages are looked at before"
    )
    assert (
        house.run("baselines", "show", "reference").returncode
        == house.run("compare", "--stored", "reference", "last").returncode
        == 0
    )
    assert house.run("report", "reference").returncode == 0
    assert "is a set of runs" in house.error("save", "kept", "--run", "reference")
    assert "renewed by itself" in house.error("baselines", "remove", "reference")
    commit(house)
    elsewhere = {"STRATA_COMPARE_DIR": str(house.root.parent / "compare")}
    assert "there is no revision at which all layers" in house.error("compare", "reference", "HEAD", **elsewhere), (
        "an older part does not say what it depends on"
    )
    assert "there is no revision" not in house.error("compare", "reference", "HEAD", "--rows", "storage", **elsewhere)


def test_a_damaged_file_is_named_and_not_overwritten(kept: Checkout) -> None:
    path = kept.root / "baselines/reference/storage.json"
    path.write_text(path.read_text()[:-10])
    for words in (("renew",), ("renew", "--dry-run"), ("document",)):
        assert "baselines/reference/storage.json is damaged" in kept.error(*words)
    path.write_text("{}")
    assert "baselines/reference/storage.json is damaged" in kept.error("renew")
    edited(path, schema=99)
    assert "use a newer run-benches.py" in kept.error("renew") and json.loads(path.read_text()) == {"schema": 99}


def test_a_part_that_is_in_the_wrong_file_is_said(kept: Checkout) -> None:
    (kept.root / "baselines/reference/storage.json").rename(kept.root / "baselines/reference/integration.json")
    assert "has rows of storage, where it should have those of integration alone" in kept.error("renew", "--dry-run")


def test_a_load_test_that_is_in_the_wrong_file_is_said(kept: Checkout) -> None:
    folder = kept.root / "baselines/load/reference"
    shutil.copy(folder / f"{SCENARIO}.json", folder / "lists.json")
    assert f"has load tests of {SCENARIO}, where it should have those of lists alone" in kept.error(
        "renew", "--dry-run"
    )


def test_on_a_full_disk_what_is_stored_stays_whole(kept: Checkout) -> None:
    if processes.captured(["unshare", "--map-root-user", "--mount", "true"]).returncode != 0:
        pytest.skip("a small disk is a mount, which this user may not make")
    before, folder, copy = contents(kept), kept.root / "baselines", kept.root.parent / "copy"
    size = sum(path.stat().st_size for path in folder.rglob("*.json"))
    full = f"cp -a {folder} {copy}; mount -t tmpfs -o size={size + 32768 >> 10}k tmpfs {folder}; cp -a {copy}/. {folder}; head -c 1m /dev/zero > {folder}/ballast"
    script = f"{full}; {shlex.join(kept.command('renew', 'storage', '--all'))} >&2; echo $?; cat {folder}/reference/storage.json"
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        env=kept.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    code, _, stored = done.stdout.partition("\n")
    assert code == "3" and "not renewed: layer storage: " in done.stderr and "No space left on device" in done.stderr, (
        done.stderr
    )
    assert stored == before["reference/storage.json"]


def test_an_old_file_that_git_does_not_have_is_not_taken_apart(kept: Checkout) -> None:
    single = kept.root / "baselines/reference.json"
    single.write_text((kept.root / "baselines/reference/storage.json").read_text())
    assert "are both there" in kept.error("renew", "storage", "--all")
    shutil.rmtree(kept.root / "baselines/reference")
    assert "git does not have it" in kept.error("renew", "storage", "--all") and single.exists()


def test_what_is_there_no_more_goes_from_the_set(kept: Checkout) -> None:
    assert kept.run("load", "compare", SCENARIO, "--versus=--no-tls", "--keep", "tls").returncode == 0
    (kept.root / "load/scenarios" / f"{SCENARIO}.toml").unlink()
    commit(kept)
    gone = [f"baselines/load/reference/{SCENARIO}.json", "baselines/load/comparisons/tls.json"]
    told = kept.run("renew", "--dry-run").stdout
    assert told.count("there is nothing of this name any more") == 2 and all(path in told for path in gone)
    assert "removed" not in renewed(kept, "storage") and all((kept.root / path).exists() for path in gone), (
        "another name was typed"
    )
    (kept.root / gone[0]).write_text((kept.root / gone[0]).read_text() + " ")
    assert f"{gone[0]} is of nothing that is there any more, and git does not have it as it is" in kept.error(
        "renew", SCENARIO
    )
    commit(kept)
    told = renewed(kept)
    assert all(f"removed {path}" in told for path in gone) and set(contents(kept)) == {
        "reference/storage.json",
        "reference/integration.json",
    }


def test_what_was_measured_and_could_not_be_stored_is_not_measured_again(kept: Checkout) -> None:
    (kept.root / "baselines/reference/storage.json").unlink()
    commit(kept)
    runs_before = sorted((kept.root / "runs").glob("2*.json"))
    renewed(kept, "storage")
    assert "reference/storage.json" in contents(kept) and sorted((kept.root / "runs").glob("2*.json")) == runs_before


def terminate(program: Path) -> None:
    """Ends every process that runs a program."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if bytes(program) in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGTERM)


@pytest.mark.parametrize("is_committed", [False, True])
def test_what_is_changed_meanwhile_is_not_stored(house: Checkout, is_committed: bool) -> None:
    house.trouble("storage/read/strata/0_index_1t hang")
    process = subprocess.Popen(
        house.command("renew", "storage", "integration"),
        env=house.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "while it grows" in line:
            break
    (house.root / "src/storage.rs").write_text("//! Keeps records.\npub const SIZE: u32 = 9;\n")
    if is_committed:
        commit(house)
    while process.poll() is None:
        terminate(house.root / "bin/storage-fake")
        time.sleep(0.1)
    told = process.stderr.read()
    assert (
        process.wait() == 3
        and "not renewed: layer integration: the sources were changed while others were measured" in told
    )
    assert "2 of 2" not in told and not contents(house)


def test_a_kept_comparison_is_renewed_unless_it_is_of_two_servers(house: Checkout) -> None:
    words = ("load", "compare", SCENARIO, "--seed", "7", "--versus=--no-tls", "--keep", "tls")
    assert house.run(*words).returncode == 0
    commit(house)
    assert states(house)["comparison tls"] == "unchanged"
    change(house, "load/src/lib.rs", "pub fn asked() {}\n")
    path = house.root / "baselines/load/comparisons/tls.json"
    before = json.loads(path.read_text())
    assert states(house)["comparison tls"] == "changed: load/src"
    renewed(house, "tls")
    after = json.loads(path.read_text())
    assert after["started"] > before["started"] and (after["a"]["flags"], after["b"]["flags"], after["seed"]) == (
        before["a"]["flags"],
        before["b"]["flags"],
        7,
    )
    after["b"]["server"]["sha256"] = "another"
    path.write_text(json.dumps(after))
    change(house, "load/src/lib.rs", "pub fn asks() {}\n")
    assert "it is of two servers" in renewed(house, "tls", code=3)


def test_a_scenario_that_was_skipped_keeps_what_was_stored(kept: Checkout) -> None:
    change(kept, "load/src/lib.rs", "pub fn asked() {}\n")
    before = contents(kept)
    kept.trouble(f"{SCENARIO} skip")
    assert (
        f"not renewed: scenario {SCENARIO}: skipped: {SCENARIO}" in renewed(kept, SCENARIO, code=3)
        and contents(kept) == before
    )


def test_variables_that_pages_do_not_name_are_refused(kept: Checkout) -> None:
    for variable in ("BASE_URL", "STRATA_LISTEN"):
        assert f"{variable} was set" in kept.error("renew", SCENARIO, "--all", **{variable: "127.0.0.1:1"})


def test_what_goes_wrong_keeps_what_was_stored(kept: Checkout) -> None:
    change(kept, "src/storage.rs", "//! Keeps records.\npub const SIZE: u32 = 4;\n")
    before = contents(kept)
    kept.trouble(f"storage/read/strata/0_index_1t crash\n{SCENARIO} break")
    told = renewed(kept, code=3)
    assert (
        "not renewed: layer storage:" in told
        and "invalid" in told.partition("not renewed: layer storage:")[2]
        and f"not renewed: scenario {SCENARIO}: invalid" in told
    )
    assert contents(kept)["reference/storage.json"] == before["reference/storage.json"]
    assert contents(kept)[f"load/reference/{SCENARIO}.json"] == before[f"load/reference/{SCENARIO}.json"]


@pytest.mark.parametrize(
    ("trouble", "name", "begun"),
    [("storage/read/strata/0_index_1t hang", "storage", "while it grows"), (f"{SCENARIO} wait", SCENARIO, "waiting")],
)
def test_what_was_interrupted_is_gone_on_with(house: Checkout, trouble: str, name: str, begun: str) -> None:
    house.trouble(trouble)
    process = subprocess.Popen(
        house.command("renew", name), env=house.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if begun in line:
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 3 and "not renewed" in rest and not contents(house), rest
    (house.root / "bin/FAKE_TROUBLE").unlink()
    told = renewed(house, name)
    assert ("going on with runs/" in told) == (name == "storage") and len(contents(house)) == 1


def test_everything_is_gone_on_with_by_what_is_left(kept: Checkout) -> None:
    kept.trouble("integration/read/strata/0_index_1t hang")
    process = subprocess.Popen(
        kept.command("renew", "storage", "integration", "--all"),
        env=kept.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "2 of 2, layer integration" in line:
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    assert "go on with: run-benches.py renew --all integration\n" in process.stderr.read() and process.wait() == 3


def test_an_interrupt_of_the_build_renders_the_pages_and_says_how_to_go_on(kept: Checkout) -> None:
    change(kept, "src/storage.rs", "//! Keeps records.\npub const SIZE: u32 = 7;\n")
    before = contents(kept)
    (kept.root / "bin/SLOW").touch()
    process = subprocess.Popen(
        kept.command("renew", "storage"),
        env=kept.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (kept.root / "bin/WAITING").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert (
        process.stderr is not None
        and "go on with: run-benches.py renew storage\n" in process.stderr.read()
        and process.wait() == 3
    )
    assert (
        contents(kept) == before
        and "**the code has changed since**" in (kept.root / "docs/performance/storage.md").read_text()
    )


def test_two_at_once_are_not(house: Checkout) -> None:
    house.trouble("storage/read/strata/0_index_1t hang")
    first = subprocess.Popen(
        house.command("renew", "storage"),
        env=house.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stderr is not None
    for line in first.stderr:
        if "while it grows" in line:
            break
    assert "another run is under way on this machine" in house.error("renew", "integration")
    first.send_signal(signal.SIGINT)
    assert "not renewed" in first.stderr.read() and first.wait() == 3


def test_what_is_the_same_program_is_not_measured_again() -> None:
    run = dataclasses.replace(a_run(), binaries={"storage": Binary("a", 1, "loaded")})
    job = renew.Renewal("layer", "storage", run, {"src/storage": "1"}, {"src/storage": "2"})
    same, other = Binary("b", 2, "loaded"), Binary("b", 2, "others")
    asked: list[tuple[Binary, bool]] = [(same, True), (other, False), (Binary("a", 1, None), False)]
    for now, expected in asked:
        assert renew._is_same_program(job, {"storage": now}) is expected
    dirty = dataclasses.replace(run, tool=dataclasses.replace(run.tool, dirty=True))
    assert not renew._is_same_program(dataclasses.replace(job, stored=dirty), {"storage": same}), (
        "nobody has the revision that the page names"
    )
    assert not renew._is_same_program(
        dataclasses.replace(job, stored=dataclasses.replace(run, binaries={"storage": Binary("a", 1)})),
        {"storage": same},
    )
    tested = dataclasses.replace(a_load_run(), binaries={"load": same, "strata": same})
    scenario = renew.Renewal(
        "scenario",
        "x",
        tested,
        {"src/a": "1", "load/scenarios/x.toml": "1"},
        {"src/a": "2", "load/scenarios/x.toml": "1"},
    )
    assert renew._is_same_program(scenario, {"load": same, "strata": same})
    assert not renew._is_same_program(scenario, {"load": same, "strata": other})
    declared = dataclasses.replace(scenario, now=scenario.now | {"load/scenarios/x.toml": "2"})
    assert not renew._is_same_program(declared, {"load": same, "strata": same}), "what is asked for is another thing"
    beside = dataclasses.replace(scenario, now=scenario.now | {"lake/src": "2"})
    assert not renew._is_same_program(beside, {"load": same, "strata": same}), "what runs beside is neither of them"


def test_two_machines_stand_side_by_side_and_no_sentence_is_of_both(kept: Checkout) -> None:
    path = kept.root / "baselines/reference/storage.json"
    found = json.loads(path.read_text())
    found["machine"]["identity"]["cpu_model"] = "another processor"
    path.write_text(json.dumps(found))
    commit(kept)
    assert kept.run("document").returncode == 0
    text = (kept.root / "docs/PERFORMANCE.md").read_text()
    head = text.partition("END measured")[0]
    assert "* storage: measured on" in head and "on another processor" in head and "* integration: measured on" in head
    assert (
        text.partition("## The machine and the runs")[2].partition("END machine")[0].count("layer at full scale") == 2
    )
    assert text.count("Of 2 goals") + text.count("Of 1 goal") == 2, "each machine for itself"
    floors = text.partition("## Floors")[2].partition("<!-- END floors -->")[0]
    assert floors.count("have a goal: ") == 2 and "**another processor" in floors, "each machine for itself"
    assert "of no more than" not in text, "what one machine has not measured another has"
    change(kept, "src/storage.rs", "//! Keeps records.\npub const SIZE: u32 = 5;\n")
    assert "is another than that of what is stored (another processor" in renewed(kept, "storage")
