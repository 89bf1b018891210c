"""Files of the runner and files that a person names: what is replaced, what is written into, and with which mode."""

import errno
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from run_benches import files, serialization
from run_benches.errors import UserError
from run_benches.store import stored_file
from run_benches.tests.checkout import Checkout


@pytest.fixture
def private() -> Iterator[None]:
    """Keeps what is created meanwhile for its owner alone."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("write", [files.replace, files.create, files.write])
def test_modes_come_from_the_umask(tmp_path: Path, private: None, write: Callable[[Path, str], None]) -> None:
    write(tmp_path / "new" / "file", "text")
    assert mode(tmp_path / "new" / "file") == 0o600 and mode(tmp_path / "new") == 0o700
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"], "nothing is left beside it"


def test_what_a_person_names_keeps_its_mode_its_links_and_its_names(tmp_path: Path) -> None:
    file, link, other, dangling = (tmp_path / name for name in ("file", "link", "other", "dangling"))
    file.write_text("before, and longer")
    file.chmod(0o640)
    link.symlink_to("file")
    os.link(file, other)
    dangling.symlink_to("nothing")
    files.write(link, "after")
    files.write(dangling, "after")
    assert link.is_symlink() and mode(file) == 0o640 and other.read_text() == file.read_text() == "after"
    assert dangling.is_symlink() and (tmp_path / "nothing").read_text() == "after"


@pytest.mark.parametrize("write", [files.replace, files.write])
def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        writer = threading.Thread(target=write, args=(path, "text"))
        writer.start()
        assert pipe.read_text() == "text"
        writer.join()
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and link.is_symlink()


def test_a_link_to_a_file_of_the_runner_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for text in ("before", "after"):
        files.replace(tmp_path / "link", text)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "after"


@pytest.mark.parametrize("path", [".", "file/below", "/dev/full"])
def test_what_cannot_be_written_is_one_line(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        files.write(tmp_path / path, "text")


@pytest.fixture(params=[None, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems with hard links and without."""

    def refuse(source: Path, to: Path) -> None:
        raise OSError(request.param, os.strerror(request.param), str(source), None, str(to))

    if request.param is not None:
        monkeypatch.setattr(os, "link", refuse)


def test_of_many_who_keep_a_name_at_once_one_does(tmp_path: Path, links: None) -> None:
    path = tmp_path / "name.json"

    def keep(number: int) -> bool:
        try:
            stored_file.keep(path, [number] * 1000)
        except UserError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        kept = list(threads.map(keep, range(16)))
    assert kept.count(True) == 1 and path.read_text() == serialization.text([kept.index(True)] * 1000)
    assert list(tmp_path.iterdir()) == [path]


def test_without_links_what_cannot_be_kept_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="Input/output"):
        files.create(tmp_path / "name", "text")
    assert not list(tmp_path.iterdir())


def test_a_report_goes_where_a_shell_would_send_it(checkout: Checkout, measured: str, tmp_path: Path) -> None:
    checkout.keep(measured, "kept")
    sent = checkout.run("report", "kept", "--output", "-")
    assert sent.returncode == 0 and sent.stdout.startswith("<!DOCTYPE html>") and sent.stdout.endswith("</html>\n")
    words = checkout.command("report", "kept", "--output", "/dev/fd/3")
    through = subprocess.run(
        ["bash", "-c", '"$@" 3>"$0"', str(tmp_path / "three"), *words], env=checkout.environment(), cwd="/", check=False
    )
    assert through.returncode == 0 and (tmp_path / "three").read_text() == sent.stdout
    for words in (["report", "kept"], ["load", "report"], ["document", "kept"]):
        assert "it is a folder" in checkout.error(*words, "--output", str(tmp_path))
    for output in ("-", "/dev/null", "/dev/stdout"):
        assert "cannot write" in checkout.error("document", "kept", "--output", output)
    for command in ("more", "compare"):
        assert "standard output" in checkout.error(command, "--picture", "-")
