"""Surroundings in which nothing is wrong with the project: homes that are none, other users' folders, a run that is
under way, defects."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from run_benches import places
from run_benches.cli import command_line, commands
from run_benches.errors import UserError
from run_benches.setup import packages
from run_benches.tests.checkout import Checkout, checkout, measured

__all__ = ["checkout", "measured"]

QUICK = ["storage", "--quick", "--seed", "7"]


@pytest.mark.parametrize("home", ["/dev/null", "no/absolute/path", "a file", "~"])
def test_without_a_home_the_cache_is_elsewhere(checkout: Checkout, tmp_path: Path, measured: str, home: str) -> None:
    if home == "a file":
        home = str(tmp_path / home)
        Path(home).touch()
    environment = {"HOME": home, "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path)}
    checkout.keep(measured)
    for words in (QUICK, ["document", "last"], ["report"]):
        done = checkout.run(*words, **environment)
        assert done.returncode == 0 and "Traceback" not in done.stderr and "atplotlib" not in done.stderr, done
    folder = tmp_path / f"strata-{os.getuid()}"
    assert (folder / "lock").exists() and folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("word", ["relative", ""])
def test_a_cache_folder_that_is_no_absolute_path_does_not_count(checkout: Checkout, tmp_path: Path, word: str) -> None:
    assert checkout.run("runs", HOME=str(tmp_path), XDG_CACHE_HOME=word).returncode == 0
    code = "from run_benches import places; print(places.CACHE)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.root,
        env=os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": word},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(tmp_path / ".cache" / "strata")


def test_another_users_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs that are built there are run; by its owner's will, if the folder is another's."""
    link = tmp_path / "link"
    link.symlink_to("/proc/1" if os.getuid() else tmp_path)
    monkeypatch.setattr(places, "_WITHOUT_HOME", link)
    monkeypatch.setattr(places, "CACHE", link)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(UserError, match="another user"):
        places.use_cache()


def test_variables_of_other_programs_change_nothing(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured)
    odd = {"TMPDIR": "/nowhere", "MPLBACKEND": "module://nowhere", "MPLCONFIGDIR": "/dev/null"}
    for words in (QUICK, ["report"], ["list"]):
        done = checkout.run(*words, **odd)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done


def test_a_path_may_be_no_text(tmp_path: Path) -> None:
    root = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(root)
    (Path(root) / "run_benches").symlink_to(places.ROOT / "run_benches")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from run_benches import places; print(ascii(places.COMPARE_CACHE))"
    done = subprocess.run([sys.executable, "-I", "-c", code, root], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done


def test_a_defect_is_an_error_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for defect in (
        KeyError("x"),
        RecursionError(),
        AssertionError("y"),
        MemoryError(),
        FileNotFoundError(2, "No such file", "z"),
    ):

        def carry_out(options: object, arguments: object, defect: Exception = defect) -> int:
            raise defect

        monkeypatch.setattr(commands, "carry_out", carry_out)
        monkeypatch.setattr(packages, "enter_environment", lambda arguments: None)
        assert command_line.main(["runs"]) == 2
        assert type(defect).__name__ in capsys.readouterr().err


def test_doctor_measures_nothing_beside_a_run(checkout: Checkout) -> None:
    assert checkout.run(*QUICK).returncode == 0, "it is built now"
    checkout.trouble("storage/create/strata/0_index_1t hang\n")
    run = subprocess.Popen(
        checkout.command(*QUICK), env=checkout.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while len(list((checkout.root / "runs").glob("2*.json"))) < 2:
            time.sleep(0.05)
        done = checkout.run("doctor")
        assert done.returncode == 0 and "another run is under way" in done.stdout.replace("\n", " ")
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(60)
