"""Two revisions are built by real cargo, and each answers as its sources say, whatever was built before it."""

import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest

from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]


@pytest.fixture
def numbers(workspace: Workspace) -> dict[int, str]:
    """The commits at which the number is 1 and 2."""
    one = workspace.commit()
    workspace.number(2)
    return {1: one, 2: workspace.commit()}


@pytest.mark.parametrize("order", [(1, 2, 1), (2, 1, 2)])
def test_each_revision_answers_for_itself_in_any_order(
    workspace: Workspace, numbers: dict[int, str], order: tuple[int, ...]
) -> None:
    for number in order:
        assert workspace.answers(numbers[number]) == [f"first {number}", f"second {number}"]
        shutil.rmtree(workspace.cache / "builds")


def test_the_times_of_files_do_not_matter(workspace: Workspace, numbers: dict[int, str]) -> None:
    early = ["import os", "plain = worktree.checkout", "def checkout(tree):", "    plain(tree)"]
    early += [
        "    for path in worktree.TREE.rglob('*'):",
        "        os.utime(path, (1e9, 1e9))",
        "worktree.checkout = checkout",
    ]
    for number in (1, 2, 1):
        built = f"built = worktree.build_side(revisions.resolve({numbers[number]!r}), 'a', layers=['second'])"
        executable = workspace.python(*early, built, "print(built['second'].executable)")
        assert workspace.call(executable) == f"second {number}"
        shutil.rmtree(workspace.cache / "builds")


def test_two_builds_at_once_do_not_meet(workspace: Workspace, numbers: dict[int, str]) -> None:
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda number: workspace.answers(numbers[number]), (1, 2)))
    assert found == [["first 1", "second 1"], ["first 2", "second 2"]]


def test_crates_of_others_are_taken_over_from_the_user(workspace: Workspace) -> None:
    other = workspace.root.parent / "other"
    (other / "src").mkdir(parents=True)
    (other / "Cargo.toml").write_text('[package]\nname = "other"\nedition = "2024"\n')
    (other / "src/lib.rs").write_text("")
    workspace.write(
        "Cargo.toml", (workspace.root / "Cargo.toml").read_text() + f'[dependencies]\nother = {{ path = "{other}" }}\n'
    )
    workspace.write("target/release/build/fake-librocksdb-sys-0/output", "")
    workspace.call("cargo", "bench", "--no-run")
    workspace.build(workspace.commit())
    log = (workspace.root / "runs/build.log").read_text()
    assert "Compiling answer " in log and "Compiling other " not in log


def test_what_the_user_built_does_not_pass_for_a_revision(workspace: Workspace, numbers: dict[int, str]) -> None:
    marker = "release/build/fake-librocksdb-sys-0/output"
    workspace.write(f"target/{marker}", "")
    workspace.number(3)
    assert "first 3" in workspace.call("cargo", "bench")
    assert workspace.answers(numbers[2]) == ["first 2", "second 2"]
    assert (workspace.cache / "target" / marker).exists()


def test_an_edit_is_seen_by_the_next_build_of_the_user(workspace: Workspace, numbers: dict[int, str]) -> None:
    workspace.write("target/release/build/fake-librocksdb-sys-0/output", "")
    assert "first 2" in workspace.call("cargo", "bench")
    workspace.number(3)
    workspace.answers(numbers[1])
    assert "first 3" in workspace.call("cargo", "bench")


def test_another_rocksdb_of_the_user_is_copied_too(workspace: Workspace) -> None:
    for number in (0, 1):
        marker = f"release/build/fake-librocksdb-sys-{number}/output"
        workspace.write(f"target/{marker}", "")
        workspace.write("target/release/deps/a", "")
        workspace.write("target/release/.fingerprint/a", "")
        workspace.number(number)
        workspace.build(workspace.commit())
        assert (workspace.cache / "target" / marker).exists()


def test_sides_differ_where_their_sources_do_and_only_there(workspace: Workspace) -> None:
    bench = (workspace.root / "benches/second.rs").read_text()
    one = workspace.commit()
    workspace.write("benches/second.rs", bench.replace("second", "other"))
    workspace.write("src/lib.rs", "pub mod number;\n// A comment.\n")
    a, b = workspace.build(one), workspace.build(workspace.commit(), "b")
    assert a["first"][1] == b["first"][1] and a["second"][1] != b["second"][1]
    assert len(str(a["first"][0])) == len(str(b["first"][0]))


def test_the_benches_of_the_other_side_can_run_on_both(workspace: Workspace, numbers: dict[int, str]) -> None:
    workspace.write("benches/second.rs", (workspace.root / "benches/second.rs").read_text().replace("second", "other"))
    later = workspace.commit()
    assert workspace.answers(numbers[1], options=f"benches_of=revisions.resolve({later!r})") == ["first 1", "other 1"]


def test_features_and_layers_are_chosen(workspace: Workspace, numbers: dict[int, str]) -> None:
    assert workspace.answers(numbers[2], options="features=['double'], layers=['second', 'third']") == ["second 4"]
    assert not list((workspace.cache / "builds").glob("*/first"))
    assert workspace.answers(numbers[2], options="layers=['second']") == ["second 2"]
    assert workspace.answers(numbers[2], options="layers=['second', 'first']") == ["second 2", "first 2"]
    assert workspace.answers(numbers[1], options="layers=['third']") == []


