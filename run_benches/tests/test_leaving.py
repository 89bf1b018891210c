"""The end of a command that is stopped, at whatever stage: no process, scratch or socket is left, and what is done is
kept."""

import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from run_benches import interrupts, places, processes, scratch
from run_benches.tests import checkout as checkouts
from run_benches.tests.checkout import Checkout

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IN_TURNS, ALONE = "storage/read/strata/0_index_1t", "storage/read/strata/0_index_8t"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """A checkout whose temporary files have a folder of their own: a short one, for the paths of sockets."""
    made = checkouts.made(tmp_path / "checkout")
    with tempfile.TemporaryDirectory() as folder:
        (made.root / "tmp").symlink_to(folder)
        yield made


def started(checkout: Checkout, *words: str, before: Callable[[], None] | None = None) -> "subprocess.Popen[str]":
    """A command under way, at the place where a fake tool waits."""
    return waiting(checkout, checkout.command(*words), before)


def begun(
    checkout: Checkout, command: list[str], before: Callable[[], None] | None = None, **environment: str
) -> "subprocess.Popen[str]":
    own = checkout.environment() | {"TMPDIR": os.readlink(checkout.root / "tmp")} | environment
    return subprocess.Popen(
        command,
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,  # noqa: PLW1509 - nothing runs beside it
    )


def waiting(
    checkout: Checkout, command: list[str], before: Callable[[], None] | None = None
) -> "subprocess.Popen[str]":
    process = begun(checkout, command, before)
    deadline = time.monotonic() + 60
    while not (checkout.root / "bin" / "WAITING").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    return process


