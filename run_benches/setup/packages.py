"""`.venv`, in which every command runs, and the packages from PyPI in it: installed on first need, by locked version and hash.

Neither this file nor what it imports needs more than the standard library. Why by hand: the runner starts on a bare Python, and Debian's
has neither pip nor `ensurepip`. So the virtual environment is made without pip, and pip itself is used out of its wheel: Python's own
where there is one, else the one pinned here. Index and certificates are those of pip's own settings, if the machine has any.
"""

import configparser
import hashlib
import os
import re
import shutil
import ssl
import sys
import urllib.parse
import urllib.request
from pathlib import Path

from run_benches import files, interrupts, processes, scratch
from run_benches.errors import Complaint
from run_benches.places import ROOT, VENV

PIP_WHEEL = "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
REQUIREMENTS = ROOT / "requirements.txt"
FULL_REQUIREMENTS = ROOT / "requirements-full.txt"
PYTHON = VENV / "bin" / "python"


def ensure_environment() -> Path:
    """Makes `.venv` hold exactly what requirements.txt says; returns its Python."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    stamp = VENV / "made-from.sha256"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return PYTHON
    print("making .venv from requirements.txt (once; a minute or two)", file=sys.stderr)
    shutil.rmtree(VENV, ignore_errors=True)
    _call([sys.executable, "-m", "venv", "--without-pip", str(VENV)], "cannot make .venv; with Debian: apt-get install python3-venv")
    install(str(PYTHON), REQUIREMENTS, [])
    files.replace(stamp, wanted)
    return PYTHON


def enter_environment(arguments: list[str]) -> None:
    """Starts this program anew inside `.venv`, unless it runs there already."""
    if Path(sys.prefix).resolve() != VENV.resolve():
        with scratch.of_the_command():
            python = ensure_environment()
        sys.stdout.flush()
        interrupts.wait_for_heed()
        os.execv(python, [str(python), str(ROOT / "run-benches.py"), *arguments])


def add_full() -> None:
    """Adds what only `test --full` needs to `.venv`, in which this runs; what is there already takes two seconds."""
    install(sys.executable, FULL_REQUIREMENTS, [])


def install(python: str, requirements: Path, options: list[str]) -> None:
    """Installs what a locked requirements file lists, checking every hash."""
    wheel = _bundled_pip() or _fetched_pip()
    environment = {**os.environ, "PYTHONPATH": str(wheel), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", *options, "-r", str(requirements)]
    _call(command, f"pip could not install {requirements.name}; check the network, or pip's index settings", environment)


def _call(command: list[str], complaint: str, environment: dict[str, str] | None = None) -> None:
    done = processes.told(command, env=environment, stderr=processes.STDOUT)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise Complaint(f"{complaint} ({last})")


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
        raise Complaint(f"cannot fetch pip from the package index: {error}; with Debian: apt-get install python3-venv") from error
    if hashlib.sha256(content).hexdigest() != PIP_SHA256:
        raise Complaint(f"the package index has no {PIP_WHEEL} with the expected hash; with Debian: apt-get install python3-venv")
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(content)
    return kept


def _fetch(url: str, accept: str) -> bytes:
    trusted = ssl.create_default_context(cafile=pip_setting("cert"))
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=60, context=trusted) as answer:
        content: bytes = answer.read()
    return content


def pip_setting(name: str) -> str | None:
    """A setting of pip, from its environment variable or its files, as pip itself would find it."""
    in_environment = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if in_environment:
        return in_environment
    files = ["/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf", os.environ.get("PIP_CONFIG_FILE", "")]
    settings = configparser.ConfigParser(interpolation=None)
    settings.read([os.path.expanduser(file) for file in files if file], encoding="utf-8")
    return settings.get("global", name, fallback=None)