def test_a_kept_build_is_not_built_again(workspace: Workspace, numbers: dict[int, str]) -> None:
    built = workspace.build(numbers[2])
    shutil.rmtree(workspace.cache / "tree")
    assert workspace.build("HEAD", "b") == built and workspace.build(numbers[2], options="layers=['first']") == {
        "first": built["first"]
    }
    assert not (workspace.cache / "tree").exists()


def test_a_build_that_was_cut_off_is_built_again(workspace: Workspace, numbers: dict[int, str]) -> None:
    executable, _ = workspace.build(numbers[2])["first"]
    executable.write_bytes(b"half")
    (executable.parent / "manifest.json").unlink()
    assert workspace.answers(numbers[2]) == ["first 2", "second 2"]


def test_layers_join_those_that_are_kept(workspace: Workspace, numbers: dict[int, str]) -> None:
    workspace.build(numbers[2], options="layers=['first']")
    workspace.build(numbers[2], options="layers=['second']")
    shutil.rmtree(workspace.cache / "tree")
    assert workspace.answers(numbers[2]) == ["first 2", "second 2"] and not (workspace.cache / "tree").exists()


def test_the_builds_that_were_used_last_are_kept(workspace: Workspace) -> None:
    workspace.write("benches/second.rs", "fn main() {}")
    names = []
    for number, again in ((2, "HEAD"), (3, "HEAD~1"), (4, "HEAD")):
        workspace.number(number)
        for word in (workspace.commit(), again):
            build = f"built = worktree.build_side(revisions.resolve({word!r}), 'a', layers=['second'])"
            names.append(
                workspace.python("worktree.KEPT_BUILDS = 2", build, "print(built['second'].executable.parent.name)")
            )
    two, _, three, two_again, four, _ = names
    assert two == two_again != three and {folder.name for folder in (workspace.cache / "builds").iterdir()} == {
        two,
        four,
    }


def test_a_program_is_that_of_its_revision_and_is_kept(workspace: Workspace) -> None:
    workspace.write("src/main.rs", 'fn main() { println!("program 1"); }')
    one = workspace.commit()
    workspace.write("src/main.rs", 'fn main() { println!("program 2"); }')
    two = workspace.commit()
    build = "print(worktree.build_program(revisions.resolve({!r}), {!r}))"
    name = tomllib.loads((workspace.root / "Cargo.toml").read_text())["package"]["name"]
    for number, commit in ((1, one), (2, two), (1, one)):
        assert workspace.call(workspace.python(build.format(commit, name))) == f"program {number}"
    (kept,) = (
        folder for folder in (workspace.cache / "builds").iterdir() if workspace.call(folder / name) == "program 1"
    )
    (kept / name).write_text("#!/bin/sh\necho kept\n")
    assert workspace.call(workspace.python(build.format(one, name))) == "kept"


def test_files_of_another_revision_vanish(workspace: Workspace) -> None:
    before = workspace.commit()
    workspace.write("src/bin/broken.rs", "this is no Rust")
    after = workspace.commit()
    for commit, there in ((after, True), (before, False), (after, True)):
        workspace.python(f"worktree.COMPARE_CACHE.mkdir(exist_ok=True); worktree.checkout({commit!r})")
        assert (workspace.cache / "tree/src/bin/broken.rs").exists() is there


def test_the_libclang_of_this_machine_is_taken_along(workspace: Workspace) -> None:
    workspace.write(".cargo/local.toml", "[env]\n")
    workspace.python("worktree.COMPARE_CACHE.mkdir(); worktree.checkout('HEAD')")
    assert (workspace.cache / "tree/.cargo/local.toml").read_text() == "[env]\n"


def test_the_repository_of_the_user_is_left_alone(workspace: Workspace) -> None:
    workspace.number(3)
    asked = (("status", "--porcelain"), ("for-each-ref",), ("config", "--list"))
    told = [workspace.call("git", *words) for words in asked]
    index = (workspace.root / ".git/index").read_bytes()
    assert workspace.answers(".") == ["first 3", "second 3"]
    assert (workspace.root / ".git/index").read_bytes() == index and not (workspace.root / ".git/worktrees").exists()
    assert [workspace.call("git", *words) for words in asked] == told


def test_a_folder_inside_the_checkout_is_refused(workspace: Workspace) -> None:
    with pytest.raises(AssertionError, match="lies in the checkout"):
        workspace.python(
            "worktree.build_side(revisions.resolve('HEAD'), 'a')",
            STRATA_COMPARE_DIR=str(workspace.root / "target" / "compare"),
        )


def test_a_revision_that_does_not_compile_is_one_line(workspace: Workspace) -> None:
    workspace.write("src/number.rs", "pub fn number() -> u32 { true }")
    with pytest.raises(
        AssertionError, match="UserError: the build of side b, HEAD failed: error\\[E0308\\]: mismatched types"
    ):
        workspace.build(workspace.commit() and "HEAD", "b")
