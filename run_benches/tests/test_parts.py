"""Small parts: names, tables, processes, packages."""

import os
import sys
from pathlib import Path

import pytest

from run_benches import files, processes, progress, serialization
from run_benches.errors import UserError
from run_benches.measure import machine, selection
from run_benches.render import terminal
from run_benches.setup import packages
from run_benches.store.runs import Facts

LAYERS = ["storage", "indexes", "transaction"]


@pytest.mark.parametrize(
    ("word", "fits"),
    [("a", True), ("a/b", True), ("a/*", True), ("a/b/c/d", True), ("*/d", True), ("b", False), ("a/b/c/d/e", False)],
)
def test_what_a_word_selects(word: str, fits: bool) -> None:
    assert selection.matches("a/b/c/d", word) is fits


@pytest.mark.parametrize(
    ("word", "meant"),
    [("transactoin", "transaction"), ("index", "indexes"), ("storge/get", "storage"), ("lits", "list")],
)
def test_a_misspelt_name_gets_the_nearest_one(word: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"did you mean {meant}\\?"):
        selection.check_layers([word], LAYERS, ["list", "save"])


def test_a_misspelt_row_gets_the_nearest_one() -> None:
    with pytest.raises(UserError, match=r"did you mean indexes/hash_insert\?"):
        selection.check_rows(["indexes/hash_inser"], ["indexes/hash_insert/strata/1", "indexes/range_scan/strata/1"])


def test_a_table_leaves_out_what_can_be_spared_and_says_so() -> None:
    columns = ["row", "time>", "rate>?"]
    body = [["a_very_long_operation/strata/with_a_long_case", "1.23 us", "812 k records/s"]]
    wide, narrow = terminal.table("t", columns, body, 120), terminal.table("t", columns, body, 45)
    assert "812 k" in wide and "left out" not in wide
    assert "812 k" not in narrow and "left out for want of room: rate" in narrow and "1.23 us" in narrow
    assert max(len(line) for line in narrow.splitlines()[1:4]) <= 45


def test_kept_output_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.styled("x", "red") == "x"


def test_a_silent_process_is_killed_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys, time; print('begun', flush=True); subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)'])"
    assert (
        processes.run([sys.executable, "-c", code], {}, tmp_path / "log", 60, 0.5, lambda: None)
        == "silent for 0 s, killed"
    )


def test_a_talking_process_is_killed_at_its_deadline(tmp_path: Path) -> None:
    code = "import time\nwhile True: print('x', flush=True); time.sleep(.05)"
    assert (
        processes.run([sys.executable, "-c", code], {}, tmp_path / "log", 0.6, 60, lambda: None)
        == "not done after 1 s, killed"
    )


def test_a_panic_is_quoted(tmp_path: Path) -> None:
    code = "import sys; sys.exit(\"thread 'main' panicked at benches/x.rs:1:1:\\nthe engine said no\\nnote: run with\")"
    failure = processes.run([sys.executable, "-c", code], {}, tmp_path / "log", 60, 60, lambda: None)
    assert failure == "exit code 1: thread 'main' panicked at benches/x.rs:1:1: the engine said no"


def test_the_reason_of_the_system_comes_before_what_a_program_says_later() -> None:
    full = "IO error: No space left on device: While appending to file: /s/000012.log"
    panics = ["thread 'main' panicked at benches/x.rs:1:1:", full, "thread 'main' panicked at poisoned.rs:2:2:"]
    assert processes.essence([*panics, "PoisonError"]) == full
    refused = [f"strata-harness: refused: {full}", "panicked at x:", "later"]
    assert processes.essence(refused) == f"the engine refused: {full}"


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (3700, "1 h 01 min")])
def test_durations(seconds: float, shown: str) -> None:
    assert progress.duration(seconds) == shown


def test_a_shape_says_where_it_is_wrong() -> None:
    right = {"op": "reads", "unit": "records", "units_per_operation": 1, "threads": 1}
    assert serialization.parse(Facts, right).units_per_operation == 1.0
    for field, value in (("threads", "8"), ("threads", True), ("floor", {"at_least": 1}), ("clock", "sun")):
        with pytest.raises(serialization.Malformed, match=field):
            serialization.parse(Facts, right | {field: value})
    with pytest.raises(serialization.Malformed, match="missing required field `op`"):
        serialization.parse(Facts, {})


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    files.replace(path, "old")
    with pytest.raises(UnicodeEncodeError):
        files.replace(path, "half \ud800")
    assert path.read_text() == "old" and [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_an_interrupt_right_after_a_file_was_replaced_stays_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace = os.replace

    def interrupted(source: str, target: Path) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.replace(tmp_path / "run.json", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("run.json", "new")]


def test_settings_of_pip_are_honoured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    assert packages.pip_setting("index-url") == "https://mirror.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.example/simple")
    assert packages.pip_setting("index-url") == "https://other.example/simple"


def test_a_pip_with_another_hash_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pages = {"text/html": f'<a href="../files/{packages.PIP_WHEEL}#sha256=0">'.encode(), "*/*": b"something else"}
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    monkeypatch.setattr(packages, "_fetch", lambda url, accept: pages[accept])
    with pytest.raises(UserError, match="expected hash"):
        packages._fetched_pip()


def test_the_machine_is_described_without_guesses() -> None:
    found = machine.describe("ext4")
    assert found.identity["cores"] >= 1 and found.recorded["file_system"] == "ext4"
    assert found.likeness(machine.describe(None)).alike
    assert machine.file_system(Path("/proc")) == "proc"
