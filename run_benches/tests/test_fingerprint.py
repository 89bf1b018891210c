"""Figures are stale when the sources that they speak of have changed, and not before."""

import shutil
import subprocess
from collections.abc import Callable

from run_benches.render import page
from run_benches.store import fingerprint
from run_benches.tests.test_document import a_calibration, a_run
from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]

ASK = "from run_benches.store import fingerprint"


def known(workspace: Workspace) -> str:
    return workspace.python(ASK, "print(fingerprint.of_checkout(fingerprint.MEASURED))")


def age(workspace: Workspace, known: str | None, **environment: str) -> str:
    return workspace.python(ASK, f"print(fingerprint.stale({known!r}, fingerprint.MEASURED))", **environment)


def stale(workspace: Workspace, known: str) -> bool:
    return age(workspace, known) == "True"


def test_a_commit_and_the_tree_that_it_holds_have_one_fingerprint(workspace: Workspace) -> None:
    commit, then = workspace.commit(), known(workspace)
    assert workspace.python(ASK, f"print(fingerprint.of_commit({commit!r}, fingerprint.MEASURED))") == then and len(then) == 64
    assert workspace.python(ASK, f"print(fingerprint.of_commit({'0' * 40!r}, fingerprint.MEASURED))") == "None"
    workspace.write("README.md", "Another sentence.\n")
    assert known(workspace) == then and not stale(workspace, then), "that is no other program"


def test_what_was_changed_added_or_removed_makes_figures_stale(workspace: Workspace) -> None:
    then = known(workspace)
    changes: list[Callable[[], None]] = [
        lambda: workspace.number(2),
        lambda: workspace.write("benches/third.rs", "fn main() {}\n"),
        (workspace.root / "src/lib.rs").unlink,
    ]
    for change in changes:
        change()
        assert stale(workspace, then)
        workspace.call("git", "checkout", "-q", ".")
        workspace.call("git", "clean", "-fdq", "benches")
        assert not stale(workspace, then)


def test_without_a_fingerprint_or_without_git_it_is_not_known(workspace: Workspace) -> None:
    then = known(workspace)
    assert age(workspace, None) == "None"
    assert age(workspace, then, GIT_DIR="/nowhere") == "False", "the environment names another repository"
    shutil.rmtree(workspace.root / ".git")
    assert age(workspace, then) == "None"
    subprocess.run(["git", "init", "-q", workspace.root.parent], check=True)
    assert age(workspace, then) == "None", "a repository above is not this checkout's"


def test_the_pages_say_what_is_stale_and_what_is_not_known() -> None:
    for name, what in (("run", "the code that it measured"), ("calibration", "the code that measures and judges")):
        for stale in (False, True, None):
            text = "\n".join(page.render(a_run(), {}, a_calibration(), stale={name: stale}).values())
            assert (f"Stale: {what}" in text) == (stale is True)
            assert (f"Whether {what} has changed since is not known" in text) == (stale is None)


def test_every_path_is_there() -> None:
    for paths in (fingerprint.MEASURED, fingerprint.JUDGING):
        for path in paths:
            assert fingerprint.of_checkout([path]), path
