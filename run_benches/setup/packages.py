"""`.venv`, in which every command runs, and the packages from PyPI in it: installed on first need, by locked version
and hash.

Neither this file nor what it imports needs more than the standard library. Why by hand: the runner starts on a bare
Python, and Debian's has neither pip nor `ensurepip`. So the virtual environment is made without pip, and pip itself is
used out of its wheel: Python's own where there is one, else the one pinned here.

Why isolated: variables and settings of Python and pip (`PYTHONPATH` of ROS, `PIP_TARGET`) put other packages before
ours, or ours elsewhere. So no Python that is started here sees any of them, and pip gets only those by which it finds
the package index.
"""

import configparser
import fcntl
import hashlib
import os
import re
import shutil
import ssl
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from run_benches import files, interrupts, processes, scratch
from run_benches.errors import UserError
from run_benches.places import ROOT, RUNS, VENV

PIP_WHEEL = "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
REQUIREMENTS = ROOT / "requirements.txt"
FULL_REQUIREMENTS = ROOT / "requirements-full.txt"
PYTHON = VENV / "bin" / "python"

STAMP = VENV / "made-from"
"""The hash of the requirements that `.venv` was made from, and the modules that could be imported then."""

NETWORK_SETTINGS = (
    "index-url",
    "extra-index-url",
    "no-index",
    "find-links",
    "trusted-host",
    "proxy",
    "cert",
    "client-cert",
    "keyring-provider",
    "timeout",
    "default-timeout",
    "retries",
)
"""All that pip takes over from the machine: where packages come from, and the way there."""

_IMPORT = """
import importlib, importlib.metadata, re, sys
wanted = set(sys.argv[1:])
found = {module: {re.sub("[-_.]+", "-", one).lower() for one in names} & wanted for module, names in importlib.metadata.packages_distributions().items()}
lacking = wanted.difference(*found.values())
if lacking:
    sys.exit(f"{', '.join(sorted(lacking))}: not there")
modules = [module for module, names in sorted(found.items()) if names and module.isidentifier()]
for module in modules:
    importlib.import_module(module)
print(*modules)
"""
"""Imports every module of the named packages, and prints their names in its last line."""

_FIND = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"


def ensure_environment() -> Path:
    """Makes `.venv` hold exactly what requirements.txt says; returns its Python."""
    if _is_good():
        return PYTHON
    with one_at_a_time():
        if _is_good():
            return PYTHON
        print("making .venv from requirements.txt (once; a minute or two)", file=sys.stderr)
        if VENV.is_file() or (VENV.is_symlink() and not VENV.exists()):
            VENV.unlink()
        shutil.rmtree(VENV, ignore_errors=True)
        _call(
            [sys.executable, "-I", "-m", "venv", "--without-pip", str(VENV)],
            "cannot make .venv; with Debian: apt-get install python3-venv",
            {},
        )
        install(str(PYTHON), REQUIREMENTS, [])
        names = re.findall(r"^([\w.-]+)==", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
        said = _call([str(PYTHON), "-I", "-c", _IMPORT, *names], "what pip has put into .venv cannot be imported", {})
        files.replace(STAMP, f"{_digest()} {said.splitlines()[-1]}\n")
    return PYTHON


def enter_environment(arguments: list[str]) -> None:
    """Starts this program anew inside `.venv` and isolated, unless it runs so already. What it starts inherits that."""
    inside = Path(sys.prefix).resolve() == VENV.resolve()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if not inside or not sys.flags.isolated or environment != dict(os.environ):
        with scratch.of_the_command():
            python = PYTHON if inside else ensure_environment()
        sys.stdout.flush()
        interrupts.wait_for_heed()
        os.execve(python, [str(python), "-I", str(ROOT / "run-benches.py"), *arguments], environment)


def add_full() -> None:
    """Adds what only `test --full` needs to `.venv`, in which this runs; what is there already takes two seconds."""
    with one_at_a_time():
        install(sys.executable, FULL_REQUIREMENTS, [])


def install(python: str, requirements: Path, options: list[str]) -> None:
    """Installs what a locked requirements file lists, checking every hash."""
    wheel = _bundled_pip() or _fetched_pip()
    settings = {name: value for name in NETWORK_SETTINGS if (value := pip_setting(name))}
    variables = {_variable(name): " ".join(value.split()) for name, value in settings.items()}
    command = [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--only-binary",
        ":all:",
        *options,
        "-r",
        str(requirements),
    ]
    error = f"pip could not install {requirements.name}; check the network, or pip's index settings"
    _call([python, "-I", str(wheel / "pip"), *command], error, {**variables, "PIP_CONFIG_FILE": os.devnull})


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Waits for another command that installs something into this checkout."""
    RUNS.mkdir(exist_ok=True)
    with (RUNS / "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another command, which is installing packages into this checkout", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)  # A pip that outlives us goes on installing.
        yield


def _is_good() -> bool:
    """Returns whether `.venv` was made from these requirements, and finds now what it could import then."""
    made_from = STAMP.read_text(encoding="utf-8").split() if STAMP.exists() else []
    if made_from[:1] != [_digest()]:
        return False
    try:
        return processes.captured([PYTHON, "-I", "-c", _FIND, *made_from[1:]], env=_environment({})).returncode == 0
    except OSError:
        return False


def _digest() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def _environment(more: dict[str, str]) -> dict[str, str]:
    """Ours without what Python and pip would read there."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))} | more


def _call(command: list[str], error: str, variables: dict[str, str]) -> str:
    done = processes.captured(command, env=_environment(variables), stderr=processes.STDOUT, close_fds=False)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"{error} ({last})")
    return done.stdout


