"""Benches that real cargo built are linked anew: another order, the same program."""

from pathlib import Path

import pytest

from run_benches.errors import UserError
from run_benches.measure import relink
from run_benches.measure.relink import Link
from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]

SHUFFLED = ("first", "core", "alloc")
"""Two libraries among them, since the tiny crates have too few functions for an order."""


@pytest.fixture
def arguments(workspace: Workspace) -> tuple[str, ...]:
    """Returns what the first bench of a side was linked from, after another side was built and the one before is
    gone."""
    before = workspace.commit()
    workspace.number(2)
    code = f"built = [worktree.build_side(revisions.resolve(word), side, layers=['first']) for word, side in (({before!r}, 'a'), ({workspace.commit()!r}, 'b'))]"
    found = workspace.python(code, "print('\\n'.join(built[0]['first'].link.arguments))")
    return tuple(found.splitlines())


def linked(workspace: Workspace, arguments: tuple[str, ...], seed: int) -> tuple[Path, list[str]]:
    """An executable, and the names of its functions in their order."""
    path = workspace.root.parent / "anew"
    Link(arguments, SHUFFLED).to(path, seed)
    return path, [line.split()[-1] for line in workspace.call("nm", "-n", path).splitlines() if " t " in line.lower()]


def test_a_seed_is_an_order_and_the_answer_stays(workspace: Workspace, arguments: tuple[str, ...]) -> None:
    orders = []
    for seed in (1, 2, 2**32 - 2):
        path, functions = linked(workspace, arguments, seed)
        assert workspace.call(path) == "first 1" and len(functions) > 100
        orders.append(functions)
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1] and orders[1] != orders[2]
    untouched = [
        [name for name in order if not any(f"{len(crate)}{crate}" in name for crate in SHUFFLED)] for order in orders
    ]
    assert untouched[0] == untouched[1] and len(untouched[0]) > 100, "libraries keep their order"


def test_a_seed_is_a_shift_of_what_no_commit_reorders(workspace: Workspace, arguments: tuple[str, ...]) -> None:
    places = set()
    for seed in (1, 2, 3):
        path, _ = linked(workspace, arguments, seed)
        places |= {
            int(line.split()[0], 16) % 4096
            for line in workspace.call("nm", path).splitlines()
            if line.endswith(" rust_eh_personality")
        }
    assert len(places) == 3


def test_the_crates_of_the_workspace_are_shuffled(workspace: Workspace) -> None:
    found = workspace.python(
        f"built = worktree.build_side(revisions.resolve({workspace.commit()!r}), 'a', layers=['first'])",
        "print(*built['first'].link.crates)",
    )
    assert found.split() == ["first", "answer", "answer_harness"]


def test_the_same_seed_gives_the_same_bytes(workspace: Workspace, arguments: tuple[str, ...]) -> None:
    contents = [linked(workspace, arguments, seed)[0].read_bytes() for seed in (7, 8, 7)]
    assert contents[0] == contents[2] != contents[1]


@pytest.mark.parametrize("seed", [0, 2**32 - 1, -1])
def test_seeds_that_mean_other_things_are_no_seeds(tmp_path: Path, seed: int) -> None:
    with pytest.raises(AssertionError):
        Link((), ()).to(tmp_path / "anew", seed)


def test_a_linker_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="anew cannot be linked anew in .*: .*missing"):
        Link(("-fuse-ld=missing",), ()).to(tmp_path / "anew", 1)


def test_where_no_linker_can_shuffle_there_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arguments").write_text("-m64\na.o")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert relink.load(tmp_path) is None
    (tmp_path / "ld.lld").touch(mode=0o755)
    assert relink.load(tmp_path) == Link(("-m64", "a.o", "-fuse-ld=lld"), (tmp_path.name,))
    (tmp_path / "arguments").write_text("-fuse-ld=lld\na.o")
    assert relink.load(tmp_path) == Link(("-fuse-ld=lld", "a.o"), (tmp_path.name,))
