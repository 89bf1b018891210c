"""The commit that the name of a revision means, and the benches that a change between two of them can reach.

Why a working tree becomes a commit: everything after this module builds, keeps and resumes by a hash, and a tree that
somebody goes on editing has none. The commit belongs to no branch and holds what `git add -A` would. Its objects are
kept in the cache of comparisons; in the repository neither the index nor a file is touched, and nothing is added.
"""

import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from run_benches import repository
from run_benches.errors import UserError
from run_benches.places import BASELINES, BUT_RESULTS, COMPARE_CACHE, REFERENCE, ROOT, shown
from run_benches.store import fingerprint, reach, runs

WORKING_TREE = "the working tree"
OBJECTS = COMPARE_CACHE / "objects"
"""The objects of working trees that were compared."""

_DEEPEN = "git fetch --unshallow"
"""The command that gives a shallow clone the rest of its history."""

_NOBODY = {
    f"GIT_{role}_{what}": text
    for role in ("AUTHOR", "COMMITTER")
    for what, text in {"NAME": "run-benches", "EMAIL": "none", "DATE": "@0 +0000"}.items()
}


@dataclass(frozen=True)
class Revision:
    """A revision. `name` is what a person calls it; the commit of a dirty working tree is one that no branch holds."""

    name: str
    commit: str
    dirty: bool


def resolve(word: str | None, layers: Sequence[str] = ()) -> Revision:
    """The working tree (no word, or a dot), a git revision, or that of a saved baseline; of the reference, one at which
    all these layers, or all that it has, are as they were measured."""
    if word is None or word == ".":
        return _working_tree()
    commit, baseline = _commit(word), _baseline(word)
    if baseline and baseline.is_dir() and not commit:
        return _of_set(baseline, layers)
    if baseline and commit:
        raise UserError(
            f"{word!r} is a git revision and a saved baseline: say {word}^0 for the one, {shown(baseline)} for the other"
        )
    if baseline:
        return _of_baseline(baseline)
    if commit is None:
        deeper = f", and this clone has not all of its history: {_DEEPEN}" if _is_shallow() else ""
        raise UserError(
            f"{word!r} is neither a git revision nor a saved baseline{deeper}; to see these: git branch -a, run-benches.py baselines"
        )
    return Revision(word if not commit.startswith(word) else word[:9], commit, dirty=False)


def merge_base(word: str = "main") -> Revision:
    """Where HEAD left `word`, or the branch that stands for it."""
    for branch in dict.fromkeys((word, "master", "origin/main", "origin/master")):
        if _commit(branch):
            try:
                return Revision(f"merge base with {branch}", git("merge-base", "HEAD", branch), dirty=False)
            except UserError:
                more = f", or fetch the rest of the history ({_DEEPEN})" if _is_shallow() else ""
                raise UserError(f"HEAD and {branch} have no common ancestor here: name a revision{more}") from None
    raise UserError(
        f"there is no branch {word} to compare with: name a revision, or fetch it (git fetch origin {word}:{word})"
    )


def tree(revision: Revision, benches_of: Revision) -> str:
    """The hash of a tree: `revision` with the folder benches/ of the other one."""
    if revision.commit == benches_of.commit:
        return git("rev-parse", f"{revision.commit}^{{tree}}")
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        git("read-tree", revision.commit, **index)
        git("rm", "-r", "-f", "-q", "--cached", "--ignore-unmatch", "benches", **index)
        git("read-tree", "--prefix=benches/", f"{benches_of.commit}:benches", **index)
        return git("write-tree", **index)


def changed_files(a: Revision, b: Revision) -> list[str]:
    """Every file that differs, by its path in the checkout."""
    listed = git("diff", "--name-only", "--no-renames", "-z", a.commit, b.commit)
    return [name for name in listed.split("\0") if name]


def affected(a: Revision, b: Revision, layers: list[str]) -> tuple[list[str], dict[str, str]]:
    """The bench targets that a change from A to B can reach, and those it cannot, with the reason."""
    then, now = (reach.of_commit(one.commit, _environment()) for one in (a, b))
    files = set(map(reach.part_of, changed_files(a, b)))  # a comment, too: that it is the same program, its bytes say
    run = [
        layer
        for layer in layers
        if files & (then.of_bench(layer) | now.of_bench(layer))
        or fingerprint.changed(fingerprint.of_layer(then, layer), fingerprint.of_layer(now, layer))
    ]
    return run, {layer: "nothing under it changed" for layer in layers if layer not in run}


