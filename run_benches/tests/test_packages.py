"""`.venv`, whatever the shell says to Python and pip: a fake pip puts one module where real pip would put it."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from run_benches import places
from run_benches.errors import UserError
from run_benches.setup import packages
from run_benches.tests.checkout import Checkout

PIP = """
import configparser, json, os, pathlib, site, sys, time
settings = configparser.ConfigParser()
if os.environ.get("PIP_CONFIG_FILE") != os.devnull:
    settings.read([os.environ.get("PIP_CONFIG_FILE", ""), os.path.expanduser("~/.config/pip/pip.conf")])
target = os.environ.get("PIP_TARGET") or settings.get("install", "target", fallback=None) or settings.get("global", "target", fallback=None)
folder = pathlib.Path(target or site.getsitepackages()[0])
with open(f"{ROOT}/pip.log", "a") as log:
    log.write(json.dumps([sys.argv[1:], {name: value for name, value in os.environ.items() if name.startswith(("PIP", "PYTHON"))}, sys.flags.isolated]) + chr(10))
time.sleep(float(os.environ.get("SLOW", "0")))
if "PIP_DRY_RUN" not in os.environ:
    (folder / "tiny_one-1.dist-info").mkdir(parents=True)
    (folder / "tiny_one-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\\nName: tiny.one\\nVersion: 1\\n")
    (folder / "tiny_one-1.dist-info/RECORD").write_text("tiny.py,,\\ntiny_one-1.dist-info/METADATA,,\\ntiny_one-1.dist-info/RECORD,,\\n")
    (folder / "tiny.py").write_text(os.environ.get("TINY", ""))
"""

ENSURE = """
import os, sys, pathlib
sys.path.insert(0, os.getcwd())
from run_benches.errors import UserError
from run_benches.setup import packages
packages._bundled_pip = lambda: pathlib.Path(os.getcwd()) / "wheel"
try:
    packages.ensure_environment()
except UserError as complaint:
    sys.exit(str(complaint))
"""


class Bare:
    """A checkout in which no command has run yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "wheel/pip").mkdir(parents=True)
        (root / "wheel/pip/__main__.py").write_text(f"ROOT = {str(root)!r}\n{PIP}")
        (root / "run_benches").symlink_to(places.ROOT / "run_benches")
        (root / "requirements.txt").write_text("# Locked.\ntiny-one==1 \\\n    --hash=sha256:00\n")

    def start(self, **variables: str) -> "subprocess.Popen[str]":
        """A command that needs `.venv`."""
        scrubbed = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        return subprocess.Popen(
            [sys.executable, "-c", ENSURE],
            cwd=self.root,
            env={**scrubbed, "HOME": str(self.root), **variables},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ensure(self, **variables: str) -> str:
        """Has `.venv` made if need be; what was said."""
        return self.start(**variables).communicate(timeout=60)[1]

    def imports(self) -> bool:
        return (
            subprocess.run(
                [self.root / ".venv/bin/python", "-I", "-c", "import tiny"], stderr=subprocess.DEVNULL, check=False
            ).returncode
            == 0
        )

    def installed(self) -> int:
        """Returns how often pip has run."""
        return len((self.root / "pip.log").read_text().splitlines()) if (self.root / "pip.log").exists() else 0


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "checkout")


SETTINGS = {
    "PIP_TARGET": "elsewhere",
    "PIP_PREFIX": "elsewhere",
    "PIP_ROOT": "elsewhere",
    "PIP_USER": "1",
    "PIP_DRY_RUN": "1",
    "PIP_NO_DEPS": "1",
    "PIP_CONFIG_FILE": "pip.conf",
    "PYTHONPATH": "others",
    "PYTHONSAFEPATH": "1",
    "PYTHONUSERBASE": "elsewhere",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONOPTIMIZE": "2",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_that_is_said_to_python_or_pip_reaches_into_the_venv(bare: Bare, name: str) -> None:
    (bare.root / "pip.conf").write_text("[install]\ntarget = elsewhere\n")
    (bare.root / ".config/pip").mkdir(parents=True)
    (bare.root / ".config/pip/pip.conf").write_text(
        "[global]\ntarget = elsewhere\nindex-url = https://mirror.example/simple\n"
    )
    (bare.root / "others").mkdir()
    (bare.root / "others/tiny.py").write_text("raise ImportError")
    (bare.root / "others/venv.py").write_text("raise ImportError")
    assert "making .venv" in bare.ensure(**{name: SETTINGS[name]})
    assert bare.imports() and not (bare.root / "elsewhere").exists()
    _, variables, isolated = json.loads((bare.root / "pip.log").read_text())
    assert isolated and variables.pop("PIP_CONFIG_FILE") == os.devnull
    assert set(variables) <= {packages._variable(setting) for setting in packages.NETWORK_SETTINGS}
    assert bare.ensure(**{name: SETTINGS[name]}) == "" and bare.installed() == 1


def test_pip_gets_what_leads_to_the_package_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/pip.conf").write_text(
        "[global]\ntarget = /x\nindex_url = https://a.example\ntrusted-host =\n    a.example\n    b.example\n[install]\nindex-url = https://b.example\n"
    )
    monkeypatch.setenv("PIP_CERT", "/ca.pem")
    seen: dict[str, str] = {}
    monkeypatch.setattr(packages, "_bundled_pip", lambda: tmp_path)
    monkeypatch.setattr(packages, "_call", lambda command, error, variables: seen.update(variables))
    packages.install("python", tmp_path, [])
    assert seen == {
        "PIP_INDEX_URL": "https://b.example",
        "PIP_TRUSTED_HOST": "a.example b.example",
        "PIP_CERT": "/ca.pem",
        "PIP_CONFIG_FILE": os.devnull,
    }
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert packages.pip_setting("index-url") is None, "pip reads no file then"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "broken"))
    (tmp_path / "broken").write_text("index-url = x\n")
    with pytest.raises(UserError, match="broken"):
        packages.pip_setting("index-url")