def _bundled_pip() -> Path | None:
    try:
        import ensurepip
    except ImportError:
        return None
    return next(iter(sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))), None)


def _fetched_pip() -> Path:
    """pip's wheel out of the package index, known by its hash."""
    kept = ROOT / "runs" / PIP_WHEEL
    if kept.exists() and hashlib.sha256(kept.read_bytes()).hexdigest() == PIP_SHA256:
        return kept
    index = (pip_setting("index-url") or "https://pypi.org/simple").rstrip("/") + "/pip/"
    try:
        page = _fetch(index, "text/html").decode("utf-8", "replace")
        found = re.search(rf'href="([^"]*/{re.escape(PIP_WHEEL)})[^"]*"', page)
        content = _fetch(urllib.parse.urljoin(index, found[1]), "*/*") if found else b""
    except OSError as error:
        raise UserError(
            f"cannot fetch pip from the package index: {error}; with Debian: apt-get install python3-venv"
        ) from error
    if hashlib.sha256(content).hexdigest() != PIP_SHA256:
        raise UserError(
            f"the package index has no {PIP_WHEEL} with the expected hash; with Debian: apt-get install python3-venv"
        )
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(content)
    return kept


def _fetch(url: str, accept: str) -> bytes:
    trusted = ssl.create_default_context(cafile=pip_setting("cert"))
    proxy = pip_setting("proxy")
    proxies = [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusted), *proxies)
    with opener.open(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
        content: bytes = answer.read()
    return content


def pip_setting(name: str) -> str | None:
    """A setting of pip, from its environment variable or its files, as pip itself would find it."""
    in_environment = os.environ.get(_variable(name))
    if in_environment:
        return in_environment
    home, named = os.environ.get("XDG_CONFIG_HOME") or "~/.config", os.environ.get("PIP_CONFIG_FILE", "")
    places = [
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
        "~/.pip/pip.conf",
        f"{home}/pip/pip.conf",
        f"{sys.base_prefix}/pip.conf",
        f"{sys.prefix}/pip.conf",
        named,
    ]
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    settings.optionxform = lambda option: option.lower().replace("_", "-")  # type: ignore[assignment,method-assign]
    try:
        settings.read(
            [os.path.expanduser(place) for place in places if place and named != os.devnull], encoding="utf-8"
        )
    except (configparser.Error, UnicodeDecodeError) as error:
        raise UserError(f"pip's settings cannot be read: {' '.join(str(error).split())}") from error
    return settings.get("install", name, fallback=None) or settings.get("global", name, fallback=None)


def _variable(setting: str) -> str:
    return "PIP_" + setting.upper().replace("-", "_")