def text_of(commit: str, path: str) -> str | None:
    """A file as it stands in a commit, if it does."""
    try:
        return git("show", f"{commit}:{path}")
    except UserError:
        return None


def benches(commit: str) -> list[str]:
    """Every bench target of a commit, in the order of its Cargo.toml, which is that of the layers."""
    return [bench["name"] for bench in tomllib.loads(text_of(commit, "Cargo.toml") or "").get("bench", [])]


def git(*words: str, **environment: str) -> str:
    """Returns what git prints about this checkout. It also knows the objects of working trees that were compared, and
    adds those of others to them."""
    return repository.git(*words, environment=_environment() | environment)


def _environment() -> dict[str, str]:
    theirs = _objects()
    OBJECTS.mkdir(parents=True, exist_ok=True)
    return {"GIT_OBJECT_DIRECTORY": str(OBJECTS), "GIT_ALTERNATE_OBJECT_DIRECTORIES": theirs}


@lru_cache(maxsize=1)
def _objects() -> str:
    """Where the repository has its objects, as a list of one for git."""
    quoted = str(ROOT / repository.git("rev-parse", "--git-path", "objects")).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _is_shallow() -> bool:
    return git("rev-parse", "--is-shallow-repository") == "true"


def _commit(word: str) -> str | None:
    """The hash of a commit, if the repository has it; a complaint if there is no repository to ask."""
    git("rev-parse", "--git-dir")
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
    except UserError:
        return None


def _baseline(word: str) -> Path | None:
    """The file of a baseline, by its name or by its path, as one types it here or in the checkout."""
    named = [BASELINES / f"{word}.json", *([Path(word).absolute(), ROOT / word] if word.endswith(".json") else [])]
    if REFERENCE.is_dir() and (word == REFERENCE.name or REFERENCE in (Path(word).absolute(), ROOT / word)):
        return REFERENCE
    return next((path for path in named if path.is_file()), None)


def _working_tree() -> Revision:
    head = _commit("HEAD")
    if head is None:
        raise UserError("this repository has no commit yet: nothing to compare with")
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        git("read-tree", head, **index)
        git("add", "-A", *BUT_RESULTS, **index)
        found = git("write-tree", **index)
    if found == git("rev-parse", f"{head}^{{tree}}"):
        return Revision(WORKING_TREE, head, dirty=False)
    return Revision(WORKING_TREE, git("commit-tree", found, "-p", head, "-m", WORKING_TREE, **_NOBODY), dirty=True)


def _of_set(folder: Path, layers: Sequence[str]) -> Revision:
    """A revision of a set at which each of these layers is what was measured of it."""
    stored = runs.load_set(folder)
    if missing := [layer for layer in layers if layer not in stored]:
        raise UserError(
            f"the {folder.name} has no {missing[0]}: run-benches.py renew {missing[0]}, or name other layers with --rows"
        )
    parts = {layer: run for layer, run in stored.items() if not layers or layer in layers}
    commits = dict.fromkeys(run.tool.commit for run in parts.values() if run.tool.dirty is False)
    for commit in filter(_commit, commits):
        sources = reach.of_commit(commit, _environment())
        if all(
            (run.tool.commit, run.tool.dirty) == (commit, False)
            or run.sources.get(layer) == fingerprint.of_layer(sources, layer)
            for layer, run in parts.items()
        ):
            return Revision(f"baseline {folder.name}", commit, dirty=False)
    told = "; ".join(f"{layer} at {run.tool.commit[:9]}" for layer, run in parts.items())
    deeper = f", and this clone has not all of its history: {_DEEPEN}" if _is_shallow() else ""
    raise UserError(
        f"there is no revision at which all layers are as they were measured for the {folder.name} ({told}): name one, or fewer layers with --rows{deeper}"
    )


def _of_baseline(path: Path) -> Revision:
    tool = runs.load(path).tool
    if tool.dirty is None:
        raise UserError(f"baseline {path.stem} was measured where git knew no revision: it cannot be measured again")
    if tool.dirty:
        raise UserError(
            f"baseline {path.stem} was measured on a tree with uncommitted changes, which nobody kept: it cannot be measured again"
        )
    if _commit(tool.commit) is None:
        fetch = _DEEPEN if _is_shallow() else f"git fetch origin {tool.commit}"
        raise UserError(
            f"baseline {path.stem} was measured at {tool.commit[:9]}, which is not in this repository: fetch it ({fetch})"
        )
    return Revision(f"baseline {path.stem}", tool.commit, dirty=False)