def test_a_venv_that_cannot_import_is_not_good(bare: Bare) -> None:
    assert "nowhere" in bare.ensure(TINY="import nowhere") and not bare.imports()
    assert "making .venv" in bare.ensure() and bare.imports()


def _python_removed(venv: Path) -> None:
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to(venv / "nowhere")


def _python_upgraded(venv: Path) -> None:
    next(venv.glob("lib/python3*")).rename(venv / "lib/python3.0")


def _no_program(venv: Path) -> None:
    (venv / "bin/python").unlink()
    (venv / "bin/python").write_text("")


def _package_removed(venv: Path) -> None:
    next(venv.glob("lib/*/site-packages/tiny.py")).unlink()


def _half_made(venv: Path) -> None:
    shutil.rmtree(venv / "lib")
    (venv / "made-from").unlink()


@pytest.mark.parametrize("harm", [_python_removed, _python_upgraded, _no_program, _package_removed, _half_made])
def test_a_venv_that_is_broken_later_is_made_anew(bare: Bare, harm: Callable[[Path], None]) -> None:
    bare.ensure()
    harm(bare.root / ".venv")
    assert "making .venv" in bare.ensure() and bare.imports()


def test_a_copy_of_a_checkout_has_a_good_venv(bare: Bare) -> None:
    bare.ensure()
    copy = Bare(bare.root.parent / "copy")
    shutil.copytree(bare.root / ".venv", copy.root / ".venv", symlinks=True)
    assert copy.ensure() == "" and copy.imports()


def test_two_first_commands_wait_for_one_another(bare: Bare) -> None:
    first = bare.start(SLOW="2")
    while not bare.installed():
        time.sleep(0.05)
    said = bare.ensure()
    assert "waiting" in said and "making" not in said
    assert first.wait(60) == 0 and bare.imports() and bare.installed() == 1


def test_a_first_command_that_was_killed_leaves_nothing_good(bare: Bare) -> None:
    first = bare.start(SLOW="2")
    while not bare.installed():
        time.sleep(0.05)
    first.kill()
    first.wait()
    said = bare.ensure()
    assert "waiting" in said, "for the pip that outlived it"
    assert "making .venv" in said and bare.imports() and bare.installed() == 2


@pytest.mark.parametrize("option", ["-I", "-P", "-E", "-s"])
def test_a_command_runs_with_the_locked_packages_only(checkout: Checkout, option: str) -> None:
    others = checkout.root / "others"
    for module in ("msgspec", "run_benches", "enum", "pathlib", "argparse", "subprocess"):
        (others / module).mkdir(parents=True)
        (others / module / "__init__.py").write_text("raise RuntimeError('another package')")
    python = [sys.executable] if option == "-s" else [sys.executable, option]
    for variables in (
        {"PYTHONPATH": str(others)},
        {"PYTHONSAFEPATH": "1"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONIOENCODING": "ascii"},
    ):
        environment = checkout.environment() | variables
        done = subprocess.run(
            [*python, checkout.root / "run-benches.py", "list"],
            env=environment,
            cwd=others,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 and "storage" in done.stdout, done


def test_what_the_runner_starts_is_python_by_itself_too(checkout: Checkout) -> None:
    (checkout.root / "run_benches").unlink()
    shutil.copytree(
        places.ROOT / "run_benches",
        checkout.root / "run_benches",
        ignore=shutil.ignore_patterns("tests", "__pycache__"),
    )
    shown = "import os, sys; print([name for name in os.environ if name.startswith('PYTHON')], sys.flags.isolated)"
    (checkout.root / "run_benches/cli/commands.py").write_text(
        textwrap.dedent(f"""
        import subprocess, sys
        def carry_out(options, arguments):
            {shown}
            sys.stdout.flush()
            return subprocess.run([sys.executable, "-c", {shown!r}]).returncode
        """)
    )
    done = checkout.run("list", PYTHONPATH="/x", PYTHONNOUSERSITE="1", PYTHONSTARTUP="/x")
    assert done.stdout.splitlines() == ["[] 1", "[] 0"], done
