"""The git repository of this checkout, or none.

Why one place: git looks for a repository in every folder above, and in the environment. A checkout without one (an
archive) that lies inside another project's would bear that project's commit, and a hook's variables would name the
repository that called the hook. So git is asked with this folder as the last one that it looks in. It may refuse even
so (a checkout of another owner), and why stands in its own words.
"""

import os
from collections.abc import Sequence
from functools import lru_cache

from run_benches import processes
from run_benches.errors import UserError
from run_benches.places import ROOT

_OF_A_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in (
        *(
            "DIR",
            "WORK_TREE",
            "COMMON_DIR",
            "INDEX_FILE",
            "OBJECT_DIRECTORY",
            "ALTERNATE_OBJECT_DIRECTORIES",
            "NAMESPACE",
            "PREFIX",
            "INTERNAL_SUPER_PREFIX",
        ),
        *("SHALLOW_FILE", "GRAFT_FILE", "LITERAL_PATHSPECS", "GLOB_PATHSPECS", "NOGLOB_PATHSPECS", "ICASE_PATHSPECS"),
    )
)
"""The variables by which git tells hooks and aliases of a repository, and those by which the words that it is given
here mean something else."""


def git(*words: str, said: str = "", environment: dict[str, str] | None = None) -> str:
    """Returns what git prints about this checkout; `said` is its standard input. A complaint quotes it."""
    if not os.path.lexists(ROOT / ".git"):  # git would look above; it cannot be told not to where the path has a colon
        raise UserError(
            f"git {words[0]} failed: fatal: not a git repository: this checkout has no .git (is it an archive?)"
        )
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    own = {"GIT_CEILING_DIRECTORIES": str(ROOT.resolve().parent), "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = processes.captured(
            ["git", *words], said, no_text="surrogateescape", cwd=ROOT, env=inherited | own | (environment or {})
        )
    except OSError as error:
        raise UserError(
            f"git is not installed, or cannot be run ({error.strerror}); it knows the revisions: with Debian, apt-get install git"
        ) from error
    if done.returncode != 0:
        quoted = " ".join(line.strip() for line in done.stderr.splitlines() if line.strip())
        raise UserError(f"git {words[0]} failed: {quoted or 'it said nothing'}")
    return done.stdout.strip("\n")


@lru_cache(maxsize=1)
def refusal() -> str | None:
    """Why git cannot be asked about this checkout, or nothing."""
    try:
        git("rev-parse", "--verify", "HEAD^{commit}")
    except UserError as error:
        return str(error)
    return None


def contents(objects: Sequence[str], environment: dict[str, str] | None = None) -> list[str]:
    """The contents of objects, in their order."""
    rest = git("cat-file", "--batch", said="".join(f"{one}\n" for one in objects), environment=environment).encode(
        errors="surrogateescape"
    )
    found = []
    for _ in objects:
        head, _, rest = rest.partition(b"\n")
        size = int(head.split()[2])
        found.append(rest[:size].decode(errors="replace"))
        rest = rest[size + 1 :]
    return found
