"""A checkout that git knows nothing of: an archive, also one that lies inside another repository."""

import subprocess
import sys
from pathlib import Path

from run_benches import places
from run_benches.store import runs
from run_benches.tests.checkout import Checkout, checkout, measured

__all__ = ["checkout", "measured"]


def begin_repository(folder: Path) -> None:
    for words in (
        ["init", "-q"],
        ["-c", "user.name=test", "-c", "user.email=test", "commit", "-q", "--allow-empty", "-m", "a commit"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_a_repository_above_is_not_asked(tmp_path: Path) -> None:
    """Git cannot be told not to look above a path with a colon."""
    archive = tmp_path / "a:b" / "archive"
    archive.mkdir(parents=True)
    (archive / "run_benches").symlink_to(places.ROOT / "run_benches")
    begin_repository(archive.parent)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from run_benches import repository; print(repository.refusal())"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code, str(archive)], capture_output=True, text=True, check=True)
    assert "not a git repository" in done.stdout


def test_an_archive_bears_no_other_repositorys_commit(checkout: Checkout) -> None:
    """An unknown state is neither clean nor fresh: in the run, in what is rendered of it, and where it is to be
    measured again."""
    begin_repository(checkout.root.parent)
    done = checkout.run("storage", "--quick")
    tool = checkout.last().tool
    assert done.returncode == 0 and "not a git repository" in done.stderr
    assert (tool.commit, tool.dirty, checkout.last().sources) == (runs.UNKNOWN, None, {})
    page = checkout.root / "page.md"
    assert checkout.run("document", "last", "--output", str(page)).returncode == 0
    assert (
        "whether the code has changed since is not known" in page.read_text()
        and "the code has changed since**" not in page.read_text()
    )
    checked = checkout.run("document", "last", "--output", str(page), "--check")
    assert checked.returncode == 3 and "not a git repository" in checked.stderr
    assert checkout.run("save", "kept", "--run", "last").returncode == 0
    assert "not a git repository" in checkout.error("compare", "kept")


def test_a_run_outside_of_git_cannot_be_measured_again(checkout: Checkout, measured: str) -> None:
    checkout.keep(measured, "kept")
    begin_repository(checkout.root)
    assert "git knew no revision" in checkout.error("compare", "kept")
