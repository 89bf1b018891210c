"""Names of revisions, and what a change can reach, in real repositories."""

import json
import shutil
from pathlib import Path

import pytest

from run_benches import places, serialization
from run_benches.render import document
from run_benches.store import runs
from run_benches.tests.workspace import Workspace, workspace

__all__ = ["workspace"]

BASELINE = json.loads(serialization.text(runs.load(document.reference())))
LAYERS = ["encoding", "storage", "indexes", "ladder"]


def baseline(workspace: Workspace, name: str, commit: str, dirty: bool = False) -> None:
    tool = BASELINE["tool"] | {"commit": commit, "dirty": dirty}
    workspace.write(f"baselines/{name}.json", json.dumps(BASELINE | {"tool": tool}))


def resolved(workspace: Workspace, word: str | None) -> tuple[str, str, bool]:
    name, commit, dirty = json.loads(
        workspace.python(
            f"import json; found = revisions.resolve({word!r}); print(json.dumps([found.name, found.commit, found.dirty]))"
        )
    )
    return name, commit, dirty


def error(workspace: Workspace, call: str, **environment: str) -> str:
    lines = [
        "from run_benches.errors import UserError",
        "try:",
        f"    print('no complaint', {call})",
        "except UserError as complaint:",
        "    print(complaint)",
    ]
    return workspace.python(*lines, **environment)


def test_a_clean_tree_is_its_head_and_a_dirty_one_a_commit_of_what_it_holds(workspace: Workspace) -> None:
    head = workspace.call("git", "rev-parse", "HEAD")
    workspace.write("baselines/load/kept.json", "{}\n")
    assert resolved(workspace, None) == resolved(workspace, ".") == ("the working tree", head, False)
    workspace.number(2)
    workspace.write("src/new.rs", "// Not added.\n")
    (workspace.root / "benches/second.rs").unlink()
    name, commit, dirty = resolved(workspace, None)
    assert dirty and resolved(workspace, None) == (name, commit, dirty)
    objects = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(workspace.cache / "objects")}
    assert workspace.call("git", "diff", "--name-status", head, commit, **objects).split() == [
        "D",
        "benches/second.rs",
        "A",
        "src/new.rs",
        "M",
        "src/number.rs",
    ]
    assert workspace.call("git", "branch", "-a", "--contains", commit, **objects) == ""
    workspace.number(3)
    assert resolved(workspace, None)[1] != commit


def test_a_dirty_tree_adds_nothing_to_the_repository(workspace: Workspace) -> None:
    """Its objects are in the cache; the folder of the repository may have a name that git quotes."""
    root = workspace.root.rename(workspace.root.parent / 'a "b":c\\d')
    workspace = Workspace(root)
    before = sorted((root / ".git").rglob("*"))
    workspace.number(2)
    workspace.write("large", "x" * 1_000_000)
    (root / "link").symlink_to("large")
    found = resolved(workspace, ".")
    compared = "found = revisions.resolve('.'); print(revisions.changed_files(revisions.resolve('HEAD'), found), len(revisions.tree(found, revisions.resolve('HEAD'))))"
    assert workspace.python(compared) == "['large', 'link', 'src/number.rs'] 40" and found[2]
    assert sorted((root / ".git").rglob("*")) == before


