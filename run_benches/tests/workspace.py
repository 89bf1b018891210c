"""A repository with two tiny crates and one number, which real cargo builds in a second: what two revisions of it
answer is known.

Why a process for each question: where things lie is read from the place of the package when it is imported.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from run_benches import places

_FILES = {
    ".gitignore": "/target\n/runs\n/run_benches\n/.venv\n/.cargo/libclang\n/.cargo/local.toml\n",
    "Cargo.toml": """
[workspace]
members = ["benches/harness"]
[package]
name = "answer"
version = "0.1.0"
edition = "2024"
autobenches = false
[features]
double = []
[dev-dependencies]
answer-harness = { path = "benches/harness" }
[[bench]]
name = "first"
harness = false
[[bench]]
name = "second"
harness = false
""",
    "src/lib.rs": "pub mod number;\n",
    "src/main.rs": "fn main() {}\n",
    "benches/first.rs": 'fn main() {\n    println!("first {}", answer_harness::shown(answer::number::number()));\n}\n',
    "benches/second.rs": 'fn main() {\n    println!("second {}", answer::number::number());\n}\n',
    "benches/harness/Cargo.toml": '[package]\nname = "answer-harness"\nversion = "0.1.0"\nedition = "2024"\n',
    "benches/harness/src/lib.rs": "#[inline(never)]\npub fn shown(number: u32) -> String {\n    number.to_string()\n}\n",
}


@dataclass(frozen=True)
class Workspace:
    """The repository, and the folders beside it that a comparison uses."""

    root: Path

    @property
    def cache(self) -> Path:
        return self.root.parent / "cache"

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def number(self, number: int) -> None:
        """Changes the one constant on which the answers rest."""
        factor = 'if cfg!(feature = "double") { 2 } else { 1 }'
        self.write("src/number.rs", f"#[inline(never)]\npub fn number() -> u32 {{\n    {number} * {factor}\n}}\n")

    def commit(self) -> str:
        """Commits everything; returns the hash."""
        self.call("git", "add", "-A")
        self.call(
            "git", "-c", "user.name=test", "-c", "user.email=test", "commit", "-q", "--allow-empty", "-m", "a commit"
        )
        return self.call("git", "rev-parse", "HEAD")

    def call(self, *command: str | Path, **environment: str) -> str:
        done = subprocess.run(
            command, cwd=self.root, env=self.environment() | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def environment(self) -> dict[str, str]:
        scrubbed = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CARGO_", "RUST", "STRATA_", "GIT_", "PYTHONDONTWRITE"))
        }
        paths = {
            "STRATA_COMPARE_DIR": self.cache,
            "XDG_CACHE_HOME": self.cache,
            "CARGO_TARGET_DIR": self.root / "target",
            "PYTHONPATH": self.root,
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        return scrubbed | {name: str(path) for name, path in paths.items()} | {"CARGO_NET_OFFLINE": "true"}

    def python(self, *lines: str, **environment: str) -> str:
        """Runs code with this repository as its checkout, and returns what it prints."""
        return self.call(
            sys.executable,
            "-c",
            "\n".join(
                [
                    "from run_benches.compare import revisions, worktree",
                    "from run_benches.measure import relink",
                    *lines,
                ]
            ),
            **environment,
        )

    def build(self, commit: str, side: str = "a", options: str = "") -> dict[str, tuple[Path, str]]:
        """Executable and code of each target of a side."""
        built = json.loads(
            self.python(
                "import json",
                f"built = worktree.build_side(revisions.resolve({commit!r}), {side!r}, {options})",
                "print(json.dumps({name: [str(target.executable), target.code] for name, target in built.items()}))",
            )
        )
        return {name: (Path(executable), code) for name, (executable, code) in built.items()}

    def answers(self, commit: str, side: str = "a", options: str = "") -> list[str]:
        """Returns what the benches of a side print."""
        return [self.call(executable) for executable, _ in self.build(commit, side, options).values()]


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that passes for libclang: nothing here needs it, and nothing is installed."""
    library = tmp_path_factory.mktemp("libclang") / "libclang.so"
    subprocess.run(
        ["cc", "-shared", "-x", "c", "-o", library, "-"],
        input="void clang_getClangVersion(void) {}",
        text=True,
        check=True,
    )
    return library


@pytest.fixture
def workspace(tmp_path: Path, stub: Path) -> Workspace:
    """One for each test."""
    return repository(tmp_path / "checkout", stub)


def repository(root: Path, stub: Path) -> Workspace:
    """A repository whose number is 1, with one commit on the branch main."""
    made = Workspace(root)
    for path, text in _FILES.items():
        made.write(path, text)
    (made.root / "run_benches").symlink_to(places.ROOT / "run_benches")
    (made.root / ".venv").symlink_to(sys.prefix)
    (made.root / ".cargo/libclang/clang/native").mkdir(parents=True)
    (made.root / ".cargo/libclang/clang/native/libclang.so").symlink_to(stub)
    made.number(1)
    made.call("cargo", "generate-lockfile")
    made.call("git", "init", "-q", "-b", "main")
    made.commit()
    return made
