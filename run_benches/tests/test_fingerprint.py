"""Figures are stale when the sources that they speak of have changed, and not before."""

from collections.abc import Callable

from run_benches.render import page
from run_benches.store import fingerprint
from run_benches.tests.test_document import a_calibration, a_run
from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]

ASK = "from run_benches.store import fingerprint"


def told(workspace: Workspace, commit: str, known: str | None = None, dirty: bool = False) -> bool:
    return workspace.python(ASK, f"print(fingerprint.stale({known!r}, {commit!r}, {dirty}, fingerprint.MEASURED))") == "True"


def test_a_commit_and_the_tree_that_it_holds_have_one_fingerprint(workspace: Workspace) -> None:
    commit = workspace.commit()
    both = workspace.python(ASK, f"print(fingerprint.of_checkout(fingerprint.MEASURED), fingerprint.of_commit({commit!r}, fingerprint.MEASURED))").split()
    assert both[0] == both[1] and len(both[0]) == 64
    assert not told(workspace, commit) and not told(workspace, "unknown", both[0])
    workspace.write("README.md", "Another sentence.\n")
    assert not told(workspace, workspace.commit(), both[0]), "that is no other program"


def test_what_was_changed_added_or_removed_makes_figures_stale(workspace: Workspace) -> None:
    commit = workspace.commit()
    changes: list[Callable[[], None]] = [
        lambda: workspace.number(2),
        lambda: workspace.write("benches/third.rs", "fn main() {}\n"),
        (workspace.root / "src/lib.rs").unlink,
    ]
    for change in changes:
        change()
        assert told(workspace, commit)
        workspace.call("git", "checkout", "-q", ".")
        workspace.call("git", "clean", "-fdq", "benches")
        assert not told(workspace, commit)


def test_what_is_not_known_is_not_called_stale(workspace: Workspace) -> None:
    assert not told(workspace, "0" * 40) and not told(workspace, workspace.commit(), dirty=True)


def test_the_pages_say_what_is_stale() -> None:
    for stale in ((), ("run",), ("calibration",)):
        text = "\n".join(page.render(a_run(), {}, a_calibration(), stale=frozenset(stale)).values())
        assert ("Stale: the code that it measured" in text) == ("run" in stale)
        assert ("Stale: the code that measures and judges" in text) == ("calibration" in stale)


def test_every_path_is_there() -> None:
    for paths in (fingerprint.MEASURED, fingerprint.JUDGING):
        for path in paths:
            assert fingerprint.of_checkout([path]), path