def test_why_git_refuses_is_said_in_its_words(workspace: Workspace) -> None:
    baseline(workspace, "kept", workspace.commit())
    for call in ("resolve('.')", "resolve('main')", "resolve('kept')", "merge_base()"):
        said = error(workspace, f"revisions.{call}", GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
        assert "dubious ownership" in said and f"safe.directory {workspace.root}" in said
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": str(workspace.root)}
    assert "no complaint" in error(
        workspace, "revisions.resolve('kept')", GIT_TEST_ASSUME_DIFFERENT_OWNER="1", **allowed
    )


def test_a_shallow_clone_is_told_how_to_deepen_it(workspace: Workspace) -> None:
    first = workspace.commit()
    workspace.number(2)
    workspace.commit()
    root = workspace.root.parent / "shallow"
    workspace.call("git", "clone", "-q", "--depth", "1", f"file://{workspace.root}", root)
    (root / "run_benches").symlink_to(places.ROOT / "run_benches")
    clone = Workspace(root)
    baseline(clone, "reference", first)
    for word in ("reference", "HEAD~1", first):
        assert "git fetch --unshallow" in error(clone, f"revisions.resolve({word!r})")
    clone.call("git", "fetch", "-q", "--unshallow")
    assert resolved(clone, "reference")[1] == resolved(clone, "HEAD~1")[1] == first


def test_a_baseline_is_named_by_any_path_to_it(workspace: Workspace) -> None:
    first = workspace.call("git", "rev-parse", "HEAD")
    baseline(workspace, "reference", first)
    elsewhere = workspace.root.parent / "elsewhere.json"
    shutil.copy(workspace.root / "baselines/reference.json", elsewhere)
    inside = (
        "reference",
        "baselines/reference.json",
        "./baselines/reference.json",
        "baselines//reference.json",
        "src/../baselines/reference.json",
    )
    for word in (*inside, str(workspace.root / "baselines/reference.json")):
        assert resolved(workspace, word) == ("baseline reference", first, False), word
    assert (
        resolved(workspace, str(elsewhere))
        == resolved(workspace, "../elsewhere.json")
        == ("baseline elsewhere", first, False)
    )
    for word in ("baselines/nothing.json", "baselines", "Cargo.toml"):
        assert error(workspace, f"revisions.resolve({word!r})").startswith(
            f"{word!r} is neither a git revision nor a saved baseline"
        )


def test_the_environment_of_a_hook_changes_nothing(workspace: Workspace) -> None:
    workspace.number(2)
    index = (workspace.root / ".git/index").read_bytes()
    before = workspace.python("print(revisions.resolve(None))")
    assert (
        workspace.python(
            "print(revisions.resolve(None))", GIT_INDEX_FILE=str(workspace.root / ".git/index"), GIT_DIR="/nowhere"
        )
        == before
    )
    assert (workspace.root / ".git/index").read_bytes() == index


def test_words_are_revisions_or_baselines(workspace: Workspace) -> None:
    first = workspace.call("git", "rev-parse", "HEAD")
    baseline(workspace, "reference", first)
    second = workspace.commit()
    assert resolved(workspace, "HEAD~1") == ("HEAD~1", first, False) and resolved(workspace, "main") == (
        "main",
        second,
        False,
    )
    assert (
        resolved(workspace, "reference")
        == resolved(workspace, "baselines/reference.json")
        == ("baseline reference", first, False)
    )
    for word in ("nothing", "--help", "reference/x", "HEAD:src"):
        assert error(workspace, f"revisions.resolve({word!r})").startswith(
            f"{word!r} is neither a git revision nor a saved baseline"
        )


def test_a_word_that_means_both_is_asked_about(workspace: Workspace) -> None:
    head = workspace.commit()
    baseline(workspace, "main", workspace.call("git", "rev-parse", "HEAD~1"))
    assert "say main^0 for the one, baselines/main.json for the other" in error(workspace, "revisions.resolve('main')")
    assert resolved(workspace, "main^0")[1] == head and resolved(workspace, "baselines/main.json")[0] == "baseline main"


def test_a_baseline_that_cannot_be_measured_again_is_refused(workspace: Workspace) -> None:
    baseline(workspace, "edited", workspace.commit(), dirty=True)
    baseline(workspace, "foreign", "1" * 40)
    assert "uncommitted changes" in error(workspace, "revisions.resolve('edited')")
    assert "111111111, which is not in this repository" in error(workspace, "revisions.resolve('foreign')")


def test_the_merge_base_is_where_the_branch_began(workspace: Workspace) -> None:
    base = workspace.call("git", "rev-parse", "HEAD")
    workspace.number(2)
    workspace.commit()
    workspace.call("git", "checkout", "-q", "-b", "topic", base)
    workspace.number(3)
    workspace.commit()
    found = "found = revisions.merge_base(); print(found.name, found.commit)"
    assert workspace.python(found) == f"merge base with main {base}"
    workspace.call("git", "branch", "-q", "-m", "main", "master")
    assert workspace.python(found) == f"merge base with master {base}"


def test_without_a_merge_base_there_is_a_complaint(workspace: Workspace) -> None:
    workspace.call("git", "checkout", "-q", "--orphan", "other")
    workspace.number(2)
    workspace.commit()
    assert error(workspace, "revisions.merge_base()").startswith("HEAD and main have no common ancestor")
    workspace.call("git", "branch", "-q", "-D", "main")
    assert error(workspace, "revisions.merge_base()").startswith(
        "there is no branch main to compare with: name a revision"
    )


def test_outside_a_repository_git_is_quoted(workspace: Workspace) -> None:
    shutil.rmtree(workspace.root / ".git")
    assert error(workspace, "revisions.resolve(None)").startswith("git rev-parse failed: fatal: not a git repository")


@pytest.fixture
def house(workspace: Workspace) -> Workspace:
    """Layers that stand on each other: indexes on storage and, over its folder, on encoding."""
    for path, text in {
        "src/error.rs": "",
        "src/encoding.rs": "use crate::error::Error;",
        "src/storage.rs": "fn f() { crate::error::fail() }",
        "src/indexes.rs": "use crate::{\n    storage,\n};",
        "src/indexes/scan.rs": "use crate::encoding;",
        "src/server.rs": "use crate::indexes;",
        "benches/encoding.rs": "fn main() {}",
        "benches/storage.rs": "mod floor;\nfn main() {}",
        "benches/indexes.rs": "fn main() {}",
        "benches/ladder.rs": "mod prepared;\nuse strata::server;\nfn main() {}",
        "benches/floor.rs": "mod prepared;",
        "benches/prepared.rs": "mod settings;",
        "benches/prepared/settings.rs": "",
    }.items():
        workspace.write(path, text)
    workspace.commit()
    return workspace


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/error.rs", LAYERS),
        ("src/encoding/key.rs", ["encoding", "indexes", "ladder"]),
        ("src/storage.rs", ["storage", "indexes", "ladder"]),
        ("src/indexes/scan.rs", ["indexes", "ladder"]),
        ("src/server.rs", ["ladder"]),
        ("src/lib.rs", LAYERS),
        ("benches/indexes.rs", ["indexes"]),
        ("benches/floor.rs", ["storage"]),
        ("benches/prepared/settings.rs", ["storage", "ladder"]),
        ("benches/harness/src/lib.rs", LAYERS),
        ("Cargo.lock", []),
        (".cargo/config.toml", LAYERS),
        ("rust-toolchain.toml", LAYERS),
        ("benches/margins.toml", []),
        ("docs/Cargo.toml.md", []),
        ("tests/main.rs", []),
        ("baselines/new.json", []),
    ],
)
def test_a_change_reaches_what_stands_on_it(house: Workspace, path: str, expected: list[str]) -> None:
    before = house.call("git", "rev-parse", "HEAD")
    text = (house.root / path).read_text() if (house.root / path).exists() else ""
    more = {".rs": "fn more() {}", ".toml": "[more]\na = 1"}.get(Path(path).suffix, "")
    house.write(path, f"{text}\n{more}\n")
    code = f"import json; print(json.dumps(revisions.affected(revisions.resolve({before!r}), revisions.resolve({house.commit()!r}), {LAYERS!r})))"
    run, left_out = json.loads(house.python(code))
    assert run == expected
    assert left_out == {layer: "nothing under it changed" for layer in LAYERS if layer not in expected}


def test_a_file_that_moved_counts_at_both_places(house: Workspace) -> None:
    before = house.call("git", "rev-parse", "HEAD")
    (house.root / "src/storage.rs").rename(house.root / "src/new.rs")
    found = house.python(
        f"print(revisions.changed_files(revisions.resolve({before!r}), revisions.resolve({house.commit()!r})))"
    )
    assert found == "['src/new.rs', 'src/storage.rs']"