def left(checkout: Checkout) -> list[str]:
    """Returns what runs, or lies there, of the commands of a checkout: all that they start has its path in the
    environment."""
    found = [entry.name for entry in (checkout.root / "tmp").iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"{checkout.root}/bin:".encode() in (process / "environ").read_bytes()
            if ours and "\nState:\tZ" not in (process / "status").read_text():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            pass
    found += [
        str(path)
        for name in ("tmp*", "*/tmp*", "*/templates", "*/lanes", "*/linked")
        for path in (checkout.root / "runs").glob(name)
    ]
    return found


def ended(checkout: Checkout, process: "subprocess.Popen[str]", number: signal.Signals, code: int = 3) -> str:
    """Stops a command; returns what it said."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code and "stopped" in errors and "Traceback" not in errors, (
        process.returncode,
        output,
        errors,
    )
    assert not left(checkout)
    return errors


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "words",
    [
        ("--quick",),
        ("save", "before"),
        ("profile", "storage/read/strata/0_index_1t"),
        ("load", "rest-crud"),
        ("load", "calibrate"),
        ("load", "capacity", "rest-crud"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_a_build(checkout: Checkout, words: tuple[str, ...], number: signal.Signals) -> None:
    (checkout.root / "bin" / "SLOW").touch()
    ended(checkout, started(checkout, *words), number)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("id", [IN_TURNS, ALONE])
def test_a_run(checkout: Checkout, id: str, number: signal.Signals) -> None:
    checkout.trouble(f"{id} hang\n")
    errors = ended(checkout, started(checkout, *([id] if id == ALONE else []), "--quick", "--seed", "7"), number)
    assert "Go on with: run-benches.py --resume" in errors and not checkout.last().complete
    checkout.trouble("")
    assert checkout.run("--resume").returncode == 0 and checkout.last().complete


@pytest.mark.parametrize("number", SIGNALS)
def test_a_profile(checkout: Checkout, number: signal.Signals) -> None:
    bench = checkout.root / "bin" / "storage-fake"
    bench.write_text(
        bench.read_text().replace(
            '    elif "STRATA_TURN"',
            f'    elif "STRATA_COUNT" in os.environ:\n        misbehave("{IN_TURNS}")\n    elif "STRATA_TURN"',
        )
    )
    checkout.trouble(f"{IN_TURNS} hang\n")
    ended(checkout, started(checkout, "profile", IN_TURNS), number)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "action",
    [(), ("compare", "--versus=--no-tls"), ("calibrate",), ("capacity",)],
    ids=lambda action: "".join(action[:1]),
)
def test_a_load_test_whose_load_tool_does_not_end_when_it_is_asked(
    checkout: Checkout, action: tuple[str, ...], number: signal.Signals
) -> None:
    subprocess.run(
        ["git", "-c", "user.name=nobody", "-c", "user.email=none", "-C", checkout.root, "init", "-q", "-b", "main"],
        check=True,
    )
    for words in (["add", "Cargo.toml"], ["commit", "-q", "-m", "all"]):
        subprocess.run(
            ["git", "-c", "user.name=nobody", "-c", "user.email=none", *words], cwd=checkout.root, check=True
        )
    load = checkout.root / "bin" / "load-program"
    deaf = "signal.signal(signal.SIGINT, lambda *_: None)\nopen(HOME / 'WAITING', 'w').close()\nsubprocess.run(['sleep', '300'], start_new_session=True)\n"
    load.write_text(
        load.read_text().replace(
            "trouble = HOME", f'if "--plan" not in sys.argv:\n{textwrap.indent(deaf, "    ")}trouble = HOME'
        )
    )
    impatient = (
        "import signal; from run_benches import processes; processes.STORING = processes.Ending(signal.SIGINT, 0.5)"
    )
    main = "from run_benches.cli import command_line; sys.exit(command_line.main(sys.argv[1:]))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(checkout.root)!r}); {impatient}; {main}"]
    ended(
        checkout,
        waiting(
            checkout, [*command, "load", *action[:1], *(["rest-crud"] if action != ("calibrate",) else []), *action[1:]]
        ),
        number,
    )


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("words", [("doctor",), ("test",)], ids=lambda words: words[0])
def test_a_command_that_asks_tools(checkout: Checkout, words: tuple[str, ...], number: signal.Signals) -> None:
    for tool in ("rustc", "cargo"):
        (checkout.root / "bin" / tool).write_text(
            "#!/bin/sh\nmktemp -d > /dev/null\ntouch ${0%/*}/WAITING\nsleep 300\n"
        )
    ended(checkout, started(checkout, *words), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_command_while_pip_runs(checkout: Checkout, number: signal.Signals) -> None:
    """It waits for an index that never answers."""
    (checkout.root / ".venv").unlink()
    shutil.copy(places.ROOT / "requirements.txt", checkout.root)
    with socket.create_server(("127.0.0.1", 0)) as index:
        settings = {
            "PIP_INDEX_URL": f"http://127.0.0.1:{index.getsockname()[1]}/simple",
            "PIP_CONFIG_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
        }
        process = begun(checkout, checkout.command("runs"), None, **settings)
        index.settimeout(60)
        index.accept()
        ended(checkout, process, number)


def test_what_hangs_leaves_nothing_when_its_time_is_over(checkout: Checkout) -> None:
    checkout.trouble(f"{ALONE} hang\n{IN_TURNS} hang\n")
    for where in ("TMPDIR", "STRATA_BENCH_DIR"):
        done = checkout.run(
            "storage/read",
            ALONE,
            "--quick",
            "--timeout",
            "1s",
            **{"TMPDIR": os.readlink(checkout.root / "tmp"), where: os.readlink(checkout.root / "tmp")},
        )
        assert done.returncode == 2 and "silent for 1 s" in done.stdout and not left(checkout), done


def test_a_folder_of_a_process_that_was_killed_is_removed_by_the_next_command(checkout: Checkout) -> None:
    checkout.trouble(f"{ALONE} hang\n")
    process = started(checkout, ALONE, "--quick")
    process.kill()
    process.communicate()
    for line in Path("/proc").glob("[0-9]*/environ"):  # nobody else ends what a killed runner had started
        try:
            if f"{checkout.root}/bin:".encode() in line.read_bytes():
                os.kill(int(line.parent.name), signal.SIGKILL)
        except OSError:
            pass
    assert [name for name in left(checkout) if name.startswith(scratch.PREFIX)]
    (checkout.root / "tmp" / f"{scratch.PREFIX}-{scratch._namespace()}-{os.getpid()}-1").mkdir()
    (checkout.root / "tmp" / f"{scratch.PREFIX}-mine").mkdir()
    assert checkout.run("runs", TMPDIR=os.readlink(checkout.root / "tmp")).returncode == 0
    assert [entry.name for entry in (checkout.root / "tmp").iterdir()] == [f"{scratch.PREFIX}-mine"]


def ignoring_both() -> None:
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def test_another_user_passes_through_the_folder_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = os.umask(0o077)
    try:
        with scratch.of_the_command():
            assert Path(os.environ["TMPDIR"]).stat().st_mode & 0o777 == 0o711
    finally:
        os.umask(before)


def test_a_signal_that_was_ignored_stays_so_if_it_is_sighup(checkout: Checkout) -> None:
    (checkout.root / "bin" / "SLOW").touch()
    process = started(checkout, "--quick", before=ignoring_both)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    ended(checkout, process, signal.SIGINT)


def test_later_signals_do_not_cut_the_end_off(checkout: Checkout) -> None:
    checkout.trouble(f"{IN_TURNS} hang\n")
    process = started(checkout, "--quick", "--seed", "7")
    for number in 5 * SIGNALS:
        process.send_signal(number)
        time.sleep(0.01)
    assert "Go on with" in ended(checkout, process, signal.SIGTERM)


def test_a_terminal_that_is_gone(checkout: Checkout) -> None:
    """It takes what is written there with it, and sends SIGHUP to all who have it."""
    checkout.trouble(f"{IN_TURNS} hang\n")
    words = [
        "bash",
        "-mc",
        'trap "" HUP; exec 3>$0/code; (trap - HUP; exec "$@"); echo $? >&3',
        str(checkout.root),
        *checkout.command("--quick", "--seed", "7"),
    ]
    own = checkout.environment() | {"TMPDIR": os.readlink(checkout.root / "tmp")}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", words, own)
    deadline = time.monotonic() + 60
    while not (checkout.root / "bin" / "WAITING").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running = {found.parent.name: found.read_text() for found in Path("/proc").glob("[0-9]*/cmdline")}
    (runner,) = (
        int(pid)
        for pid, said in running.items()
        if f"{checkout.root}/run-benches.py" in said and not said.startswith("bash")
    )
    os.close(terminal)
    try:
        os.kill(runner, signal.SIGHUP)  # as a shell does
    except ProcessLookupError:
        pass  # the system did
    os.waitpid(pid, 0)
    assert (checkout.root / "code").read_text() == "3\n" and not left(checkout)
    assert not checkout.last().complete


def test_an_interrupt_waits_for_what_must_not_be_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "STOP", interrupts.Stop())
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.held():
        with interrupts.held():
            interrupts._interrupt(signal.SIGTERM, None)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    interrupts._interrupt(signal.SIGINT, None)
    with interrupts.held():
        done.append("the end is not cut off")


def test_the_whole_family_of_a_process_ends_with_it() -> None:
    """In its group, in other groups and in other sessions, however often it was passed on."""
    passed_on = "subprocess.Popen(['sh', '-c', 'setsid sleep 301 & sleep 302 & exec setsid sleep 303'])"
    code = f"import subprocess; {passed_on}; print('up', flush=True); subprocess.run(['sleep', '304'], process_group=0)"
    with processes.started([sys.executable, "-c", code], stdout=processes.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"up\n"
        deadline = time.monotonic() + 60
        while len(family := processes._family({process.pid}, processes._running())) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert not family & set(processes._running()) and process.returncode == -signal.SIGTERM
